/* SPDX-License-Identifier: Apache-2.0 */
/* What a table cannot say; the cases are in tests/cases/core/request.case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "node.h"

static struct container asks(enum container_role role, enum resource resource, int64_t amount)
{
    struct container container = {.name = STR("c"), .role = role};
    container.requests.amount[resource] = amount;
    return container;
}

static int64_t effective(const struct container *containers, uint32_t count, enum resource resource,
                         const struct resources *overhead)
{
    struct resources sum;
    struct error err;
    assert_int_equal(request_effective(containers, count, overhead, &sum, &err), 0);
    return sum.amount[resource];
}

static void test_containers_add_up(void **state)
{
    (void)state;
    const struct container pod[] = {
        asks(CONTAINER_APP, RESOURCE_GPU_CORE, 30),
        asks(CONTAINER_APP, RESOURCE_RDMA, 7),
        asks(CONTAINER_APP, RESOURCE_GPU_CORE, 20),
    };
    assert_int_equal(effective(pod, 3, RESOURCE_GPU_CORE, NULL), 50);
    assert_int_equal(effective(pod, 3, RESOURCE_RDMA, NULL), 7);
    assert_int_equal(effective(pod, 3, RESOURCE_FPGA, NULL), 0);
    assert_int_equal(effective(NULL, 0, RESOURCE_GPU, NULL), 0);
}

/* Init containers run one after the other, before the others: the highest counts, not the sum. */
static void test_init_containers(void **state)
{
    (void)state;
    struct container pod[] = {
        asks(CONTAINER_INIT, RESOURCE_GPU, 40),
        asks(CONTAINER_INIT, RESOURCE_GPU, 60),
        asks(CONTAINER_APP, RESOURCE_GPU, 30),
        asks(CONTAINER_APP, RESOURCE_GPU, 20),
    };
    assert_int_equal(effective(pod, 4, RESOURCE_GPU, NULL), 60);
    pod[3].requests.amount[RESOURCE_GPU] = 50;
    assert_int_equal(effective(pod, 4, RESOURCE_GPU, NULL), 80);
}

/* A sidecar runs beside the init containers after it and beside the app containers. */
static void test_sidecars(void **state)
{
    (void)state;
    const struct container pod[] = {
        asks(CONTAINER_INIT, RESOURCE_GPU, 50),    /* alone: 50 */
        asks(CONTAINER_SIDECAR, RESOURCE_GPU, 10), /* from here on +10 */
        asks(CONTAINER_INIT, RESOURCE_GPU, 45),    /* 55 */
        asks(CONTAINER_SIDECAR, RESOURCE_GPU, 5),  /* +15 */
        asks(CONTAINER_INIT, RESOURCE_GPU, 41),    /* 56 */
        asks(CONTAINER_APP, RESOURCE_GPU, 30),     /* 45 */
    };
    assert_int_equal(effective(pod, 1, RESOURCE_GPU, NULL), 50);
    assert_int_equal(effective(pod, 3, RESOURCE_GPU, NULL), 55);
    assert_int_equal(effective(pod, 6, RESOURCE_GPU, NULL), 56);
    const struct container other[] = {pod[0], pod[1], pod[3],
                                      asks(CONTAINER_APP, RESOURCE_GPU, 60)};
    assert_int_equal(effective(other, 4, RESOURCE_GPU, NULL), 75);
}

static void test_overhead(void **state)
{
    (void)state;
    const struct container pod[] = {asks(CONTAINER_INIT, RESOURCE_GPU, 50),
                                    asks(CONTAINER_APP, RESOURCE_GPU, 30)};
    struct resources overhead = {0};
    overhead.amount[RESOURCE_GPU] = 5;
    assert_int_equal(effective(pod, 2, RESOURCE_GPU, &overhead), 55);
}

