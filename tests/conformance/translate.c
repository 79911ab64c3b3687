/* SPDX-License-Identifier: Apache-2.0 */
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "codec/annotation.h"
#include "codec/objects.h"
#include "state/cache.h"

/* ---- amounts ---- */

bool read_amount(struct vector *v, const char *where, json_object *map, enum device_kind kind,
                 struct amount *ret)
{
    struct amount amount = {0};
    if (map != NULL && !json_object_is_type(map, json_type_object)) {
        vector_unsupported(v, "%s is no map of amounts", where);
        return false;
    }
    if (map != NULL) {
        json_object_object_foreach(map, name, value) {
            int64_t number = 0;
            enum dimension dim = device_dimension_find(kind, str_from(name));
            if (dim == DIM_MAX) {
                vector_unsupported(v, "unknown resource %s in %s", name, where);
                return false;
            }
            if (value != NULL && !json_number(value, &number)) {
                vector_unsupported(v, "%s of %s is no amount", name, where);
                return false;
            }
            if (number < 0 || number > (dim == DIM_BYTES ? CARD_BYTES_MAX : CARD_PERCENT_MAX)) {
                vector_unsupported(v, "%s of %s is past our bounds", name, where);
                return false;
            }
            if (number != 0)
                amount_set(&amount, dim, number);
        }
    }
    *ret = amount;
    return true;
}

json_object *amount_map(enum device_kind kind, const struct amount *amount)
{
    json_object *map = json_new_object();
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        if (amount_get(amount, dim) != 0)
            json_put_int(map, device_dimension_name(kind, dim), amount_get(amount, dim));
    return map;
}

static bool place(struct vector *v, const char *where, enum device_kind kind, int64_t minor,
                  json_object *resources, const char *id, struct placement *ret)
{
    if (ret->count == CARDS_PER_POD_MAX || minor < INT32_MIN || minor > INT32_MAX ||
        strlen(id) > DEVICE_ID_MAX) {
        vector_unsupported(v, "%s is past our bounds", where);
        return false;
    }
    struct placed_card *card = &ret->cards[ret->count++];
    *card = (struct placed_card){.share = {.kind = kind, .minor = (int32_t)minor}};
    (void)snprintf(card->id, sizeof(card->id), "%s", id);
    return read_amount(v, where, resources, kind, &card->share.amount);
}

static bool place_list(struct vector *v, const char *where, enum device_kind kind,
                       json_object *list, struct placement *ret)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *entry = json_object_array_get_idx(list, i);
        int64_t minor = 0;
        if (!fields_known(v, where, entry, "minor resources id ?vfs ?template ?extension"))
            return false;
        if (!json_number(json_get(entry, "minor"), &minor)) {
            vector_unsupported(v, "%s has an entry without minor", where);
            return false;
        }
        if (!place(v, where, kind, minor, json_get(entry, "resources"), json_text(entry, "id", ""),
                   ret))
            return false;
    }
    return true;
}

static bool place_map(struct vector *v, const char *where, enum device_kind kind, json_object *map,
                      struct placement *ret)
{
    json_object_object_foreach(map, key, resources) {
        int64_t minor;
        if (!parse_int64(str_from(key), &minor)) {
            vector_unsupported(v, "%s: %s is no minor", where, key);
            return false;
        }
        if (!place(v, where, kind, minor, resources, "", ret))
            return false;
    }
    return true;
}

static int by_kind_and_minor(const void *a, const void *b)
{
    const struct share *left = &((const struct placed_card *)a)->share;
    const struct share *right = &((const struct placed_card *)b)->share;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    return (left->minor > right->minor) - (left->minor < right->minor);
}

bool read_placement(struct vector *v, const char *where, json_object *types, struct placement *ret)
{
    struct placement placement = {0};
    if (types != NULL && !json_object_is_type(types, json_type_object)) {
        vector_unsupported(v, "%s is no map of device types", where);
        return false;
    }
    if (types != NULL) {
        json_object_object_foreach(types, name, cards) {
            enum device_kind kind = device_kind_find(str_from(name));
            bool good = true;
            if (kind == DEVICE_KIND_MAX) {
                vector_unsupported(v, "unknown device type %s in %s", name, where);
                return false;
            }
            if (json_object_is_type(cards, json_type_array))
                good = place_list(v, where, kind, cards, &placement);
            else if (json_object_is_type(cards, json_type_object))
                good = place_map(v, where, kind, cards, &placement);
            else if (cards != NULL)
                vector_unsupported(v, "%s of %s is neither list nor map", name, where);
            if (!good || !vector_supported(v))
                return false;
        }
    }
    qsort(placement.cards, placement.count, sizeof(placement.cards[0]), by_kind_and_minor);
    *ret = placement;
    return true;
}

