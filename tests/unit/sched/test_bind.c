/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "test_cache.h"

#define GI (INT64_C(1) << 30)

/* An outward port that answers what the test says and remembers what it was asked. */
static struct {
    enum bind_outcome outcome;
    int binds;
    uint32_t cards;
    uint32_t annotation_bytes;
    uint64_t permit;
    bool has_pod;
    struct pod pod;
    void (*meanwhile)(void); /* happens while a read is on its way to us, once */
} outside;

static int fake_get_pod(void *self, const struct pod_id *id, struct arena *mem, struct pod *ret,
                        struct error *err)
{
    (void)self, (void)id, (void)mem;
    if (!outside.has_pod)
        return error_set(err, -ENOENT, "not found");
    *ret = outside.pod;
    if (outside.meanwhile != NULL)
        outside.meanwhile();
    outside.meanwhile = NULL;
    return 0;
}

static enum bind_outcome fake_bind_pod(void *self, const struct binding *binding,
                                       struct error *err)
{
    (void)self;
    outside.binds++;
    outside.cards = binding->placement->count;
    outside.annotation_bytes = binding->annotation_bytes;
    outside.permit = binding->permit;
    if (outside.outcome != BIND_DONE)
        error_set(err, -EIO, "the API server says no");
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
    sched_init(&sched, cache, clock_system(), (struct port){.get_pod = fake_get_pod, .bind_pod = fake_bind_pod},
               device_policy_find(STR("default")), node_policy_find(STR("spread")));
    sched_set_synced(&sched, true);
    struct device device = {DEVICE_GPU, 0, true, {100, 100, 16 * GI}, STR("GPU-1"), STR(""), 0};
    struct inventory inventory = {.devices = &device, .count = 1};
    sched_node_changed(&sched, &(struct node_facts){.name = STR("n")});
    return sched_device_changed(&sched, STR("n"), &inventory);
}

static int teardown(void **state)
{
    (void)state;
    cache_free_sound(cache);
    arena_done(&mem);
    return 0;
}

static struct container container(enum resource resource, int64_t amount)
{
    struct container container = {.name = STR("main"), .role = CONTAINER_APP};
    container.requests.amount[resource] = amount;
    return container;
}

static struct pod pod_of(const char *uid, const struct container *containers, uint32_t count)
{
    return (struct pod){.id = {STR("ns"), STR("p"), str_from(uid)},
                        .containers = containers,
                        .container_count = count};
}

static int bind(const char *uid, const char *name, const char *node, struct error *err)
{
    struct bind_call call = {{STR("ns"), str_from(name), str_from(uid)}, str_from(node)};
    return sched_bind(&sched, &call, &mem, err);
}

static enum booking_state state_of(const char *uid)
{
    struct pod_id id = {STR("ns"), STR("p"), str_from(uid)};
    struct pod_view view = {0};
    return cache_pod_find(cache, &id, &mem, &view) == POD_KNOWN ? view.state : BOOKING_NONE;
}

static void test_one_write_and_idempotent(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct pod pod = pod_of("u", &half, 1);
    struct error err = {0};
    sched_pod_changed(&sched, &pod);
    assert_int_equal(bind("u", "p", "n", &err), 0);
    assert_int_equal(outside.binds, 1);
    assert_int_equal(outside.cards, 1);
    assert_int_equal(state_of("u"), BOOKING_BOOKED);
    assert_int_equal(bind("u", "p", "n", &err), 0);
    assert_int_equal(outside.binds, 1);
    assert_int_equal(bind("u", "p", "m", &err), -EEXIST);
    assert_int_equal(metrics_get(METRIC_ALLOCATIONS, ALLOCATION_SUCCESS), 1);
}

/* Cards 0 (empty) and 1 (half taken) of node "two". */
static void add_uneven_node(void)
{
    struct device devices[] = {{DEVICE_GPU, 0, true, {100, 100, 16 * GI}, STR(""), STR(""), 0},
                               {DEVICE_GPU, 1, true, {100, 100, 16 * GI}, STR(""), STR(""), 0}};
    struct share share = {DEVICE_GPU, 1, {50, 50, 8 * GI}, 0};
    struct inventory inventory = {.devices = devices, .count = 2};
    struct container half = container(RESOURCE_GPU, 50);
    struct pod there = pod_of("there", &half, 1);
    there.node_name = STR("two");
    there.annotation = ANNOTATION_READ;
    there.shares = &share;
    there.share_count = 1;
    sched_node_changed(&sched, &(struct node_facts){.name = STR("two")});
    assert_int_equal(sched_device_changed(&sched, STR("two"), &inventory), 0);
    assert_int_equal(sched_pod_changed(&sched, &there), 0);
}

