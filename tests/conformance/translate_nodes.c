/* SPDX-License-Identifier: Apache-2.0 */
#include "translate.h"

#include <stdlib.h>

#include "codec/objects.h"
#include "state/cache.h"

#define CARD_FIELDS                                                                                \
    "type minor id health registered resources total used free labels topology vfGroups"

json_object *device_object(const char *node)
{
    json_object *object = json_new_object();
    json_put_text(object, "apiVersion", "scheduling.koordinator.sh/v1alpha1");
    json_put_text(object, "kind", "Device");
    json_put_text(json_sub(object, "metadata"), "name", node);
    json_put(json_sub(object, "spec"), "devices", json_new_array());
    return object;
}

bool device_entry(struct vector *v, const char *where, json_object *entry, json_object *device)
{
    static const char *const passed_on[] = {"type",   "minor",    "id",
                                            "labels", "topology", "vfGroups"};
    if (!fields_known(v, where, entry, CARD_FIELDS))
        return false;
    json_object *resources = json_get(entry, json_has(entry, "total") ? "total" : "resources");
    enum device_kind kind = device_kind_find(str_from(json_text(entry, "type", "")));
    struct amount total;
    if (kind == DEVICE_KIND_MAX) {
        vector_unsupported(v, "unknown device type %s in %s", json_text(entry, "type", "(none)"),
                           where);
        return false;
    }
    if (!read_amount(v, where, resources, kind, &total))
        return false;

    json_object *card = json_new_object();
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        if (json_get(entry, passed_on[i]) != NULL)
            json_put(card, passed_on[i], json_object_get(json_get(entry, passed_on[i])));
    /* A total that is there and empty is how the records write an unhealthy card. */
    json_put_bool(card, "health", json_truth(entry, "health", !json_says_nothing(resources)));
    json_put(card, "resources", resources != NULL ? json_object_get(resources) : json_new_object());
    json_push(json_get(json_get(device, "spec"), "devices"), card);
    return true;
}

bool decode_device(struct vector *v, json_object *device, struct str *ret_node,
                   struct inventory *ret)
{
    struct error err = {0};
    uint32_t skipped = 0;
    struct str node;
    struct inventory inventory;
    if (object_decode_device(str_from(json_compact(device)), &v->mem, &node, &inventory, &skipped,
                             &err) < 0)
        return false;
    if (skipped > 0) {
        vector_unsupported(v, "an entry of the Device object is past our bounds: %s", err.text);
        return false;
    }
    *ret_node = node;
    *ret = inventory;
    return true;
}

struct row {
    enum device_kind kind;
    int32_t minor;
    bool registered;
    uint32_t pods;
    struct amount total, used;
};

struct rows {
    uint32_t count;
    struct row row[CARDS_PER_NODE_MAX];
};

static struct row *row_of(struct vector *v, struct rows *rows, enum device_kind kind, int64_t minor)
{
    for (uint32_t i = 0; i < rows->count; i++)
        if (rows->row[i].kind == kind && rows->row[i].minor == minor)
            return &rows->row[i];
    if (rows->count == CARDS_PER_NODE_MAX) {
        vector_unsupported(v, "more cards than a node may have");
        return NULL;
    }
    struct row *row = &rows->row[rows->count++];
    *row = (struct row){.kind = kind, .minor = (int32_t)minor};
    return row;
}

static int row_order(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    return (left->minor > right->minor) - (left->minor < right->minor);
}

static bool rows_to_columns(struct vector *v, struct rows *rows, struct node_cards *ret)
{
    size_t n = rows->count;
    struct arena *mem = &v->mem;
    qsort(rows->row, n, sizeof(rows->row[0]), row_order);
    struct card_columns columns = {
        .minor = arena_alloc(mem, n, sizeof(int32_t)),
        .has = arena_alloc(mem, n, sizeof(uint8_t)),
        .registered = arena_alloc(mem, n, sizeof(bool)),
        .pods = arena_alloc(mem, n, sizeof(uint32_t)),
        .free_percent = arena_alloc(mem, n, sizeof(int32_t)),
        .free_ratio = arena_alloc(mem, n, sizeof(int32_t)),
        .free_bytes = arena_alloc(mem, n, sizeof(int64_t)),
        .total_bytes = arena_alloc(mem, n, sizeof(int64_t)),
        .total = arena_alloc(mem, n, sizeof(struct amount)),
        .used = arena_alloc(mem, n, sizeof(struct amount)),
        .users = arena_alloc(mem, n, sizeof(uint32_t)),
        .slots = arena_alloc(mem, n, sizeof(uint32_t)),
        .id = arena_alloc(mem, n, sizeof(struct str)),
        .model = arena_alloc(mem, n, sizeof(struct str)),
    };
    if (columns.minor == NULL || columns.has == NULL || columns.registered == NULL ||
        columns.pods == NULL || columns.free_percent == NULL || columns.free_ratio == NULL ||
        columns.free_bytes == NULL || columns.total_bytes == NULL || columns.total == NULL ||
        columns.used == NULL || columns.users == NULL || columns.slots == NULL ||
        columns.id == NULL || columns.model == NULL) {
        vector_unsupported(v, "out of memory");
        return false;
    }
    ret->columns = columns;
    ret->cards = (struct cards){.at = &ret->columns};
    for (uint32_t i = 0; i < n; i++) {
        const struct row *row = &rows->row[i];
        columns.minor[i] = row->minor;
        columns.registered[i] = row->registered;
        columns.pods[i] = row->pods;
        columns.total[i] = row->total;
        columns.total_bytes[i] = row->total.bytes;
        columns.used[i] = row->used;
        ret->cards.count[row->kind]++;
        cards_refresh(&ret->columns, i);
    }
    return true;
}

