/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

#include "base/mem.h"

/* A table of zeroes is an empty one, so that a large one costs nothing before it is used. */
struct map_slot {
    uint64_t hash;
    struct str key;     /* len KEY_GONE: the entry that was here is in the larger table, or nowhere */
    uint32_t after_value; /* one more than the value; 0 = free slot */
};

/* No key is that long. */
#define KEY_GONE SIZE_MAX

/* Growing doubles the capacity when three quarters of it are used: two slots moved with each change
 * would be enough. */
enum { CAPACITY_FIRST = 16, MOVE_SLOTS = 16 };

static uint64_t seed[2];
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void draw_seed(void)
{
    /* 16 bytes come whole or not at all once the kernel's pool is ready, and getrandom waits for
     * it. */
    ssize_t got = getrandom(seed, sizeof(seed), 0);
    assert(got == (ssize_t)sizeof(seed));
    (void)got;
}

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[0] = rotate_left(v[0], 32);
    v[2] += v[3];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[2] = rotate_left(v[2], 32);
}

/* SipHash-1-3, keyed by the process's seed; the words are read in host order, which no one sees. */
static uint64_t hash_of(struct str key)
{
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                     seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    size_t done = 0;
    for (; done + 8 <= key.len; done += 8) {
        uint64_t word;
        memcpy(&word, key.data + done, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }

    uint64_t last = (uint64_t)key.len << 56;
    for (size_t i = done; i < key.len; i++)
        last |= (uint64_t)(unsigned char)key.data[i] << (8 * (i - done));
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;

    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void map_init(struct map *map)
{
    *map = (struct map){0};
}

void map_done(struct map *map)
{
    mem_free(map->slots);
    mem_free(map->old);
    mem_free(map->empty_old);
    map_init(map);
}

/* The slot of `key`, or the free slot where it would go. A table always has a free slot. */
static struct map_slot *find_slot(struct map_slot *slots, uint32_t capacity, uint64_t hash,
                                  struct str key)
{
    uint32_t i = (uint32_t)hash & (capacity - 1);
    while (slots[i].after_value != 0 && (slots[i].hash != hash || !str_eq(slots[i].key, key)))
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

/* The slot of a key that is there, or NULL. */
static struct map_slot *find(const struct map *map, uint64_t hash, struct str key)
{
    struct map_slot *slot = find_slot(map->slots, map->capacity, hash, key);
    if (slot->after_value == 0 && map->old != NULL)
        slot = find_slot(map->old, map->old_capacity, hash, key);
    return slot->after_value != 0 ? slot : NULL;
}

uint32_t map_get(const struct map *map, struct str key)
{
    if (map->count == 0)
        return MAP_NONE;
    const struct map_slot *slot = find(map, hash_of(key), key);
    return slot != NULL ? slot->after_value - 1 : MAP_NONE;
}

static void leave_old(struct map *map)
{
    mem_free(map->keeps_old ? map->empty_old : map->old);
    map->empty_old = map->keeps_old ? map->old : NULL;
    map->old = NULL;
}

void *map_take_old(struct map *map)
{
    void *old = map->empty_old;
    map->empty_old = NULL;
    return old;
}

/* Slots of the old table are marked, not freed: others are found past them. */
static void move_some(struct map *map)
{
    for (unsigned i = 0; i < MOVE_SLOTS && map->old != NULL; i++) {
        struct map_slot *slot = &map->old[map->moved++];
        if (slot->after_value != 0 && slot->key.len != KEY_GONE) {
            *find_slot(map->slots, map->capacity, slot->hash, slot->key) = *slot;
            slot->key = (struct str){NULL, KEY_GONE};
        }
        if (map->moved == map->old_capacity)
            leave_old(map);
    }
}

static int grow(struct map *map)
{
    if (map->capacity > UINT32_MAX / 2)
        return -ENOMEM;
    assert(map->old == NULL);
    uint32_t capacity = map->capacity > 0 ? map->capacity * 2 : CAPACITY_FIRST;
    struct map_slot *slots = mem_calloc(capacity, sizeof(*slots));
    if (slots == NULL)
        return -ENOMEM;
    map->old = map->slots;
    map->old_capacity = map->capacity;
    map->moved = 0;
    map->slots = slots;
    map->capacity = capacity;
    return 0;
}

int map_put(struct map *map, struct str key, uint32_t value)
{
    assert(value != MAP_NONE && key.len != KEY_GONE);
    pthread_once(&seed_once, draw_seed);

    uint64_t hash = hash_of(key);
    struct map_slot *known = map->count > 0 ? find(map, hash, key) : NULL;
    if (known != NULL) {
        known->key = key;
        known->after_value = value + 1;
        return 0;
    }
    move_some(map);
    bool full = map->capacity == 0 || map->count >= map->capacity / 4 * 3;
    if (full && grow(map) < 0)
        return -ENOMEM;
    *find_slot(map->slots, map->capacity, hash, key) =
        (struct map_slot){.hash = hash, .key = key, .after_value = value + 1};
    map->count++;
    return 0;
}

/* Close the gap: an entry moves back when the hole lies on its way from its home slot. */
static void close_gap(const struct map *map, uint32_t hole)
{
    uint32_t mask = map->capacity - 1;
    for (uint32_t i = (hole + 1) & mask; map->slots[i].after_value != 0; i = (i + 1) & mask) {
        uint32_t home = (uint32_t)map->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (struct map_slot){0};
}

bool map_remove(struct map *map, struct str key)
{
    if (map->count == 0)
        return false;
    uint64_t hash = hash_of(key);
    struct map_slot *slot = find_slot(map->slots, map->capacity, hash, key), *old = NULL;
    if (slot->after_value == 0 && map->old != NULL)
        old = find_slot(map->old, map->old_capacity, hash, key);
    if (slot->after_value != 0)
        close_gap(map, (uint32_t)(slot - map->slots));
    else if (old != NULL && old->after_value != 0)
        old->key = (struct str){NULL, KEY_GONE};
    else
        return false;
    map->count--;
    move_some(map);
    return true;
}
