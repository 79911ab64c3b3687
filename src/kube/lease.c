/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/lease.h"

#include "base/log.h"
#include "base/mem.h"
#include "codec/lease_object.h"
#include "core/names.h"
#include "kube/client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#define HOLDER_TEXT_MAX    256
#define RELEASE_TIMEOUT_MS 2000
#define JITTER             1.2

/* The Lease as it was read or written last. */
struct sight {
    struct strbuf json; /* empty: not known */
    struct arena mem;   /* behind `record` */
    struct lease_record record;
};

struct lease {
    struct lease_options options;
    struct strbuf collection, path; /* of the URL */
    pthread_t thread;

    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t stopped;
    bool stopping;
    bool leading; /* written by the thread only, which reads it without the lock */
    char holder[HOLDER_TEXT_MAX];

    /* the thread's own */
    struct kube_client *client;
    struct sight seen;
    int64_t changed_ns;                /* when the record was last seen to change */
    int64_t renewed_ns;                /* when our last request that succeeded began */
    char last_holder[HOLDER_TEXT_MAX]; /* whom we saw last, before it was released */
    bool in_trouble;                   /* a failure was logged since the last success */
};

static int64_t now_ns(const struct lease *lease)
{
    return clock_now_ns(&lease->options.fence->clock);
}

static struct str now_text(char text[MICROTIME_TEXT_MAX])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    microtime_format((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, text);
    return str_from(text);
}

static bool is_stopping(struct lease *lease)
{
    pthread_mutex_lock(&lease->mutex);
    bool stopping = lease->stopping;
    pthread_mutex_unlock(&lease->mutex);
    return stopping;
}

static void wait_ms(struct lease *lease, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ms % 1000 * 1000000;
    until.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);

    pthread_mutex_lock(&lease->mutex);
    int rc = 0;
    while (!lease->stopping && rc == 0)
        rc = pthread_cond_timedwait(&lease->stopped, &lease->mutex, &until);
    pthread_mutex_unlock(&lease->mutex);
}

/* ---- what is known of the Lease ---- */

static void sight_done(struct sight *sight)
{
    strbuf_done(&sight->json);
    arena_done(&sight->mem);
    sight->record = (struct lease_record){0};
}

static bool same_record(const struct lease_record *a, const struct lease_record *b)
{
    return str_eq(a->holder, b->holder) && str_eq(a->acquired, b->acquired) &&
           str_eq(a->renewed, b->renewed) && a->duration_s == b->duration_s &&
           a->transitions == b->transitions;
}

static void copy_text(char to[HOLDER_TEXT_MAX], struct str text)
{
    snprintf(to, HOLDER_TEXT_MAX, "%.*s", STR_ARG(text));
}

/* Take over an object that an answer brought. The time is that after the answer: its holder's own
 * count began before. */
static int see(struct lease *lease, struct strbuf *answer, struct error *err)
{
    struct sight sight = {.json = *answer};
    strbuf_init(answer);
    int rc = lease_object_decode((struct str){sight.json.data, sight.json.len}, &sight.mem,
                                 &sight.record, err);
    if (rc < 0) {
        sight_done(&sight);
        return rc;
    }
    if (lease->seen.json.len == 0 || !same_record(&lease->seen.record, &sight.record))
        lease->changed_ns = now_ns(lease);
    sight_done(&lease->seen);
    lease->seen = sight;
    if (sight.record.holder.len > 0)
        copy_text(lease->last_holder, sight.record.holder);
    pthread_mutex_lock(&lease->mutex);
    copy_text(lease->holder, sight.record.holder);
    pthread_mutex_unlock(&lease->mutex);
    return 0;
}

static bool is_ours(const struct lease *lease)
{
    return lease->seen.json.len > 0 && str_is(lease->seen.record.holder, lease->options.identity);
}

static bool is_expired(const struct lease *lease)
{
    const struct lease_record *record = &lease->seen.record;
    return record->holder.len == 0 ||
           now_ns(lease) - lease->changed_ns >= record->duration_s * INT64_C(1000000000);
}

