/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/store.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

/* A free slot names the next free one. */
struct store_slot {
    struct object *object;
    uint32_t next_free;
};

static const struct {
    enum object_kind kind;
    const char *name;
} kinds[STORE_KINDS] = {
    {KIND_NAMESPACE, "Namespace"},
    {KIND_NODE, "Node"},
    {KIND_DEVICE, "Device"},
    {KIND_POD, "Pod"},
};

uint32_t store_rank(enum object_kind kind)
{
    uint32_t rank = 0;

    while (rank < STORE_KINDS && kinds[rank].kind != kind)
        rank++;
    assert(rank < STORE_KINDS);
    return rank;
}

const char *store_kind_name(enum object_kind kind)
{
    return kinds[store_rank(kind)].name;
}

enum object_kind store_kind_find(struct str name)
{
    for (uint32_t i = 0; i < STORE_KINDS; i++) {
        if (str_is(name, kinds[i].name))
            return kinds[i].kind;
    }
    return KIND_OTHER;
}

/* ---- objects ---- */

struct key {
    char text[STORE_KEY_MAX + 1];
    size_t len;
};

/* False when the names are too long for an object's. */
static bool make_key(enum object_kind kind, struct str ns, struct str name, struct key *ret)
{
    int len;

    if (ns.len > NAME_LABEL_MAX || name.len > NAME_SUBDOMAIN_MAX)
        return false;
    len = snprintf(ret->text, sizeof ret->text, "%s/%.*s/%.*s", store_kind_name(kind), STR_ARG(ns),
                   STR_ARG(name));
    assert(len > 0 && (size_t)len < sizeof ret->text);
    ret->len = (size_t)len;
    return true;
}

static struct str key_of(const struct object *object)
{
    return str_from(object->key);
}

struct object *object_new(enum object_kind kind, struct str ns, struct str name, struct str uid)
{
    struct object *object = mem_calloc(1, sizeof *object);
    struct key key;
    bool good = make_key(kind, ns, name, &key) && uid.len <= NAME_UID_MAX;

    assert(good);
    if (object == NULL)
        return NULL;
    object->kind = kind;
    memcpy(object->key, key.text, key.len);
    memcpy(object->uid, uid.data, uid.len);
    object->name = (struct str){object->key + key.len - name.len, name.len};
    object->ns = (struct str){object->name.data - 1 - ns.len, ns.len};
    return object;
}

void text_free(struct str text)
{
    union {
        const char *lent;
        char *owned;
    } data = {.lent = text.data};

    mem_free(data.owned);
}

void object_free(struct object *object)
{
    if (object == NULL)
        return;
    text_free(object->json);
    mem_free(object);
}

void object_set_json(struct object *object, struct str json)
{
    text_free(object->json);
    object->json = json;
}

/* ---- the store ---- */

void store_init(struct store *store)
{
    *store = (struct store){.free_slot = MAP_NONE};
    map_init(&store->by_key);
    map_init(&store->by_uid);
}

void store_done(struct store *store)
{
    for (uint32_t i = 0; i < STORE_KINDS; i++) {
        struct object *next;

        for (struct object *object = store->first[i]; object != NULL; object = next) {
            next = object->next;
            object_free(object);
        }
    }
    map_done(&store->by_key);
    map_done(&store->by_uid);
    mem_free(store->slots);
    store_init(store);
}

static struct object *object_at(const struct store *store, uint32_t slot)
{
    return slot != MAP_NONE ? store->slots[slot].object : NULL;
}

struct object *store_find(const struct store *store, enum object_kind kind, struct str ns,
                          struct str name)
{
    struct key key;

    if (!make_key(kind, ns, name, &key))
        return NULL;
    return object_at(store, map_get(&store->by_key, (struct str){key.text, key.len}));
}

struct object *store_find_uid(const struct store *store, struct str uid)
{
    return object_at(store, map_get(&store->by_uid, uid));
}

/* Make sure that there is a free slot and that it is the first in the list. */
static int reserve_slot(struct store *store)
{
    if (store->free_slot != MAP_NONE)
        return 0;
    if (store->slot_count == store->slot_capacity) {
        uint32_t capacity = store->slot_capacity == 0 ? 64 : store->slot_capacity * 2;
        struct store_slot *slots = mem_realloc(store->slots, capacity, sizeof *slots);

        if (slots == NULL)
            return -ENOMEM;
        store->slots = slots;
        store->slot_capacity = capacity;
    }
    store->slots[store->slot_count] = (struct store_slot){.next_free = MAP_NONE};
    store->free_slot = store->slot_count++;
    return 0;
}

int store_add(struct store *store, struct object *object)
{
    uint32_t rank = store_rank(object->kind), slot;

    assert(map_get(&store->by_key, key_of(object)) == MAP_NONE);
    assert(map_get(&store->by_uid, str_from(object->uid)) == MAP_NONE);
    if (reserve_slot(store) < 0)
        return -ENOMEM;
    slot = store->free_slot;
    if (map_put(&store->by_key, key_of(object), slot) < 0)
        return -ENOMEM;
    if (map_put(&store->by_uid, str_from(object->uid), slot) < 0) {
        map_remove(&store->by_key, key_of(object));
        return -ENOMEM;
    }
    store->free_slot = store->slots[slot].next_free;
    store->slots[slot].object = object;
    object->slot = slot;
    object->next = NULL;
    object->previous = store->last[rank];
    *(object->previous != NULL ? &object->previous->next : &store->first[rank]) = object;
    store->last[rank] = object;
    return 0;
}

void store_remove(struct store *store, struct object *object)
{
    uint32_t rank = store_rank(object->kind);

    map_remove(&store->by_key, key_of(object));
    map_remove(&store->by_uid, str_from(object->uid));
    store->slots[object->slot] = (struct store_slot){.next_free = store->free_slot};
    store->free_slot = object->slot;
    *(object->previous != NULL ? &object->previous->next : &store->first[rank]) = object->next;
    *(object->next != NULL ? &object->next->previous : &store->last[rank]) = object->previous;
}
