/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

/* Relists: objects that a complete list did not name went while nobody was watching. */

#define SLICE  8u  /* slots looked at, and perhaps emptied, while the lock is held once */
#define SETTLE 64u /* slots of a table that grew, likewise */

uint32_t cache_list_begin(struct cache *cache, enum cache_listed kind)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t mark = ++cache->marks[kind];
    cache_unlock(cache);
    return mark;
}

void cache_list_keep(struct cache *cache, enum cache_listed kind, struct str name)
{
    pthread_mutex_lock(&cache->mutex);
    if (kind == CACHE_PODS) {
        struct pod_record *pod = cache_pod_lookup_locked(cache, name);
        struct guest *guest = pod == NULL ? guests_find(&cache->guests, name) : NULL;
        if (pod != NULL)
            pod->mark = cache->marks[kind];
        if (guest != NULL)
            guest->mark = cache->marks[kind];
    } else if (kind == CACHE_NAMESPACES) {
        uint32_t slot = map_get(&cache->namespace_by_name, name);
        if (slot != MAP_NONE)
            cache->namespaces[slot].mark = cache->marks[kind];
    } else {
        uint32_t slot = map_get(&cache->node_by_name, name);
        if (slot != MAP_NONE && kind == CACHE_NODES)
            cache->nodes[slot].node_mark = cache->marks[kind];
        else if (slot != MAP_NONE)
            cache->nodes[slot].devices_mark = cache->marks[kind];
    }
    cache_unlock(cache);
}

/* A pod that is bound and was seen so is what the event applied last made of it: cards that change since
 * charge it anew. One that is not may have been booked or held meanwhile. */
bool cache_pod_same(struct cache *cache, struct str uid, uint64_t version)
{
    bool same = false;
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *pod = cache_pod_lookup_locked(cache, uid);
    struct guest *guest = pod == NULL ? guests_find(&cache->guests, uid) : NULL;
    if (pod != NULL)
        same = pod->version == version && pod->state == BOOKING_BOUND && !pod->only_read;
    else if (guest != NULL)
        same = guest->version == version;
    if (same && pod != NULL)
        pod->mark = cache->marks[CACHE_PODS];
    else if (same)
        guest->mark = cache->marks[CACHE_PODS];
    cache_unlock(cache);
    return same;
}

/* Marks count up and wrap; a mark is older when the distance to it is negative. */
static bool is_older(uint32_t mark, uint32_t than)
{
    return (int32_t)(mark - than) < 0;
}

static bool sweep_node(struct cache *cache, uint32_t slot, uint32_t mark)
{
    const struct node *node = &cache->nodes[slot];
    bool gone = node->has_node && is_older(node->node_mark, mark);
    if (gone)
        cache_node_drop_locked(cache, slot);
    return gone;
}

static bool sweep_devices(struct cache *cache, uint32_t slot, uint32_t mark)
{
    const struct node *node = &cache->nodes[slot];
    bool gone = node->has_devices && is_older(node->devices_mark, mark);
    if (gone)
        cache_devices_drop_locked(cache, slot);
    return gone;
}

static bool sweep_pod(struct cache *cache, uint32_t slot, uint32_t mark)
{
    struct pod_record *pod = pod_slots_at(&cache->pods, slot);
    bool gone = pod != NULL && is_older(pod->mark, mark);
    if (gone)
        cache_pod_drop_locked(cache, pod);
    return gone;
}

static bool sweep_namespace(struct cache *cache, uint32_t slot, uint32_t mark)
{
    const struct namespace_record *record = &cache->namespaces[slot];
    bool gone = record->name.data != NULL && is_older(record->mark, mark);
    if (gone)
        cache_namespace_drop_locked(cache, slot);
    return gone;
}

static uint32_t slots_of(const struct cache *cache, enum cache_listed kind)
{
    return kind == CACHE_PODS         ? cache->pods.count
           : kind == CACHE_NAMESPACES ? cache->namespace_slots
                                      : cache->node_slots;
}

static bool sweep(struct cache *cache, enum cache_listed kind, uint32_t slot, uint32_t mark)
{
    switch (kind) {
    case CACHE_NODES:
        return sweep_node(cache, slot, mark);
    case CACHE_DEVICES:
        return sweep_devices(cache, slot, mark);
    case CACHE_PODS:
        return sweep_pod(cache, slot, mark);
    case CACHE_NAMESPACES:
        return sweep_namespace(cache, slot, mark);
    case CACHE_LISTED_MAX:
        break;
    }
    return false;
}

/* Between the slices guests may come, which grow the table: then it is looked at from the start, once all
 * have moved there. They go by what the one who lists is told, so none moves past the place that was
 * reached. */
static uint32_t sweep_guests(struct cache *cache, uint32_t mark)
{
    uint32_t removed = 0, at = 0, capacity = 0;
    bool more = true;
    while (more) {
        pthread_mutex_lock(&cache->mutex);
        bool settled = guests_settle(&cache->guests, SETTLE);
        at = settled && capacity == cache->guests.capacity ? at : 0;
        capacity = cache->guests.capacity;
        for (uint32_t looked = 0; settled && at < capacity && looked < SLICE; looked++) {
            struct guest *guest = guests_at(&cache->guests, at);
            if (guest != NULL && is_older(guest->mark, mark)) {
                cache_guest_drop_locked(cache, guest); /* another may have moved here */
                removed++;
            } else {
                at++;
            }
        }
        more = !settled || at < capacity;
        cache_unlock(cache);
    }
    return removed;
}

uint32_t cache_list_end(struct cache *cache, enum cache_listed kind, uint32_t mark)
{
    uint32_t removed = 0, slots = 1;
    for (uint32_t begin = 0; begin < slots; begin += SLICE) {
        pthread_mutex_lock(&cache->mutex);
        slots = slots_of(cache, kind);
        for (uint32_t slot = begin; slot < slots && slot < begin + SLICE; slot++)
            removed += sweep(cache, kind, slot, mark);
        cache_unlock(cache);
    }
    if (kind == CACHE_PODS)
        removed += sweep_guests(cache, mark);
    return removed;
}
