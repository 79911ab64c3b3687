/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/policy.h"
#include "core/score.h"
#include "node.h"

static struct node node;

/* Koordinator's scores of one card: half of it wanted while it is idle, full and half used. */
static void test_card_scores(void **state)
{
    (void)state;
    const int64_t *weight = score_default_weights.weight[DEVICE_GPU];
    const struct amount total = {.ratio = 100};
    const struct amount all = {.ratio = 100}, half = {.ratio = 50}, none = {0};
    const struct amount wants50 = {.ratio = 50}, wants30 = {.ratio = 30};
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, weight, &wants50, &total, &all), 50);
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, weight, &wants50, &total, &none), 0);
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, weight, &wants30, &total, &half), 20);
    assert_int_equal(score_amounts(SCORE_MOST_ALLOCATED, weight, &wants30, &total, &half), 80);
    assert_int_equal(score_amounts(SCORE_MOST_ALLOCATED, weight, &wants50, &total, &none), 100);
    /* more free than there is counts as nothing free */
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, weight, &wants30, &half, &all), 0);
    assert_int_equal(score_amounts(SCORE_MOST_ALLOCATED, weight, &wants30, &half, &all), 100);
}

static void test_weights(void **state)
{
    (void)state;
    const struct amount total = gpu_of(80 * GIB), wants = {.percent = 80, .ratio = 20};
    const int64_t core_only[DIM_MAX] = {1, 0, 0}, mixed[DIM_MAX] = {3, 1, 0}, zero[DIM_MAX] = {0};
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, core_only, &wants, &total, &total), 20);
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, mixed, &wants, &total, &total), 35);
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, zero, &wants, &total, &total), 0);
    /* a dimension without total is left out, its weight too */
    const struct amount no_core = {.ratio = 100};
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, mixed, &wants, &no_core, &no_core), 80);
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, mixed, &wants, &(struct amount){0},
                                   &(struct amount){0}),
                     0);
}

static void test_score_of_absurd_requests(void **state)
{
    (void)state;
    const struct amount total = {100000, 100000, CARD_BYTES_MAX * CARDS_PER_NODE_MAX};
    const struct amount wants = {INT64_MAX, INT64_MAX, INT64_MAX};
    const int64_t weight[DIM_MAX] = {1, 1, 1};
    assert_int_equal(score_amounts(SCORE_LEAST_ALLOCATED, weight, &wants, &total, &total), 0);
    assert_int_equal(score_amounts(SCORE_MOST_ALLOCATED, weight, &wants, &total, &total), 100);
}

static void idle_node(int cards)
{
    node_init(&node);
    for (int i = 0; i < cards; i++)
        node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
}

static int64_t coarse(int64_t score)
{
    score_coarsen(&score, 1);
    return score;
}

static int64_t least(struct pod_request request)
{
    return coarse(node_policy_spread.score(&node.cards, &request));
}

static int64_t most(struct pod_request request)
{
    return coarse(node_policy_binpack.score(&node.cards, &request));
}

/* Nodes are ranked by more than is told: of eight cards a hundredth of one is an eighth of a percent. */
static void test_a_hundredth_of_a_card_counts(void **state)
{
    (void)state;
    struct pod_request request = ask(RESOURCE_GPU, 1, RESOURCE_MAX, 0);
    idle_node(8);
    int64_t spread = node_policy_spread.score(&node.cards, &request);
    int64_t binpack = node_policy_binpack.score(&node.cards, &request);
    for (int i = 0; i < 100; i++) {
        node_use(&node, i % 8, (struct amount){1, 1, 80 * GIB / 100});
        assert_true(node_policy_spread.score(&node.cards, &request) < spread);
        assert_true(node_policy_binpack.score(&node.cards, &request) > binpack);
        spread = node_policy_spread.score(&node.cards, &request);
        binpack = node_policy_binpack.score(&node.cards, &request);
    }
}

