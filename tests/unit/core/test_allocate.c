/* SPDX-License-Identifier: Apache-2.0 */
/* What tables cannot say; the cases are in placement.case and verdict.case of tests/cases/core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/allocate.h"
#include "node.h"

static struct node node;

static void gpus(int count)
{
    node_init(&node);
    for (int i = 0; i < count; i++)
        node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
}

static enum reason choose(struct pod_request request, struct plan *plan)
{
    return allocate_choose(&node.cards, &request, &device_policy_default, plan);
}

static void test_plan_of_two_kinds(void **state)
{
    (void)state;
    gpus(2);
    node_add(&node, DEVICE_RDMA, (struct amount){.percent = 100});
    node_use(&node, 0, (struct amount){1, 1, GIB});
    struct plan plan;
    assert_int_equal(choose(ask(RESOURCE_GPU_MEMORY_RATIO, 100, RESOURCE_RDMA, 30), &plan),
                     REASON_FITS);
    assert_int_equal(plan.count, 2);
    assert_int_equal(plan.shares[0].kind, DEVICE_GPU);
    assert_int_equal(plan.shares[0].minor, 1);
    assert_int_equal(plan.shares[0].amount.percent, 0);
    assert_int_equal(plan.shares[0].amount.ratio, 100);
    assert_int_equal(plan.shares[0].amount.bytes, 80 * GIB);
    assert_int_equal(plan.shares[1].kind, DEVICE_RDMA);
    assert_int_equal(plan.shares[1].amount.percent, 30);
    assert_int_equal(plan.shares[1].amount.bytes, 0);
}

static void test_refusal_leaves_the_plan(void **state)
{
    (void)state;
    gpus(1);
    struct plan plan = {.count = 77};
    assert_int_equal(choose(ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0), &plan),
                     REASON_INSUFFICIENT_GPU);
    assert_int_equal(choose(ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_RDMA, 1), &plan), REASON_NO_RDMA);
    assert_int_equal(plan.count, 77);
}

/* More cards than the node has is "not now" for the plain check, as in Koordinator; only the
 * verdict for kube-scheduler knows that waiting is in vain. */
static void test_check_and_verdict(void **state)
{
    (void)state;
    gpus(2);
    struct pod_request three = ask(RESOURCE_NVIDIA_GPU, 3, RESOURCE_MAX, 0);
    struct pod_request two = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0);
    assert_int_equal(allocate_check(&node.cards, &three), REASON_INSUFFICIENT_GPU);
    assert_false(allocate_fits_empty(&node.cards, &three));
    assert_int_equal(allocate_verdict(&node.cards, &three), REASON_TOO_BIG);
    node_use(&node, 0, (struct amount){1, 1, GIB});
    assert_int_equal(allocate_check(&node.cards, &two), REASON_INSUFFICIENT_GPU);
    assert_true(allocate_fits_empty(&node.cards, &two));
    assert_int_equal(allocate_verdict(&node.cards, &two), REASON_INSUFFICIENT_GPU);
}

/* No pod gets more cards than a plan holds, all kinds together. */
static void test_plan_limit(void **state)
{
    (void)state;
    gpus(CARDS_PER_POD_MAX + 1);
    node_add(&node, DEVICE_RDMA, (struct amount){.percent = 100});
    struct plan plan;
    struct pod_request full = ask(RESOURCE_NVIDIA_GPU, CARDS_PER_POD_MAX, RESOURCE_MAX, 0);
    assert_int_equal(choose(full, &plan), REASON_FITS);
    assert_int_equal(plan.count, CARDS_PER_POD_MAX);

    struct pod_request more = ask(RESOURCE_NVIDIA_GPU, CARDS_PER_POD_MAX + 1, RESOURCE_MAX, 0);
    struct pod_request both = ask(RESOURCE_NVIDIA_GPU, CARDS_PER_POD_MAX, RESOURCE_RDMA, 1);
    char text[200];
    assert_int_equal(choose(more, &plan), REASON_INSUFFICIENT_GPU);
    assert_int_equal(allocate_verdict(&node.cards, &more), REASON_TOO_BIG);
    allocate_explain(&node.cards, &more, text, sizeof(text));
    assert_string_equal(text, "gpu: 65 whole cards wanted, at most 64 devices for one pod");
    assert_int_equal(choose(both, &plan), REASON_INSUFFICIENT_RDMA);
    assert_int_equal(allocate_verdict(&node.cards, &both), REASON_TOO_BIG);
    allocate_explain(&node.cards, &both, text, sizeof(text));
    assert_string_equal(text, "rdma: 1 card wanted, at most 64 devices for one pod");
}

