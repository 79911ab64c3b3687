/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the cache: events go in as from the API server, the state is read back. */
#include "runner.h"
#include "translate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "codec/annotation.h"
#include "codec/objects.h"
#include "core/names.h"
#include "sched/sched.h"
#include "state/cache.h"

/* Records that show one node's state directly do not name it. */
#define ONLY_NODE "node"

/* Holds used amounts that a record's `before` does not explain and that no named pod can own. */
#define NOBODY "conformance/nobody"

/* The card that derived.json means where it lists minors only. */
#define USUAL_BYTES INT64_C(85899345920)

struct world {
    struct vector *v;
    struct cache *cache;
    struct sched sched;
    json_object *before;   /* node name -> state */
    bool direct;           /* the record shows one state, not a map of nodes */
    json_object *requests; /* pod -> the request it was set up with */
    const char *book;      /* set this pod up by our own booking instead of a bound pod */
};

/* ---- pods ---- */

/* UIDs follow from names, which no record gives to two pods. */
static void uid_of(const char *pod, char out[NAME_UID_MAX + 1])
{
    uint64_t hash = UINT64_C(14695981039346656037);
    bool has_namespace = strchr(pod, '/') != NULL;
    for (const char *c = has_namespace ? "" : "default/"; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    for (const char *c = pod; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    (void)snprintf(out, NAME_UID_MAX + 1, "uid-%016" PRIx64, hash);
}

static void put_request(json_object *requests, enum resource resource, int64_t value)
{
    if (value != 0)
        json_put_int(requests, resource_name(resource), value);
}

/* Whether a request gives these shares again: as many cards, and the same amounts in the dimensions
 * that it names. */
static bool gives(struct vector *v, json_object *requests, const struct placement *placement)
{
    struct asked asked;
    int64_t cards[DEVICE_KIND_MAX] = {0};
    if (!ask_pod(v, "booking", NULL, requests, &asked) || !asked.valid)
        return false;
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct share *share = &placement->cards[i].share;
        const struct device_request *request = &asked.request.of[share->kind];
        cards[share->kind]++;
        for (enum dimension dim = 0; dim < DIM_MAX; dim++)
            if (request->named & DIM_BIT(dim) &&
                amount_get(&request->each, dim) != amount_get(&share->amount, dim))
                return false;
        if (share->amount.percent != 0 && !(request->named & DIM_BIT(DIM_PERCENT)))
            return false;
    }
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        if (asked.request.of[kind].count != cards[kind])
            return false;
    return true;
}

/* A new map of requests that names memory as a ratio or in bytes. */
static json_object *request_naming(const struct placement *placement, bool ratio)
{
    int64_t cards = 0;
    struct amount gpu = {0}, other[DEVICE_KIND_MAX] = {{0}};
    json_object *requests = json_new_object();
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct share *share = &placement->cards[i].share;
        other[share->kind].percent += share->amount.percent;
        if (share->kind != DEVICE_GPU)
            continue;
        cards++;
        gpu.percent += share->amount.percent;
        gpu.ratio += share->amount.ratio;
        gpu.bytes += share->amount.bytes;
    }
    put_request(requests, RESOURCE_GPU_CORE, gpu.percent);
    put_request(requests, ratio ? RESOURCE_GPU_MEMORY_RATIO : RESOURCE_GPU_MEMORY,
                ratio ? gpu.ratio : gpu.bytes);
    if (cards > 1 && !(ratio && gpu.ratio == 100 * cards))
        put_request(requests, RESOURCE_GPU_SHARED, cards);
    put_request(requests, RESOURCE_RDMA, other[DEVICE_RDMA].percent);
    put_request(requests, RESOURCE_FPGA, other[DEVICE_FPGA].percent);
    return requests;
}

/* A new map of requests of a pod that holds these shares. Shares that no request leads to get one
 * that is invalid and hence says nothing: such a pod is charged as its annotation says. */
static json_object *request_of(struct vector *v, const struct placement *placement)
{
    for (int ratio = 1; ratio >= 0; ratio--) {
        json_object *requests = request_naming(placement, ratio);
        if (gives(v, requests, placement))
            return requests;
        json_object_put(requests);
    }
    json_object *requests = json_new_object();
    put_request(requests, RESOURCE_GPU_CORE, 1);
    return requests;
}

