/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ROSTER_H
#define CORE_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * The names of all nodes as one JSON text, in the order in which a call had them. kube-scheduler sends
 * thousands of names in each call, most of them in pieces of an order seen before: a piece is recognised
 * by comparing text, many names at a time, and what is known of its names is copied. Any other order is
 * found name by name.
 *
 * A roster is made once and never changes; names are in it at most once. A number is whatever the maker
 * knows a node by, and good for as long as he says.
 */
struct roster {
    uint32_t count;
    uint64_t version;       /* of the numbers, never 0 */
    const char *text;       /* "a","b","c": between quotes, a comma between; no name needs an escape there */
    const uint32_t *begin;  /* of each name's opening quote; and one more, as if another name followed */
    const uint32_t *number; /* of each name's node */
    const uint32_t *hash;   /* roster_hash() of each name */
    const uint32_t *place;  /* by hash & mask and from there on, up to a ROSTER_NONE */
    uint32_t mask;
    size_t longest; /* bytes of the longest name */
};

#define ROSTER_NONE UINT32_MAX

/* What is known of the names of a call. */
struct roster_notes {
    const struct roster *roster; /* that they are from; NULL: from none */
    uint32_t *numbers;      /* one a name, ROSTER_NONE: not known; NULL: nothing is noted */
    const uint32_t *hashes; /* roster_hash() of each name; NULL as well then */
    uint64_t version;       /* of the numbers; 0: of none */
    uint32_t strangers;     /* names that were not in the roster */
    uint32_t pieces;        /* that the others came in */
};

/* A hash of a name, the same on every machine and in every process. */
uint32_t roster_hash(struct str name);

/* The place of a name that has this hash, or ROSTER_NONE. There may be other names with it: whoever
 * asks compares. */
static inline uint32_t roster_find(const struct roster *roster, uint32_t hash)
{
    uint32_t at = hash & roster->mask, place;
    while ((place = roster->place[at]) != ROSTER_NONE && roster->hash[place] != hash)
        at = (at + 1) & roster->mask;
    return place;
}

/* How many names from `place` on stand at `at` as they do in the roster, commas between them included. `len`
 * bytes are there. */
uint32_t roster_match(const struct roster *roster, uint32_t place, const char *at, size_t len);

/* Bytes of `count` names from `place` on, with their quotes and the commas between. */
static inline size_t roster_bytes(const struct roster *roster, uint32_t place, uint32_t count)
{
    return count > 0 ? roster->begin[place + count] - 1 - roster->begin[place] : 0;
}

/* May the name be in a roster, as text that means itself? */
bool roster_takes(struct str name);

/* ---- making one ---- */

/* A block of roster_block_size() bytes for `count` names with `name_bytes` bytes in all becomes an empty
 * roster with room for them, the block zeroed. Returns it; its parts are in the block. SIZE_MAX: too large. */
size_t roster_block_size(uint32_t count, size_t name_bytes);
struct roster *roster_begin(void *block, uint32_t count, uint64_t version);

/* Append a name that roster_takes(), and was not added before. */
void roster_add(struct roster *roster, struct str name, uint32_t number);

/* All are added: make them findable. */
void roster_end(struct roster *roster);

#endif
