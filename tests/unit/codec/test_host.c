/* SPDX-License-Identifier: Apache-2.0 */
/* CPU and memory of pods and nodes, and what Namespaces say. */
#include "codec/objects.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test_arena.h"

#define GIB (INT64_C(1) << 30)

static struct host_amount of_pod(const char *spec)
{
    struct strbuf json = {0};
    struct pod pod;
    struct error err = {0};
    strbuf_printf(&json, "{\"metadata\":{\"name\":\"p\"},\"spec\":%s}", spec);
    if (object_decode_pod((struct str){json.data, json.len}, &mem, &pod, &err) != 0)
        fail_msg("%s", err.text);
    strbuf_done(&json);
    return pod.host;
}

static struct node_facts of_node(const char *labels, const char *status)
{
    struct strbuf json = {0};
    struct node_facts facts;
    struct error err = {0};
    strbuf_printf(&json, "{\"metadata\":{\"name\":\"n\",\"labels\":%s},\"status\":%s}", labels,
                  status);
    struct str copy = arena_str(&mem, (struct str){json.data, json.len});
    if (object_decode_node(copy, &mem, &facts, &err) != 0)
        fail_msg("%s", err.text);
    strbuf_done(&json);
    return facts;
}

/* The sum of the containers, or a start that needs more; and what runs them. */
static void test_pods(void **state)
{
    (void)state;
    struct host_amount host = of_pod(
        "{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1500m\",\"memory\":\"1Gi\"}}},"
        "{\"resources\":{\"requests\":{\"cpu\":2,\"memory\":\"512Mi\"}}}],"
        "\"overhead\":{\"cpu\":\"0.25\"}}");
    assert_int_equal(host.cpu_milli, 3750);
    assert_int_equal(host.memory_bytes, GIB + GIB / 2);

    host = of_pod("{\"initContainers\":["
                  "{\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"1\"}}},"
                  "{\"resources\":{\"requests\":{\"cpu\":\"7\",\"memory\":\"1Gi\"}}}],"
                  "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"2\"}}}]}");
    assert_int_equal(host.cpu_milli, 8000);
    assert_int_equal(host.memory_bytes, GIB);
}

/* Amounts of the pod as a whole replace those of its containers, each by itself. */
static void test_pod_level(void **state)
{
    (void)state;
    struct host_amount host = of_pod(
        "{\"resources\":{\"requests\":{\"cpu\":\"6\"}},\"overhead\":{\"cpu\":\"1\"},\"containers\":["
        "{\"resources\":{\"requests\":{\"cpu\":\"2\",\"memory\":\"1Gi\"}}}]}");
    assert_int_equal(host.cpu_milli, 7000);
    assert_int_equal(host.memory_bytes, GIB);
}

/* It is not ours to judge these. */
static void test_what_is_no_amount(void **state)
{
    (void)state;
    struct host_amount host =
        of_pod("{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"many\",\"memory\":[]}}},"
               "{\"resources\":{\"requests\":{\"cpu\":\"-2\",\"memory\":\"1e40\"}}}]}");
    assert_int_equal(host.cpu_milli, 0);
    assert_int_equal(host.memory_bytes, HOST_MEMORY_BYTES_MAX);
}

static void test_nodes(void **state)
{
    (void)state;
    struct node_facts facts =
        of_node("{\"nvidia.com/gpu.product\":\"A10\"}",
                "{\"capacity\":{\"cpu\":\"64\",\"memory\":\"4Gi\"},\"allocatable\":{\"cpu\":"
                "\"63500m\"}}");
    assert_int_equal(facts.allocatable.cpu_milli, 63500);
    assert_int_equal(facts.allocatable.memory_bytes, 4 * GIB);
    assert_true(str_is(facts.gpu_model, "A10"));

    facts = of_node("{\"node.koordinator.sh/gpu-model\":\"Tesla-T4\",\"nvidia.com/gpu.product\":"
                    "\"A10\"}", "{}");
    assert_int_equal(facts.allocatable.cpu_milli, 0);
    assert_true(str_is(facts.gpu_model, "Tesla-T4"));
    assert_int_equal(of_node("null", "{}").gpu_model.len, 0);
    assert_int_equal(of_node("{\"a\":\"b\"}", "{}").gpu_model.len, 0);
}

static void test_namespaces(void **state)
{
    (void)state;
    struct str name;
    struct policy_words labels;
    struct error err = {0};
    assert_int_equal(
        object_decode_namespace(STR("{\"metadata\":{\"name\":\"ml\",\"labels\":{"
                                    "\"deviceshare.io/node-policy\":\"pack\","
                                    "\"deviceshare.io/node-policy-strength\":\"require\","
                                    "\"hami.io/gpu-scheduler-policy\":\"spread\"}}}"),
                                &mem, &name, &labels, &err), 0);
    assert_true(str_is(name, "ml") && str_is(labels.node, "pack"));
    assert_true(str_is(labels.strength, "require"));
    assert_null(labels.device.data);
    assert_null(labels.hami_device.data);
    assert_int_equal(object_decode_namespace(STR("{\"metadata\":{\"name\":\"ml\"}}"), &mem, &name,
                                             &labels, &err), 0);
    assert_null(labels.node.data);
    assert_int_equal(object_decode_namespace(STR("{\"metadata\":{\"name\":\"ml\",\"labels\":{"
                                                 "\"deviceshare.io/device-policy\":1}}}"),
                                             &mem, &name, &labels, &err), -EINVAL);
    assert_string_equal(err.text,
                        "metadata.labels[\"deviceshare.io/device-policy\"]: must be a string");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pods, arena_setup, arena_teardown),
        cmocka_unit_test_setup_teardown(test_pod_level, arena_setup, arena_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_amount, arena_setup, arena_teardown),
        cmocka_unit_test_setup_teardown(test_nodes, arena_setup, arena_teardown),
        cmocka_unit_test_setup_teardown(test_namespaces, arena_setup, arena_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
