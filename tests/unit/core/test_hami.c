/* SPDX-License-Identifier: Apache-2.0 */
/* HAMi's dialect: what a container asks for, which cards its containers get, what that is charged.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/charge.h"
#include "core/hami.h"
#include "node.h"

#define CONTAINERS 4

static struct node node;
static struct container containers[CONTAINERS];
static struct container_request requests[CONTAINERS];
static struct gpu_room room;
static struct pod_request request;
static struct error err;

static void gpus(int count, int64_t mib)
{
    node_init(&node);
    for (int i = 0; i < count; i++)
        node_add(&node, DEVICE_GPU, gpu_of(mib * MIB));
}

/* The next container's request; amounts that are not named are 0. */
static struct container asks(enum container_role role, int64_t gpu, int64_t mib, int64_t percentage,
                             int64_t cores)
{
    struct container container = {.name = STR("c"), .role = role};
    container.requests.amount[RESOURCE_NVIDIA_GPU] = gpu;
    container.requests.amount[RESOURCE_HAMI_MEMORY] = mib;
    container.requests.amount[RESOURCE_HAMI_PERCENTAGE] = percentage;
    container.requests.amount[RESOURCE_HAMI_CORES] = cores;
    return container;
}

static int parse_by(uint32_t count, const struct hami_rules *rules)
{
    struct resources effective;
    err = (struct error){0};
    room.containers = requests;
    int rc = request_effective(containers, count, NULL, &effective, &err);
    if (rc == 0)
        rc = request_parse(&effective, &request, &err);
    return rc == 0 ? hami_parse(&effective, containers, count, rules, &room, &request, &err) : rc;
}

static int parse(uint32_t count)
{
    room.detail.select = (struct card_selection){0};
    return parse_by(count, &hami_rules_default);
}

static const struct device_request *gpu(void)
{
    return &request.of[DEVICE_GPU];
}

static enum reason choose(const struct device_policy *policy, struct plan *plan)
{
    return allocate_choose(&node.cards, &request, policy, plan);
}

static void assert_amount(struct amount amount, int64_t percent, int64_t ratio, int64_t bytes)
{
    assert_int_equal(amount.percent, percent);
    assert_int_equal(amount.ratio, ratio);
    assert_int_equal(amount.bytes, bytes);
}

static void test_rule(void **state)
{
    (void)state;
    containers[0] = asks(CONTAINER_APP, 2, 7500, 0, 0);
    assert_int_equal(parse(1), 0);
    assert_int_equal(gpu()->count, 2);
    assert_amount(gpu()->each, 0, 0, 7500 * MIB);
    assert_int_equal(gpu()->named, DIM_BIT(DIM_BYTES));
    assert_true(gpu()->some_core && !gpu()->whole);

    containers[0] = asks(CONTAINER_APP, 0, 100, 50, 30); /* one card; MiB win over percent */
    assert_int_equal(parse(1), 0);
    assert_int_equal(gpu()->count, 1);
    assert_amount(gpu()->each, 30, 0, 100 * MIB);
    assert_false(gpu()->some_core);

    containers[0] = asks(CONTAINER_APP, 1, 0, 300, 250); /* at most 100 */
    assert_int_equal(parse(1), 0);
    assert_amount(gpu()->each, 100, 100, 0);
    assert_true(gpu()->whole);

    containers[0] = asks(CONTAINER_APP, 1, 0, 0, 20); /* no memory named: all of it */
    assert_int_equal(parse(1), 0);
    assert_amount(gpu()->each, 20, 100, 0);

    containers[0] = asks(CONTAINER_APP, 1, 0, 0, 0); /* no name of HAMi's: a whole card */
    assert_int_equal(parse(1), 0);
    assert_amount(gpu()->each, 100, 100, 0);
    assert_true(gpu()->whole && !request.detail->apart);
}

