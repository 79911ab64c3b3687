/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "state/cache.h"
#include "state/memo.h"

#include <string.h>

static struct pod_request asks_for(int64_t percent)
{
    struct pod_request request = {0};
    request.of[DEVICE_GPU] = (struct device_request){
        .named = DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO),
        .count = 1,
        .each = {.percent = percent, .ratio = percent},
    };
    return request;
}

static struct memo_entry *find(struct memos *memos, const struct pod_request *request,
                               const struct node_policy *policy, uint32_t slots)
{
    struct memo *memo = memos_find(memos, request, policy, NULL, slots);
    return memo != NULL ? memo->entries : NULL;
}

static void test_each_request_and_policy_has_entries_of_its_own(void **state)
{
    (void)state;
    struct memos memos = {0};
    struct pod_request ten = asks_for(10), twenty = asks_for(20);
    struct memo_entry *of_ten = find(&memos, &ten, &node_policy_spread, 4);
    assert_non_null(of_ten);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(of_ten[i].generation, 0);
    of_ten[3].generation = 7;
    assert_true(find(&memos, &twenty, &node_policy_spread, 4) != of_ten);
    assert_true(find(&memos, &ten, &node_policy_binpack, 4) != of_ten);
    assert_true(find(&memos, &ten, NULL, 4) != of_ten);
    assert_ptr_equal(find(&memos, &ten, &node_policy_spread, 4), of_ten);
    assert_int_equal(of_ten[3].generation, 7);
    /* More nodes: from the beginning. */
    of_ten = find(&memos, &ten, &node_policy_spread, 5);
    assert_int_equal(of_ten[3].generation, 0);
    memos_done(&memos);
}

static void test_what_was_used_longest_ago_goes(void **state)
{
    (void)state;
    struct memos memos = {0};
    struct pod_request first = asks_for(1), second = asks_for(2);
    find(&memos, &first, NULL, 1)->generation = 1;
    find(&memos, &second, NULL, 1)->generation = 2;
    for (unsigned i = 3; i <= MEMOS; i++) {
        struct pod_request other = asks_for((int64_t)i);
        assert_non_null(find(&memos, &other, NULL, 1));
    }
    assert_int_equal(find(&memos, &first, NULL, 1)->generation, 1);
    struct pod_request one_more = asks_for(50);
    assert_int_equal(find(&memos, &one_more, NULL, 1)->generation, 0);
    assert_int_equal(find(&memos, &first, NULL, 1)->generation, 1);
    assert_int_equal(find(&memos, &second, NULL, 1)->generation, 0);
    memos_forget(&memos);
    assert_int_equal(find(&memos, &first, NULL, 1)->generation, 0);
    memos_done(&memos);
}

/* What CPU and memory a pod asks for matters where it is weighed, and only there. */
static void test_a_policy_that_weighs_tells_pods_apart_by_their_host_amounts(void **state)
{
    (void)state;
    struct memos memos = {0};
    struct pod_request ten = asks_for(10);
    struct host_amount one = {.cpu_milli = 1000}, two = {.cpu_milli = 1000, .memory_bytes = 5};
    struct memo *packed = memos_find(&memos, &ten, &node_policy_pack, &one, 2);
    assert_non_null(packed->weighed);
    assert_ptr_not_equal(memos_find(&memos, &ten, &node_policy_pack, &two, 2), packed);
    assert_ptr_equal(memos_find(&memos, &ten, &node_policy_pack, &one, 2), packed);
    struct memo *spread = memos_find(&memos, &ten, &node_policy_spread, &one, 2);
    assert_null(spread->weighed);
    assert_ptr_equal(memos_find(&memos, &ten, &node_policy_spread, &two, 2), spread);
    memos_done(&memos);
}

static void test_no_memory_is_no_memo(void **state)
{
    (void)state;
    struct memos memos = {0};
    struct pod_request request = asks_for(10);
    assert_null(find(&memos, &request, NULL, 0));
    mem_fail_at(1);
    assert_null(find(&memos, &request, NULL, 4));
    mem_fail_at(0);
    assert_non_null(find(&memos, &request, NULL, 4));
    memos_done(&memos);
}

