/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/intake.h"

#include "base/map.h"

#include <errno.h>

#include "base/metrics.h"

int intake_request(const struct pod *pod, const struct hami_rules *rules, struct pod_request *ret,
                   struct error *err)
{
    if (pod->request_problem.len > 0)
        return error_set(err, -EINVAL, "%.*s", STR_ARG(pod->request_problem));
    struct resources effective;
    int rc = request_effective(pod->containers, pod->container_count, &pod->overhead, &effective, err);
    if (rc < 0)
        return rc;
    rc = request_parse(&effective, ret, err);
    if (rc == 0 && pod->room != NULL)
        rc = hami_parse(&effective, pod->containers, pod->container_count, rules, pod->room, ret,
                        err);
    return rc;
}

int intake_policy(const struct pod *pod, struct pod_policy *ret, struct error *err)
{
    uint32_t ignored;
    int rc = pod_policy_read(&pod->policy_words, ret, &ignored, err);
    if (ignored > 0)
        metrics_add(METRIC_WORDS_IGNORED, 0, ignored);
    return rc;
}

int intake_repeated(const struct str *names, uint32_t count, bool *repeated)
{
    struct map seen;
    map_init(&seen);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        if (map_get(&seen, names[i]) != MAP_NONE)
            repeated[i] = true;
        else
            rc = map_put(&seen, names[i], i);
    }
    map_done(&seen);
    return rc;
}
