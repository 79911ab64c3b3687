/* SPDX-License-Identifier: Apache-2.0 */
/* What the cache keeps for policies that pack; that it decides as the simulator does is shown by
 * tests/unit/sim/test_live.c. */
#include "state/cache.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "test_cache.h"

#define GIB (INT64_C(1) << 30)

static struct cache *cache;
static struct arena mem;
static const struct pod_policy no_policy;

static int setup(void **state)
{
    (void)state;
    arena_init(&mem, 0);
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    return cache != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    cache_free_sound(cache);
    arena_done(&mem);
    return 0;
}

static void add_node(const char *name, uint32_t cards, int64_t cpu_milli)
{
    struct device devices[8];
    const struct node_facts facts = {.name = str_from(name),
                                     .allocatable = {cpu_milli, 256 * GIB},
                                     .gpu_model = STR("T4")};
    for (uint32_t i = 0; i < cards; i++)
        devices[i] = (struct device){.kind = DEVICE_GPU,
                                      .minor = (int32_t)i,
                                      .healthy = true,
                                      .total = {100, 100, 16 * GIB},
                                      .id = STR("")};
    assert_int_equal(cache_node_set(cache, &facts), 0);
    assert_int_equal(
        cache_devices_set(cache, facts.name, &(struct inventory){.devices = devices, .count = cards}, NULL),
        0);
}

/* A pod of so much CPU and half as many GiB; `node` NULL = pending. */
static void see(const char *uid, const char *node, int64_t cores, struct pod_request request)
{
    struct pod_event_result result;
    struct pod pod = {.id = {STR("ns"), str_from(uid), str_from(uid)},
                      .node_name = node != NULL ? str_from(node) : STR(""),
                      .host = {1000 * cores, cores * GIB / 2}};
    assert_int_equal(cache_pod_set(cache, &pod, &request, &no_policy, &result), 0);
}

static int64_t cores_used(const char *node, uint32_t *ret_others)
{
    struct node_view view;
    if (cache_node_get(cache, str_from(node), &mem, &view) != 1)
        return -1;
    *ret_others = view.other_pods;
    assert_int_equal(view.used.memory_bytes, view.used.cpu_milli * GIB / 2000);
    return view.used.cpu_milli / 1000;
}

/* All pods count that run there, with devices or without; bookings too. */
static void test_cpu_and_memory(void **state)
{
    (void)state;
    uint32_t others;
    enum reason reason;
    struct placement placement;
    add_node("a", 2, 32000);
    see("plain", "a", 3, gpus(0, 0));
    see("waits", NULL, 5, gpus(0, 0));
    see("card", NULL, 7, gpus(1, 50));
    assert_int_equal(cores_used("a", &others), 3);
    assert_int_equal(others, 1);
    assert_int_equal(
        cache_book(cache, STR("card"), STR("a"), &device_policy_pack, &placement, &reason), BOOK_OK);
    assert_int_equal(cores_used("a", &others), 10);
    see("waits", "a", 5, gpus(0, 0));
    see("waits", "a", 5, gpus(0, 0)); /* once more: setting, not adding */
    assert_int_equal(cores_used("a", &others), 15);
    see("waits", "a", 6, gpus(0, 0)); /* resized in place */
    assert_int_equal(cores_used("a", &others), 16);
    cache_pod_remove(cache, STR("plain"));
    cache_forget(cache, STR("card"));
    assert_int_equal(cores_used("a", &others), 6);
    assert_int_equal(others, 1);
}

/* Pods are told before their node, and outlive it. */
static void test_node_comes_and_goes(void **state)
{
    (void)state;
    uint32_t others;
    see("early", "a", 4, gpus(0, 0));
    assert_int_equal(cores_used("a", &others), 4);
    add_node("a", 1, 32000);
    cache_node_remove(cache, STR("a"));
    cache_devices_remove(cache, STR("a"));
    assert_int_equal(cores_used("a", &others), 4);
    see("early", "b", 4, gpus(0, 0));
    assert_int_equal(cores_used("a", &others), -1);
    assert_int_equal(cores_used("b", &others), 4);
    cache_pod_remove(cache, STR("early"));
    assert_int_equal(cores_used("b", &others), -1);
}

/* A list that names them as they were told last is soon done with them. */
static void test_relist_of_the_same(void **state)
{
    (void)state;
    struct pod_event_result result;
    struct pod_request nothing = gpus(0, 0);
    uint32_t others;
    add_node("a", 1, 32000);
    struct pod pod = {.id = {STR("ns"), STR("pod"), STR("pod")},
                      .node_name = STR("a"),
                      .host = {1000, GIB / 2},
                      .version = 7};
    assert_false(cache_pod_same(cache, pod.id.uid, 7));
    assert_int_equal(cache_pod_set(cache, &pod, &nothing, &no_policy, &result), 0);
    see("other", "a", 1, gpus(0, 0));
    uint32_t mark = cache_list_begin(cache, CACHE_PODS);
    assert_true(cache_pod_same(cache, pod.id.uid, 7));
    assert_false(cache_pod_same(cache, pod.id.uid, 8));
    assert_false(cache_pod_same(cache, STR("other"), 7)); /* whose version was not told */
    assert_int_equal(cache_list_end(cache, CACHE_PODS, mark), 1);
    assert_int_equal(cores_used("a", &others), 1);
    pod.version = 8;
    pod.host = (struct host_amount){2000, GIB};
    assert_int_equal(cache_pod_set(cache, &pod, &nothing, &no_policy, &result), 0);
    assert_false(cache_pod_same(cache, pod.id.uid, 7));
    assert_true(cache_pod_same(cache, pod.id.uid, 8));
    assert_int_equal(cores_used("a", &others), 2);
}

