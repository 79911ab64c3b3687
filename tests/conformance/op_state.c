/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the cache: events go in as from the API server, the state is read back. */
#include "world.h"

#include <stdio.h>

#include "base/parse.h"

/* The card that derived.json means where it lists minors only. */
#define USUAL_BYTES INT64_C(85899345920)

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
        world_put_after(&world, answer);
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
    json_object *states = world_read_back(world);
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
        return world_bound_pod(world, name, json_text(given, "node", ONLY_NODE), &placement);
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
            world_holdings(world->v, allocations, json_text(pod, "name", ""), &held) &&
            held.count > 0)
            return world_bound_pod(world, json_text(pod, "name", ""), node, &held);
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
            world_pod_event(&world, event);
        json_object_put(event);
        json_object_put(pod);
        json_put_bool(answer, "old_pod_allocation_removed", held && !holds_anything(&world, old));
        world_put_after(&world, answer);
    }
    world_done(&world);
}

static void run_pod_deleted(struct vector *v, json_object *answer)
{
    struct world world;
    if (world_init(&world, v, NULL)) {
        struct pod decoded;
        json_object *pod = event_pod(&world);
        if (vector_supported(v) && world_decode_pod(&world, pod, &decoded))
            sched_pod_gone(&world.sched, decoded.id.uid);
        json_object_put(pod);
        world_put_after(&world, answer);
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
        world_uid(name, uid);
        cache_forget(world.cache, str_from(uid));
        world_put_after(&world, answer);
    }
    world_done(&world);
}

static void run_used_by_pod(struct vector *v, json_object *answer)
{
    struct world world;
    if (world_init(&world, v, NULL)) {
        json_object *pod = event_pod(&world), *states;
        if (vector_supported(v))
            world_pod_event(&world, pod);
        states = world_read_back(&world);
        json_object_object_foreach(states, node, state) {
            json_object *allocations = json_get(state, "allocations");
            struct placement held;
            (void)node;
            if (json_object_is_type(allocations, json_type_object) &&
                world_holdings(v, allocations, json_text(pod, "name", ""), &held))
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
            if (sched_node_changed(&world.sched, &(struct node_facts){.name = name}) < 0 ||
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
        json_object *states = world_read_back(&world);
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
