/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "body.h"
#include "codec/objects.h"

#define GIB (INT64_C(1) << 30)

static struct arena mem;
static struct error err;

static int start(void **state)
{
    (void)state;
    arena_init(&mem, 0);
    memset(&err, 0, sizeof(err));
    return 0;
}

static int finish(void **state)
{
    (void)state;
    arena_done(&mem);
    return 0;
}

static void assert_str(struct str text, const char *expected)
{
    if (!str_is(text, expected))
        fail_msg("\"%.*s\" is not \"%s\"", STR_ARG(text), expected);
}

/* ---- heads and lists ---- */

static struct object_head head_of(const char *json)
{
    struct object_head head;
    struct str copy = body_copy(str_from(json));
    if (object_head(copy, &mem, &head, &err) != 0)
        fail_msg("%s", err.text);
    body_free(copy);
    return head;
}

static void refuse_head(const char *json, const char *sentence)
{
    struct object_head head;
    assert_int_equal(object_head(str_from(json), &mem, &head, &err), -EINVAL);
    assert_string_equal(err.text, sentence);
}

static void test_head(void **state)
{
    (void)state;
    struct object_head head =
        head_of("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\","
                "\"namespace\":\"n\",\"uid\":\"u\"}}");
    assert_int_equal(head.kind, KIND_POD);
    assert_str(head.api_version, "v1");
    assert_str(head.kind_name, "Pod");
    assert_str(head.name, "p");
    assert_str(head.ns, "n");
    assert_str(head.uid, "u");
    head = head_of("{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}");
    assert_int_equal(head.kind, KIND_NODE);
    head = head_of("{\"apiVersion\":\"scheduling.koordinator.sh/v1alpha1\",\"kind\":\"Device\","
                   "\"metadata\":{\"name\":\"n\"}}");
    assert_int_equal(head.kind, KIND_DEVICE);
    head = head_of("{\"apiVersion\":\"v1\",\"kind\":\"List\"}");
    assert_int_equal(head.kind, KIND_LIST);
    head = head_of("{\"apiVersion\":\"apps/v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"n\"}}");
    assert_int_equal(head.kind, KIND_OTHER);
}

static void test_bad_heads(void **state)
{
    (void)state;
    refuse_head("", "object: empty");
    refuse_head("[]", "object: must be an object");
    refuse_head("{", "object: not valid JSON, unexpected end at byte 1");
    refuse_head("{}", "kind: must not be empty");
    refuse_head("{\"kind\":\"Pod\"}", "metadata.name: must not be empty");
    refuse_head("{\"kind\":\"Pod\",\"metadata\":{\"name\":1}}", "metadata.name: must be a string");
    refuse_head("{\"kind\":\"Pod\",\"metadata\":[]}", "metadata: must be an object");
}

static void test_identity_of_a_list_item(void **state)
{
    (void)state;
    struct object_head head;
    struct str copy = body_copy(STR("{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"},\"spec\":7}"));
    assert_int_equal(object_identity(copy, &mem, &head, &err), 0);
    body_free(copy);
    assert_str(head.name, "p");
    assert_str(head.uid, "u");
    assert_int_equal(head.ns.len, 0);
    assert_int_equal(object_identity(STR("{\"kind\":\"Pod\"}"), &mem, &head, &err), -EINVAL);
    assert_string_equal(err.text, "metadata.name: must not be empty");
    assert_int_equal(object_identity(STR("{\"metadata\":{}"), &mem, &head, NULL), -EINVAL);
}

static void test_list_items(void **state)
{
    (void)state;
    const struct str *items = NULL;
    uint32_t count = 77;
    struct str list = body_copy(STR("{\"items\": [ {\"a\": [1,2]} , 3 ,null]}"));
    assert_int_equal(object_list_items(list, &mem, &items, &count, &err), 0);
    body_free(list);
    assert_int_equal(count, 3);
    assert_str(items[0], "{\"a\": [1,2]}");
    assert_str(items[1], "3");
    assert_str(items[2], "null");
    assert_int_equal(object_list_items(STR("{\"items\":null}"), &mem, &items, &count, &err), 0);
    assert_int_equal(count, 0);
    assert_int_equal(object_list_items(STR("{}"), &mem, &items, &count, &err), 0);
    assert_int_equal(object_list_items(STR("{\"items\":{}}"), &mem, &items, &count, &err), -EINVAL);
    assert_string_equal(err.text, "items: must be an array");
}

/* ---- Pod ---- */

static struct pod pod_of(const char *json)
{
    struct pod pod;
    struct str copy = body_copy(str_from(json));
    if (object_decode_pod(copy, &mem, &pod, &err) != 0)
        fail_msg("%s", err.text);
    body_free(copy);
    return pod;
}