/* A new record pod that runs on `node` with these shares, annotation and all. */
static json_object *bound_pod(struct world *world, const char *name, const char *node,
                              const struct placement *placement)
{
    struct strbuf text;
    json_object *pod = json_new_object();
    strbuf_init(&text);
    annotation_format(placement, &text);
    json_put_text(pod, "name", name);
    json_put_text(pod, "node", node);
    json_put_text(pod, "phase", "Running");
    json_put_text(json_sub(pod, "annotations"), ANNOTATION_DEVICE_ALLOCATED,
                  text.data != NULL ? text.data : "");
    json_object *requests = request_of(world->v, placement);
    json_put(pod, "requests", requests);
    json_put(world->requests, name, json_object_get(requests));
    strbuf_done(&text);
    return pod;
}

/* A record's pod that does not say what it requests: what it was set up with, else what its
 * annotation says. */
static json_object *missing_request(struct world *world, json_object *pod)
{
    json_object *known = json_get(world->requests, json_text(pod, "name", ""));
    json_object *annotation = json_get(json_get(pod, "annotations"), ANNOTATION_DEVICE_ALLOCATED);
    const struct share *shares;
    uint32_t count;
    if (json_get(pod, "requests") != NULL || json_get(pod, "containers") != NULL)
        return NULL;
    if (known != NULL)
        return json_object_get(known);
    if (annotation == NULL ||
        annotation_parse(json_slice(annotation), &world->v->mem, &shares, &count, NULL) < 0)
        return NULL;
    struct placement placement = {.count = count};
    for (uint32_t i = 0; i < count; i++)
        placement.cards[i].share = shares[i];
    return request_of(world->v, &placement);
}

/* Decode a record's pod; false when there is none or the decoder refuses it. */
static bool decode_pod(struct world *world, json_object *pod, struct pod *ret)
{
    char uid[NAME_UID_MAX + 1];
    struct error err;
    uid_of(json_text(pod, "name", "pod"), uid);
    json_object *requests = missing_request(world, pod);
    json_object *object = json_object_is_type(pod, json_type_object)
                              ? pod_object(world->v, "given.pod", pod, requests, uid)
                              : json_object_get(pod);
    bool decoded =
        object_decode_pod(str_from(json_compact(object)), &world->v->mem, ret, &err) == 0;
    json_object_put(object);
    json_object_put(requests);
    return decoded;
}

static void pod_event(struct world *world, json_object *pod)
{
    struct pod decoded;
    if (decode_pod(world, pod, &decoded) && sched_pod_changed(&world->sched, &decoded) < 0)
        vector_fail(world->v, "pod event", "taken", "refused");
}

/* ---- setting up `before` ---- */

static bool is_state(json_object *value)
{
    return json_has(value, "total") || json_has(value, "free") || json_has(value, "used") ||
           json_has(value, "allocations");
}

/* The Device object that leads to a state's `total`. */
static bool set_up_devices(struct world *world, const char *node, json_object *state)
{
    struct placement totals;
    if (!read_placement(world->v, "total", json_get(state, "total"), &totals))
        return false;
    json_object *device = device_object(node);
    for (uint32_t i = 0; i < totals.count; i++) {
        const struct share *share = &totals.cards[i].share;
        json_object *entry = json_new_object();
        json_put_text(entry, "type", device_kind_name(share->kind));
        json_put_int(entry, "minor", share->minor);
        json_put(entry, "resources", amount_map(share->kind, &share->amount));
        (void)device_entry(world->v, "total", entry, device);
        json_object_put(entry);
    }
    struct str name;
    struct inventory inventory;
    bool good = decode_device(world->v, device, &name, &inventory) &&
                sched_device_changed(&world->sched, name, &inventory) == 0;
    json_object_put(device);
    if (!good)
        vector_unsupported(world->v, "given.before: total is refused");
    return good;
}

static struct share *share_of(struct placement *placement, enum device_kind kind, int32_t minor)
{
    for (uint32_t i = 0; i < placement->count; i++)
        if (placement->cards[i].share.kind == kind && placement->cards[i].share.minor == minor)
            return &placement->cards[i].share;
    return NULL;
}

