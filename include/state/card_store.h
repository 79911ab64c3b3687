/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_CARD_STORE_H
#define STATE_CARD_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/device.h"

/*
 * Rows of card columns for many nodes. A node's rows lie together in one chunk, so that a scan reads
 * memory in order; chunks never move, so a window stays valid until it is given back. Ranges are powers of
 * two and are reused through one free list a size: a fleet whose inventories change for months does not
 * grow. Not thread safe.
 */
#define CARD_STORE_CLASSES 9 /* ranges of 1, 2, 4 ... CARDS_PER_NODE_MAX rows */

struct card_chunk;

/* A range of rows. `chunk` NULL = no rows. */
struct card_range {
    struct card_chunk *chunk;
    uint32_t first;
    uint32_t size_class;
};

struct card_store {
    struct card_chunk *chunks;
    struct card_chunk *spare; /* for the take that finds no room in the first of them, or NULL */
    uint32_t made[CARD_STORE_CLASSES]; /* ranges that exist, taken or free */
    struct card_range *free_ranges[CARD_STORE_CLASSES];
    uint32_t free_count[CARD_STORE_CLASSES];
    uint32_t free_capacity[CARD_STORE_CLASSES];
};

/* An empty store. */
void card_store_init(struct card_store *store);

/* Free everything. */
void card_store_done(struct card_store *store);

/* Memory for more rows, which the kernel takes a while to give: made without the lock, for card_store_add().
 * NULL when memory ends. */
struct card_chunk *card_store_spare(void);

/* Should somebody make a spare one before the next take? Without one that take makes its own. */
bool card_store_wants(const struct card_store *store);

/* Take it over; one that is not wanted any more is returned, for mem_free(). */
struct card_chunk *card_store_add(struct card_store *store, struct card_chunk *spare);

/* A range of at least `rows` (0..CARDS_PER_NODE_MAX) zeroed rows; 0 or -ENOMEM. */
int card_store_take(struct card_store *store, uint32_t rows, struct card_range *ret);

/* Give a range back. Never fails: room in the free list was made when it was taken. */
void card_store_give(struct card_store *store, struct card_range range);

/* The columns that the rows of a range are in; NULL for no rows. */
struct card_columns *card_range_columns(struct card_range range);

#endif