/* Of a pod that holds cards, and not of one that waits, nor of one that something is said about. */
static void test_relist_of_the_same_with_cards(void **state)
{
    (void)state;
    struct pod_event_result result;
    struct pod_request half = gpus(1, 50);
    struct pod pod = {.id = {STR("ns"), STR("pod"), STR("pod")}, .node_name = STR(""), .version = 7};
    add_node("a", 1, 32000);
    assert_int_equal(cache_pod_set(cache, &pod, &half, &no_policy, &result), 0);
    assert_false(cache_pod_same(cache, pod.id.uid, 7));
    pod.node_name = STR("a");
    pod.version = 8;
    assert_int_equal(cache_pod_set(cache, &pod, &half, &no_policy, &result), 0);
    assert_true(cache_pod_same(cache, pod.id.uid, 8));
    pod.request_problem = STR("a bad quantity");
    pod.version = 9;
    assert_int_equal(cache_pod_set(cache, &pod, NULL, &no_policy, &result), 0);
    assert_false(cache_pod_same(cache, pod.id.uid, 8));
    assert_false(cache_pod_same(cache, pod.id.uid, 9));
}

/* A list that does not name them ends them, in slices. */
static void test_relist(void **state)
{
    (void)state;
    uint32_t others;
    char uid[16];
    add_node("a", 1, 32000);
    for (int i = 0; i < 1000; i++) {
        snprintf(uid, sizeof uid, "pod-%d", i);
        see(uid, "a", 1, gpus(0, 0));
    }
    uint32_t mark = cache_list_begin(cache, CACHE_PODS);
    for (int i = 0; i < 1000; i += 3) {
        snprintf(uid, sizeof uid, "pod-%d", i);
        if (i % 2 == 0)
            cache_list_keep(cache, CACHE_PODS, str_from(uid));
        else
            see(uid, "a", 1, gpus(0, 0));
    }
    assert_int_equal(cache_list_end(cache, CACHE_PODS, mark), 666);
    assert_int_equal(cores_used("a", &others), 334);
    assert_int_equal(others, 334);
}

static void rank(const struct node_policy *policy, struct pod_request request, int64_t scores[2])
{
    struct str names[] = {STR("a"), STR("b")};
    enum reason reasons[2];
    struct ranking ranking = {.policy = policy, .scores = scores};
    cache_rank(cache, STR("none"), &request, names, 2, reasons, &ranking);
}

/* Without tables, as when memory ends at the first attempt to learn, pack is binpack. */
static void test_best_fit_without_tables(void **state)
{
    (void)state;
    int64_t packed[2], fitted[2];
    add_node("a", 2, 32000);
    add_node("b", 2, 32000);
    see("p", NULL, 1, gpus(1, 50));
    enum reason reason;
    struct placement placement;
    assert_int_equal(
        cache_book(cache, STR("p"), STR("b"), &device_policy_pack, &placement, &reason), BOOK_OK);
    rank(&node_policy_pack, gpus(1, 50), packed);
    rank(&node_policy_binpack, gpus(1, 50), fitted);
    assert_int_equal(packed[0], fitted[0]);
    assert_int_equal(packed[1], fitted[1]);
    assert_true(packed[1] > packed[0]);
    int failures = 0, rc;
    do {
        mem_fail_at(failures + 1);
        rc = cache_pack_prepare(cache, 0);
        mem_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
        failures += rc < 0;
    } while (rc < 0);
    assert_true(failures >= 4);
    rank(&node_policy_pack, gpus(1, 50), packed);
    assert_true(packed[1] > packed[0]);
}

/* Half a card is free on a node without CPU, and on one with: packing takes the first, where nothing
 * else could be done with it... unless the pod needs the CPU. */
static void test_cpu_counts(void **state)
{
    (void)state;
    int64_t scores[2];
    add_node("a", 1, 64000);
    add_node("b", 1, 64000);
    see("fills-b", "b", 60, gpus(0, 0));
    for (int i = 0; i < 400; i++) {
        char uid[16];
        snprintf(uid, sizeof uid, "pod-%d", i);
        see(uid, NULL, 8, gpus(1, 100));
    }
    assert_int_equal(cache_pack_prepare(cache, 0), 0);
    rank(&node_policy_pack, gpus(1, 100), scores);
    assert_true(scores[1] > scores[0]); /* b's card is of no use to the usual pod */
    see("fills-b", "b", 0, gpus(0, 0));
    see("fills-a", "a", 60, gpus(0, 0));
    rank(&node_policy_pack, gpus(1, 100), scores);
    assert_true(scores[0] > scores[1]);
}