/* Did the one that we are about to follow leave nothing behind? */
static bool was_released_cleanly(const struct lease *lease)
{
    const struct lease_record *record = &lease->seen.record;
    return record->holder.len == 0 && record->clean_stop.len > 0 &&
           (lease->last_holder[0] == '\0' || str_is(record->clean_stop, lease->last_holder));
}

/* ---- requests ---- */

static int64_t request_timeout_ms(const struct lease *lease)
{
    int64_t timeout_ms = lease->options.renew_deadline_ms / 2;
    if (lease->leading) {
        int64_t gone_ms = (now_ns(lease) - lease->renewed_ns) / 1000000;
        int64_t left_ms = lease->options.renew_deadline_ms - gone_ms;
        timeout_ms = left_ms < timeout_ms ? left_ms : timeout_ms;
    }
    return timeout_ms > 0 ? timeout_ms : 1;
}

/* One request whose good answer is the Lease. 0 it was, and was seen; or negative: -ENOENT, -EEXIST
 * for a conflict, another failure. */
static int ask(struct lease *lease, struct kube_client *client, const char *method,
               const char *path, const struct strbuf *body, struct error *err)
{
    struct kube_request request = {
        .method = method, .path = path, .timeout_ms = request_timeout_ms(lease)};
    if (body != NULL)
        request.body = (struct str){body->data, body->len};
    struct strbuf answer = {0};
    struct kube_response response;
    int rc = kube_client_send(client, &request, &answer, &response, err);
    if (rc == 0 && (response.status == 200 || response.status == 201))
        rc = see(lease, &answer, err);
    else if (rc == 0)
        rc = error_set(err,
                       response.status == 404   ? -ENOENT
                       : response.status == 409 ? -EEXIST
                                                : -EIO,
                       "%s %s: HTTP %d", method, path, response.status);
    strbuf_done(&answer);
    return rc;
}

/* Write the record; on success it is seen to be the one in force. */
static int write_record(struct lease *lease, struct kube_client *client,
                        const struct lease_record *record, struct error *err)
{
    bool known = lease->seen.json.len > 0;
    struct strbuf body = {0};
    int rc = 0;
    if (known)
        rc = lease_object_change((struct str){lease->seen.json.data, lease->seen.json.len}, record,
                                 &body, err);
    else
        lease_object_new(str_from(lease->options.ns), str_from(lease->options.name), record, &body);
    if (rc == 0 && body.failed)
        rc = error_set(err, -ENOMEM, "out of memory");
    if (rc == 0)
        rc = ask(lease, client, known ? "PUT" : "POST",
                 known ? lease->path.data : lease->collection.data, &body, err);
    strbuf_done(&body);
    if (rc == 0 && !str_eq(lease->seen.record.holder, record->holder))
        rc = error_set(err, -EIO, "the Lease was written but names another holder");
    return rc;
}

/* Write ourselves into the Lease, which is free, expired or ours, or does not exist. */
static int hold(struct lease *lease, struct error *err)
{
    char now[MICROTIME_TEXT_MAX];
    bool known = lease->seen.json.len > 0;
    struct lease_record record = {
        .holder = str_from(lease->options.identity),
        .duration_s = (lease->options.duration_ms + 999) / 1000,
        .renewed = now_text(now),
    };
    record.acquired = is_ours(lease) ? lease->seen.record.acquired : record.renewed;
    if (known)
        record.transitions = lease->seen.record.transitions + !is_ours(lease);
    int64_t sent_ns = now_ns(lease);
    int rc = write_record(lease, lease->client, &record, err);
    if (rc < 0)
        return rc;
    lease->renewed_ns = sent_ns;
    fence_renewed(lease->options.fence, sent_ns, lease->options.duration_ms * 1000000);
    return 0;
}

static int read_lease(struct lease *lease, struct kube_client *client, struct error *err)
{
    int rc = ask(lease, client, "GET", lease->path.data, NULL, err);
    if (rc == -ENOENT)
        sight_done(&lease->seen);
    return rc;
}

/* ---- one round ---- */

enum round {
    ROUND_HELD,
    ROUND_OTHERS, /* it is not ours: somebody else's, or nobody's while we thought it ours */
    ROUND_FAILED, /* not known: no answer, or a race lost */
};

