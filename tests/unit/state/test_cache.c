/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "cache_text.h"
#include "test_cache.h"

#define GI (INT64_C(1) << 30)

static struct cache *cache;
static const struct pod_policy no_policy;

static int setup(void **state)
{
    (void)state;
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    return cache != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    cache_free_sound(cache);
    return 0;
}

/* A node with `count` healthy 16 GiB cards. */
static void add_devices(const char *name, uint32_t count)
{
    struct device devices[8];
    struct error err = {0};
    for (uint32_t i = 0; i < count; i++)
        devices[i] = (struct device){DEVICE_GPU, (int32_t)i, true, {100, 100, 16 * GI},
                                     STR("GPU"), STR(""),    0};
    struct inventory inventory = {.devices = devices, .count = count};
    assert_int_equal(cache_devices_set(cache, str_from(name), &inventory, &err), 0);
}

static void add_node(const char *name, uint32_t count)
{
    assert_int_equal(cache_node_set(cache, &(struct node_facts){.name = str_from(name)}), 0);
    add_devices(name, count);
}

static struct pod_event_result see(struct pod pod, const struct pod_request *request)
{
    struct pod_event_result result;
    pod.id.ns = STR("ns");
    pod.id.name = pod.id.uid;
    assert_int_equal(cache_pod_set(cache, &pod, request, &no_policy, &result), 0);
    return result;
}

static void add_pod(const char *uid, const struct pod_request *request)
{
    see((struct pod){.id.uid = str_from(uid)}, request);
}

static struct pod bound(const char *uid, const char *node, const struct share *shares,
                        uint32_t count)
{
    return (struct pod){
        .id.uid = str_from(uid),
        .node_name = str_from(node),
        .annotation = shares != NULL ? ANNOTATION_READ : ANNOTATION_ABSENT,
        .shares = shares,
        .share_count = count,
    };
}

static enum book_result book(const char *uid, const char *node, struct placement *placement)
{
    enum reason reason;
    return cache_book(cache, str_from(uid), str_from(node), device_policy_find(STR("default")),
                      placement, &reason);
}

static enum reason scan(const char *uid, const char *node, const struct pod_request *request)
{
    struct str name = str_from(node);
    enum reason reason;
    cache_scan(cache, str_from(uid), request, &name, 1, &reason);
    return reason;
}

/* Used percent of a gpu, -1 if there is no such card. */
static int64_t used(const char *node, int32_t minor)
{
    struct arena mem;
    struct node_view view;
    int64_t percent = -1;
    arena_init(&mem, 0);
    if (cache_node_get(cache, str_from(node), &mem, &view) == 1) {
        for (uint32_t i = 0; i < view.card_count; i++) {
            if (view.cards[i].kind == DEVICE_GPU && view.cards[i].minor == minor)
                percent = view.cards[i].used.percent;
        }
    }
    arena_done(&mem);
    return percent;
}

static void test_book_confirm_seen_gone(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct placement placement;
    add_node("n", 2);
    add_pod("p", &half);
    assert_int_equal(book("p", "n", &placement), BOOK_OK);
    assert_int_equal(placement.count, 1);
    assert_int_equal(placement.cards[0].share.amount.bytes, 8 * GI);
    assert_string_equal(placement.cards[0].id, "GPU");
    assert_int_equal(used("n", 0), 50);
    assert_int_equal(book("p", "n", &placement), BOOK_IN_PROGRESS);
    cache_confirm(cache, STR("p"));
    assert_int_equal(book("p", "n", &placement), BOOK_ALREADY_HERE);
    assert_int_equal(book("p", "m", &placement), BOOK_ELSEWHERE);
    /* An event from before the binding changes nothing. */
    add_pod("p", &half);
    assert_int_equal(used("n", 0), 50);
    struct share share = placement.cards[0].share;
    struct pod_event_result result = see(bound("p", "n", &share, 1), &half);
    assert_int_equal(result.state, BOOKING_BOUND);
    assert_int_equal(result.trust, CHARGE_TRUSTED);
    assert_false(result.odd || result.moved || result.drifted);
    assert_int_equal(used("n", 0), 50);
    cache_forget(cache, STR("p")); /* a late no: the watch knows better */
    assert_int_equal(used("n", 0), 50);
    struct pod done = bound("p", "n", &share, 1);
    done.deleting = true; /* terminating still holds */
    see(done, &half);
    assert_int_equal(used("n", 0), 50);
    done.finished = true;
    see(done, &half);
    assert_int_equal(used("n", 0), 0);
    assert_int_equal(book("p", "n", &placement), BOOK_UNKNOWN_POD);
}

