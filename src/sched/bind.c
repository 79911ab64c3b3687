/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/metrics.h"
#include "sched/intake.h"

#define EXPLAIN_MAX   1024
#define READS_MAX     5  /* of a pod that the cache does not know */
#define CARD_TEXT_MAX 24 /* "gpu:4294967295," */

/* Where a bind stands. */
struct bind_job {
    struct sched *sched;
    const struct bind_call *call;
    struct arena *mem;
    struct placement placement;
    uint64_t permit; /* see struct port */
    uint32_t annotation_bytes; /* that the pod has already */
    const char *result;        /* a word for the audit */
};

static int no_pod(const struct bind_call *call, struct error *err)
{
    return error_set(err, -ENOENT, "PodUID: no pod %.*s/%.*s with UID %.*s", STR_ARG(call->pod.ns),
                     STR_ARG(call->pod.name), STR_ARG(call->pod.uid));
}

static int elsewhere(struct error *err)
{
    return error_set(err, -EEXIST, "the pod is already bound to another node");
}

enum known { KNOWN_PLAIN, KNOWN_DEVICES, KNOWN_PLACED };

/* Make sure that the cache knows the pod if it asks for devices: it may be newer than our watch. One that
 * runs already is left to the watch, which also tells when it is gone; a read may be overtaken by that.
 * -EAGAIN when it may have gone meanwhile. */
static int know_pod_now(struct bind_job *job, struct error *err)
{
    const struct bind_call *call = job->call;
    uint64_t removals = cache_removals(job->sched->cache);
    struct pod_view view;
    enum pod_match match = cache_pod_find(job->sched->cache, &call->pod, job->mem, &view);
    if (match == POD_MISMATCH)
        return error_set(err, -ESTALE, "PodUID: UID %.*s is not that of pod %.*s/%.*s",
                         STR_ARG(call->pod.uid), STR_ARG(call->pod.ns), STR_ARG(call->pod.name));
    if (match == POD_KNOWN) {
        job->annotation_bytes = view.annotation_bytes;
        if (view.state == BOOKING_BOUND || (view.state == BOOKING_BOOKED && view.confirmed))
            return str_eq(view.node, call->node) ? KNOWN_PLACED : elsewhere(err);
        return KNOWN_DEVICES;
    }
    struct pod pod;
    struct error why = {0};
    int rc = job->sched->port.get_pod(job->sched->port.self, &call->pod, job->mem, &pod, &why);
    if (rc == -ENOENT || (rc == 0 && !str_eq(pod.id.uid, call->pod.uid)))
        return no_pod(call, err);
    if (rc < 0)
        return error_set(err, rc, "reading the pod: %s", why.text);
    struct pod_request request;
    if (intake_request(&pod, &job->sched->hami_rules, &request, &why) == 0 &&
        !request_any(&request))
        return KNOWN_PLAIN;
    if (pod.node_name.len > 0)
        return str_eq(pod.node_name, call->node) ? KNOWN_PLACED : elsewhere(err);
    job->annotation_bytes = pod.annotation_bytes;
    rc = sched_pod_learned(job->sched, &pod, removals);
    if (rc == -EAGAIN)
        return error_set(err, -EAGAIN, "pods were removed while this one was read");
    return rc < 0 ? error_set(err, rc, "out of memory") : KNOWN_DEVICES;
}

static int know_pod(struct bind_job *job, struct error *err)
{
    int rc = -EAGAIN;
    for (unsigned i = 0; i < READS_MAX && rc == -EAGAIN; i++)
        rc = know_pod_now(job, err);
    return rc;
}

static int refuse_no_fit(struct bind_job *job, enum reason reason, struct error *err)
{
    const struct bind_call *call = job->call;
    struct pod_view view;
    char detail[EXPLAIN_MAX] = "";
    if (cache_pod_find(job->sched->cache, &call->pod, job->mem, &view) == POD_KNOWN)
        cache_explain(job->sched->cache, call->node, &view.request, detail, sizeof detail);
    metrics_add(METRIC_ALLOCATIONS, ALLOCATION_REFUSED, 1);
    log_info(2, "Bind refused", LOG_STR("namespace", call->pod.ns), LOG_STR("pod", call->pod.name),
             LOG_STR("node", call->node), LOG_TEXT("reason", reason_word(reason)),
             LOG_TEXT("detail", detail));
    return error_set(err, -ENOSPC, "%s", reason_text(reason));
}

