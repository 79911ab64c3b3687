/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

/* The lifetime of the cache, its nodes and their cards. */

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

/* ---- nodes ---- */

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

/* ---- cards ---- */

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

/* After any change of a node's cards. */
static void add_up(struct cache *cache, struct node *node)
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
    add_up(cache, node);
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

/* ---- charges ---- */

struct share *cache_shares_block(uint32_t count)
{
    return mem_calloc((size_t)count * 2 + 1, sizeof(struct share));
}

int cache_plan_holding(const struct plan *plan, struct holding *ret)
{
    *ret = (struct holding){
        .annotation = ANNOTATION_READ,
        .shares = cache_shares_block(plan->count),
        .count = plan->count,
    };
    if (ret->shares == NULL)
        return -ENOMEM;
    if (plan->count > 0)
        memcpy(ret->shares, plan->shares, plan->count * sizeof plan->shares[0]);
    return 0;
}

struct named_share *cache_named_block(const struct named_share *named, uint32_t count)
{
    size_t bytes = count * sizeof *named;
    for (uint32_t i = 0; i < count; i++)
        bytes += named[i].id.len;
    struct named_share *block = mem_calloc(bytes + 1, 1);
    if (block == NULL)
        return NULL;
    char *text = (char *)(block + count);
    for (uint32_t i = 0; i < count; i++) {
        block[i] = named[i];
        text = str_copy(text, named[i].id, &block[i].id);
    }
    return block;
}

void cache_record_discard_locked(struct cache *cache, struct pod_record *pod)
{
    cache_discard_locked(cache, pod->shares);
    cache_discard_locked(cache, pod->named);
    cache_discard_locked(cache, pod->detail);
    cache_discard_locked(cache, pod);
}

/* Put a pod's charges on (sign 1) or take them off its node's cards. A card that is not listed now gets
 * nothing: the charge waits in the record for its return. */
static void apply_charges(struct cache *cache, const struct pod_record *pod, int sign)
{
    struct node *node = &cache->nodes[pod->node];
    struct cards cards = cache_cards_locked(cache, node);
    struct card_columns *columns = card_range_columns(node->range);
    for (uint32_t i = 0; i < pod->share_count; i++) {
        const struct share *charge = &pod->charges[i];
        uint32_t row = cards_find(&cards, charge->kind, charge->minor);
        if (row != UINT32_MAX)
            cards_charge(columns, row, &charge->amount, charge->beside + 1, sign);
    }
}

static void count_trust(struct cache *cache, const struct pod_record *pod, int sign)
{
    struct node *node = &cache->nodes[pod->node];
    uint32_t one = (uint32_t)sign;
    if (pod->trust == CHARGE_INCONSISTENT)
        cache->counts.view.inconsistent_pods += one;
    if (pod->trust != CHARGE_UNKNOWN)
        return;
    cache_node_touched_locked(cache, pod->node);
    cache->counts.view.unknown_pods += one;
    if (sign > 0 && node->unknown_pods == 0)
        cache->counts.nodes_with_unknown++;
    node->unknown_pods += one;
    if (sign < 0 && node->unknown_pods == 0)
        cache->counts.nodes_with_unknown--;
}

void cache_uncharge_locked(struct cache *cache, struct pod_record *pod)
{
    apply_charges(cache, pod, -1);
    count_trust(cache, pod, -1);
}

/* The row of the GPU with this id, or UINT32_MAX. *ret_all_named tells whether every GPU has one.
 */
static uint32_t find_id(const struct cards *cards, struct str id, bool *ret_all_named)
{
    uint32_t begin = cards_begin(cards, DEVICE_GPU), found = UINT32_MAX;
    *ret_all_named = true;
    for (uint32_t row = begin; row < begin + cards->count[DEVICE_GPU]; row++) {
        *ret_all_named &= cards->at->id[row].len > 0;
        if (str_eq(cards->at->id[row], id))
            found = row;
    }
    return found;
}

static void insert_share(struct pod_record *pod, const struct share *share)
{
    uint32_t at = pod->share_count++;
    for (; at > 0 && pod->shares[at - 1].minor > share->minor; at--)
        pod->shares[at] = pod->shares[at - 1];
    pod->shares[at] = *share;
}

/* The shares of a pod whose annotation names cards by id, on the cards that the node lists now.
 * Returns how many it names that are not among them. Where a card tells no id it may be any of
 * those: none then counts. */
static uint32_t resolve_named(const struct cards *cards, struct pod_record *pod)
{
    uint32_t unlisted = 0;
    bool all_named = true;
    pod->share_count = 0;
    for (uint32_t i = 0; i < pod->named_count; i++) {
        const struct named_share *named = &pod->named[i];
        uint32_t row = find_id(cards, named->id, &all_named);
        if (row == UINT32_MAX) {
            unlisted++;
            continue;
        }
        struct share share = {
            .kind = DEVICE_GPU,
            .minor = cards->at->minor[row],
            .amount = hami_amount(pod->request_invalid ? NULL : &pod->request, named->mib,
                                  named->percent, &cards->at->total[row]),
            .beside = named->beside,
        };
        insert_share(pod, &share);
    }
    return all_named ? unlisted : 0;
}