/* Gather what one pod holds, over the device types. */
static bool holdings(struct vector *v, json_object *allocations, const char *pod,
                     struct placement *ret)
{
    json_object *types = json_new_object();
    json_object_object_foreach(allocations, type, pods) {
        if (json_get(pods, pod) != NULL)
            json_put(types, type, json_object_get(json_get(pods, pod)));
    }
    bool read = read_placement(v, "allocations", types, ret);
    json_object_put(types);
    return read;
}

/* Take a pod's shares out of what is used and not explained yet. */
static void explain(struct placement *used, const struct placement *held)
{
    for (uint32_t i = 0; i < held->count; i++) {
        const struct share *share = &held->cards[i].share;
        struct share *rest = share_of(used, share->kind, share->minor);
        if (rest == NULL)
            continue;
        rest->amount.percent -= share->amount.percent;
        rest->amount.ratio -= share->amount.ratio;
        rest->amount.bytes -= share->amount.bytes;
    }
}

static void drop_explained(struct placement *used)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < used->count; i++) {
        const struct amount *amount = &used->cards[i].share.amount;
        if (amount->percent > 0 || amount->ratio > 0 || amount->bytes > 0)
            used->cards[kept++] = used->cards[i];
    }
    used->count = kept;
}

/* Bring a pod to its shares: by our own booking if the record is about undoing that, else as a pod
 * that was placed before us. */
static bool set_up_pod(struct world *world, const char *name, const char *node,
                       const struct placement *placement)
{
    json_object *pod = bound_pod(world, name, node, placement);
    bool book = world->book != NULL && strcmp(world->book, name) == 0;
    if (book) {
        json_object_object_del(pod, "node");
        json_object_object_del(pod, "annotations");
    }
    pod_event(world, pod);
    json_object_put(pod);
    if (!book)
        return vector_supported(world->v);

    char uid[NAME_UID_MAX + 1];
    enum reason reason;
    struct placement placed;
    uid_of(name, uid);
    enum book_result result = cache_book(world->cache, str_from(uid), str_from(node),
                                         device_policy_find(STR("default")), &placed, &reason);
    if (result != BOOK_OK) {
        vector_fail(world->v, "given.before", "a booking", "cache_book refused");
        return false;
    }
    json_object *wanted = placement_maps(placement), *got = placement_maps(&placed);
    bool same = compare_amounts(world->v, "given.before: booking", wanted, got);
    json_object_put(wanted);
    json_object_put(got);
    return same;
}

/* A new set of the pods that a state's allocations name. */
static json_object *named_pods(json_object *allocations)
{
    json_object *names = json_new_object();
    if (json_object_is_type(allocations, json_type_object)) {
        json_object_object_foreach(allocations, type, pods) {
            (void)type;
            if (!json_object_is_type(pods, json_type_object))
                continue;
            json_object_object_foreach(pods, name, held) {
                (void)held;
                json_put_bool(names, name, true);
            }
        }
    }
    return names;
}

/* The pods of a state; what is used beyond their shares belongs to the first one that is named
 * without shares. */
static bool set_up_pods(struct world *world, const char *node, json_object *state)
{
    struct vector *v = world->v;
    json_object *allocations = json_get(state, "allocations");
    json_object *names = named_pods(allocations);
    struct placement used;
    const char *owner = NOBODY;
    bool good = read_placement(v, "used", json_get(state, "used"), &used);
    if (good) {
        json_object_object_foreach(names, name, truth) {
            struct placement held;
            (void)truth;
            good = good && holdings(v, allocations, name, &held);
            if (!good)
                break;
            explain(&used, &held);
            if (held.count > 0)
                good = set_up_pod(world, name, node, &held);
            else if (strcmp(owner, NOBODY) == 0)
                owner = name;
        }
    }
    drop_explained(&used);
    if (good && used.count > 0)
        good = set_up_pod(world, owner, node, &used);
    json_object_put(names);
    return good;
}

/* ---- reading back ---- */

static void put_card(json_object *state, const char *part, const struct card_view *card,
                     const struct amount *amount)
{
    char minor[16];
    (void)snprintf(minor, sizeof(minor), "%d", (int)card->minor);
    json_put(json_sub(json_sub(state, part), device_kind_name(card->kind)), minor,
             amount_map(card->kind, amount));
}

