/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/roster.h"
#include "rng.h"

enum { MANY = 500 };

static char texts[MANY][16];
static struct str names[MANY];
static int64_t scores[MANY];
static enum reason reasons[MANY];
static struct ranked space[MANY];

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "node-%d", i);
        names[i] = str_from(texts[i]);
        scores[i] = 0;
        reasons[i] = REASON_FITS;
    }
    return 0;
}

static uint32_t keep(bool first_only, uint32_t max, const char *uid, uint32_t count)
{
    struct rank_rule rule = {first_only, max};
    struct rank_names who = {names, NULL};
    return rank_keep(&rule, str_from(uid), &who, scores, count, reasons, space);
}

static uint32_t kept(uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += reasons[i] == REASON_FITS;
    return n;
}

static void test_no_bound_keeps_all(void **state)
{
    (void)state;
    reasons[3] = REASON_INSUFFICIENT_GPU;
    assert_int_equal(keep(false, 0, "u", 10), 9);
    assert_int_equal(kept(10), 9);
    assert_int_equal(keep(false, 9, "u", 10), 9);
    assert_int_equal(reasons[3], REASON_INSUFFICIENT_GPU);
}

static int descending(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

/* Against sorting: what is kept scores at least what the best N score, in every order. */
static void test_the_best_are_kept(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(7);
    for (int round = 0; round < 200; round++) {
        int64_t sorted[MANY];
        uint32_t fit = 0, max = 1 + rng_below(&rng, 120);
        for (int i = 0; i < MANY; i++) {
            scores[i] = rng_below(&rng, round % 2 ? 1000 : 5);
            reasons[i] = rng_below(&rng, 4) ? REASON_FITS : REASON_NO_GPU;
            if (reasons[i] == REASON_FITS)
                sorted[fit++] = scores[i];
        }
        qsort(sorted, fit, sizeof sorted[0], descending);
        assert_int_equal(keep(false, max, "u", MANY), max);
        assert_int_equal(kept(MANY), max);
        int64_t got[MANY];
        uint32_t n = 0;
        for (int i = 0; i < MANY; i++)
            if (reasons[i] == REASON_FITS)
                got[n++] = scores[i];
        qsort(got, n, sizeof got[0], descending);
        assert_memory_equal(got, sorted, n * sizeof got[0]);
    }
}

/* There is one order of all, scores and ties: who is among the best ten is among the best eleven. */
static void test_the_best_few_are_among_the_best_many(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(8);
    uint32_t hashes[MANY];
    struct rank_names who = {names, hashes};
    for (int i = 0; i < MANY; i++)
        hashes[i] = roster_hash(names[i]);
    for (int round = 0; round < 300; round++) {
        uint32_t count = 2 + rng_below(&rng, MANY - 1), max = 1 + rng_below(&rng, count - 1);
        enum reason few[MANY];
        struct rank_rule rule = {.max = max};
        for (uint32_t i = 0; i < count; i++) {
            scores[i] = round % 3 == 0 ? 0 : rng_below(&rng, round % 3 == 1 ? 3 : 10000);
            reasons[i] = REASON_FITS;
        }
        assert_int_equal(rank_keep(&rule, STR("u"), &who, scores, count, reasons, space), max);
        assert_int_equal(kept(count), max);
        memcpy(few, reasons, sizeof few);
        for (uint32_t i = 0; i < count; i++)
            reasons[i] = REASON_FITS;
        assert_int_equal(keep(false, max + 1, "u", count), max + 1);
        for (uint32_t i = 0; i < count; i++)
            assert_true(few[i] != REASON_FITS || reasons[i] == REASON_FITS);
    }
}

static void test_ties_differ_by_pod_and_not_by_time(void **state)
{
    (void)state;
    enum reason first[MANY];
    bool differ = false;
    assert_int_equal(keep(false, 10, "u-1", MANY), 10);
    memcpy(first, reasons, sizeof first);
    setup(NULL);
    assert_int_equal(keep(false, 10, "u-1", MANY), 10);
    assert_memory_equal(first, reasons, sizeof first);
    setup(NULL);
    assert_int_equal(keep(false, 10, "u-2", MANY), 10);
    for (int i = 0; i < MANY; i++)
        differ |= first[i] != reasons[i];
    assert_true(differ);
}

/* Pods in a row are spread over nodes that are all alike. */
static void test_ties_are_fair(void **state)
{
    (void)state;
    uint32_t hits[10] = {0};
    char uid[16];
    for (int pod = 0; pod < 10000; pod++) {
        setup(NULL);
        snprintf(uid, sizeof uid, "uid-%d", pod);
        assert_int_equal(keep(false, 1, uid, 10), 1);
        for (int i = 0; i < 10; i++)
            hits[i] += reasons[i] == REASON_FITS;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(hits[i], 850, 1150); /* five standard deviations */
}

static void test_only_the_first(void **state)
{
    (void)state;
    scores[2] = scores[5] = scores[7] = 30;
    scores[4] = 40;
    reasons[4] = REASON_NODE_CLOSED;
    assert_int_equal(keep(true, 100, "u", 10), 3);
    assert_int_equal(reasons[2], REASON_FITS);
    assert_int_equal(reasons[3], REASON_LEFT_OUT);
    assert_int_equal(reasons[4], REASON_NODE_CLOSED);
    assert_int_equal(keep(true, 1, "u", 10), 1);
    assert_int_equal(kept(10), 1);
    /* One that is ranked last is kept when there is no other. */
    setup(NULL);
    scores[0] = -1;
    reasons[1] = REASON_NO_GPU;
    assert_int_equal(keep(true, 100, "u", 2), 1);
    assert_int_equal(reasons[0], REASON_FITS);
    assert_int_equal(keep(true, 1, "u", 0), 0);
}

/* Why a node does not fit stays what is said of it. */
static void test_reasons_stay(void **state)
{
    (void)state;
    reasons[1] = REASON_INSUFFICIENT_GPU;
    scores[2] = 5;
    assert_int_equal(keep(true, 0, "u", 4), 1);
    assert_int_equal(reasons[0], REASON_LEFT_OUT);
    assert_int_equal(reasons[1], REASON_INSUFFICIENT_GPU);
    assert_int_equal(reasons[2], REASON_FITS);
}

/* A rule that keeps all may become one that keeps a single candidate, with the space that there is. */
static void test_space_for_all_is_enough_for_fewer(void **state)
{
    (void)state;
    for (uint32_t count = 1; count < 50; count++)
        for (uint32_t max = 0; max < 60; max++) {
            assert_true(rank_space(max, count) >= rank_space(1, count));
            assert_in_range(rank_space(max, count), max < count ? max + (max == 0) : count, count);
        }
}

#define CASE(test) cmocka_unit_test_setup(test, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_no_bound_keeps_all),
        CASE(test_the_best_are_kept),
        CASE(test_the_best_few_are_among_the_best_many),
        CASE(test_ties_differ_by_pod_and_not_by_time),
        CASE(test_ties_are_fair),
        CASE(test_only_the_first),
        CASE(test_space_for_all_is_enough_for_fewer),
        CASE(test_reasons_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