static enum round lost(struct error *err, const char *why)
{
    error_set(err, -EPERM, "%s", why);
    return ROUND_OTHERS;
}

static enum round try_to_hold(struct lease *lease, bool *ret_clean, struct error *err)
{
    if (lease->leading) {
        int rc = hold(lease, err);
        if (rc != -EEXIST && rc != -ENOENT)
            return rc == 0 ? ROUND_HELD : ROUND_FAILED;
    }
    int rc = read_lease(lease, lease->client, err);
    if (rc < 0 && rc != -ENOENT)
        return ROUND_FAILED;
    if (lease->leading && !is_ours(lease))
        return lost(err, "somebody else holds the Lease, or it was deleted");
    if (rc == 0 && !is_ours(lease) && !is_expired(lease))
        return lost(err, "somebody else holds the Lease");
    *ret_clean = was_released_cleanly(lease);
    return hold(lease, err) == 0 ? ROUND_HELD : ROUND_FAILED;
}

/* ---- the thread ---- */

static void set_leading(struct lease *lease, bool leading)
{
    pthread_mutex_lock(&lease->mutex);
    lease->leading = leading;
    pthread_mutex_unlock(&lease->mutex);
}

static void begin(struct lease *lease, bool clean)
{
    set_leading(lease, true);
    log_info(0, "Lease acquired", LOG_TEXT("lease", lease->options.name),
             LOG_TEXT("identity", lease->options.identity),
             LOG_TEXT("predecessor", clean ? "stopped cleanly" : "may have bindings under way"));
    lease->options.began(lease->options.self, clean);
}

static void end(struct lease *lease)
{
    fence_lost(lease->options.fence); /* before anything else */
    set_leading(lease, false);
    lease->options.ended(lease->options.self);
}

static void note_trouble(struct lease *lease, enum round round, const struct error *err)
{
    if (round == ROUND_FAILED && !lease->in_trouble && !is_stopping(lease))
        log_warning(lease->leading ? "Lease not renewed, trying on"
                                   : "Lease not acquired, trying on",
                    LOG_TEXT("lease", lease->options.name), LOG_TEXT("err", err->text));
    lease->in_trouble = round == ROUND_FAILED;
}

static int64_t jittered_ms(int64_t ms)
{
    uint16_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = 0;
    return ms + (int64_t)((double)ms * JITTER * random / UINT16_MAX);
}

/* How long until the next try; a leader whose time is up has lost. */
static int64_t pause_after(struct lease *lease, enum round round, const struct error *err)
{
    int64_t period_ms = lease->options.retry_period_ms;
    if (!lease->leading)
        return jittered_ms(period_ms);
    if (round == ROUND_HELD)
        return period_ms;
    int64_t left_ms =
        lease->options.renew_deadline_ms - (now_ns(lease) - lease->renewed_ns) / 1000000;
    if (round == ROUND_OTHERS || left_ms <= 0) {
        end(lease);
        log_warning("Lease lost", LOG_TEXT("lease", lease->options.name),
                    LOG_TEXT("identity", lease->options.identity), LOG_TEXT("why", err->text));
        return jittered_ms(period_ms);
    }
    return left_ms < period_ms ? left_ms : period_ms;
}

static void *run(void *self)
{
    struct lease *lease = self;
    while (!is_stopping(lease)) {
        bool clean = false;
        struct error err = {0};
        enum round round = try_to_hold(lease, &clean, &err);
        note_trouble(lease, round, &err);
        if (round == ROUND_HELD && !lease->leading)
            begin(lease, clean);
        wait_ms(lease, pause_after(lease, round, &err));
    }
    return NULL;
}

/* ---- life ---- */

static void lease_free(struct lease *lease)
{
    kube_client_free(lease->client);
    sight_done(&lease->seen);
    strbuf_done(&lease->collection);
    strbuf_done(&lease->path);
    pthread_cond_destroy(&lease->stopped);
    pthread_mutex_destroy(&lease->mutex);
    mem_free(lease);
}