static void test_largest_node(void **state)
{
    (void)state;
    gpus(CARDS_PER_NODE_MAX);
    struct plan plan;
    for (uint32_t row = 0; row < CARDS_PER_NODE_MAX - 2; row++)
        node_use(&node, row, (struct amount){60, 60, 48 * GIB});
    assert_int_equal(choose(ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0), &plan), REASON_FITS);
    assert_int_equal(plan.shares[0].minor, CARDS_PER_NODE_MAX - 2);
    assert_int_equal(plan.shares[1].minor, CARDS_PER_NODE_MAX - 1);
}

/* The cards of a node are a window: its neighbours' rows are not looked at. */
static void test_window(void **state)
{
    (void)state;
    gpus(6);
    node_use(&node, 2, (struct amount){1, 1, GIB});
    struct cards window = {.at = &node.columns, .first = 2, .count = {[DEVICE_GPU] = 2}};
    struct pod_request two = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0);
    struct pod_request one = ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_MAX, 0);
    struct plan plan;
    assert_int_equal(allocate_check(&window, &two), REASON_INSUFFICIENT_GPU);
    assert_int_equal(allocate_choose(&window, &one, &device_policy_binpack, &plan), REASON_FITS);
    assert_int_equal(plan.shares[0].minor, 3);
    window.count[DEVICE_GPU] = 0;
    window.count[DEVICE_RDMA] = 2;
    assert_int_equal(allocate_check(&window, &one), REASON_NO_GPU);
}

/* Nothing asked for: fits anywhere, takes nothing. */
static void test_nothing_wanted(void **state)
{
    (void)state;
    node_init(&node);
    struct plan plan = {.count = 1};
    assert_int_equal(choose((struct pod_request){0}, &plan), REASON_FITS);
    assert_int_equal(plan.count, 0);
}

static void test_explanation_is_cut(void **state)
{
    (void)state;
    gpus(CARDS_PER_NODE_MAX);
    char text[60];
    for (uint32_t row = 0; row < CARDS_PER_NODE_MAX; row++)
        node_use(&node, row, (struct amount){60, 60, 48 * GIB});
    struct pod_request half = ask(RESOURCE_GPU_CORE, 50, RESOURCE_GPU_MEMORY, GIB);
    assert_int_equal(allocate_explain(&node.cards, &half, text, sizeof(text)), sizeof(text) - 1);
    assert_string_equal(text, "gpu: 1 card wanted, 0 of 256 fit; gpu 0: 50% core wanted...");
}

/* Figures at the bounds on both sides (UBSan watches the products). */
static void test_bounds(void **state)
{
    (void)state;
    struct plan plan;
    node_init(&node);
    node_add(&node, DEVICE_GPU,
             (struct amount){CARD_PERCENT_MAX, CARD_PERCENT_MAX, CARD_BYTES_MAX});
    assert_int_equal(choose(ask(RESOURCE_GPU_MEMORY, CARD_BYTES_MAX, RESOURCE_MAX, 0), &plan),
                     REASON_FITS);
    assert_int_equal(plan.shares[0].amount.bytes, CARD_BYTES_MAX);
    assert_int_equal(choose(ask(RESOURCE_GPU_MEMORY, CARD_BYTES_MAX + 1, RESOURCE_MAX, 0), &plan),
                     REASON_INSUFFICIENT_GPU);
    assert_int_equal(choose(ask(RESOURCE_GPU_MEMORY, INT64_MAX, RESOURCE_MAX, 0), &plan),
                     REASON_INSUFFICIENT_GPU);
    struct pod_request core = ask(RESOURCE_GPU_CORE, CARD_PERCENT_MAX, RESOURCE_GPU_MEMORY, 1);
    assert_int_equal(choose(core, &plan), REASON_FITS);
    core.of[DEVICE_GPU].each.percent = CARD_PERCENT_MAX + 1;
    assert_int_equal(choose(core, &plan), REASON_INSUFFICIENT_GPU);
    core.of[DEVICE_GPU].each.percent = INT64_MAX;
    assert_int_equal(choose(core, &plan), REASON_INSUFFICIENT_GPU);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_of_two_kinds),
        cmocka_unit_test(test_refusal_leaves_the_plan),
        cmocka_unit_test(test_check_and_verdict),
        cmocka_unit_test(test_plan_limit),
        cmocka_unit_test(test_largest_node),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_nothing_wanted),
        cmocka_unit_test(test_explanation_is_cut),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
