/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/allocate.h"
#include "core/links.h"
#include "node.h"

#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))
#define ROUNDS          20000
#define CARDS           10 /* of a random node: all sets of them are tried */

/* ---- cases ---- */

/* Eight cards: four switches with two cards each, two NUMA nodes. */
static const struct link_group two_by_four[] = {
    {LINK_NUMA, 0x0f}, {LINK_NUMA, 0xf0}, {LINK_PCIE, 0x03},
    {LINK_PCIE, 0x0c}, {LINK_PCIE, 0x30}, {LINK_PCIE, 0xc0},
};

/* The same board with the sets of an NVSwitch partition table. */
static const struct link_group partitions[] = {
    {LINK_NUMA, 0x0f},      {LINK_NUMA, 0xf0},      {LINK_PARTITION, 0x05}, {LINK_PARTITION, 0x0a},
    {LINK_PARTITION, 0x50}, {LINK_PARTITION, 0xa0}, {LINK_PARTITION, 0x0f}, {LINK_PARTITION, 0xf0},
    {LINK_PARTITION, 0xff},
};

static const struct links none, board = {two_by_four, COUNT_OF(two_by_four)},
                                nvlink = {partitions, COUNT_OF(partitions)};

static const struct {
    const char *name;
    const struct links *links;
    uint64_t must, may;
    uint32_t count;
    uint64_t taken;
} cases[] = {
    {"nothing told: the lowest", &none, 0, 0xf4, 2, 0x14},
    {"two of one switch, not the lowest two", &board, 0, 0xf6, 2, 0x30},
    {"the switch of the NUMA node that is broken already", &board, 0, 0xfc, 2, 0x0c},
    {"an empty node: the first switch", &board, 0, 0xff, 2, 0x03},
    {"no switch with two: one NUMA node", &board, 0, 0x56, 2, 0x06},
    {"nothing near: the lowest", &board, 0, 0x12, 2, 0x12},
    {"three: a switch and one more of its NUMA node", &board, 0, 0xdc, 3, 0xd0},
    {"four: the NUMA node that is whole", &board, 0, 0xfd, 4, 0xf0},
    {"six: a NUMA node and a switch", &board, 0, 0xff, 6, 0x3f},
    {"five, none holds them: a NUMA node, then the lowest", &board, 0, 0xf6, 5, 0xf2},
    {"all", &board, 0, 0xff, 8, 0xff},
    {"none", &board, 0x01, 0xfe, 0, 0},
    {"beside a card that is taken: its switch", &board, 0x10, 0xef, 1, 0x20},
    {"beside one whose switch is full: its NUMA node", &board, 0x10, 0xcf, 1, 0x40},
    {"a listed pair, not a pair within a larger set", &nvlink, 0, 0xff, 2, 0x05},
    {"the pair whose four are broken", &nvlink, 0, 0xef, 2, 0xa0},
    {"no listed pair: within the smallest set that holds two", &nvlink, 0, 0xc3, 2, 0x03},
    {"four listed", &nvlink, 0, 0xf7, 4, 0xf0},
    {"three: within the four", &nvlink, 0, 0xf7, 3, 0x07},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint64_t taken =
            links_pick(cases[i].links, cases[i].must, cases[i].may, cases[i].count);
        if (taken != cases[i].taken)
            fail_msg("%s: %#llx, not %#llx", cases[i].name, (unsigned long long)taken,
                     (unsigned long long)cases[i].taken);
    }
}

/* ---- against all sets there are ---- */

static uint64_t random_state;

static uint32_t any(uint32_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % below;
}

/* How close the cards of `set` are: by the closest group that holds them all; less is closer. Written
 * down as the header says it, without regard for speed. */
static uint32_t distance(const struct links *links, uint64_t set, uint64_t may)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < links->count; i++) {
        const struct link_group *group = &links->groups[i];
        uint32_t size = group->link == LINK_PARTITION
                            ? (uint32_t)__builtin_popcountll(group->minors)
                            : 0;
        uint32_t left = (uint32_t)__builtin_popcountll(group->minors & may);
        uint32_t far = ((uint32_t)(LINK_PARTITION - group->link) << 16) + (size << 8) + left;
        if ((set & ~group->minors) == 0 && far < best)
            best = far;
    }
    return best;
}

static void random_links(struct link_group *groups, struct links *links)
{
    *links = (struct links){groups, any(12)};
    for (uint32_t i = 0; i < links->count; i++)
        groups[i] = (struct link_group){any(3), any(1u << CARDS) & any(1u << CARDS)};
    for (uint32_t i = 0; i < links->count && any(2) > 0; i++)
        groups[i].minors |= any(1u << CARDS);
}

