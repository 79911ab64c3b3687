/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>

#include "base/mem.h"

struct arena_block {
    struct arena_block *next;
    size_t size;
    size_t used;
    alignas(max_align_t) char bytes[];
};

#if defined(__SANITIZE_ADDRESS__)
#define EXACT_BLOCKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EXACT_BLOCKS 1
#endif
#endif

/* Blocks double from the first to the last size. Under AddressSanitizer every piece gets a block of
 * its own, so that running over its end is seen. */
#ifdef EXACT_BLOCKS
enum { BLOCK_FIRST_BYTES = 1, BLOCK_LAST_BYTES = 1 };
#else
enum { BLOCK_FIRST_BYTES = 4096, BLOCK_LAST_BYTES = 1 << 20 };
#endif

void arena_init(struct arena *arena, size_t limit_bytes)
{
    *arena = (struct arena){.limit_bytes = limit_bytes};
}

void arena_done(struct arena *arena)
{
    struct arena_block *block = arena->head;
    while (block != NULL) {
        struct arena_block *next = block->next;
        mem_free(block);
        block = next;
    }
    arena->head = NULL;
    arena->used_bytes = 0;
}

static struct arena_block *add_block(struct arena *arena, size_t bytes)
{
    struct arena_block *head = arena->head;
    size_t size = head != NULL ? head->size * 2 : BLOCK_FIRST_BYTES;
    if (size > BLOCK_LAST_BYTES)
        size = BLOCK_LAST_BYTES;

    bool oversized = bytes > size;
    if (oversized)
        size = bytes;
    if (size > SIZE_MAX - sizeof(struct arena_block))
        return NULL;
    struct arena_block *block = mem_calloc(1, sizeof(*block) + size);
    if (block == NULL)
        return NULL;
    block->size = size;

    /* A block that is full at once goes behind the head, which still has room for small pieces. */
    struct arena_block **place = oversized && head != NULL ? &head->next : &arena->head;
    block->next = *place;
    *place = block;
    return block;
}

/* `bytes` zeroed bytes; blocks are zeroed when they are made and no byte is handed out twice. */
static void *take(struct arena *arena, size_t bytes, size_t align)
{
    if (arena->limit_bytes != 0 &&
        (arena->used_bytes > arena->limit_bytes || bytes > arena->limit_bytes - arena->used_bytes))
        return NULL;

    struct arena_block *block = arena->head;
    size_t start = block != NULL ? (block->used + align - 1) & ~(align - 1) : 0;
    if (block == NULL || start > block->size || bytes > block->size - start) {
        block = add_block(arena, bytes);
        start = 0;
    }
    if (block == NULL)
        return NULL;
    block->used = start + bytes;
    arena->used_bytes += bytes;
    return block->bytes + start;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return take(arena, bytes > 0 ? bytes : 1, alignof(max_align_t));
}

struct str arena_str(struct arena *arena, struct str text)
{
    char *copy = text.len < SIZE_MAX ? take(arena, text.len + 1, 1) : NULL;
    if (copy == NULL)
        return (struct str){NULL, 0};
    if (text.len > 0)
        memcpy(copy, text.data, text.len);
    return (struct str){copy, text.len};
}