/* What is decided before all earlier bindings are known must never be sent. */
static int may_decide(struct bind_job *job, struct error *err)
{
    const struct port *port = &job->sched->port;
    struct error why = {0};
    if (port->may_bind == NULL)
        return 0;
    job->permit = port->may_bind(port->self, &why);
    return job->permit != 0 ? 0 : error_set(err, -EIO, "binding: %s", why.text);
}

enum booked { BOOKED_BEFORE, BOOKED_NOW, BOOKED_NOT_YET };

/* Decide and book: an enum booked, or an error. */
static int book(struct bind_job *job, struct error *err)
{
    const struct bind_call *call = job->call;
    enum reason reason;
    switch (cache_book(job->sched->cache, call->pod.uid, call->node,
                       atomic_load(&job->sched->device_policy), &job->placement, &reason)) {
    case BOOK_OK:
        job->placement.hami_time_s = job->placement.hami ? (int64_t)time(NULL) : 0;
        return BOOKED_NOW;
    case BOOK_ALREADY_HERE:
        return BOOKED_BEFORE;
    case BOOK_NOT_ITS_TURN:
        return BOOKED_NOT_YET;
    case BOOK_NO_FIT:
        return refuse_no_fit(job, reason, err);
    case BOOK_UNKNOWN_POD: /* it went between the two questions */
        return no_pod(call, err);
    case BOOK_INVALID_REQUEST:
        return error_set(err, -EINVAL, "the pod's device request is invalid");
    case BOOK_INVALID_POLICY:
        return error_set(err, -EINVAL, "the pod's placement annotations are invalid");
    case BOOK_ELSEWHERE:
        return elsewhere(err);
    case BOOK_IN_PROGRESS:
        return error_set(err, -EBUSY, "the outcome of an earlier bind of this pod is not known yet");
    case BOOK_NO_MEMORY:
        break;
    }
    return error_set(err, -ENOMEM, "out of memory");
}

static int no_turn(enum metric_turn why, struct error *err)
{
    metrics_add(METRIC_TURN_WAITS, why, 1);
    return error_set(err, -EBUSY,
                     "HAMi's device plugin is still at work for another pod of the node");
}

/* Wait for the node's turn until `deadline_ns`. Nothing is held meanwhile but this connection's
 * thread, and of these only so many that filter finds one. */
static int await_turn(struct bind_job *job, int64_t deadline_ns, struct error *err)
{
    struct sched *sched = job->sched;
    int64_t left_ns = deadline_ns - clock_now_ns(&sched->clock);
    if (left_ns <= 0)
        return no_turn(TURN_TIMEOUT, err);
    if (atomic_fetch_add(&sched->turn_waiters, 1) >= sched->turn_waiters_max) {
        atomic_fetch_sub(&sched->turn_waiters, 1);
        return no_turn(TURN_REFUSED, err);
    }
    bool turned = cache_await_turn(sched->cache, job->call->node, left_ns);
    atomic_fetch_sub(&sched->turn_waiters, 1);
    if (!turned)
        return no_turn(TURN_TIMEOUT, err);
    return 0;
}

/* Book when it is the pod's turn. The permit to decide is asked for anew after each wait: another
 * replica may lead by then. BOOKED_BEFORE, BOOKED_NOW, or an error. */
static int book_in_turn(struct bind_job *job, struct error *err)
{
    int64_t deadline_ns = clock_now_ns(&job->sched->clock) + job->sched->turn_wait_ns;
    bool waited = false;
    for (;;) {
        int rc = may_decide(job, err);
        if (rc == 0)
            rc = book(job, err);
        if (rc != BOOKED_NOT_YET) {
            if (waited && rc >= 0)
                metrics_add(METRIC_TURN_WAITS, TURN_ARRIVED, 1);
            return rc;
        }
        rc = await_turn(job, deadline_ns, err);
        if (rc < 0)
            return rc;
        waited = true;
    }
}

