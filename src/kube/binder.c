/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
#include "kube/binder.h"

#include "base/mem.h"
#include "codec/annotation.h"
#include "codec/lease_object.h"
#include "codec/objects.h"
#include "codec/requests.h"
#include "core/names.h"
#include "kube/client.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define FIELD_MANAGER "deviceshare-extender"

struct binder {
    struct binder_options options;

    pthread_mutex_t mutex; /* of what follows; never held over I/O */
    pthread_cond_t freed;   /* a client came back, or a caller left */
    pthread_cond_t stopped;
    struct kube_client **clients;
    struct kube_client **idle; /* a stack: the one used last has the youngest connection */
    uint32_t idle_count;
    uint32_t callers; /* that have a client or wait for one */
    bool stopping;
};

/* ---- the pool ---- */

static void leave_locked(struct binder *binder)
{
    binder->callers--;
    if (binder->stopping)
        pthread_cond_broadcast(&binder->freed);
    else
        pthread_cond_signal(&binder->freed);
}

static struct kube_client *borrow(struct binder *binder, struct error *err)
{
    struct kube_client *client = NULL;
    pthread_mutex_lock(&binder->mutex);
    binder->callers++;
    while (binder->idle_count == 0 && !binder->stopping)
        pthread_cond_wait(&binder->freed, &binder->mutex);
    if (binder->stopping)
        leave_locked(binder);
    else
        client = binder->idle[--binder->idle_count];
    pthread_mutex_unlock(&binder->mutex);
    if (client == NULL)
        error_set(err, -ECANCELED, "not sent: the process stops");
    return client;
}

static void give_back(struct binder *binder, struct kube_client *client)
{
    pthread_mutex_lock(&binder->mutex);
    binder->idle[binder->idle_count++] = client;
    leave_locked(binder);
    pthread_mutex_unlock(&binder->mutex);
}

/* Let time pass; false when the process stops meanwhile. */
static bool pause_ms(struct binder *binder, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ms % 1000 * 1000000;
    until.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);

    pthread_mutex_lock(&binder->mutex);
    int rc = 0;
    while (!binder->stopping && rc == 0)
        rc = pthread_cond_timedwait(&binder->stopped, &binder->mutex, &until);
    bool go_on = !binder->stopping;
    pthread_mutex_unlock(&binder->mutex);
    return go_on;
}

/* ---- one call ---- */

/* A call to the API server: what it is about, and what came back. */
struct call {
    struct binder *binder;
    struct kube_client *client;
    struct arena mem;
    struct strbuf path, body, answer;
    struct kube_response response;
    uint64_t permit;          /* of the binding */
    const char *fence_reason; /* why the fence held it back; NULL: it did not */
    unsigned sends;           /* how often the request went out */
    struct status status;     /* of the answer */
    bool has_status;
};

static void call_done(struct call *call)
{
    if (call->client != NULL)
        give_back(call->binder, call->client);
    arena_done(&call->mem);
    strbuf_done(&call->path);
    strbuf_done(&call->body);
    strbuf_done(&call->answer);
}

#define AUTO_CALL __attribute__((cleanup(call_done))) struct call

/* The path of the pod and what follows it. Names were checked when they came in; they are again,
 * because here they become part of a URL. */
