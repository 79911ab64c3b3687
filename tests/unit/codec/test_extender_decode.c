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
#include "codec/extender.h"
#include "codec/objects.h"

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

/* Decode and let go of the body at once: nothing in the call but the names may point into it. */
static struct candidates_call candidates(struct str body)
{
    struct candidates_call call;
    if (extender_decode_candidates(body, &codec_default_limits, NULL, &mem, &call, &err) != 0)
        fail_msg("%s", err.text);
    struct str *names = arena_alloc(&mem, call.node_count, sizeof *names);
    assert_non_null(names);
    for (uint32_t i = 0; i < call.node_count; i++)
        names[i] = arena_str(&mem, call.nodes[i]);
    call.nodes = names;
    body_free(body);
    return call;
}

static struct preempt_call preempt(struct str body)
{
    struct preempt_call call;
    if (extender_decode_preempt(body, &codec_default_limits, &mem, &call, &err) != 0)
        fail_msg("%s", err.text);
    body_free(body);
    return call;
}

static void refuse_candidates(struct str body, int code, const char *sentence)
{
    struct candidates_call call = {.node_count = 77};
    struct candidates_call before = call;
    assert_int_equal(extender_decode_candidates(body, &codec_default_limits, NULL, &mem, &call, &err),
                     code);
    assert_string_equal(err.text, sentence);
    assert_memory_equal(&call, &before, sizeof(call));
    body_free(body);
}

static void refuse_bind(struct str body, const char *sentence)
{
    struct bind_call call;
    assert_int_equal(extender_decode_bind(body, &codec_default_limits, &mem, &call, &err), -EINVAL);
    assert_string_equal(err.text, sentence);
    body_free(body);
}

static void assert_str(struct str text, const char *expected)
{
    if (!str_is(text, expected))
        fail_msg("\"%.*s\" is not \"%s\"", STR_ARG(text), expected);
}

/* ---- what kube-scheduler sends ---- */

static void test_names(void **state)
{
    (void)state;
    struct candidates_call call = candidates(BODY("requests/filter-names-min.json"));
    assert_str(call.pod.id.name, "infer-half-7d9c6b5f4d-x2k8p");
    assert_str(call.pod.id.ns, "ml-team");
    assert_str(call.pod.id.uid, "651011cb-0b8e-40e9-a646-6d5fdae85d09");
    assert_int_equal(call.pod.node_name.len, 0);
    assert_int_equal(call.pod.nominated_node.len, 0);
    assert_int_equal(call.pod.priority, 0);
    assert_false(call.pod.deleting);
    assert_false(call.pod.finished);
    assert_int_equal(call.pod.annotation, ANNOTATION_ABSENT);
    assert_int_equal(call.pod.container_count, 1);
    assert_str(call.pod.containers[0].name, "main");
    assert_int_equal(call.pod.containers[0].role, CONTAINER_APP);
    assert_int_equal(call.pod.containers[0].requests.amount[RESOURCE_GPU_CORE], 50);
    assert_int_equal(call.pod.containers[0].requests.amount[RESOURCE_GPU_MEMORY_RATIO], 50);
    assert_int_equal(call.node_count, 3);
    assert_false(call.full_nodes);
    assert_null(call.node_json);
}

static void test_letter_case_of_keys_does_not_matter(void **state)
{
    (void)state;
    struct candidates_call call = candidates(BODY("requests/filter-names-min.json"));
    struct candidates_call lower = candidates(BODY("requests/filter-lowercase-keys.json"));
    assert_true(str_eq(call.pod.id.uid, lower.pod.id.uid));
    assert_int_equal(call.pod.container_count, lower.pod.container_count);
    assert_memory_equal(&call.pod.containers[0].requests, &lower.pod.containers[0].requests,
                        sizeof(struct resources));
    assert_int_equal(lower.node_count, 1);
    assert_true(str_eq(call.nodes[0], lower.nodes[0]));
}

