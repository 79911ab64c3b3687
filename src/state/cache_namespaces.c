/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* What Namespaces say of pods that say nothing: only those with labels of ours are kept. */

static bool says_anything(const struct pod_policy *policy)
{
    return policy->node != NULL || policy->device != NULL || policy->strength != STRENGTH_UNSAID;
}

/* An empty slot, NODE_NONE when memory ends. */
static uint32_t empty_slot(struct cache *cache)
{
    for (uint32_t i = 0; i < cache->namespace_slots; i++)
        if (cache->namespaces[i].name.data == NULL)
            return i;
    if (cache->namespace_slots == cache->namespace_capacity) {
        uint32_t capacity = cache->namespace_capacity * 2 + 16;
        struct namespace_record *grown = mem_realloc(cache->namespaces, capacity, sizeof *grown);
        if (grown == NULL)
            return NODE_NONE;
        cache->namespaces = grown;
        cache->namespace_capacity = capacity;
    }
    cache->namespaces[cache->namespace_slots] = (struct namespace_record){0};
    return cache->namespace_slots++;
}

static uint32_t record_add(struct cache *cache, struct str name)
{
    char *copy = mem_calloc(name.len + 1, 1);
    if (copy == NULL)
        return NODE_NONE;
    memcpy(copy, name.data, name.len);
    struct str key = {copy, name.len};
    uint32_t slot = empty_slot(cache);
    if (slot == NODE_NONE || map_put(&cache->namespace_by_name, key, slot) < 0) {
        mem_free(copy);
        return NODE_NONE;
    }
    cache->namespaces[slot].name = key;
    return slot;
}

void cache_namespace_drop_locked(struct cache *cache, uint32_t slot)
{
    struct namespace_record *record = &cache->namespaces[slot];
    map_remove(&cache->namespace_by_name, record->name);
    mem_free((char *)(uintptr_t)record->name.data);
    *record = (struct namespace_record){0};
}

void cache_namespaces_done(struct cache *cache)
{
    for (uint32_t i = 0; i < cache->namespace_slots; i++)
        mem_free((char *)(uintptr_t)cache->namespaces[i].name.data);
    mem_free(cache->namespaces);
    map_done(&cache->namespace_by_name);
}

static int namespace_set_locked(struct cache *cache, struct str name,
                                const struct pod_policy *policy)
{
    uint32_t slot = map_get(&cache->namespace_by_name, name);
    if (!says_anything(policy)) {
        if (slot != MAP_NONE)
            cache_namespace_drop_locked(cache, slot);
        return 0;
    }
    if (slot == MAP_NONE && (slot = record_add(cache, name)) == NODE_NONE)
        return -ENOMEM;
    cache->namespaces[slot].policy = *policy;
    cache->namespaces[slot].mark = cache->marks[CACHE_NAMESPACES];
    return 0;
}

int cache_namespace_set(struct cache *cache, struct str name, const struct pod_policy *policy)
{
    pthread_mutex_lock(&cache->mutex);
    int rc = namespace_set_locked(cache, name, policy);
    cache_unlock(cache);
    return rc;
}

void cache_namespace_remove(struct cache *cache, struct str name)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t slot = map_get(&cache->namespace_by_name, name);
    if (slot != MAP_NONE)
        cache_namespace_drop_locked(cache, slot);
    cache_unlock(cache);
}

static void fill_locked(const struct cache *cache, struct str name, struct pod_policy *policy)
{
    uint32_t slot = MAP_NONE;
    if (cache->namespace_by_name.count > 0)
        slot = map_get(&cache->namespace_by_name, name);
    if (slot != MAP_NONE)
        pod_policy_fill(policy, &cache->namespaces[slot].policy);
}

void cache_namespace_fill(struct cache *cache, struct str name, struct pod_policy *policy)
{
    pthread_mutex_lock(&cache->mutex);
    fill_locked(cache, name, policy);
    cache_unlock(cache);
}

struct pod_policy cache_policy_locked(const struct cache *cache, const struct pod_record *pod)
{
    struct pod_policy policy = pod->policy;
    fill_locked(cache, pod->ns, &policy);
    return policy;
}
