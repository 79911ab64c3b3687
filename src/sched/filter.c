/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>

#include "base/log.h"
#include "base/metrics.h"
#include "core/rank.h"
#include "sched/intake.h"

#define EXPLAIN_MAX  1024
#define TENTATIVE_NS INT64_C(2000000000) /* until bind should have come */

/* All candidates alike. */
static void fill(enum reason *reasons, uint32_t count, enum reason reason)
{
    for (uint32_t i = 0; i < count; i++)
        reasons[i] = reason;
}

/* Mark every candidate that was named before. The cache sees this for the nodes it knows; where several are
 * unknown to it, the names themselves are compared. */
static int mark_duplicates(struct sched *sched, const struct candidates_call *call,
                           struct arena *mem, enum reason *reasons)
{
    struct roster_notes notes = call->notes;
    bool *repeated = arena_alloc(mem, call->node_count, sizeof *repeated);
    if (repeated == NULL)
        return -ENOMEM;
    uint32_t unknown =
        cache_repeated(sched->cache, &notes, call->nodes, call->node_count, repeated);
    cache_roster_learn(sched->cache, &notes, call->node_count);
    if (unknown > 1 && intake_repeated(call->nodes, call->node_count, repeated) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < call->node_count; i++)
        if (repeated[i])
            reasons[i] = REASON_DUPLICATE;
    return 0;
}

/* What is decided on: identity and request of the stored object, with which the body must agree,
 * and the stored object's annotations, which may be newer than the body's. Unknown pod: all from
 * the body. */
static int agree_with_stored(struct sched *sched, const struct candidates_call *call,
                             struct arena *mem, struct pod_request *request, bool body_invalid,
                             struct pod_policy *policy, struct error *err)
{
    struct pod_view stored;
    switch (cache_pod_find(sched->cache, &call->pod.id, mem, &stored)) {
    case POD_UNKNOWN:
        cache_namespace_fill(sched->cache, call->pod.id.ns, policy);
        return 0; /* our watch is behind kube-scheduler's: the body is all there is */
    case POD_MISMATCH:
        break;
    case POD_KNOWN:
        if (stored.request_invalid == body_invalid &&
            (body_invalid ? stored.invalid_print == pod_request_print(&call->pod)
                          : request_same_devices(&stored.request, request))) {
            *policy = stored.policy;
            *request = stored.request;
            return 0;
        }
        break;
    }
    metrics_add(METRIC_FORGED_FILTERS, 0, 1);
    return error_set(err, -ESTALE,
                     "Pod: name, namespace or device request differ from the stored pod of this UID");
}

static void log_no_fit(struct sched *sched, const struct candidates_call *call,
                       const struct pod_request *request, const enum reason *reasons)
{
    if (log_verbosity() < 4 || call->node_count == 0)
        return;
    char detail[EXPLAIN_MAX];
    cache_explain(sched->cache, call->nodes[0], request, detail, sizeof detail);
    log_info(4, "No candidate fits", LOG_STR("namespace", call->pod.id.ns),
             LOG_STR("pod", call->pod.id.name), LOG_INT("candidates", call->node_count),
             LOG_STR("node", call->nodes[0]), LOG_TEXT("reason", reason_word(reasons[0])),
             LOG_TEXT("detail", detail));
}