static void test_sums_that_cannot_be(void **state)
{
    (void)state;
    struct container pod[] = {
        asks(CONTAINER_SIDECAR, RESOURCE_GPU_MEMORY, INT64_MAX),
        asks(CONTAINER_APP, RESOURCE_GPU_MEMORY, 1),
    };
    struct resources sum = {.amount = {7}};
    struct error err;
    assert_int_equal(request_effective(pod, 2, NULL, &sum, &err), -ERANGE);
    assert_string_equal(err.text,
                        "invalid resource unit koordinator.sh/gpu-memory: 9223372036854775807: "
                        "koordinator.sh/gpu-memory 9223372036854775807 and 1 more do not fit 64 bits");
    pod[1].role = CONTAINER_INIT;
    assert_int_equal(request_effective(pod, 2, NULL, &sum, &err), -ERANGE);
    assert_int_equal(request_effective(pod, 1, &pod[1].requests, &sum, &err), -ERANGE);

    pod[0].requests.amount[RESOURCE_GPU_MEMORY] = -1;
    assert_int_equal(request_effective(pod, 2, NULL, &sum, &err), -EINVAL);
    assert_string_equal(err.text, "invalid resource unit koordinator.sh/gpu-memory: -1: "
                                  "koordinator.sh/gpu-memory -1 of c is negative");
    assert_int_equal(request_effective(NULL, 0, &pod[0].requests, &sum, &err), -EINVAL);
    assert_int_equal(sum.amount[0], 7);
}

static void test_resource_names(void **state)
{
    (void)state;
    bool old = true;
    for (enum resource r = 0; r < RESOURCE_MAX; r++) {
        assert_int_equal(resource_find(str_from(resource_name(r)), &old), r);
        assert_false(old);
    }
    assert_int_equal(resource_find(STR("kubernetes.io/gpu"), &old), RESOURCE_GPU);
    assert_true(old);
    assert_int_equal(resource_find(STR("kubernetes.io/gpu-core"), &old), RESOURCE_GPU_CORE);
    assert_int_equal(resource_find(STR("kubernetes.io/gpu-memory"), &old), RESOURCE_GPU_MEMORY);
    assert_int_equal(resource_find(STR("kubernetes.io/gpu-memory-ratio"), &old),
                     RESOURCE_GPU_MEMORY_RATIO);
    assert_int_equal(resource_find(STR("kubernetes.io/rdma"), &old), RESOURCE_RDMA);
    assert_int_equal(resource_find(STR("kubernetes.io/fpga"), &old), RESOURCE_FPGA);
    assert_int_equal(resource_find(STR("cpu"), &old), RESOURCE_MAX);
    assert_int_equal(resource_find(STR("gpu"), &old), RESOURCE_MAX);
    assert_int_equal(resource_find((struct str){0}, &old), RESOURCE_MAX);
    assert_int_equal(resource_kind(RESOURCE_AMD_GPU), DEVICE_GPU);
    assert_int_equal(resource_kind(RESOURCE_RDMA), DEVICE_RDMA);
    assert_int_equal(resource_kind(RESOURCE_FPGA), DEVICE_FPGA);
}

/* Every set of the GPU names: 12 are allowed, as in Koordinator without NPUs; the others get
 * a text that is complete even with the longest values, names all of the set in order of bytes, and
 * names the offender after it. */
static void test_every_combination(void **state)
{
    (void)state;
    int allowed = 0, hami = 0;
    for (unsigned set = 1; set < 1u << RESOURCE_RDMA; set++) {
        struct resources ask = {0};
        struct error err = {0};
        for (enum resource r = 0; r < RESOURCE_RDMA; r++)
            if (set & 1u << r)
                ask.amount[r] = r == RESOURCE_GPU ? INT64_MAX / 100 * 100 : INT64_MAX;
        if (request_combination(&ask, DEVICE_GPU) == set) {
            allowed++;
            continue;
        }
        if (request_speaks_hami(&ask)) { /* judged container by container */
            hami++;
            assert_int_equal(request_validate(&ask, &err), 0);
            continue;
        }
        assert_int_equal(request_combination(&ask, DEVICE_GPU), 0);
        assert_int_equal(request_validate(&ask, &err), -EINVAL);
        assert_true(strlen(err.text) < REQUEST_TEXT_MAX);
        assert_null(strstr(err.text, "..."));
        const char *rule = strstr(err.text, "]: ");
        assert_non_null(rule);
        assert_true(strlen(rule) > 40);

        char last[64] = "";
        unsigned listed = 0;
        char *rest = strchr(err.text, '[') + 1;
        *strchr(rest, ']') = '\0';
        for (char *name = strtok(rest, " "); name; name = strtok(NULL, " ")) {
            bool old;
            assert_true(strcmp(last, name) < 0);
            snprintf(last, sizeof(last), "%s", name);
            listed |= 1u << resource_find(str_from(name), &old);
        }
        assert_int_equal(listed, set);
    }
    assert_int_equal(allowed, 12);
    assert_int_equal(hami, 14);
}

