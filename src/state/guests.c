/* SPDX-License-Identifier: Apache-2.0 */
#include "state/guests.h"

#include <string.h>

#include "base/mem.h"

#define CAPACITY_FIRST 64u

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
static uint32_t home_of(const struct guests *guests, const struct guest *guest)
{
    return (uint32_t)(guest->uid[0] ^ guest->uid[1]) & (guests->capacity - 1);
}

bool guests_used(const struct guests *guests, uint32_t at)
{
    return (guests->slots[at].uid[0] | guests->slots[at].uid[1]) != 0;
}

void guests_done(struct guests *guests)
{
    mem_free(guests->slots);
    *guests = (struct guests){0};
}

/* The guest's slot, or the free one where it belongs. */
static uint32_t find(const struct guests *guests, struct key key)
{
    struct guest wanted = {.uid = {key.high, key.low}};
    uint32_t at = home_of(guests, &wanted);
    while (guests_used(guests, at) && memcmp(guests->slots[at].uid, wanted.uid, sizeof wanted.uid))
        at = (at + 1) & (guests->capacity - 1);
    return at;
}

struct guest *guests_find(const struct guests *guests, struct str uid)
{
    if (guests->capacity == 0)
        return NULL;
    uint32_t at = find(guests, key_of(uid));
    return guests_used(guests, at) ? &guests->slots[at] : NULL;
}

static bool grow(struct guests *guests)
{
    struct guests grown = {.capacity = guests->capacity > 0 ? 2 * guests->capacity : CAPACITY_FIRST,
                           .count = guests->count};
    grown.slots = mem_calloc(grown.capacity, sizeof *grown.slots);
    if (grown.slots == NULL)
        return false;
    for (uint32_t i = 0; i < guests->capacity; i++) {
        const struct guest *guest = &guests->slots[i];
        if (guests_used(guests, i))
            grown.slots[find(&grown, (struct key){guest->uid[0], guest->uid[1]})] = *guest;
    }
    mem_free(guests->slots);
    *guests = grown;
    return true;
}

struct guest *guests_put(struct guests *guests, struct str uid, bool *ret_fresh)
{
    struct guest *known = guests_find(guests, uid);
    *ret_fresh = known == NULL;
    if (known != NULL)
        return known;
    if (guests->count >= guests->capacity / 4 * 3 && !grow(guests))
        return NULL;
    struct key key = key_of(uid);
    struct guest *guest = &guests->slots[find(guests, key)];
    *guest = (struct guest){.uid = {key.high, key.low}};
    guests->count++;
    return guest;
}

void guests_remove(struct guests *guests, struct guest *guest)
{
    uint32_t mask = guests->capacity - 1;
    uint32_t hole = (uint32_t)(guest - guests->slots);
    for (uint32_t at = (hole + 1) & mask; guests_used(guests, at); at = (at + 1) & mask) {
        /* Back into the hole, unless its home lies behind it. */
        uint32_t home = home_of(guests, &guests->slots[at]);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        guests->slots[hole] = guests->slots[at];
        hole = at;
    }
    guests->slots[hole] = (struct guest){0};
    guests->count--;
}