/* Learned once for the guess, then as pods come; and when the cluster's cards change. */
static void test_learns_when_due(void **state)
{
    (void)state;
    struct pack_view view;
    add_node("a", 4, 32000);
    assert_int_equal(cache_pack_view(cache, &mem, &view), 0);
    assert_false(view.on);
    assert_int_equal(view.learned_times, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cache_pack_prepare(cache, 7), 0);
    assert_int_equal(cache_pack_view(cache, &mem, &view), 0);
    assert_true(view.on);
    assert_int_equal(view.learned_times, 1);
    assert_int_equal(view.learned_ns, 7);
    assert_int_equal(view.cards, 4);
    assert_int_equal(view.card_bytes, 16 * GIB);
    assert_true(view.prior_pods > 0 && view.mix_count == 0 && view.scarce_count > 0);
    for (uint32_t i = 0; i < view.scarce_count; i++)
        if (view.scarce[i].pod.cards == 4)
            assert_int_equal(view.scarce[i].copies, 1);

    see("p", NULL, 2, gpus(4, 100));
    add_node("b", 4, 32000);
    assert_int_equal(cache_pack_prepare(cache, 8), 0);
    assert_int_equal(cache_pack_view(cache, &mem, &view), 0);
    assert_int_equal(view.learned_times, 2);
    assert_int_equal(view.cards, 8);
    assert_int_equal(view.mix_count, 1);
    assert_int_equal(view.mix[0].pod.cards, 4);
    assert_int_equal(view.model_count, 2); /* T4, and no name */
}

/* ---- pods bound to models ---- */

static void see_bound(const char *uid, const char *model)
{
    struct pod_event_result result;
    struct pod_request request = gpus(1, 100);
    struct str name = str_from(model);
    struct model_condition condition = {true, &name, 1};
    struct pod pod = {.id = {STR("ns"), str_from(uid), str_from(uid)},
                      .models = {.always = {&condition, 1}}};
    assert_int_equal(cache_pod_set(cache, &pod, &request, &no_policy, &result), 0);
}

static void add_model(const char *node, const char *model)
{
    const struct node_facts facts = {.name = str_from(node), .gpu_model = str_from(model)};
    struct device device = {
        .kind = DEVICE_GPU, .healthy = true, .total = {100, 100, 16 * GIB}, .id = STR("")};
    struct inventory inventory = {.devices = &device, .count = 1};
    assert_int_equal(cache_node_set(cache, &facts), 0);
    assert_int_equal(cache_devices_set(cache, facts.name, &inventory, NULL), 0);
}

/* The price of a model of cards. */
static double price_of(const char *model)
{
    struct pack_view view;
    assert_int_equal(cache_pack_view(cache, &mem, &view), 0);
    for (uint32_t i = 0; i < view.model_count; i++)
        if (str_is(view.models[i].name, model))
            return view.models[i].price;
    return -1;
}

/* A model that pods are bound to is dearer, in whatever order pods and nodes became known. */
static void test_bound_pods_make_a_model_dear(void **state)
{
    (void)state;
    add_model("a", "T4");
    see_bound("p", "A10");
    see_bound("q", "A10");
    add_model("b", "A10");
    assert_int_equal(cache_pack_prepare(cache, 0), 0);
    assert_true(price_of("A10") > price_of("T4") + 0.1);
}

/* Pods that name models which no node has, say by another label's words, are as if they named none. */
static void test_unknown_models_bind_nobody(void **state)
{
    (void)state;
    add_model("a", "T4");
    add_model("b", "A10");
    see_bound("p", "NVIDIA-A10-SHARED");
    assert_int_equal(cache_pack_prepare(cache, 0), 0);
    double price = price_of("A10");
    assert_true(price > 0 && price <= price_of("T4") && price >= price_of("T4"));
    see_bound("q", "A10");
    assert_int_equal(cache_pack_prepare(cache, 0), 0);
    assert_true(price_of("A10") > price_of("T4"));
}

/* Whoever may make pods may not take the numbers of models away from nodes. */
static void test_pods_leave_numbers_for_nodes(void **state)
{
    (void)state;
    char uid[8], model[8];
    struct pack_view view;
    add_model("a", "T4");
    for (int i = 0; i < 100; i++) {
        snprintf(uid, sizeof uid, "p%d", i);
        snprintf(model, sizeof model, "m%d", i);
        see_bound(uid, model);
    }
    assert_int_equal(cache_pack_view(cache, &mem, &view), 0);
    assert_int_equal(view.model_count, PACK_MODELS_MAX / 2);
    add_model("b", "A10");
    see_bound("q", "A10");
    assert_int_equal(cache_pack_prepare(cache, 0), 0);
    assert_true(price_of("A10") > price_of("T4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cpu_and_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_node_comes_and_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relist_of_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relist_of_the_same_with_cards, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relist, setup, teardown),
        cmocka_unit_test_setup_teardown(test_best_fit_without_tables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cpu_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_learns_when_due, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bound_pods_make_a_model_dear, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_models_bind_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pods_leave_numbers_for_nodes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