static void test_pod_life(void **state)
{
    (void)state;
    struct pod pod =
        pod_of("{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"n1\",\"priority\":-7},"
               "\"status\":{\"phase\":\"Running\",\"nominatedNodeName\":\"n2\"}}");
    assert_str(pod.node_name, "n1");
    assert_str(pod.nominated_node, "n2");
    assert_int_equal(pod.priority, -7);
    assert_false(pod.finished);
    assert_false(pod.deleting);
    assert_true(pod_of("{\"status\":{\"phase\":\"Succeeded\"}}").finished);
    assert_true(pod_of("{\"status\":{\"phase\":\"Failed\"}}").finished);
    assert_false(pod_of("{\"status\":{\"phase\":\"failed\"}}").finished);
    pod = pod_of("{\"metadata\":{\"deletionTimestamp\":\"2026-11-20T08:15:30Z\"}}");
    assert_true(pod.deleting); /* and holds its cards */
    assert_false(pod.finished);
    assert_false(pod_of("{\"metadata\":{\"deletionTimestamp\":null}}").deleting);
}

static void test_pod_requests_not_limits(void **state)
{
    (void)state;
    struct pod pod =
        pod_of("{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"8\"},"
               "\"requests\":{\"nvidia.com/gpu\":\"2\",\"cpu\":\"rubbish\"}}},null],"
               "\"overhead\":{\"koordinator.sh/rdma\":\"3\"}}}");
    assert_int_equal(pod.container_count, 2);
    assert_int_equal(pod.containers[0].requests.amount[RESOURCE_NVIDIA_GPU], 2);
    assert_false(resources_any(&pod.containers[1].requests));
    assert_int_equal(pod.overhead.amount[RESOURCE_RDMA], 3);
}

/* The API server stores 12E (1.2e19), and kube-scheduler sends it on. */
static void test_pod_that_asks_for_more_than_64_bits(void **state)
{
    (void)state;
    struct pod pod = pod_of("{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"n1\",\"containers\":["
                            "{\"resources\":{\"requests\":{\"koordinator.sh/gpu-memory\":\"12E\"}}}]}}");
    assert_str(pod.request_problem, "invalid resource unit spec.containers[0].resources.requests"
                                    "[\"koordinator.sh/gpu-memory\"]: quantity \"12E\" does not fit 64 bits");
    assert_str(pod.id.name, "p");
    assert_str(pod.node_name, "n1");
    assert_int_equal(pod.container_count, 0);
}

static void test_pod_that_says_where_it_wants_to_go(void **state)
{
    (void)state;
    struct pod pod = pod_of("{\"metadata\":{\"annotations\":{"
                            "\"deviceshare.io/node-policy\":\"binpack\","
                            "\"deviceshare.io/device\\u002dpolicy\":\"spre\\u0061d\","
                            "\"deviceshare.io/node-policy-strength\":\"\","
                            "\"hami.io/node-scheduler-policy\":\"old\","
                            "\"hami.io/node-scheduler-policy\":\"spread\","
                            "\"hami.io/gpu-scheduler-policy\":null,\"x\":5}}}");
    assert_str(pod.policy_words.node, "binpack");
    assert_str(pod.policy_words.device, "spread");
    assert_non_null(pod.policy_words.strength.data); /* given, and no strength */
    assert_int_equal(pod.policy_words.strength.len, 0);
    assert_str(pod.policy_words.hami_node, "spread");
    assert_null(pod.policy_words.hami_device.data);
    assert_int_equal(object_decode_pod(STR("{\"metadata\":{\"annotations\":{"
                                           "\"deviceshare.io/node-policy\":1}}}"),
                                       &mem, &pod, &err),
                     -EINVAL);
    assert_string_equal(err.text, "metadata.annotations[\"deviceshare.io/node-policy\"]: "
                                  "must be a string");
}

#define WITH_ANNOTATION(value)                                                                     \
    "{\"metadata\":{\"annotations\":{\"x\":5,"                                                     \
    "\"scheduling.koordinator.sh/device-allocated\":" value "}}}"

static void test_pod_whose_request_cannot_be_read(void **state)
{
    (void)state;
    static const char json[] = "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"},\"spec\":{"
                               "\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\",\"resources\":"
                               "{\"requests\":{\"nvidia.com/gpu\":\"two\"}}}]}}";
    struct pod pod;
    assert_int_equal(object_decode_pod(str_from(json), &mem, &pod, &err), -EINVAL);
    assert_int_equal(object_decode_pod_place(str_from(json), &mem, &pod, &err), 0);
    assert_str(pod.request_problem, "the device request cannot be read");
    assert_str(pod.id.uid, "u");
    assert_str(pod.node_name, "n");
    assert_int_equal(pod.container_count, 0);
    assert_int_equal(object_decode_pod_place(STR("{\"spec\":[]}"), &mem, &pod, &err), -EINVAL);
    assert_int_equal(pod_of("{\"metadata\":{\"name\":\"p\"}}").request_problem.len, 0);
}

