/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/charge.h"
#include "node.h"

static struct node node;

/* Two 80Gi cards, minors 0 and 1, and a NIC. */
static int set_up(void **state)
{
    (void)state;
    node_init(&node);
    node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
    node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
    node_add(&node, DEVICE_RDMA, (struct amount){.percent = 100});
    return 0;
}

static struct share gpu(int32_t minor, int64_t percent, int64_t ratio, int64_t bytes)
{
    return (struct share){DEVICE_GPU, minor, {percent, ratio, bytes}, 0};
}

static enum charge_trust charge(const struct pod_request *request, const struct share *shares,
                                uint32_t count, struct plan *plan)
{
    memset(plan, 0xff, sizeof(*plan));
    enum charge_trust trust = charge_of(&node.cards, request, shares, count, 0, plan);
    assert_int_equal(plan->count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(plan->shares[i].kind, shares[i].kind);
        assert_int_equal(plan->shares[i].minor, shares[i].minor);
    }
    return trust;
}

/* One share against a request: what is it charged, and is it believed? */
static void assert_charge(const struct pod_request *request, struct share share,
                          enum charge_trust trust, struct amount expected)
{
    struct plan plan;
    assert_int_equal(charge(request, &share, 1, &plan), trust);
    assert_int_equal(plan.shares[0].amount.percent, expected.percent);
    assert_int_equal(plan.shares[0].amount.ratio, expected.ratio);
    assert_int_equal(plan.shares[0].amount.bytes, expected.bytes);
}

static void test_annotation_that_agrees(void **state)
{
    (void)state;
    struct pod_request half = ask(RESOURCE_GPU, 50, RESOURCE_MAX, 0);
    assert_charge(&half, gpu(1, 50, 50, 40 * GIB), CHARGE_TRUSTED,
                  (struct amount){50, 50, 40 * GIB});
    struct pod_request bytes = ask(RESOURCE_GPU_MEMORY, 8 * GIB, RESOURCE_MAX, 0);
    assert_charge(&bytes, gpu(0, 0, 10, 8 * GIB), CHARGE_TRUSTED, (struct amount){0, 10, 8 * GIB});
}

/* Koordinator leaves the derived figure out until Reserve; it comes from the card's present size.
 */
static void test_missing_figure_is_derived(void **state)
{
    (void)state;
    struct pod_request half = ask(RESOURCE_GPU, 50, RESOURCE_MAX, 0);
    assert_charge(&half, gpu(0, 50, 50, 0), CHARGE_TRUSTED, (struct amount){50, 50, 40 * GIB});
    node.total[0].bytes = 40 * GIB;
    assert_charge(&half, gpu(0, 50, 50, 0), CHARGE_TRUSTED, (struct amount){50, 50, 20 * GIB});
    struct pod_request bytes = ask(RESOURCE_GPU_MEMORY, 8 * GIB, RESOURCE_MAX, 0);
    assert_charge(&bytes, gpu(0, 0, 0, 8 * GIB), CHARGE_TRUSTED, (struct amount){0, 20, 8 * GIB});
}

/* 29 % of 25Gi in doubles is 28. */
static void test_ratio_one_below_is_believed(void **state)
{
    (void)state;
    node.total[0].bytes = 26843545600;
    struct pod_request bytes = ask(RESOURCE_GPU_MEMORY, 7784628224, RESOURCE_MAX, 0);
    assert_charge(&bytes, gpu(0, 0, 28, 7784628224), CHARGE_TRUSTED,
                  (struct amount){0, 28, 7784628224});
    assert_charge(&bytes, gpu(0, 0, 27, 7784628224), CHARGE_INCONSISTENT,
                  (struct amount){0, 29, 7784628224});
    /* but not for a ratio that the user named */
    struct pod_request ratio = ask(RESOURCE_GPU_MEMORY_RATIO, 29, RESOURCE_MAX, 0);
    assert_charge(&ratio, gpu(0, 0, 28, 7784628224), CHARGE_INCONSISTENT,
                  (struct amount){0, 29, 7784628224});
}

