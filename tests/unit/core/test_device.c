/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node.h"

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(device_kind_name(DEVICE_GPU), "gpu");
    assert_int_equal(device_kind_find(STR("rdma")), DEVICE_RDMA);
    assert_int_equal(device_kind_find(STR("fpga")), DEVICE_FPGA);
    assert_int_equal(device_kind_find(STR("xpu")), DEVICE_KIND_MAX);
    assert_int_equal(device_kind_find(STR("gp")), DEVICE_KIND_MAX);
    assert_string_equal(device_dimension_name(DEVICE_GPU, DIM_PERCENT), "koordinator.sh/gpu-core");
    assert_string_equal(device_dimension_name(DEVICE_GPU, DIM_BYTES), "koordinator.sh/gpu-memory");
    assert_string_equal(device_dimension_name(DEVICE_RDMA, DIM_PERCENT), "koordinator.sh/rdma");
    assert_null(device_dimension_name(DEVICE_RDMA, DIM_BYTES));
    assert_null(device_dimension_name(DEVICE_FPGA, DIM_RATIO));
}

static void test_dimensions_by_name(void **state)
{
    (void)state;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
            const char *name = device_dimension_name(kind, dim);
            if (name == NULL)
                continue;
            char old[64] = "kubernetes.io";
            strcat(old, strchr(name, '/'));
            assert_int_equal(device_dimension_find(kind, str_from(name)), dim);
            assert_int_equal(device_dimension_find(kind, str_from(old)), dim);
        }
    }
    assert_int_equal(device_dimension_find(DEVICE_GPU, STR("koordinator.sh/rdma")), DIM_MAX);
    assert_int_equal(device_dimension_find(DEVICE_RDMA, STR("koordinator.sh/gpu-core")), DIM_MAX);
    assert_int_equal(device_dimension_find(DEVICE_GPU, STR("gpu-core")), DIM_MAX);
    assert_int_equal(device_dimension_find(DEVICE_RDMA, (struct str){0}), DIM_MAX);
}

static void test_rows(void **state)
{
    (void)state;
    static struct node node;
    node_init(&node);
    node_add(&node, DEVICE_GPU, gpu_of(GIB));
    node_add(&node, DEVICE_GPU, gpu_of(GIB));
    node_add(&node, DEVICE_FPGA, (struct amount){.percent = 100});
    node.minor[1] = 7;
    assert_int_equal(cards_begin(&node.cards, DEVICE_GPU), 0);
    assert_int_equal(cards_begin(&node.cards, DEVICE_RDMA), 2);
    assert_int_equal(cards_begin(&node.cards, DEVICE_FPGA), 2);
    assert_int_equal(cards_find(&node.cards, DEVICE_GPU, 7), 1);
    assert_int_equal(cards_find(&node.cards, DEVICE_GPU, 1), UINT32_MAX);
    assert_int_equal(cards_find(&node.cards, DEVICE_RDMA, 0), UINT32_MAX);
    assert_int_equal(cards_find(&node.cards, DEVICE_FPGA, 0), 2);

    /* a window further down the columns */
    node.cards.first = 1;
    node.cards.count[DEVICE_GPU] = 1;
    assert_int_equal(cards_find(&node.cards, DEVICE_GPU, 0), UINT32_MAX);
    assert_int_equal(cards_find(&node.cards, DEVICE_GPU, 7), 1);
    assert_int_equal(cards_find(&node.cards, DEVICE_FPGA, 0), 2);
}

static void test_has_and_free(void **state)
{
    (void)state;
    static struct node node;
    node_init(&node);
    uint32_t row = node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
    assert_int_equal(node.has[row], DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO) | DIM_BIT(DIM_BYTES));
    node_use(&node, row, (struct amount){30, 20, 16 * GIB});
    assert_int_equal(node.free_percent[row], 70);
    assert_int_equal(node.free_ratio[row], 80);
    assert_int_equal(node.free_bytes[row], 64 * GIB);
    assert_int_equal(node.total_bytes[row], 80 * GIB);

    /* it shrinks below what is used: the booking stays, what is left of the rest may be given */
    node.total[row] = (struct amount){20, 100, 10 * GIB};
    cards_refresh(&node.columns, row);
    assert_false(cards_given_twice(&node.columns, row));
    assert_int_equal(node.free_percent[row], 0);
    assert_int_equal(node.free_ratio[row], 80);
    assert_int_equal(node.free_bytes[row], 0);
    assert_int_equal(node.used[row].bytes, 16 * GIB);

    /* more than one pod has too much: nothing is free, of no dimension */
    node_use(&node, row, (struct amount){0, 1, 0});
    assert_true(cards_given_twice(&node.columns, row));
    assert_int_equal(node.free_ratio[row], 0);
    assert_int_not_equal(node.has[row], 0);
    cards_charge(&node.columns, row, &(struct amount){0, 1, 0}, 1, -1);
    assert_int_equal(node.free_ratio[row], 80);

    /* it is not listed any more */
    node.registered[row] = false;
    cards_refresh(&node.columns, row);
    assert_int_equal(node.has[row], 0);
    assert_false(cards_given_twice(&node.columns, row));
    assert_int_equal(node.free_ratio[row], 0);
    assert_int_equal(node.total_bytes[row], 0);

    /* it is listed again and unhealthy, then well */
    node.registered[row] = true;
    node.total[row] = (struct amount){0};
    cards_refresh(&node.columns, row);
    assert_int_equal(node.has[row], 0);
    node.total[row] = gpu_of(80 * GIB);
    cards_refresh(&node.columns, row);
    assert_int_equal(node.free_bytes[row], 64 * GIB);
}