/* Koordinator converts by the names it is told, whatever else is asked for. */
static void test_convert(void **state)
{
    (void)state;
    struct resources ask = {0};
    struct amount total = {1, 2, 3};
    int64_t shared = 9;
    ask.amount[RESOURCE_NVIDIA_GPU] = 2;
    const uint32_t nvidia = 1u << RESOURCE_NVIDIA_GPU, core = 1u << RESOURCE_GPU_CORE;
    assert_false(request_convert(&ask, DEVICE_GPU, 0, &total, &shared));
    assert_false(request_convert(&ask, DEVICE_GPU, core, &total, &shared));
    assert_false(request_convert(&ask, DEVICE_GPU, nvidia | core, &total, &shared));
    assert_false(request_convert(&ask, DEVICE_RDMA, nvidia, &total, &shared));
    assert_int_equal(total.bytes, 3);
    assert_int_equal(shared, 9);
    assert_true(request_convert(&ask, DEVICE_GPU, nvidia, &total, &shared));
    assert_int_equal(total.percent, 200);
    assert_int_equal(total.ratio, 200);
    assert_int_equal(total.bytes, 0);
    assert_int_equal(shared, 0);
    ask.amount[RESOURCE_NVIDIA_GPU] = INT64_MAX / 100 + 1;
    assert_false(request_convert(&ask, DEVICE_GPU, nvidia, &total, &shared));
}

static void test_failure_leaves_the_output(void **state)
{
    (void)state;
    struct resources bad = {0};
    struct pod_request request = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0), before = request;
    bad.amount[RESOURCE_GPU_CORE] = 50;
    assert_int_equal(request_parse(&bad, &request, NULL), -EINVAL);
    assert_true(request_eq(&request, &before));
}

static void test_any_and_eq(void **state)
{
    (void)state;
    const struct pod_request none = {0};
    struct pod_request a = ask(RESOURCE_GPU, 50, RESOURCE_RDMA, 10), b = a;
    assert_false(request_any(&none));
    assert_true(request_any(&a));
    assert_true(request_eq(&a, &b));
    b.of[DEVICE_RDMA].each.percent++;
    assert_false(request_eq(&a, &b));
    b = a;
    b.of[DEVICE_GPU].whole = true;
    assert_false(request_eq(&a, &b));
    b = a;
    b.of[DEVICE_GPU].count++;
    assert_false(request_eq(&a, &b));
    b = a;
    b.of[DEVICE_GPU].named = 0;
    assert_false(request_eq(&a, &b));
    assert_false(request_eq(&a, &none));
    struct resources nothing = {0};
    assert_false(resources_any(&nothing));
    nothing.amount[RESOURCE_FPGA] = 1;
    assert_true(resources_any(&nothing));
}

/* One request in three spellings. */
static void test_spellings_agree(void **state)
{
    (void)state;
    struct pod_request vendor = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_MAX, 0);
    struct pod_request one = ask(RESOURCE_GPU, 200, RESOURCE_MAX, 0);
    struct pod_request two = ask(RESOURCE_GPU_CORE, 200, RESOURCE_GPU_MEMORY_RATIO, 200);
    assert_true(request_eq(&vendor, &one));
    assert_true(request_eq(&vendor, &two));
}

static void assert_amount(struct amount amount, int64_t percent, int64_t ratio, int64_t bytes)
{
    assert_int_equal(amount.percent, percent);
    assert_int_equal(amount.ratio, ratio);
    assert_int_equal(amount.bytes, bytes);
}

