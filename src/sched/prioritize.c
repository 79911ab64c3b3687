/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>

#include "core/score.h"
#include "sched/intake.h"

/* The pod's own node policy as the stored object has it, else as the call has it, else the configured
 * one. */
static const struct node_policy *policy_of(struct sched *sched, const struct pod *pod,
                                           struct arena *mem)
{
    struct pod_view stored;
    struct pod_policy policy;
    struct error why;
    if (cache_pod_find(sched->cache, &pod->id, mem, &stored) == POD_KNOWN) {
        policy = stored.policy;
    } else {
        (void)intake_policy(pod, &policy, &why);
        cache_namespace_fill(sched->cache, pod->id.ns, &policy);
    }
    return policy.node != NULL ? policy.node : atomic_load(&sched->node_policy);
}

int sched_prioritize(struct sched *sched, const struct candidates_call *call, struct arena *mem,
                     struct prioritize_answer *ret, struct error *err)
{
    int rc = sched_ready(sched, err);
    if (rc < 0)
        return rc;
    int64_t *scores = arena_alloc(mem, call->node_count, sizeof *scores);
    bool *repeated = arena_alloc(mem, call->node_count, sizeof *repeated);
    if (scores == NULL || repeated == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    struct pod_request request = {0};
    struct error why;
    const struct node_policy *policy = policy_of(sched, &call->pod, mem);
    struct roster_notes notes = call->notes;
    uint32_t unknown;
    if (intake_request(&call->pod, &sched->hami_rules, &request, &why) == 0 &&
        (request_any(&request) || policy->weigh != NULL))
        unknown = cache_score(sched->cache, &request, &call->pod.host, policy, &notes, call->nodes,
                              call->node_count, scores, repeated);
    else
        unknown =
            cache_repeated(sched->cache, &notes, call->nodes, call->node_count, repeated);
    cache_roster_learn(sched->cache, &notes, call->node_count);
    /* The cache has seen which of the nodes that it knows came twice. */
    if (unknown > 1 && intake_repeated(call->nodes, call->node_count, repeated) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    if (policy->weigh != NULL) {
        score_favour_best(scores, call->node_count);
    } else {
        score_coarsen(scores, call->node_count);
        score_normalize(scores, call->node_count);
        score_stretch(scores, call->node_count);
    }
    ret->scores = scores;
    ret->repeated = repeated;
    return 0;
}