/* Koordinator's examples: the amount of one card is scored, however many cards are wanted. */
static void test_node_scores(void **state)
{
    (void)state;
    idle_node(1);
    assert_int_equal(least(ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_MAX, 0)), 50);
    assert_int_equal(least(ask(RESOURCE_GPU_MEMORY, 40 * GIB, RESOURCE_MAX, 0)), 75);
    assert_int_equal(least(ask(RESOURCE_GPU_MEMORY_RATIO, 50, RESOURCE_MAX, 0)), 75);
    idle_node(2);
    assert_int_equal(least(ask(RESOURCE_GPU, 50, RESOURCE_MAX, 0)), 87);
    idle_node(8);
    assert_int_equal(least(ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_MAX, 0)), 93);
    assert_int_equal(least(ask(RESOURCE_NVIDIA_GPU, 8, RESOURCE_MAX, 0)), 93);
    assert_int_equal(most(ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_MAX, 0)), 6);

    node_init(&node);
    node_use(&node, node_add(&node, DEVICE_GPU, gpu_of(16 * GIB)),
             (struct amount){25, 25, 4 * GIB});
    assert_int_equal(least(ask(RESOURCE_GPU_CORE, 50, RESOURCE_GPU_MEMORY, 8 * GIB)), 50);
    assert_int_equal(most(ask(RESOURCE_GPU, 50, RESOURCE_MAX, 0)), 50);
}

/* Kinds add up; unhealthy and unlisted cards count for nothing; other kinds neither. */
static void test_node_score_of_kinds(void **state)
{
    (void)state;
    node_init(&node);
    node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
    node_add(&node, DEVICE_GPU, (struct amount){0});
    uint32_t gone = node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
    node.registered[gone] = false;
    cards_refresh(&node.columns, gone);
    node_add(&node, DEVICE_RDMA, (struct amount){.percent = 100});
    assert_int_equal(least(ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_MAX, 0)), 50);
    assert_int_equal(least(ask(RESOURCE_RDMA, 40, RESOURCE_MAX, 0)), 60);
    assert_int_equal(least(ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_RDMA, 40)), 110);
    assert_int_equal(least(ask(RESOURCE_FPGA, 40, RESOURCE_MAX, 0)), 0);
    assert_int_equal(node_policy_none.score(&node.cards, &(struct pod_request){0}), 0);
}

static void test_normalize(void **state)
{
    (void)state;
    int64_t scores[] = {200, 10, 0, 199}, zero[] = {0, 0};
    score_normalize(scores, 4);
    assert_int_equal(scores[0], 100);
    assert_int_equal(scores[1], 5);
    assert_int_equal(scores[2], 0);
    assert_int_equal(scores[3], 99);
    score_normalize(zero, 2);
    assert_int_equal(zero[0], 0);
    score_normalize(NULL, 0);
}

static void test_stretch(void **state)
{
    (void)state;
    int64_t scores[] = {87, 100, 93, 94}, equal[] = {42, 42}, half[] = {0, 5, 100, 4};
    score_stretch(scores, 4); /* 0, 10, 10 * 6 / 13 = 4.6, 10 * 7 / 13 = 5.4 */
    assert_int_equal(scores[0], 0);
    assert_int_equal(scores[1], 10);
    assert_int_equal(scores[2], 5);
    assert_int_equal(scores[3], 5);
    score_stretch(equal, 2);
    assert_int_equal(equal[0], 10);
    assert_int_equal(equal[1], 10);
    score_stretch(half, 4);
    assert_int_equal(half[1], 1); /* half rounds up */
    assert_int_equal(half[3], 0);
    score_stretch(NULL, 0);
}

/* Many nodes score alike, in any order. */
static void test_equal_scores_stay_equal(void **state)
{
    (void)state;
    int64_t scores[] = {0, 0, 200, 200, 10, 200, 10, 10, 0};
    static const int64_t normal[] = {0, 0, 100, 100, 5, 100, 5, 5, 0};
    static const int64_t wire[] = {0, 0, 10, 10, 1, 10, 1, 1, 0};
    score_normalize(scores, 9);
    for (int i = 0; i < 9; i++)
        assert_int_equal(scores[i], normal[i]);
    score_stretch(scores, 9);
    for (int i = 0; i < 9; i++)
        assert_int_equal(scores[i], wire[i]);
}

/* ---- policies ---- */

