/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_long fail_at;
static atomic_long allocations;

/* Counts one allocation; true when it is the one that a test wants to fail. */
static bool injected_failure(void)
{
    long number = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    return number == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void *mem_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (injected_failure() || __builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return calloc(count > 0 ? count : 1, size > 0 ? size : 1);
}

void *mem_realloc(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (injected_failure() || __builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return realloc(block, bytes > 0 ? bytes : 1);
}

void mem_free(void *block)
{
    free(block);
}

void mem_fail_at(long n)
{
    atomic_store(&allocations, 0);
    atomic_store(&fail_at, n);
}

long mem_count(void)
{
    return atomic_load(&allocations);
}
