/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

void sched_init(struct sched *sched, struct cache *cache, struct clock clock, struct port port,
                const struct device_policy *device_policy, const struct node_policy *node_policy)
{
    sched->cache = cache;
    sched->clock = clock;
    sched->port = port;
    atomic_init(&sched->device_policy, device_policy);
    atomic_init(&sched->node_policy, node_policy);
    atomic_init(&sched->synced, false);
}

void sched_set_synced(struct sched *sched, bool synced)
{
    atomic_store(&sched->synced, synced);
}