static void test_charge_and_give_back(void **state)
{
    (void)state;
    static struct node node, before;
    node_init(&node);
    node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
    memcpy(&before, &node, sizeof(node));
    const struct amount a = {10, 12, 10 * GIB}, b = {90, 100, 90 * GIB}, nothing = {0};
    cards_charge(&node.columns, 0, &a, 1, 1);
    cards_charge(&node.columns, 0, &b, 1, 1);
    cards_charge(&node.columns, 0, &nothing, 1, 1);
    assert_int_equal(node.pods[0], 3);
    assert_int_equal(node.used[0].ratio, 112);
    assert_int_equal(node.free_ratio[0], 0);
    cards_charge(&node.columns, 0, &a, 1, -1);
    cards_charge(&node.columns, 0, &nothing, 1, -1);
    cards_charge(&node.columns, 0, &b, 1, -1);
    assert_memory_equal(&node, &before, sizeof(node));
}

/* Whoever may write pods may put many on one card, each as large as an annotation can be. */
static void test_as_many_pods_as_there_can_be(void **state)
{
    (void)state;
    static struct node node;
    const struct amount most = {CARD_PERCENT_MAX, CARD_PERCENT_MAX, CARD_BYTES_MAX};
    node_init(&node);
    node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
    for (uint32_t i = 0; i < PODS_PER_CARD_MAX; i++)
        cards_charge(&node.columns, 0, &most, 1, 1);
    assert_int_equal(node.used[0].bytes, PODS_PER_CARD_MAX * CARD_BYTES_MAX);
    assert_int_equal(node.free_bytes[0], 0);
    assert_int_equal(node.free_percent[0], 0);
}

/* Both ways round down, exactly; the figures are Koordinator's but for the last three, where its
 * double arithmetic is one lower. */
static void test_memory_conversion(void **state)
{
    (void)state;
    assert_int_equal(memory_ratio_to_bytes(50, 64 * GIB), 32 * GIB);
    assert_int_equal(memory_ratio_to_bytes(50, 48305799168), 24152899584);
    assert_int_equal(memory_ratio_to_bytes(33, 17179869184), 5669356830);
    assert_int_equal(memory_ratio_to_bytes(1, 15843721216), 158437212);
    assert_int_equal(memory_ratio_to_bytes(100, 85198045184), 85198045184);
    assert_int_equal(memory_ratio_to_bytes(50, 0), 0);
    assert_int_equal(memory_bytes_to_ratio(32 * GIB, 64 * GIB), 50);
    assert_int_equal(memory_bytes_to_ratio(GIB / 2, 80 * GIB), 0);
    assert_int_equal(memory_bytes_to_ratio(5726623061, 17179869184), 33);
    assert_int_equal(memory_bytes_to_ratio(21474836480, 17179869184), 125);
    assert_int_equal(memory_bytes_to_ratio(1, 0), 0);
    assert_int_equal(memory_bytes_to_ratio(7784628224, 26843545600), 29);
    assert_int_equal(memory_bytes_to_ratio(15300820992, 26843545600), 57);
    assert_int_equal(memory_bytes_to_ratio(15569256448, 26843545600), 58);
}

/* The largest figures that are let in stay in int64 (UBSan watches). */
static void test_bounds(void **state)
{
    (void)state;
    assert_int_equal(memory_ratio_to_bytes(CARD_PERCENT_MAX, CARD_BYTES_MAX),
                     CARD_BYTES_MAX / 100 * CARD_PERCENT_MAX +
                         CARD_BYTES_MAX % 100 * CARD_PERCENT_MAX / 100);
    assert_int_equal(memory_bytes_to_ratio(CARD_BYTES_MAX, 1), CARD_BYTES_MAX * 100);
    assert_int_equal(memory_bytes_to_ratio(CARD_BYTES_MAX, CARD_BYTES_MAX), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_dimensions_by_name),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_has_and_free),
        cmocka_unit_test(test_charge_and_give_back),
        cmocka_unit_test(test_as_many_pods_as_there_can_be),
        cmocka_unit_test(test_memory_conversion),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