static void test_bound_elsewhere_than_booked(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct placement placement;
    add_node("n", 1);
    add_node("m", 1);
    add_pod("p", &half);
    assert_int_equal(book("p", "n", &placement), BOOK_OK);
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    struct pod_event_result result = see(bound("p", "m", &share, 1), &half);
    assert_true(result.moved);
    assert_int_equal(used("n", 0), 0);
    assert_int_equal(used("m", 0), 50);
}

static void test_unknown_pods_close_their_node(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    add_node("n", 2);
    add_pod("new", &half);
    struct pod_event_result result = see(bound("old", "n", NULL, 0), &half);
    assert_int_equal(result.trust, CHARGE_UNKNOWN);
    assert_true(result.taken);
    assert_int_equal(scan("new", "n", &half), REASON_NODE_CLOSED);
    struct placement placement;
    enum reason reason;
    assert_int_equal(cache_book(cache, STR("new"), STR("n"), device_policy_find(STR("default")),
                                &placement, &reason),
                     BOOK_NO_FIT);
    assert_int_equal(reason, REASON_NODE_CLOSED);
    /* What can never fit is told as such all the same. */
    struct pod_request three = gpus(3, 100);
    assert_int_equal(scan("new", "n", &three), REASON_TOO_BIG);
    cache_set_unknown_pods(cache, UNKNOWN_PODS_IGNORE);
    assert_int_equal(scan("new", "n", &half), REASON_FITS);
    cache_set_unknown_pods(cache, UNKNOWN_PODS_CLOSE);
    /* An annotation that appears later is an edit, not truth. */
    struct share share = {DEVICE_GPU, 1, {50, 50, 8 * GI}, 0};
    result = see(bound("old", "n", &share, 1), &half);
    assert_true(result.drifted);
    result = see(bound("old", "n", &share, 1), &half);
    assert_false(result.drifted); /* said once */
    assert_int_equal(scan("new", "n", &half), REASON_NODE_CLOSED);
    cache_pod_remove(cache, STR("old"));
    assert_int_equal(scan("new", "n", &half), REASON_FITS);
}

static enum reason what_if(const char *node, const struct pod_request *request)
{
    return cache_what_if(cache, str_from(node), request, NULL, 0);
}

/* Where a vendor's device plugin hands the GPUs out, every way to a decision says so; other kinds of cards
 * are none of its business. */
static void test_a_device_plugin_bars_gpu_requests(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50), nic = {0};
    struct placement placement;
    enum reason reason;
    nic.of[DEVICE_RDMA] = (struct device_request){
        .count = 1, .each = {.percent = 50}, .named = DIM_BIT(DIM_PERCENT)};
    struct device devices[] = {{DEVICE_GPU, 0, true, {100, 100, 16 * GI}, STR("GPU"), STR(""), 0},
                               {DEVICE_RDMA, 0, true, {.percent = 100}, STR("NIC"), STR(""), 0}};
    struct error err = {0};
    struct inventory inventory = {.devices = devices, .count = 2};
    assert_int_equal(cache_devices_set(cache, STR("n"), &inventory, &err), 0);
    struct node_facts facts = {STR("n"), .device_plugin = true};
    assert_int_equal(cache_node_set(cache, &facts), 0);
    add_pod("p", &half);
    add_pod("q", &nic);
    assert_int_equal(scan("p", "n", &half), REASON_DEVICE_PLUGIN);
    assert_int_equal(what_if("n", &half), REASON_DEVICE_PLUGIN);
    assert_int_equal(cache_book(cache, STR("p"), STR("n"), device_policy_find(STR("default")),
                                &placement, &reason),
                     BOOK_NO_FIT);
    assert_int_equal(reason, REASON_DEVICE_PLUGIN);
    assert_int_equal(scan("q", "n", &nic), REASON_FITS);
    assert_int_equal(book("q", "n", &placement), BOOK_OK);

    /* The plugin goes: the pod that waits is to be woken. */
    uint64_t gains = cache_gains(cache);
    assert_int_equal(cache_node_set(cache, &facts), 0);
    assert_int_equal(cache_gains(cache), gains);
    facts.device_plugin = false;
    assert_int_equal(cache_node_set(cache, &facts), 0);
    assert_int_not_equal(cache_gains(cache), gains);
    assert_int_equal(what_if("n", &half), REASON_FITS);
    assert_int_equal(book("p", "n", &placement), BOOK_OK);

    /* It comes: what is placed stays, and nothing is added. */
    facts.device_plugin = true;
    assert_int_equal(cache_node_set(cache, &facts), 0);
    assert_int_equal(used("n", 0), 50);
    assert_int_equal(scan("other", "n", &half), REASON_DEVICE_PLUGIN);
}