json_object *placement_lists(const struct placement *placement)
{
    json_object *types = json_new_object();
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct placed_card *card = &placement->cards[i];
        const char *type = device_kind_name(card->share.kind);
        if (!json_has(types, type))
            json_put(types, type, json_new_array());
        json_object *entry = json_new_object();
        json_put_int(entry, "minor", card->share.minor);
        json_put(entry, "resources", amount_map(card->share.kind, &card->share.amount));
        if (card->id[0] != '\0')
            json_put_text(entry, "id", card->id);
        json_push(json_get(types, type), entry);
    }
    return types;
}

json_object *placement_maps(const struct placement *placement)
{
    json_object *types = json_new_object();
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct share *share = &placement->cards[i].share;
        char minor[16];
        (void)snprintf(minor, sizeof(minor), "%d", (int)share->minor);
        json_put(json_sub(types, device_kind_name(share->kind)), minor,
                 amount_map(share->kind, &share->amount));
    }
    return types;
}

/* ---- requests ---- */

static void add_containers(struct vector *v, const char *where, json_object *spec, const char *key,
                           json_object *list)
{
    json_object *containers = json_new_array();
    json_put(spec, key, containers);
    if (list != NULL && !json_object_is_type(list, json_type_array)) {
        vector_unsupported(v, "%s: containers are no list", where);
        return;
    }
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        json_object *from = json_object_array_get_idx(list, i);
        char name[32];
        (void)snprintf(name, sizeof(name), "c%zu", i);
        if (!fields_known(v, where, from, "name requests restartPolicy"))
            return;
        json_object *container = json_new_object();
        json_put_text(container, "name", json_text(from, "name", name));
        if (json_get(from, "restartPolicy") != NULL)
            json_put(container, "restartPolicy", json_object_get(json_get(from, "restartPolicy")));
        json_put(json_sub(container, "resources"), "requests",
                 json_object_get(json_get(from, "requests")));
        json_push(containers, container);
    }
}

static void add_spec(struct vector *v, const char *where, json_object *pod, json_object *requests,
                     json_object *spec)
{
    const char *node = json_text(pod, "node", "");
    if (node[0] != '\0')
        json_put_text(spec, "nodeName", node);
    if (json_get(pod, "overhead") != NULL)
        json_put(spec, "overhead", json_object_get(json_get(pod, "overhead")));
    add_containers(v, where, spec, "initContainers", json_get(pod, "init_containers"));
    add_containers(v, where, spec, "containers", json_get(pod, "containers"));
    if (requests == NULL)
        requests = json_get(pod, "requests");
    if (requests != NULL) {
        json_object *main_container = json_new_object();
        json_put_text(main_container, "name", "main");
        json_put(json_sub(main_container, "resources"), "requests", json_object_get(requests));
        json_push(json_get(spec, "containers"), main_container);
    }
}

json_object *pod_object(struct vector *v, const char *where, json_object *pod,
                        json_object *requests, const char *uid)
{
    (void)fields_known(v, where, pod,
                       "name namespace uid node phase annotations labels requests containers "
                       "init_containers overhead ?gpu_shared ?hostNetwork");
    const char *name = json_text(pod, "name", "pod"), *ns = json_text(pod, "namespace", "default");
    const char *slash = strchr(name, '/');
    char before_slash[256];
    if (slash != NULL) {
        (void)snprintf(before_slash, sizeof(before_slash), "%.*s", (int)(slash - name), name);
        ns = before_slash;
        name = slash + 1;
    }

    json_object *object = json_new_object();
    json_put_text(object, "apiVersion", "v1");
    json_put_text(object, "kind", "Pod");
    json_object *metadata = json_sub(object, "metadata");
    json_put_text(metadata, "namespace", ns);
    json_put_text(metadata, "name", name);
    json_put_text(metadata, "uid", json_text(pod, "uid", uid));
    if (json_get(pod, "annotations") != NULL)
        json_put(metadata, "annotations", json_object_get(json_get(pod, "annotations")));
    if (json_get(pod, "labels") != NULL)
        json_put(metadata, "labels", json_object_get(json_get(pod, "labels")));
    add_spec(v, where, pod, requests, json_sub(object, "spec"));
    json_put_text(json_sub(object, "status"), "phase", json_text(pod, "phase", "Pending"));
    return object;
}

