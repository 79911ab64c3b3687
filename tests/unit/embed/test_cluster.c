/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/cluster.h"

#include "base/mem.h"
#include "codec/annotation.h"
#include "codec/objects.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- sched, as far as the cluster tells it: the events are written down ---- */

static char events[4096]; /* no strbuf: its allocations would be counted with the cluster's */
static size_t events_len;
static int event_result;

static void forget_events(void)
{
    events_len = 0;
    events[0] = '\0';
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(events + events_len, sizeof events - events_len, format, args);
    va_end(args);
    assert_true(len > 0 && (size_t)len < sizeof events - events_len);
    events_len += (size_t)len;
}

int sched_pod_changed(struct sched *sched, const struct pod *pod)
{
    (void)sched;
    note("pod %.*s/%.*s node=%.*s shares=%u%s\n", STR_ARG(pod->id.ns), STR_ARG(pod->id.name),
         STR_ARG(pod->node_name), pod->share_count, pod->finished ? " finished" : "");
    return event_result;
}

void sched_pod_gone(struct sched *sched, struct str uid)
{
    (void)sched;
    note("pod gone %.*s\n", STR_ARG(uid));
}

int sched_node_changed(struct sched *sched, const struct node_facts *facts)
{
    (void)sched;
    note("node %.*s%s\n", STR_ARG(facts->name), facts->device_plugin ? " plugin" : "");
    return event_result;
}

void sched_node_gone(struct sched *sched, struct str name)
{
    (void)sched;
    note("node gone %.*s\n", STR_ARG(name));
}

int sched_device_changed(struct sched *sched, struct str node, const struct inventory *inventory)
{
    (void)sched;
    note("device %.*s cards=%u\n", STR_ARG(node), inventory->count);
    return event_result;
}

int sched_namespace_changed(struct sched *sched, struct str name, const struct policy_words *labels)
{
    (void)sched;
    note("namespace %.*s node=%.*s\n", STR_ARG(name), STR_ARG(labels->node));
    return event_result;
}

void sched_namespace_gone(struct sched *sched, struct str name)
{
    (void)sched;
    note("namespace gone %.*s\n", STR_ARG(name));
}

void sched_device_gone(struct sched *sched, struct str node)
{
    (void)sched;
    note("device gone %.*s\n", STR_ARG(node));
}

/* Only its address is used. */
static char somebody;

static void assert_events(const char *wanted)
{
    assert_string_equal(events, wanted);
    forget_events();
}

/* ---- helpers ---- */

#define UID_A "11111111-1111-4111-8111-111111111111"
#define UID_B "22222222-2222-4222-8222-222222222222"