void cache_charge_locked(struct cache *cache, struct pod_record *pod)
{
    struct cards cards = cache_cards_locked(cache, &cache->nodes[pod->node]);
    pod->unlisted = pod->annotation == ANNOTATION_HAMI ? resolve_named(&cards, pod) : 0;
    struct plan charge;
    pod->trust = charge_of(&cards, pod->request_invalid ? NULL : &pod->request, pod->shares,
                           pod->share_count, pod->unlisted, &charge);
    assert(charge.count == pod->share_count);
    memcpy(pod->charges, charge.shares, charge.count * sizeof charge.shares[0]);
    apply_charges(cache, pod, 1);
    count_trust(cache, pod, 1);
}

void cache_place_locked(struct cache *cache, struct pod_record *pod, uint32_t slot,
                        const struct holding *holding, enum booking_state state)
{
    uint32_t room = holding->count + holding->named_count;
    assert(pod->node == NODE_NONE && room <= CARDS_PER_POD_MAX);
    struct node *node = &cache->nodes[slot];
    cache_discard_locked(cache, pod->shares);
    cache_discard_locked(cache, pod->named);
    pod->shares = holding->shares;
    pod->charges = holding->shares + room;
    pod->share_count = holding->count;
    pod->named = holding->named;
    pod->named_count = holding->named_count;
    pod->annotation = holding->annotation;
    pod->node = slot;
    pod->next = node->pods;
    pod->link = &node->pods;
    if (pod->next != NULL)
        pod->next->link = &pod->next;
    node->pods = pod;
    pod->rejected = false;
    host_add(&node->used, &pod->host, 1);
    cache_charge_locked(cache, pod);
    add_up(cache, node);
    cache_pack_stale_locked(cache, slot);
    cache_set_state_locked(cache, pod, state);
    if (state == BOOKING_BOUND)
        cache_unpass_locked(cache, pod);
    if (cache_holds_doubled_locked(cache, pod))
        cache_find_doubled_locked(cache, node);
}

void cache_unplace_locked(struct cache *cache, struct pod_record *pod)
{
    if (pod->node == NODE_NONE)
        return;
    uint32_t slot = pod->node;
    cache_set_allocating_locked(cache, pod, false);
    cache_undouble_locked(cache, pod);
    cache_uncharge_locked(cache, pod);
    add_up(cache, &cache->nodes[slot]);
    host_add(&cache->nodes[slot].used, &pod->host, -1);
    cache_pack_stale_locked(cache, slot);
    *pod->link = pod->next;
    if (pod->next != NULL)
        pod->next->link = pod->link;
    pod->link = NULL;
    pod->next = NULL;
    pod->node = NODE_NONE;
    pod->confirmed = pod->unknown_outcome = pod->only_read = false;
    cache->gains++;
    pod->annotation = ANNOTATION_ABSENT;
    pod->share_count = 0;
    pod->named_count = 0;
    cache_discard_locked(cache, pod->shares);
    cache_discard_locked(cache, pod->named);
    pod->shares = pod->charges = NULL;
    pod->named = NULL;
    cache_node_tidy_locked(cache, slot);
}

void cache_set_state_locked(struct cache *cache, struct pod_record *pod, enum booking_state state)
{
    struct cache_counts *counts = &cache->counts.view;
    counts->tentative +=
        (uint32_t)(state == BOOKING_TENTATIVE) - (pod->state == BOOKING_TENTATIVE);
    counts->booked += (uint32_t)(state == BOOKING_BOOKED) - (pod->state == BOOKING_BOOKED);
    counts->bound += (uint32_t)(state == BOOKING_BOUND) - (pod->state == BOOKING_BOUND);
    if (pod->state == BOOKING_TENTATIVE && state != BOOKING_TENTATIVE)
        TAILQ_REMOVE(&cache->tentative, pod, waiting);
    if (pod->state != BOOKING_TENTATIVE && state == BOOKING_TENTATIVE)
        TAILQ_INSERT_TAIL(&cache->tentative, pod, waiting);
    pod->state = state;
}

bool cache_node_closed_locked(const struct cache *cache, const struct node *node,
                              const struct pod_record *except)
{
    uint32_t unknown = node->unknown_pods;
    if (except != NULL && except->node != NODE_NONE && &cache->nodes[except->node] == node &&
        except->trust == CHARGE_UNKNOWN)
        unknown--;
    return unknown > 0 && cache->unknown_pods == UNKNOWN_PODS_CLOSE;
}