static void test_device_plugins_may_be_allowed(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    add_devices("n", 1);
    assert_int_equal(
        cache_node_set(cache, &(struct node_facts){STR("n"), .device_plugin = true}), 0);
    assert_int_equal(scan("p", "n", &half), REASON_DEVICE_PLUGIN);
    uint64_t gains = cache_gains(cache);
    cache_set_device_plugin_nodes(cache, DEVICE_PLUGIN_NODES_ALLOW);
    assert_int_not_equal(cache_gains(cache), gains);
    assert_int_equal(scan("p", "n", &half), REASON_FITS);
    cache_set_device_plugin_nodes(cache, DEVICE_PLUGIN_NODES_REFUSE);
    assert_int_equal(scan("p", "n", &half), REASON_DEVICE_PLUGIN);

    /* What a Node said goes with it. */
    struct error err = {0};
    cache_node_remove(cache, STR("n"));
    assert_int_equal(cache_check(cache, &err), 0);
    add_node("n", 1);
    assert_int_equal(scan("p", "n", &half), REASON_FITS);
}

static void test_invalid_request_says_nothing(void **state)
{
    (void)state;
    struct share share = {DEVICE_GPU, 0, {30, 0, 0}, 0};
    add_node("n", 1);
    struct pod_event_result result = see(bound("old", "n", &share, 1), NULL);
    assert_int_equal(result.trust, CHARGE_INCONSISTENT);
    assert_int_equal(used("n", 0), 30);
    see((struct pod){.id.uid = STR("new")}, NULL);
    struct placement placement;
    assert_int_equal(book("new", "n", &placement), BOOK_INVALID_REQUEST);
}

static void test_cards_vanish_and_return_under_pods(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct share share = {DEVICE_GPU, 1, {50, 50, 8 * GI}, 0};
    add_node("n", 2);
    see(bound("p", "n", &share, 1), &half);
    add_devices("n", 1);
    assert_int_equal(used("n", 1), 50); /* kept though not listed */
    assert_int_equal(scan("q", "n", &half), REASON_FITS);
    cache_devices_remove(cache, STR("n"));
    assert_int_equal(used("n", 1), 50);
    assert_int_equal(scan("q", "n", &half), REASON_NO_DEVICE_OBJECT);
    cache_node_remove(cache, STR("n"));
    assert_int_equal(scan("q", "n", &half), REASON_UNKNOWN_NODE);
    add_node("n", 2);
    struct pod_request whole = gpus(2, 100);
    assert_int_equal(scan("q", "n", &whole), REASON_INSUFFICIENT_GPU);
    cache_pod_remove(cache, STR("p"));
    assert_int_equal(scan("q", "n", &whole), REASON_FITS);
}

static void test_a_pod_is_not_counted_against_itself(void **state)
{
    (void)state;
    struct pod_request whole = gpus(1, 100);
    struct placement placement;
    add_node("n", 1);
    add_pod("p", &whole);
    assert_int_equal(book("p", "n", &placement), BOOK_OK);
    assert_int_equal(scan("p", "n", &whole), REASON_FITS);
    assert_int_equal(scan("q", "n", &whole), REASON_INSUFFICIENT_GPU);
}

static void test_what_if_gives_victims_back_once(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50), whole = gpus(1, 100);
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    add_node("n", 1);
    add_node("m", 1);
    see(bound("v1", "n", &share, 1), &half);
    see(bound("v2", "n", &share, 1), &half);
    struct str both[] = {STR("v1"), STR("v2"), STR("v1"), STR("nobody")};
    assert_int_equal(cache_what_if(cache, STR("n"), &whole, both, 4), REASON_FITS);
    assert_int_equal(cache_what_if(cache, STR("n"), &whole, both, 1), REASON_INSUFFICIENT_GPU);
    /* Victims of another node change nothing here, and nothing was really given back. */
    assert_int_equal(cache_what_if(cache, STR("m"), &whole, both, 2), REASON_FITS);
    assert_int_equal(used("n", 0), 100);
}