static int set_path(struct call *call, const struct pod_id *pod, const char *rest,
                    struct error *err)
{
    if (!name_is_label(pod->ns) || !name_is_subdomain(pod->name))
        return error_set(err, -EINVAL, "not the name of a pod: \"%.*s/%.*s\"", STR_ARG(pod->ns),
                         STR_ARG(pod->name));
    call->path.len = 0;
    strbuf_printf(&call->path, "/api/v1/namespaces/%.*s/pods/%.*s%s", STR_ARG(pod->ns),
                  STR_ARG(pod->name), rest);
    return call->path.failed ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static void read_status(struct call *call)
{
    struct error unreadable;
    struct str answer = {call->answer.data, call->answer.len};
    call->status = (struct status){0};
    call->has_status =
        answer.len > 0 && status_decode(answer, &call->mem, &call->status, &unreadable) == 0;
}

static int perform(struct call *call, const struct kube_request *request, struct error *err)
{
    call->answer.len = 0;
    call->sends = 0;
    call->fence_reason = NULL;
    int rc = kube_client_send(call->client, request, &call->answer, &call->response, err);
    if (rc == 0)
        read_status(call);
    return rc;
}

/* The sentence of an answer that is not the one hoped for. */
static int answer_error(const struct call *call, int code, struct error *err)
{
    if (call->has_status && call->status.message.len > 0)
        return error_set(err, code, "HTTP %d: %.*s", call->response.status,
                         STR_ARG(call->status.message));
    return error_set(err, code, "HTTP %d without a readable Status", call->response.status);
}

/* ---- reading a pod ---- */

/* Read the pod; its JSON stays in call->answer. -ENOENT only on the API server's own word. */
static int read_pod(struct call *call, const struct pod_id *id, struct arena *mem, struct pod *ret,
                    struct error *err)
{
    struct kube_request request = {.method = "GET",
                                   .timeout_ms = call->binder->options.bind_timeout_ms};
    int rc = set_path(call, id, "", err);
    if (rc < 0)
        return rc;
    request.path = call->path.data;
    rc = perform(call, &request, err);
    if (rc < 0)
        return rc;
    if (call->response.status == 404 && call->has_status && str_is(call->status.reason, "NotFound"))
        return answer_error(call, -ENOENT, err);
    if (call->response.status != 200)
        return answer_error(call, -EIO, err);
    return object_decode_pod((struct str){call->answer.data, call->answer.len}, mem, ret, err);
}

static int get_pod(void *self, const struct pod_id *id, struct arena *mem, struct pod *ret,
                   struct error *err)
{
    struct binder *binder = self;
    AUTO_CALL call = {.binder = binder, .client = borrow(binder, err)};
    if (call.client == NULL)
        return -ECANCELED;
    return read_pod(&call, id, mem, ret, err);
}

/* ---- binding ---- */

/* libcurl is about to send, perhaps for the second time. */
static bool may_send(void *self)
{
    struct call *call = self;
    call->fence_reason = fence_reason_for(call->binder->options.fence, call->permit);
    if (call->fence_reason != NULL)
        return false;
    call->sends++;
    return true;
}

static bool has_our_annotation(const struct call *call, const struct placement *placement,
                               struct arena *mem)
{
    if (placement->count == 0)
        return true;
    struct str json = {call->answer.data, call->answer.len}, found = {0};
    struct strbuf ours = {0};
    annotation_format(placement, &ours);
    bool same = object_annotation(json, ANNOTATION_DEVICE_ALLOCATED, mem, &found, NULL) == 0 &&
                found.data != NULL && !ours.failed &&
                str_eq(found, (struct str){ours.data, ours.len});
    strbuf_done(&ours);
    return same;
}

/* The answer left it open: let the pod say where it is. If it cannot, `err` stays as it is. */
static enum bind_outcome ask_the_pod(struct call *call, const struct binding *binding,
                                     struct error *err)
{
    struct pod pod;
    struct error why = {0};
    int rc = read_pod(call, &binding->pod, &call->mem, &pod, &why);
    if (rc == -ENOENT || (rc == 0 && !str_eq(pod.id.uid, binding->pod.uid))) {
        error_set(err, -ENOENT, "the pod is gone");
        return BIND_REFUSED;
    }
    if (rc < 0 || pod.node_name.len == 0)
        return BIND_UNKNOWN;
    if (!str_eq(pod.node_name, binding->node)) {
        error_set(err, -EEXIST, "the pod is bound to node \"%.*s\"", STR_ARG(pod.node_name));
        return BIND_REFUSED;
    }
    if (!has_our_annotation(call, binding->placement, &call->mem)) {
        error_set(err, -EEXIST, "the pod is bound to this node with another allocation");
        return BIND_REFUSED;
    }
    return BIND_DONE;
}

static bool message_has(const struct call *call, const char *words)
{
    struct str text = call->status.message;
    return text.len > 0 && memmem(text.data, text.len, words, strlen(words)) != NULL;
}

/* The texts of a 409 (pkg/registry/core/pod/storage): the pod cannot take a binding at all.
 * "already assigned" is not among them, it may have been assigned by ourselves. */
static bool is_final_conflict(const struct call *call)
{
    if (message_has(call, "UID in precondition"))
        return true;
    return call->sends == 1 &&
           (message_has(call, "is being deleted") || message_has(call, "schedulingGates"));
}

/* What an answer means. One that is no Status may be anybody's on the way, and a refusal of a
 * request that was repeated on a new connection says nothing of the first one: then the pod is
 * asked. */
static enum bind_outcome judge(struct call *call, const struct binding *binding, struct error *err)
{
    answer_error(call, -EIO, err);
    bool sure = call->has_status && call->sends == 1;
    switch (call->response.status) {
    case 201:
        if (call->has_status && call->status.success)
            return BIND_DONE;
        break;
    case 404:
        if (call->has_status)
            return BIND_REFUSED;
        break;
    case 409:
        if (is_final_conflict(call))
            return BIND_REFUSED;
        break;
    case 429: /* refused at the door, often as plain text */
        if (call->sends == 1)
            return BIND_REFUSED;
        break;
    case 400:
    case 401:
    case 403:
    case 405:
    case 422:
        if (sure)
            return BIND_REFUSED;
        break;
    default: /* the server may still be at it, so the pod would say nothing for sure */
        return BIND_UNKNOWN;
    }
    return ask_the_pod(call, binding, err);
}

static bool is_worth_a_retry(const struct call *call)
{
    return call->response.status == 429 && call->sends == 1 && call->response.retry_after_ms >= 0 &&
           call->response.retry_after_ms <= call->binder->options.bind_timeout_ms;
}

static enum bind_outcome post(struct call *call, const struct binding *binding, struct error *err)
{
    const struct binder_options *options = &call->binder->options;
    struct kube_request request = {
        .method = "POST",
        .path = call->path.data,
        .body = {call->body.data, call->body.len},
        .timeout_ms = options->bind_timeout_ms + options->delivery_timeout_ms,
        .may_send = may_send,
        .may_send_self = call,
    };
    int rc = perform(call, &request, err);
    if (rc == 0 && is_worth_a_retry(call) && pause_ms(call->binder, call->response.retry_after_ms))
        rc = perform(call, &request, err);
    if (rc == 0)
        return judge(call, binding, err);
    if (call->response.sent)
        return BIND_UNKNOWN;
    if (call->fence_reason != NULL)
        error_set(err, -ECANCELED, "not sent: %s", call->fence_reason);
    return BIND_REFUSED;
}

static int prepare(struct call *call, const struct binding *binding, struct error *err)
{
    if (!name_is_subdomain(binding->node) || !name_is_uid(binding->pod.uid))
        return error_set(err, -EINVAL, "not the name of a node or not a UID: \"%.*s\", \"%.*s\"",
                         STR_ARG(binding->node), STR_ARG(binding->pod.uid));
    int rc = set_path(call, &binding->pod, "/binding?fieldManager=" FIELD_MANAGER, err);
    if (rc < 0)
        return rc;
    strbuf_printf(&call->path, "&timeout=%lldms", (long long)call->binder->options.bind_timeout_ms);
    uint32_t added_bytes;
    request_binding(&binding->pod, binding->node, binding->placement, &call->body, &added_bytes);
    if (call->path.failed || call->body.failed)
        return error_set(err, -ENOMEM, "out of memory");
    if (added_bytes > 0 && (uint64_t)binding->annotation_bytes + added_bytes > ANNOTATION_BYTES_MAX)
        return error_set(err, -E2BIG, "%u bytes of annotations and %u more pass the limit of %u",
                         binding->annotation_bytes, added_bytes, ANNOTATION_BYTES_MAX);
    return 0;
}

static enum bind_outcome bind_pod(void *self, const struct binding *binding, struct error *err)
{
    AUTO_CALL call = {.binder = self, .permit = binding->permit};
    if (prepare(&call, binding, err) < 0)
        return BIND_REFUSED;
    call.client = borrow(self, err);
    return call.client != NULL ? post(&call, binding, err) : BIND_REFUSED;
}

static uint64_t may_bind(void *self, struct error *err)
{
    struct binder *binder = self;
    struct fence *fence = binder->options.fence;
    uint64_t permit = fence_permit(fence);
    const char *reason = permit == 0 ? fence_reason(fence) : NULL;
    if (permit == 0)
        error_set(err, -ECANCELED, "not sent: %s", reason != NULL ? reason : "not a moment ago");
    return permit;
}

/* ---- waking ---- */

static int wake_pod(void *self, const struct pod_id *id, struct error *err)
{
    AUTO_CALL call = {.binder = self};
    struct binder *binder = self;
    struct kube_request request = {.method = "PATCH",
                                   .content_type = PATCH_CONTENT_TYPE,
                                   .timeout_ms = binder->options.bind_timeout_ms};
    char now[MICROTIME_TEXT_MAX];
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    microtime_format((int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000, now);

    int rc = set_path(&call, id, "?fieldManager=" FIELD_MANAGER, err);
    if (rc < 0)
        return rc;
    request_patch(id->uid, PATCH_ANNOTATION, ANNOTATION_WOKEN_AT, str_from(now), &call.body);
    if (call.body.failed)
        return error_set(err, -ENOMEM, "out of memory");
    request.path = call.path.data;
    request.body = (struct str){call.body.data, call.body.len};
    call.client = borrow(self, err);
    if (call.client == NULL)
        return -ECANCELED;
    rc = perform(&call, &request, err);
    if (rc < 0 || call.response.status == 200)
        return rc;
    return answer_error(&call, call.response.status == 404 ? -ENOENT : -EIO, err);
}

struct port binder_port(struct binder *binder)
{
    return (struct port){
        .get_pod = get_pod,
        .bind_pod = bind_pod,
        .wake_pod = wake_pod,
        .may_bind = may_bind,
        .self = binder,
    };
}

/* ---- life ---- */

static int open_clients(struct binder *binder, struct error *err)
{
    const struct binder_options *options = &binder->options;
    binder->clients = mem_calloc(options->clients, sizeof(struct kube_client *));
    binder->idle = mem_calloc(options->clients, sizeof(struct kube_client *));
    if (binder->clients == NULL || binder->idle == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < options->clients; i++) {
        struct error why = {.code = -ENOMEM, .text = "out of memory"};
        /* Every call states its own timeout; this one bounds how late a byte may be delivered. */
        binder->clients[i] = kube_client_open(options->access, options->delivery_timeout_ms, &why);
        if (binder->clients[i] == NULL)
            return error_set(err, why.code, "%s", why.text);
        binder->idle[binder->idle_count++] = binder->clients[i];
    }
    return 0;
}

int binder_new(const struct binder_options *options, struct binder **ret, struct error *err)
{
    assert(options->clients > 0 && options->bind_timeout_ms > 0 &&
           options->delivery_timeout_ms > 0);
    struct binder *binder = mem_calloc(1, sizeof *binder);
    if (binder == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    binder->options = *options;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&binder->mutex, NULL);
    pthread_cond_init(&binder->freed, NULL);
    pthread_cond_init(&binder->stopped, &attributes);
    pthread_condattr_destroy(&attributes);
    int rc = open_clients(binder, err);
    if (rc < 0) {
        binder_free(binder);
        return rc;
    }
    *ret = binder;
    return 0;
}

/* Wait until all callers have left, which they do at once when interrupted. */
static void stop(struct binder *binder)
{
    uint32_t opened = 0;
    while (binder->clients != NULL && opened < binder->options.clients &&
           binder->clients[opened] != NULL)
        opened++;
    pthread_mutex_lock(&binder->mutex);
    binder->stopping = true;
    pthread_cond_broadcast(&binder->freed);
    pthread_cond_broadcast(&binder->stopped);
    for (uint32_t i = 0; i < opened; i++)
        kube_client_interrupt(binder->clients[i]);
    while (binder->callers > 0)
        pthread_cond_wait(&binder->freed, &binder->mutex);
    pthread_mutex_unlock(&binder->mutex);
    for (uint32_t i = 0; i < opened; i++)
        kube_client_free(binder->clients[i]);
}

void binder_free(struct binder *binder)
{
    if (binder == NULL)
        return;
    stop(binder);
    pthread_cond_destroy(&binder->stopped);
    pthread_cond_destroy(&binder->freed);
    pthread_mutex_destroy(&binder->mutex);
    mem_free(binder->idle);
    mem_free(binder->clients);
    mem_free(binder);
}