static void test_pod_annotation(void **state)
{
    (void)state;
    struct pod pod = pod_of(WITH_ANNOTATION("\"{\\\"gpu\\\":[{\\\"minor\\\":4,\\\"resources\\\":"
                                            "{\\\"koordinator.sh/gpu-core\\\":\\\"25\\\"}}]}\""));
    assert_int_equal(pod.annotation, ANNOTATION_READ);
    assert_int_equal(pod.share_count, 1);
    assert_int_equal(pod.shares[0].minor, 4);
    assert_int_equal(pod.shares[0].amount.percent, 25);

    assert_int_equal(pod_of(WITH_ANNOTATION("null")).annotation, ANNOTATION_ABSENT);
    assert_int_equal(pod_of("{}").annotation, ANNOTATION_ABSENT);
    assert_int_equal(pod_of(WITH_ANNOTATION("\"\"")).annotation, ANNOTATION_UNREADABLE);
    assert_int_equal(pod_of(WITH_ANNOTATION("\"{\\\"gpu\\\":\"")).annotation,
                     ANNOTATION_UNREADABLE);
    pod = pod_of(WITH_ANNOTATION("\"{\\\"gpu\\\":[{\\\"minor\\\":-4}]}\""));
    assert_int_equal(pod.annotation, ANNOTATION_UNREADABLE);
    assert_int_equal(pod.share_count, 0);

    struct pod untouched = {.priority = 9};
    assert_int_equal(object_decode_pod(STR(WITH_ANNOTATION("7")), &mem, &untouched, &err), -EINVAL);
    assert_string_equal(err.text,
                        "metadata.annotations[\"scheduling.koordinator.sh/device-allocated\"]: "
                        "must be a string");
    assert_int_equal(untouched.priority, 9);
}

static void test_annotation_text_is_whole(void **state)
{
    (void)state;
    struct str body = BODY("requests/filter-names-odd-pod.json");
    struct str text;
    size_t begin = strlen("{\"Pod\":");
    const char *end = body_find(body, ",\"Nodes\":null");
    struct str pod = {body.data + begin, (size_t)(end - body.data) - begin};
    assert_int_equal(object_annotation(pod, "example.com/ctrl", &mem, &text, &err), 0);
    assert_int_equal(text.len, 41);
    assert_int_equal(text.data[30], '\0');
    assert_ptr_equal(memchr(text.data, '\0', text.len), text.data + 30);
    assert_int_equal(object_annotation(pod, "example.com/html", &mem, &text, &err), 0);
    assert_str(text, "<b>a & b</b>");
    assert_int_equal(object_annotation(pod, "example.com/empty", &mem, &text, &err), 0);
    assert_non_null(text.data);
    assert_int_equal(text.len, 0);
    assert_int_equal(object_annotation(pod, "example.com/CTRL", &mem, &text, &err), 0);
    assert_null(text.data);
    body_free(body);
    assert_int_equal(object_annotation(STR("{\"metadata\":{\"annotations\":{\"a\":1}}}"), "a", &mem,
                                       &text, &err),
                     -EINVAL);
    assert_string_equal(err.text, "metadata.annotations[\"a\"]: must be a string");
}

/* ---- Device ---- */

static void test_device(void **state)
{
    (void)state;
    struct str node;
    struct inventory inventory;
    uint32_t skipped = 77;
    struct str json = body_copy(STR(
        "{\"apiVersion\":\"scheduling.koordinator.sh/"
        "v1alpha1\",\"kind\":\"Device\",\"metadata\":{\"name\":\"n1\"},"
        "\"spec\":{\"devices\":[{\"type\":\"gpu\",\"id\":\"GPU-a\",\"minor\":0,\"health\":true,"
        "\"moduleID\":1,"
        "\"resources\":{\"koordinator.sh/gpu-core\":\"100\",\"koordinator.sh/"
        "gpu-memory\":17179869184,"
        "\"koordinator.sh/"
        "gpu-memory-ratio\":100},\"topology\":{\"socketID\":-1,\"nodeID\":0,\"pcieID\":\"pci0\"}},"
        "{\"type\":\"gpu\",\"minor\":1,\"health\":false,\"resources\":{\"kubernetes.io/"
        "gpu-memory\":\"16Gi\"}},"
        "{\"type\":\"rdma\",\"minor\":1,\"id\":\"0000:1f:00.0\",\"health\":true,\"resources\":"
        "{\"koordinator.sh/rdma\":\"100\",\"example.com/"
        "x\":\"?\"}},{\"type\":\"fpga\",\"minor\":0}]}}"));
    assert_int_equal(object_decode_device(json, &mem, &node, &inventory, &skipped, &err), 0);
    body_free(json);
    assert_str(node, "n1");
    assert_int_equal(skipped, 0);
    assert_int_equal(inventory.count, 4);
    const struct device *d = inventory.devices;
    assert_int_equal(d[0].kind, DEVICE_GPU);
    assert_true(d[0].healthy);
    assert_str(d[0].id, "GPU-a");
    assert_int_equal(d[0].total.percent, 100);
    assert_int_equal(d[0].total.ratio, 100);
    assert_int_equal(d[0].total.bytes, 16 * GIB);
    assert_false(d[1].healthy); /* keeps what it states */
    assert_int_equal(d[1].total.bytes, 16 * GIB);
    assert_int_equal(d[1].id.len, 0);
    assert_int_equal(d[2].kind, DEVICE_RDMA);
    assert_int_equal(d[2].total.percent, 100);
    assert_int_equal(d[3].kind, DEVICE_FPGA);
    assert_false(d[3].healthy); /* the default */
}