static void test_no_closer_set(void **state)
{
    (void)state;
    struct link_group groups[12];
    uint32_t told = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct links links;
        random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
        random_links(groups, &links);
        uint64_t must = any(1u << CARDS) & any(1u << CARDS) & any(1u << CARDS);
        uint64_t may = any(1u << CARDS) & ~must;
        uint32_t room = (uint32_t)__builtin_popcountll(may), count = any(room + 1);
        uint64_t taken = links_pick(&links, must, may, count);
        if ((taken & ~may) != 0 || (uint32_t)__builtin_popcountll(taken) != count)
            fail_msg("seed %llu: not %u of the cards", (unsigned long long)seed, count);
        uint32_t far = distance(&links, must | taken, may);
        told += count > 0 && far != UINT32_MAX;
        for (uint64_t set = 0; count > 0 && set < 1u << CARDS; set++)
            if ((set & ~may) == 0 && (uint32_t)__builtin_popcountll(set) == count &&
                distance(&links, must | set, may) < far)
                fail_msg("seed %llu: a closer set is there", (unsigned long long)seed);
    }
    assert_true(told > ROUNDS / 4); /* there was something to choose */
}

/* ---- as a policy's tie-break ---- */

static struct node node;

static void eight_cards(void)
{
    node_init(&node);
    for (int i = 0; i < 8; i++)
        node_add(&node, DEVICE_GPU, gpu_of(80 * GIB));
    node.cards.links = &board;
}

static uint64_t minors_of(const struct pod_request *request, const struct device_policy *policy)
{
    struct plan plan;
    uint64_t minors = 0;
    assert_int_equal(allocate_choose(&node.cards, request, policy, &plan), REASON_FITS);
    assert_int_equal(plan.count, request->of[DEVICE_GPU].count);
    for (uint32_t i = 0; i < plan.count; i++) {
        assert_true(i == 0 || plan.shares[i].minor > plan.shares[i - 1].minor);
        minors |= UINT64_C(1) << plan.shares[i].minor;
    }
    return minors;
}

static const struct device_policy *const policies[] = {
    &device_policy_default, &device_policy_binpack, &device_policy_spread, &device_policy_pack};

/* Whole cards are alike for every policy. */
static void test_whole_cards(void **state)
{
    (void)state;
    struct pod_request two = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0);
    struct pod_request one = ask(RESOURCE_NVIDIA_GPU, 1, RESOURCE_MAX, 0);
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        eight_cards();
        node_use(&node, 0, (struct amount){50, 50, 40 * GIB});
        assert_int_equal(minors_of(&two, policies[i]), 0x0c);
        node_use(&node, 3, (struct amount){50, 50, 40 * GIB});
        assert_int_equal(minors_of(&two, policies[i]), 0x30);
        assert_int_equal(minors_of(&one, policies[i]), 0x02); /* one card is near itself */
        node.cards.links = NULL;
        assert_int_equal(minors_of(&two, policies[i]), 0x06);
    }
}

/* Parts of two cards: how full a card is comes first. */
static void test_policy_comes_first(void **state)
{
    (void)state;
    struct pod_request two = ask(RESOURCE_GPU, 20, RESOURCE_MAX, 0);
    two.of[DEVICE_GPU].count = 2;
    eight_cards();
    node_use(&node, 0, (struct amount){50, 50, 40 * GIB});
    node_use(&node, 7, (struct amount){50, 50, 40 * GIB});
    assert_int_equal(minors_of(&two, &device_policy_binpack), 0x81);
    assert_int_equal(minors_of(&two, &device_policy_spread), 0x0c);
    node_use(&node, 7, (struct amount){10, 10, 8 * GIB});
    node_use(&node, 2, (struct amount){50, 50, 40 * GIB});
    node_use(&node, 6, (struct amount){50, 50, 40 * GIB});
    /* the fullest, and of its equals behind it the one of its switch */
    assert_int_equal(minors_of(&two, &device_policy_binpack), 0xc0);
}

/* Cards that no bit stands for are taken as if nothing were told. */
static void test_high_minors(void **state)
{
    (void)state;
    struct pod_request two = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0);
    eight_cards();
    for (uint32_t row = 0; row < 8; row++)
        node.minor[row] = LINK_CARDS_MAX - 1 + (int32_t)row;
    struct plan plan;
    assert_int_equal(allocate_choose(&node.cards, &two, &device_policy_default, &plan), REASON_FITS);
    assert_int_equal(plan.shares[0].minor, LINK_CARDS_MAX - 1);
    assert_int_equal(plan.shares[1].minor, LINK_CARDS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_no_closer_set),
        cmocka_unit_test(test_whole_cards),
        cmocka_unit_test(test_policy_comes_first),
        cmocka_unit_test(test_high_minors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
