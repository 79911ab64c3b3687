/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* Nodes: what events say of them, and the slots they are in. */

uint32_t cache_node_find_locked(const struct cache *cache, struct str name)
{
    return map_get(&cache->node_by_name, name);
}

void cache_node_touched_locked(struct cache *cache, uint32_t slot)
{
    struct node_tag *tag = &cache->tags[slot];
    if (++tag->generation == 0) {
        /* After so many changes an entry could be taken for a new one. */
        memos_forget(&cache->memos);
        tag->generation = 1;
    }
}

/* The slot is that of a node of this name now, or data NULL: empty. */
static void name_slot(struct cache *cache, uint32_t slot, struct str name)
{
    struct node_key *key = &cache->keys[slot];
    cache->name_bytes -= key->name != NULL ? key->name_len : 0;
    cache->name_bytes += name.len;
    cache->names_version++;
    key->name = name.data;
    key->name_len = name.data != NULL ? (uint32_t)name.len : UINT32_MAX;
    cache->tags[slot].scan_epoch = 0;
    cache_node_touched_locked(cache, slot);
}

static uint32_t empty_slot(struct cache *cache)
{
    for (uint32_t i = cache->node_slots; cache->counts.node_slots_free > 0 && i-- > 0;) {
        if (cache->nodes[i].name.data == NULL)
            return i;
    }
    if (cache->node_slots == cache->node_capacity) {
        uint32_t capacity = cache->node_capacity * 2 + 64;
        if (!cache_pack_reserve_locked(cache, capacity))
            return NODE_NONE;
        struct node_key *keys = mem_realloc(cache->keys, capacity, sizeof *keys);
        if (keys == NULL)
            return NODE_NONE;
        cache->keys = keys;
        struct node_tag *tags = mem_realloc(cache->tags, capacity, sizeof *tags);
        if (tags == NULL)
            return NODE_NONE;
        cache->tags = tags;
        struct node *grown = mem_realloc(cache->nodes, capacity, sizeof *grown);
        if (grown == NULL)
            return NODE_NONE;
        /* List heads moved with the array. */
        for (uint32_t i = 0; i < cache->node_slots; i++) {
            if (grown[i].pods != NULL)
                grown[i].pods->link = &grown[i].pods;
        }
        cache->nodes = grown;
        cache->node_capacity = capacity;
    }
    cache->nodes[cache->node_slots] = (struct node){0};
    cache->keys[cache->node_slots] = (struct node_key){0};
    cache->tags[cache->node_slots] = (struct node_tag){0};
    name_slot(cache, cache->node_slots, (struct str){NULL, 0});
    cache->counts.node_slots_free++;
    return cache->node_slots++;
}

uint32_t cache_node_ensure_locked(struct cache *cache, struct str name)
{
    uint32_t slot = cache_node_find_locked(cache, name);
    if (slot != MAP_NONE)
        return slot;
    char *copy = mem_calloc(name.len + 1, 1);
    if (copy == NULL)
        return NODE_NONE;
    memcpy(copy, name.data, name.len);
    struct str key = {copy, name.len};
    slot = empty_slot(cache);
    if (slot == NODE_NONE || map_put(&cache->node_by_name, key, slot) < 0) {
        mem_free(copy);
        return NODE_NONE;
    }
    cache->nodes[slot] = (struct node){.name = key};
    name_slot(cache, slot, key);
    cache->counts.node_slots_free--;
    return slot;
}

void cache_node_tidy_locked(struct cache *cache, uint32_t slot)
{
    struct node *node = &cache->nodes[slot];
    if (node->has_node || node_has_inventory(node) || node->pods != NULL || node->guests > 0)
        return;
    assert(node->range.chunk == NULL && node->texts == NULL);
    cache_pack_stale_locked(cache, slot);
    map_remove(&cache->node_by_name, node->name);
    cache_discard_locked(cache, (char *)(uintptr_t)node->name.data);
    *node = (struct node){0};
    name_slot(cache, slot, (struct str){NULL, 0});
    cache->counts.node_slots_free++;
}

static void node_seen(struct cache *cache, uint32_t slot, const struct node_facts *facts)
{
    struct node *node = &cache->nodes[slot];
    node->node_mark = cache->marks[CACHE_NODES];
    cache->counts.view.nodes += !node->has_node;
    cache->gains += !node->has_node || (node->device_plugin && !facts->device_plugin);
    node->has_node = true;
    node->device_plugin = facts->device_plugin;
    node->allocatable = facts->allocatable;
    node->model = packing_model(&cache->packing, facts->gpu_model);
    cache_node_touched_locked(cache, slot);
    cache_pack_stale_locked(cache, slot);
}

int cache_node_set(struct cache *cache, const struct node_facts *facts)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t slot = cache_node_ensure_locked(cache, facts->name);
    if (slot != NODE_NONE)
        node_seen(cache, slot, facts);
    cache_unlock(cache);
    return slot != NODE_NONE ? 0 : -ENOMEM;
}

void cache_node_drop_locked(struct cache *cache, uint32_t slot)
{
    if (!cache->nodes[slot].has_node)
        return;
    cache_registration_drop_locked(cache, slot);
    cache->nodes[slot].has_node = cache->nodes[slot].device_plugin = false;
    cache_node_touched_locked(cache, slot);
    cache->counts.view.nodes--;
    cache_pack_stale_locked(cache, slot);
    cache_node_tidy_locked(cache, slot);
}

void cache_node_remove(struct cache *cache, struct str name)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t slot = cache_node_find_locked(cache, name);
    if (slot != MAP_NONE)
        cache_node_drop_locked(cache, slot);
    cache_unlock(cache);
}
