/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>

#include "sched/intake.h"

/* kube-scheduler keeps only candidates that have victims; a node without any needs no preemption. */
static bool keeps(struct sched *sched, const struct pod_request *request,
                  const struct preempt_victims *victims)
{
    if (victims->count == 0)
        return false;
    if (!request_any(request))
        return true;
    return cache_what_if(sched->cache, victims->node, request, victims->uids, victims->count) ==
           REASON_FITS;
}

int sched_preempt(struct sched *sched, const struct preempt_call *call, struct arena *mem,
                  struct preempt_answer *ret, struct error *err)
{
    int rc = sched_ready(sched, err);
    if (rc < 0)
        return rc;
    bool *keep = arena_alloc(mem, call->node_count, sizeof *keep);
    if (keep == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    struct pod_request request = {0};
    struct error why;
    if (intake_request(&call->pod, &sched->hami_rules, &request, &why) == 0) {
        for (uint32_t i = 0; i < call->node_count; i++)
            keep[i] = keeps(sched, &request, &call->nodes[i]);
    }
    ret->keep = keep;
    return 0;
}