/* Each name of the lists is found, and finds the policy of that name. */
static void test_policy_names(void **state)
{
    (void)state;
    char names[64];
    strcpy(names, device_policy_names());
    for (char *name = strtok(names, "|"); name; name = strtok(NULL, "|"))
        assert_string_equal(device_policy_find(str_from(name))->name, name);
    strcpy(names, node_policy_names());
    for (char *name = strtok(names, "|"); name; name = strtok(NULL, "|"))
        assert_string_equal(node_policy_find(str_from(name))->name, name);
    assert_string_equal(device_policy_names(), "default|binpack|spread|pack");
    assert_string_equal(node_policy_names(), "binpack|spread|pack|none");
    assert_ptr_equal(device_policy_find(STR("LeastAllocated")), &device_policy_spread);
    assert_ptr_equal(device_policy_find(STR("MostAllocated")), &device_policy_binpack);
    assert_ptr_equal(node_policy_find(STR("LeastAllocated")), &node_policy_spread);
    assert_ptr_equal(node_policy_find(STR("MostAllocated")), &node_policy_binpack);
    assert_null(device_policy_find(STR("none")));
    assert_null(device_policy_find(STR("Binpack")));
    assert_null(node_policy_find(STR("default")));
    assert_null(node_policy_find(STR("")));
}

static int compare(struct amount total_a, struct amount used_a, struct amount total_b,
                   struct amount used_b)
{
    node_init(&node);
    node_use(&node, node_add(&node, DEVICE_GPU, total_a), used_a);
    node_use(&node, node_add(&node, DEVICE_GPU, total_b), used_b);
    int r = card_fullness_compare(&node.cards, DEVICE_GPU, 0, 1);
    int back = card_fullness_compare(&node.cards, DEVICE_GPU, 1, 0);
    assert_int_equal(r > 0, back < 0);
    assert_int_equal(r<0, back> 0);
    return r;
}

static void test_fullness(void **state)
{
    (void)state;
    const struct amount big = gpu_of(80 * GIB), small = gpu_of(40 * GIB), no_bytes = gpu_of(0);
    const struct amount nic = {.percent = 100}, none = {0};
    /* percent of its own memory, not bytes */
    assert_true(compare(big, (struct amount){.bytes = 30 * GIB}, small,
                        (struct amount){.bytes = 20 * GIB}) < 0);
    assert_true(compare(big, (struct amount){.bytes = 40 * GIB}, small,
                        (struct amount){.bytes = 20 * GIB}) == 0);
    /* one byte decides; the ratio, which rounds, does not */
    assert_true(compare(big, (struct amount){.bytes = 40 * GIB + 1}, big,
                        (struct amount){.ratio = 99, .bytes = 40 * GIB}) > 0);
    /* then core */
    assert_true(compare(big, (struct amount){10, 50, 40 * GIB}, small,
                        (struct amount){20, 50, 20 * GIB}) < 0);
    /* by ratio where the size is unknown */
    assert_true(compare(no_bytes, (struct amount){.ratio = 51}, big,
                        (struct amount){.bytes = 40 * GIB}) > 0);
    assert_true(compare(no_bytes, (struct amount){.ratio = 50}, big,
                        (struct amount){.bytes = 40 * GIB}) == 0);
    assert_true(compare(nic, (struct amount){.percent = 30}, nic, (struct amount){.percent = 31}) <
                0);
    assert_true(compare(none, none, none, none) == 0);
    /* the largest figures: products are past 64 bits */
    const struct amount max = {CARD_PERCENT_MAX, CARD_PERCENT_MAX, CARD_BYTES_MAX};
    assert_true(compare(max, (struct amount){.bytes = CARD_BYTES_MAX}, max,
                        (struct amount){.bytes = CARD_BYTES_MAX - 1}) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_card_scores),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_score_of_absurd_requests),
        cmocka_unit_test(test_node_scores),
        cmocka_unit_test(test_a_hundredth_of_a_card_counts),
        cmocka_unit_test(test_node_score_of_kinds),
        cmocka_unit_test(test_normalize),
        cmocka_unit_test(test_stretch),
        cmocka_unit_test(test_equal_scores_stay_equal),
        cmocka_unit_test(test_policy_names),
        cmocka_unit_test(test_fullness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
