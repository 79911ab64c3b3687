/* SPDX-License-Identifier: Apache-2.0 */
/* Random nodes and requests against a model that is as plain as possible: 128-bit divisions, one
 * card at a time, no columns. A failure prints the seed of its round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/allocate.h"
#include "core/charge.h"
#include "node.h"

#define ROUNDS 30000

static struct node node;
static uint64_t random_state;

static uint32_t any(uint32_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % below;
}

static int64_t one_of(const int64_t *values, uint32_t count)
{
    return values[any(count)];
}
#define ONE_OF(...)                                                                                \
    one_of((const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- random nodes and requests ---- */

/* Sizes that divide well and badly, small enough for shares to collide. */
static int64_t any_bytes(void)
{
    return ONE_OF(0, 1, 7, 100, 999, 10 * GIB, 25 * GIB, 46068 * (GIB / 1024), 80 * GIB, 80 * GIB,
                  CARD_BYTES_MAX);
}

static void random_use(uint32_t row)
{
    const struct amount *total = &node.total[row];
    struct amount used = {
        .percent = any(4) > 0 ? ONE_OF(0, 1, 25, 50, 75, 99, 100) : 0,
        .ratio = any(4) > 0 ? ONE_OF(0, 1, 25, 50, 75, 99, 100) : 0,
    };
    used.bytes = memory_ratio_to_bytes(used.ratio, total->bytes);
    if (any(4) == 0 && used.bytes < CARD_BYTES_MAX) /* a share that rounds down */
        used.bytes += ONE_OF(0, 1, total->bytes / 300);
    node_use(&node, row, used);
}

static void random_card(enum device_kind kind)
{
    struct amount total = {.percent = 100};
    if (kind == DEVICE_GPU)
        total = (struct amount){ONE_OF(100, 100, 100, 0), ONE_OF(100, 100, 100, 0), any_bytes()};
    uint32_t row = node_add(&node, kind, total);
    for (uint32_t pods = any(3); pods > 0; pods--)
        random_use(row);
    if (any(12) == 0) /* unhealthy, or shrunk under its pods */
        node.total[row] = any(2) ? (struct amount){0} : (struct amount){40, 40, total.bytes / 3};
    node.registered[row] = any(12) > 0;
    cards_refresh(&node.columns, row);
}

static void random_node(void)
{
    static struct link_group groups[8];
    static struct links links;
    node_init(&node);
    for (links = (struct links){groups, 0}; links.count < any(8); links.count++)
        groups[links.count] = (struct link_group){any(3), any(128)};
    node.cards.links = links.count > 0 ? &links : NULL;
    uint32_t cards = any(7);
    for (uint32_t i = 0; i < cards; i++)
        random_card(DEVICE_GPU);
    for (enum device_kind kind = DEVICE_RDMA; kind < DEVICE_KIND_MAX; kind++)
        for (uint32_t i = any(3); i > 0; i--)
            random_card(kind);
}

/* As most nodes are: all cards of one size, and one of them as it came. */
static void make_uniform(void)
{
    for (uint32_t row = 1; row < node.cards.count[DEVICE_GPU]; row++) {
        node.total[row] = node.total[0];
        node.registered[row] = node.registered[0];
        cards_refresh(&node.columns, row);
    }
}

static struct pod_request random_request(void)
{
    for (;;) {
        struct resources ask = {0};
        struct pod_request request;
        for (enum resource r = 0; r < RESOURCE_MAX; r++)
            if (any(4) == 0)
                ask.amount[r] = ONE_OF(1, 1, 2, 25, 50, 50, 75, 99, 100, 200, 300);
        if (ask.amount[RESOURCE_GPU_MEMORY] > 0)
            ask.amount[RESOURCE_GPU_MEMORY] =
                ONE_OF(1, 2, 50, 500, 5 * GIB, 10 * GIB, 20 * GIB, 40 * GIB, 80 * GIB);
        if (request_parse(&ask, &request, NULL) == 0 && request_any(&request))
            return request;
    }
}

/* ---- the model ---- */

