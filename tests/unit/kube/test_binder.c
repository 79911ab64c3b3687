/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/binder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "codec/requests.h"
#include "kube/client.h"
#include "script_server.h"

#define T_MS 600 /* memcheck is slow */
#define D_MS 300

/* ---- the world around a binder ---- */

/* What the server does with the n-th request; the last one again and again. */
static struct script_act acts[8];
static unsigned act_count;
static struct fence fence;
static unsigned
    close_fence_at; /* the fence is closed when this request comes; UINT32_MAX = never */

static struct script_act act(void *self, const struct script_request *request)
{
    (void)self;
    if (request->number == close_fence_at)
        fence_lost(&fence);
    assert_true(act_count > 0);
    return acts[request->number < act_count ? request->number : act_count - 1];
}

static struct script_server *server;
static struct api_access access;
static struct binder *binder;
static struct port port;
static struct placement placement;
static struct error err;

static int setup(void **state)
{
    (void)state;
    act_count = 0;
    close_fence_at = UINT32_MAX;
    server = script_start(act, NULL);
    access = (struct api_access){.server = script_url(server)};
    fence_init(&fence, clock_system(), T_MS, D_MS);
    fence_no_election(&fence);
    fence_open(&fence);
    struct binder_options options = {.access = &access,
                                     .clients = 1,
                                     .bind_timeout_ms = T_MS,
                                     .delivery_timeout_ms = D_MS,
                                     .fence = &fence};
    assert_int_equal(binder_new(&options, &binder, NULL), 0);
    port = binder_port(binder);
    placement.count = 1;
    placement.cards[0] = (struct placed_card){
        .share = {.kind = DEVICE_GPU, .minor = 1, .amount = {50, 50, 1 << 30}}, .id = "GPU-1"};
    err = (struct error){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    binder_free(binder);
    binder = NULL;
    script_stop(server);
    fence_done(&fence);
    return 0;
}

static struct script_act *next_act(enum script_how how, int status, const char *body)
{
    acts[act_count] = (struct script_act){.how = how, .status = status, .body = body};
    return &acts[act_count++];
}

static const struct pod_id pod_id = {STR("team"), STR("train-0"), STR("11-22")};

static enum bind_outcome bind_with(uint32_t annotation_bytes)
{
    struct binding binding = {.pod = pod_id,
                              .node = STR("node-1"),
                              .placement = &placement,
                              .annotation_bytes = annotation_bytes};
    return port.bind_pod(port.self, &binding, &err);
}

static enum bind_outcome bind_once(void)
{
    return bind_with(0);
}

/* ---- texts as kube-apiserver writes them ---- */

#define SUCCESS                                                                                    \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\",\"code\":"  \
    "201}"

#define FAILURE(code, reason, kind, message)                                                       \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","           \
    "\"message\":\"" message "\",\"reason\":\"" reason                                             \
    "\",\"details\":{\"name\":\"train-0\",\"kind\":\"" kind "\"},"                                 \
    "\"code\":" #code "}"

#define ASSIGNED                                                                                   \
    FAILURE(                                                                                       \
        409, "Conflict", "pods/binding",                                                           \
        "Operation cannot be fulfilled on pods/binding \\\"train-0\\\": pod train-0 is already "   \
        "assigned to node \\\"node-1\\\"")
#define OTHER_UID                                                                                  \
    FAILURE(409, "Conflict", "pods",                                                               \
            "Operation cannot be fulfilled on pods \\\"train-0\\\": Precondition failed: UID in "  \
            "precondition: 11-22, UID in object meta: 33-44")
#define DELETING                                                                                   \
    FAILURE(409, "Conflict", "pods/binding",                                                       \
            "Operation cannot be fulfilled on pods/binding \\\"train-0\\\": pod train-0 is being " \
            "deleted, cannot be assigned to a host")
#define GATED                                                                                      \
    FAILURE(409, "Conflict", "pods/binding",                                                       \
            "Operation cannot be fulfilled on pods/binding \\\"train-0\\\": pod train-0 has "      \
            "non-empty "                                                                           \
            ".spec.schedulingGates")
#define NOT_FOUND FAILURE(404, "NotFound", "pods", "pods \\\"train-0\\\" not found")

#define OUR_ANNOTATION                                                                             \
    "{\\\"gpu\\\":[{\\\"minor\\\":1,\\\"resources\\\":{\\\"koordinator.sh/"                        \
    "gpu-core\\\":\\\"50\\\","                                                                     \
    "\\\"koordinator.sh/gpu-memory\\\":\\\"1Gi\\\",\\\"koordinator.sh/"                            \
    "gpu-memory-ratio\\\":\\\"50\\\"},"                                                            \
    "\\\"id\\\":\\\"GPU-1\\\"}]}"
#define POD(uid, node, annotation)                                                                 \
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"train-0\",\"namespace\":"    \
    "\"team\","                                                                                    \
    "\"uid\":\"" uid                                                                               \
    "\",\"annotations\":{\"scheduling.koordinator.sh/device-allocated\":\"" annotation             \
    "\"}},\"spec\":{\"nodeName\":\"" node "\",\"containers\":[]}}"

/* ---- the write ---- */

static void one_write_with_precondition_and_timeout(void **state)
{
    (void)state;
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    assert_int_equal(bind_once(), BIND_DONE);
    assert_int_equal(script_count(server), 1);
    const char *text = script_text(server, 0);
    assert_ptr_equal(strstr(text, "POST /api/v1/namespaces/team/pods/train-0/binding?fieldManager="
                                  "deviceshare-extender&timeout=600ms HTTP/1.1\r\n"),
                     text);
    assert_non_null(strstr(text, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(text, "\"uid\":\"11-22\""));
    assert_non_null(strstr(text, "\"name\":\"node-1\""));
    assert_non_null(strstr(text, "device-allocated\":\"" OUR_ANNOTATION "\""));
    /* The next one uses the same connection. */
    assert_int_equal(bind_once(), BIND_DONE);
    assert_int_equal(script_connections(server), 1);
}

/* ---- each answer ---- */

struct row {
    const char *name;
    struct script_act bind, read; /* read.how only matters when the pod is to be read */
    enum bind_outcome outcome;
    unsigned requests;
    const char *text; /* part of the sentence; NULL = none is needed */
};

/* clang-format off */
#define ANSWER(code, text) {.how = SCRIPT_ANSWER, .status = (code), .body = (text)}
#define SAYS(name, code, text, outcome, words) {name, ANSWER(code, text), {0}, outcome, 1, words}
#define DOES(name, ...) {name, {__VA_ARGS__}, {0}, BIND_UNKNOWN, 1, NULL}
/* An answer after which the pod is read. */
#define ASKS(name, code, text, read, outcome, words) \
    {name, ANSWER(code, text), read, outcome, 2, words}

#define OURS      ANSWER(200, POD("11-22", "node-1", OUR_ANNOTATION))
#define ELSEWHERE ANSWER(200, POD("11-22", "node-2", OUR_ANNOTATION))
#define NOT_OURS  ANSWER(200, POD("11-22", "node-1", "{}"))
#define RECREATED ANSWER(200, POD("33-44", "node-1", OUR_ANNOTATION))
#define PENDING   ANSWER(200, POD("11-22", "", ""))
#define CUT       {.how = SCRIPT_HALF, .body = POD("11-22", "node-1", OUR_ANNOTATION)}
#define SILENCE   {.how = SCRIPT_SILENT}

static const struct row rows[] = {
    SAYS("bound", 201, SUCCESS, BIND_DONE, NULL),

    /* certain refusals, with the server's own words */
    SAYS("uid differs", 409, OTHER_UID, BIND_REFUSED, "UID in precondition"),
    SAYS("deleting", 409, DELETING, BIND_REFUSED, "is being deleted"),
    SAYS("gated", 409, GATED, BIND_REFUSED, "schedulingGates"),
    SAYS("gone", 404, NOT_FOUND, BIND_REFUSED, "not found"),
    SAYS("400", 400, FAILURE(400, "BadRequest", "", "bad name"), BIND_REFUSED, "bad name"),
    SAYS("401", 401, FAILURE(401, "Unauthorized", "", "who?"), BIND_REFUSED, "who?"),
    SAYS("403", 403, FAILURE(403, "Forbidden", "pods", "forbidden"), BIND_REFUSED, "forbidden"),
    SAYS("405", 405, FAILURE(405, "MethodNotAllowed", "", "no POST"), BIND_REFUSED, "no POST"),
    SAYS("422", 422, FAILURE(422, "Invalid", "pods", "by policy"), BIND_REFUSED, "by policy"),
    SAYS("429", 429, "Too many requests, please try again later.\n", BIND_REFUSED, "429"),

    /* it may have happened */
    SAYS("500", 500, FAILURE(500, "InternalError", "", "etcd"), BIND_UNKNOWN, "etcd"),
    SAYS("502", 502, "bad gateway", BIND_UNKNOWN, "502"),
    SAYS("503", 503, FAILURE(503, "ServiceUnavailable", "", "later"), BIND_UNKNOWN, "later"),
    SAYS("504", 504, FAILURE(504, "Timeout", "", "too long"), BIND_UNKNOWN, "too long"),
    SAYS("200", 200, SUCCESS, BIND_UNKNOWN, NULL),
    SAYS("302", 302, "", BIND_UNKNOWN, NULL),
    DOES("half an answer", .how = SCRIPT_HALF, .status = 201, .body = SUCCESS),
    DOES("closed after the request was read", .how = SCRIPT_DROP),
    DOES("reset after the request was read", .how = SCRIPT_RESET),
    DOES("slower than T + D", .how = SCRIPT_SILENT),

    /* already assigned: by whom? */
    ASKS("assigned by us", 409, ASSIGNED, OURS, BIND_DONE, NULL),
    ASKS("assigned elsewhere", 409, ASSIGNED, ELSEWHERE, BIND_REFUSED, "node-2"),
    ASKS("assigned here by others", 409, ASSIGNED, NOT_OURS, BIND_REFUSED, "another allocation"),
    ASKS("another pod by now", 409, ASSIGNED, RECREATED, BIND_REFUSED, "gone"),
    ASKS("gone by now", 409, ASSIGNED, ANSWER(404, NOT_FOUND), BIND_REFUSED, "gone"),
    ASKS("still pending", 409, ASSIGNED, PENDING, BIND_UNKNOWN, "already assigned"),
    ASKS("the read fails", 409, ASSIGNED, ANSWER(500, ""), BIND_UNKNOWN, "already assigned"),
    ASKS("the read is garbage", 409, ASSIGNED, ANSWER(200, "{\"kind\":"), BIND_UNKNOWN, NULL),
    ASKS("the read is not the server's", 409, ASSIGNED, ANSWER(404, "404"), BIND_UNKNOWN, NULL),
    ASKS("the read is cut", 409, ASSIGNED, CUT, BIND_UNKNOWN, NULL),
    ASKS("the read is slow", 409, ASSIGNED, SILENCE, BIND_UNKNOWN, "already assigned"),
    ASKS("an unknown conflict", 409, FAILURE(409, "Conflict", "pods", "again"), PENDING,
         BIND_UNKNOWN, "again"),

    /* answers that are not the API server's */
    ASKS("201 and garbage", 201, "<html>", PENDING, BIND_UNKNOWN, "201"),
    ASKS("201 and garbage, and bound", 201, "<html>", OURS, BIND_DONE, NULL),
    ASKS("201 and nothing", 201, "", PENDING, BIND_UNKNOWN, "201"),
    ASKS("201 and Failure", 201, FAILURE(500, "InternalError", "", "two"), PENDING, BIND_UNKNOWN,
         "two"),
    ASKS("403 of somebody on the way", 403, "blocked", OURS, BIND_DONE, NULL),
    ASKS("404 of somebody on the way", 404, "default backend", PENDING, BIND_UNKNOWN, NULL),
};
/* clang-format on */

static void each_answer_means_one_thing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        void *unused = NULL;
        setup(&unused);
        acts[act_count++] = row->bind;
        acts[act_count++] = row->read;
        enum bind_outcome outcome = bind_once();
        unsigned requests = script_count(server);
        if (outcome != row->outcome || requests != row->requests)
            fail_msg("%s: outcome %d after %u requests: %s", row->name, (int)outcome, requests,
                     err.text);
        if (outcome != BIND_DONE && err.code >= 0)
            fail_msg("%s: no error is given", row->name);
        if (row->text != NULL && strstr(err.text, row->text) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", row->name, err.text, row->text);
        teardown(&unused);
    }
}

static int64_t now_ms(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock) / 1000000;
}

