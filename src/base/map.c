/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

#include "base/mem.h"

struct map_slot {
    uint64_t hash;
    struct str key;
    uint32_t value; /* MAP_NONE = free slot */
};

enum { CAPACITY_FIRST = 16 };

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
    map_init(map);
}

/* The slot of `key`, or the free slot where it would go. The table always has a free slot. */
static uint32_t find_slot(const struct map *map, uint64_t hash, struct str key)
{
    uint32_t mask = map->capacity - 1;
    uint32_t i = (uint32_t)hash & mask;
    while (map->slots[i].value != MAP_NONE &&
           (map->slots[i].hash != hash || !str_eq(map->slots[i].key, key)))
        i = (i + 1) & mask;
    return i;
}

uint32_t map_get(const struct map *map, struct str key)
{
    if (map->count == 0)
        return MAP_NONE;
    return map->slots[find_slot(map, hash_of(key), key)].value;
}

static int grow(struct map *map)
{
    if (map->capacity > UINT32_MAX / 2)
        return -ENOMEM;
    struct map bigger = {.capacity = map->capacity > 0 ? map->capacity * 2 : CAPACITY_FIRST,
                         .count = map->count};
    bigger.slots = mem_calloc(bigger.capacity, sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < bigger.capacity; i++)
        bigger.slots[i].value = MAP_NONE;

    for (uint32_t i = 0; i < map->capacity; i++) {
        const struct map_slot *slot = &map->slots[i];
        if (slot->value != MAP_NONE)
            bigger.slots[find_slot(&bigger, slot->hash, slot->key)] = *slot;
    }
    mem_free(map->slots);
    *map = bigger;
    return 0;
}

int map_put(struct map *map, struct str key, uint32_t value)
{
    assert(value != MAP_NONE);
    pthread_once(&seed_once, draw_seed);

    uint64_t hash = hash_of(key);
    bool known = map->count > 0 && map->slots[find_slot(map, hash, key)].value != MAP_NONE;
    bool full = map->capacity == 0 || map->count >= map->capacity / 4 * 3;
    if (!known && full && grow(map) < 0)
        return -ENOMEM;

    map->slots[find_slot(map, hash, key)] =
        (struct map_slot){.hash = hash, .key = key, .value = value};
    map->count += !known;
    return 0;
}

bool map_remove(struct map *map, struct str key)
{
    if (map->count == 0)
        return false;
    uint32_t mask = map->capacity - 1;
    uint32_t hole = find_slot(map, hash_of(key), key);
    if (map->slots[hole].value == MAP_NONE)
        return false;

    /* Close the gap: an entry moves back when the hole lies on its way from its home slot. */
    for (uint32_t i = (hole + 1) & mask; map->slots[i].value != MAP_NONE; i = (i + 1) & mask) {
        uint32_t home = (uint32_t)map->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (struct map_slot){.value = MAP_NONE};
    map->count--;
    return true;
}