static bool model_fits(uint32_t row, const struct device_request *request, bool empty)
{
    const struct amount *total = &node.total[row];
    const struct amount nothing = {0}, *used = empty ? &nothing : &node.used[row];
    if (!node.registered[row])
        return false;
    if (request->whole && !empty && node.pods[row] > 0)
        return false;

    __int128 take[DIM_MAX];
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        take[dim] = amount_get(&request->each, dim);
        if (take[dim] > 0 && amount_get(total, dim) == 0)
            return false;
    }
    if (take[DIM_RATIO] > 0)
        take[DIM_BYTES] = take[DIM_RATIO] * total->bytes / 100;
    else if (take[DIM_BYTES] > 0)
        take[DIM_RATIO] = take[DIM_BYTES] * 100 / total->bytes;

    bool any_total = false;
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        __int128 of = amount_get(total, dim), left = of - amount_get(used, dim);
        any_total |= of > 0;
        /* a card that shrank under its pod gives what is left of the rest; one given twice gives nothing */
        if (of > 0 && (take[dim] > (left > 0 ? left : 0) ||
                       (left < 0 && !empty && node.pods[row] > 1)))
            return false;
    }
    return any_total;
}

static bool is_sick(uint32_t row)
{
    const struct amount *total = &node.total[row];
    return node.registered[row] && total->percent + total->ratio + total->bytes == 0;
}

static bool model_node_fits(const struct pod_request *request, bool empty)
{
    uint32_t row = 0;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        int64_t fitting = 0;
        for (uint32_t end = row + node.cards.count[kind]; row < end; row++)
            if (request->of[kind].count > 0)
                fitting += model_fits(row, &request->of[kind], empty) || (empty && is_sick(row));
        if (fitting < request->of[kind].count)
            return false;
    }
    return true;
}

/* How full, as a fraction of memory and one of core in long double: exact enough for these sizes.
 */
static int model_compare(uint32_t a, uint32_t b)
{
    long double full[2][2];
    for (int i = 0; i < 2; i++) {
        const struct amount *total = &node.total[i == 0 ? a : b],
                            *used = &node.used[i == 0 ? a : b];
        bool bytes = total->bytes > 0;
        long double of = (long double)(bytes ? total->bytes : total->ratio);
        full[i][0] = of > 0 ? (long double)(bytes ? used->bytes : used->ratio) / of : 0;
        full[i][1] =
            total->percent > 0 ? (long double)used->percent / (long double)total->percent : 0;
    }
    for (int i = 0; i < 2; i++)
        if (full[0][i] != full[1][i])
            return full[0][i] < full[1][i] ? -1 : 1;
    return 0;
}

/* May policy number `p` (default, binpack, spread) take card a and leave card b? Of equals the lower one is
 * taken, but where links between cards are told. */
static bool model_before(size_t p, uint32_t a, uint32_t b)
{
    int c = p == 0 ? 0 : model_compare(a, b);
    if (c == 0)
        return a < b || node.cards.links != NULL;
    return p == 1 ? c > 0 : c < 0;
}

/* ---- properties ---- */

static bool is_chosen(const struct plan *plan, enum device_kind kind, int32_t minor)
{
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->shares[i].kind == kind && plan->shares[i].minor == minor)
            return true;
    return false;
}

/* Each kind has its number of cards, in order, and no card left out would have been better. */
static void check_choice(const struct plan *plan, const struct pod_request *request, size_t policy)
{
    uint32_t next = 0;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        uint32_t begin = cards_begin(&node.cards, kind), end = begin + node.cards.count[kind];
        for (int64_t i = 0; i < request->of[kind].count; i++, next++) {
            assert_true(next < plan->count);
            assert_int_equal(plan->shares[next].kind, kind);
            assert_true(i == 0 || plan->shares[next].minor > plan->shares[next - 1].minor);
            uint32_t row = cards_find(&node.cards, kind, plan->shares[next].minor);
            assert_true(model_fits(row, &request->of[kind], false));
            for (uint32_t other = begin; other < end; other++)
                if (model_fits(other, &request->of[kind], false) &&
                    !is_chosen(plan, kind, node.minor[other]))
                    assert_true(model_before(policy, row, other));
        }
    }
    assert_int_equal(next, plan->count);
}

/* Book the plan: no card goes below zero in a dimension that it has. Give it back: all is as
 * before. */
static void check_booking(const struct plan *plan)
{
    static struct node before;
    memcpy(&before, &node, sizeof(node));
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct share *share = &plan->shares[i];
        uint32_t row = cards_find(&node.cards, share->kind, share->minor);
        cards_charge(&node.columns, row, &share->amount, 1, 1);
        for (enum dimension dim = 0; dim < DIM_MAX; dim++)
            if (amount_get(&node.total[row], dim) > 0 && amount_get(&share->amount, dim) > 0)
                assert_true(amount_get(&node.used[row], dim) <= amount_get(&node.total[row], dim));
    }
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct share *share = &plan->shares[i];
        uint32_t row = cards_find(&node.cards, share->kind, share->minor);
        cards_charge(&node.columns, row, &share->amount, 1, -1);
    }
    assert_memory_equal(&node, &before, sizeof(node));
}