static void test_defaults_and_factor(void **state)
{
    (void)state;
    const struct hami_rules rules = {
        .default_memory_mib = 512, .default_cores = 10, .memory_factor = 2};
    containers[0] = asks(CONTAINER_APP, 1, 0, 0, 0);
    assert_int_equal(parse_by(1, &rules), 0);
    assert_amount(gpu()->each, 10, 0, 512 * MIB);
    containers[0] = asks(CONTAINER_APP, 1, 1024, 0, 5);
    assert_int_equal(parse_by(1, &rules), 0);
    assert_amount(gpu()->each, 5, 0, 2048 * MIB);
    containers[0] = asks(CONTAINER_APP, 1, 0, 25, 0);
    assert_int_equal(parse_by(1, &rules), 0);
    assert_amount(gpu()->each, 10, 25, 0);
}

static void test_errors(void **state)
{
    (void)state;
    containers[0] = asks(CONTAINER_APP, 1, INT64_C(16) << 30, 0, 0);
    assert_int_equal(parse(1), -EINVAL);
    assert_non_null(strstr(err.text, "nvidia.com/gpumem 17179869184 of container c is in MiB"));
    containers[0] = asks(CONTAINER_APP, 1, INT64_MAX, 0, 0);
    assert_int_equal(parse(1), -EINVAL);
    containers[0] = asks(CONTAINER_APP, 1, 100, 0, 0);
    containers[0].requests.amount[RESOURCE_GPU_CORE] = 10;
    assert_int_equal(parse(1), -EINVAL);
    assert_non_null(
        strstr(err.text, "nvidia.com/gpumem 100 and koordinator.sh/gpu-core 10 are of"));
    containers[0] = asks(CONTAINER_APP, 40, 1, 0, 0);
    containers[1] = asks(CONTAINER_APP, 40, 1, 0, 0);
    assert_int_equal(parse(2), -EINVAL);
    struct device_request space;
    containers[0] = asks(CONTAINER_APP, 1, 0, -1, 0);
    assert_int_equal(hami_container(&containers[0], &hami_rules_default, &space, &err), -EINVAL);
}

/* Core that no request names is still needed: a card whose core is taken serves nobody. */
static void test_some_core(void **state)
{
    (void)state;
    gpus(1, 1000);
    containers[0] = asks(CONTAINER_APP, 1, 100, 0, 0);
    assert_int_equal(parse(1), 0);
    node_use(&node, 0, (struct amount){.percent = 99});
    assert_int_equal(allocate_check(&node.cards, &request), REASON_FITS);
    node_use(&node, 0, (struct amount){.percent = 1});
    assert_int_equal(allocate_verdict(&node.cards, &request), REASON_INSUFFICIENT_GPU);
    char text[256];
    allocate_explain(&node.cards, &request, text, sizeof text);
    assert_non_null(strstr(text, "all core taken"));
}

static void test_slots(void **state)
{
    (void)state;
    gpus(1, 1000);
    node.slots[0] = 2;
    containers[0] = asks(CONTAINER_APP, 1, 100, 0, 0);
    containers[1] = asks(CONTAINER_APP, 1, 100, 0, 0);
    assert_int_equal(parse(2), 0);
    struct plan plan;
    assert_int_equal(choose(&device_policy_spread, &plan), REASON_FITS);
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.shares[0].beside, 1);
    cards_charge(&node.columns, 0, &(struct amount){0}, 1, 1);
    assert_int_equal(allocate_verdict(&node.cards, &request), REASON_INSUFFICIENT_GPU);
    assert_int_equal(parse(1), 0);
    assert_int_equal(allocate_check(&node.cards, &request), REASON_FITS);
    cards_charge(&node.columns, 0, &(struct amount){0}, 1, 1);
    assert_int_equal(allocate_verdict(&node.cards, &request), REASON_INSUFFICIENT_GPU);
    char text[256];
    allocate_explain(&node.cards, &request, text, sizeof text);
    assert_non_null(strstr(text, "in use by 2 containers, as many as may share it"));
    cards_charge(&node.columns, 0, &(struct amount){0}, 1, -1);
    assert_int_equal(allocate_check(&node.cards, &request), REASON_FITS);
}

