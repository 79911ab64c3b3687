/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "state/cache.h"
#include "test_cache.h"

enum { MANY = 3999 }; /* threes */

static struct cache *cache;
static char texts[MANY + 2][16];
static struct str names[MANY + 2]; /* the last two are no nodes */
static uint32_t numbers[MANY + 2], hashes[MANY + 2];
static enum reason reasons[MANY + 2];
static int64_t scores[MANY + 2];
static const struct node_policy *policy;

static int setup(void **state)
{
    (void)state;
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    policy = &node_policy_binpack;
    for (uint32_t i = 0; i < MANY + 2; i++) {
        snprintf(texts[i], sizeof texts[i], "node-%u", i);
        names[i] = str_from(texts[i]);
    }
    return cache == NULL;
}

static int teardown(void **state)
{
    (void)state;
    cache_free_sound(cache);
    return 0;
}

/* A node with so many cards. */
static void add_node(struct str name, uint32_t cards)
{
    struct error err = {0};
    struct device devices[4] = {{.kind = DEVICE_GPU}};
    for (uint32_t i = 0; i < cards; i++)
        devices[i] = (struct device){DEVICE_GPU, (int32_t)i, .healthy = true,
                                     .total = {100, 100, 1 << 30}};
    struct inventory inventory = {.devices = devices, .count = cards};
    assert_int_equal(cache_node_set(cache, &(struct node_facts){.name = name}), 0);
    assert_int_equal(cache_devices_set(cache, name, &inventory, &err), 0);
}

static void remove_node(struct str name)
{
    cache_devices_remove(cache, name);
    cache_node_remove(cache, name);
}

/* Ask about these names with what the roster says of them; strangers are none of it. */
static struct roster_notes ask(const struct str *asked, uint32_t count,
                               const struct pod_request *request)
{
    const struct roster *roster = cache_roster_take(cache);
    struct roster_notes notes = {.roster = roster, .numbers = numbers, .hashes = hashes};
    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = roster_hash(asked[i]);
        uint32_t place = roster != NULL ? roster_find(roster, hashes[i]) : ROSTER_NONE;
        numbers[i] = place != ROSTER_NONE ? roster->number[place] : ROSTER_NONE;
        notes.pieces += i == 0 || place == ROSTER_NONE || numbers[i] != numbers[i - 1] + 1;
    }
    if (roster != NULL)
        notes.version = roster->version;
    struct ranking ranking = {.policy = policy, .notes = &notes, .scores = scores};
    cache_rank(cache, STR("asking"), request, asked, count, reasons, &ranking);
    cache_roster_learn(cache, &notes, count);
    cache_roster_leave(roster);
    return notes;
}

static struct str name_at(const struct roster *roster, uint32_t place)
{
    return (struct str){roster->text + roster->begin[place] + 1,
                        roster->begin[place + 1] - roster->begin[place] - 3};
}

/* The roster says `first`, then `second`, and so on; NULL ends it. */
static void expect_order(const char *first, ...)
{
    const struct roster *roster = cache_roster_take(cache);
    va_list rest;
    uint32_t count = 0;
    assert_non_null(roster);
    va_start(rest, first);
    for (const char *name = first; name != NULL; name = va_arg(rest, const char *), count++) {
        assert_true(count < roster->count);
        assert_true(str_is(name_at(roster, count), name));
    }
    va_end(rest);
    assert_int_equal(roster->count, count);
    cache_roster_leave(roster);
}

static void test_it_has_all_nodes_in_the_order_of_a_call(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct str call[] = {STR("c"), STR("a"), STR("nobody"), STR("c")};
    assert_null(cache_roster_take(cache));
    add_node(STR("a"), 1);
    add_node(STR("b"), 1);
    add_node(STR("c"), 1);
    add_node(STR("b\"d"), 1); /* cannot stand in a JSON text as it is */
    ask(call, 4, &half);
    expect_order("c", "a", "b", NULL);
    /* Nodes come and go: the others keep their places, and a call of few says nothing of the order. */
    add_node(STR("d"), 1);
    remove_node(STR("a"));
    ask(&call[1], 1, &half);
    expect_order("c", "b", "d", NULL);
}

static void test_another_order_is_taken_over_once_it_is_worth_it(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct str there[] = {STR("a"), STR("b"), STR("c"), STR("d")};
    struct str back[] = {STR("d"), STR("c"), STR("b"), STR("a")};
    for (int i = 0; i < 4; i++)
        add_node(there[i], 1);
    ask(there, 4, &half);
    for (int i = 0; i < 8; i++) {
        expect_order("a", "b", "c", "d", NULL); /* takes it, too */
        ask(back, 4, &half);
    }
    expect_order("d", "c", "b", "a", NULL);
}

static void test_old_numbers_are_not_believed(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct str call[] = {STR("a"), STR("b")};
    add_node(STR("a"), 1);
    add_node(STR("b"), 0);
    const struct roster *old;
    ask(call, 2, &half);
    assert_int_equal(reasons[0], REASON_FITS);
    assert_int_equal(reasons[1], REASON_NO_GPU);
    /* The slots change hands while a call is read. */
    old = cache_roster_take(cache);
    assert_int_equal(old->count, 2);
    remove_node(STR("a"));
    remove_node(STR("b"));
    add_node(STR("a"), 1);
    add_node(STR("b"), 0);
    struct roster_notes notes = {.roster = old, .numbers = numbers, .version = old->version};
    for (int i = 0; i < 2; i++)
        numbers[i] = old->number[i];
    struct ranking ranking = {.policy = &node_policy_binpack, .notes = &notes, .scores = scores};
    cache_rank(cache, STR("asking"), &half, call, 2, reasons, &ranking);
    assert_int_equal(reasons[0], REASON_FITS);
    assert_int_equal(reasons[1], REASON_NO_GPU);
    assert_true(notes.version != old->version);
    cache_roster_learn(cache, &notes, 2);
    cache_roster_leave(old);
    expect_order("a", "b", NULL);
}

