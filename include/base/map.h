/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * Text to uint32 map: open addressing, linear probing, stored 64-bit hashes, deletion by backward
 * shift (no tombstones). Keys are borrowed: the owner keeps the bytes alive and unchanged while they
 * are in the map. Hashes are seeded once a process from the kernel, because tenants choose pod names.
 * A map that grows moves a few entries with each change that follows, so that none takes long: until
 * the last one is moved, entries lie in two tables. Not thread safe.
 */
struct map {
    struct map_slot *slots;
    uint32_t capacity; /* power of two, or 0 */
    uint32_t count;
    struct map_slot *old; /* what it grew out of, NULL when all has been moved */
    uint32_t old_capacity, moved; /* slots below `moved` are */
    bool keeps_old; /* set by who frees the old table himself, see map_take_old() */
    void *empty_old;
};

#define MAP_NONE UINT32_MAX /* "not there"; never a legal value */

/* An empty map; allocates nothing. */
void map_init(struct map *map);

/* With keeps_old set: the table that it grew out of once all has been moved, for mem_free(); NULL if there
 * is none. To give a large one back to the kernel takes long. One that is not taken before the next is
 * freed then. */
void *map_take_old(struct map *map);

/* Free the slots (not the keys). A zeroed map is fine. */
void map_done(struct map *map);

/* The value of `key`, or MAP_NONE. */
uint32_t map_get(const struct map *map, struct str key);

/* Set `key` (borrowed) to `value`, replacing an older value and its key pointer. 0, or -ENOMEM with
 * the map unchanged. */
int map_put(struct map *map, struct str key, uint32_t value);

/* Remove `key`; false when it was not there. */
bool map_remove(struct map *map, struct str key);

#endif