static void test_odd_pod(void **state)
{
    (void)state;
    struct candidates_call call = candidates(BODY("requests/filter-names-odd-pod.json"));
    const struct pod *pod = &call.pod;
    assert_str(pod->nominated_node, "gpu-node-02");
    assert_int_equal(pod->priority, 1000000);
    assert_int_equal(pod->container_count, 10);

    static const struct {
        const char *name;
        enum container_role role;
    } expected[] = {
        {"fetch", CONTAINER_INIT},
        {"sidecar-proxy", CONTAINER_SIDECAR},
        {"sidecar-gpu-mon", CONTAINER_SIDECAR},
        {"warmup", CONTAINER_INIT},
        {"main", CONTAINER_APP},
        {"second", CONTAINER_APP},
        {"whole-nvidia", CONTAINER_APP},
        {"zero-gpu", CONTAINER_APP},
        {"no-resources", CONTAINER_APP},
        {"huge", CONTAINER_APP},
    };
    for (size_t i = 0; i < 10; i++) {
        assert_str(pod->containers[i].name, expected[i].name);
        assert_int_equal(pod->containers[i].role, expected[i].role);
    }
    assert_false(resources_any(&pod->containers[7].requests)); /* gpu-core "0" is absent */
    assert_false(resources_any(&pod->containers[9].requests)); /* only foreign resources */
    assert_false(resources_any(&pod->overhead));

    struct resources sum;
    assert_int_equal(
        request_effective(pod->containers, pod->container_count, &pod->overhead, &sum, &err), 0);
    struct resources facts = {0};
    facts.amount[RESOURCE_GPU_CORE] = 135;
    facts.amount[RESOURCE_GPU_MEMORY] = 25769803776;
    facts.amount[RESOURCE_GPU_MEMORY_RATIO] = 10;
    facts.amount[RESOURCE_NVIDIA_GPU] = 1;
    assert_memory_equal(&sum, &facts, sizeof(sum));
}

static void test_nominated_node_alone(void **state)
{
    (void)state;
    struct candidates_call call = candidates(BODY("requests/filter-names-single-nominated.json"));
    assert_int_equal(call.node_count, 1);
    assert_true(str_eq(call.nodes[0], call.pod.nominated_node));
}

static void test_big_annotations_pass(void **state)
{
    (void)state;
    struct candidates_call call = candidates(BODY("requests/filter-names-big-annotations.json"));
    assert_true(call.node_count > 0);
    assert_true(resources_any(&call.pod.containers[0].requests));
}

static void test_5000_names_in_order(void **state)
{
    (void)state;
    struct str body = BODY("requests/filter-names-5000.json");
    struct str copy = body_copy(body);
    struct candidates_call call = candidates(body);
    assert_int_equal(call.node_count, 5000);
    struct str rest = copy;
    for (uint32_t i = 0; i < call.node_count; i++) {
        char quoted[300];
        snprintf(quoted, sizeof(quoted), "\"%.*s\"", STR_ARG(call.nodes[i]));
        const char *found = body_find(rest, quoted);
        assert_non_null(found);
        rest = (struct str){found + 1, (size_t)(copy.data + copy.len - found) - 1};
    }
    body_free(copy);
}

static void test_full_nodes_are_kept_byte_for_byte(void **state)
{
    (void)state;
    struct str body = BODY("requests/filter-nodes-full.json");
    struct str copy = body_copy(body);
    struct candidates_call call = candidates(body);
    assert_true(call.full_nodes);
    assert_int_equal(call.node_count, 3);

    /* The items with commas between them are what the body has between its brackets. */
    struct strbuf joined = {0};
    strbuf_puts(&joined, "\"items\":[");
    for (uint32_t i = 0; i < call.node_count; i++) {
        strbuf_puts(&joined, i > 0 ? "," : "");
        strbuf_add_str(&joined, call.node_json[i]);
        struct object_head head;
        struct strbuf item = {0};
        strbuf_printf(&item, "{\"kind\":\"Node\",%.*s", (int)call.node_json[i].len - 1,
                      call.node_json[i].data + 1);
        assert_int_equal(object_head((struct str){item.data, item.len}, &mem, &head, &err), 0);
        assert_true(str_eq(head.name, call.nodes[i]));
        strbuf_done(&item);
    }
    strbuf_puts(&joined, "]}");
    assert_non_null(body_find(copy, joined.data));
    strbuf_done(&joined);
    body_free(copy);
}