static void a_slow_server_costs_t_and_d(void **state)
{
    (void)state;
    next_act(SCRIPT_SILENT, 0, "");
    int64_t start_ms = now_ms();
    assert_int_equal(bind_once(), BIND_UNKNOWN);
    int64_t took_ms = now_ms() - start_ms;
    assert_in_range(took_ms, T_MS + D_MS - 20, T_MS + D_MS + 10000);
}

/* ---- Retry-After ---- */

static void retry_after_is_obeyed_once_if_it_fits(void **state)
{
    (void)state;
    next_act(SCRIPT_ANSWER, 429, "slow down")->headers = "Retry-After: 1\r\n";
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    assert_int_equal(bind_once(), BIND_REFUSED); /* a second does not fit into T */
    assert_int_equal(script_count(server), 1);

    binder_free(binder);
    struct binder_options options = {.access = &access,
                                     .clients = 1,
                                     .bind_timeout_ms = 1500,
                                     .delivery_timeout_ms = D_MS,
                                     .fence = &fence};
    assert_int_equal(binder_new(&options, &binder, NULL), 0);
    port = binder_port(binder);
    acts[1] = acts[0]; /* the second request of all is refused again, the third is not */
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    int64_t start_ms = now_ms();
    assert_int_equal(bind_once(), BIND_DONE);
    assert_true(now_ms() - start_ms >= 1000);
    assert_int_equal(script_count(server), 3);
}

