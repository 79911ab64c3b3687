/* SPDX-License-Identifier: Apache-2.0 */
/* Beside HAMi's device plugin: nodes that it registers, pods that its scheduler bound, and one pod
 * a node at a time. */
#include "sched/sched.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "test_cache.h"

#define SECOND INT64_C(1000000000)

static struct {
    enum bind_outcome outcome;
    struct placement placement; /* of the last binding */
    int binds;
} outside;

static enum bind_outcome fake_bind_pod(void *self, const struct binding *binding, struct error *err)
{
    (void)self;
    outside.placement = *binding->placement;
    outside.binds++;
    if (outside.outcome != BIND_DONE)
        error_set(err, -EIO, "no");
    return outside.outcome;
}

static struct cache *cache;
static struct sched sched;
static struct arena mem;

static int setup(void **state)
{
    (void)state;
    memset(&outside, 0, sizeof outside);
    metrics_reset();
    arena_init(&mem, 0);
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    cache_set_hami_plugin(cache, true);
    sched_init(&sched, cache, clock_system(), (struct port){.bind_pod = fake_bind_pod},
               device_policy_find(STR("default")), node_policy_find(STR("spread")));
    sched.turn_waiters_max = 8;
    sched_set_synced(&sched, true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cache_free_sound(cache);
    arena_done(&mem);
    return 0;
}

/* ---- nodes ---- */

static struct device card(int32_t minor, const char *id, int64_t mib)
{
    return (struct device){.kind = DEVICE_GPU,
                           .minor = minor,
                           .healthy = true,
                           .total = {100, 100, mib * MIB},
                           .id = str_from(id),
                           .model = STR("NVIDIA-Tesla T4"),
                           .slots = 10};
}

/* Node "n" as HAMi's plugin has it: cards A and B, given in this order. */
static void node_registers(int64_t mib)
{
    const struct device cards[] = {card(1, "B", mib), card(0, "A", mib)};
    struct node_facts facts = {.name = STR("n"),
                               .device_plugin = true,
                               .registration = REGISTRATION_READ,
                               .registered = {.devices = cards, .count = 2}};
    assert_int_equal(sched_node_changed(&sched, &facts), 0);
}

static struct node_view node_now(void)
{
    struct node_view view = {0};
    assert_int_equal(cache_node_get(cache, STR("n"), &mem, &view), 1);
    return view;
}

/* ---- pods ---- */

static struct pod pod_of(const char *uid, int64_t mib)
{
    struct container *container = arena_alloc(&mem, 1, sizeof *container);
    struct gpu_room *room = arena_alloc(&mem, 1, sizeof *room);
    room->containers = arena_alloc(&mem, 1, sizeof *room->containers);
    container->name = STR("c");
    container->requests.amount[RESOURCE_NVIDIA_GPU] = 1;
    container->requests.amount[RESOURCE_HAMI_MEMORY] = mib;
    return (struct pod){.id = {STR("ns"), STR("p"), str_from(uid)},
                        .containers = container,
                        .container_count = 1,
                        .room = room};
}

/* A pod that HAMi's scheduler put on card `id` of "n". */
static void runs(const char *uid, const char *id, int64_t mib, const char *phase)
{
    const struct named_share named = {.id = str_from(id), .mib = mib};
    struct pod pod = pod_of(uid, mib);
    pod.node_name = STR("n");
    pod.annotation = ANNOTATION_HAMI;
    pod.named = &named;
    pod.named_count = 1;
    pod.hami_phase = str_from(phase);
    assert_int_equal(sched_pod_changed(&sched, &pod), 0);
}

static void waits(const char *uid, int64_t mib)
{
    struct pod pod = pod_of(uid, mib);
    assert_int_equal(sched_pod_changed(&sched, &pod), 0);
}

/* A pod that we bound, as the watch tells of it. */
static void bound(const char *uid, int64_t mib, const char *phase)
{
    struct pod pod = pod_of(uid, mib);
    const struct share share = outside.placement.cards[0].share;
    pod.node_name = STR("n");
    pod.annotation = ANNOTATION_READ;
    pod.shares = &share;
    pod.share_count = 1;
    pod.hami_phase = str_from(phase);
    assert_int_equal(sched_pod_changed(&sched, &pod), 0);
}

static int bind(const char *uid, struct error *err)
{
    struct bind_call call = {{STR("ns"), STR("p"), str_from(uid)}, STR("n")};
    struct arena own = {0};
    int rc = sched_bind(&sched, &call, &own, err);
    arena_done(&own);
    return rc;
}

/* ---- nodes that HAMi's plugin registers ---- */

static void test_a_device_object_wins(void **state)
{
    (void)state;
    node_registers(1000);
    struct node_view view = node_now();
    assert_true(view.registered && !view.has_devices);
    assert_int_equal(view.card_count, 2);
    assert_true(str_is(view.cards[0].id, "A") && view.cards[0].slots == 10);

    const struct device own = card(0, "A", 2000);
    sched_device_changed(&sched, STR("n"), &(struct inventory){.devices = &own, .count = 1});
    assert_int_equal(node_now().card_count, 1);
    node_registers(3000); /* noted, not shown */
    assert_int_equal(node_now().cards[0].total.bytes, 2000 * MIB);
    sched_device_gone(&sched, STR("n"));
    view = node_now();
    assert_int_equal(view.card_count, 2);
    assert_int_equal(view.cards[0].total.bytes, 3000 * MIB);
    struct cache_counts counts;
    cache_count(cache, &counts);
    assert_true(counts.device_nodes == 1 && counts.cards == 2);
}

static void test_a_bad_registration_changes_nothing(void **state)
{
    (void)state;
    node_registers(1000);
    struct node_facts facts = {.name = STR("n"),
                               .registration = REGISTRATION_UNREADABLE,
                               .registration_problem = STR("[0].id: must be a string")};
    assert_int_equal(sched_node_changed(&sched, &facts), 0);
    const struct device twice[] = {card(0, "A", 1), card(0, "B", 1)};
    facts.registration = REGISTRATION_READ;
    facts.registered = (struct inventory){.devices = twice, .count = 2};
    assert_int_equal(sched_node_changed(&sched, &facts), 0);
    assert_int_equal(node_now().card_count, 2);
    assert_int_equal(node_now().cards[0].total.bytes, 1000 * MIB);
    assert_int_equal(metrics_get(METRIC_BAD_OBJECTS, OBJECT_REGISTRATION), 2);
}

/* The same text again is no news, and a changed one finds the pods again. */
static void test_change_and_removal_under_pods(void **state)
{
    (void)state;
    node_registers(1000);
    runs("u", "B", 400, "success");
    uint64_t gains = cache_gains(cache);
    node_registers(1000);
    assert_int_equal(cache_gains(cache), gains);
    assert_int_equal(node_now().cards[1].used.bytes, 400 * MIB);
    node_registers(2000);
    assert_int_equal(node_now().cards[1].used.ratio, 20);
    sched_node_changed(&sched, &(struct node_facts){.name = STR("n")});
    assert_false(node_now().registered);
    assert_int_equal(node_now().pod_count, 1);
    node_registers(1000);
    assert_int_equal(node_now().cards[1].used.bytes, 400 * MIB);
    sched_node_gone(&sched, STR("n"));
    assert_int_equal(node_now().pod_count, 1);
}

/* Without the annotations its plugin would start other pods' containers: no GPU pod comes there. */
static void test_a_plugin_that_is_not_served(void **state)
{
    (void)state;
    struct error err = {0};
    cache_set_hami_plugin(cache, false);
    node_registers(1000);
    waits("u", 100);
    assert_int_equal(bind("u", &err), -ENOSPC);
    assert_non_null(strstr(err.text, "device plugin"));
    cache_set_hami_plugin(cache, true);
    assert_int_equal(bind("u", &err), 0);
}

/* ---- pods that HAMi bound ---- */

static void test_pods_before_their_node(void **state)
{
    (void)state;
    struct error err = {0};
    runs("u", "A", 900, "success");
    runs("gone", "C", 900, "success"); /* on a card that is not there any more */
    node_registers(1000);
    struct node_view view = node_now();
    assert_false(view.closed);
    assert_int_equal(view.cards[0].used.bytes, 900 * MIB);
    assert_int_equal(view.cards[0].used.ratio, 90);
    assert_int_equal(view.cards[1].pods, 0);
    waits("new", 200);
    assert_int_equal(bind("new", &err), 0);
    assert_int_equal(outside.placement.cards[0].share.minor, 1);
}

/* A card without id may be the one that is named. */
static void test_cards_without_ids(void **state)
{
    (void)state;
    node_registers(1000);
    const struct device cards[] = {card(0, "", 1000), card(1, "B", 1000)};
    sched_device_changed(&sched, STR("n"), &(struct inventory){.devices = cards, .count = 2});
    runs("u", "A", 900, "success");
    assert_true(node_now().closed);
}

/* ---- turns ---- */

static void test_the_binding_says_hami(void **state)
{
    (void)state;
    struct error err = {0};
    node_registers(1000);
    waits("u", 100);
    assert_int_equal(bind("u", &err), 0);
    assert_true(outside.placement.hami && outside.placement.hami_time_s > 0);
    assert_int_equal(outside.placement.part_count, 1);
    assert_int_equal(outside.placement.container_count, 1);
}

static void test_one_pod_at_a_time(void **state)
{
    (void)state;
    struct error err = {0};
    node_registers(1000);
    waits("first", 100);
    waits("second", 100);
    assert_int_equal(bind("first", &err), 0);
    assert_int_equal(bind("second", &err), -EBUSY);
    assert_int_equal(metrics_get(METRIC_TURN_WAITS, TURN_TIMEOUT), 1);
    bound("first", 100, "allocating");
    assert_int_equal(bind("second", &err), -EBUSY);
    bound("first", 100, "success");
    assert_int_equal(bind("second", &err), 0);
    assert_int_equal(outside.binds, 2);
    sched_pod_gone(&sched, STR("second"));
    waits("third", 100);
    assert_int_equal(bind("third", &err), 0);
    bound("third", 100, "failed");
    waits("fourth", 100);
    assert_int_equal(bind("fourth", &err), 0);
}

/* A binding that did not happen gives the turn back, one of unknown outcome does not. */
static void test_turn_and_outcome(void **state)
{
    (void)state;
    struct error err = {0};
    node_registers(1000);
    waits("first", 100);
    waits("second", 100);
    outside.outcome = BIND_REFUSED;
    assert_int_equal(bind("first", &err), -EIO);
    outside.outcome = BIND_UNKNOWN;
    assert_int_equal(bind("second", &err), -EIO);
    assert_int_equal(bind("first", &err), -EBUSY);
    assert_int_equal(outside.binds, 2);
}

/* What was under way before we started has the turn, too; the plugin is not asked for other names.
 */
static void test_turn_after_a_restart(void **state)
{
    (void)state;
    struct error err = {0};
    runs("theirs", "A", 100, "allocating");
    node_registers(1000);
    waits("ours", 100);
    assert_int_equal(bind("ours", &err), -EBUSY);
    struct pod pod = pod_of("other", 0);
    struct container share = {.name = STR("c")};
    share.requests.amount[RESOURCE_GPU_MEMORY] = 100 * MIB;
    pod.containers = &share;
    assert_int_equal(sched_pod_changed(&sched, &pod), 0);
    assert_int_equal(bind("other", &err), 0);
    assert_false(outside.placement.hami);
    runs("theirs", "A", 100, "success");
    assert_int_equal(bind("ours", &err), 0);
}

static void *bind_second(void *rc)
{
    struct error err = {0};
    *(int *)rc = bind("second", &err);
    return NULL;
}

static void wait_for_waiters(unsigned count)
{
    while (atomic_load(&sched.turn_waiters) != count)
        sched_yield();
}

static void test_a_bind_waits(void **state)
{
    (void)state;
    struct error err = {0};
    pthread_t thread;
    int rc = 1;
    sched.turn_wait_ns = 600 * SECOND;
    sched.turn_waiters_max = 1;
    node_registers(1000);
    waits("first", 100);
    waits("second", 100);
    waits("third", 100);
    assert_int_equal(bind("first", &err), 0);
    assert_int_equal(pthread_create(&thread, NULL, bind_second, &rc), 0);
    wait_for_waiters(1);
    assert_int_equal(bind("third", &err), -EBUSY); /* no more may wait */
    assert_int_equal(metrics_get(METRIC_TURN_WAITS, TURN_REFUSED), 1);
    bound("first", 100, "success");
    pthread_join(thread, NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(metrics_get(METRIC_TURN_WAITS, TURN_ARRIVED), 1);
    assert_int_equal(atomic_load(&sched.turn_waiters), 0);
}

/* Who waited decides anew: the pod may be gone by then. */
static void test_a_pod_that_goes_while_it_waits(void **state)
{
    (void)state;
    struct error err = {0};
    pthread_t thread;
    int rc = 1;
    sched.turn_wait_ns = 600 * SECOND;
    node_registers(1000);
    waits("first", 100);
    waits("second", 100);
    assert_int_equal(bind("first", &err), 0);
    assert_int_equal(pthread_create(&thread, NULL, bind_second, &rc), 0);
    wait_for_waiters(1);
    sched_pod_gone(&sched, STR("second"));
    sched_pod_gone(&sched, STR("first"));
    pthread_join(thread, NULL);
    assert_int_equal(rc, -ENOENT);
    assert_int_equal(outside.binds, 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_device_object_wins),
        CASE(test_a_bad_registration_changes_nothing),
        CASE(test_change_and_removal_under_pods),
        CASE(test_a_plugin_that_is_not_served),
        CASE(test_pods_before_their_node),
        CASE(test_cards_without_ids),
        CASE(test_the_binding_says_hami),
        CASE(test_one_pod_at_a_time),
        CASE(test_turn_and_outcome),
        CASE(test_turn_after_a_restart),
        CASE(test_a_bind_waits),
        CASE(test_a_pod_that_goes_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