/* What the columns of the scan say is free on a card. */
static struct amount free_of(const struct card_view *card)
{
    int32_t minor = card->minor, percent = 0, ratio = 0;
    int64_t bytes = 0, total_bytes = card->total.bytes;
    uint8_t has = 0;
    bool registered = card->registered;
    uint32_t pods = card->pods;
    struct amount total = card->total, used = card->used;
    struct card_columns columns = {&minor, &has,   &registered,  &pods,  &percent,
                                   &ratio, &bytes, &total_bytes, &total, &used};
    cards_refresh(&columns, 0);
    return (struct amount){.percent = percent, .ratio = ratio, .bytes = bytes};
}

static void put_pod(json_object *state, const struct node_pod_view *pod)
{
    char name[512];
    (void)snprintf(name, sizeof(name), "%.*s/%.*s", STR_ARG(pod->id.ns), STR_ARG(pod->id.name));
    if (strcmp(name, NOBODY) == 0)
        return;
    for (uint32_t i = 0; i < pod->share_count; i++) {
        const struct share *share = &pod->shares[i];
        char minor[16];
        (void)snprintf(minor, sizeof(minor), "%d", (int)share->minor);
        json_put(
            json_sub(json_sub(json_sub(state, "allocations"), device_kind_name(share->kind)), name),
            minor, amount_map(share->kind, &share->amount));
    }
}

/* A new map of all nodes' states. */
static json_object *read_back(struct world *world)
{
    json_object *states = json_new_object();
    uint32_t slots = cache_node_slots(world->cache);
    for (uint32_t slot = 0; slot < slots; slot++) {
        struct node_view view;
        char name[512];
        if (cache_node_at(world->cache, slot, &world->v->mem, &view) != 1)
            continue;
        (void)snprintf(name, sizeof(name), "%.*s", STR_ARG(view.name));
        json_object *state = json_sub(states, name);
        for (uint32_t i = 0; i < view.card_count; i++) {
            const struct card_view *card = &view.cards[i];
            struct amount free_amount = free_of(card);
            if (card->usable)
                put_card(state, "total", card, &card->total);
            put_card(state, "used", card, &card->used);
            put_card(state, "free", card, &free_amount);
        }
        for (uint32_t i = 0; i < view.pod_count; i++)
            put_pod(state, &view.pods[i]);
    }
    return states;
}

/* The state that was set up must be the one that the record shows, or what follows proves nothing.
 * A record that leaves used amounts unexplained shows fewer allocations than there are. */
static void verify_before(struct world *world)
{
    static const char *const parts[] = {"total", "free", "used"};
    json_object *states = read_back(world);
    json_object_object_foreach(world->before, node, state) {
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            char field[64];
            (void)snprintf(field, sizeof(field), "given.before: %s", parts[i]);
            if (json_has(state, parts[i]))
                (void)compare_amounts(world->v, field, json_get(state, parts[i]),
                                      json_get(json_get(states, node), parts[i]));
        }
    }
    json_object_put(states);
}

/* ---- the world ---- */

static bool set_up_node(struct world *world, const char *node, json_object *state)
{
    if (!fields_known(world->v, "given.before", state, "total free used allocations"))
        return false;
    if (sched_node_changed(&world->sched, str_from(node)) < 0) {
        vector_unsupported(world->v, "out of memory");
        return false;
    }
    return set_up_devices(world, node, state) && set_up_pods(world, node, state);
}

static bool world_init(struct world *world, struct vector *v, const char *book)
{
    json_object *before = json_get(v->given, "before");
    *world = (struct world){.v = v, .cache = cache_new(UNKNOWN_PODS_CLOSE), .book = book};
    world->requests = json_new_object();
    world->direct = is_state(before);
    world->before = json_new_object();
    if (world->cache == NULL) {
        vector_unsupported(v, "out of memory");
        return false;
    }
    sched_init(&world->sched, world->cache, clock_system(), (struct port){0},
               device_policy_find(STR("default")), node_policy_find(STR("none")));
    if (before != NULL && !json_object_is_type(before, json_type_object)) {
        vector_unsupported(v, "given.before is no map");
        return false;
    }
    if (world->direct) {
        json_put(world->before, ONLY_NODE, json_object_get(before));
    } else if (before != NULL) {
        json_object_object_foreach(before, node, state)
            json_put(world->before, node, json_object_get(state));
    }
    json_object_object_foreach(world->before, name, state) {
        if (!set_up_node(world, name, state))
            return false;
    }
    verify_before(world);
    return vector_supported(v) && v->failures == 0;
}