static void test_prioritize(void **state)
{
    (void)state;
    struct candidates_call names = candidates(BODY("requests/prioritize-names.json"));
    struct candidates_call full = candidates(BODY("requests/prioritize-nodes-full.json"));
    assert_int_equal(names.pod.containers[0].requests.amount[RESOURCE_GPU], 200);
    assert_true(names.pod.priority < 0);
    assert_true(full.full_nodes);
    assert_int_equal(full.pod.containers[0].requests.amount[RESOURCE_GPU], 200);
}

static void test_preempt_forms_agree(void **state)
{
    (void)state;
    struct preempt_call meta = preempt(BODY("requests/preempt-meta.json"));
    struct preempt_call full = preempt(BODY("requests/preempt-full.json"));
    assert_int_equal(meta.node_count, 2);
    assert_int_equal(full.node_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(str_eq(meta.nodes[i].node, full.nodes[i].node));
        assert_int_equal(meta.nodes[i].count, full.nodes[i].count);
        assert_int_equal(meta.nodes[i].pdb_violations, full.nodes[i].pdb_violations);
        for (uint32_t k = 0; k < meta.nodes[i].count; k++)
            assert_true(str_eq(meta.nodes[i].uids[k], full.nodes[i].uids[k]));
    }
    assert_str(meta.nodes[0].node, "gpu-node-01");
    assert_int_equal(meta.nodes[0].count, 2);
    assert_str(meta.nodes[0].uids[0], "0f20d90b-c6f0-47a4-8cbf-1af26fde5d39");
    assert_str(meta.nodes[1].uids[0], "f8c596a2-8656-4882-b121-2476851252f0");
    assert_int_equal(meta.nodes[1].pdb_violations, 1);
}

static void test_preempt_with_empty_victims(void **state)
{
    (void)state;
    struct preempt_call call = preempt(BODY("requests/preempt-meta-empty-victims.json"));
    uint32_t without = 0;
    for (uint32_t i = 0; i < call.node_count; i++)
        without += call.nodes[i].count == 0;
    assert_true(call.node_count > 0 && without > 0);
}

static void test_bind(void **state)
{
    (void)state;
    struct bind_call call;
    struct str body = BODY("requests/bind.json");
    assert_int_equal(extender_decode_bind(body, &codec_default_limits, &mem, &call, &err), 0);
    body_free(body);
    assert_str(call.pod.name, "infer-half-7d9c6b5f4d-x2k8p");
    assert_str(call.pod.ns, "ml-team");
    assert_str(call.pod.uid, "651011cb-0b8e-40e9-a646-6d5fdae85d09");
    assert_str(call.node, "gpu-node-01");

    body = BODY("requests/bind-longest-names.json");
    assert_int_equal(extender_decode_bind(body, &codec_default_limits, &mem, &call, &err), 0);
    body_free(body);
    assert_int_equal(call.pod.name.len, 253);
    assert_int_equal(call.pod.ns.len, 63);
    assert_int_equal(call.node.len, 253);
}

/* ---- odd bodies that Go accepts ---- */

static void test_odd_bodies_that_go_accepts(void **state)
{
    (void)state;
    struct candidates_call call = candidates(BODY("bad/quantity-as-number.json"));
    assert_true(resources_any(&call.pod.containers[0].requests));
    call = candidates(BODY("bad/containers-null.json"));
    assert_int_equal(call.pod.container_count, 0);
    call = candidates(BODY("bad/nodes-items-null.json"));
    assert_true(call.full_nodes);
    assert_int_equal(call.node_count, 0);

    struct preempt_call victims = preempt(BODY("bad/preempt-null-victims.json"));
    assert_int_equal(victims.node_count, 2); /* the null one is dropped */
    assert_str(victims.nodes[0].node, "gpu-node-02");
    assert_int_equal(victims.nodes[0].count, 0);
    assert_str(victims.nodes[1].node, "gpu-node-03");
    assert_int_equal(victims.nodes[1].count, 0);
}