static void test_device_leaves_bad_entries_out(void **state)
{
    (void)state;
    struct str node;
    struct inventory inventory;
    uint32_t skipped;
    struct str json = STR(
        "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"devices\":[{\"type\":\"gpu\",\"minor\":3},"
        "{\"type\":\"gpu\"},{\"type\":\"npu\",\"minor\":0},{\"type\":\"gpu\",\"minor\":3},null,7,"
        "{\"minor\":4},{\"type\":\"gpu\",\"minor\":-1},{\"type\":\"gpu\",\"minor\":\"4\"},"
        "{\"type\":\"gpu\",\"minor\":4,\"resources\":{\"koordinator.sh/gpu-memory\":\"65Ti\"}},"
        "{\"type\":\"gpu\",\"minor\":4,\"resources\":{\"koordinator.sh/gpu-core\":\"-1\"}},"
        "{\"type\":\"gpu\",\"minor\":4,\"health\":\"true\"},{\"type\":\"gpu\",\"minor\":4,\"id\":"
        "\"a\\u0000b\"},"
        "{\"type\":\"gpu\",\"minor\":4,\"id\":"
        "\"0123456789012345678901234567890123456789012345678901234567890123456"
        "78901234567890123456789012345\"},"
        "{\"type\":\"rdma\",\"minor\":3}]}}");
    assert_int_equal(object_decode_device(json, &mem, &node, &inventory, &skipped, &err), 0);
    assert_int_equal(skipped, 13);
    assert_string_equal(err.text, "spec.devices[1].minor: must be given");
    assert_int_equal(inventory.count, 2);
    assert_int_equal(inventory.devices[0].minor, 3);
    assert_int_equal(inventory.devices[1].kind, DEVICE_RDMA);
}

static void test_device_with_too_many_cards(void **state)
{
    (void)state;
    struct strbuf json = {0};
    strbuf_puts(&json, "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"devices\":[");
    for (int i = 0; i < CARDS_PER_NODE_MAX + 3; i++)
        strbuf_printf(&json, "%s{\"type\":\"gpu\",\"minor\":%d}", i > 0 ? "," : "", i);
    strbuf_puts(&json, "]}}");
    struct str node;
    struct inventory inventory;
    uint32_t skipped;
    assert_int_equal(object_decode_device((struct str){json.data, json.len}, &mem, &node,
                                          &inventory, &skipped, &err),
                     0);
    strbuf_done(&json);
    assert_int_equal(inventory.count, CARDS_PER_NODE_MAX);
    assert_int_equal(skipped, 3);
    assert_string_equal(err.text, "spec.devices[256]: more cards than a node can have");
}

/* ---- which models a pod may use ---- */

/* Models as bits, of 0 = no name, 1 = A10, 2 = T4, 3 = any other, that a spec allows. */
static uint64_t models_of(const char *spec)
{
    const struct str names[] = {STR(""), STR("A10"), STR("T4")};
    struct pod pod;
    struct strbuf json = {0};
    strbuf_printf(&json, "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"},\"spec\":{%s}}", spec);
    struct str copy = body_copy((struct str){json.data, json.len});
    if (object_decode_pod(copy, &mem, &pod, &err) != 0)
        fail_msg("%s: %s", spec, err.text);
    body_free(copy);
    strbuf_done(&json);
    return models_allowed(&pod.models, names, 3) & 0xf;
}

#define TERMS(terms)                                                                               \
    "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"         \
    "\"nodeSelectorTerms\":[" terms "]}}}"
#define MATCH(label, operator, values)                                                             \
    "{\"matchExpressions\":[{\"key\":\"" label "\",\"operator\":\"" operator "\"" values "}]}"
#define PRODUCT "nvidia.com/gpu.product"
#define MODEL   "node.koordinator.sh/gpu-model"