static void world_done(struct world *world)
{
    struct error err = {0};
    if (world->cache != NULL && cache_check(world->cache, &err) < 0)
        vector_fail(world->v, "cache_check", "no violation", err.text);
    cache_free(world->cache);
    json_object_put(world->before);
    json_object_put(world->requests);
}

static void put_after(struct world *world, json_object *answer)
{
    json_object *states = read_back(world);
    if (!world->direct) {
        json_put(answer, "after", states);
        return;
    }
    json_put(answer, "after", json_object_get(json_get(states, ONLY_NODE)));
    json_object_put(states);
}

/* ---- events of Device objects ---- */

/* The total of a card that a record lists by its minor only. */
static json_object *usual_total(struct world *world, const char *minor)
{
    json_object *state = json_get(world->before, ONLY_NODE);
    json_object *cards = json_get(json_get(state, "total"), "gpu");
    const struct amount usual = {.percent = 100, .ratio = 100, .bytes = USUAL_BYTES};
    if (!json_says_nothing(json_get(cards, minor)))
        return json_object_get(json_get(cards, minor));
    return amount_map(DEVICE_GPU, &usual);
}

static bool lists_minor(json_object *list, int64_t minor)
{
    for (size_t i = 0;
         json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++) {
        int64_t number;
        if (json_number(json_object_array_get_idx(list, i), &number) && number == minor)
            return true;
    }
    return false;
}

static void short_entry(struct world *world, json_object *device, int64_t minor, json_object *total)
{
    json_object *entry = json_new_object();
    json_put_text(entry, "type", "gpu");
    json_put_int(entry, "minor", minor);
    json_put_bool(entry, "health", !lists_minor(json_get(world->v->given, "unhealthy"), minor));
    json_put(entry, "resources", total);
    (void)device_entry(world->v, "given", entry, device);
    json_object_put(entry);
}

/* device_minors, unhealthy and device_total of derived.json: GPUs of the one node. */
static json_object *short_device(struct world *world)
{
    json_object *given = world->v->given, *minors = json_get(given, "device_minors");
    json_object *totals = json_get(given, "device_total");
    json_object *device = device_object(ONLY_NODE);
    for (size_t i = 0;
         json_object_is_type(minors, json_type_array) && i < json_object_array_length(minors);
         i++) {
        int64_t minor = 0;
        json_object *item = json_object_array_get_idx(minors, i);
        char key[24];
        (void)json_number(item, &minor);
        (void)snprintf(key, sizeof(key), "%d", (int)minor);
        if (json_get(totals, key) == NULL)
            short_entry(world, device, minor, usual_total(world, key));
    }
    if (json_object_is_type(totals, json_type_object)) {
        json_object_object_foreach(totals, key, total) {
            int64_t minor;
            if (parse_int64(str_from(key), &minor))
                short_entry(world, device, minor, json_object_get(total));
            else
                vector_unsupported(world->v, "given.device_total: %s is no minor", key);
        }
    }
    return device;
}

/* A new Device object of the event, NULL when what arrives is none. */
static json_object *event_device(struct world *world)
{
    json_object *given = world->v->given, *from = json_get(given, "device");
    if (json_has(given, "device_minors") || json_has(given, "device_total"))
        return short_device(world);
    if (from == NULL)
        return json_object_get(json_get(given, "object"));
    if (!fields_known(world->v, "given.device", from, "name labels annotations devices"))
        return NULL;
    json_object *device = device_object(json_text(from, "name", ""));
    json_object *list = json_get(from, "devices");
    for (size_t i = 0;
         json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++)
        (void)device_entry(world->v, "given.device", json_object_array_get_idx(list, i), device);
    return device;
}