static void test_candidates_named_twice(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    add_node("n", 1);
    struct str names[] = {STR("n"), STR("n"), STR("x")};
    enum reason reasons[3];
    cache_scan(cache, STR("p"), &half, names, 3, reasons);
    assert_int_equal(reasons[0], REASON_FITS);
    assert_int_equal(reasons[1], REASON_DUPLICATE);
    assert_int_equal(reasons[2], REASON_UNKNOWN_NODE);
}

/* What is told of links is kept with the cards, goes with them, and is copied. */
static void test_links_are_kept(void **state)
{
    (void)state;
    struct link_group groups[] = {{LINK_PCIE, 0x5}, {LINK_PCIE, 0xa}};
    struct device devices[4];
    struct error err = {0};
    struct pod_request two = gpus(2, 100);
    struct placement placement;
    for (int32_t i = 0; i < 4; i++)
        devices[i] = (struct device){
            DEVICE_GPU, i, true, {100, 100, 16 * GI}, STR("GPU"), STR("T4"), 0};
    struct inventory inventory = {devices, 4, {groups, 2}};
    add_node("n", 4);
    assert_int_equal(cache_devices_set(cache, STR("n"), &inventory, &err), 0);
    groups[0].minors = groups[1].minors = 0;
    add_pod("p", &two);
    add_pod("q", &two);
    assert_int_equal(book("p", "n", &placement), BOOK_OK);
    assert_int_equal(placement.cards[0].share.minor, 0);
    assert_int_equal(placement.cards[1].share.minor, 2);
    assert_string_equal(placement.cards[1].id, "GPU");
    cache_pod_remove(cache, STR("p"));
    add_devices("n", 4); /* nothing is told any more */
    assert_int_equal(book("q", "n", &placement), BOOK_OK);
    assert_int_equal(placement.cards[1].share.minor, 1);
}

static void test_too_many_links_are_refused(void **state)
{
    (void)state;
    static struct link_group groups[LINKS_MAX + 1];
    struct error err = {0};
    struct inventory inventory = {.links = {groups, LINKS_MAX + 1}};
    assert_int_equal(cache_devices_set(cache, STR("n"), &inventory, &err), -EINVAL);
    assert_string_equal(err.text, "257 groups of connected cards, more than 256");
    inventory.links.count = LINKS_MAX;
    assert_int_equal(cache_devices_set(cache, STR("n"), &inventory, &err), 0);
}

static void test_inventory_out_of_bounds_is_refused(void **state)
{
    (void)state;
    struct error err = {0};
    struct device twice[] = {{DEVICE_GPU, 0, true, {100, 100, GI}, STR(""), STR(""), 0},
                             {DEVICE_GPU, 0, true, {100, 100, GI}, STR(""), STR(""), 0}};
    struct inventory inventory = {.devices = twice, .count = 2};
    add_node("n", 2);
    assert_int_equal(cache_devices_set(cache, STR("n"), &inventory, &err), -22);
    assert_non_null(strstr(err.text, "listed twice"));
    twice[1].minor = 1;
    twice[1].total.bytes = CARD_BYTES_MAX + 1;
    assert_int_equal(cache_devices_set(cache, STR("n"), &inventory, &err), -22);
    struct pod_request whole = gpus(2, 100);
    assert_int_equal(scan("p", "n", &whole), REASON_FITS); /* the one before stays */
}

static void test_pod_match(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct arena mem;
    struct pod_view view;
    arena_init(&mem, 0);
    add_pod("p", &half);
    struct pod_id id = {STR("ns"), STR("p"), STR("p")};
    assert_int_equal(cache_pod_find(cache, &id, &mem, &view), POD_KNOWN);
    assert_true(request_eq(&view.request, &half));
    id.name = STR("other");
    assert_int_equal(cache_pod_find(cache, &id, &mem, &view), POD_MISMATCH);
    id.uid = STR("gone");
    assert_int_equal(cache_pod_find(cache, &id, &mem, &view), POD_UNKNOWN);
    /* A pod without devices is not kept. */
    struct pod_request nothing = {0};
    add_pod("cpu", &nothing);
    id = (struct pod_id){STR("ns"), STR("cpu"), STR("cpu")};
    assert_int_equal(cache_pod_find(cache, &id, &mem, &view), POD_UNKNOWN);
    arena_done(&mem);
}

