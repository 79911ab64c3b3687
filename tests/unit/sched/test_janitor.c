/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test_cache.h"

#define GI (INT64_C(1) << 30)
#define SECOND INT64_C(1000000000)

static struct {
    int64_t now_ns;
    int get_result;
    struct pod stored;
    int gets, wakes;
    void (*meanwhile)(void); /* happens while a read is on its way to us */
} outside;

static int64_t fake_now(void *self)
{
    (void)self;
    return outside.now_ns;
}

static int fake_get_pod(void *self, const struct pod_id *id, struct arena *mem, struct pod *ret,
                        struct error *err)
{
    (void)self, (void)id, (void)mem;
    outside.gets++;
    if (outside.get_result < 0)
        return error_set(err, outside.get_result, "no answer");
    *ret = outside.stored;
    if (outside.meanwhile != NULL)
        outside.meanwhile();
    return 0;
}

static enum bind_outcome fake_bind_pod(void *self, const struct binding *binding,
                                       struct error *err)
{
    (void)self, (void)binding;
    error_set(err, -ETIMEDOUT, "no answer");
    return BIND_UNKNOWN;
}

static int fake_wake_pod(void *self, const struct pod_id *id, struct error *err)
{
    (void)self, (void)id, (void)err;
    outside.wakes++;
    return 0;
}

static struct cache *cache;
static struct sched sched;
static struct arena mem;
static struct janitor janitor;
static struct container whole;
static struct pod pod;

static void devices(bool healthy)
{
    struct device device = {DEVICE_GPU, 0, healthy, {100, 100, 16 * GI}, STR("GPU-1"), STR(""), 0};
    struct inventory inventory = {.devices = &device, .count = 1};
    assert_int_equal(sched_device_changed(&sched, STR("n"), &inventory), 0);
}

static int setup(void **state)
{
    (void)state;
    memset(&outside, 0, sizeof outside);
    arena_init(&mem, 0);
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    sched_init(&sched, cache, (struct clock){fake_now, NULL},
               (struct port){
                   .get_pod = fake_get_pod, .bind_pod = fake_bind_pod, .wake_pod = fake_wake_pod},
               device_policy_find(STR("default")), node_policy_find(STR("spread")));
    sched_set_synced(&sched, true);
    janitor_init(&janitor, 5 * SECOND, 30 * SECOND, 2);
    sched_node_changed(&sched, &(struct node_facts){.name = STR("n")});
    devices(true);
    whole = (struct container){.name = STR("main")};
    whole.requests.amount[RESOURCE_NVIDIA_GPU] = 1;
    pod = (struct pod){.id = {STR("ns"), STR("p"), STR("u")},
                       .containers = &whole,
                       .container_count = 1};
    return sched_pod_changed(&sched, &pod);
}

static int teardown(void **state)
{
    (void)state;
    cache_free_sound(cache);
    arena_done(&mem);
    return 0;
}

static enum booking_state state_now(void)
{
    struct pod_view view = {0};
    return cache_pod_find(cache, &pod.id, &mem, &view) == POD_KNOWN ? view.state : BOOKING_NONE;
}

static void lose_a_reply(void)
{
    struct bind_call call = {pod.id, STR("n")};
    struct error err;
    assert_int_equal(sched_bind(&sched, &call, &mem, &err), -EIO);
    assert_int_equal(state_now(), BOOKING_BOOKED);
}

static void test_the_binding_never_happened(void **state)
{
    (void)state;
    lose_a_reply();
    outside.stored = pod;
    outside.now_ns = 4 * SECOND; /* it may still be committed */
    janitor_round(&janitor, &sched);
    assert_int_equal(state_now(), BOOKING_BOOKED);
    outside.now_ns = 5 * SECOND;
    janitor_round(&janitor, &sched);
    assert_int_equal(state_now(), BOOKING_NONE);
    outside.gets = 0;
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.gets, 0);
}

static void test_the_binding_happened(void **state)
{
    (void)state;
    struct share share = {DEVICE_GPU, 0, {100, 100, 16 * GI}, 0};
    lose_a_reply();
    outside.stored = pod;
    outside.stored.node_name = STR("n");
    outside.stored.annotation = ANNOTATION_READ;
    outside.stored.shares = &share;
    outside.stored.share_count = 1;
    janitor_round(&janitor, &sched);
    assert_int_equal(state_now(), BOOKING_BOUND);
}

static void pod_goes(void)
{
    sched_pod_gone(&sched, pod.id.uid);
}

/* It was bound when it was read, and nobody tells again that it is gone. */
static void test_the_pod_went_while_it_was_read(void **state)
{
    (void)state;
    lose_a_reply();
    outside.stored = pod;
    outside.stored.node_name = STR("n");
    outside.meanwhile = pod_goes;
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.gets, 1);
    assert_int_equal(state_now(), BOOKING_NONE);
}

static void test_the_pod_went(void **state)
{
    (void)state;
    lose_a_reply();
    outside.get_result = -EIO; /* nobody answers: nothing is given back, however long it takes */
    outside.now_ns = 3600 * SECOND;
    janitor_round(&janitor, &sched);
    assert_int_equal(state_now(), BOOKING_BOOKED);
    outside.get_result = 0;
    outside.stored = pod;
    outside.stored.id.uid = STR("another"); /* recreated under the same name */
    janitor_round(&janitor, &sched);
    assert_int_equal(state_now(), BOOKING_NONE);
}

static void filter(int expected_fits)
{
    struct str node = STR("n");
    struct candidates_call call = {.pod = pod, .nodes = &node, .node_count = 1};
    struct filter_answer answer;
    struct error err;
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, expected_fits);
}

static void test_a_recovered_card_wakes_who_was_rejected(void **state)
{
    (void)state;
    devices(false);
    filter(0);
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 0);
    devices(true);
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 1);
    /* Nobody came: once more after the pause, not before. */
    outside.now_ns += 10 * SECOND;
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 1);
    outside.now_ns += 30 * SECOND;
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 2);
    filter(1);
    outside.now_ns += 100 * SECOND;
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 2);
}

static void test_waking_in_bursts(void **state)
{
    (void)state;
    struct pod pods[5];
    char uids[5][4] = {"a", "b", "c", "d", "e"};
    devices(false);
    for (int i = 0; i < 5; i++) {
        pods[i] = pod;
        pods[i].id.uid = str_from(uids[i]);
        assert_int_equal(sched_pod_changed(&sched, &pods[i]), 0);
        pod = pods[i];
        filter(0);
    }
    devices(true);
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 2);
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 4);
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 5);
    sched_set_leading(&sched, false);
    outside.now_ns += 100 * SECOND;
    janitor_round(&janitor, &sched);
    assert_int_equal(outside.wakes, 5);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_the_binding_never_happened),
        CASE(test_the_binding_happened),
        CASE(test_the_pod_went_while_it_was_read),
        CASE(test_the_pod_went),
        CASE(test_a_recovered_card_wakes_who_was_rejected),
        CASE(test_waking_in_bursts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