static void test_pod_models(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint64_t models;
    } cases[] = {
        {"\"nodeName\":\"\"", 0xf},
        {"\"nodeSelector\":{\"disk\":\"ssd\"}", 0xf},
        {"\"nodeSelector\":{\"" PRODUCT "\":\"T4\"}", 4},
        {"\"nodeSelector\":{\"a\":\"b\",\"" MODEL "\":\"A10\"}", 2},
        {"\"nodeSelector\":{\"" MODEL "\":\"A10\",\"" PRODUCT "\":\"T4\"}", 0},
        {TERMS(MATCH(PRODUCT, "In", ",\"values\":[\"T4\",\"A10\"]")), 6},
        {TERMS(MATCH(PRODUCT, "NotIn", ",\"values\":[\"T4\"]")), 0xb},
        {TERMS(MATCH(MODEL, "Exists", "")), 0xe},
        {TERMS(MATCH(MODEL, "DoesNotExist", ",\"values\":null")), 1},
        {TERMS(MATCH(MODEL, "Gt", ",\"values\":[\"3\"]")), 0xf},
        {TERMS(MATCH("zone", "In", ",\"values\":[\"a\"]")), 0xf},
        {TERMS(MATCH(MODEL, "In", ",\"values\":[\"A10\"]") "," MATCH(
             MODEL, "In", ",\"values\":[\"T4\"]")),
         6},
        {TERMS(MATCH(MODEL, "In", ",\"values\":[\"A10\"]") "," MATCH("zone", "Exists", "")), 0xf},
        {"\"nodeSelector\":{\"" MODEL "\":\"T4\"}," TERMS(
             MATCH(MODEL, "NotIn", ",\"values\":[\"A10\"]")),
         4},
        {TERMS("{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":["
               "\"n\"]}]}"),
         0xf},
        {TERMS(""), 0xf},
        /* of another type: for kube-scheduler to refuse, not for us */
        {"\"nodeSelector\":7", 0xf},
        {"\"nodeSelector\":{\"" MODEL "\":7}", 0xf},
        {"\"affinity\":{\"nodeAffinity\":[]}", 0xf},
        {TERMS("7"), 0xf},
        {TERMS(MATCH(MODEL, "In", ",\"values\":7")), 0xf},
        {TERMS(MATCH(MODEL, "In", ",\"values\":[7]")), 0xf},
        {"\"affinity\":{\"podAffinity\":{}}", 0xf},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t models = models_of(cases[i].spec);
        if (models != cases[i].models)
            fail_msg("%s: %#llx", cases[i].spec, (unsigned long long)models);
    }
}

/* A rule past the bound says nothing, one at it is read. */
static void test_pod_models_are_bounded(void **state)
{
    (void)state;
    for (int names = MODEL_NAMES_MAX; names <= MODEL_NAMES_MAX + 1; names++) {
        struct strbuf spec = {0};
        strbuf_puts(&spec, "\"affinity\":{\"nodeAffinity\":{"
                           "\"requiredDuringSchedulingIgnoredDuringExecution\":{"
                           "\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"" MODEL
                           "\",\"operator\":\"In\",\"values\":[\"T4\"");
        for (int i = 1; i < names; i++)
            strbuf_printf(&spec, ",\"m%d\"", i);
        strbuf_puts(&spec, "]}]}]}}}");
        strbuf_putc(&spec, '\0');
        assert_int_equal(models_of(spec.data), names == MODEL_NAMES_MAX ? 4 : 0xf);
        strbuf_done(&spec);
    }
}

/* ---- links between cards ---- */

#define GPU(minor, topology)                                                                       \
    "{\"type\":\"gpu\",\"minor\":" minor ",\"health\":true,\"topology\":" topology "}"
#define AT(numa, pcie) "{\"socketID\":-1,\"nodeID\":" numa ",\"pcieID\":\"" pcie "\"}"

/* A Device with these entries and this table of partitions, NULL for none. */
static struct inventory with_links(const char *entries, const char *table, uint32_t want_skipped)
{
    struct str node;
    struct inventory inventory;
    struct strbuf json = {0};
    uint32_t skipped;
    strbuf_puts(&json, "{\"metadata\":{\"name\":\"n1\"");
    if (table != NULL)
        strbuf_printf(&json, ",\"annotations\":{\"%s\":%s}",
                      "scheduling.koordinator.sh/gpu-partitions", table);
    strbuf_printf(&json, "},\"spec\":{\"devices\":[%s]}}", entries);
    struct str copy = body_copy((struct str){json.data, json.len});
    assert_int_equal(object_decode_device(copy, &mem, &node, &inventory, &skipped, &err), 0);
    body_free(copy);
    strbuf_done(&json);
    assert_int_equal(skipped, want_skipped);
    return inventory;
}

static void assert_group(const struct inventory *inventory, uint32_t at, enum link link,
                         uint64_t minors)
{
    assert_true(at < inventory->links.count);
    assert_int_equal(inventory->links.groups[at].link, link);
    assert_int_equal(inventory->links.groups[at].minors, minors);
}

static void test_device_topology(void **state)
{
    (void)state;
    struct inventory inventory = with_links(
        GPU("0", AT("0", "a")) "," GPU("1", AT("0", "a")) "," GPU("2", AT("0", "b")) "," GPU(
            "5", AT("1", "b")) "," GPU("6", AT("1", "c")) ","
        "{\"type\":\"rdma\",\"minor\":7,\"topology\":" AT("0", "a") "}",
        NULL, 0);
    assert_int_equal(inventory.count, 6);
    assert_int_equal(inventory.links.count, 4);
    assert_group(&inventory, 0, LINK_NUMA, 0x07);
    assert_group(&inventory, 1, LINK_PCIE, 0x03);
    assert_group(&inventory, 2, LINK_PCIE, 0x24);
    assert_group(&inventory, 3, LINK_NUMA, 0x60);
}