/* One card of a node, half of it used by a pod or not. */
static enum reason asked(struct cache *cache, int64_t percent, int64_t *ret_score)
{
    struct pod_request request = asks_for(percent);
    struct str name = STR("node");
    struct host_amount host = {0};
    enum reason reason;
    bool repeated = false;
    cache_scan(cache, STR("asking"), &request, &name, 1, &reason);
    assert_int_equal(
        cache_score(cache, &request, &host, &node_policy_spread, NULL, &name, 1, ret_score,
                    &repeated),
        0);
    return reason;
}

static void test_nothing_is_remembered_that_has_changed(void **state)
{
    (void)state;
    struct error err = {0};
    struct cache *cache = cache_new(UNKNOWN_PODS_CLOSE);
    struct device card = {.kind = DEVICE_GPU, .healthy = true, .total = {100, 100, 1 << 30}};
    struct inventory inventory = {.devices = &card, .count = 1};
    struct node_facts facts = {.name = STR("node")};
    struct share share = {.kind = DEVICE_GPU, .amount = {.percent = 50, .ratio = 50}};
    struct pod pod = {
        .id = {.uid = STR("u"), .ns = STR("n"), .name = STR("p")},
        .node_name = STR("node"),
        .annotation = ANNOTATION_READ,
        .shares = &share,
        .share_count = 1,
    };
    struct pod_request half = asks_for(50);
    struct pod_policy policy = {0};
    struct pod_event_result result;
    int64_t empty, score;
    assert_int_equal(cache_devices_set(cache, facts.name, &inventory, &err), 0);
    assert_int_equal(asked(cache, 60, &score), REASON_UNKNOWN_NODE);
    assert_int_equal(cache_node_set(cache, &facts), 0);
    for (int again = 0; again < 2; again++)
        assert_int_equal(asked(cache, 60, &empty), REASON_FITS);

    assert_int_equal(cache_pod_set(cache, &pod, &half, &policy, &result), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(asked(cache, 60, &score), REASON_INSUFFICIENT_GPU);
        assert_true(score < empty);
    }
    cache_pod_remove(cache, pod.id.uid);
    assert_int_equal(asked(cache, 60, &score), REASON_FITS);
    assert_int_equal(score, empty);

    /* A pod of which nobody knows what it has closes the node, if that is wanted. */
    pod.annotation = ANNOTATION_ABSENT;
    assert_int_equal(cache_pod_set(cache, &pod, &half, &policy, &result), 0);
    assert_int_equal(asked(cache, 60, &score), REASON_NODE_CLOSED);
    cache_set_unknown_pods(cache, UNKNOWN_PODS_IGNORE);
    assert_int_equal(asked(cache, 60, &score), REASON_FITS);
    cache_pod_remove(cache, pod.id.uid);

    card.healthy = false;
    assert_int_equal(cache_devices_set(cache, facts.name, &inventory, &err), 0);
    assert_int_equal(asked(cache, 60, &score), REASON_INSUFFICIENT_GPU);
    card.healthy = true;
    assert_int_equal(cache_devices_set(cache, facts.name, &inventory, &err), 0);
    assert_int_equal(asked(cache, 60, &score), REASON_FITS);
    facts.device_plugin = true;
    assert_int_equal(cache_node_set(cache, &facts), 0);
    cache_set_device_plugin_nodes(cache, DEVICE_PLUGIN_NODES_REFUSE);
    assert_int_equal(asked(cache, 60, &score), REASON_DEVICE_PLUGIN);
    facts.device_plugin = false;
    assert_int_equal(cache_node_set(cache, &facts), 0);
    assert_int_equal(asked(cache, 60, &score), REASON_FITS);
    cache_devices_remove(cache, facts.name);
    assert_int_equal(asked(cache, 60, &score), REASON_NO_DEVICE_OBJECT);
    assert_int_equal(cache_check(cache, &err), 0);
    cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_request_and_policy_has_entries_of_its_own),
        cmocka_unit_test(test_what_was_used_longest_ago_goes),
        cmocka_unit_test(test_a_policy_that_weighs_tells_pods_apart_by_their_host_amounts),
        cmocka_unit_test(test_no_memory_is_no_memo),
        cmocka_unit_test(test_nothing_is_remembered_that_has_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