/* A pod that we placed is charged exactly its plan, and believed. */
static void check_charge(const struct plan *plan, const struct pod_request *request)
{
    struct plan charge;
    assert_int_equal(charge_of(&node.cards, request, plan->shares, plan->count, 0, &charge),
                     CHARGE_TRUSTED);
    assert_int_equal(charge.count, plan->count);
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct amount *a = &charge.shares[i].amount, *b = &plan->shares[i].amount;
        assert_true(a->percent == b->percent && a->ratio == b->ratio && a->bytes == b->bytes);
    }
}

static void check_verdict(const struct pod_request *request, bool fits)
{
    bool hope = model_node_fits(request, true);
    assert_int_equal(allocate_fits_empty(&node.cards, request), hope);
    enum reason verdict = allocate_verdict(&node.cards, request);
    if (fits)
        assert_int_equal(verdict, REASON_FITS);
    else
        assert_int_equal(reason_verdict(verdict), hope ? VERDICT_NOT_NOW : VERDICT_NEVER);

    char text[4096];
    size_t len = allocate_explain(&node.cards, request, text, sizeof(text));
    assert_int_equal(len == 0, fits);
}

/* What the cards come to gives the same answers as the cards, as far as it tells. */
static void check_sums(const struct pod_request *request, int *told)
{
    struct cards_sum sums[DEVICE_KIND_MAX];
    struct cards with = node.cards;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        cards_add_up(&node.cards, kind, &sums[kind]);
    with.sum = sums;
    struct allocate_ask ask;
    allocate_ask(request, &ask);
    enum reason glance = allocate_glance(sums, &ask);
    if (glance != REASON_MAX)
        assert_int_equal(glance, allocate_verdict(&node.cards, request));
    *told += glance != REASON_MAX;
    assert_int_equal(node_policy_binpack.score(&with, request),
                     node_policy_binpack.score(&node.cards, request));
}

static void round_of(uint64_t seed, int *fitted, int *told)
{
    static const struct device_policy *const policies[] = {
        &device_policy_default, &device_policy_binpack, &device_policy_spread};
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 4; i++)
        any(1);
    random_node();
    if (any(3) == 0)
        make_uniform();
    struct pod_request request = random_request();

    bool fits = model_node_fits(&request, false);
    enum reason reason = allocate_check(&node.cards, &request);
    assert_int_equal(reason == REASON_FITS, fits);
    check_verdict(&request, fits);
    check_sums(&request, told);
    for (size_t p = 0; p < 3; p++) {
        struct plan plan = {0};
        assert_int_equal(allocate_choose(&node.cards, &request, policies[p], &plan), reason);
        if (!fits)
            continue;
        check_choice(&plan, &request, p);
        check_booking(&plan);
        check_charge(&plan, &request);
    }
    *fitted += fits;
}

static uint64_t seed;

static int print_seed(void **state)
{
    (void)state;
    if (seed < ROUNDS)
        print_error("round %llu failed\n", (unsigned long long)seed);
    return 0;
}

static void test_random_nodes(void **state)
{
    (void)state;
    int fitted = 0, told = 0;
    for (seed = 0; seed < ROUNDS; seed++)
        round_of(seed, &fitted, &told);
    /* neither answer may be rare, or the properties prove little */
    assert_in_range(fitted, ROUNDS / 8, ROUNDS / 2);
    assert_in_range(told, ROUNDS / 8, ROUNDS);
}

/* Filling a node until nothing fits: no card is ever over-booked, whatever the order of sizes. */
static void test_filling_up(void **state)
{
    (void)state;
    random_state = 42;
    for (int round = 0; round < 200; round++) {
        node_init(&node);
        for (int i = 0; i < 4; i++)
            node_add(&node, DEVICE_GPU, gpu_of(any_bytes()));
        for (int pod = 0; pod < 60; pod++) {
            struct plan plan = {0};
            struct pod_request request = random_request();
            allocate_choose(&node.cards, &request, &device_policy_binpack, &plan);
            for (uint32_t i = 0; i < plan.count; i++)
                cards_charge(&node.columns, (uint32_t)plan.shares[i].minor, &plan.shares[i].amount,
                             1, 1);
        }
        for (uint32_t row = 0; row < node.rows; row++)
            for (enum dimension dim = 0; dim < DIM_MAX; dim++)
                if (amount_get(&node.total[row], dim) > 0)
                    assert_true(amount_get(&node.used[row], dim) <=
                                amount_get(&node.total[row], dim));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_random_nodes, print_seed),
        cmocka_unit_test(test_filling_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