static void test_without_memory_the_old_one_stays(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct str call[] = {STR("b"), STR("a")};
    add_node(STR("a"), 1);
    ask(&call[1], 1, &half);
    add_node(STR("b"), 1);
    ask(&call[1], 1, &half);
    expect_order("a", "b", NULL);
    add_node(STR("c"), 1);
    struct roster_notes notes = {.numbers = numbers, .hashes = hashes};
    struct ranking ranking = {.policy = &node_policy_binpack, .notes = &notes, .scores = scores};
    numbers[0] = numbers[1] = ROSTER_NONE;
    cache_rank(cache, STR("asking"), &half, call, 2, reasons, &ranking);
    mem_fail_at(1);
    cache_roster_learn(cache, &notes, 2);
    mem_fail_at(0);
    expect_order("a", "b", NULL);
    cache_roster_learn(cache, &notes, 2);
    expect_order("b", "a", "c", NULL);
}

static void test_a_roster_outlives_the_cache(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct cache *before = cache;
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    struct str name = STR("a");
    add_node(name, 1);
    ask(&name, 1, &half);
    const struct roster *roster = cache_roster_take(cache);
    cache_free(cache);
    cache = before;
    assert_true(str_is(name_at(roster, 0), "a"));
    cache_roster_leave(roster);
}

/* More than one hold of the lock is good for. */
static void fill(void)
{
    for (uint32_t i = 0; i < MANY; i++)
        add_node(names[i], i % 3);
}

static void check_many(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bool fits = i < MANY && i % 3 > 0;
        assert_int_equal(reasons[i], i >= MANY ? REASON_UNKNOWN_NODE
                                     : fits    ? REASON_FITS
                                               : REASON_NO_GPU);
        assert_true(fits || scores[i] == 0);
    }
}

static void test_many_nodes_are_judged_in_slices(void **state)
{
    (void)state;
    static int64_t first[MANY];
    struct pod_request half = gpus(1, 50);
    fill();
    names[MANY + 1] = names[0];
    for (int again = 0; again < 3; again++) {
        ask(names, MANY + 2, &half);
        assert_int_equal(reasons[MANY + 1], REASON_DUPLICATE);
        check_many(MANY + 1);
        for (uint32_t i = 0; i < MANY; i++) {
            first[i] = again == 0 ? scores[i] : first[i];
            assert_int_equal(scores[i], first[i]);
        }
    }
    bool repeated[MANY + 2] = {false};
    struct host_amount host = {0};
    struct pod_request other = gpus(1, 25);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(cache_score(cache, &other, &host, &node_policy_spread, NULL, names, MANY + 2,
                                     scores, repeated),
                         1);
        for (uint32_t i = 0; i < MANY; i++)
            assert_int_equal(scores[i] > 0, i % 3 > 0);
        assert_int_equal(scores[MANY + 1], scores[0]);
        assert_true(repeated[MANY + 1] && !repeated[0] && !repeated[MANY]);
    }
}

/* Packing prices all at the end, in one hold. */
static void test_many_nodes_are_weighed_in_slices(void **state)
{
    (void)state;
    static int64_t first[MANY];
    struct pod_request half = gpus(1, 50);
    fill();
    assert_int_equal(cache_pack_prepare(cache, 0), 0);
    policy = &node_policy_pack;
    for (int again = 0; again < 3; again++) {
        ask(names, MANY, &half);
        check_many(MANY);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_int_equal(scores[i] > 0, i % 3 > 0);
            first[i] = again == 0 ? scores[i] : first[i];
            assert_int_equal(scores[i], first[i]);
        }
    }
}

static atomic_bool stop;

/* A node that comes and goes takes its slot and its name along. */
static void *come_and_go(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; !atomic_load(&stop); i = (i + 3) % MANY) {
        remove_node(names[i]);
        add_node(STR("passer-by"), 4);
        add_node(names[i], i % 3);
        remove_node(STR("passer-by"));
    }
    return NULL;
}

static void test_nodes_may_change_while_they_are_judged(void **state)
{
    (void)state;
    pthread_t thread;
    fill();
    assert_int_equal(cache_pack_prepare(cache, 0), 0);
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
    for (int64_t percent = 1; percent <= 12; percent++) {
        struct pod_request request = gpus(1, percent);
        policy = percent % 2 ? &node_policy_binpack : &node_policy_pack;
        ask(names, MANY + 1, &request);
        for (uint32_t i = 0; i <= MANY; i++) /* those that stay */
            if (i % 3 != 0 && i < MANY)
                assert_int_equal(reasons[i], REASON_FITS);
            else
                assert_int_not_equal(reasons[i], REASON_FITS);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_has_all_nodes_in_the_order_of_a_call, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_order_is_taken_over_once_it_is_worth_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_old_numbers_are_not_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory_the_old_one_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_roster_outlives_the_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_nodes_are_judged_in_slices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_nodes_are_weighed_in_slices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nodes_may_change_while_they_are_judged, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
