/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests as the simulator's input: what they become, and what is refused in which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "../sim/files.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/trace_manifests.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define STATUS "status: {allocatable: {cpu: 8, memory: 32Gi}}\n"
#define NODE(name, labels)                                                                         \
    "---\napiVersion: v1\nkind: Node\nmetadata: {name: " name ", labels: {" labels "}}\n" STATUS
#define MODEL(name) "node.koordinator.sh/gpu-model: " name
#define DEVICE(name, labels, cards)                                                                \
    "---\napiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Device\n"                          \
    "metadata: {name: " name ", labels: {" labels "}}\nspec: {devices: [" cards "]}\n"
#define AMOUNTS(core, ratio, memory)                                                               \
    "resources: {koordinator.sh/gpu-core: " core ", koordinator.sh/gpu-memory-ratio: " ratio      \
    ", koordinator.sh/gpu-memory: " memory "}"
#define CARD(minor, health, amounts)                                                               \
    "{type: gpu, minor: " minor ", health: " health ", " amounts "}"
#define WHOLE(minor, memory) CARD(minor, "true", AMOUNTS("100", "100", memory))

/* Two T4 of 16 GiB, three A10 of 24 GiB of which one is sick and a NIC beside them, and no card. */
#define NODES                                                                                      \
    NODE("t4", MODEL("T4"))                                                                        \
    DEVICE("a10", "", WHOLE("0", "24Gi") ", " CARD("1", "false", AMOUNTS("100", "100", "24Gi"))    \
           ", " WHOLE("2", "24Gi") ", {type: rdma, minor: 0, health: true, "                       \
           "resources: {koordinator.sh/rdma: 100}}")                                               \
    NODE("cpu", "") NODE("a10", MODEL("A10"))                                                      \
    DEVICE("t4", MODEL("T4"), WHOLE("1", "16Gi") ", " WHOLE("0", "16Gi"))

#define POD(name, more, resources)                                                                 \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name more "}\nspec:\n"                     \
    "  containers: [{name: c, resources: {requests: {" resources "}}}]\n"
#define ANNOTATED(key, value) ", annotations: {" key ": \"" value "\"}"
#define ON(model, name, resources)                                                                 \
    POD(name, "", resources) "  nodeSelector: {" MODEL(model) "}\n"
#define AFFINITY(name, expression, resources)                                                      \
    POD(name, "", resources)                                                                       \
    "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "                 \
    "{nodeSelectorTerms: [{matchExpressions: [{key: node.koordinator.sh/gpu-model, " expression    \
    "}]}]}}}\n"

static int read_texts(const char *nodes, const char *pods, struct trace *ret, struct error *err)
{
    return trace_from_other(nodes, pods, &trace_manifests, ret, err);
}

