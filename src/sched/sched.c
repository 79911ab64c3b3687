/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>

void sched_init(struct sched *sched, struct cache *cache, struct clock clock, struct port port,
                const struct device_policy *device_policy, const struct node_policy *node_policy)
{
    sched->cache = cache;
    sched->clock = clock;
    sched->port = port;
    sched->hami_rules = hami_rules_default;
    atomic_init(&sched->device_policy, device_policy);
    atomic_init(&sched->node_policy, node_policy);
    atomic_init(&sched->node_strength, STRENGTH_PREFER);
    atomic_init(&sched->max_candidates, 0);
    atomic_init(&sched->in_flight_wait_ns, 0);
    sched->turn_wait_ns = 0;
    sched->turn_waiters_max = 0;
    atomic_init(&sched->turn_waiters, 0);
    atomic_init(&sched->tentative, false);
    atomic_init(&sched->watching, false);
    atomic_init(&sched->synced, false);
    atomic_init(&sched->leading, true);
}

void sched_set_synced(struct sched *sched, bool synced)
{
    atomic_store(&sched->synced, synced);
}

void sched_set_leading(struct sched *sched, bool leading)
{
    atomic_store(&sched->leading, leading);
}

int sched_ready(const struct sched *sched, struct error *err)
{
    if (!atomic_load(&sched->leading))
        return error_set(err, -EPERM, "this replica does not lead");
    if (!atomic_load(&sched->synced))
        return error_set(err, -EAGAIN, "nodes, devices and pods are not listed yet");
    return 0;
}

const struct roster *sched_roster_take(struct sched *sched)
{
    return cache_roster_take(sched->cache);
}

void sched_roster_leave(const struct roster *roster)
{
    cache_roster_leave(roster);
}
