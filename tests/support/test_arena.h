/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_TEST_ARENA_H
#define SUPPORT_TEST_ARENA_H

#include "base/arena.h"

/* An arena of its own for each test of a program: `mem`, and what cmocka is to call before and after. */
static struct arena mem;

static inline int arena_setup(void **state)
{
    (void)state;
    arena_init(&mem, 0);
    return 0;
}

static inline int arena_teardown(void **state)
{
    (void)state;
    arena_done(&mem);
    return 0;
}

#endif