static void judge(const struct container *containers, uint32_t count,
                  const struct resources *overhead, struct asked *asked)
{
    struct error err = {0};
    asked->any = true;
    if (request_effective(containers, count, overhead, &asked->effective, &err) == 0) {
        asked->any = resources_any(&asked->effective);
        asked->valid = request_parse(&asked->effective, &asked->request, &err) == 0;
    }
    (void)snprintf(asked->text, sizeof(asked->text), "%s", err.text);
}

bool ask_pod(struct vector *v, const char *where, json_object *pod, json_object *requests,
             struct asked *ret)
{
    struct asked asked = {0};
    struct pod decoded;
    struct error err = {0};
    json_object *object = pod_object(v, where, pod, requests, "uid-asking");
    if (!vector_supported(v)) {
        json_object_put(object);
        return false;
    }
    if (object_decode_pod(str_from(json_compact(object)), &v->mem, &decoded, &err) == 0) {
        judge(decoded.containers, decoded.container_count, &decoded.overhead, &asked);
    } else {
        asked.any = true;
        (void)snprintf(asked.text, sizeof(asked.text), "%s", err.text);
    }
    json_object_put(object);
    *ret = asked;
    return true;
}

static bool add_resources(struct vector *v, const char *where, json_object *map,
                          struct resources *resources)
{
    if (map != NULL && !json_object_is_type(map, json_type_object)) {
        vector_unsupported(v, "%s is no map of amounts", where);
        return false;
    }
    if (map == NULL)
        return true;
    json_object_object_foreach(map, name, value) {
        bool deprecated;
        int64_t number = 0;
        enum resource resource = resource_find(str_from(name), &deprecated);
        if (resource == RESOURCE_MAX) {
            vector_unsupported(v, "unknown resource %s in %s", name, where);
            return false;
        }
        if (value != NULL && !json_number(value, &number)) {
            vector_unsupported(v, "%s of %s is no amount", name, where);
            return false;
        }
        resources->amount[resource] = number;
    }
    return true;
}

bool ask_converted(struct vector *v, const char *where, json_object *types, struct asked *ret)
{
    struct asked asked = {0};
    struct resources amounts = {0};
    if (types != NULL && !json_object_is_type(types, json_type_object)) {
        vector_unsupported(v, "%s is no map of device types", where);
        return false;
    }
    if (types != NULL) {
        json_object_object_foreach(types, type, map) {
            if (device_kind_find(str_from(type)) == DEVICE_KIND_MAX) {
                vector_unsupported(v, "unknown device type %s in %s", type, where);
                return false;
            }
            if (!add_resources(v, where, map, &amounts))
                return false;
        }
    }

    /* Koordinator's own helpers are called with both memory dimensions, which no pod can ask for.
     * The second one is a named dimension of the unified form like any other. */
    int64_t bytes = amounts.amount[RESOURCE_GPU_MEMORY];
    bool both = bytes > 0 && amounts.amount[RESOURCE_GPU_MEMORY_RATIO] > 0;
    if (both)
        amounts.amount[RESOURCE_GPU_MEMORY] = 0;
    const struct container all = {.role = CONTAINER_APP, .requests = amounts};
    judge(&all, 1, NULL, &asked);
    if (both && asked.valid) {
        asked.request.of[DEVICE_GPU].each.bytes = bytes;
        asked.request.of[DEVICE_GPU].named |= (uint8_t)DIM_BIT(DIM_BYTES);
    }
    *ret = asked;
    return true;
}