static void device_event(struct vector *v, json_object *answer, bool deleted)
{
    struct world world;
    if (world_init(&world, v, NULL)) {
        json_object *device = event_device(&world);
        struct str node;
        struct inventory inventory;
        /* What the decoder refuses never reaches the cache. */
        if (vector_supported(v) && decode_device(v, device, &node, &inventory)) {
            if (deleted)
                sched_device_gone(&world.sched, node);
            else if (sched_device_changed(&world.sched, node, &inventory) < 0)
                vector_fail(v, "device event", "taken", "refused");
        }
        json_object_put(device);
        put_after(&world, answer);
    }
    world_done(&world);
}

static void run_device_changed(struct vector *v, json_object *answer)
{
    device_event(v, answer, false);
}

static void run_device_deleted(struct vector *v, json_object *answer)
{
    device_event(v, answer, true);
}

/* ---- events of pods ---- */

static bool holds_anything(struct world *world, const char *pod)
{
    json_object *states = read_back(world);
    bool holds = false;
    json_object_object_foreach(states, node, state) {
        (void)node;
        json_object *allocations = json_get(state, "allocations");
        if (!json_object_is_type(allocations, json_type_object))
            continue;
        json_object_object_foreach(allocations, type, pods) {
            (void)type;
            holds = holds || json_has(pods, pod);
        }
    }
    json_object_put(states);
    return holds;
}

/* The pod of the event as a record pod (new); short records give its name and what it holds. */
static json_object *event_pod(struct world *world)
{
    static const char *const fields[] = {"add", "allocations", "allocation", "device_allocated"};
    json_object *given = world->v->given, *pod = json_get(given, "pod");
    if (pod == NULL)
        return json_object_get(json_get(given, "object"));
    if (!json_object_is_type(pod, json_type_string))
        return json_object_get(pod);
    const char *name = json_object_get_string(pod);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        struct placement placement;
        if (json_get(given, fields[i]) == NULL)
            continue;
        if (!read_placement(world->v, fields[i], json_get(given, fields[i]), &placement))
            return NULL;
        return bound_pod(world, name, json_text(given, "node", ONLY_NODE), &placement);
    }
    json_object *named = json_new_object();
    json_put_text(named, "name", name);
    return named;
}

/* An event about a pod by its name alone repeats what is known of it. */
static json_object *repeated_pod(struct world *world, json_object *pod)
{
    if (!json_object_is_type(json_get(world->v->given, "pod"), json_type_string) ||
        json_get(pod, "node") != NULL)
        return json_object_get(pod);
    json_object_object_foreach(world->before, node, state) {
        struct placement held;
        json_object *allocations = json_get(state, "allocations");
        if (json_object_is_type(allocations, json_type_object) &&
            holdings(world->v, allocations, json_text(pod, "name", ""), &held) && held.count > 0)
            return bound_pod(world, json_text(pod, "name", ""), node, &held);
    }
    vector_unsupported(world->v, "given.pod is but a name");
    return NULL;
}

static void run_pod_changed(struct vector *v, json_object *answer)
{
    struct world world;
    if (world_init(&world, v, NULL)) {
        const char *old = json_text(json_get(v->given, "old_pod"), "name", "");
        bool held = holds_anything(&world, old);
        json_object *pod = event_pod(&world), *event = repeated_pod(&world, pod);
        if (vector_supported(v))
            pod_event(&world, event);
        json_object_put(event);
        json_object_put(pod);
        json_put_bool(answer, "old_pod_allocation_removed", held && !holds_anything(&world, old));
        put_after(&world, answer);
    }
    world_done(&world);
}

static void run_pod_deleted(struct vector *v, json_object *answer)
{
    struct world world;
    if (world_init(&world, v, NULL)) {
        struct pod decoded;
        json_object *pod = event_pod(&world);
        if (vector_supported(v) && decode_pod(&world, pod, &decoded))
            sched_pod_gone(&world.sched, decoded.id.uid);
        json_object_put(pod);
        put_after(&world, answer);
    }
    world_done(&world);
}

/* ---- the rest ---- */

/* Our own booking is forgotten, as when the API server refuses the binding. */
static void run_unreserve(struct vector *v, json_object *answer)
{
    struct world world;
    json_object *pod = json_get(v->given, "pod");
    const char *name = json_object_is_type(pod, json_type_string) ? json_object_get_string(pod)
                                                                  : json_text(pod, "name", "");
    struct placement given;
    if (world_init(&world, v, name) &&
        read_placement(v, "given.allocations", json_get(v->given, "allocations"), &given)) {
        char uid[NAME_UID_MAX + 1];
        uid_of(name, uid);
        cache_forget(world.cache, str_from(uid));
        put_after(&world, answer);
    }
    world_done(&world);
}