/* ---- connections that break ---- */

static void nothing_listens(void **state)
{
    (void)state;
    script_stop(server);
    server = NULL;
    assert_int_equal(bind_once(), BIND_REFUSED);
    assert_int_equal(err.code, -ECONNREFUSED);
}

static void reset_before_anything_was_read(void **state)
{
    (void)state;
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    script_reset_next(server, 1);
    /* Whether it was seen before or after the request went out is chance; only the first is
     * certain. */
    enum bind_outcome outcome = bind_once();
    assert_int_equal(outcome, err.code == -ECONNREFUSED ? BIND_REFUSED : BIND_UNKNOWN);
    assert_int_equal(script_count(server), 0);
}

/* Leave a connection behind that libcurl will use again. */
static void warm_up(void)
{
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    assert_int_equal(bind_once(), BIND_DONE);
}

static void a_dead_connection_is_replaced(void **state)
{
    (void)state;
    warm_up();
    next_act(SCRIPT_DROP, 0, "");
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    assert_int_equal(bind_once(), BIND_DONE);
    assert_int_equal(script_count(server), 3);
    assert_int_equal(script_connections(server), 2);
}

static void the_fence_holds_back_the_second_send(void **state)
{
    (void)state;
    warm_up();
    close_fence_at = 1;
    next_act(SCRIPT_DROP, 0, "");
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    /* The first one went out and may have been taken. */
    assert_int_equal(bind_once(), BIND_UNKNOWN);
    assert_int_equal(script_count(server), 2);
}