static void test_nodes(void **state)
{
    (void)state;
    struct trace trace;
    struct error err = {0};
    if (read_texts(NODES, POD("p", "", ""), &trace, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(trace.node_count, 3);
    static const struct {
        const char *name, *model;
        uint32_t cards;
    } want[] = {{"a10", "A10", 2}, {"cpu", "", 0}, {"t4", "T4", 2}};
    for (uint32_t i = 0; i < COUNT_OF(want); i++) {
        const struct trace_node *node = &trace.nodes[i];
        assert_true(str_is(node->name, want[i].name));
        assert_true(str_is(trace.models[node->model], want[i].model));
        assert_int_equal(node->cards, want[i].cards);
        assert_int_equal(node->cpu_milli, 8000);
        assert_int_equal(node->memory_mib, 32 * 1024);
    }
    assert_int_equal(trace.capacity_milli, 4000);
    assert_true(trace.card_bytes[trace.nodes[0].model].least == INT64_C(24) << 30);
    assert_true(trace.card_bytes[trace.nodes[2].model].most == INT64_C(16) << 30);
    trace_done(&trace);
}

/* What one pod becomes. */
struct pod_case {
    const char *pod;
    int64_t cpu_milli, memory_mib;
    int32_t cards, milli;
    const char *models; /* "T4 A10"; "*" for any */
};

static const struct pod_case pods[] = {
    {POD("a", "", "cpu: 1500m, memory: 1025Ki"), 1500, 2, 0, 0, "*"},
    {POD("a", "", "nvidia.com/gpu: 2"), 0, 0, 2, 1000, "*"},
    {POD("a", "", "koordinator.sh/gpu: 100"), 0, 0, 1, 1000, "*"},
    {POD("a", "", "koordinator.sh/gpu: 35"), 0, 0, 1, 350, "*"},
    /* The larger part counts. */
    {POD("a", "", "koordinator.sh/gpu-core: 20, koordinator.sh/gpu-memory-ratio: 30"), 0, 0, 1, 300,
     "*"},
    {POD("a", "", "koordinator.sh/gpu-core: 40, koordinator.sh/gpu-memory-ratio: 30"), 0, 0, 1, 400,
     "*"},
    {POD("a", "", "koordinator.sh/gpu.shared: 2, koordinator.sh/gpu-memory-ratio: 200"), 0, 0, 2,
     1000, "*"},
    /* Bytes are a part of the cards that the pod may have, rounded down to thousandths. */
    {ON("T4", "a", "koordinator.sh/gpu-memory: 4Gi"), 0, 0, 1, 250, "T4"},
    {ON("A10", "a", "koordinator.sh/gpu-memory: 8Gi"), 0, 0, 1, 333, "A10"},
    {ON("T4", "a", "nvidia.com/gpumem: 4096, nvidia.com/gpucores: 30"), 0, 0, 1, 300, "T4"},
    {POD("a", ", annotations: {nvidia.com/use-gputype: A10}", "nvidia.com/gpumem: 24576"), 0, 0, 1,
     1000, "A10"},
    /* Models, by the labels of nodes and by annotations. */
    {AFFINITY("a", "operator: In, values: [A10, T4, Z9]", "nvidia.com/gpu: 1"), 0, 0, 1, 1000,
     "T4 A10"},
    {AFFINITY("a", "operator: NotIn, values: [A10]", "nvidia.com/gpu: 1"), 0, 0, 1, 1000, "T4 -"},
    {AFFINITY("a", "operator: NotIn, values: [Z9]", "nvidia.com/gpu: 1"), 0, 0, 1, 1000, "*"},
    {AFFINITY("a", "operator: In, values: [Z9]", "nvidia.com/gpu: 1"), 0, 0, 1, 1000, ""},
    {AFFINITY("a", "operator: DoesNotExist", "nvidia.com/gpu: 1"), 0, 0, 1, 1000, "-"},
    {AFFINITY("a", "operator: In, values: [A10]", "cpu: 1"), 1000, 0, 0, 0, "*"},
    {POD("a", ", annotations: {nvidia.com/nouse-gputype: T4}", "nvidia.com/gpu: 1"), 0, 0, 1, 1000,
     "A10 -"},
    /* Limits are requests where there is none, and an init container counts beside the others. */
    {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n"
     "  initContainers: [{name: i, resources: {requests: {cpu: 5, koordinator.sh/gpu: 10}}}]\n"
     "  containers: [{name: c, resources: {limits: {cpu: 1, koordinator.sh/gpu: 20}}},\n"
     "    {name: d, resources: {limits: {cpu: 2, koordinator.sh/gpu: 30}}}]\n",
     5000, 0, 1, 500, "*"},
    /* What ran somewhere arrives as any other. */
    {POD("a", ANNOTATED("scheduling.koordinator.sh/device-allocated",
                        "{\\\"gpu\\\":[{\\\"minor\\\":0}]}"),
         "nvidia.com/gpu: 1") "  nodeName: t4\nstatus: {phase: Succeeded}\n",
     0, 0, 1, 1000, "*"},
};

/* The models T4 and A10 and, as "-", that of nodes without one. */
static uint64_t models_named(const struct trace *trace, const char *names)
{
    uint64_t models = 0;
    if (strcmp(names, "*") == 0)
        return PACK_MODELS_ANY;
    if (strstr(names, "T4") != NULL)
        models |= UINT64_C(1) << trace_find_model(trace, STR("T4"));
    if (strstr(names, "A10") != NULL)
        models |= UINT64_C(1) << trace_find_model(trace, STR("A10"));
    if (strchr(names, '-') != NULL)
        models |= UINT64_C(1) << trace_find_model(trace, STR(""));
    return models;
}

static void test_pods(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pods); i++) {
        const struct pod_case *want = &pods[i];
        struct trace trace;
        struct error err = {0};
        if (read_texts(NODES, want->pod, &trace, &err) < 0)
            fail_msg("%s: %s", want->pod, err.text);
        assert_int_equal(trace.pod_count, 1);
        const struct pack_pod *pod = &trace.specs[0].pod;
        if (pod->cpu_milli != want->cpu_milli || pod->memory_mib != want->memory_mib ||
            pod->cards != want->cards || pod->milli != want->milli ||
            pod->models != models_named(&trace, want->models) ||
            pod->list != (strcmp(want->models, "*") != 0))
            fail_msg("%s: cpu %d memory %d cards %d milli %d models %#llx list %u", want->pod,
                     (int)pod->cpu_milli, (int)pod->memory_mib, (int)pod->cards, (int)pod->milli,
                     (unsigned long long)pod->models, pod->list);
        trace_done(&trace);
    }
}