static void run_used_by_pod(struct vector *v, json_object *answer)
{
    struct world world;
    if (world_init(&world, v, NULL)) {
        json_object *pod = event_pod(&world), *states;
        if (vector_supported(v))
            pod_event(&world, pod);
        states = read_back(&world);
        json_object_object_foreach(states, node, state) {
            json_object *allocations = json_get(state, "allocations");
            struct placement held;
            (void)node;
            if (json_object_is_type(allocations, json_type_object) &&
                holdings(v, allocations, json_text(pod, "name", ""), &held))
                json_put(answer, "used", placement_maps(&held));
        }
        json_object_put(states);
        json_object_put(pod);
    }
    world_done(&world);
}

static bool all_names(json_object *list)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (json_slice(json_object_array_get_idx(list, i)).len == 0)
            return false;
    return true;
}

static bool in_list(json_object *list, const char *text)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (str_is(json_slice(json_object_array_get_idx(list, i)), text))
            return true;
    return false;
}

/* Nodes that the cache knows and the API server does not are told of by events here: the Node is
 * deleted, and with it the Device object that it owns. */
static void run_gc(struct vector *v, json_object *answer)
{
    struct world world;
    json_object *nodes = json_get(v->given, "nodes"), *cached = json_get(v->given, "cached");
    json_object *remaining = json_new_array();
    json_put(answer, "cached", remaining);
    if (!json_object_is_type(nodes, json_type_array) ||
        !json_object_is_type(cached, json_type_array) || !all_names(nodes) || !all_names(cached)) {
        vector_unsupported(v, "given.nodes or given.cached is no list of names");
        return;
    }
    if (world_init(&world, v, NULL)) {
        for (size_t i = 0; i < json_object_array_length(cached); i++) {
            struct str name = json_slice(json_object_array_get_idx(cached, i));
            const struct inventory nothing = {0};
            if (sched_node_changed(&world.sched, name) < 0 ||
                sched_device_changed(&world.sched, name, &nothing) < 0)
                vector_unsupported(v, "out of memory");
        }
        for (size_t i = 0; i < json_object_array_length(cached); i++) {
            json_object *item = json_object_array_get_idx(cached, i);
            if (in_list(nodes, json_object_get_string(item)))
                continue;
            sched_node_gone(&world.sched, json_slice(item));
            sched_device_gone(&world.sched, json_slice(item));
        }
        json_object *states = read_back(&world);
        json_object_object_foreach(states, name, state) {
            (void)state;
            json_push(remaining, json_object_new_string(name));
        }
        json_object_put(states);
    }
    world_done(&world);
}

/* ---- the table ---- */

static const struct expectation after_fields[] = {
    {"after", COMPARE_AMOUNTS, NULL, NULL},
    {"old_pod_allocation_removed", COMPARE_EXACT, NULL, NULL},
    {0},
};

static const struct expectation used_fields[] = {
    {"used", COMPARE_AMOUNTS, NULL, NULL},
    {0},
};

static const struct expectation cached_fields[] = {
    {"cached", COMPARE_SET, NULL, NULL},
    {0},
};

#define DEVICE_EVENT "before device old_device object device_minors device_total unhealthy"
#define POD_EVENT    "before pod old_pod object node add allocations allocation device_allocated"

const struct op state_ops[] = {
    {"device_added", DEVICE_EVENT, after_fields, run_device_changed},
    {"device_updated", DEVICE_EVENT, after_fields, run_device_changed},
    {"device_deleted", DEVICE_EVENT, after_fields, run_device_deleted},
    {"pod_added", POD_EVENT, after_fields, run_pod_changed},
    {"pod_updated", POD_EVENT, after_fields, run_pod_changed},
    {"pod_deleted", POD_EVENT, after_fields, run_pod_deleted},
    {"unreserve", "before pod allocations", after_fields, run_unreserve},
    {"used_by_pod", "before pod add", used_fields, run_used_by_pod},
    {"gc_missing_nodes", "nodes cached", cached_fields, run_gc},
    {0},
};
