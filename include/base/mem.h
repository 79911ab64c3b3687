/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/*
 * Every allocation of ours goes through these three functions, so that a test can make the n-th one
 * fail. They return NULL when memory ends; callers turn that into -ENOMEM and leave state unchanged.
 */

/* `count` zeroed items of `size` bytes, NULL on failure or overflow. Free with mem_free. */
void *mem_calloc(size_t count, size_t size) __attribute__((warn_unused_result));

/* Grow or shrink `block` (may be NULL) to `count` items of `size` bytes; the new part is not zeroed.
 * On failure returns NULL and leaves `block` as it was. */
void *mem_realloc(void *block, size_t count, size_t size) __attribute__((warn_unused_result));

/* Free a block of mem_calloc or mem_realloc; NULL is fine. */
void mem_free(void *block);

/* Tests only: make the n-th allocation from now on (1 = the next) and no other fail; 0 switches the
 * injection off. Process-wide and atomic. */
void mem_fail_at(long n);

/* Tests only: number of allocations since the last mem_fail_at. */
long mem_count(void);

#endif
