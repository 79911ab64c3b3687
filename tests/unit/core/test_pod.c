/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pod.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Two containers that ask for something. */
static struct pod make(struct container containers[2])
{
    containers[0] = (struct container){.name = STR("a"), .role = CONTAINER_INIT};
    containers[0].requests.amount[RESOURCE_GPU] = 150;
    containers[1] = (struct container){.name = STR("b"), .role = CONTAINER_APP};
    containers[1].requests.amount[RESOURCE_GPU_CORE] = 7;
    return (struct pod){.id = {STR("ns"), STR("p"), STR("u")},
                        .containers = containers,
                        .container_count = 2};
}

static void test_pods_that_ask_for_the_same_have_one_print(void **state)
{
    (void)state;
    struct container a[2], b[2];
    struct pod left = make(a), right = make(b);
    right.id.uid = STR("another");
    right.node_name = STR("n");
    b[0].host.cpu_milli = 500;
    assert_true(pod_request_print(&left) == pod_request_print(&right));
}

static void test_pods_that_ask_for_something_else_have_another(void **state)
{
    (void)state;
    struct container containers[2];
    struct pod pod = make(containers);
    const uint64_t print = pod_request_print(&pod);
    for (unsigned resource = 0; resource < RESOURCE_MAX; resource++) {
        for (int64_t change = -1; change <= 1; change += 2) {
            containers[0].requests.amount[resource] += change;
            assert_true(pod_request_print(&pod) != print);
            pod = make(containers);
            pod.overhead.amount[resource] += change;
            assert_true(pod_request_print(&pod) != print);
            pod = make(containers);
        }
    }
    containers[0].role = CONTAINER_SIDECAR;
    assert_true(pod_request_print(&pod) != print);
    pod = make(containers);
    pod.container_count = 1;
    assert_true(pod_request_print(&pod) != print);
    pod = make(containers);
    struct resources other = containers[0].requests;
    containers[0].requests = containers[1].requests;
    containers[1].requests = other;
    assert_true(pod_request_print(&pod) != print);
    pod = make(containers);
    pod.request_problem = STR("out of range");
    assert_true(pod_request_print(&pod) != print);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_that_ask_for_the_same_have_one_print),
        cmocka_unit_test(test_pods_that_ask_for_something_else_have_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