static struct str min_with(const char *from, const char *to)
{
    struct str body = BODY("requests/filter-names-min.json");
    struct str changed = body_replace(body, from, to);
    body_free(body);
    return changed;
}

static void test_the_last_key_wins(void **state)
{
    (void)state;
    struct candidates_call call =
        candidates(min_with("\"Nodes\":null", "\"nodenames\":[\"x\"],\"Nodes\":null"));
    assert_int_equal(call.node_count, 3);
    call = candidates(min_with("\"uid\":\"651011cb", "\"uid\\u0000\":\"evil\",\"uid\":\"651011cb"));
    assert_str(call.pod.id.uid, "651011cb-0b8e-40e9-a646-6d5fdae85d09");
}

static void test_names_win_over_nodes(void **state)
{
    (void)state;
    struct candidates_call call =
        candidates(min_with("\"Nodes\":null", "\"Nodes\":{\"items\":[{}]}"));
    assert_false(call.full_nodes);
    assert_int_equal(call.node_count, 3);
}

static void test_a_current_name_wins_over_its_old_one(void **state)
{
    (void)state;
    static const char *const both[] = {
        "\"kubernetes.io/gpu-core\":\"70\",\"koordinator.sh/gpu-core\":\"20\"",
        "\"koordinator.sh/gpu-core\":\"20\",\"kubernetes.io/gpu-core\":\"70\"",
    };
    for (int i = 0; i < 2; i++) {
        struct candidates_call call =
            candidates(min_with("\"koordinator.sh/gpu-core\":\"50\"", both[i]));
        assert_int_equal(call.pod.containers[0].requests.amount[RESOURCE_GPU_CORE], 20);
    }
    struct candidates_call old = candidates(
        min_with("\"koordinator.sh/gpu-core\":\"50\"", "\"kubernetes.io/gpu-core\":\"70\""));
    assert_int_equal(old.pod.containers[0].requests.amount[RESOURCE_GPU_CORE], 70);
}

/* ---- bodies that are refused, with the field in front ---- */

static void test_bad_texts(void **state)
{
    (void)state;
    refuse_candidates(BODY("bad/empty.json"), -EINVAL, "body: empty");
    refuse_candidates(BODY("bad/not-json.json"), -EINVAL,
                      "body: not valid JSON, unexpected end at byte 7");
    refuse_candidates(BODY("bad/invalid-utf8.json"), -EINVAL,
                      "body: not valid JSON, bad UTF-8 at byte 29");
    refuse_candidates(BODY("bad/null.json"), -EINVAL, "body: must be an object");
    refuse_candidates(BODY("bad/top-level-array.json"), -EINVAL, "body: must be an object");
    refuse_candidates(BODY("bad/deep-nesting.json"), -E2BIG, "body: nesting deeper than 64");
    refuse_bind(BODY("bad/empty.json"), "body: empty");
    refuse_bind(BODY("bad/top-level-array.json"), "body: must be an object");
}