static int answer_invalid(struct sched *sched, const struct candidates_call *call,
                          struct arena *mem, enum reason *reasons, const struct error *why,
                          struct filter_answer *ret, struct error *err)
{
    struct str text = arena_str(mem, str_from(why->text));
    fill(reasons, call->node_count, REASON_INVALID);
    if (text.data == NULL || mark_duplicates(sched, call, mem, reasons) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    metrics_add(METRIC_INVALID_REQUESTS, 0, 1);
    *ret = (struct filter_answer){.reasons = reasons, .invalid_text = text.data};
    return 0;
}

/* ---- filter as a decision ---- */

/* What a filter decides by, and for whom. */
struct question {
    struct sched *sched;
    const struct candidates_call *call;
    const struct pod_request *request;
    const struct node_policy *node_policy;
    const struct device_policy *device_policy;
    bool require;
};

static struct question question_of(struct sched *sched, const struct candidates_call *call,
                                   const struct pod_request *request,
                                   const struct pod_policy *policy)
{
    enum policy_strength strength = policy->strength != STRENGTH_UNSAID
                                        ? policy->strength
                                        : atomic_load(&sched->node_strength);
    return (struct question){
        .sched = sched,
        .call = call,
        .request = request,
        .node_policy =
            policy->node != NULL ? policy->node : atomic_load(&sched->node_policy),
        .device_policy =
            policy->device != NULL ? policy->device : atomic_load(&sched->device_policy),
        .require = strength == STRENGTH_REQUIRE,
    };
}

/* Let the bind of the pod before come first, and the event of this pod, which kube-scheduler may have seen
 * a moment before us: a pod that is not known is not seen by the filter after it. */
static void await_events(struct sched *sched, struct str uid)
{
    int64_t wait_ns = atomic_load(&sched->in_flight_wait_ns);
    switch (cache_await(sched->cache, uid, atomic_load(&sched->watching), wait_ns)) {
    case AWAITED_NONE:
        break;
    case AWAITED_ARRIVED:
        metrics_add(METRIC_FILTER_WAITS, WAIT_ARRIVED, 1);
        break;
    case AWAITED_TIMEOUT:
        metrics_add(METRIC_FILTER_WAITS, WAIT_TIMEOUT, 1);
        break;
    case AWAITED_UNKNOWN:
        metrics_add(METRIC_FILTER_WAITS, WAIT_UNKNOWN, 1);
        break;
    }
}

/* A policy that packs may have to learn first. What cannot be learned for lack of memory is learned with a
 * later pod. */
static void prepare(const struct question *question, int64_t now_ns)
{
    if (question->node_policy->weigh != NULL || question->device_policy->pick != NULL)
        (void)cache_pack_prepare(question->sched->cache, now_ns);
}

/* Judge and rank all candidates. How many are kept, or -ENOMEM. */
static int64_t rank(const struct question *question, struct arena *mem, enum reason *reasons)
{
    const struct candidates_call *call = question->call;
    uint32_t max = atomic_load(&question->sched->max_candidates);
    struct roster_notes notes = call->notes;
    struct ranking ranking = {
        .notes = &notes,
        .policy = question->node_policy,
        .demote = question->require,
        .now_ns = clock_now_ns(&question->sched->clock),
        .host = call->pod.host,
        .scores = arena_alloc(mem, call->node_count, sizeof *ranking.scores),
    };
    struct ranked *space = arena_alloc(mem, rank_space(max, call->node_count), sizeof *space);
    if (ranking.scores == NULL || space == NULL)
        return -ENOMEM;
    prepare(question, ranking.now_ns);
    if (request_any(question->request))
        cache_rank(question->sched->cache, call->pod.id.uid, question->request, call->nodes,
                   call->node_count, reasons, &ranking);
    else
        cache_rank_plain(question->sched->cache, call->pod.id.uid, call->nodes, call->node_count,
                         reasons, &ranking);
    cache_roster_learn(question->sched->cache, &notes, call->node_count);
    metrics_add(METRIC_TENTATIVE_EXPIRED, 0, ranking.ret_expired);
    /* After several nodes were named and none was bound to, nobody knows which was tried: from now on
     * they are named one at a time, so that the next call can pass over it. */
    struct rank_rule rule = {
        .first_only = question->require,
        .max = question->require && ranking.ret_again ? 1 : max,
    };
    struct rank_names names = {call->nodes, call->notes.hashes};
    return rank_keep(&rule, call->pod.id.uid, &names, ranking.scores, call->node_count, reasons,
                     space);
}

/* Say what the answer names, so that the next filter sees it. */
static void note_passed(const struct question *question, const enum reason *reasons, uint32_t kept)
{
    struct sched *sched = question->sched;
    struct str only = {"", 0};
    for (uint32_t i = 0; kept == 1 && i < question->call->node_count; i++)
        if (reasons[i] == REASON_FITS)
            only = question->call->nodes[i];
    if (!request_any(question->request)) {
        if (kept == 1)
            cache_offered(sched->cache, question->call->pod.id.uid, only);
        return;
    }
    const struct device_policy *hold_with =
        atomic_load(&sched->tentative) ? atomic_load(&sched->device_policy) : NULL;
    if (cache_passed(sched->cache, question->call->pod.id.uid, only, hold_with,
                     clock_now_ns(&sched->clock) + TENTATIVE_NS) == PASSED_HELD)
        metrics_add(METRIC_TENTATIVE, 0, 1);
}

static int answer_ranked(const struct question *question, struct arena *mem, enum reason *reasons,
                         struct filter_answer *ret, struct error *err)
{
    const struct candidates_call *call = question->call;
    uint32_t unknown = 0;
    int64_t kept = rank(question, mem, reasons);
    for (uint32_t i = 0; i < call->node_count; i++)
        unknown += reasons[i] == REASON_UNKNOWN_NODE;
    bool compare = unknown > 1 || !request_any(question->request);
    if (kept < 0 || (compare && mark_duplicates(question->sched, call, mem, reasons) < 0))
        return error_set(err, -ENOMEM, "out of memory");
    if (kept == 0) {
        metrics_add(METRIC_SAMPLE_REJECTED, 0, 1);
        log_no_fit(question->sched, call, question->request, reasons);
    } else {
        note_passed(question, reasons, (uint32_t)kept);
    }
    *ret = (struct filter_answer){.reasons = reasons, .fit_count = (uint32_t)kept};
    return 0;
}

/* A pod without devices fits wherever kube-scheduler thinks it does, and only packing cares where. */
static int answer_neutral(struct sched *sched, const struct candidates_call *call,
                          struct arena *mem, enum reason *reasons, struct filter_answer *ret,
                          struct error *err)
{
    fill(reasons, call->node_count, REASON_FITS);
    if (mark_duplicates(sched, call, mem, reasons) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    uint32_t fit = 0;
    for (uint32_t i = 0; i < call->node_count; i++)
        fit += reasons[i] == REASON_FITS;
    *ret = (struct filter_answer){.reasons = reasons, .fit_count = fit};
    return 0;
}

int sched_filter(struct sched *sched, const struct candidates_call *call, struct arena *mem,
                 struct filter_answer *ret, struct error *err)
{
    int rc = sched_ready(sched, err);
    if (rc < 0)
        return rc;
    enum reason *reasons = arena_alloc(mem, call->node_count, sizeof *reasons);
    if (reasons == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    struct pod_request request = {0};
    struct error why = {0};
    bool invalid = intake_request(&call->pod, &sched->hami_rules, &request, &why) < 0;
    struct error why_not_policy = {.text = "the placement annotations are invalid"};
    struct pod_policy policy;
    (void)intake_policy(&call->pod, &policy, &why_not_policy);
    bool any = !invalid && request_any(&request);
    if (any)
        await_events(sched, call->pod.id.uid);
    rc = agree_with_stored(sched, call, mem, &request, invalid, &policy, err);
    if (rc < 0)
        return rc;
    if (invalid)
        return answer_invalid(sched, call, mem, reasons, &why, ret, err);
    struct question question = question_of(sched, call, &request, &policy);
    if (!any && (policy.invalid || question.node_policy->weigh == NULL))
        return answer_neutral(sched, call, mem, reasons, ret, err);
    if (policy.invalid)
        return answer_invalid(sched, call, mem, reasons, &why_not_policy, ret, err);
    return answer_ranked(&question, mem, reasons, ret, err);
}
