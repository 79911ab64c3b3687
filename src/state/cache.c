/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <string.h>
#include <time.h>

#include "base/mem.h"

/* The lifetime of the cache, and its settings. */

/* Waits are counted on a clock that nobody sets. */
static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct cache *cache_new(enum unknown_pods unknown_pods)
{
    struct cache *cache = mem_calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->unknown_pods = unknown_pods;
    cache->names_version = 1;
    map_init(&cache->node_by_name);
    map_init(&cache->pod_by_uid);
    cache->node_by_name.keeps_old = cache->pod_by_uid.keeps_old = true;
    map_init(&cache->namespace_by_name);
    card_store_init(&cache->store);
    pack_sample_init(&cache->packing.sample);
    TAILQ_INIT(&cache->in_flight);
    TAILQ_INIT(&cache->tentative);
    TAILQ_INIT(&cache->untold);
    pthread_mutex_init(&cache->mutex, NULL);
    init_condition(&cache->arrived);
    init_condition(&cache->turned);
    return cache;
}

static void record_free(struct pod_record *pod)
{
    mem_free(pod->shares);
    mem_free(pod->named);
    mem_free(pod->detail);
    mem_free(pod);
}

void cache_free(struct cache *cache)
{
    if (cache == NULL)
        return;
    for (uint32_t i = 0; i < cache->pods.count; i++) {
        if (pod_slots_at(&cache->pods, i) != NULL)
            record_free(pod_slots_at(&cache->pods, i));
    }
    for (uint32_t i = 0; i < cache->node_slots; i++) {
        mem_free((char *)(uintptr_t)cache->nodes[i].name.data);
        mem_free(cache->nodes[i].texts);
        mem_free(cache->nodes[i].registered);
    }
    pod_slots_done(&cache->pods);
    mem_free(cache->nodes);
    mem_free(cache->keys);
    mem_free(cache->tags);
    cache_roster_done(cache);
    memos_done(&cache->memos);
    map_done(&cache->node_by_name);
    map_done(&cache->pod_by_uid);
    card_store_done(&cache->store);
    cache_namespaces_done(cache);
    guests_done(&cache->guests);
    packing_done(&cache->packing);
    pthread_cond_destroy(&cache->arrived);
    pthread_cond_destroy(&cache->turned);
    pthread_mutex_destroy(&cache->mutex);
    mem_free(cache);
}

/* ---- what is thrown away ---- */

void cache_discard_locked(struct cache *cache, void *block)
{
    struct waste *waste = &cache->waste;
    if (waste->count == WASTE_MAX)
        mem_free(block);
    else if (block != NULL)
        waste->of[waste->count++] = block;
}

void cache_record_discard_locked(struct cache *cache, struct pod_record *pod)
{
    cache_discard_locked(cache, pod->shares);
    cache_discard_locked(cache, pod->named);
    cache_discard_locked(cache, pod->detail);
    cache_discard_locked(cache, pod);
}

void cache_take_waste_locked(struct cache *cache, struct waste *ret)
{
    cache_discard_locked(cache, map_take_old(&cache->node_by_name));
    cache_discard_locked(cache, map_take_old(&cache->pod_by_uid));
    cache_discard_locked(cache, guests_take_old(&cache->guests));
    ret->count = cache->waste.count;
    memcpy(ret->of, cache->waste.of, ret->count * sizeof ret->of[0]);
    cache->waste.count = 0;
}

/* ---- settings ---- */

void cache_set_unknown_pods(struct cache *cache, enum unknown_pods unknown_pods)
{
    pthread_mutex_lock(&cache->mutex);
    cache->unknown_pods = unknown_pods;
    cache->gains++;
    memos_forget(&cache->memos);
    cache_unlock(cache);
}

void cache_set_device_plugin_nodes(struct cache *cache, enum device_plugin_nodes device_plugin_nodes)
{
    pthread_mutex_lock(&cache->mutex);
    cache->device_plugin_nodes = device_plugin_nodes;
    cache->gains++;
    memos_forget(&cache->memos);
    cache_unlock(cache);
}

void cache_set_hami_plugin(struct cache *cache, bool served)
{
    pthread_mutex_lock(&cache->mutex);
    cache->hami_plugin = served;
    cache->gains++;
    memos_forget(&cache->memos);
    cache_unlock(cache);
}