static void test_what_a_list_does_not_name_is_gone(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    struct placement placement;
    add_node("n", 1);
    add_node("m", 1);
    see(bound("stays", "n", &share, 1), &half);
    see(bound("goes", "m", &share, 1), &half);
    add_pod("booked", &half);
    assert_int_equal(book("booked", "m", &placement), BOOK_OK);

    uint32_t pods = cache_list_begin(cache, CACHE_PODS);
    see(bound("stays", "n", &share, 1), &half);
    add_pod("booked", &half); /* listed as pending: our binding is on its way */
    assert_int_equal(used("m", 0), 100); /* nothing is dropped before the list is complete */
    assert_int_equal(cache_list_end(cache, CACHE_PODS, pods), 1);
    assert_int_equal(used("n", 0), 50);
    assert_int_equal(used("m", 0), 50);

    uint32_t nodes = cache_list_begin(cache, CACHE_NODES);
    uint32_t devices = cache_list_begin(cache, CACHE_DEVICES);
    assert_int_equal(cache_node_set(cache, &(struct node_facts){.name = STR("n")}), 0);
    add_devices("m", 1);
    assert_int_equal(cache_list_end(cache, CACHE_NODES, nodes), 1);
    assert_int_equal(cache_list_end(cache, CACHE_DEVICES, devices), 1);
    assert_int_equal(scan("p", "n", &half), REASON_NO_DEVICE_OBJECT);
    assert_int_equal(scan("p", "m", &half), REASON_UNKNOWN_NODE);
    assert_int_equal(used("n", 0), 50);
}

/* A pod that was read while a list is under way, and deleted between the two, is not kept by the older one. */
static void test_a_read_does_not_outlive_a_list(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    struct pod pod = bound("p", "n", &share, 1);
    struct pod_event_result result;
    struct placement placement;
    add_node("n", 1);
    add_pod("p", &half);
    assert_int_equal(book("p", "n", &placement), BOOK_OK);
    cache_outcome_unknown(cache, STR("p"), 1);
    uint32_t pods = cache_list_begin(cache, CACHE_PODS);
    assert_int_equal(cache_pod_settle(cache, &pod, &half, &no_policy, &result), 0);
    assert_int_equal(result.state, BOOKING_BOUND);
    assert_int_equal(cache_list_end(cache, CACHE_PODS, pods), 1);
    assert_int_equal(used("n", 0), 0);
}

/* The watch lags behind what was read: its older events do not give the cards away. */
static void test_an_event_older_than_a_read(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    struct pod pod = bound("p", "n", &share, 1);
    struct pod_event_result result;
    struct placement placement;
    add_node("n", 1);
    add_pod("p", &half);
    assert_int_equal(book("p", "n", &placement), BOOK_OK);
    cache_outcome_unknown(cache, STR("p"), 1);
    assert_int_equal(cache_pod_settle(cache, &pod, &half, &no_policy, &result), 0);
    add_pod("p", &half); /* seen pending, twice */
    add_pod("p", &half);
    assert_int_equal(used("n", 0), 50);
    see(pod, &half);
    assert_int_equal(used("n", 0), 50);
    add_pod("p", &half); /* the watch has told of the binding: now it is undone */
    assert_int_equal(used("n", 0), 0);
}

static void test_what_a_list_names_and_nobody_can_read_stays(void **state)
{
    (void)state;
    struct pod_request half = gpus(1, 50);
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    add_node("n", 1);
    add_node("m", 1);
    see(bound("p", "n", &share, 1), &half);
    see(bound("q", "n", &share, 1), &half);
    for (enum cache_listed kind = CACHE_NODES; kind <= CACHE_PODS; kind++) {
        uint32_t mark = cache_list_begin(cache, kind);
        cache_list_keep(cache, kind, kind == CACHE_PODS ? STR("p") : STR("n"));
        cache_list_keep(cache, kind, STR("never heard of"));
        assert_int_equal(cache_list_end(cache, kind, mark), 1);
    }
    assert_int_equal(used("n", 0), 50);
    assert_int_equal(scan("x", "n", &half), REASON_FITS);
    assert_int_equal(scan("x", "m", &half), REASON_UNKNOWN_NODE);
}

/* One story, with every allocation in turn failing: the step says so and may be repeated, and the state
 * after the repetition is that of an undisturbed run. */