static void test_bad_pods(void **state)
{
    (void)state;
    refuse_candidates(BODY("bad/pod-null.json"), -EINVAL, "Pod: must not be null");
    refuse_candidates(body_copy(STR("{\"NodeNames\":[]}")), -EINVAL, "Pod: must not be null");
    refuse_candidates(body_copy(STR("{\"Pod\":[],\"NodeNames\":[]}")), -EINVAL,
                      "Pod: must be an object");
    refuse_candidates(BODY("bad/pod-without-uid.json"), -EINVAL,
                      "Pod.metadata.uid: must not be empty");
    refuse_candidates(BODY("bad/pod-already-assigned.json"), -EINVAL,
                      "Pod.spec.nodeName: pod is already assigned to node \"gpu-node-01\"");
    refuse_candidates(min_with("\"name\":\"infer-half-7d9c6b5f4d-x2k8p\"", "\"name\":null"),
                      -EINVAL, "Pod.metadata.name: must not be empty");
    refuse_candidates(min_with("\"namespace\":\"ml-team\"", "\"namespace\":\"\""), -EINVAL,
                      "Pod.metadata.namespace: must not be empty");
    refuse_candidates(min_with("\"namespace\":\"ml-team\"", "\"namespace\":5"), -EINVAL,
                      "Pod.metadata.namespace: must be a string");
    refuse_candidates(min_with("\"priority\":0", "\"priority\":2147483648"), -EINVAL,
                      "Pod.spec.priority: must be from -2147483648 to 2147483647");
    refuse_candidates(min_with("\"phase\":\"Pending\"", "\"phase\":{}"), -EINVAL,
                      "Pod.status.phase: must be a string");
}

static void test_bad_containers(void **state)
{
    (void)state;
    struct candidates_call call;
    struct str body =
        min_with("\"koordinator.sh/gpu-core\":\"50\"", "\"koordinator.sh/gpu-core\":\"5O\"");
    assert_int_equal(extender_decode_candidates(body, &codec_default_limits, NULL, &mem, &call, &err),
                     -EINVAL);
    static const char path[] =
        "Pod.spec.containers[0].resources.requests[\"koordinator.sh/gpu-core\"]: ";
    assert_memory_equal(err.text, path, sizeof(path) - 1);
    assert_non_null(strstr(err.text, "5O"));
    body_free(body);

    refuse_candidates(
        min_with("\"koordinator.sh/gpu-core\":\"50\"", "\"koordinator.sh/gpu-core\":[]"), -EINVAL,
        "Pod.spec.containers[0].resources.requests[\"koordinator.sh/gpu-core\"]: "
        "must be a quantity");
    refuse_candidates(min_with("\"containers\":[{", "\"containers\":[7,{"), -EINVAL,
                      "Pod.spec.containers[0]: must be an object");
    refuse_candidates(min_with("\"containers\":[", "\"initContainers\":{},\"containers\":["),
                      -EINVAL, "Pod.spec.initContainers: must be an array");
    refuse_candidates(min_with("\"containers\":[", "\"overhead\":[],\"containers\":["), -EINVAL,
                      "Pod.spec.overhead: must be an object");
}

static void test_bad_candidates(void **state)
{
    (void)state;
    refuse_candidates(BODY("bad/no-nodes-at-all.json"), -EINVAL,
                      "NodeNames: one of NodeNames and Nodes must be given");
    refuse_candidates(BODY("bad/names-wrong-type.json"), -EINVAL, "NodeNames[0]: must be a string");
    refuse_candidates(min_with("\"Nodes\":null,\"NodeNames\"", "\"NodeNames\":{},\"x\""), -EINVAL,
                      "NodeNames: must be an array");
    refuse_candidates(min_with("\"Nodes\":null,\"NodeNames\"", "\"Nodes\":[],\"x\""), -EINVAL,
                      "Nodes: must be an object");
    refuse_candidates(
        min_with("\"Nodes\":null,\"NodeNames\"", "\"Nodes\":{\"items\":[{},3]},\"x\""), -EINVAL,
        "Nodes.items[1]: must be an object");
    refuse_candidates(min_with("\"Nodes\":null,\"NodeNames\"",
                               "\"Nodes\":{\"items\":[{\"metadata\":{\"name\":1}}]},\"x\""),
                      -EINVAL, "Nodes.items[0].metadata.name: must be a string");
}

