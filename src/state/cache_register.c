/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* What HAMi's device plugin registers on the Node: a second source of cards, behind the Device
 * object. */

static bool device_eq(const struct device *a, const struct device *b)
{
    return a->kind == b->kind && a->minor == b->minor && a->healthy == b->healthy &&
           a->total.percent == b->total.percent && a->total.ratio == b->total.ratio &&
           a->total.bytes == b->total.bytes && str_eq(a->id, b->id) && str_eq(a->model, b->model) &&
           a->slots == b->slots;
}

static bool inventory_eq(const struct inventory *a, const struct inventory *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = device_eq(&a->devices[i], &b->devices[i]);
    return same;
}

/* A copy in row order, in one block. */
static int copy_inventory(const struct inventory *inventory, struct inventory **ret,
                          struct error *err)
{
    uint16_t order[CARDS_PER_NODE_MAX];
    size_t text_bytes;
    int rc = cache_sort_inventory(inventory, order, &text_bytes, err);
    if (rc < 0)
        return rc;
    struct inventory *copy =
        mem_calloc(sizeof *copy + inventory->count * sizeof(struct device) + text_bytes, 1);
    if (copy == NULL) {
        error_set(err, -ENOMEM, "out of memory");
        return -ENOMEM;
    }
    struct device *devices = (struct device *)(copy + 1);
    char *text = (char *)(devices + inventory->count);
    for (uint32_t i = 0; i < inventory->count; i++) {
        devices[i] = inventory->devices[order[i]];
        text = str_copy(text, devices[i].id, &devices[i].id);
        text = str_copy(text, devices[i].model, &devices[i].model);
    }
    *copy = (struct inventory){.devices = devices, .count = inventory->count};
    *ret = copy;
    return 0;
}

/* Takes `fresh` over. */
static int set_locked(struct cache *cache, struct str name, struct inventory *fresh)
{
    uint32_t slot = cache_node_find_locked(cache, name);
    if (slot == MAP_NONE || !cache->nodes[slot].has_node) {
        cache_discard_locked(cache, fresh);
        return 0;
    }
    struct node *node = &cache->nodes[slot];
    struct inventory *old = node->registered;
    bool shown = node->has_devices || (old != NULL && node->range.chunk != NULL);
    if (shown && old != NULL && inventory_eq(old, fresh)) {
        cache_discard_locked(cache, fresh);
        return 0;
    }
    if (!node->has_devices && cache_rows_set_locked(cache, node, fresh, NULL, NULL) < 0) {
        mem_free(fresh);
        return -ENOMEM;
    }
    cache->counts.view.device_nodes += !node_has_inventory(node);
    node->registered = fresh;
    cache_node_touched_locked(cache, slot);
    cache_discard_locked(cache, old);
    return 0;
}

int cache_registration_set(struct cache *cache, struct str node, const struct inventory *inventory,
                           struct error *err)
{
    struct inventory *fresh = NULL;
    int rc = copy_inventory(inventory, &fresh, err);
    if (rc < 0)
        return rc;
    cache_prepare_cards(cache);
    pthread_mutex_lock(&cache->mutex);
    rc = set_locked(cache, node, fresh);
    cache_unlock(cache);
    return rc < 0 ? error_set(err, rc, "out of memory") : 0;
}

void cache_registration_drop_locked(struct cache *cache, uint32_t slot)
{
    struct node *node = &cache->nodes[slot];
    struct inventory *old = node->registered;
    if (old == NULL)
        return;
    node->registered = NULL;
    cache_node_touched_locked(cache, slot);
    cache->counts.view.device_nodes -= !node_has_inventory(node);
    if (!node->has_devices)
        cache_rows_clear_locked(cache, node);
    cache_discard_locked(cache, old);
}

void cache_registration_remove(struct cache *cache, struct str name)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t slot = cache_node_find_locked(cache, name);
    if (slot != MAP_NONE)
        cache_registration_drop_locked(cache, slot);
    cache_unlock(cache);
}
