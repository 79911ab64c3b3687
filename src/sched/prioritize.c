/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>

#include "core/score.h"
#include "sched/intake.h"

int sched_prioritize(struct sched *sched, const struct candidates_call *call, struct arena *mem,
                     struct prioritize_answer *ret, struct error *err)
{
    int rc = sched_ready(sched, err);
    if (rc < 0)
        return rc;
    int64_t *scores = arena_alloc(mem, call->node_count, sizeof *scores);
    if (scores == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    struct pod_request request = {0};
    struct error why;
    if (intake_request(&call->pod, &request, &why) == 0 && request_any(&request))
        cache_score(sched->cache, &request, atomic_load(&sched->node_policy), call->nodes,
                    call->node_count, scores);
    score_normalize(scores, call->node_count);
    score_stretch(scores, call->node_count);
    ret->scores = scores;
    return 0;
}