/* Two containers that need one card each, of which only one order finds both. */
static void test_order_of_containers(void **state)
{
    (void)state;
    for (int64_t small_first = 0; small_first < 2; small_first++) {
        gpus(2, 4000);
        node_use(&node, 1, (struct amount){.bytes = 3000 * MIB, .ratio = 75});
        containers[small_first] = asks(CONTAINER_APP, 1, 4000, 0, 10);
        containers[1 - small_first] = asks(CONTAINER_APP, 1, 900, 0, 10);
        assert_int_equal(parse(2), 0);
        assert_true(request.detail->apart);
        struct plan plan;
        assert_int_equal(choose(&device_policy_spread, &plan), REASON_FITS);
        assert_int_equal(plan.count, 2);
        assert_int_equal(plan.shares[0].amount.bytes, 4000 * MIB);
        assert_int_equal(plan.shares[1].amount.bytes, 900 * MIB);
        assert_int_equal(plan.part_count, 2);
        assert_int_equal(plan.parts[small_first].minor, 0);
    }
}

/* Init containers run before the others: the larger of both is booked, on the same cards. */
static void test_init_container(void **state)
{
    (void)state;
    gpus(2, 8000);
    containers[0] = asks(CONTAINER_INIT, 2, 5000, 0, 10);
    containers[1] = asks(CONTAINER_APP, 0, 0, 0, 0);
    containers[2] = asks(CONTAINER_APP, 1, 4000, 0, 30);
    assert_int_equal(parse(3), 0);
    struct plan plan;
    assert_int_equal(choose(&device_policy_binpack, &plan), REASON_FITS);
    assert_int_equal(plan.count, 2);
    assert_amount(plan.shares[0].amount, 30, 62, 5000 * MIB);
    assert_amount(plan.shares[1].amount, 10, 62, 5000 * MIB);
    assert_int_equal(plan.part_count, 3);
    assert_int_equal(plan.parts[2].container, 2);
    assert_int_equal(plan.parts[2].minor, 0);
}

/* A sidecar is there while init containers run and while the app does. */
static void test_sidecar(void **state)
{
    (void)state;
    gpus(1, 8000);
    containers[0] = asks(CONTAINER_SIDECAR, 1, 3000, 0, 0);
    containers[1] = asks(CONTAINER_INIT, 1, 4000, 0, 0);
    containers[2] = asks(CONTAINER_APP, 1, 2000, 0, 0);
    assert_int_equal(parse(3), 0);
    struct plan plan;
    assert_int_equal(choose(&device_policy_binpack, &plan), REASON_FITS);
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.shares[0].amount.bytes, 7000 * MIB);
    assert_int_equal(plan.shares[0].beside, 1);
    containers[1] = asks(CONTAINER_INIT, 1, 5001, 0, 0);
    assert_int_equal(parse(3), 0);
    assert_int_equal(allocate_verdict(&node.cards, &request), REASON_TOO_BIG);
    node_use(&node, 0, (struct amount){.bytes = 1000 * MIB});
    containers[1] = asks(CONTAINER_INIT, 1, 4500, 0, 0);
    assert_int_equal(parse(3), 0);
    assert_int_equal(allocate_verdict(&node.cards, &request), REASON_INSUFFICIENT_GPU);
    char text[256];
    allocate_explain(&node.cards, &request, text, sizeof text);
    assert_string_equal(text, "gpu: each container fits, but not all together");
}

/* A container without HAMi's names in a pod with them: whole cards, alone. */
static void test_whole_beside_share(void **state)
{
    (void)state;
    gpus(2, 8000);
    containers[0] = asks(CONTAINER_APP, 1, 0, 0, 0);
    containers[1] = asks(CONTAINER_APP, 1, 100, 0, 0);
    assert_int_equal(parse(2), 0);
    struct plan plan;
    assert_int_equal(choose(&device_policy_binpack, &plan), REASON_FITS);
    assert_int_equal(plan.count, 2);
    char text[128];
    request_format(&request, text, sizeof text);
    assert_string_equal(text, "container 0: 1 whole gpu; container 1: 1 gpu x 100Mi");
    gpus(1, 8000);
    assert_int_equal(allocate_verdict(&node.cards, &request), REASON_TOO_BIG);
}

