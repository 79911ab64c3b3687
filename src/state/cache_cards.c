/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* The cards of nodes, as Device objects and registrations list them. */

struct cards cache_cards_locked(const struct cache *cache, const struct node *node)
{
    (void)cache;
    struct cards cards = {
        .at = card_range_columns(node->range),
        .first = node->range.first,
        .sum = node->sum,
        .links = node->links.count > 0 ? &node->links : NULL,
    };
    memcpy(cards.count, node->count, sizeof cards.count);
    return cards;
}

static bool amount_in_bounds(const struct amount *amount)
{
    return amount->percent >= 0 && amount->percent <= CARD_PERCENT_MAX && amount->ratio >= 0 &&
           amount->ratio <= CARD_PERCENT_MAX && amount->bytes >= 0 &&
           amount->bytes <= CARD_BYTES_MAX;
}

static bool device_before(const struct device *a, const struct device *b)
{
    return a->kind != b->kind ? a->kind < b->kind : a->minor < b->minor;
}

/* Insertion sort: inventories are short and nearly always sorted. */
int cache_sort_inventory(const struct inventory *inventory, uint16_t order[CARDS_PER_NODE_MAX],
                         size_t *ret_text_bytes, struct error *err)
{
    if (inventory->count > CARDS_PER_NODE_MAX)
        return error_set(err, -EINVAL, "spec.devices: %u entries, more than %d", inventory->count,
                         CARDS_PER_NODE_MAX);
    if (inventory->links.count > LINKS_MAX)
        return error_set(err, -EINVAL, "%u groups of connected cards, more than %d",
                         inventory->links.count, LINKS_MAX);
    size_t text_bytes = 0;
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct device *device = &inventory->devices[i];
        if (device->kind >= DEVICE_KIND_MAX || device->minor < 0 ||
            device->id.len > DEVICE_ID_MAX || device->model.len > DEVICE_MODEL_MAX ||
            !amount_in_bounds(&device->total))
            return error_set(err, -EINVAL, "spec.devices[%u]: a value is out of bounds", i);
        text_bytes += device->id.len + device->model.len;
        uint32_t at = i;
        for (; at > 0 && device_before(device, &inventory->devices[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = (uint16_t)i;
        if (at > 0 && !device_before(&inventory->devices[order[at - 1]], device))
            return error_set(err, -EINVAL, "spec.devices[%u].minor: %s %d is listed twice", i,
                             device_kind_name(device->kind), device->minor);
    }
    *ret_text_bytes = text_bytes;
    return 0;
}

void cache_add_up_locked(struct cache *cache, struct node *node)
{
    cache_node_touched_locked(cache, (uint32_t)(node - cache->nodes));
    struct cards cards = cache_cards_locked(cache, node);
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        cards_add_up(&cards, kind, &node->sum[kind]);
}

static size_t links_bytes(const struct links *links)
{
    return links->count * sizeof links->groups[0];
}

/* What is told of the cards' links goes first into the node's block; NULL: there is none, nor links.
 * Returns where its texts begin. */
static char *fill_links(struct node *node, const struct links *links)
{
    node->links = (struct links){0};
    if (node->texts == NULL || links->count == 0)
        return node->texts;
    memcpy(node->texts, links->groups, links_bytes(links));
    node->links = (struct links){(struct link_group *)(void *)node->texts, links->count};
    return node->texts + links_bytes(links);
}

/* Put an inventory into fresh rows, nothing used yet. */
static void fill_rows(struct node *node, const struct inventory *inventory, const uint16_t *order)
{
    char *text = fill_links(node, &inventory->links);
    if (inventory->count == 0)
        return;
    assert(inventory->devices != NULL);
    struct card_columns *columns = card_range_columns(node->range);
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct device *device = &inventory->devices[order != NULL ? order[i] : i];
        uint32_t row = node->range.first + i;
        columns->id[row] = device->id;
        columns->model[row] = device->model;
        if (text != NULL) {
            text = str_copy(text, device->id, &columns->id[row]);
            text = str_copy(text, device->model, &columns->model[row]);
        }
        columns->slots[row] = device->slots;
        columns->minor[row] = device->minor;
        columns->registered[row] = true;
        columns->total[row] = device->healthy ? device->total : (struct amount){0};
        cards_refresh(columns, row);
        node->count[device->kind]++;
    }
}

static uint32_t card_count(const struct node *node)
{
    uint32_t count = 0;
    for (unsigned kind = 0; kind < DEVICE_KIND_MAX; kind++)
        count += node->count[kind];
    return count;
}

/* Exchange the node's rows for those of an inventory and charge its pods on them anew. */
static void replace_rows(struct cache *cache, struct node *node, struct card_range range,
                         char *texts, const struct inventory *inventory, const uint16_t *order)
{
    for (struct pod_record *pod = node->pods; pod != NULL; pod = pod->next)
        cache_uncharge_locked(cache, pod);
    card_store_give(&cache->store, node->range);
    cache_discard_locked(cache, node->texts);
    cache->counts.view.cards -= card_count(node);
    node->range = range;
    node->texts = texts;
    memset(node->count, 0, sizeof node->count);
    fill_rows(node, inventory, order);
    cache->counts.view.cards += card_count(node);
    cache->gains++;
    cache_pack_stale_locked(cache, (uint32_t)(node - cache->nodes));
    for (struct pod_record *pod = node->pods; pod != NULL; pod = pod->next)
        cache_charge_locked(cache, pod);
    cache_add_up_locked(cache, node);
    cache_find_doubled_locked(cache, node);
}

int cache_rows_set_locked(struct cache *cache, struct node *node, const struct inventory *inventory,
                          const uint16_t *order, char *texts)
{
    struct card_range range;
    if (card_store_take(&cache->store, inventory->count, &range) < 0)
        return -ENOMEM;
    replace_rows(cache, node, range, texts, inventory, order);
    return 0;
}

void cache_rows_clear_locked(struct cache *cache, struct node *node)
{
    static const struct inventory nothing = {0};
    replace_rows(cache, node, (struct card_range){0}, NULL, &nothing, NULL);
}

void cache_prepare_cards(struct cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    bool wanted = card_store_wants(&cache->store);
    cache_unlock(cache);
    struct card_chunk *spare = wanted ? card_store_spare() : NULL;
    if (spare == NULL) /* then it is made under the lock, or memory ends there */
        return;
    pthread_mutex_lock(&cache->mutex);
    cache_discard_locked(cache, card_store_add(&cache->store, spare));
    cache_unlock(cache);
}

static int devices_set_locked(struct cache *cache, struct str name,
                              const struct inventory *inventory, const uint16_t *order, char *texts)
{
    uint32_t slot = cache_node_ensure_locked(cache, name);
    if (slot == NODE_NONE)
        return -ENOMEM;
    struct node *node = &cache->nodes[slot];
    if (cache_rows_set_locked(cache, node, inventory, order, texts) < 0) {
        cache_node_tidy_locked(cache, slot);
        return -ENOMEM;
    }
    cache_node_touched_locked(cache, slot);
    node->devices_mark = cache->marks[CACHE_DEVICES];
    cache->counts.view.device_nodes += !node_has_inventory(node);
    node->has_devices = true;
    return 0;
}

int cache_devices_set(struct cache *cache, struct str node, const struct inventory *inventory,
                      struct error *err)
{
    uint16_t order[CARDS_PER_NODE_MAX];
    size_t text_bytes = 0;
    int rc = cache_sort_inventory(inventory, order, &text_bytes, err);
    if (rc < 0)
        return rc;
    char *texts = mem_calloc(links_bytes(&inventory->links) + text_bytes + 1, 1);
    if (texts == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    cache_prepare_cards(cache);
    pthread_mutex_lock(&cache->mutex);
    rc = devices_set_locked(cache, node, inventory, order, texts);
    cache_unlock(cache);
    if (rc < 0) {
        mem_free(texts);
        return error_set(err, rc, "out of memory");
    }
    return 0;
}

void cache_devices_drop_locked(struct cache *cache, uint32_t slot)
{
    struct node *node = &cache->nodes[slot];
    if (!node->has_devices)
        return;
    node->has_devices = false;
    cache_node_touched_locked(cache, slot);
    cache->counts.view.device_nodes -= !node_has_inventory(node);
    /* Short of memory the rows are made at the Node's next event. */
    if (node->registered == NULL ||
        cache_rows_set_locked(cache, node, node->registered, NULL, NULL) < 0)
        cache_rows_clear_locked(cache, node);
    cache_node_tidy_locked(cache, slot);
}

void cache_devices_remove(struct cache *cache, struct str name)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t slot = cache_node_find_locked(cache, name);
    if (slot != MAP_NONE)
        cache_devices_drop_locked(cache, slot);
    cache_unlock(cache);
}