/* Whatever is said of the second send, the first one may have been taken. */
static void an_answer_to_the_second_send(void **state)
{
    (void)state;
    static const struct row twice[] = {
        {"assigned, by the first one", ANSWER(409, ASSIGNED),
         ANSWER(200, POD("11-22", "node-1", OUR_ANNOTATION)), BIND_DONE, 4, NULL},
        {"deleting", ANSWER(409, DELETING), ANSWER(200, POD("11-22", "", "")), BIND_UNKNOWN, 4,
         NULL},
        {"403", ANSWER(403, FAILURE(403, "Forbidden", "pods", "no")),
         ANSWER(200, POD("11-22", "", "")), BIND_UNKNOWN, 4, NULL},
        {"429", ANSWER(429, ""), ANSWER(200, POD("11-22", "", "")), BIND_UNKNOWN, 4, NULL},
        {"gone", ANSWER(404, NOT_FOUND), {0}, BIND_REFUSED, 3, NULL},
        {"uid differs", ANSWER(409, OTHER_UID), {0}, BIND_REFUSED, 3, NULL},
    };
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        void *unused = NULL;
        setup(&unused);
        warm_up();
        next_act(SCRIPT_DROP, 0, "");
        acts[act_count++] = twice[i].bind;
        acts[act_count++] = twice[i].read;
        enum bind_outcome outcome = bind_once();
        if (outcome != twice[i].outcome || script_count(server) != twice[i].requests)
            fail_msg("%s: outcome %d after %u requests", twice[i].name, (int)outcome,
                     script_count(server));
        teardown(&unused);
    }
}

