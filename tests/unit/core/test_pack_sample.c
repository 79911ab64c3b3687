/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack_sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static struct pack_sample sample;
static struct pack_demand demands[PACK_SAMPLE_MAX + PACK_PRIOR_MAX];

static int setup(void **state)
{
    (void)state;
    pack_sample_init(&sample);
    return 0;
}

static struct pack_seen part(int32_t milli)
{
    return (struct pack_seen){.pod = {4000, 1000, 1, milli, PACK_MODELS_ANY, 0}, .weight = 1};
}

static void see(struct pack_seen seen, unsigned times)
{
    while (times-- > 0)
        pack_sample_see(&sample, &seen);
}

/* The guess alone at first; with 300 pods it has no say. */
static void test_prior_fades(void **state)
{
    (void)state;
    struct pack_mix mix;
    pack_sample_mix(&sample, 0, demands, &mix);
    assert_true(mix.count > 0 && mix.guessed == mix.count);
    double whole = pack_sample_prior(&sample), sum = 0;
    for (uint32_t i = 0; i < mix.count; i++)
        sum += demands[i].weight;
    assert_near(sum, whole);

    see(part(500), 150);
    pack_sample_mix(&sample, 0, demands, &mix);
    assert_near(pack_sample_prior(&sample), whole / 2);
    assert_int_equal(mix.count - mix.guessed, 1);
    assert_near(demands[0].weight, 150);

    see(part(500), 150);
    pack_sample_mix(&sample, 0, demands, &mix);
    assert_near(pack_sample_prior(&sample), 0);
    assert_int_equal(mix.count, 1);
    assert_int_equal(mix.guessed, 0);
}

/* Due at once, then when there are a half more, and at least every thousand. */
static void test_due(void **state)
{
    (void)state;
    assert_true(pack_sample_due(&sample));
    see(part(500), 100);
    assert_true(pack_sample_due(&sample));
    pack_sample_taken(&sample);
    see(part(500), 49);
    assert_false(pack_sample_due(&sample));
    see(part(500), 1);
    assert_true(pack_sample_due(&sample));
    see(part(500), 9850);
    pack_sample_taken(&sample);
    see(part(300), 500); /* less than 5 % of all */
    see(part(500), 499);
    assert_false(pack_sample_due(&sample));
    see(part(300), 1);
    assert_true(pack_sample_due(&sample));
}

/* A mix that moves far is learned before there are enough pods; it is looked at every sixteen. */
static void test_due_soon(void **state)
{
    (void)state;
    see(part(500), 2000);
    pack_sample_taken(&sample);
    see(part(300), 112);
    assert_true(pack_sample_drift(&sample) > 0.05);
    assert_true(pack_sample_due(&sample));
    pack_sample_taken(&sample);
    see(part(300), 100);
    assert_false(pack_sample_due(&sample)); /* 4 % */
    see(part(300), 15);
    assert_false(pack_sample_due(&sample)); /* too soon after the last look */
    see(part(300), 60);
    assert_true(pack_sample_due(&sample));
}

/* A mix that stays as it is is not learned again. */
static void test_no_drift(void **state)
{
    (void)state;
    see(part(500), 500);
    see(part(300), 500);
    pack_sample_taken(&sample);
    assert_near(pack_sample_drift(&sample), 0);
    see(part(500), 250);
    see(part(300), 250);
    assert_near(pack_sample_drift(&sample), 0);
    assert_false(pack_sample_due(&sample));
    see(part(300), 1500);
    assert_near(pack_sample_drift(&sample), 2.0 / 3 - 0.5 + 1.0 / 12); /* 750 : 2250 */
    assert_true(pack_sample_due(&sample));
}

/* Old pods count less: what is asked for now has most of the weight. */
static void test_ageing(void **state)
{
    (void)state;
    struct pack_mix mix;
    see(part(500), 20000);
    see(part(300), 20000);
    pack_sample_mix(&sample, 0, demands, &mix);
    assert_int_equal(mix.count, 2);
    assert_true(demands[1].weight > 1.5 * demands[0].weight);
    assert_int_equal(sample.pods, 40000);
}

/* More kinds of requests than there is room for: those seen once go, else the new one is left out. */
static void test_full(void **state)
{
    (void)state;
    struct pack_mix mix;
    struct pack_seen seen = part(500);
    see(seen, 10);
    for (int i = 1; i < 3 * PACK_SAMPLE_MAX; i++) {
        seen.pod.cpu_milli = 4000 + i;
        see(seen, 1);
    }
    assert_true(sample.count <= PACK_SAMPLE_MAX);
    assert_int_equal(sample.left_out, 0);
    pack_sample_mix(&sample, 0, demands, &mix);
    assert_int_equal(demands[0].pod.cpu_milli, 4000);

    pack_sample_init(&sample);
    for (int i = 0; i < PACK_SAMPLE_MAX + 5; i++) {
        seen.pod.cpu_milli = 4000 + i;
        see(seen, 8);
    }
    assert_int_equal(sample.count, PACK_SAMPLE_MAX);
    assert_int_equal(sample.left_out, 5 * 8);
    pack_sample_mix(&sample, 0, demands, &mix);
    for (uint32_t i = 0; i < mix.count; i++)
        assert_near(demands[i].weight, 8);
}

/* Bytes are a part of a usual card, and a whole one if that is not known. */
static void test_bytes(void **state)
{
    (void)state;
    struct pack_mix mix;
    struct pack_seen seen = part(100);
    seen.bytes = 300;
    see(seen, 1);
    pack_sample_mix(&sample, 1000, demands, &mix);
    assert_int_equal(demands[0].pod.milli, 300);
    pack_sample_mix(&sample, 999, demands, &mix);
    assert_int_equal(demands[0].pod.milli, 300); /* as much as 300 of 999 that are free */
    demands[0].pod.milli = pack_milli_of_bytes(1, INT64_C(1) << 40);
    assert_int_equal(demands[0].pod.milli, 1);
    pack_sample_mix(&sample, 0, demands, &mix);
    assert_int_equal(demands[0].pod.milli, 1000);
    pack_sample_mix(&sample, 100000, demands, &mix);
    assert_int_equal(demands[0].pod.milli, 100); /* the compute asked for is more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_prior_fades, setup), cmocka_unit_test_setup(test_due, setup),
        cmocka_unit_test_setup(test_due_soon, setup),
        cmocka_unit_test_setup(test_no_drift, setup),    cmocka_unit_test_setup(test_ageing, setup),
        cmocka_unit_test_setup(test_full, setup),        cmocka_unit_test_setup(test_bytes, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
