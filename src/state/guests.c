/* SPDX-License-Identifier: Apache-2.0 */
#include "state/guests.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

/* Growing doubles the capacity when three quarters of it are used: two slots moved with each put would
 * be enough. */
enum { CAPACITY_FIRST = 64, MOVE_SLOTS = 16 };

struct key {
    uint64_t high, low;
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 8-4-4-4-12 digits. */
static bool read_uuid(struct str uid, struct key *ret)
{
    if (uid.len != 36)
        return false;
    *ret = (struct key){0};
    for (size_t i = 0; i < uid.len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        int digit = hex_digit(uid.data[i]);
        if (dash ? uid.data[i] != '-' : digit < 0)
            return false;
        if (dash)
            continue;
        ret->high = ret->high << 4 | ret->low >> 60;
        ret->low = ret->low << 4 | (uint64_t)digit;
    }
    return true;
}

static uint64_t fold(struct str text, uint64_t hash)
{
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    return hash;
}

static struct key key_of(struct str uid)
{
    struct key key;
    if (!read_uuid(uid, &key))
        key = (struct key){fold(uid, UINT64_C(0xcbf29ce484222325)),
                           fold(uid, UINT64_C(0x9e3779b97f4a7c15))};
    if (key.high == 0 && key.low == 0)
        key.low = 1;
    return key;
}

void guest_uid(struct str uid, uint64_t ret[2])
{
    struct key key = key_of(uid);
    ret[0] = key.high;
    ret[1] = key.low;
}

/* UUIDs of an API server are random. */
static uint32_t home_of(const struct guest *guest, uint32_t capacity)
{
    return (uint32_t)(guest->uid[0] ^ guest->uid[1]) & (capacity - 1);
}

static bool is_used(const struct guest *slot)
{
    return (slot->uid[0] | slot->uid[1]) != 0;
}

void guests_done(struct guests *guests)
{
    mem_free(guests->slots);
    mem_free(guests->old);
    mem_free(guests->empty_old);
    *guests = (struct guests){0};
}

/* The guest's slot, or the free one where it belongs. */
static struct guest *find_slot(struct guest *slots, uint32_t capacity, struct key key)
{
    struct guest wanted = {.uid = {key.high, key.low}};
    uint32_t at = home_of(&wanted, capacity);
    while (is_used(&slots[at]) && memcmp(slots[at].uid, wanted.uid, sizeof wanted.uid) != 0)
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static struct guest *find(const struct guests *guests, struct key key)
{
    if (guests->capacity == 0)
        return NULL;
    struct guest *slot = find_slot(guests->slots, guests->capacity, key);
    if (!is_used(slot) && guests->old != NULL)
        slot = find_slot(guests->old, guests->old_capacity, key);
    return is_used(slot) && slot->node != GUEST_MOVED ? slot : NULL;
}

struct guest *guests_find(const struct guests *guests, struct str uid)
{
    return find(guests, key_of(uid));
}

void *guests_take_old(struct guests *guests)
{
    void *old = guests->empty_old;
    guests->empty_old = NULL;
    return old;
}

/* Slots of the old table are marked, not freed: others are found past them. */
bool guests_settle(struct guests *guests, uint32_t slots)
{
    for (; slots > 0 && guests->old != NULL; slots--) {
        struct guest *guest = &guests->old[guests->moved++];
        if (is_used(guest) && guest->node != GUEST_MOVED) {
            struct key key = {guest->uid[0], guest->uid[1]};
            *find_slot(guests->slots, guests->capacity, key) = *guest;
            guest->node = GUEST_MOVED;
        }
        if (guests->moved == guests->old_capacity) {
            mem_free(guests->empty_old);
            guests->empty_old = guests->old;
            guests->old = NULL;
        }
    }
    return guests->old == NULL;
}

static bool grow(struct guests *guests)
{
    assert(guests->old == NULL);
    uint32_t capacity = guests->capacity > 0 ? 2 * guests->capacity : CAPACITY_FIRST;
    struct guest *slots = mem_calloc(capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    guests->old = guests->slots;
    guests->old_capacity = guests->capacity;
    guests->moved = 0;
    guests->slots = slots;
    guests->capacity = capacity;
    return true;
}

struct guest *guests_put(struct guests *guests, struct str uid, bool *ret_fresh)
{
    struct key key = key_of(uid);
    struct guest *known = find(guests, key);
    *ret_fresh = known == NULL;
    if (known != NULL)
        return known;
    guests_settle(guests, MOVE_SLOTS);
    if (guests->count >= guests->capacity / 4 * 3 && !grow(guests))
        return NULL;
    struct guest *guest = find_slot(guests->slots, guests->capacity, key);
    *guest = (struct guest){.uid = {key.high, key.low}};
    guests->count++;
    return guest;
}

void guests_remove(struct guests *guests, struct guest *guest)
{
    guests->count--;
    if (guests->old != NULL && guest >= guests->old && guest < guests->old + guests->old_capacity) {
        guest->node = GUEST_MOVED;
        return;
    }
    uint32_t mask = guests->capacity - 1;
    uint32_t hole = (uint32_t)(guest - guests->slots);
    for (uint32_t at = (hole + 1) & mask; is_used(&guests->slots[at]); at = (at + 1) & mask) {
        /* Back into the hole, unless its home lies behind it. */
        uint32_t home = home_of(&guests->slots[at], guests->capacity);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        guests->slots[hole] = guests->slots[at];
        hole = at;
    }
    guests->slots[hole] = (struct guest){0};
}

uint32_t guests_slots(const struct guests *guests)
{
    return guests->capacity + (guests->old != NULL ? guests->old_capacity : 0);
}

struct guest *guests_at(const struct guests *guests, uint32_t at)
{
    struct guest *slot =
        at < guests->capacity ? &guests->slots[at] : &guests->old[at - guests->capacity];
    return is_used(slot) && slot->node != GUEST_MOVED ? slot : NULL;
}