static void a_closed_fence_sends_nothing(void **state)
{
    (void)state;
    fence_lost(&fence);
    assert_int_equal(bind_once(), BIND_REFUSED);
    assert_int_equal(err.code, -ECANCELED);
    assert_non_null(strstr(err.text, "lease"));
    assert_int_equal(script_count(server), 0);
}

/* Decided while another's bindings could still arrive, or before somebody else led: it may be wrong by now. */
static void a_permit_of_an_earlier_term_sends_nothing(void **state)
{
    (void)state;
    struct binding binding = {.pod = pod_id, .node = STR("node-1"), .placement = &placement};
    binding.permit = port.may_bind(port.self, &err);
    assert_true(binding.permit != 0);
    fence_lost(&fence);
    assert_int_equal(port.may_bind(port.self, &err), 0);
    assert_non_null(strstr(err.text, "not sent: "));
    fence_no_election(&fence);
    fence_open(&fence);
    assert_int_equal(port.bind_pod(port.self, &binding, &err), BIND_REFUSED);
    assert_non_null(strstr(err.text, "earlier term"));
    assert_int_equal(script_count(server), 0);
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    binding.permit = port.may_bind(port.self, &err);
    assert_int_equal(port.bind_pod(port.self, &binding, &err), BIND_DONE);
}

/* ---- before the write ---- */

static void too_many_annotation_bytes_are_refused(void **state)
{
    (void)state;
    struct strbuf body = {0};
    uint32_t ours;
    request_binding(&pod_id, STR("node-1"), &placement, &body, &ours);
    strbuf_done(&body);
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    assert_int_equal(bind_with(ANNOTATION_BYTES_MAX - ours), BIND_DONE);
    assert_int_equal(bind_with(ANNOTATION_BYTES_MAX - ours + 1), BIND_REFUSED);
    assert_int_equal(err.code, -E2BIG);
    assert_int_equal(bind_with(UINT32_MAX), BIND_REFUSED);
    placement.count = 0; /* nothing is added then */
    assert_int_equal(bind_with(UINT32_MAX), BIND_DONE);
    assert_int_equal(script_count(server), 2);
}

static void names_are_checked_once_more(void **state)
{
    (void)state;
    struct binding binding = {.pod = pod_id, .node = STR("node-1"), .placement = &placement};
    binding.pod.name = STR("../x");
    assert_int_equal(port.bind_pod(port.self, &binding, &err), BIND_REFUSED);
    binding.pod = pod_id;
    binding.pod.ns = STR("a/b");
    assert_int_equal(port.bind_pod(port.self, &binding, &err), BIND_REFUSED);
    binding.pod = pod_id;
    binding.pod.uid = STR("");
    assert_int_equal(port.bind_pod(port.self, &binding, &err), BIND_REFUSED);
    binding.pod = pod_id;
    binding.node = STR("node?1");
    assert_int_equal(port.bind_pod(port.self, &binding, &err), BIND_REFUSED);
    assert_int_equal(err.code, -EINVAL);
    assert_int_equal(script_count(server), 0);
}

static void without_memory_nothing_is_sent(void **state)
{
    (void)state;
    next_act(SCRIPT_ANSWER, 201, SUCCESS);
    unsigned refused = 0;
    for (long n = 1; n < 12; n++) {
        mem_fail_at(n);
        enum bind_outcome outcome = bind_once();
        mem_fail_at(0);
        if (outcome == BIND_REFUSED) {
            assert_int_equal(err.code, -ENOMEM);
            refused++;
        }
        assert_true(outcome != BIND_REFUSED || script_count(server) == (unsigned)n - refused);
    }
    assert_true(refused >= 3);
}

