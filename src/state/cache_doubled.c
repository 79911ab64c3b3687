/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>

/* Who holds cards that were given twice. Pods and cards come in any order: what shows it may be the
 * event of the pod, of another pod, or of the cards. */

bool cache_holds_doubled_locked(const struct cache *cache, const struct pod_record *pod)
{
    struct cards cards = cache_cards_locked(cache, &cache->nodes[pod->node]);
    for (uint32_t i = 0; i < pod->share_count; i++) {
        uint32_t row = cards_find(&cards, pod->charges[i].kind, pod->charges[i].minor);
        if (row != UINT32_MAX && cards_given_twice(cards.at, row))
            return true;
    }
    return false;
}

void cache_find_doubled_locked(struct cache *cache, const struct node *node)
{
    for (struct pod_record *pod = node->pods; pod != NULL; pod = pod->next) {
        if (pod->state != BOOKING_BOUND || pod->doubled || !cache_holds_doubled_locked(cache, pod))
            continue;
        pod->doubled = pod->untold = true;
        TAILQ_INSERT_TAIL(&cache->untold, pod, waiting);
    }
}

void cache_undouble_locked(struct cache *cache, struct pod_record *pod)
{
    if (pod->untold)
        TAILQ_REMOVE(&cache->untold, pod, waiting);
    pod->doubled = pod->untold = false;
}

static int take_first_locked(struct cache *cache, struct arena *mem, struct doubled_pod *ret)
{
    struct pod_record *pod = TAILQ_FIRST(&cache->untold);
    if (pod == NULL)
        return 0;
    struct doubled_pod copy = {
        .id = {arena_str(mem, pod->ns), arena_str(mem, pod->name), arena_str(mem, pod->uid)},
        .node = arena_str(mem, cache->nodes[pod->node].name),
    };
    if (copy.id.ns.data == NULL || copy.id.name.data == NULL || copy.id.uid.data == NULL ||
        copy.node.data == NULL)
        return -ENOMEM;
    TAILQ_REMOVE(&cache->untold, pod, waiting);
    pod->untold = false;
    *ret = copy;
    return 1;
}

int cache_next_doubled(struct cache *cache, struct arena *mem, struct doubled_pod *ret)
{
    pthread_mutex_lock(&cache->mutex);
    int rc = take_first_locked(cache, mem, ret);
    cache_unlock(cache);
    return rc;
}