/* Whoever edits an annotation frees nothing: the larger counts, per dimension. */
static void test_the_larger_counts(void **state)
{
    (void)state;
    struct pod_request half = ask(RESOURCE_GPU, 50, RESOURCE_MAX, 0);
    assert_charge(&half, gpu(0, 1, 1, 1), CHARGE_INCONSISTENT, (struct amount){50, 50, 40 * GIB});
    assert_charge(&half, gpu(0, 60, 50, 40 * GIB), CHARGE_INCONSISTENT,
                  (struct amount){60, 50, 40 * GIB});
    assert_charge(&half, gpu(0, 40, 60, 0), CHARGE_INCONSISTENT, (struct amount){50, 60, 48 * GIB});
    assert_charge(&half, gpu(0, 0, 0, 0), CHARGE_INCONSISTENT, (struct amount){50, 50, 40 * GIB});
    assert_charge(&half, gpu(0, 50, 50, 39 * GIB), CHARGE_INCONSISTENT,
                  (struct amount){50, 50, 40 * GIB});
    struct pod_request memory = ask(RESOURCE_GPU_MEMORY, 8 * GIB, RESOURCE_MAX, 0);
    assert_charge(&memory, gpu(0, 5, 10, 8 * GIB), CHARGE_INCONSISTENT,
                  (struct amount){5, 10, 8 * GIB});
}

/* A card that is sick, gone or unknown cannot prove a derived figure wrong. */
static void test_card_without_size(void **state)
{
    (void)state;
    struct pod_request half = ask(RESOURCE_GPU, 50, RESOURCE_MAX, 0);
    struct pod_request bytes = ask(RESOURCE_GPU_MEMORY, 8 * GIB, RESOURCE_MAX, 0);
    node.total[0] = (struct amount){0};
    for (int32_t minor = 0; minor <= 9; minor += 9) { /* 9 is not there at all */
        assert_charge(&half, gpu(minor, 50, 50, 33 * GIB), CHARGE_TRUSTED,
                      (struct amount){50, 50, 33 * GIB});
        assert_charge(&half, gpu(minor, 50, 50, 0), CHARGE_TRUSTED, (struct amount){50, 50, 0});
        assert_charge(&half, gpu(minor, 50, 40, 33 * GIB), CHARGE_INCONSISTENT,
                      (struct amount){50, 50, 33 * GIB});
        assert_charge(&bytes, gpu(minor, 0, 77, 8 * GIB), CHARGE_TRUSTED,
                      (struct amount){0, 77, 8 * GIB});
        assert_charge(&bytes, gpu(minor, 0, 77, 7 * GIB), CHARGE_INCONSISTENT,
                      (struct amount){0, 77, 8 * GIB});
    }
    node.total[0] = gpu_of(0); /* states a ratio and no bytes */
    assert_charge(&bytes, gpu(0, 0, 77, 8 * GIB), CHARGE_TRUSTED, (struct amount){0, 77, 8 * GIB});
    assert_charge(&half, gpu(0, 50, 50, 33 * GIB), CHARGE_TRUSTED,
                  (struct amount){50, 50, 33 * GIB});
}

/* What the user named must stand in the annotation itself; the other figure does not stand in for
 * it. */
static void test_named_figure_is_missing(void **state)
{
    (void)state;
    struct pod_request bytes = ask(RESOURCE_GPU_MEMORY, 8 * GIB, RESOURCE_MAX, 0);
    struct pod_request ratio = ask(RESOURCE_GPU_MEMORY_RATIO, 10, RESOURCE_MAX, 0);
    assert_charge(&bytes, gpu(0, 0, 10, 0), CHARGE_INCONSISTENT, (struct amount){0, 10, 8 * GIB});
    assert_charge(&ratio, gpu(0, 0, 0, 8 * GIB), CHARGE_INCONSISTENT,
                  (struct amount){0, 10, 8 * GIB});
}