/* ---- reading and waking ---- */

static void pods_are_read(void **state)
{
    (void)state;
    struct arena mem;
    struct pod pod;
    arena_init(&mem, 0);
    next_act(SCRIPT_ANSWER, 200, POD("11-22", "node-1", OUR_ANNOTATION));
    next_act(SCRIPT_ANSWER, 404, NOT_FOUND);
    next_act(SCRIPT_ANSWER, 404, "no such page");
    next_act(SCRIPT_ANSWER, 503, "");
    assert_int_equal(port.get_pod(port.self, &pod_id, &mem, &pod, &err), 0);
    assert_true(str_is(pod.id.uid, "11-22") && str_is(pod.node_name, "node-1") &&
                pod.share_count == 1);
    const char *text = script_text(server, 0);
    assert_ptr_equal(strstr(text, "GET /api/v1/namespaces/team/pods/train-0 HTTP/1.1\r\n"), text);
    assert_int_equal(port.get_pod(port.self, &pod_id, &mem, &pod, &err), -ENOENT);
    assert_int_equal(port.get_pod(port.self, &pod_id, &mem, &pod, &err), -EIO);
    assert_int_equal(port.get_pod(port.self, &pod_id, &mem, &pod, &err), -EIO);
    arena_done(&mem);
}

static void pods_are_woken(void **state)
{
    (void)state;
    fence_lost(&fence); /* waking binds nothing */
    next_act(SCRIPT_ANSWER, 200, "{}");
    next_act(SCRIPT_ANSWER, 404, NOT_FOUND);
    next_act(SCRIPT_ANSWER, 422,
             FAILURE(422, "Invalid", "pods", "metadata.uid: field is immutable"));
    assert_int_equal(port.wake_pod(port.self, &pod_id, &err), 0);
    const char *text = script_text(server, 0);
    assert_ptr_equal(strstr(text, "PATCH /api/v1/namespaces/team/pods/train-0?fieldManager="),
                     text);
    assert_non_null(strstr(text, "\r\nContent-Type: application/merge-patch+json\r\n"));
    assert_non_null(strstr(text, "{\"metadata\":{\"uid\":\"11-22\",\"annotations\":"
                                 "{\"deviceshare.io/woken-at\":\"20"));
    assert_int_equal(port.wake_pod(port.self, &pod_id, &err), -ENOENT);
    assert_int_equal(port.wake_pod(port.self, &pod_id, &err), -EIO);
    assert_non_null(strstr(err.text, "immutable"));
}

/* ---- many at once, and the end ---- */

struct caller {
    pthread_t thread;
    enum bind_outcome outcome;
};

static void *call(void *self)
{
    struct caller *caller = self;
    struct binding binding = {.pod = pod_id, .node = STR("node-1"), .placement = &placement};
    struct error unused;
    caller->outcome = port.bind_pod(port.self, &binding, &unused);
    return NULL;
}

static void start(struct caller *callers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
}

static void join(struct caller *callers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        pthread_join(callers[i].thread, NULL);
}

static void as_many_as_clients_run_in_parallel(void **state)
{
    (void)state;
    binder_free(binder);
    struct binder_options options = {.access = &access,
                                     .clients = 4,
                                     .bind_timeout_ms = 3000,
                                     .delivery_timeout_ms = D_MS,
                                     .fence = &fence};
    assert_int_equal(binder_new(&options, &binder, NULL), 0);
    port = binder_port(binder);
    next_act(SCRIPT_ANSWER, 201, SUCCESS)->delay_ms = 300;
    struct caller callers[8];
    int64_t start_ms = now_ms();
    start(callers, 8);
    join(callers, 8);
    int64_t took_ms = now_ms() - start_ms;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(callers[i].outcome, BIND_DONE);
    assert_in_range(took_ms, 600, 2300); /* two rounds; one after the other would be 2400 */
    assert_int_equal(script_connections(server), 4);
}