static void play(long *ret_failures)
{
    struct pod_request half = gpus(1, 50);
    struct device device = {DEVICE_GPU, 0, true, {100, 100, 16 * GI}, STR("GPU-1"), STR(""), 0};
    struct inventory inventory = {.devices = &device, .count = 1};
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    struct pod pending = {.id = {STR("ns"), STR("p"), STR("p")}};
    struct pod placed = bound("q", "far", &share, 1);
    placed.id = (struct pod_id){STR("ns"), STR("q"), STR("q")};
    struct pod_event_result result;
    struct placement placement;
    struct error err;
    enum reason reason;
    while (cache_node_set(cache, &(struct node_facts){.name = STR("n")}) < 0)
        ++*ret_failures;
    while (cache_devices_set(cache, STR("n"), &inventory, &err) < 0)
        ++*ret_failures;
    while (cache_pod_set(cache, &pending, &half, &no_policy, &result) < 0)
        ++*ret_failures;
    while (cache_pod_set(cache, &placed, &half, &no_policy, &result) < 0)
        ++*ret_failures;
    while (cache_book(cache, STR("p"), STR("n"), device_policy_find(STR("default")), &placement,
                      &reason) == BOOK_NO_MEMORY)
        ++*ret_failures;
}

static void test_memory_ends_at_any_point(void **state)
{
    (void)state;
    struct strbuf expected;
    long failures = 0;
    strbuf_init(&expected);
    play(&failures);
    cache_text(cache, &expected);
    assert_int_equal(failures, 0);
    long n = 1;
    for (;; n++) {
        cache_free(cache);
        cache = cache_new(UNKNOWN_PODS_CLOSE);
        struct strbuf got;
        strbuf_init(&got);
        failures = 0;
        mem_fail_at(n);
        play(&failures);
        mem_fail_at(0);
        cache_text(cache, &got);
        assert_string_equal(got.data, expected.data);
        strbuf_done(&got);
        if (failures == 0)
            break;
        assert_int_equal(failures, 1);
    }
    assert_true(n > 5);
    strbuf_done(&expected);
}

/* Several writers and readers at once; the sanitizer and the final check judge. */
static void *hammer(void *arg)
{
    int lane = *(int *)arg;
    struct pod_request quarter = gpus(1, 25);
    char uid[16];
    for (int i = 0; i < 2000; i++) {
        struct placement placement;
        struct cache_counts counts;
        snprintf(uid, sizeof uid, "t%d-%d", lane, i % 20);
        struct pod pod = {.id = {STR("ns"), STR("p"), str_from(uid)}};
        struct pod_event_result result;
        (void)cache_pod_set(cache, &pod, &quarter, &no_policy, &result);
        if (book(uid, i % 2 ? "n" : "m", &placement) == BOOK_OK && i % 3 == 0)
            cache_forget(cache, str_from(uid));
        scan(uid, "n", &quarter);
        cache_count(cache, &counts);
        if (i % 5 == 0)
            cache_pod_remove(cache, str_from(uid));
        if (lane == 0 && i % 50 == 0)
            add_devices("n", 1 + (uint32_t)(i / 50) % 4);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    int lanes[4] = {0, 1, 2, 3};
    add_node("n", 4);
    add_node("m", 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &lanes[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int32_t minor = 0; minor < 4; minor++)
        assert_true(used("m", minor) <= 100);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_book_confirm_seen_gone),
        CASE(test_bound_elsewhere_than_booked),
        CASE(test_unknown_pods_close_their_node),
        CASE(test_a_device_plugin_bars_gpu_requests),
        CASE(test_device_plugins_may_be_allowed),
        CASE(test_invalid_request_says_nothing),
        CASE(test_cards_vanish_and_return_under_pods),
        CASE(test_a_pod_is_not_counted_against_itself),
        CASE(test_what_if_gives_victims_back_once),
        CASE(test_candidates_named_twice),
        CASE(test_links_are_kept),
        CASE(test_too_many_links_are_refused),
        CASE(test_inventory_out_of_bounds_is_refused),
        CASE(test_pod_match),
        CASE(test_what_a_list_does_not_name_is_gone),
        CASE(test_a_read_does_not_outlive_a_list),
        CASE(test_an_event_older_than_a_read),
        CASE(test_what_a_list_names_and_nobody_can_read_stays),
        CASE(test_memory_ends_at_any_point),
        CASE(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