static void test_limits(void **state)
{
    (void)state;
    struct codec_limits limits = codec_default_limits;
    struct candidates_call call;
    struct str body = BODY("requests/filter-names-min.json");
    limits.nodes = 2;
    assert_int_equal(extender_decode_candidates(body, &limits, NULL, &mem, &call, &err), -E2BIG);
    assert_string_equal(err.text, "NodeNames: more than 2 nodes");
    limits.nodes = 3;
    limits.name_bytes = 10; /* gpu-node-01 has 11 */
    assert_int_equal(extender_decode_candidates(body, &limits, NULL, &mem, &call, &err), -E2BIG);
    assert_string_equal(err.text, "NodeNames[0]: longer than 10 bytes");
    limits.name_bytes = 11;
    assert_int_equal(extender_decode_candidates(body, &limits, NULL, &mem, &call, &err), 0);
    body_free(body);

    limits = codec_default_limits;
    limits.nodes = 1;
    struct preempt_call victims;
    body = BODY("requests/preempt-meta.json");
    assert_int_equal(extender_decode_preempt(body, &limits, &mem, &victims, &err), -E2BIG);
    assert_string_equal(err.text, "NodeNameToMetaVictims: more than 1 nodes");
    body_free(body);

    body = BODY("requests/filter-nodes-full.json");
    assert_int_equal(extender_decode_candidates(body, &limits, NULL, &mem, &call, &err), -E2BIG);
    assert_string_equal(err.text, "Nodes.items: more than 1 nodes");
    body_free(body);
}

/* ---- preempt and bind ---- */

#define POD "\"Pod\":{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\"}}"

static void refuse_preempt(const char *body, const char *sentence)
{
    struct preempt_call call;
    struct str copy = body_copy(str_from(body));
    assert_int_equal(extender_decode_preempt(copy, &codec_default_limits, &mem, &call, &err),
                     -EINVAL);
    assert_string_equal(err.text, sentence);
    body_free(copy);
}

static void test_bad_preempt(void **state)
{
    (void)state;
    refuse_preempt("{" POD "}", "NodeNameToMetaVictims: one of NodeNameToVictims and "
                                "NodeNameToMetaVictims must be given");
    refuse_preempt("{\"NodeNameToMetaVictims\":{}}", "Pod: must not be null");
    refuse_preempt("{" POD ",\"NodeNameToMetaVictims\":[]}",
                   "NodeNameToMetaVictims: must be an object");
    refuse_preempt("{" POD ",\"NodeNameToMetaVictims\":{\"a\":3}}",
                   "NodeNameToMetaVictims[\"a\"]: must be an object");
    refuse_preempt("{" POD ",\"NodeNameToMetaVictims\":{\"a\":{\"Pods\":{}}}}",
                   "NodeNameToMetaVictims[\"a\"].Pods: must be an array");
    refuse_preempt("{" POD ",\"NodeNameToMetaVictims\":{\"a\":{\"Pods\":[null,{\"UID\":7}]}}}",
                   "NodeNameToMetaVictims[\"a\"].Pods[1].UID: must be a string");
    refuse_preempt("{" POD
                   ",\"NodeNameToVictims\":{\"a\":{\"Pods\":[{\"metadata\":{\"uid\":7}}]}}}",
                   "NodeNameToVictims[\"a\"].Pods[0].metadata.uid: must be a string");
    refuse_preempt("{" POD ",\"NodeNameToMetaVictims\":{\"a\":{\"NumPDBViolations\":1.5}}}",
                   "NodeNameToMetaVictims[\"a\"].NumPDBViolations: must be an integer");
}

static void test_preempt_repeated_names_and_forms(void **state)
{
    (void)state;
    struct preempt_call call = preempt(body_copy(
        STR("{" POD ",\"NodeNameToVictims\":{\"x\":{\"Pods\":[]}},\"NodeNameToMetaVictims\":{"
            "\"a\":{\"Pods\":[{\"UID\":\"1\"},{\"UID\":\"2\"}],\"NumPDBViolations\":4},"
            "\"b\":{\"Pods\":[{\"UID\":\"3\"}]},"
            "\"\\u0061\":{\"Pods\":[{\"UID\":\"5\"},null,{},{\"UID\":\"\"}]},"
            "\"b\":null,\"c\":null,\"c\":{\"Pods\":[{\"UID\":\"6\"}]}}}")));
    assert_int_equal(call.node_count, 2);
    assert_str(call.nodes[0].node, "a");
    assert_int_equal(call.nodes[0].count,
                     1); /* the last word on "a"; victims without UID dropped */
    assert_str(call.nodes[0].uids[0], "5");
    assert_int_equal(call.nodes[0].pdb_violations, 0);
    assert_str(call.nodes[1].node, "c");
    assert_str(call.nodes[1].uids[0], "6");
}