static void the_end_interrupts_who_calls_and_who_waits(void **state)
{
    (void)state;
    binder_free(binder);
    struct binder_options options = {.access = &access,
                                     .clients = 1,
                                     .bind_timeout_ms = 60000,
                                     .delivery_timeout_ms = D_MS,
                                     .fence = &fence};
    assert_int_equal(binder_new(&options, &binder, NULL), 0);
    port = binder_port(binder);
    next_act(SCRIPT_SILENT, 0, "");
    struct caller callers[3];
    start(callers, 3);
    while (script_count(server) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* the others wait by now */
    int64_t start_ms = now_ms();
    binder_free(binder);
    binder = NULL;
    assert_true(now_ms() - start_ms < 10000); /* a binding may take 60 s */
    join(callers, 3);
    unsigned unknown = 0;
    for (unsigned i = 0; i < 3; i++)
        unknown += callers[i].outcome == BIND_UNKNOWN;
    assert_int_equal(unknown, 1); /* the one that was sent */
}

static void a_binder_without_memory(void **state)
{
    (void)state;
    struct binder_options options = {.access = &access,
                                     .clients = 2,
                                     .bind_timeout_ms = T_MS,
                                     .delivery_timeout_ms = D_MS,
                                     .fence = &fence};
    struct binder *made = NULL;
    int rc = -ENOMEM;
    for (long n = 1; rc < 0; n++) {
        mem_fail_at(n);
        rc = binder_new(&options, &made, &err);
        mem_fail_at(0);
        assert_true(rc == 0 || (rc == -ENOMEM && made == NULL));
    }
    binder_free(made);
    binder_free(NULL);
}

/* The socket of this process that is connected to the server. */
static int socket_to_server(void)
{
    unsigned port_number = 0;
    assert_int_equal(sscanf(script_url(server), "http://127.0.0.1:%u", &port_number), 1);
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
            ntohs(peer.sin_port) == port_number)
            return fd;
    }
    fail_msg("no connection to the server");
    return -1;
}

/* Bytes that are on their way when a call ends die with it, even if the process does too. */
static void the_kernel_bounds_the_delivery(void **state)
{
    (void)state;
    static const struct {
        int64_t timeout_ms;
        unsigned int expected_ms;
    } cases[] = {{D_MS, D_MS}, {60000, 30000}};
    for (int i = 0; i < 2; i++) {
        struct kube_client *client = kube_client_open(&access, cases[i].timeout_ms, &err);
        struct kube_request request = {.method = "GET", .path = "/", .timeout_ms = 5000};
        struct kube_response response;
        struct strbuf body = {0};
        next_act(SCRIPT_ANSWER, 200, "{}");
        assert_int_equal(kube_client_send(client, &request, &body, &response, &err), 0);
        unsigned int ms = 0;
        socklen_t size = sizeof ms;
        assert_int_equal(getsockopt(socket_to_server(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &size),
                         0);
        assert_int_equal(ms, cases[i].expected_ms);
        strbuf_done(&body);
        kube_client_free(client);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    kube_global_init();
    const struct CMUnitTest tests[] = {
        TEST(one_write_with_precondition_and_timeout),
        cmocka_unit_test(each_answer_means_one_thing),
        TEST(a_slow_server_costs_t_and_d),
        TEST(retry_after_is_obeyed_once_if_it_fits),
        TEST(nothing_listens),
        TEST(reset_before_anything_was_read),
        TEST(a_dead_connection_is_replaced),
        TEST(the_fence_holds_back_the_second_send),
        cmocka_unit_test(an_answer_to_the_second_send),
        TEST(a_closed_fence_sends_nothing),
        TEST(a_permit_of_an_earlier_term_sends_nothing),
        TEST(too_many_annotation_bytes_are_refused),
        TEST(names_are_checked_once_more),
        TEST(without_memory_nothing_is_sent),
        TEST(pods_are_read),
        TEST(pods_are_woken),
        TEST(the_kernel_bounds_the_delivery),
        TEST(as_many_as_clients_run_in_parallel),
        TEST(the_end_interrupts_who_calls_and_who_waits),
        TEST(a_binder_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