/* Nobody loses a card over its topology. */
static void test_device_topology_that_says_nothing(void **state)
{
    (void)state;
    struct inventory inventory = with_links(
        GPU("0", "7") "," GPU("1", "{}") "," GPU("2", "null") "," GPU("3", AT("-1", "")) "," GPU(
            "4", AT("-1", "")) "," GPU("5", "{\"nodeID\":\"0\",\"pcieID\":1}") "," GPU(
            "64", AT("0", "a")) "," GPU("65", AT("0", "a")),
        NULL, 0);
    assert_int_equal(inventory.count, 8);
    assert_int_equal(inventory.links.count, 0);
}

static void test_device_partitions(void **state)
{
    (void)state;
    struct inventory inventory = with_links(
        GPU("0", AT("0", "a")) "," GPU("1", AT("0", "b")),
        "\"{\\\"1\\\":[{\\\"minors\\\":[0],\\\"gpuLinkType\\\":\\\"NVLink\\\"}],"
        "\\\"2\\\":[{\\\"minors\\\":[0,1],\\\"allocationScore\\\":1},{\\\"minors\\\":[1,0]},"
        "{\\\"minors\\\":[2,3]},{\\\"minors\\\":[1,64]},{}]}\"",
        0);
    assert_int_equal(inventory.links.count, 3);
    assert_group(&inventory, 0, LINK_NUMA, 0x03);
    assert_group(&inventory, 1, LINK_PARTITION, 0x03);
    assert_group(&inventory, 2, LINK_PARTITION, 0x0c);
}