/* Cards of different size in one node take different shares of one request. */
static void test_on_card(void **state)
{
    (void)state;
    struct pod_request by_ratio = ask(RESOURCE_GPU, 50, RESOURCE_MAX, 0);
    struct pod_request by_bytes = ask(RESOURCE_GPU_CORE, 50, RESOURCE_GPU_MEMORY, 16 * GIB);
    struct amount big = gpu_of(80 * GIB), small = gpu_of(32 * GIB), no_bytes = gpu_of(0);
    struct amount no_ratio = {.percent = 100, .bytes = 32 * GIB}, sick = {0};

    const struct device_request *ratio = &by_ratio.of[DEVICE_GPU];
    assert_amount(request_on_card(ratio, &big), 50, 50, 40 * GIB);
    assert_amount(request_on_card(ratio, &small), 50, 50, 16 * GIB);
    assert_amount(request_on_card(ratio, &no_bytes), 50, 50, 0);
    assert_amount(request_on_card(ratio, &sick), 50, 50, 0);

    const struct device_request *bytes = &by_bytes.of[DEVICE_GPU];
    assert_amount(request_on_card(bytes, &big), 50, 20, 16 * GIB);
    assert_amount(request_on_card(bytes, &small), 50, 50, 16 * GIB);
    assert_amount(request_on_card(bytes, &no_ratio), 50, 0, 16 * GIB);
    assert_amount(request_on_card(bytes, &no_bytes), 50, 0, 16 * GIB);

    struct pod_request nic = ask(RESOURCE_RDMA, 30, RESOURCE_MAX, 0);
    assert_amount(request_on_card(&nic.of[DEVICE_RDMA], &(struct amount){.percent = 100}), 30, 0,
                  0);
}

/* Requests past every bound are derived without leaving int64 (UBSan watches). */
static void test_on_card_bounds(void **state)
{
    (void)state;
    struct pod_request bytes = ask(RESOURCE_GPU_MEMORY, INT64_MAX, RESOURCE_MAX, 0);
    struct amount tiny = gpu_of(1), huge = gpu_of(CARD_BYTES_MAX);
    assert_amount(request_on_card(&bytes.of[DEVICE_GPU], &tiny), 0, CARD_PERCENT_MAX, INT64_MAX);
    assert_amount(request_on_card(&bytes.of[DEVICE_GPU], &huge), 0, 100, INT64_MAX);
    struct pod_request ratio = bytes;
    ratio.of[DEVICE_GPU].each = (struct amount){INT64_MAX, INT64_MAX, 0};
    assert_amount(request_on_card(&ratio.of[DEVICE_GPU], &huge), INT64_MAX, INT64_MAX,
                  CARD_BYTES_MAX / 100 * CARD_PERCENT_MAX +
                      CARD_BYTES_MAX % 100 * CARD_PERCENT_MAX / 100);
}

static void assert_format(struct pod_request request, const char *expected)
{
    char text[128];
    size_t len = request_format(&request, text, sizeof(text));
    assert_string_equal(text, expected);
    assert_int_equal(len, strlen(expected));
}

static void test_format(void **state)
{
    (void)state;
    assert_format((struct pod_request){0}, "no devices");
    assert_format(ask(RESOURCE_GPU_CORE, 50, RESOURCE_GPU_MEMORY, 8 * GIB),
                  "1 gpu x 50% core, 8Gi");
    assert_format(ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_RDMA, 100), "2 whole gpu, 1 rdma x 100%");
    assert_format(ask(RESOURCE_GPU_MEMORY_RATIO, 100, RESOURCE_MAX, 0), "1 whole gpu");
    assert_format(ask(RESOURCE_GPU, 50, RESOURCE_MAX, 0), "1 gpu x 50% core, 50% memory");
    assert_format(ask(RESOURCE_GPU_MEMORY, 1, RESOURCE_FPGA, 20), "1 gpu x 1, 1 fpga x 20%");
    assert_format(ask(RESOURCE_GPU_CORE, 50, RESOURCE_GPU_MEMORY_RATIO, 200),
                  "2 gpu x 25% core, 100% memory");
    char text[12];
    struct pod_request two = ask(RESOURCE_NVIDIA_GPU, 2, RESOURCE_RDMA, 100);
    assert_int_equal(request_format(&two, text, sizeof(text)), 11);
    assert_string_equal(text, "2 whole ...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_containers_add_up),
        cmocka_unit_test(test_init_containers),
        cmocka_unit_test(test_sidecars),
        cmocka_unit_test(test_overhead),
        cmocka_unit_test(test_sums_that_cannot_be),
        cmocka_unit_test(test_resource_names),
        cmocka_unit_test(test_every_combination),
        cmocka_unit_test(test_convert),
        cmocka_unit_test(test_failure_leaves_the_output),
        cmocka_unit_test(test_any_and_eq),
        cmocka_unit_test(test_spellings_agree),
        cmocka_unit_test(test_on_card),
        cmocka_unit_test(test_on_card_bounds),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
