/* SPDX-License-Identifier: Apache-2.0 */
/* Between filter and bind: who is waited for, and whose cards are held. */
#include "state/cache.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_cache.h"

#define GI     (INT64_C(1) << 30)
#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

static struct cache *cache;
static struct pod_request half, whole;

static void add_node(const char *name, uint32_t cards)
{
    struct device devices[8];
    struct error err = {0};
    for (uint32_t i = 0; i < cards; i++)
        devices[i] =
            (struct device){DEVICE_GPU, (int32_t)i, true, {100, 100, 16 * GI}, STR(""), STR(""), 0};
    struct inventory inventory = {.devices = devices, .count = cards};
    assert_int_equal(cache_node_set(cache, &(struct node_facts){.name = str_from(name)}), 0);
    assert_int_equal(cache_devices_set(cache, str_from(name), &inventory, &err), 0);
}

static struct pod pod_of(const char *uid)
{
    return (struct pod){.id = {STR("ns"), str_from(uid), str_from(uid)}};
}

static void add_pod(const char *uid, const struct pod_request *request)
{
    static const struct pod_policy no_policy;
    struct pod pod = pod_of(uid);
    struct pod_event_result result;
    assert_int_equal(cache_pod_set(cache, &pod, request, &no_policy, &result), 0);
}

static int setup(void **state)
{
    (void)state;
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    half.of[DEVICE_GPU] = whole.of[DEVICE_GPU] = (struct device_request){
        .count = 1,
        .each = {.percent = 50, .ratio = 50},
        .named = DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO),
    };
    whole.of[DEVICE_GPU].each = (struct amount){.percent = 100, .ratio = 100};
    whole.of[DEVICE_GPU].whole = true;
    add_node("n", 1);
    add_node("m", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cache_free_sound(cache);
    return 0;
}

/* Filter one node for a pod at a time. */
static enum reason filter(const char *uid, const struct pod_request *request, const char *node,
                          int64_t now_ns)
{
    struct str name = str_from(node);
    int64_t score;
    enum reason reason;
    struct ranking ranking = {.policy = &node_policy_spread, .now_ns = now_ns, .scores = &score};
    cache_rank(cache, str_from(uid), request, &name, 1, &reason, &ranking);
    return reason;
}

static enum passed hold(const char *uid, const char *node, int64_t until_ns)
{
    return cache_passed(cache, str_from(uid), str_from(node), &device_policy_default, until_ns);
}

static enum passed fly(const char *uid)
{
    return cache_passed(cache, str_from(uid), STR(""), NULL, 0);
}

static enum book_result book(const char *uid, const char *node)
{
    struct placement placement;
    enum reason reason;
    return cache_book(cache, str_from(uid), str_from(node), &device_policy_default, &placement,
                      &reason);
}

static struct cache_counts counts(void)
{
    struct cache_counts counts;
    struct error err = {0};
    cache_count(cache, &counts);
    if (cache_check(cache, &err) < 0)
        fail_msg("%s", err.text);
    return counts;
}

static void test_a_tentative_booking_counts_against_others_only(void **state)
{
    (void)state;
    add_pod("a", &whole);
    add_pod("b", &half);
    assert_int_equal(filter("a", &whole, "n", 0), REASON_FITS);
    assert_int_equal(hold("a", "n", 2 * SECOND), PASSED_HELD);
    assert_int_equal(counts().tentative, 1);
    assert_int_equal(counts().booked, 0);
    assert_int_equal(filter("b", &half, "n", SECOND), REASON_INSUFFICIENT_GPU);
    assert_int_equal(filter("a", &whole, "n", SECOND), REASON_FITS);
    assert_int_equal(counts().tentative, 0); /* asked anew: over */
    assert_int_equal(filter("b", &half, "n", SECOND), REASON_FITS);
}

static void test_bind_ends_it(void **state)
{
    (void)state;
    add_pod("a", &whole);
    uint64_t gains = cache_gains(cache);
    assert_int_equal(hold("a", "n", 2 * SECOND), PASSED_HELD);
    assert_int_equal(book("a", "n"), BOOK_OK);
    assert_int_equal(cache_gains(cache), gains); /* no room came of it */
    assert_int_equal(counts().tentative, 0);
    assert_int_equal(counts().booked, 1);
    add_pod("b", &whole);
    assert_int_equal(hold("b", "m", 2 * SECOND), PASSED_HELD);
    assert_int_equal(book("b", "n"), BOOK_NO_FIT); /* bind decides again, and elsewhere */
    assert_int_equal(counts().tentative, 0);
    assert_true(cache_gains(cache) > gains);
    assert_int_equal(book("b", "m"), BOOK_OK);
}

