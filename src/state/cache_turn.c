/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <assert.h>

/* Pods that HAMi's device plugin is to set up: one a node at a time. */

void cache_set_allocating_locked(struct cache *cache, struct pod_record *pod, bool allocating)
{
    if (pod->allocating == allocating)
        return;
    assert(pod->node != NODE_NONE);
    struct node *node = &cache->nodes[pod->node];
    pod->allocating = allocating;
    node->allocating += allocating ? 1u : -1u;
    if (node->allocating == 0)
        pthread_cond_broadcast(&cache->turned);
}

static bool is_free_locked(const struct cache *cache, struct str node)
{
    uint32_t slot = cache_node_find_locked(cache, node);
    return slot == MAP_NONE || cache->nodes[slot].allocating == 0;
}

bool cache_await_turn(struct cache *cache, struct str node, int64_t wait_ns)
{
    struct timespec deadline = cache_from_now(wait_ns);
    pthread_mutex_lock(&cache->mutex);
    bool is_free = is_free_locked(cache, node);
    for (int rc = 0; rc == 0 && !is_free; is_free = is_free_locked(cache, node))
        rc = pthread_cond_timedwait(&cache->turned, &cache->mutex, &deadline);
    cache_unlock(cache);
    return is_free;
}