static int32_t minor_of(const char *uid)
{
    struct pod_id id = {STR("ns"), STR("p"), str_from(uid)};
    struct pod_view view = {0};
    assert_int_equal(cache_pod_find(cache, &id, &mem, &view), POD_KNOWN);
    assert_int_equal(view.charge.count, 1);
    return view.charge.shares[0].minor;
}

static void test_the_pods_own_device_policy(void **state)
{
    (void)state;
    struct container tenth = container(RESOURCE_GPU, 10);
    struct pod pod = pod_of("u", &tenth, 1);
    struct error err = {0};
    add_uneven_node();
    pod.policy_words.device = STR("spread");
    sched_pod_changed(&sched, &pod);
    pod.policy_words.device = STR("binpack"); /* changed while it is pending */
    sched_pod_changed(&sched, &pod);
    assert_int_equal(bind("u", "p", "two", &err), 0);
    assert_int_equal(minor_of("u"), 1);
    pod = pod_of("plain", &tenth, 1);
    sched_pod_changed(&sched, &pod);
    assert_int_equal(bind("plain", "p", "two", &err), 0);
    assert_int_equal(minor_of("plain"), 0);
    pod = pod_of("wrong", &tenth, 1);
    pod.policy_words.device = STR("tight");
    sched_pod_changed(&sched, &pod);
    assert_int_equal(bind("wrong", "p", "two", &err), -EINVAL);
}

static void test_refused_binding_gives_the_card_back(void **state)
{
    (void)state;
    struct container whole = container(RESOURCE_NVIDIA_GPU, 1);
    struct pod pod = pod_of("u", &whole, 1);
    struct error err = {0};
    sched_pod_changed(&sched, &pod);
    outside.outcome = BIND_REFUSED;
    assert_int_equal(bind("u", "p", "n", &err), -EIO);
    assert_non_null(strstr(err.text, "the API server says no"));
    assert_int_equal(state_of("u"), BOOKING_NONE);
    outside.outcome = BIND_DONE;
    assert_int_equal(bind("u", "p", "n", &err), 0);
}

static void test_unknown_outcome_keeps_the_booking(void **state)
{
    (void)state;
    struct container whole = container(RESOURCE_NVIDIA_GPU, 1);
    struct pod pod = pod_of("u", &whole, 1), other = pod_of("v", &whole, 1);
    struct error err = {0};
    sched_pod_changed(&sched, &pod);
    sched_pod_changed(&sched, &other);
    outside.outcome = BIND_UNKNOWN;
    assert_int_equal(bind("u", "p", "n", &err), -EIO);
    assert_int_equal(state_of("u"), BOOKING_BOOKED);
    outside.outcome = BIND_DONE;
    assert_int_equal(bind("v", "p", "n", &err), -ENOSPC);
    assert_int_equal(bind("u", "p", "n", &err), -EBUSY);
    assert_int_equal(outside.binds, 1);
}

static void test_identity(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct pod pod = pod_of("u", &half, 1);
    struct error err = {0};
    sched_pod_changed(&sched, &pod);
    assert_int_equal(bind("u", "somebody-else", "n", &err), -ESTALE);
    assert_int_equal(bind("w", "p", "n", &err), -ENOENT);
    outside.has_pod = true; /* recreated under the same name */
    outside.pod = pod;
    assert_int_equal(bind("w", "p", "n", &err), -ENOENT);
    assert_int_equal(outside.binds, 0);
}

static void test_pods_newer_than_the_watch(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50), cpu = container(RESOURCE_GPU, 0);
    struct error err = {0};
    outside.has_pod = true;
    outside.pod = pod_of("u", &half, 1);
    assert_int_equal(bind("u", "p", "n", &err), 0);
    assert_int_equal(outside.cards, 1);
    outside.pod = pod_of("c", &cpu, 1);
    assert_int_equal(bind("c", "p", "n", &err), 0);
    assert_int_equal(outside.cards, 0);
    assert_int_equal(metrics_get(METRIC_ALLOCATIONS, ALLOCATION_SUCCESS), 1);
}

static void told_and_bound(void)
{
    struct error err = {0};
    sched_pod_changed(&sched, &outside.pod);
    assert_int_equal(bind("u", "p", "n", &err), 0);
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    struct pod bound = outside.pod;
    bound.node_name = STR("n");
    bound.annotation = ANNOTATION_READ;
    bound.shares = &share;
    bound.share_count = 1;
    sched_pod_changed(&sched, &bound);
}

/* What was read before is no news: the booking that events have shown stays. */
static void test_a_read_overtaken_by_a_binding(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct error err = {0};
    outside.has_pod = true;
    outside.pod = pod_of("u", &half, 1);
    outside.meanwhile = told_and_bound;
    sched_node_changed(&sched, &(struct node_facts){.name = STR("m")});
    assert_int_equal(bind("u", "p", "m", &err), -EEXIST);
    assert_int_equal(outside.binds, 1);
    assert_int_equal(state_of("u"), BOOKING_BOUND);
}