json_object *combination_names(const struct asked *asked)
{
    json_object *names = json_new_array();
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        uint32_t bits = request_combination(&asked->effective, kind);
        for (enum resource r = 0; r < RESOURCE_MAX; r++)
            if (bits & 1u << r)
                json_push(names, json_object_new_string(resource_name(r)));
    }
    return names;
}

json_object *per_card_map(const struct asked *asked, enum device_kind kind)
{
    const struct device_request *request = &asked->request.of[kind];
    struct amount named = {0};
    if (!asked->valid || request->count == 0)
        return NULL;
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        if (request->named & DIM_BIT(dim))
            amount_set(&named, dim, amount_get(&request->each, dim));
    return amount_map(kind, &named);
}

/* ---- nodes ---- */

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
    if (!fields_known(v, where, entry,
                      "type minor id health registered resources total used free labels topology "
                      "vfGroups"))
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
    };
    if (columns.minor == NULL || columns.has == NULL || columns.registered == NULL ||
        columns.pods == NULL || columns.free_percent == NULL || columns.free_ratio == NULL ||
        columns.free_bytes == NULL || columns.total_bytes == NULL || columns.total == NULL ||
        columns.used == NULL) {
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

/* The lists of a node, one after the other. */
static bool list_devices(struct vector *v, json_object *list, json_object *device)
{
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        json_object *entry = json_object_array_get_idx(list, i);
        if (json_truth(entry, "registered", true) && !device_entry(v, "devices", entry, device))
            return false;
        if (!fields_known(v, "devices", entry,
                          "type minor id health registered resources total used free labels "
                          "topology vfGroups"))
            return false;
    }
    return true;
}

static bool add_lists(struct vector *v, json_object *const lists[], size_t count,
                      json_object *allocated, struct rows *rows)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; lists[i] != NULL && j < json_object_array_length(lists[i]); j++)
            if (!add_used(v, json_object_array_get_idx(lists[i], j), rows))
                return false;
    for (size_t i = 0; allocated != NULL && i < json_object_array_length(allocated); i++)
        if (!add_allocated(v, json_object_array_get_idx(allocated, i), rows))
            return false;
    return true;
}

bool read_node(struct vector *v, json_object *node, struct node_cards *ret)
{
    static const char *const list_names[] = {"devices", "extra_devices"};
    json_object *lists[3] = {NULL, NULL, NULL};
    *ret = (struct node_cards){0};
    if (node == NULL)
        return true;
    if (!fields_known(v, "given.node", node,
                      "name labels annotations device_labels has_device_object fixture devices "
                      "extra_devices allocated ?vf_allocated ?partition"))
        return false;

    const char *fixture_name = json_text(node, "fixture", NULL);
    json_object *fixture = fixture_name != NULL ? fixture_find(v->file, fixture_name) : NULL;
    if (fixture_name != NULL && fixture == NULL) {
        vector_unsupported(v, "unknown fixture %s", fixture_name);
        return false;
    }
    lists[0] = json_get(fixture, "devices");
    for (size_t i = 0; i < 2; i++)
        lists[i + 1] = json_get(node, list_names[i]);
    json_object *allocated = json_get(node, "allocated");
    for (size_t i = 0; i < 4; i++) {
        json_object *list = i < 3 ? lists[i] : allocated;
        if (list != NULL && !json_object_is_type(list, json_type_array)) {
            vector_unsupported(v, "given.node: devices are no list");
            return false;
        }
    }

    json_object *device = device_object(json_text(node, "name", "node"));
    bool good = true;
    for (size_t i = 0; good && i < 3; i++)
        good = list_devices(v, lists[i], device);
    struct str name;
    good = good && decode_device(v, device, &name, &ret->inventory);
    json_object_put(device);
    if (!good) {
        vector_unsupported(v, "given.node: its Device object is refused");
        return false;
    }
    ret->has_devices = json_truth(node, "has_device_object", true);

    struct rows *rows = arena_alloc(&v->mem, 1, sizeof(*rows));
    if (rows == NULL) {
        vector_unsupported(v, "out of memory");
        return false;
    }
    return add_inventory(v, &ret->inventory, rows) && add_lists(v, lists, 3, allocated, rows) &&
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
    bool done = cache != NULL && cache_node_set(cache, node) == 0;
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
