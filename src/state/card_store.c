/* SPDX-License-Identifier: Apache-2.0 */
#include "state/card_store.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#define CHUNK_ROWS 1024u

/* Columns of CHUNK_ROWS rows in one block, widest types first. */
struct card_chunk {
    struct card_chunk *next;
    uint32_t used; /* rows ever handed out */
    struct card_columns columns;
    struct str id[CHUNK_ROWS];
    struct str model[CHUNK_ROWS];
    struct amount total[CHUNK_ROWS];
    struct amount used_amount[CHUNK_ROWS];
    int64_t free_bytes[CHUNK_ROWS];
    int64_t total_bytes[CHUNK_ROWS];
    int32_t free_percent[CHUNK_ROWS];
    int32_t free_ratio[CHUNK_ROWS];
    int32_t minor[CHUNK_ROWS];
    uint32_t pods[CHUNK_ROWS];
    uint32_t users[CHUNK_ROWS];
    uint32_t slots[CHUNK_ROWS];
    uint8_t has[CHUNK_ROWS];
    bool registered[CHUNK_ROWS];
};

_Static_assert(CARDS_PER_NODE_MAX == 1u << (CARD_STORE_CLASSES - 1), "largest class holds a node");
_Static_assert(CHUNK_ROWS % CARDS_PER_NODE_MAX == 0, "classes tile a chunk");

void card_store_init(struct card_store *store)
{
    *store = (struct card_store){0};
}

void card_store_done(struct card_store *store)
{
    while (store->chunks != NULL) {
        struct card_chunk *next = store->chunks->next;
        mem_free(store->chunks);
        store->chunks = next;
    }
    mem_free(store->spare);
    for (unsigned c = 0; c < CARD_STORE_CLASSES; c++)
        mem_free(store->free_ranges[c]);
    card_store_init(store);
}

static struct card_chunk *chunk_new(void)
{
    struct card_chunk *chunk = mem_calloc(1, sizeof *chunk);
    if (chunk == NULL)
        return NULL;
    chunk->columns = (struct card_columns){
        .minor = chunk->minor,
        .has = chunk->has,
        .registered = chunk->registered,
        .pods = chunk->pods,
        .free_percent = chunk->free_percent,
        .free_ratio = chunk->free_ratio,
        .free_bytes = chunk->free_bytes,
        .total_bytes = chunk->total_bytes,
        .total = chunk->total,
        .used = chunk->used_amount,
        .users = chunk->users,
        .slots = chunk->slots,
        .id = chunk->id,
        .model = chunk->model,
    };
    return chunk;
}

static uint32_t class_of(uint32_t rows)
{
    uint32_t size_class = 0;
    while ((1u << size_class) < rows)
        size_class++;
    return size_class;
}

static void clear_rows(struct card_range range)
{
    struct card_chunk *chunk = range.chunk;
    for (uint32_t row = range.first; row < range.first + (1u << range.size_class); row++) {
        chunk->id[row] = chunk->model[row] = STR("");
        chunk->total[row] = (struct amount){0};
        chunk->used_amount[row] = (struct amount){0};
        chunk->free_bytes[row] = chunk->total_bytes[row] = 0;
        chunk->free_percent[row] = chunk->free_ratio[row] = chunk->minor[row] = 0;
        chunk->pods[row] = chunk->users[row] = chunk->slots[row] = 0;
        chunk->has[row] = 0;
        chunk->registered[row] = false;
    }
}

/* Room in the free list for every range that exists, so that giving back never fails. */
static int reserve_free(struct card_store *store, uint32_t size_class, uint32_t ranges)
{
    if (ranges <= store->free_capacity[size_class])
        return 0;
    uint32_t capacity = store->free_capacity[size_class] * 2 + 16;
    struct card_range *grown =
        mem_realloc(store->free_ranges[size_class], capacity, sizeof *grown);
    if (grown == NULL)
        return -ENOMEM;
    store->free_ranges[size_class] = grown;
    store->free_capacity[size_class] = capacity;
    return 0;
}

static uint32_t rows_left(const struct card_store *store)
{
    return store->chunks != NULL ? CHUNK_ROWS - store->chunks->used : 0;
}

static bool next_chunk(struct card_store *store)
{
    struct card_chunk *chunk = store->spare != NULL ? store->spare : chunk_new();
    if (chunk == NULL)
        return false;
    store->spare = NULL;
    chunk->next = store->chunks;
    store->chunks = chunk;
    return true;
}

struct card_chunk *card_store_spare(void)
{
    struct card_chunk *chunk = chunk_new();
    if (chunk != NULL) /* written to, so that it is there */
        for (uint32_t first = 0; first < CHUNK_ROWS; first += CARDS_PER_NODE_MAX)
            clear_rows((struct card_range){chunk, first, CARD_STORE_CLASSES - 1});
    return chunk;
}

bool card_store_wants(const struct card_store *store)
{
    return store->spare == NULL && rows_left(store) < CARDS_PER_NODE_MAX;
}

struct card_chunk *card_store_add(struct card_store *store, struct card_chunk *spare)
{
    if (store->spare != NULL)
        return spare;
    store->spare = spare;
    return NULL;
}

int card_store_take(struct card_store *store, uint32_t rows, struct card_range *ret)
{
    assert(rows <= CARDS_PER_NODE_MAX);
    if (rows == 0) {
        *ret = (struct card_range){0};
        return 0;
    }
    uint32_t size_class = class_of(rows);
    if (store->free_count[size_class] > 0) {
        *ret = store->free_ranges[size_class][--store->free_count[size_class]];
        clear_rows(*ret);
        return 0;
    }
    if (reserve_free(store, size_class, store->made[size_class] + 1) < 0)
        return -ENOMEM;
    uint32_t size = 1u << size_class;
    if (rows_left(store) < size && !next_chunk(store))
        return -ENOMEM;
    *ret = (struct card_range){store->chunks, store->chunks->used, size_class};
    store->chunks->used += size;
    store->made[size_class]++;
    clear_rows(*ret);
    return 0;
}

void card_store_give(struct card_store *store, struct card_range range)
{
    if (range.chunk == NULL)
        return;
    assert(store->free_count[range.size_class] < store->free_capacity[range.size_class]);
    store->free_ranges[range.size_class][store->free_count[range.size_class]++] = range;
}

struct card_columns *card_range_columns(struct card_range range)
{
    return range.chunk != NULL ? &range.chunk->columns : NULL;
}