static void test_counts(void **state)
{
    (void)state;
    struct pod_request two = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0);
    struct pod_request mixed = ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_RDMA, 50);
    struct pod_request one = ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_MAX, 0), none = {0};
    struct share shares[] = {
        gpu(0, 100, 100, 80 * GIB), gpu(1, 100, 100, 80 * GIB), {DEVICE_RDMA, 0, {50, 0, 0}, 0}};
    struct plan plan;
    assert_int_equal(charge(&two, shares, 2, &plan), CHARGE_TRUSTED);
    assert_int_equal(charge(&two, shares, 1, &plan), CHARGE_UNKNOWN);
    assert_int_equal(plan.shares[0].amount.bytes, 80 * GIB);
    assert_int_equal(charge(&two, NULL, 0, &plan), CHARGE_UNKNOWN);
    assert_int_equal(charge(&mixed, shares + 1, 2, &plan), CHARGE_TRUSTED);
    assert_int_equal(charge(&mixed, shares, 2, &plan), CHARGE_UNKNOWN); /* no NIC named */
    assert_int_equal(charge(&one, shares, 2, &plan), CHARGE_INCONSISTENT);
    assert_int_equal(plan.shares[1].amount.percent, 100);
    assert_int_equal(charge(&one, shares + 1, 2, &plan), CHARGE_INCONSISTENT); /* a NIC unasked */
    assert_int_equal(plan.shares[1].amount.percent, 50);
    assert_int_equal(charge(&two, shares + 1, 2, &plan),
                     CHARGE_UNKNOWN); /* a card short, a NIC more */
    assert_int_equal(charge(&none, NULL, 0, &plan), CHARGE_TRUSTED);
    assert_int_equal(charge(&none, shares, 1, &plan), CHARGE_INCONSISTENT);
}

/* A cut annotation that also lies about the cards it names. */
static void test_unknown_takes_the_larger_too(void **state)
{
    (void)state;
    struct pod_request two = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0);
    assert_charge(&two, gpu(0, 1, 1, 0), CHARGE_UNKNOWN, (struct amount){100, 100, 80 * GIB});
}

static void test_invalid_request_says_nothing(void **state)
{
    (void)state;
    struct plan plan;
    assert_charge(NULL, gpu(0, 10, 20, 0), CHARGE_INCONSISTENT, (struct amount){10, 20, 16 * GIB});
    assert_charge(NULL, gpu(0, 10, 0, 8 * GIB), CHARGE_INCONSISTENT,
                  (struct amount){10, 10, 8 * GIB});
    assert_charge(NULL, gpu(0, 10, 3, 8 * GIB), CHARGE_INCONSISTENT,
                  (struct amount){10, 3, 8 * GIB});
    assert_charge(NULL, gpu(9, 10, 20, 0), CHARGE_INCONSISTENT, (struct amount){10, 20, 0});
    assert_int_equal(charge(NULL, NULL, 0, &plan), CHARGE_UNKNOWN);
}

/* No charge is past the bounds, so the sums over any number of pods stay in int64. */
static void test_bounds(void **state)
{
    (void)state;
    struct pod_request huge = ask(RESOURCE_GPU_MEMORY, INT64_MAX, RESOURCE_MAX, 0);
    assert_charge(
        &huge, gpu(0, 0, 0, 1), CHARGE_INCONSISTENT,
        (struct amount){0, memory_bytes_to_ratio(CARD_BYTES_MAX, 80 * GIB), CARD_BYTES_MAX});
    huge = ask(RESOURCE_GPU_CORE, INT64_MAX / 100 * 100, RESOURCE_GPU_MEMORY, 1);
    node.total[0].bytes = 1;
    assert_charge(&huge, gpu(0, 0, 0, CARD_BYTES_MAX), CHARGE_INCONSISTENT,
                  (struct amount){CARD_PERCENT_MAX, CARD_PERCENT_MAX, CARD_BYTES_MAX});
    assert_charge(NULL, gpu(0, 0, CARD_PERCENT_MAX, 0), CHARGE_INCONSISTENT,
                  (struct amount){0, CARD_PERCENT_MAX, CARD_PERCENT_MAX / 100});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_annotation_that_agrees, set_up),
        cmocka_unit_test_setup(test_missing_figure_is_derived, set_up),
        cmocka_unit_test_setup(test_ratio_one_below_is_believed, set_up),
        cmocka_unit_test_setup(test_the_larger_counts, set_up),
        cmocka_unit_test_setup(test_card_without_size, set_up),
        cmocka_unit_test_setup(test_named_figure_is_missing, set_up),
        cmocka_unit_test_setup(test_counts, set_up),
        cmocka_unit_test_setup(test_unknown_takes_the_larger_too, set_up),
        cmocka_unit_test_setup(test_invalid_request_says_nothing, set_up),
        cmocka_unit_test_setup(test_bounds, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