/* Whose the cards are is also told where all containers ask for whole ones. */
static void test_parts_of_whole_cards(void **state)
{
    (void)state;
    gpus(4, 8000);
    containers[0] = asks(CONTAINER_INIT, 2, 0, 0, 0);
    containers[1] = asks(CONTAINER_APP, 1, 0, 0, 0);
    containers[2] = asks(CONTAINER_APP, 2, 0, 0, 0);
    assert_int_equal(parse(3), 0);
    struct plan plan;
    assert_int_equal(choose(&device_policy_default, &plan), REASON_FITS);
    assert_int_equal(plan.count, 3);
    assert_int_equal(plan.part_count, 5);
    const int32_t minors[] = {0, 1, 0, 1, 2};
    for (int i = 0; i < 5; i++)
        assert_int_equal(plan.parts[i].minor, minors[i]);
}

static bool selects(const char *use, const char *no, const char *model)
{
    const struct card_selection select = {.use_model = str_from(use), .no_model = str_from(no)};
    return card_selected(&select, str_from(model), STR("GPU-1"));
}

static void test_selection_of_models(void **state)
{
    (void)state;
    assert_true(selects(NULL, NULL, "NVIDIA-A100"));
    assert_true(selects("A100", NULL, "NVIDIA-A100-SXM4-40GB"));
    assert_true(selects("a100, V100", NULL, "NVIDIA A100"));
    assert_true(selects("Tesla T4", NULL, "Tesla-T4"));
    assert_false(selects("A10", NULL, "NVIDIA A100"));
    assert_false(selects("100", NULL, "NVIDIA A100"));
    assert_true(selects("A10G", NULL, "NVIDIA-NVIDIA A10G"));
    assert_false(selects("NVIDIA", "A10G", "NVIDIA-NVIDIA A10G"));
    assert_true(selects(" , ", "", "NVIDIA-A100"));
    assert_false(selects("A100", NULL, ""));
    assert_true(selects(NULL, "A100", ""));
}

static void test_selection_of_ids(void **state)
{
    (void)state;
    struct card_selection select = {.use_id = STR(" abc , 123 "), .no_id = STR("123")};
    assert_true(card_selected(&select, STR(""), STR("abc")));
    assert_false(card_selected(&select, STR(""), STR("123")));
    assert_false(card_selected(&select, STR(""), STR("1abc")));
    assert_false(card_selected(&select, STR(""), STR("")));
}

static void test_selection_on_a_node(void **state)
{
    (void)state;
    gpus(3, 8000);
    node.id[0] = STR("GPU-0"), node.id[1] = STR("GPU-1"), node.id[2] = STR("GPU-2");
    containers[0] = asks(CONTAINER_APP, 1, 100, 0, 0);
    room.detail.select = (struct card_selection){.use_id = STR("GPU-1,GPU-2")};
    assert_int_equal(parse_by(1, &hami_rules_default), 0);
    struct plan plan;
    assert_int_equal(choose(&device_policy_default, &plan), REASON_FITS);
    assert_int_equal(plan.shares[0].minor, 1);
    node_use(&node, 1, (struct amount){.bytes = 8000 * MIB, .ratio = 100});
    assert_int_equal(choose(&device_policy_default, &plan), REASON_FITS);
    assert_int_equal(plan.shares[0].minor, 2);
    node_use(&node, 2, (struct amount){.bytes = 8000 * MIB, .ratio = 100});
    assert_int_equal(allocate_verdict(&node.cards, &request), REASON_INSUFFICIENT_GPU);
    char text[512];
    allocate_explain(&node.cards, &request, text, sizeof text);
    assert_non_null(strstr(text, "gpu 0: not of the type or id asked for"));
    room.detail.select = (struct card_selection){.use_id = STR("GPU-9")};
    assert_int_equal(allocate_verdict(&node.cards, &request), REASON_NOT_SELECTED);
}