static void test_bad_bind(void **state)
{
    (void)state;
    refuse_bind(BODY("bad/bind-path-traversal.json"), "PodName: must be a DNS-1123 subdomain");
    refuse_bind(body_copy(STR("{\"PodNamespace\":\"a\"}")), "PodName: must not be empty");
    refuse_bind(body_copy(STR("{\"PodName\":3}")), "PodName: must be a string");
    refuse_bind(body_copy(STR("{\"PodName\":\"a\",\"PodNamespace\":\"a.b\"}")),
                "PodNamespace: must be a DNS-1123 label");
    refuse_bind(body_copy(STR("{\"PodName\":\"a\",\"PodNamespace\":\"b\",\"PodUID\":\"a/b\"}")),
                "PodUID: must be a UID");
    refuse_bind(body_copy(STR("{\"PodName\":\"a\\u0000\",\"PodNamespace\":\"b\"}")),
                "PodName: must be a DNS-1123 subdomain");
    refuse_bind(body_copy(STR("{\"PodName\":\"a\",\"PodNamespace\":\"b\",\"PodUID\":\"c\"}")),
                "Node: must not be empty");
    refuse_bind(body_copy(STR(
                    "{\"PodName\":\"a\",\"PodNamespace\":\"b\",\"PodUID\":\"c\",\"Node\":\"A\"}")),
                "Node: must be a DNS-1123 subdomain");
}

/* A bind for a pod that is not the UID's is well formed: the use case finds out. */
static void test_bind_uid_of_other_pod_is_well_formed(void **state)
{
    (void)state;
    struct bind_call call;
    struct str body = BODY("bad/bind-uid-of-other-pod.json");
    assert_int_equal(extender_decode_bind(body, &codec_default_limits, &mem, &call, &err), 0);
    assert_str(call.pod.name, "does-not-exist");
    body_free(body);
}

static void test_errors_may_be_unwanted(void **state)
{
    (void)state;
    struct candidates_call call;
    struct preempt_call victims;
    struct bind_call bind;
    assert_int_equal(extender_decode_candidates(STR("{"), &codec_default_limits, NULL, &mem, &call, NULL),
                     -EINVAL);
    assert_int_equal(
        extender_decode_preempt(STR("{\"Pod\":1}"), &codec_default_limits, &mem, &victims, NULL),
        -EINVAL);
    assert_int_equal(extender_decode_bind(STR("{}"), &codec_default_limits, &mem, &bind, NULL),
                     -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
        TEST(test_names),
        TEST(test_letter_case_of_keys_does_not_matter),
        TEST(test_odd_pod),
        TEST(test_nominated_node_alone),
        TEST(test_big_annotations_pass),
        TEST(test_5000_names_in_order),
        TEST(test_full_nodes_are_kept_byte_for_byte),
        TEST(test_prioritize),
        TEST(test_preempt_forms_agree),
        TEST(test_preempt_with_empty_victims),
        TEST(test_bind),
        TEST(test_odd_bodies_that_go_accepts),
        TEST(test_the_last_key_wins),
        TEST(test_names_win_over_nodes),
        TEST(test_a_current_name_wins_over_its_old_one),
        TEST(test_bad_texts),
        TEST(test_bad_pods),
        TEST(test_bad_containers),
        TEST(test_bad_candidates),
        TEST(test_limits),
        TEST(test_bad_preempt),
        TEST(test_preempt_repeated_names_and_forms),
        TEST(test_bad_bind),
        TEST(test_bind_uid_of_other_pod_is_well_formed),
        TEST(test_errors_may_be_unwanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