#define POD(name, more, spec)                                                                      \
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " name "\n" more "spec:\n" spec                 \
    "  containers:\n  - name: c\n    resources:\n      limits: {nvidia.com/gpu: \"1\"}\n"
#define NODE(name) "apiVersion: v1\nkind: Node\nmetadata:\n  name: " name "\n"
#define DEVICE(name)                                                                               \
    "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Device\nmetadata:\n  name: " name "\n"  \
    "spec:\n  devices:\n  - type: gpu\n    minor: 0\n    health: true\n"                           \
    "    resources: {koordinator.sh/gpu-core: 100, koordinator.sh/gpu-memory: 16Gi, "              \
    "koordinator.sh/gpu-memory-ratio: 100}\n"

static struct cluster *new_cluster(void)
{
    struct cluster *cluster = cluster_new();

    assert_non_null(cluster);
    forget_events();
    event_result = 0;
    cluster_attach(cluster, (struct sched *)(void *)&somebody);
    return cluster;
}

static void apply(struct cluster *cluster, const char *text)
{
    struct error err;

    if (cluster_apply(cluster, str_from(text), "t.yaml", NULL, &err) < 0)
        fail_msg("%s", err.text);
}

static void assert_refused(struct cluster *cluster, const char *text, const char *wanted)
{
    struct error err;
    uint32_t count = 77;

    forget_events();
    assert_int_equal(cluster_apply(cluster, str_from(text), "t.yaml", &count, &err), -EINVAL);
    assert_string_equal(err.text, wanted);
    assert_int_equal(count, 77);
    assert_events("");
}

static char *dump(struct cluster *cluster)
{
    struct strbuf out;
    struct error err;
    size_t len;

    strbuf_init(&out);
    assert_int_equal(cluster_dump_yaml(cluster, &out, &err), 0);
    return strbuf_take(&out, &len);
}

/* The pod as the port gives it. */
static struct pod get(struct cluster *cluster, const char *ns, const char *name, struct arena *mem)
{
    struct port port = cluster_port(cluster);
    struct pod_id id = {.ns = str_from(ns), .name = str_from(name)};
    struct error err;
    struct pod pod;

    if (port.get_pod(port.self, &id, mem, &pod, &err) < 0)
        fail_msg("%s", err.text);
    return pod;
}

static enum bind_outcome bind_to(struct cluster *cluster, const char *name, const char *uid,
                                 const char *node, const struct placement *placement,
                                 struct error *err)
{
    struct port port = cluster_port(cluster);
    struct binding binding = {
        .pod = {.ns = STR("default"), .name = str_from(name), .uid = str_from(uid)},
        .node = str_from(node),
        .placement = placement,
    };

    return port.bind_pod(port.self, &binding, err);
}

/* ---- apply ---- */

#define NAMESPACE(name, policy)                                                                    \
    "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " name                                    \
    "\n  labels: {deviceshare.io/node-policy: " policy ", team: x}\n"

/* It is told before the pods that it has the defaults of, wherever it stands. */
static void a_namespace_says_the_defaults_of_its_pods(void **state)
{
    struct cluster *cluster = new_cluster();
    struct error err;

    (void)state;
    apply(cluster, NODE("n") "---\n" NAMESPACE("ml", "pack"));
    assert_events("namespace ml node=pack\nnode n\n");
    apply(cluster, NAMESPACE("ml", "spread"));
    assert_events("namespace ml node=spread\n");
    apply(cluster, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: plain\n");
    assert_events("namespace plain node=\n");
    assert_int_equal(cluster_delete(cluster, STR("Namespace"), STR(""), STR("ml"), &err), 0);
    assert_events("namespace gone ml\n");
    assert_int_equal(cluster_delete(cluster, STR("Namespace"), STR(""), STR("ml"), &err), -ENOENT);
    assert_events("");
    assert_refused(cluster,
                   "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n  namespace: y\n",
                   "t.yaml:1: metadata.namespace: a Namespace has none");
    cluster_free(cluster);
}

static void a_node_says_whether_it_has_a_device_plugin(void **state)
{
    struct cluster *cluster = new_cluster();

    (void)state;
    apply(cluster, NODE("n") "status: {capacity: {nvidia.com/gpu: 4}}\n");
    assert_events("node n plugin\n");
    apply(cluster, NODE("n") "status: {capacity: {nvidia.com/gpu: 0}}\n");
    assert_events("node n\n");
    assert_refused(cluster, NODE("n") "status: {capacity: {nvidia.com/gpu: four}}\n",
                   "t.yaml:1: Node n: status.capacity[\"nvidia.com/gpu\"]: quantity "
                   "\"four\" is not a Kubernetes quantity");
    cluster_free(cluster);
}

static void objects_get_what_an_api_server_gives(void **state)
{
    struct cluster *cluster = new_cluster();
    struct arena mem;
    struct pod pod;
    struct str uid;
    char *text;

    (void)state;
    arena_init(&mem, 0);
    apply(cluster, POD("p", "", ""));
    pod = get(cluster, "default", "p", &mem);
    uid = pod.id.uid;
    assert_int_equal(uid.len, 36); /* RFC 4122, version 4 */
    assert_int_equal(uid.data[14], '4');
    assert_non_null(strchr("89ab", uid.data[19]));
    assert_int_equal(pod.container_count, 1);
    assert_int_equal(pod.containers[0].requests.amount[RESOURCE_NVIDIA_GPU], 1);
    text = dump(cluster);
    assert_non_null(strstr(text, "creationTimestamp: \"20"));
    assert_non_null(strstr(text, "phase: Pending"));
    assert_non_null(strstr(text, "requests:\n        nvidia.com/gpu: \"1\""));
    mem_free(text);
    arena_done(&mem);
    cluster_free(cluster);
}

static void uids_are_kept_and_given(void **state)
{
    struct cluster *cluster = new_cluster();
    struct arena mem;
    struct pod before, after;
    char *text;

    (void)state;
    arena_init(&mem, 0);
    apply(cluster, POD("p", "", ""));
    before = get(cluster, "default", "p", &mem);
    apply(cluster, POD("p", "", ""));
    after = get(cluster, "default", "p", &mem);
    assert_true(str_eq(before.id.uid, after.id.uid));

    apply(cluster, POD("q", "  uid: " UID_A "\n", ""));
    assert_true(str_is(get(cluster, "default", "q", &mem).id.uid, UID_A));
    assert_refused(cluster, POD("q", "  uid: " UID_B "\n", ""),
                   "t.yaml:1: Pod default/q: metadata.uid: cannot be changed (it is " UID_A ")");
    assert_refused(cluster, POD("r", "  uid: " UID_A "\n", ""),
                   "t.yaml:1: Pod default/r: metadata.uid: another object has it");
    assert_refused(cluster, POD("r", "  uid: a/b\n", ""),
                   "t.yaml:1: metadata.uid: \"a/b\" is not a UID");

    apply(cluster, "apiVersion: v1\nkind: Node\nmetadata: {name: n, uid: " UID_B
                   ", creationTimestamp: \"2020-01-01T00:00:00Z\"}\n");
    apply(cluster, NODE("n"));
    text = dump(cluster);
    assert_non_null(strstr(text, UID_B));
    assert_non_null(strstr(text, "2020-01-01T00:00:00Z"));
    mem_free(text);
    arena_done(&mem);
    cluster_free(cluster);
}

static void events_come_nodes_first(void **state)
{
    struct cluster *cluster = new_cluster();
    uint32_t count;
    struct error err;

    (void)state;
    assert_int_equal(
        cluster_apply(cluster,
                      STR(POD("p", "", "  nodeName: a\n") "---\n" DEVICE(
                          "a") "---\n"
                               "apiVersion: v1\nkind: List\nitems:\n"
                               "- {apiVersion: v1, kind: Node, metadata: {name: b}}\n"
                               "- {apiVersion: v1, kind: Node, metadata: {name: a}}\n"),
                      "t.yaml", &count, &err),
        0);
    assert_int_equal(count, 4);
    assert_events("node b\nnode a\ndevice a cards=1\npod default/p node=a shares=0\n");
    /* JSON too, and a change is told again. */
    apply(cluster, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"b\"}}");
    assert_events("node b\n");
    cluster_free(cluster);
}

static void bad_manifests_are_named_and_nothing_is_applied(void **state)
{
    struct cluster *cluster = new_cluster();
    char *text;

    (void)state;
    assert_refused(cluster, NODE("a") "---\nkind: Node\n",
                   "t.yaml:6: metadata.name: must not be empty");
    assert_refused(cluster, NODE("a") "---\napiVersion: v1\nkind: Node\nmetadata: {name: A_b}\n",
                   "t.yaml:6: metadata.name: \"A_b\" is not a DNS-1123 subdomain");
    assert_refused(cluster, NODE("a") "---\nx: [\n",
                   "t.yaml:7:1: not YAML: did not find expected node content while parsing a flow "
                   "node");
    assert_refused(cluster, NODE("a") "---\n- 1\n", "t.yaml:6: object: must be an object");
    assert_refused(cluster, NODE("a") "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
                   "t.yaml:6: apiVersion and kind: \"v1 Service\" is none of v1 Namespace, v1 Node, v1 Pod and "
                   "scheduling.koordinator.sh/v1alpha1 Device");
    assert_refused(cluster, NODE("a") "---\napiVersion: v2\nkind: Node\nmetadata: {name: s}\n",
                   "t.yaml:6: apiVersion and kind: \"v2 Node\" is none of v1 Namespace, v1 Node, v1 Pod and "
                   "scheduling.koordinator.sh/v1alpha1 Device");
    assert_refused(cluster, "apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: b}\n",
                   "t.yaml:1: metadata.namespace: a Node has none");
    assert_refused(cluster, POD("p", "  namespace: a.b\n", ""),
                   "t.yaml:1: metadata.namespace: \"a.b\" is not a DNS-1123 label");
    assert_refused(cluster, POD("p", "", "  nodeName: ../x\n"),
                   "t.yaml:1: Pod default/p: spec.nodeName: \"../x\" is not a node's name");
    assert_refused(cluster, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
                   "t.yaml:1: Pod default/p: spec.containers: must hold at least one");
    assert_refused(cluster,
                   "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
                   "  - resources: {limits: {nvidia.com/gpu: two}}\n",
                   "t.yaml:1: Pod default/p: "
                   "spec.containers[0].resources.requests[\"nvidia.com/gpu\"]: quantity "
                   "\"two\" is not a Kubernetes quantity");
    assert_refused(cluster, POD("p", "  annotations: {a: 1}\n", ""),
                   "t.yaml:1: Pod default/p: metadata.annotations: \"a\" must be a string");
    assert_refused(cluster, NODE("a") "---\n" POD("p", "", "") "---\n" NODE("a"),
                   "t.yaml:16: Node a: metadata.name: already in this text, line 1");
    assert_refused(cluster,
                   POD("p", "  uid: " UID_A "\n", "") "---\n" POD("q", "  uid: " UID_A "\n", ""),
                   "t.yaml:12: Pod default/q: metadata.uid: already in this text");
    assert_refused(
        cluster, "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: []}]\n",
        "t.yaml:1: items[0]: apiVersion and kind: \"v1 List\" is none of v1 Namespace, v1 Node, v1 Pod and "
        "scheduling.koordinator.sh/v1alpha1 Device");
    text = dump(cluster);
    assert_string_equal(text, "");
    mem_free(text);
    cluster_free(cluster);
}

static void pods_keep_what_an_api_server_keeps(void **state)
{
    struct cluster *cluster = new_cluster();
    struct placement placement = {.count = 1, .cards = {{.share = {.kind = DEVICE_GPU}}}};
    struct error err;
    struct arena mem;
    struct pod pod;
    char *text;

    (void)state;
    arena_init(&mem, 0);
    placement.cards[0].share.amount = (struct amount){100, 100, 1 << 30};
    apply(cluster, POD("p", "  uid: " UID_A "\n", ""));
    assert_refused(cluster, POD("p", "", "  nodeName: a\n"),
                   "t.yaml:1: Pod default/p: spec.nodeName: cannot be changed (it is \"\")");
    assert_refused(cluster,
                   "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
                   "  - {name: c, resources: {limits: {nvidia.com/gpu: 2}}}\n",
                   "t.yaml:1: Pod default/p: spec.containers: requests of a pod that exists cannot "
                   "be changed");
    assert_refused(cluster,
                   "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
                   "  - {name: c}\n",
                   "t.yaml:1: Pod default/p: spec.containers: requests of a pod that exists cannot "
                   "be changed");

    assert_int_equal(bind_to(cluster, "p", UID_A, "a", &placement, &err), BIND_DONE);
    assert_refused(cluster, POD("p", "", "  nodeName: b\n"),
                   "t.yaml:1: Pod default/p: spec.nodeName: cannot be changed (it is \"a\")");
    /* The first manifest again: what others have set since then stays. */
    apply(cluster, POD("p", "  annotations: {mine: x}\n", ""));
    pod = get(cluster, "default", "p", &mem);
    assert_true(str_is(pod.node_name, "a"));
    assert_int_equal(pod.annotation, ANNOTATION_READ);
    text = dump(cluster);
    assert_non_null(strstr(text, "mine: x"));
    mem_free(text);

    /* The end of a pod, by as little as is needed to say it. */
    forget_events();
    apply(cluster, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nstatus: {phase: Succeeded}\n");
    assert_events("pod default/p node=a shares=1 finished\n");
    apply(cluster, POD("p", "", ""));
    assert_true(get(cluster, "default", "p", &mem).finished);
    assert_refused(cluster, POD("p", "", "") "status: {phase: Running}\n",
                   "t.yaml:1: Pod default/p: status.phase: a pod that has ended does not begin "
                   "again");
    arena_done(&mem);
    cluster_free(cluster);
}

static void nodes_and_devices_are_replaced(void **state)
{
    struct cluster *cluster = new_cluster();
    char *text;

    (void)state;
    apply(cluster, "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {old: x}}\n");
    apply(cluster, NODE("a"));
    apply(cluster, DEVICE("a"));
    apply(cluster, "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Device\n"
                   "metadata: {name: a}\nspec: {devices: []}\n");
    assert_events("node a\nnode a\ndevice a cards=1\ndevice a cards=0\n");
    text = dump(cluster);
    assert_null(strstr(text, "old"));
    mem_free(text);
    cluster_free(cluster);
}

static void sched_without_memory_is_an_error(void **state)
{
    struct cluster *cluster = new_cluster();
    struct error err;

    (void)state;
    event_result = -ENOMEM;
    assert_int_equal(cluster_apply(cluster, STR(NODE("a")), "t.yaml", NULL, &err), -ENOMEM);
    assert_string_equal(err.text,
                        "t.yaml:1: Node a: stored, but there was no memory to schedule by it");
    event_result = 0;
    apply(cluster, NODE("a"));
    assert_events("node a\nnode a\n");
    cluster_free(cluster);
}

/* ---- delete ---- */

static void objects_are_deleted(void **state)
{
    struct cluster *cluster = new_cluster();
    struct error err;
    char *text;

    (void)state;
    apply(cluster, NODE("a") "---\n" DEVICE("a") "---\n" POD("p", "  uid: " UID_A "\n", ""));
    forget_events();
    assert_int_equal(cluster_delete(cluster, STR("Pod"), STR("other"), STR("p"), &err), -ENOENT);
    assert_string_equal(err.text, "Pod \"other/p\" not found");
    assert_int_equal(cluster_delete(cluster, STR("Service"), STR(""), STR("p"), &err), -ENOENT);
    assert_int_equal(cluster_delete(cluster, STR("Pod"), STR("default"), STR("p"), &err), 0);
    assert_int_equal(cluster_delete(cluster, STR("Device"), STR(""), STR("a"), &err), 0);
    assert_int_equal(cluster_delete(cluster, STR("Node"), STR(""), STR("a"), &err), 0);
    assert_int_equal(cluster_delete(cluster, STR("Node"), STR(""), STR("a"), &err), -ENOENT);
    assert_events("pod gone " UID_A "\ndevice gone a\nnode gone a\n");
    text = dump(cluster);
    assert_string_equal(text, "");
    mem_free(text);
    /* A pod of the same name is another pod. */
    apply(cluster, POD("p", "  uid: " UID_B "\n", ""));
    cluster_free(cluster);
}

/* ---- bind ---- */

static void bind_writes_node_and_annotations_at_once(void **state)
{
    struct cluster *cluster = new_cluster();
    struct placement placement = {
        .count = 2,
        .cards = {{.share = {DEVICE_GPU, 0, {50, 50, INT64_C(8) << 30}, 0}, .id = "GPU-a"},
                  {.share = {DEVICE_GPU, 2, {50, 50, INT64_C(8) << 30}, 0}, .id = "GPU-c"}}};
    struct strbuf json;
    struct error err;
    struct arena mem;
    const struct str *items;
    struct str value;
    uint32_t count;

    (void)state;
    arena_init(&mem, 0);
    strbuf_init(&json);
    apply(cluster, POD("p", "  uid: " UID_A "\n  annotations: {mine: x}\n", ""));
    forget_events();
    assert_int_equal(bind_to(cluster, "p", UID_A, "a", &placement, &err), BIND_DONE);
    assert_events("pod default/p node=a shares=2\n");

    assert_int_equal(cluster_dump_json(cluster, &json, &err), 0);
    assert_int_equal(
        object_list_items((struct str){json.data, json.len}, &mem, &items, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_int_equal(object_annotation(items[0], ANNOTATION_DEVICE_ALLOCATED, &mem, &value, &err),
                     0);
    assert_true(str_is(
        value, "{\"gpu\":[{\"minor\":0,\"resources\":{\"koordinator.sh/gpu-core\":\"50\","
               "\"koordinator.sh/gpu-memory\":\"8Gi\",\"koordinator.sh/gpu-memory-ratio\":\"50\"},"
               "\"id\":\"GPU-a\"},{\"minor\":2,\"resources\":{\"koordinator.sh/gpu-core\":\"50\","
               "\"koordinator.sh/gpu-memory\":\"8Gi\",\"koordinator.sh/gpu-memory-ratio\":\"50\"},"
               "\"id\":\"GPU-c\"}]}"));
    assert_int_equal(object_annotation(items[0], ANNOTATION_VISIBLE_DEVICES, &mem, &value, &err),
                     0);
    assert_true(str_is(value, "GPU-a,GPU-c"));
    assert_int_equal(object_annotation(items[0], "mine", &mem, &value, &err), 0);
    assert_true(str_is(value, "x"));
    assert_non_null(strstr(json.data, "PodScheduled"));
    strbuf_done(&json);
    arena_done(&mem);
    cluster_free(cluster);
}

static void bind_of_a_pod_without_devices_adds_no_annotation(void **state)
{
    struct cluster *cluster = new_cluster();
    struct placement placement = {.count = 0};
    struct error err;
    char *text;

    (void)state;
    apply(cluster, POD("p", "  uid: " UID_A "\n", ""));
    assert_int_equal(bind_to(cluster, "p", UID_A, "a", &placement, &err), BIND_DONE);
    text = dump(cluster);
    assert_null(strstr(text, "annotations"));
    assert_non_null(strstr(text, "nodeName: a"));
    mem_free(text);
    cluster_free(cluster);
}

static void bind_has_preconditions(void **state)
{
    struct cluster *cluster = new_cluster();
    struct placement placement = {.count = 1, .cards = {{.share = {DEVICE_GPU, 0, {1, 1, 1}, 0}}}};
    struct strbuf big;
    struct error err;
    char *before, *after;

    (void)state;
    strbuf_init(&big);
    apply(cluster, POD("p", "  uid: " UID_A "\n", ""));
    apply(cluster,
          POD("old", "  deletionTimestamp: \"2026-01-01T00:00:00Z\"\n  uid: " UID_B "\n", ""));
    /* The annotation limit counts keys and values: 262144 fit, and then nothing more. */
    strbuf_puts(&big, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: big\n  uid: big\n  "
                      "annotations:\n    k: ");
    for (int i = 0; i < 262143; i++)
        strbuf_putc(&big, 'v');
    strbuf_puts(&big, "\nspec: {containers: [{name: c}]}\n");
    apply(cluster, big.data);
    forget_events();
    before = dump(cluster);

    assert_int_equal(bind_to(cluster, "none", UID_A, "a", &placement, &err), BIND_REFUSED);
    assert_string_equal(err.text, "pods \"none\" not found");
    assert_int_equal(bind_to(cluster, "p", UID_B, "a", &placement, &err), BIND_REFUSED);
    assert_string_equal(err.text, "Precondition failed: UID in precondition: " UID_B
                                  ", UID in object meta: " UID_A);
    assert_int_equal(bind_to(cluster, "old", UID_B, "a", &placement, &err), BIND_REFUSED);
    assert_string_equal(err.text, "pod old is being deleted, cannot be assigned to a host");
    assert_int_equal(bind_to(cluster, "big", "big", "a", &placement, &err), BIND_REFUSED);
    assert_non_null(strstr(err.text, " bytes, more than 262144"));
    after = dump(cluster);
    assert_string_equal(before, after);
    assert_events("");

    assert_int_equal(bind_to(cluster, "p", UID_A, "a", &placement, &err), BIND_DONE);
    assert_int_equal(bind_to(cluster, "p", UID_A, "b", &placement, &err), BIND_REFUSED);
    assert_string_equal(err.text, "pod p is already assigned to node \"a\"");
    assert_int_equal(bind_to(cluster, "p", UID_A, "a", &placement, &err), BIND_REFUSED);
    assert_events("pod default/p node=a shares=1\n");
    mem_free(before);
    mem_free(after);
    strbuf_done(&big);
    cluster_free(cluster);
}

static void unknown_pods_are_not_found(void **state)
{
    struct cluster *cluster = new_cluster();
    struct port port = cluster_port(cluster);
    struct pod_id id = {.ns = STR("default"), .name = STR("p")};
    struct arena mem;
    struct error err;
    struct pod pod;

    (void)state;
    arena_init(&mem, 0);
    assert_int_equal(port.get_pod(port.self, &id, &mem, &pod, &err), -ENOENT);
    arena_done(&mem);
    cluster_free(cluster);
}

/* ---- dump and load ---- */

static void shipped_manifests_load_and_dumps_apply_again(void **state)
{
    struct cluster *cluster = new_cluster(), *other = new_cluster();
    struct placement placement = {
        .count = 1,
        .cards = {{.share = {DEVICE_GPU, 1, {50, 50, INT64_C(40) << 30}, 0}, .id = "GPU-x"}}};
    struct error err;
    struct arena mem;
    struct pod pod;
    uint32_t count = 0;
    char *first, *second;
    char uid[64];

    (void)state;
    arena_init(&mem, 0);
    if (cluster_load(cluster, "config/demo/cluster", &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count, 4 + 3 + 14);
    if (cluster_load(cluster, "config/examples/visible-devices.yaml", &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count, 1);
    pod = get(cluster, "default", "visible-devices", &mem);
    assert_int_equal(pod.containers[0].requests.amount[RESOURCE_GPU], 50);
    snprintf(uid, sizeof uid, "%.*s", STR_ARG(pod.id.uid));
    assert_int_equal(bind_to(cluster, "visible-devices", uid, "gpu-c", &placement, &err),
                     BIND_DONE);

    first = dump(cluster);
    assert_non_null(strstr(first, "metadata.annotations['deviceshare.io/visible-devices']"));
    if (cluster_apply(other, str_from(first), "dump", &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count, 22);
    second = dump(other);
    assert_string_equal(first, second);
    mem_free(first);
    mem_free(second);
    arena_done(&mem);
    cluster_free(cluster);
    cluster_free(other);
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void directories_load_in_name_order(void **state)
{
    /* Neither this order nor its reverse is the right one. */
    static const char *const names[] = {"c.yml", "a.json", "d.yaml", "b.yaml", "e.txt", ".f.yaml"};
    static const char *const texts[] = {
        NODE("c"),
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"a\"}}",
        NODE("d") "---\n" NODE("e"),
        NODE("b"),
        "not a manifest",
        "not: [a manifest",
    };
    char directory[] = "/tmp/cluster-test-XXXXXX", path[128], wanted[160];
    struct cluster *cluster = new_cluster();
    struct error err;
    uint32_t count;

    (void)state;
    assert_non_null(mkdtemp(directory));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        write_file(directory, names[i], texts[i]);
    if (cluster_load(cluster, directory, &count, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(count, 5);
    assert_events("node a\nnode b\nnode c\nnode d\nnode e\n");

    write_file(directory, names[0], "a: b: c\n");
    assert_int_equal(cluster_load(cluster, directory, &count, &err), -EINVAL);
    snprintf(wanted, sizeof wanted,
             "%s/c.yml:1:5: not YAML: mapping values are not allowed in this context", directory);
    assert_string_equal(err.text, wanted);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        remove(path);
    }
    rmdir(directory);
    assert_int_equal(cluster_load(cluster, directory, &count, &err), -ENOENT);
    snprintf(wanted, sizeof wanted, "%s: No such file or directory", directory);
    assert_string_equal(err.text, wanted);
    cluster_free(cluster);
}

/* ---- memory ---- */

static const char stored_text[] = NODE("n") "---\n" POD("p", "  uid: " UID_A "\n", "");
static const char new_text[] =
    NODE("m") "---\n" DEVICE("n") "---\n" POD("p", "", "") "---\n" POD("q", "", "");
static const struct placement one_card = {.count = 1,
                                          .cards = {{.share = {DEVICE_GPU, 0, {1, 1, 1}, 0}}}};

static int apply_new(struct cluster *cluster, struct error *err)
{
    return cluster_apply(cluster, STR(new_text), "t.yaml", NULL, err);
}

/* So many that the store grows on the way. */
static int apply_many(struct cluster *cluster, struct error *err)
{
    char text[16384];
    size_t len = 0;

    for (int i = 0; i < 70; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "---\napiVersion: v1\nkind: Node\nmetadata: {name: n%d}\n", i);
    return cluster_apply(cluster, (struct str){text, len}, "t.yaml", NULL, err);
}

static int bind_stored(struct cluster *cluster, struct error *err)
{
    return bind_to(cluster, "p", UID_A, "n", &one_card, err) == BIND_DONE ? 0 : -ENOMEM;
}

/* What runs out of memory anywhere leaves the cluster as it was and tells nobody. (What json-c and
 * libyaml take for themselves cannot be made to fail here.) */
static void fail_each_allocation(int (*change)(struct cluster *cluster, struct error *err))
{
    struct cluster *cluster = new_cluster();
    struct error err;
    long needed;

    apply(cluster, stored_text);
    mem_fail_at(0);
    assert_int_equal(change(cluster, &err), 0);
    needed = mem_count();
    assert_true(needed > 5);
    cluster_free(cluster);

    for (long n = 1; n <= needed; n++) {
        char *before, *after;

        cluster = new_cluster();
        apply(cluster, stored_text);
        forget_events();
        before = dump(cluster);
        mem_fail_at(n);
        if (change(cluster, &err) != -ENOMEM)
            fail_msg("allocation %ld may fail unseen", n);
        mem_fail_at(0);
        assert_int_equal(err.code, -ENOMEM);
        after = dump(cluster);
        assert_string_equal(before, after);
        assert_int_equal(events_len, 0);
        mem_free(before);
        mem_free(after);
        cluster_free(cluster);
    }
}

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    fail_each_allocation(apply_new);
    fail_each_allocation(apply_many);
    fail_each_allocation(bind_stored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_namespace_says_the_defaults_of_its_pods),
        cmocka_unit_test(a_node_says_whether_it_has_a_device_plugin),
        cmocka_unit_test(objects_get_what_an_api_server_gives),
        cmocka_unit_test(uids_are_kept_and_given),
        cmocka_unit_test(events_come_nodes_first),
        cmocka_unit_test(bad_manifests_are_named_and_nothing_is_applied),
        cmocka_unit_test(pods_keep_what_an_api_server_keeps),
        cmocka_unit_test(nodes_and_devices_are_replaced),
        cmocka_unit_test(sched_without_memory_is_an_error),
        cmocka_unit_test(objects_are_deleted),
        cmocka_unit_test(bind_writes_node_and_annotations_at_once),
        cmocka_unit_test(bind_of_a_pod_without_devices_adds_no_annotation),
        cmocka_unit_test(bind_has_preconditions),
        cmocka_unit_test(unknown_pods_are_not_found),
        cmocka_unit_test(shipped_manifests_load_and_dumps_apply_again),
        cmocka_unit_test(directories_load_in_name_order),
        cmocka_unit_test(memory_may_end_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