static void test_it_expires(void **state)
{
    (void)state;
    add_pod("a", &whole);
    add_pod("b", &whole);
    add_pod("c", &half);
    assert_int_equal(hold("a", "n", 2 * SECOND), PASSED_HELD);
    assert_int_equal(hold("b", "m", 3 * SECOND), PASSED_HELD);
    assert_int_equal(cache_expire(cache, 2 * SECOND - 1), 0);
    assert_int_equal(filter("c", &half, "n", 2 * SECOND), REASON_FITS); /* at the next scan */
    assert_int_equal(counts().tentative, 1);
    assert_int_equal(cache_expire(cache, 3 * SECOND), 1); /* or by the janitor */
    assert_int_equal(counts().tentative, 0);
    /* Its room was somebody's who was refused it: a gain. */
    assert_int_equal(hold("a", "n", 9 * SECOND), PASSED_HELD);
    uint64_t gains = cache_gains(cache);
    cache_expire(cache, 9 * SECOND);
    assert_true(cache_gains(cache) > gains);
}

static void test_events_end_it(void **state)
{
    (void)state;
    static const struct pod_policy no_policy;
    struct pod_event_result result;
    struct share share = {DEVICE_GPU, 0, {100, 100, 16 * GI}, 0};
    add_pod("a", &whole);
    assert_int_equal(hold("a", "n", SECOND), PASSED_HELD);
    add_pod("a", &whole); /* another change of the pending pod: nothing ends */
    assert_int_equal(counts().tentative, 1);
    struct pod pod = pod_of("a");
    pod.node_name = STR("m");
    pod.annotation = ANNOTATION_READ;
    pod.shares = &share;
    pod.share_count = 1;
    assert_int_equal(cache_pod_set(cache, &pod, &whole, &no_policy, &result), 0);
    assert_false(result.moved); /* it was never booked by us */
    assert_false(result.odd);
    assert_int_equal(counts().bound, 1);
    assert_int_equal(counts().tentative, 0);
    add_pod("b", &whole);
    assert_int_equal(hold("b", "n", SECOND), PASSED_HELD);
    cache_pod_remove(cache, STR("b"));
    assert_int_equal(counts().tentative, 0);
    add_pod("c", &whole);
    assert_int_equal(filter("c", &whole, "n", 0), REASON_FITS);
}

static void test_only_a_known_pending_pod_is_held_or_waited_for(void **state)
{
    (void)state;
    assert_int_equal(hold("nobody", "n", SECOND), PASSED_UNKNOWN);
    assert_int_equal(fly("nobody"), PASSED_UNKNOWN);
    add_pod("a", &whole);
    assert_int_equal(book("a", "n"), BOOK_OK);
    assert_int_equal(hold("a", "n", SECOND), PASSED_UNKNOWN);
    assert_int_equal(cache_await(cache, STR("b"), false, SECOND), AWAITED_NONE);
    add_pod("invalid", NULL);
    assert_int_equal(hold("invalid", "m", SECOND), PASSED_UNKNOWN);
    /* What does not fit any more is in flight like any other. */
    add_pod("late", &half);
    assert_int_equal(hold("late", "n", SECOND), PASSED_IN_FLIGHT);
    assert_int_equal(counts().tentative, 0);
}