static bool any_amount(const struct amount *amount)
{
    return amount->percent != 0 || amount->ratio != 0 || amount->bytes != 0;
}

/* The cards that a Device object lists. */
static bool add_inventory(struct vector *v, const struct inventory *inventory, struct rows *rows)
{
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct device *device = &inventory->devices[i];
        struct row *row = row_of(v, rows, device->kind, device->minor);
        if (row == NULL)
            return false;
        row->registered = true;
        row->total = device->healthy ? device->total : (struct amount){0};
    }
    return true;
}

/* What is used on a card belongs to one pod that the record does not name. */
static bool add_used(struct vector *v, json_object *entry, struct rows *rows)
{
    enum device_kind kind = device_kind_find(str_from(json_text(entry, "type", "")));
    int64_t minor = 0;
    if (!fields_known(v, "devices", entry, CARD_FIELDS))
        return false;
    if (kind == DEVICE_KIND_MAX || !json_number(json_get(entry, "minor"), &minor)) {
        vector_unsupported(v, "a device without type or minor");
        return false;
    }
    struct row *row = row_of(v, rows, kind, minor);
    if (row == NULL || !read_amount(v, "used", json_get(entry, "used"), kind, &row->used))
        return false;
    if (json_get(entry, "used") == NULL && json_get(entry, "free") != NULL) {
        struct amount free_amount;
        if (!read_amount(v, "free", json_get(entry, "free"), kind, &free_amount))
            return false;
        for (enum dimension dim = 0; dim < DIM_MAX; dim++)
            amount_set(&row->used, dim,
                       amount_get(&row->total, dim) - amount_get(&free_amount, dim));
    }
    if (any_amount(&row->used))
        row->pods = 1;
    return true;
}

static bool add_allocated(struct vector *v, json_object *entry, struct rows *rows)
{
    struct placement placement;
    if (!fields_known(v, "node.allocated", entry, "pod device_allocated") ||
        !read_placement(v, "node.allocated", json_get(entry, "device_allocated"), &placement))
        return false;
    for (uint32_t i = 0; i < placement.count; i++) {
        const struct share *share = &placement.cards[i].share;
        struct row *row = row_of(v, rows, share->kind, share->minor);
        if (row == NULL)
            return false;
        row->pods++;
        row->used.percent += share->amount.percent;
        row->used.ratio += share->amount.ratio;
        row->used.bytes += share->amount.bytes;
    }
    return true;
}

enum { FIXTURE_LIST, DEVICES_LIST, EXTRA_LIST, DEVICE_LISTS };

/* The lists of cards of a node's fixture and its own, and the pods on it; NULL where there is none.
 */
struct node_lists {
    json_object *devices[DEVICE_LISTS];
    json_object *allocated;
};

static bool is_list(json_object *value)
{
    return value == NULL || json_object_is_type(value, json_type_array);
}

static size_t length_of(json_object *list)
{
    return list != NULL ? json_object_array_length(list) : 0;
}

static bool read_lists(struct vector *v, json_object *node, struct node_lists *ret)
{
    const char *name = json_text(node, "fixture", NULL);
    json_object *fixture = name != NULL ? fixture_find(v->file, name) : NULL;
    if (name != NULL && fixture == NULL) {
        vector_unsupported(v, "unknown fixture %s", name);
        return false;
    }
    *ret = (struct node_lists){
        .devices = {json_get(fixture, "devices"), json_get(node, "devices"),
                    json_get(node, "extra_devices")},
        .allocated = json_get(node, "allocated"),
    };
    bool good = is_list(ret->allocated);
    for (size_t i = 0; i < DEVICE_LISTS; i++)
        good = good && is_list(ret->devices[i]);
    if (!good)
        vector_unsupported(v, "given.node: devices or pods are no list");
    return good;
}

/* What the node's Device object lists, by way of its decoder. */
static bool read_inventory(struct vector *v, json_object *node, const struct node_lists *lists,
                           struct inventory *ret)
{
    json_object *device = device_object(json_text(node, "name", "node"));
    struct str name;
    for (size_t i = 0; i < DEVICE_LISTS; i++) {
        for (size_t j = 0; j < length_of(lists->devices[i]); j++) {
            json_object *entry = json_object_array_get_idx(lists->devices[i], j);
            if (json_truth(entry, "registered", true))
                (void)device_entry(v, "devices", entry, device);
        }
    }
    bool good = vector_supported(v) && decode_device(v, device, &name, ret);
    json_object_put(device);
    if (!good)
        vector_unsupported(v, "given.node: its Device object is refused");
    return good;
}

