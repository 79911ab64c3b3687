/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* Holds used amounts that a record's `before` does not explain and that no named pod can own. */
#define NOBODY "conformance/nobody"

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

bool world_holdings(struct vector *v, json_object *allocations, const char *pod,
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
    json_object *pod = world_bound_pod(world, name, node, placement);
    bool book = world->book != NULL && strcmp(world->book, name) == 0;
    if (book) {
        json_object_object_del(pod, "node");
        json_object_object_del(pod, "annotations");
    }
    world_pod_event(world, pod);
    json_object_put(pod);
    if (!book)
        return vector_supported(world->v);

    char uid[NAME_UID_MAX + 1];
    enum reason reason;
    struct placement placed;
    world_uid(name, uid);
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
            good = good && world_holdings(v, allocations, name, &held);
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
    uint32_t pods = card->pods, users = card->pods, slots = 0;
    struct str id = card->id, model = {0};
    struct amount total = card->total, used = card->used;
    struct card_columns columns = {.minor = &minor,
                                   .has = &has,
                                   .registered = &registered,
                                   .pods = &pods,
                                   .users = &users,
                                   .slots = &slots,
                                   .free_percent = &percent,
                                   .free_ratio = &ratio,
                                   .free_bytes = &bytes,
                                   .total_bytes = &total_bytes,
                                   .total = &total,
                                   .used = &used,
                                   .id = &id,
                                   .model = &model};
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

json_object *world_read_back(struct world *world)
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
    json_object *states = world_read_back(world);
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
    if (sched_node_changed(&world->sched, &(struct node_facts){.name = str_from(node)}) < 0) {
        vector_unsupported(world->v, "out of memory");
        return false;
    }
    return set_up_devices(world, node, state) && set_up_pods(world, node, state);
}

bool world_init(struct world *world, struct vector *v, const char *book)
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

void world_done(struct world *world)
{
    struct error err = {0};
    if (world->cache != NULL && cache_check(world->cache, &err) < 0)
        vector_fail(world->v, "cache_check", "no violation", err.text);
    cache_free(world->cache);
    json_object_put(world->before);
    json_object_put(world->requests);
}

void world_put_after(struct world *world, json_object *answer)
{
    json_object *states = world_read_back(world);
    if (!world->direct) {
        json_put(answer, "after", states);
        return;
    }
    json_put(answer, "after", json_object_get(json_get(states, ONLY_NODE)));
    json_object_put(states);
}
