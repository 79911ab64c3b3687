/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache_model.h"
#include "rng.h"

/* The cache against the naive model of tests/support/cache_model.h, at random; all of it is compared at times.
 * tests/fuzz/fuzz_state.c goes on with it. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OPERATIONS 100000
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OPERATIONS 100000
#endif
#endif
#ifndef OPERATIONS
#define OPERATIONS 1000000
#endif

static uint32_t below(void *self, uint32_t bound)
{
    return rng_below(self, bound);
}

static void test_a_million_operations(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(20261129);
    cache_model_begin((struct choices){below, &rng}, 6, 40);
    for (int i = 0; i < OPERATIONS; i++) {
        cache_model_step();
        if (i % 1000 == 0)
            cache_model_compare();
    }
    cache_model_compare();
    cache_model_end();
}

/* Few cards that everybody wants, and a beginning again and again. */
static void test_small_worlds(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(20261130);
    for (int i = 0; i < OPERATIONS / 250; i++) {
        cache_model_begin((struct choices){below, &rng}, 3, 8);
        for (int step = 0; step < 250; step++)
            cache_model_step();
        cache_model_compare();
        cache_model_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_million_operations),
        cmocka_unit_test(test_small_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