static bool add_lists(struct vector *v, const struct node_lists *lists, struct rows *rows)
{
    for (size_t i = 0; i < DEVICE_LISTS; i++)
        for (size_t j = 0; j < length_of(lists->devices[i]); j++)
            if (!add_used(v, json_object_array_get_idx(lists->devices[i], j), rows))
                return false;
    for (size_t i = 0; i < length_of(lists->allocated); i++)
        if (!add_allocated(v, json_object_array_get_idx(lists->allocated, i), rows))
            return false;
    return true;
}

bool read_node(struct vector *v, json_object *node, struct node_cards *ret)
{
    struct node_lists lists;
    *ret = (struct node_cards){0};
    if (node == NULL)
        return true;
    if (!fields_known(v, "given.node", node,
                      "name labels annotations device_labels has_device_object fixture devices "
                      "extra_devices allocated ?vf_allocated ?partition") ||
        !read_lists(v, node, &lists) || !read_inventory(v, node, &lists, &ret->inventory))
        return false;
    ret->has_devices = json_truth(node, "has_device_object", true);

    struct rows *rows = arena_alloc(&v->mem, 1, sizeof(*rows));
    if (rows == NULL) {
        vector_unsupported(v, "out of memory");
        return false;
    }
    return add_inventory(v, &ret->inventory, rows) && add_lists(v, &lists, rows) &&
           rows_to_columns(v, rows, ret);
}

bool read_totals(struct vector *v, const char *where, json_object *types, struct node_cards *ret)
{
    struct placement totals;
    struct rows *rows = arena_alloc(&v->mem, 1, sizeof(*rows));
    *ret = (struct node_cards){.has_devices = true};
    if (rows == NULL || !read_placement(v, where, types, &totals))
        return false;
    for (uint32_t i = 0; i < totals.count; i++) {
        const struct share *total = &totals.cards[i].share;
        struct row *row = row_of(v, rows, total->kind, total->minor);
        if (row == NULL)
            return false;
        row->registered = true;
        row->total = total->amount;
    }
    return rows_to_columns(v, rows, ret);
}

bool verdict_without_devices(struct vector *v, const struct pod_request *request, enum reason *ret)
{
    struct cache *cache = cache_new(UNKNOWN_PODS_CLOSE);
    const struct str node = STR("node");
    bool done = cache != NULL && cache_node_set(cache, &(struct node_facts){.name = node}) == 0;
    if (done)
        cache_scan(cache, STR("uid-asking"), request, &node, 1, ret);
    else
        vector_unsupported(v, "out of memory");
    cache_free(cache);
    return done;
}

/* ---- settings ---- */

/* More than a hundred times what kube-scheduler accepts as a weight. */
#define WEIGHT_MAX 100000

static bool read_weights(struct vector *v, json_object *map, struct score_weights *ret)
{
    *ret = (struct score_weights){0};
    json_object_object_foreach(map, name, value) {
        int64_t weight = 0;
        bool found = false;
        if (value != NULL && !json_number(value, &weight)) {
            vector_unsupported(v, "weight of %s is no number", name);
            return false;
        }
        if (weight < 0 || weight > WEIGHT_MAX) {
            vector_unsupported(v, "weight of %s is past our bounds", name);
            return false;
        }
        for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
            enum dimension dim = device_dimension_find(kind, str_from(name));
            if (dim == DIM_MAX)
                continue;
            ret->weight[kind][dim] = weight;
            found = true;
        }
        if (!found) {
            vector_unsupported(v, "unknown resource %s in given.config.weights", name);
            return false;
        }
    }
    return true;
}

bool read_config(struct vector *v, json_object *config, struct settings *ret)
{
    struct settings settings = {
        .policy = device_policy_find(STR("default")),
        .strategy = SCORE_LEAST_ALLOCATED,
        .weights = score_default_weights,
    };
    if (!fields_known(v, "given.config", config,
                      "strategy weights ?shared_resource_templates ?template_matched_resources "
                      "?gpu_share_unsupported_models ?device_plugin_adaption"))
        return false;
    const char *strategy = json_text(config, "strategy", NULL);
    if (strategy != NULL) {
        settings.policy = device_policy_find(str_from(strategy));
        if (settings.policy == NULL) {
            vector_unsupported(v, "unknown strategy %s", strategy);
            return false;
        }
        if (settings.policy == device_policy_find(STR("binpack")))
            settings.strategy = SCORE_MOST_ALLOCATED;
    }
    json_object *weights = json_get(config, "weights");
    if (json_object_is_type(weights, json_type_object) &&
        !read_weights(v, weights, &settings.weights))
        return false;
    *ret = settings;
    return true;
}
