/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/constraints.h"

#define BIT(constraint) (UINT32_C(1) << (constraint))
#define REQUIRED        "\"requiredDuringSchedulingIgnoredDuringExecution\":"
#define PREFERRED       "\"preferredDuringSchedulingIgnoredDuringExecution\":"
#define NODE_AFFINITY(terms)                                                                       \
    "{\"spec\":{\"affinity\":{\"nodeAffinity\":{" REQUIRED "{\"nodeSelectorTerms\":[" terms "]}}}}}"
#define MODEL_IN                                                                                   \
    "{\"key\":\"nvidia.com/gpu.product\",\"operator\":\"In\",\"values\":[\"T4\"]}"

struct text_case {
    const char *json;
    uint32_t want;
};

static const struct text_case pods[] = {
    {"{}", 0},
    {"{\"spec\":{}}", 0},
    {"{\"spec\":{\"nodeSelector\":null,\"affinity\":null}}", 0},
    {"no JSON", 0},
    {"{\"spec\":{\"nodeSelector\":[1],\"affinity\":7,\"topologySpreadConstraints\":{}}}", 0},
    {"{\"spec\":{\"nodeSelector\":{\"node.koordinator.sh/gpu-model\":\"T4\"}}}", 0},
    {" {\"spec\":{\"nodeSelector\":{\"nvidia.com/gpu.product\":\"T4\",\"zone\":\"a\"}}} ",
     BIT(CONSTRAINT_SELECTOR)},
    {NODE_AFFINITY("{\"matchExpressions\":[" MODEL_IN "]}"), 0},
    {NODE_AFFINITY("{\"matchExpressions\":[" MODEL_IN "]},"
                   "{\"matchExpressions\":[" MODEL_IN ",{\"key\":\"zone\",\"operator\":\"Exists\"}]}"),
     BIT(CONSTRAINT_NODE_AFFINITY)},
    {NODE_AFFINITY("{\"matchExpressions\":[{\"key\":\"nvidia.com/gpu.product\","
                   "\"operator\":\"Gt\",\"values\":[\"3\"]}]}"),
     BIT(CONSTRAINT_NODE_AFFINITY)},
    {NODE_AFFINITY("{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\"}]}"),
     BIT(CONSTRAINT_NODE_AFFINITY)},
    {"{\"spec\":{\"affinity\":{\"nodeAffinity\":{" PREFERRED "[{\"weight\":1}]},"
     "\"podAffinity\":{" PREFERRED "[{\"weight\":1}]},\"podAntiAffinity\":{" REQUIRED "[]}}}}",
     0},
    {"{\"spec\":{\"affinity\":{\"podAffinity\":{" REQUIRED "[{}]}}}}",
     BIT(CONSTRAINT_POD_AFFINITY)},
    {"{\"spec\":{\"affinity\":{\"podAntiAffinity\":{" REQUIRED "[{}]}}}}",
     BIT(CONSTRAINT_POD_ANTI_AFFINITY)},
    {"{\"spec\":{\"topologySpreadConstraints\":[{\"whenUnsatisfiable\":\"ScheduleAnyway\"}]}}", 0},
    {"{\"spec\":{\"topologySpreadConstraints\":[{\"whenUnsatisfiable\":\"ScheduleAnyway\"},"
     "{\"whenUnsatisfiable\":\"DoNotSchedule\"}]}}",
     BIT(CONSTRAINT_SPREAD)},
};

static const struct text_case nodes[] = {
    {"{\"spec\":{\"unschedulable\":false,\"taints\":[]}}", 0},
    {"{\"spec\":{\"unschedulable\":true}}", BIT(CONSTRAINT_UNSCHEDULABLE)},
    {"{\"spec\":{\"taints\":[{\"key\":\"a\",\"effect\":\"PreferNoSchedule\"}]}}", 0},
    {"{\"spec\":{\"taints\":[{\"key\":\"a\",\"effect\":\"PreferNoSchedule\"},"
     "{\"key\":\"b\",\"effect\":\"NoSchedule\"}]}}",
     BIT(CONSTRAINT_TAINTS)},
};

static void check(const struct text_case *cases, size_t count, uint32_t (*of)(struct str))
{
    for (size_t i = 0; i < count; i++) {
        uint32_t got = of(str_from(cases[i].json));
        if (got != cases[i].want)
            fail_msg("%s: %#x, want %#x", cases[i].json, got, cases[i].want);
    }
}

static void test_pods(void **state)
{
    (void)state;
    check(pods, sizeof(pods) / sizeof(pods[0]), constraints_of_pod);
}

static void test_nodes(void **state)
{
    (void)state;
    check(nodes, sizeof(nodes) / sizeof(nodes[0]), constraints_of_node);
}

static void test_fields(void **state)
{
    (void)state;
    for (enum constraint i = 0; i < CONSTRAINT_MAX; i++)
        assert_int_equal(strncmp(constraint_field(i), "spec.", 5), 0);
    assert_string_equal(constraint_field(CONSTRAINT_TAINTS), "spec.taints");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