/* The one outward write, and what it means for the booking. */
static int write_binding(struct bind_job *job, struct error *err)
{
    struct sched *sched = job->sched;
    struct binding binding = {.pod = job->call->pod,
                              .node = job->call->node,
                              .placement = &job->placement,
                              .permit = job->permit,
                              .annotation_bytes = job->annotation_bytes};
    struct error why = {0};
    int64_t start_ns = clock_now_ns(&sched->clock);
    enum bind_outcome outcome = sched->port.bind_pod(sched->port.self, &binding, &why);
    metrics_observe_ns(METRIC_BIND_CALL_SECONDS, 0, clock_now_ns(&sched->clock) - start_ns);
    switch (outcome) {
    case BIND_DONE:
        cache_confirm(sched->cache, job->call->pod.uid);
        job->result = "bound";
        if (job->placement.count > 0)
            metrics_add(METRIC_ALLOCATIONS, ALLOCATION_SUCCESS, 1);
        return 0;
    case BIND_REFUSED:
        cache_forget(sched->cache, job->call->pod.uid);
        break;
    case BIND_UNKNOWN: /* it may have happened: the janitor reads the pod before anything is given back */
        cache_outcome_unknown(sched->cache, job->call->pod.uid, clock_now_ns(&sched->clock));
        break;
    }
    bool unknown = outcome == BIND_UNKNOWN;
    job->result = unknown ? "unknown" : "refused";
    if (job->placement.count > 0)
        metrics_add(METRIC_ALLOCATIONS, unknown ? ALLOCATION_UNKNOWN : ALLOCATION_ERROR, 1);
    log_warning(unknown ? "Binding sent, outcome unknown" : "Binding refused",
                LOG_STR("namespace", job->call->pod.ns), LOG_STR("pod", job->call->pod.name),
                LOG_STR("node", job->call->node), LOG_TEXT("err", why.text));
    return error_set(err, -EIO, "binding: %s", why.text);
}

/* All that comes before the write. *ret_placed: there is none, the pod is where it shall be. */
static int decide(struct bind_job *job, bool *ret_placed, struct error *err)
{
    int rc = sched_ready(job->sched, err);
    if (rc == 0)
        rc = know_pod(job, err);
    if (rc < 0)
        return rc;
    enum known known = (enum known)rc;
    if (known == KNOWN_PLAIN)
        rc = may_decide(job, err);
    else if (known == KNOWN_DEVICES)
        rc = book_in_turn(job, err);
    *ret_placed = known == KNOWN_PLACED || (known == KNOWN_DEVICES && rc == BOOKED_BEFORE);
    return rc;
}

static int bind_pod(struct bind_job *job, struct error *err)
{
    bool placed = false;
    int rc = decide(job, &placed, err);
    if (rc < 0) {
        cache_bind_refused(job->sched->cache, job->call->pod.uid);
        return rc;
    }
    if (placed) {
        job->result = "already bound";
        return 0;
    }
    return write_binding(job, err);
}

/* "gpu:0,gpu:1" */
static void list_cards(const struct placement *placement, char *text, size_t size)
{
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < placement->count && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s:%d", i > 0 ? "," : "",
                                device_kind_name(placement->cards[i].share.kind),
                                (int)placement->cards[i].share.minor);
}

/* Who got what, or did not: one line a call. */
static void audit(const struct bind_job *job, const char *problem, int64_t start_ns)
{
    char cards[CARDS_PER_POD_MAX * CARD_TEXT_MAX];
    list_cards(&job->placement, cards, sizeof cards);
    log_info(0, "Audit: bind", LOG_STR("namespace", job->call->pod.ns),
             LOG_STR("pod", job->call->pod.name), LOG_STR("uid", job->call->pod.uid),
             LOG_STR("node", job->call->node), LOG_TEXT("cards", cards),
             LOG_TEXT("result", job->result), LOG_TEXT("err", problem),
             LOG_INT("latencyUs", (clock_now_ns(&job->sched->clock) - start_ns) / 1000));
}

int sched_bind(struct sched *sched, const struct bind_call *call, struct arena *mem,
               struct error *err)
{
    int64_t start_ns = clock_now_ns(&sched->clock);
    struct bind_job job = {.sched = sched, .call = call, .mem = mem, .result = "refused"};
    struct error why = {0};
    int rc = bind_pod(&job, &why);
    audit(&job, why.text, start_ns);
    return rc < 0 ? error_set(err, rc, "%s", why.text) : rc;
}