/* Pods of one request are one spec; namespaces come before names, and lists of models order specs. */
static void test_specs(void **state)
{
    (void)state;
    struct trace trace;
    struct error err = {0};
    const char *text =
        POD("z", ", namespace: a", "koordinator.sh/gpu: 50") POD("a", "", "koordinator.sh/gpu: 20")
            ON("T4", "b", "koordinator.sh/gpu: 50") ON("A10", "c", "koordinator.sh/gpu: 50")
                POD("d", "", "koordinator.sh/gpu-core: 50, koordinator.sh/gpu-memory-ratio: 10")
                    AFFINITY("e", "operator: In, values: [Z9]", "koordinator.sh/gpu: 50");
    if (read_texts(NODES, text, &trace, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(trace.pod_count, 6);
    static const uint32_t want[] = {0, 1, 2, 3, 0, 4};
    assert_memory_equal(trace.pods, want, sizeof(want));
    assert_int_equal(trace.specs[2].pod.list, 2); /* "A10" < "T4" < "Z9" */
    assert_int_equal(trace.specs[3].pod.list, 1);
    assert_int_equal(trace.specs[4].pod.list, 3);
    trace_done(&trace);
}

/* Specs are those of the same lists in CSV: lists in other words are others, though they allow the same. */
static void test_specs_are_those_of_csv(void **state)
{
    (void)state;
    static const char csv[] = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
                              "default/a,0,0,1,500,T4|A10\ndefault/b,0,0,1,500,A10|T4\n"
                              "default/c,0,0,1,500,Z9\ndefault/d,0,0,1,500,T4|Z9\n"
                              "default/e,0,0,1,500,T4\ndefault/f,0,0,1,500,\n"
                              "default/g,0,0,1,500,A10\ndefault/h,0,0,1,500,A10|\n";
    const char *text = AFFINITY("a", "operator: In, values: [T4, A10]", "koordinator.sh/gpu: 50")
        AFFINITY("b", "operator: In, values: [A10, T4]", "koordinator.sh/gpu: 50")
        AFFINITY("c", "operator: In, values: [Z9]", "koordinator.sh/gpu: 50")
        AFFINITY("d", "operator: In, values: [T4, Z9]", "koordinator.sh/gpu: 50")
        ON("T4", "e", "koordinator.sh/gpu: 50") POD("f", "", "koordinator.sh/gpu: 50")
        /* Not as a list: its name stands for what is allowed. */
        POD("g", ANNOTATED("nvidia.com/use-gputype", "a10"), "koordinator.sh/gpu: 50")
        AFFINITY("h", "operator: NotIn, values: [T4]", "koordinator.sh/gpu: 50");
    static const char nodes[] = NODE("n1", MODEL("T4")) NODE("n2", MODEL("A10")) NODE("n3", "")
        DEVICE("n1", "", WHOLE("0", "1Gi"));
    struct trace wanted, trace;
    struct error err = {0};
    if (read_texts(nodes, csv, &wanted, &err) < 0 || read_texts(nodes, text, &trace, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(trace.pod_count, wanted.pod_count);
    assert_int_equal(wanted.spec_count, 8);
    assert_int_equal(trace.spec_count, 8);
    assert_memory_equal(trace.pods, wanted.pods, 8 * sizeof(trace.pods[0]));
    for (uint32_t i = 0; i < 8; i++) {
        const struct pack_pod *pod = &trace.specs[i].pod, *want = &wanted.specs[i].pod;
        assert_int_equal(pod->cards, want->cards);
        assert_int_equal(pod->milli, want->milli);
        assert_int_equal(pod->models, want->models);
        assert_int_equal(pod->list, want->list);
    }
    trace_done(&trace);
    trace_done(&wanted);
}

/* kubectl prints a List; JSON is as good. */
static void test_lists_and_json(void **state)
{
    (void)state;
    struct trace trace;
    struct error err = {0};
    const char *nodes =
        "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n"
        " {\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n\"},\n"
        "  \"status\": {\"capacity\": {\"cpu\": \"4\", \"memory\": \"8Gi\"}}},\n"
        " {\"apiVersion\": \"scheduling.koordinator.sh/v1alpha1\", \"kind\": \"Device\",\n"
        "  \"metadata\": {\"name\": \"n\", \"labels\": {\"node.koordinator.sh/gpu-model\": \"L4\"}},\n"
        "  \"spec\": {\"devices\": [{\"type\": \"gpu\", \"minor\": 0, \"health\": true,\n"
        "   \"resources\": {\"koordinator.sh/gpu-core\": \"100\",\n"
        "    \"koordinator.sh/gpu-memory-ratio\": \"100\", \"koordinator.sh/gpu-memory\": \"24Gi\"}}]}}\n"
        "]}\n";
    if (read_texts(nodes, POD("p", "", "koordinator.sh/gpu-memory: 6Gi"), &trace, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(trace.node_count, 1);
    assert_true(str_is(trace.models[trace.nodes[0].model], "L4")); /* the Node says none */
    assert_int_equal(trace.specs[0].pod.milli, 250);
    trace_done(&trace);
}

/* Pods as manifests on a cluster in CSV, and the other way round. */
static void test_beside_csv(void **state)
{
    (void)state;
    struct trace trace;
    struct error err = {0};
    const char *nodes = "sn,cpu_milli,memory_mib,gpu,model\nn,8000,1000,2,T4\n";
    assert_int_equal(read_texts(nodes, ON("T4", "a", "koordinator.sh/gpu: 50"), &trace, &err), 0);
    assert_int_equal(trace.specs[0].pod.models, 1);
    assert_int_equal(trace.specs[0].pod.milli, 500);
    trace_done(&trace);
    assert_int_equal(read_texts(nodes, POD("a", "", "koordinator.sh/gpu-memory: 1Gi"), &trace, &err),
                     -EINVAL);
    assert_non_null(strstr(err.text, "says its memory"));
    const char *csv = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1,2,1,500,A10|T4\n";
    assert_int_equal(read_texts(NODES, csv, &trace, &err), 0);
    assert_int_equal(trace.specs[0].pod.models, models_named(&trace, "T4 A10"));
    trace_done(&trace);
}

/* ---- what is refused ---- */

struct bad_case {
    const char *text;
    const char *want; /* behind the path */
};

static const struct bad_case bad_nodes[] = {
    {"kind: Node\nmetadata: [\n", ":3:1: "},
    {"# nothing\n", ": no cards in this cluster"},
    {NODE("n", ""), ": no cards in this cluster"},
    {NODE("n", "") POD("p", "", ""), ":7: Pod default/p: kind: neither Node nor Device"},
    {NODE("n", "") "---\nkind: Service\napiVersion: v1\nmetadata: {name: s}\n",
     ":7: apiVersion and kind: \"v1 Service\" is none of"},
    {DEVICE("n", "", WHOLE("0", "16Gi")),
     ":2: Device n: metadata.name: there is no Node of this name"},
    {NODE("n", "") DEVICE("n", "", CARD("3", "true", AMOUNTS("200", "100", "16Gi"))),
     ":7: Device n: spec.devices: gpu 3 has koordinator.sh/gpu-core 200, want 100"},
    {NODE("n", "") DEVICE("n", "", CARD("3", "true", AMOUNTS("100", "0", "16Gi"))),
     ":7: Device n: spec.devices: gpu 3 has koordinator.sh/gpu-memory-ratio 0, want 100"},
    {NODE("n", "") DEVICE("n", "", CARD("3", "true", AMOUNTS("100", "100", "0"))),
     ":7: Device n: spec.devices: gpu 3 does not say its koordinator.sh/gpu-memory"},
    {NODE("n", "") DEVICE("n", "", WHOLE("0", "1Gi") ", {type: tpu, minor: 1}"),
     ":7: Device n: spec.devices: entries that cannot be used: 1"},
    {NODE("n", MODEL("T4")) DEVICE("n", MODEL("A10"), WHOLE("0", "1Gi")),
     ":7: Device n: metadata.labels[\"node.koordinator.sh/gpu-model\"]: is \"A10\", but that of its "
     "Node \"T4\""},
    {"apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 8}}\n",
     ":1: Node n: status.allocatable: cpu and memory must be told"},
    {"apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
     "status: {capacity: {cpu: 8, memory: 1Gi, nvidia.com/gpu: 4}}\n",
     ":1: Node n: status: counts whole cards, and no Device object says what they are"},
    {"apiVersion: v1\nkind: Node\nmetadata: {name: n, annotations: "
     "{hami.io/node-nvidia-register: \"[]\"}}\n" STATUS,
     ":1: Node n: metadata.annotations[\"hami.io/node-nvidia-register\"]: cards are read from"},
    {NODE("n", "") NODE("n", ""), ":7: Node n: metadata.name: already in this text, line 2"},
};

static const struct bad_case bad_pods[] = {
    {"kind: Pod\n", ":1: "},
    {"# nothing\n", ": no pods"},
    {POD("p", "", "") NODE("n", ""), ":8: Node n: kind: no Pod"},
    {POD("p", "", "") POD("q", "", "koordinator.sh/gpu: 150"),
     ":8: Pod default/q: spec.containers: invalid resource unit koordinator.sh/gpu: 150"},
    {POD("p", "", "koordinator.sh/gpu: many"), ":2: Pod default/p: spec.containers"},
    {POD("p", "", "nvidia.com/gpu: 1, koordinator.sh/rdma: 100"),
     ":2: Pod default/p: spec.containers: koordinator.sh/rdma: only GPUs are played"},
    {POD("p", "", "koordinator.sh/fpga: 100"),
     ":2: Pod default/p: spec.containers: koordinator.sh/fpga: only GPUs are played"},
    {POD("p", "", "koordinator.sh/gpu.shared: 2, koordinator.sh/gpu-memory-ratio: 100"),
     "spec.containers: parts of 2 cards"},
    {POD("p", "", "nvidia.com/gpu: 65"), "spec.containers: 65 GPUs, more than 64"},
    {POD("p", "", "koordinator.sh/gpu-core: 200, koordinator.sh/gpu-memory: 1Gi"),
     "spec.containers: koordinator.sh/gpu-core: 200 of one card fit nowhere"},
    {POD("p", "", "koordinator.sh/gpu-memory: 1Gi"),
     "spec.containers: koordinator.sh/gpu-memory: the cards that the pod may have are of 16Gi to "
     "24Gi"},
    {ON("T4", "p", "koordinator.sh/gpu-memory: 17Gi"),
     "spec.containers: koordinator.sh/gpu-memory: more than the 16Gi of a card"},
    {ON("Z9", "p", "koordinator.sh/gpu-memory: 1Gi"),
     "spec.containers: koordinator.sh/gpu-memory: no card that the pod may have"},
    {POD("p", ", annotations: {nvidia.com/use-gpuuuid: GPU-1}", "nvidia.com/gpu: 1"),
     "metadata.annotations[\"nvidia.com/use-gpuuuid\"]: cards have no ids here"},
    {POD("p", ", annotations: {nvidia.com/nouse-gpuuuid: GPU-1}", "nvidia.com/gpu: 1"),
     "metadata.annotations[\"nvidia.com/nouse-gpuuuid\"]: cards have no ids here"},
    {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeSelector: {" MODEL("T4") "},\n"
     "  containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 1024}}},\n"
     "    {name: b, resources: {limits: {nvidia.com/gpumem: 1024}}}]}\n",
     ":1: Pod default/p: spec.containers: 2 of them ask for GPUs of their own"},
};

static void check_bad(const struct bad_case *bad, bool in_nodes)
{
    struct trace trace;
    struct error err = {0};
    int rc = in_nodes ? read_texts(bad->text, POD("p", "", ""), &trace, &err)
                      : read_texts(NODES, bad->text, &trace, &err);
    if (rc != -EINVAL || strstr(err.text, bad->want) == NULL ||
        strncmp(err.text, "/tmp/sim-test-", 14) != 0)
        fail_msg("%s\ngives %d: %s\nwant %s", bad->text, rc, err.text, bad->want);
}

static void test_bad_manifests(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad_nodes); i++)
        check_bad(&bad_nodes[i], true);
    for (size_t i = 0; i < COUNT_OF(bad_pods); i++)
        check_bad(&bad_pods[i], false);
}

/* Two sizes on one node, in either order. */
static void test_sizes_of_one_model(void **state)
{
    (void)state;
    static const char *const nodes[] = {
        NODE("n", MODEL("T4")) DEVICE("n", "", WHOLE("0", "16Gi") ", " WHOLE("1", "24Gi")),
        NODE("n", MODEL("T4")) DEVICE("n", "", WHOLE("0", "24Gi") ", " WHOLE("1", "16Gi")),
    };
    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        struct trace trace;
        struct error err = {0};
        assert_int_equal(read_texts(nodes[i], POD("p", "", "nvidia.com/gpumem: 1024"), &trace, &err),
                         -EINVAL);
        assert_non_null(strstr(err.text, "are of 16Gi to 24Gi"));
        assert_int_equal(read_texts(nodes[i], POD("p", "", "koordinator.sh/gpu: 50"), &trace, &err),
                         0);
        trace_done(&trace);
    }
}

static void test_too_many_cards(void **state)
{
    (void)state;
    struct strbuf text = {0};
    struct trace trace;
    struct error err = {0};
    strbuf_puts(&text, NODE("n", "") "---\napiVersion: scheduling.koordinator.sh/v1alpha1\n"
                       "kind: Device\nmetadata: {name: n}\nspec:\n  devices:\n");
    for (int i = 0; i < 65; i++)
        strbuf_printf(&text, "  - {type: gpu, minor: %d, health: true, %s}\n", i,
                      AMOUNTS("100", "100", "1Gi"));
    assert_int_equal(read_texts(text.data, POD("p", "", ""), &trace, &err), -EINVAL);
    assert_non_null(strstr(err.text, ":7: Device n: spec.devices: 65 GPUs, more than 64"));
    strbuf_done(&text);
}

/* Memory may end at any allocation. */
static void test_without_memory(void **state)
{
    (void)state;
    const char *text = ON("T4", "a", "koordinator.sh/gpu-memory: 4Gi") POD("b", "", "cpu: 1");
    struct trace trace;
    struct error err;
    mem_fail_at(0);
    assert_int_equal(read_texts(NODES, text, &trace, &err), 0);
    trace_done(&trace);
    long count = mem_count();
    assert_true(count > 20);
    for (long n = 1; n <= count; n++) {
        mem_fail_at(n);
        int rc = read_texts(NODES, text, &trace, &err);
        if (rc != -ENOMEM)
            fail_msg("allocation %ld of %ld: %d %s", n, count, rc, rc < 0 ? err.text : "");
    }
    mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_lists_and_json),
        cmocka_unit_test(test_specs_are_those_of_csv),
        cmocka_unit_test(test_beside_csv),
        cmocka_unit_test(test_bad_manifests),
        cmocka_unit_test(test_sizes_of_one_model),
        cmocka_unit_test(test_too_many_cards),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
