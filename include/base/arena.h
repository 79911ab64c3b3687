/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

/* Bump memory for one request: many small pieces, freed together. Not thread safe. */
struct arena {
    struct arena_block *head; /* newest block first */
    size_t used_bytes;        /* handed out so far, over all blocks */
    size_t limit_bytes;       /* 0 = no limit; past it allocations return NULL */
};

/* An empty arena that will hand out at most `limit_bytes` (0 = unlimited). Allocates nothing. */
void arena_init(struct arena *arena, size_t limit_bytes);

/* Free every piece; the arena may be used again. A zeroed arena is fine. */
void arena_done(struct arena *arena);

/* `count` zeroed items of `size` bytes, aligned for any type; NULL when memory or the limit ends.
 * Zero items give a valid pointer that must not be dereferenced. */
void *arena_alloc(struct arena *arena, size_t count, size_t size)
    __attribute__((warn_unused_result));

/* A copy of `text` with a NUL behind it (not counted in len). On failure the slice has data NULL
 * (an empty text still gives non-NULL data). */
struct str arena_str(struct arena *arena, struct str text);

#endif