static void told_and_gone(void)
{
    sched_pod_changed(&sched, &outside.pod);
    sched_pod_gone(&sched, outside.pod.id.uid);
    outside.has_pod = false;
}

/* Nobody would ever tell us again that the pod is gone. */
static void test_a_read_overtaken_by_a_removal(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct cache_counts counts;
    struct error err = {0};
    outside.has_pod = true;
    outside.pod = pod_of("u", &half, 1);
    outside.meanwhile = told_and_gone;
    assert_int_equal(bind("u", "p", "n", &err), -ENOENT);
    cache_count(cache, &counts);
    assert_int_equal(counts.pods, 0);
}

static void test_invalid_and_not_synced(void **state)
{
    (void)state;
    struct container invalid = container(RESOURCE_GPU, 150);
    struct pod pod = pod_of("u", &invalid, 1);
    struct error err = {0};
    sched_pod_changed(&sched, &pod);
    assert_int_equal(bind("u", "p", "n", &err), -EINVAL);
    sched_set_synced(&sched, false);
    assert_int_equal(bind("u", "p", "n", &err), -EAGAIN);
    assert_int_equal(outside.binds, 0);
}

static void test_the_port_hears_how_full_the_annotations_are(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct pod pod = pod_of("u", &half, 1);
    struct error err = {0};
    pod.annotation_bytes = 5;
    sched_pod_changed(&sched, &pod);
    pod.annotation_bytes = 7; /* it grew while pending */
    sched_pod_changed(&sched, &pod);
    assert_int_equal(bind("u", "p", "n", &err), 0);
    assert_int_equal(outside.annotation_bytes, 7);
    outside.has_pod = true; /* one that our watch has not seen yet */
    outside.pod = pod_of("v", &half, 1);
    outside.pod.annotation_bytes = 9;
    assert_int_equal(bind("v", "p", "n", &err), 0);
    assert_int_equal(outside.annotation_bytes, 9);
}

static uint64_t no_permit(void *self, struct error *err)
{
    (void)self;
    error_set(err, -ECANCELED, "not sent: not yet");
    return 0;
}

static uint64_t seventh_permit(void *self, struct error *err)
{
    (void)self, (void)err;
    return 7;
}

/* A card that is free as far as we know now may be another's once all is known: nothing is booked on that. */
static void test_nothing_is_decided_without_a_permit(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct pod pod = pod_of("u", &half, 1);
    struct error err = {0};
    sched_pod_changed(&sched, &pod);
    sched.port.may_bind = no_permit;
    assert_int_equal(bind("u", "p", "n", &err), -EIO);
    assert_string_equal(err.text, "binding: not sent: not yet");
    assert_int_equal(state_of("u"), BOOKING_NONE);
    assert_int_equal(outside.binds, 0);
    sched.port.may_bind = seventh_permit;
    assert_int_equal(bind("u", "p", "n", &err), 0);
    assert_int_equal(outside.permit, 7);
}

/* kube-scheduler asks a new leader again when the answer of the one before was lost: that takes no decision. */
static void test_a_bound_pod_is_told_without_a_permit(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct pod pod = pod_of("u", &half, 1);
    struct error err = {0};
    sched_pod_changed(&sched, &pod);
    assert_int_equal(bind("u", "p", "n", &err), 0);
    sched.port.may_bind = no_permit;
    assert_int_equal(bind("u", "p", "n", &err), 0);
    assert_int_equal(bind("u", "p", "m", &err), -EEXIST);
    assert_int_equal(outside.binds, 1);
}

/* Where it runs is for the watch to tell, which will also tell when it is gone. */
static void test_a_pod_read_as_bound_is_not_booked(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct cache_counts counts;
    struct error err = {0};
    outside.has_pod = true;
    outside.pod = pod_of("u", &half, 1);
    outside.pod.node_name = STR("n");
    assert_int_equal(bind("u", "p", "n", &err), 0);
    assert_int_equal(bind("u", "p", "m", &err), -EEXIST);
    assert_int_equal(outside.binds, 0);
    cache_count(cache, &counts);
    assert_int_equal(counts.pods, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_one_write_and_idempotent),
        CASE(test_the_pods_own_device_policy),
        CASE(test_refused_binding_gives_the_card_back),
        CASE(test_unknown_outcome_keeps_the_booking),
        CASE(test_identity),
        CASE(test_pods_newer_than_the_watch),
        CASE(test_a_read_overtaken_by_a_binding),
        CASE(test_a_read_overtaken_by_a_removal),
        CASE(test_invalid_and_not_synced),
        CASE(test_nothing_is_decided_without_a_permit),
        CASE(test_a_bound_pod_is_told_without_a_permit),
        CASE(test_a_pod_read_as_bound_is_not_booked),
        CASE(test_the_port_hears_how_full_the_annotations_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