static void test_a_pod_is_waited_for_once(void **state)
{
    (void)state;
    add_pod("a", &half);
    add_pod("b", &half);
    assert_int_equal(fly("a"), PASSED_IN_FLIGHT);
    assert_int_equal(cache_await(cache, STR("b"), false, 0), AWAITED_NONE); /* switched off */
    assert_int_equal(fly("a"), PASSED_IN_FLIGHT);
    assert_int_equal(cache_await(cache, STR("a"), false, MS), AWAITED_NONE); /* not for itself */
    assert_int_equal(fly("a"), PASSED_IN_FLIGHT);
    assert_int_equal(cache_await(cache, STR("b"), false, MS), AWAITED_TIMEOUT);
    assert_int_equal(cache_await(cache, STR("b"), false, MS), AWAITED_NONE);
    assert_int_equal(fly("a"), PASSED_IN_FLIGHT);
    cache_pod_remove(cache, STR("a"));
    assert_int_equal(cache_await(cache, STR("b"), false, MS), AWAITED_NONE);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static void *book_soon(void *arg)
{
    (void)arg;
    struct cache_counts seen;
    usleep(20000);
    cache_count(cache, &seen); /* the lock is free while somebody waits */
    assert_int_equal(book("a", "n"), BOOK_OK);
    return NULL;
}

static void test_the_bind_ends_the_wait(void **state)
{
    (void)state;
    pthread_t thread;
    add_pod("a", &whole);
    add_pod("b", &half);
    assert_int_equal(fly("a"), PASSED_IN_FLIGHT);
    int64_t begin_ns = now_ns();
    assert_int_equal(pthread_create(&thread, NULL, book_soon, NULL), 0);
    assert_int_equal(cache_await(cache, STR("b"), false, 30 * SECOND), AWAITED_ARRIVED);
    assert_true(now_ns() - begin_ns < 20 * SECOND);
    assert_int_equal(filter("b", &half, "n", 0), REASON_INSUFFICIENT_GPU);
    pthread_join(thread, NULL);
}

static void *add_soon(void *arg)
{
    (void)arg;
    usleep(20000);
    add_pod("late", &half);
    return NULL;
}

/* kube-scheduler saw the pod before our watch did. */
static void test_a_pod_that_is_not_known_yet(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(cache_await(cache, STR("late"), true, MS), AWAITED_UNKNOWN);
    assert_int_equal(pthread_create(&thread, NULL, add_soon, NULL), 0);
    assert_int_equal(cache_await(cache, STR("late"), true, 30 * SECOND), AWAITED_ARRIVED);
    pthread_join(thread, NULL);
    assert_int_equal(cache_await(cache, STR("late"), true, MS), AWAITED_NONE);
}

/* Two filter calls for one pod at the same time. */
static void test_twice_at_once(void **state)
{
    (void)state;
    add_pod("a", &half);
    assert_int_equal(fly("a"), PASSED_IN_FLIGHT);
    assert_int_equal(hold("a", "n", SECOND), PASSED_HELD);
    assert_int_equal(cache_await(cache, STR("b"), false, MS), AWAITED_NONE);
    assert_int_equal(fly("a"), PASSED_UNKNOWN);
    assert_int_equal(counts().tentative, 1);
}

static void test_demoted_is_what_was_named_alone(void **state)
{
    (void)state;
    static const struct str names[] = {{"n", 1}, {"m", 1}};
    enum reason reasons[2];
    int64_t scores[2];
    struct ranking ranking = {.policy = &node_policy_spread, .demote = true, .scores = scores};
    add_pod("a", &half);
    cache_rank(cache, STR("a"), &half, names, 2, reasons, &ranking);
    assert_false(ranking.ret_again);
    assert_true(scores[0] > 0 && scores[0] == scores[1]);
    assert_int_equal(hold("a", "n", SECOND), PASSED_HELD);
    cache_rank(cache, STR("a"), &half, names, 2, reasons, &ranking);
    assert_true(ranking.ret_again);
    assert_int_equal(scores[0], -1);
    assert_true(scores[1] > 0);
    /* For this pod only. */
    cache_rank(cache, STR("another"), &half, names, 2, reasons, &ranking);
    assert_true(scores[0] > 0 && scores[0] == scores[1]);
    /* After a bind it was not refused by others. */
    assert_int_equal(hold("a", "n", SECOND), PASSED_HELD);
    assert_int_equal(book("a", "gone"), BOOK_NO_FIT);
    cache_rank(cache, STR("a"), &half, names, 2, reasons, &ranking);
    assert_false(ranking.ret_again);
    assert_true(scores[0] > 0);
    /* Nor after a bind that was not even decided. */
    assert_int_equal(hold("a", "n", SECOND), PASSED_HELD);
    cache_bind_refused(cache, STR("a"));
    assert_int_equal(counts().tentative, 1); /* its room is kept for the next try */
    cache_rank(cache, STR("a"), &half, names, 2, reasons, &ranking);
    assert_false(ranking.ret_again);
    assert_true(scores[0] > 0);
}

static void test_a_pod_without_devices_is_demoted_alike(void **state)
{
    (void)state;
    static const struct str names[] = {{"n", 1}, {"m", 1}};
    enum reason reasons[2];
    int64_t scores[2];
    struct ranking ranking = {.policy = &node_policy_spread, .demote = true, .scores = scores};
    cache_offered(cache, STR("plain"), STR("n"));
    cache_rank_plain(cache, STR("plain"), names, 2, reasons, &ranking);
    assert_true(ranking.ret_again);
    assert_int_equal(scores[0], -1);
    cache_bind_refused(cache, STR("plain"));
    cache_rank_plain(cache, STR("plain"), names, 2, reasons, &ranking);
    assert_false(ranking.ret_again);
    assert_int_equal(scores[0], scores[1]);
}

static void test_nobody_waits_for_a_bind_that_was_refused(void **state)
{
    (void)state;
    add_pod("a", &half);
    add_pod("b", &half);
    assert_int_equal(fly("a"), PASSED_IN_FLIGHT);
    cache_bind_refused(cache, STR("a"));
    cache_bind_refused(cache, STR("nobody"));
    assert_int_equal(cache_await(cache, STR("b"), false, MS), AWAITED_NONE);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_tentative_booking_counts_against_others_only),
        CASE(test_bind_ends_it),
        CASE(test_it_expires),
        CASE(test_events_end_it),
        CASE(test_only_a_known_pending_pod_is_held_or_waited_for),
        CASE(test_a_pod_is_waited_for_once),
        CASE(test_the_bind_ends_the_wait),
        CASE(test_a_pod_that_is_not_known_yet),
        CASE(test_twice_at_once),
        CASE(test_demoted_is_what_was_named_alone),
        CASE(test_a_pod_without_devices_is_demoted_alike),
        CASE(test_nobody_waits_for_a_bind_that_was_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