static int check_options(const struct lease_options *options, struct error *err)
{
    if (!name_is_label(str_from(options->ns)) || !name_is_subdomain(str_from(options->name)))
        return error_set(err, -EINVAL, "not the name of a Lease: \"%s/%s\"", options->ns,
                         options->name);
    if (options->identity[0] == '\0' || strlen(options->identity) >= HOLDER_TEXT_MAX)
        return error_set(err, -EINVAL, "the identity must have 1 to %d bytes", HOLDER_TEXT_MAX - 1);
    if (options->retry_period_ms <= 0 || options->retry_period_ms >= options->renew_deadline_ms ||
        options->renew_deadline_ms >= options->duration_ms)
        return error_set(err, -EINVAL,
                         "the retry period must be shorter than the renew deadline, and that than "
                         "the duration of the Lease");
    return 0;
}

static int prepare(struct lease *lease, struct error *err)
{
    const struct lease_options *options = &lease->options;
    strbuf_printf(&lease->collection, "/apis/coordination.k8s.io/v1/namespaces/%s/leases",
                  options->ns);
    strbuf_printf(&lease->path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s", options->ns,
                  options->name);
    if (lease->collection.failed || lease->path.failed)
        return error_set(err, -ENOMEM, "out of memory");
    struct error why = {.code = -ENOMEM, .text = "out of memory"};
    lease->client = kube_client_open(options->access, options->renew_deadline_ms / 2, &why);
    return lease->client != NULL ? 0 : error_set(err, why.code, "%s", why.text);
}

int lease_start(const struct lease_options *options, struct lease **ret, struct error *err)
{
    int rc = check_options(options, err);
    if (rc < 0)
        return rc;
    struct lease *lease = mem_calloc(1, sizeof *lease);
    if (lease == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    lease->options = *options;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&lease->mutex, NULL);
    pthread_cond_init(&lease->stopped, &attributes);
    pthread_condattr_destroy(&attributes);

    rc = prepare(lease, err);
    if (rc == 0 && (rc = -pthread_create(&lease->thread, NULL, run, lease)) < 0)
        error_set(err, rc, "no thread for the Lease: %s", strerror(-rc));
    if (rc < 0) {
        lease_free(lease);
        return rc;
    }
    *ret = lease;
    return 0;
}

bool lease_holder(struct lease *lease, char *out, size_t size)
{
    pthread_mutex_lock(&lease->mutex);
    snprintf(out, size, "%s", lease->holder);
    bool leading = lease->leading;
    pthread_mutex_unlock(&lease->mutex);
    return leading;
}

/* Give the Lease away with our mark. The thread's client was interrupted, perhaps in the middle of
 * a renewal that the server has taken, so a conflict is worth a second look. */
static int release(struct lease *lease, struct error *err)
{
    struct kube_client *client = kube_client_open(lease->options.access, RELEASE_TIMEOUT_MS, err);
    if (client == NULL)
        return -ENOMEM;
    int rc = -EEXIST;
    for (int tries = 0; tries < 2 && rc == -EEXIST; tries++) {
        if (tries > 0 && read_lease(lease, client, err) < 0)
            break;
        if (!is_ours(lease))
            break;
        char now[MICROTIME_TEXT_MAX];
        struct lease_record record = {
            .duration_s = 1,
            .transitions = lease->seen.record.transitions,
            .acquired = now_text(now),
            .renewed = str_from(now),
            .clean_stop = str_from(lease->options.identity),
        };
        rc = write_record(lease, client, &record, err);
    }
    kube_client_free(client);
    return rc;
}

void lease_stop(struct lease *lease, bool clean)
{
    if (lease == NULL)
        return;
    pthread_mutex_lock(&lease->mutex);
    lease->stopping = true;
    pthread_cond_broadcast(&lease->stopped);
    pthread_mutex_unlock(&lease->mutex);
    kube_client_interrupt(lease->client);
    pthread_join(lease->thread, NULL);

    bool was_leading = lease->leading;
    if (was_leading)
        end(lease);
    struct error err = {.text = "somebody else holds it"};
    if (was_leading && clean && release(lease, &err) < 0)
        log_warning("Lease not released, it will expire", LOG_TEXT("lease", lease->options.name),
                    LOG_TEXT("err", err.text));
    lease_free(lease);
}