static enum charge_trust charge(const struct plan *plan, uint32_t unlisted, struct plan *ret)
{
    return charge_of(&node.cards, &request, plan->shares, plan->count, unlisted, ret);
}

/* An annotation tells the sums on each card, not whose they are. */
static void test_charge_of_containers(void **state)
{
    (void)state;
    gpus(2, 8000);
    containers[0] = asks(CONTAINER_APP, 1, 3000, 0, 10);
    containers[1] = asks(CONTAINER_APP, 1, 0, 33, 20);
    assert_int_equal(parse(2), 0);
    struct plan plan, charged;
    assert_int_equal(choose(&device_policy_spread, &plan), REASON_FITS);
    assert_int_equal(plan.count, 2);
    assert_int_equal(charge(&plan, 0, &charged), CHARGE_TRUSTED);
    for (uint32_t i = 0; i < plan.count; i++)
        assert_memory_equal(&plan.shares[i].amount, &charged.shares[i].amount,
                            sizeof plan.shares[i].amount);

    plan.shares[0].amount.percent = plan.shares[1].amount.percent = 1;
    assert_int_equal(charge(&plan, 0, &charged), CHARGE_INCONSISTENT);
    assert_int_equal(charged.shares[0].amount.percent, 30);
    assert_int_equal(charged.shares[1].amount.percent, 30);
    plan.count = 0;
    assert_int_equal(charge(&plan, 0, &charged), CHARGE_UNKNOWN);
    assert_int_equal(charge(&plan, 2, &charged), CHARGE_TRUSTED);
    assert_int_equal(charge(&plan, 3, &charged), CHARGE_INCONSISTENT);
}

/* HAMi writes whole MiB: what was rounded away is charged all the same. */
static void test_amount_of_hami(void **state)
{
    (void)state;
    const struct amount card = gpu_of(15360 * MIB);
    containers[0] = asks(CONTAINER_APP, 1, 0, 33, 10);
    assert_int_equal(parse(1), 0);
    assert_amount(hami_amount(&request, 5068, 10, &card), 10, 33, 15360 * MIB * 33 / 100);
    assert_amount(hami_amount(&request, 5067, 10, &card), 10, 0, 5067 * MIB);
    assert_amount(hami_amount(NULL, 5068, 10, &card), 10, 0, 5068 * MIB);
}

static void test_copy_and_compare(void **state)
{
    (void)state;
    containers[0] = asks(CONTAINER_APP, 1, 3000, 0, 10);
    containers[1] = asks(CONTAINER_APP, 1, 4000, 0, 10);
    room.detail.select = (struct card_selection){.use_id = STR("GPU-1"), .no_model = STR("T4")};
    assert_int_equal(parse_by(2, &hami_rules_default), 0);
    _Alignas(max_align_t) char block[1024];
    assert_true(gpu_detail_size(request.detail) <= sizeof block);
    struct pod_request copy = request;
    copy.detail = gpu_detail_copy(request.detail, block);
    assert_true(request_eq(&request, &copy));
    room.detail.select.use_id = STR("GPU-2");
    assert_false(request_eq(&request, &copy));
    assert_true(request_same_devices(&request, &copy));
    requests[1].gpu.each.bytes++;
    assert_false(request_same_devices(&request, &copy));
    copy.detail = NULL;
    assert_false(request_eq(&request, &copy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_defaults_and_factor),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_some_core),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_order_of_containers),
        cmocka_unit_test(test_init_container),
        cmocka_unit_test(test_sidecar),
        cmocka_unit_test(test_whole_beside_share),
        cmocka_unit_test(test_parts_of_whole_cards),
        cmocka_unit_test(test_selection_of_models),
        cmocka_unit_test(test_selection_of_ids),
        cmocka_unit_test(test_selection_on_a_node),
        cmocka_unit_test(test_charge_of_containers),
        cmocka_unit_test(test_amount_of_hami),
        cmocka_unit_test(test_copy_and_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