static void test_bad_device_partitions(void **state)
{
    (void)state;
    static const struct {
        const char *table, *text;
    } bad[] = {
        {"7", ": must be a string"},
        {"\"\"", NULL},
        {"\"[]\"", NULL},
        {"\"{\\\"2\\\":[{\\\"minors\\\":[0,1]}],\\\"4\\\":7}\"", NULL},
        {"\"{\\\"2\\\":[{\\\"minors\\\":[0,-1]}]}\"", NULL},
        {"\"{\\\"2\\\":[{\\\"minors\\\":{}}]}\"", NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct inventory inventory =
            with_links(GPU("0", AT("0", "a")) "," GPU("1", AT("0", "a")), bad[i].table, 1);
        static const char path[] =
            "metadata.annotations[\"scheduling.koordinator.sh/gpu-partitions\"]";
        assert_memory_equal(err.text, path, sizeof path - 1);
        if (bad[i].text != NULL)
            assert_string_equal(err.text + sizeof path - 1, bad[i].text);
        assert_int_equal(inventory.count, 2);
        assert_int_equal(inventory.links.count, 2); /* what the entries tell stays */
    }
}

static void test_bad_devices(void **state)
{
    (void)state;
    struct str node;
    struct inventory inventory = {.count = 77};
    uint32_t skipped;
    assert_int_equal(
        object_decode_device(STR("{\"spec\":{}}"), &mem, &node, &inventory, &skipped, &err),
        -EINVAL);
    assert_string_equal(err.text, "metadata.name: must not be empty");
    assert_int_equal(
        object_decode_device(STR("{\"metadata\":{\"name\":\"n\"},\"spec\":{\"devices\":{}}}"), &mem,
                             &node, &inventory, &skipped, &err),
        -EINVAL);
    assert_string_equal(err.text, "spec.devices: must be an array");
    assert_int_equal(inventory.count, 77);
    assert_int_equal(object_decode_device(STR("{\"metadata\":{\"name\":\"n\"}}"), &mem, &node,
                                          &inventory, &skipped, &err),
                     0);
    assert_int_equal(inventory.count, 0);
}

/* ---- Node ---- */

static bool plugin_of(const char *status)
{
    struct node_facts facts = {0};
    struct strbuf json = {0};
    strbuf_printf(&json, "{\"metadata\":{\"name\":\"n1\"},\"status\":%s}", status);
    struct str copy = body_copy((struct str){json.data, json.len});
    if (object_decode_node(copy, &mem, &facts, &err) != 0)
        fail_msg("%s", err.text);
    body_free(copy);
    strbuf_done(&json);
    assert_str(facts.name, "n1");
    return facts.device_plugin;
}

static void test_node_with_a_device_plugin(void **state)
{
    (void)state;
    static const char *const vendors[] = {"nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"};
    for (unsigned i = 0; i < 3; i++) {
        char status[128];
        snprintf(status, sizeof status, "{\"allocatable\":{\"cpu\":\"4\",\"%s\":\"8\"}}",
                 vendors[i]);
        assert_true(plugin_of(status));
    }
    /* Its cards are all sick. */
    assert_true(plugin_of("{\"capacity\":{\"nvidia.com/gpu\":\"8\"},"
                          "\"allocatable\":{\"nvidia.com/gpu\":\"0\"}}"));
    assert_true(plugin_of("{\"allocatable\":{\"nvidia.com\\/gpu\":1}}"));
}

static void test_node_without_a_device_plugin(void **state)
{
    (void)state;
    assert_false(plugin_of("null"));
    assert_false(plugin_of("{}"));
    assert_false(plugin_of("{\"capacity\":null,\"allocatable\":{\"cpu\":\"4\"}}"));
    /* kubelet goes on listing the name of a plugin that left. */
    assert_false(plugin_of("{\"capacity\":{\"nvidia.com/gpu\":\"0\"},"
                           "\"allocatable\":{\"nvidia.com/gpu\":\"0\"}}"));
    /* What an agent advertises for pods that come to us. */
    assert_false(plugin_of("{\"allocatable\":{\"koordinator.sh/gpu\":\"800\","
                           "\"koordinator.sh/gpu.shared\":\"800\",\"koordinator.sh/rdma\":\"100\","
                           "\"Nvidia.com/gpu\":\"8\",\"nvidia.com/gpus\":\"8\"}}"));
}

static void refuse_node(const char *json, const char *sentence)
{
    struct node_facts facts = {.device_plugin = true};
    assert_int_equal(object_decode_node(str_from(json), &mem, &facts, &err), -EINVAL);
    assert_string_equal(err.text, sentence);
    assert_int_equal(facts.name.len, 0);
    assert_true(facts.device_plugin);
}

static void test_bad_nodes(void **state)
{
    (void)state;
    refuse_node("{\"metadata\":{}}", "metadata.name: must not be empty");
    refuse_node("{\"metadata\":{\"name\":\"n\"},\"status\":[]}", "status: must be an object");
    refuse_node("{\"metadata\":{\"name\":\"n\"},\"status\":{\"capacity\":[]}}",
                "status.capacity: must be an object");
    refuse_node("{\"metadata\":{\"name\":\"n\"},"
                "\"status\":{\"allocatable\":{\"nvidia.com/gpu\":true}}}",
                "status.allocatable[\"nvidia.com/gpu\"]: must be a quantity");
}

/* ---- changes ---- */

static void assert_text(struct strbuf *out, const char *expected)
{
    assert_string_equal(out->data, expected);
    strbuf_done(out);
}

static void test_default_pod(void **state)
{
    (void)state;
    struct strbuf out = {0};
    assert_int_equal(
        object_default_pod(
            STR("{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"uid\":\"mine\"},\"spec\":{"
                "\"containers\":["
                "{\"name\":\"a\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":2,\"cpu\":\"4\"},"
                "\"requests\":{\"cpu\":\"1\",\"koordinator.sh/rdma\":\"5\",\"memory\":\"1Gi\"}}},"
                "{\"name\":\"b\"},{\"name\":\"c\",\"resources\":{}}]}}"),
            STR("u-1"), STR("2026-11-20T08:15:30Z"), &out, &err),
        0);
    assert_text(
        &out,
        "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"uid\":\"u-1\","
        "\"creationTimestamp\":\"2026-11-20T08:15:30Z\",\"namespace\":\"default\"},"
        "\"spec\":{\"containers\":[{\"name\":\"a\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":2,"
        "\"cpu\":\"4\",\"koordinator.sh/rdma\":\"5\"},\"requests\":{\"cpu\":\"1\","
        "\"koordinator.sh/rdma\":\"5\",\"memory\":\"1Gi\",\"nvidia.com/gpu\":2}}},{\"name\":\"b\"},"
        "{\"name\":\"c\",\"resources\":{}}]},\"status\":{\"phase\":\"Pending\"}}");

    /* What is there stays, the UID apart. */
    assert_int_equal(
        object_default_pod(
            STR("{\"metadata\":{\"namespace\":\"n\",\"creationTimestamp\":\"t\"},"
                "\"spec\":{\"initContainers\":[{\"resources\":{\"limits\":{\"a/b\":\"1\"}}}]},"
                "\"status\":{\"phase\":\"Running\"}}"),
            STR("u-2"), STR("x"), &out, &err),
        0);
    assert_text(&out,
                "{\"metadata\":{\"namespace\":\"n\",\"creationTimestamp\":\"t\",\"uid\":\"u-2\"},"
                "\"spec\":{\"initContainers\":[{\"resources\":{\"limits\":{\"a/b\":\"1\"},"
                "\"requests\":{\"a/b\":\"1\"}}}]},\"status\":{\"phase\":\"Running\"}}");
}

static void test_default_meta(void **state)
{
    (void)state;
    struct strbuf out = {0};
    assert_int_equal(
        object_default_meta(STR("{\"metadata\":{\"name\":\"n\",\"creationTimestamp\":null}}"),
                            STR("u"), STR("t"), &out, &err),
        0);
    assert_text(&out, "{\"metadata\":{\"name\":\"n\",\"creationTimestamp\":\"t\",\"uid\":\"u\"}}");
    assert_int_equal(object_default_meta(STR("{\"metadata\":{\"uid\":\"old\"}}"), STR("u"),
                                         STR("t"), &out, &err),
                     0);
    assert_text(&out, "{\"metadata\":{\"uid\":\"old\",\"creationTimestamp\":\"t\"}}");
}

static void test_bind_pod(void **state)
{
    (void)state;
    struct strbuf out = {0};
    const struct str keys[] = {STR("scheduling.koordinator.sh/device-allocated"), STR("b")};
    const struct str values[] = {STR("{\"gpu\":[{\"id\":\"a/b\"}]}"), STR("")};
    assert_int_equal(
        object_bind_pod(
            STR("{\"metadata\":{\"annotations\":{\"b\":\"old\",\"c\":\"kept\"}},\"spec\":{},"
                "\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
                "\"False\"},"
                "{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\"}]}}"),
            STR("node-1"), keys, values, 2, &out, &err),
        0);
    struct str text = {out.data, out.len};
    struct pod pod;
    assert_int_equal(object_decode_pod(text, &mem, &pod, &err), 0);
    assert_str(pod.node_name, "node-1");
    assert_text(
        &out,
        "{\"metadata\":{\"annotations\":{\"b\":\"\",\"c\":\"kept\","
        "\"scheduling.koordinator.sh/device-allocated\":\"{\\\"gpu\\\":[{\\\"id\\\":\\\"a/"
        "b\\\"}]}\"}},"
        "\"spec\":{\"nodeName\":\"node-1\"},\"status\":{\"phase\":\"Pending\",\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"False\"},{\"type\":\"PodScheduled\",\"status\":\"True\"}]"
        "}}");
    assert_int_equal(object_bind_pod(STR("{}"), STR("n"), NULL, NULL, 0, &out, &err), 0);
    assert_text(&out, "{\"metadata\":{},\"spec\":{\"nodeName\":\"n\"},\"status\":{\"conditions\":["
                      "{\"type\":\"PodScheduled\",\"status\":\"True\"}]}}");
}

static void refuse_change(const char *json, const char *sentence)
{
    struct strbuf out = {0};
    assert_int_equal(object_default_pod(str_from(json), STR("u"), STR("t"), &out, &err), -EINVAL);
    assert_string_equal(err.text, sentence);
    assert_int_equal(out.len, 0);
    strbuf_done(&out);
}

/* Nothing is altered by passing through a change; what would be is refused. */
static void test_changes_keep_the_rest(void **state)
{
    (void)state;
    struct strbuf out = {0};
    static const char odd[] = "{\"a\":[0.1,1e400,-12.50,9223372036854775807,true,null],"
                              "\"b\":\"Gr\xc3\xb6\xc3\x9f"
                              "e / \\u0000 \\\"\",\"metadata\":{\"uid\":\"u\","
                              "\"creationTimestamp\":\"t\"}}";
    assert_int_equal(object_default_meta(str_from(odd), STR("x"), STR("x"), &out, &err), 0);
    assert_text(&out, odd);
    refuse_change("{\"a\":99999999999999999999}",
                  "object: integer too large: 99999999999999999999");
    refuse_change("{\"a\":[{\"metadata\\u0000\":1}]}", "object: a key holds a NUL or is too long");
    refuse_change("{'a':1}", "object: not valid JSON, unexpected character at byte 1");
    refuse_change("[]", "object: must be an object");
    refuse_change("{\"metadata\":[]}", "metadata: must be an object");
    refuse_change("{\"spec\":{\"containers\":[null]}}", "spec.containers: must hold objects");
    refuse_change("{\"spec\":{\"containers\":7}}", "spec.containers: must be an array");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
        TEST(test_head),
        TEST(test_bad_heads),
        TEST(test_identity_of_a_list_item),
        TEST(test_list_items),
        TEST(test_pod_life),
        TEST(test_pod_requests_not_limits),
        TEST(test_pod_that_says_where_it_wants_to_go),
        TEST(test_pod_that_asks_for_more_than_64_bits),
        TEST(test_pod_whose_request_cannot_be_read),
        TEST(test_pod_annotation),
        TEST(test_annotation_text_is_whole),
        TEST(test_device),
        TEST(test_device_leaves_bad_entries_out),
        TEST(test_device_with_too_many_cards),
        TEST(test_pod_models),
        TEST(test_pod_models_are_bounded),
        TEST(test_device_topology),
        TEST(test_device_topology_that_says_nothing),
        TEST(test_device_partitions),
        TEST(test_bad_device_partitions),
        TEST(test_bad_devices),
        TEST(test_node_with_a_device_plugin),
        TEST(test_node_without_a_device_plugin),
        TEST(test_bad_nodes),
        TEST(test_default_pod),
        TEST(test_default_meta),
        TEST(test_bind_pod),
        TEST(test_changes_keep_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
