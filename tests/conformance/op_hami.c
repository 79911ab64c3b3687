/* SPDX-License-Identifier: Apache-2.0 */
/* HAMi's vectors on single values: requests, selections, orders, annotations, accounting. */
#include "hami.h"

#include <stdio.h>
#include <string.h>

#include "codec/hami.h"
#include "codec/objects.h"
#include "core/policy.h"
#include "sched/intake.h"

/* ---- requests ---- */

static void run_request(struct vector *v, json_object *answer)
{
    json_object *config = json_get(v->given, "config");
    const struct hami_rules rules = {
        .default_memory_mib = hami_number(config, "default_memory"),
        .default_cores = hami_number(config, "default_cores"),
        .memory_factor = hami_number(config, "memory_factor"),
    };
    struct pod pod;
    struct pod_request request = {0};
    struct error err;
    if (!fields_known(v, "given.config", config, "default_memory default_cores memory_factor") ||
        !hami_ask_written(v, json_get(v->given, "container"), &pod))
        return;
    if (intake_request(&pod, &rules, &request, &err) < 0) {
        json_put_bool(answer, "refused", true);
        return;
    }
    const struct device_request *gpu = &request.of[DEVICE_GPU];
    json_put_bool(answer, "ignored", gpu->count == 0);
    json_put_int(answer, "gpus", gpu->count);
    json_put_int(answer, "mem", gpu->each.bytes / MIB);
    if (gpu->each.ratio > 0)
        json_put_int(answer, "mem_pct", gpu->each.ratio);
    else
        json_put(answer, "mem_pct", NULL);
    json_put_int(answer, "cores", gpu->each.percent);
}

static json_object *counts_of(json_object *numbers)
{
    json_object *list = json_new_array();
    for (size_t i = 0; i < json_object_array_length(numbers); i++) {
        json_object *request = json_new_object();
        json_put_int(request, "gpus", json_object_get_int64(json_object_array_get_idx(numbers, i)));
        json_push(list, request);
    }
    return list;
}

static void run_pod_requests(struct vector *v, json_object *answer)
{
    struct pod pod;
    struct pod_request request;
    json_object *init = counts_of(json_get(v->given, "init"));
    json_object *app = counts_of(json_get(v->given, "app")), *counts = json_new_array();
    if (hami_ask(v, NULL, init, app, &pod, &request)) {
        const struct gpu_detail *detail = request.detail;
        for (uint32_t i = 0, at = 0; i < pod.container_count; i++) {
            bool asks =
                detail != NULL && at < detail->count && detail->containers[at].container == i;
            json_push(counts, json_object_new_int64(asks ? detail->containers[at++].gpu.count : 0));
        }
    }
    json_put(answer, "per_container_gpus", counts);
    json_object_put(init);
    json_object_put(app);
}

/* ---- selections ---- */

static void run_select(struct vector *v, json_object *answer)
{
    struct pod pod;
    struct pod_request request;
    json_object *device = json_get(v->given, "device");
    if (!fields_known(v, "given.device", device, "id type") ||
        !hami_ask(v, json_get(v->given, "annotations"), NULL, NULL, &pod, &request))
        return;
    json_put_bool(answer, "allowed",
                  card_selected(&pod.selection, json_slice(json_get(device, "type")),
                                json_slice(json_get(device, "id"))));
}

/* ---- orders ---- */

/* Two cards as full as their scores say, in percent. What sorts later is preferred; on ties that is
 * the lower minor. */
static void run_order(struct vector *v, json_object *answer)
{
    json_object *a = json_get(v->given, "a"), *b = json_get(v->given, "b");
    json_object *name = json_get(json_get(v->given, "policy"), "gpu");
    const struct device_policy *policy =
        device_policy_find(name != NULL ? json_slice(name) : (struct str){0});
    if (policy == NULL) /* a word of HAMi's that is ignored */
        policy = &device_policy_default;
    json_object *cards[] = {a, b}, *devices = json_new_array();
    struct hami_cards node;
    for (size_t i = 0; i < 2; i++) {
        json_object *device = json_new_object();
        json_put_int(device, "score", hami_number(cards[i], "score"));
        json_put_int(device, "mem", 100);
        json_put_int(device, "cores", 100);
        json_push(devices, device);
    }
    if (hami_read_cards(v, devices, &node))
        json_put_bool(answer, "a_sorts_before_b",
                      policy->prefer(&node.cards->cards, DEVICE_GPU, 1, 0));
    json_object_put(devices);
}

/* ---- annotations ---- */

static void run_pod_annotation(struct vector *v, json_object *answer)
{
    static struct placement placement;
    json_object *containers = json_get(v->given, "containers"), *text = json_get(v->given, "text");
    const struct named_share *named;
    uint32_t count;
    struct error err;
    struct strbuf out = {0};
    if (containers == NULL) {
        bool bad = text != NULL && hami_allocated_parse(json_slice(text), NULL, 0, &v->mem, &named,
                                                        &count, &err) < 0;
        json_put_bool(answer, "error", bad);
        json_put_int(answer, "decoded_containers", 0);
        return;
    }
    memset(&placement, 0, sizeof placement);
    placement.container_count = (uint32_t)json_object_array_length(containers);
    for (uint32_t c = 0; c < placement.container_count; c++) {
        json_object *list = json_object_array_get_idx(containers, c);
        for (size_t i = 0; i < json_object_array_length(list); i++) {
            json_object *device = json_object_array_get_idx(list, i);
            struct placed_card *card = &placement.cards[placement.count];
            (void)snprintf(card->id, sizeof card->id, "%s", json_text(device, "id", ""));
            placement.parts[placement.part_count++] =
                (struct placed_part){.container = c,
                                     .card = placement.count++,
                                     .amount = {.percent = hami_number(device, "cores"),
                                                .bytes = hami_number(device, "mem") * MIB}};
        }
    }
    hami_allocated_format(&placement, &out);
    json_put_text(answer, "text", out.data);
    json_put_text(json_sub(answer, "annotations"), ANNOTATION_HAMI_TO_ALLOCATE, out.data);
    json_put_text(json_sub(answer, "annotations"), ANNOTATION_HAMI_ALLOCATED, out.data);
    int64_t segments = 0;
    for (size_t i = 0; i < out.len; i++)
        segments += out.data[i] == ';';
    json_put_int(answer, "decoded_containers", segments);
    strbuf_done(&out);
}

/* The fields of a card that the record states, of what is read: mode and NUMA node mean nothing
 * here. */
static json_object *card_as_stated(const struct device *device, json_object *stated)
{
    json_object *card = json_new_object();
    char text[DEVICE_MODEL_MAX + 1];
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(device->id));
    json_put_text(card, "id", text);
    json_put_int(card, "index", device->minor);
    json_put_int(card, "slots", device->slots);
    json_put_int(card, "mem", device->total.bytes / MIB);
    json_put_int(card, "cores", device->total.percent);
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(device->model));
    json_put_text(card, "type", text);
    json_put_bool(card, "health", device->healthy);
    static const char *const unknown[] = {"mode", "numa"};
    for (size_t i = 0; i < 2; i++)
        if (json_has(stated, unknown[i]))
            json_put(card, unknown[i], json_object_get(json_get(stated, unknown[i])));
    return card;
}

static void run_node_annotation(struct vector *v, json_object *answer)
{
    json_object *text = json_get(v->given, "text"), *expected = json_get(v->expect, "devices");
    json_object *node = json_new_object(), *devices = json_new_array();
    struct node_facts facts = {0};
    struct error err;
    json_put_text(node, "kind", "Node");
    json_put_text(json_sub(node, "metadata"), "name", "n");
    if (text != NULL)
        json_put(json_sub(json_sub(node, "metadata"), "annotations"), ANNOTATION_HAMI_REGISTER,
                 json_object_get(text));
    struct str json = arena_str(&v->mem, str_from(json_compact(node)));
    json_object_put(node);
    if (object_decode_node(json, &v->mem, &facts, &err) < 0)
        vector_fail(v, "Node", "one that can be read", err.text);
    for (uint32_t i = 0; i < facts.registered.count; i++)
        json_push(devices,
                  card_as_stated(&facts.registered.devices[i],
                                 expected != NULL ? json_object_array_get_idx(expected, i) : NULL));
    json_put(answer, "devices", devices);
    if (facts.registration == REGISTRATION_UNREADABLE)
        json_put_text(answer, "error", facts.registration_problem.data);
    else if (facts.registration == REGISTRATION_ABSENT)
        json_put_text(answer, "error", "annotation not found");
}

/* ---- accounting ---- */

/* What containers have, as the annotation tells it. */
static void write_list(struct strbuf *text, json_object *containers)
{
    for (size_t c = 0; containers != NULL && c < json_object_array_length(containers); c++) {
        json_object *list = json_object_array_get_idx(containers, c);
        for (size_t i = 0; i < json_object_array_length(list); i++) {
            json_object *device = json_object_array_get_idx(list, i);
            strbuf_printf(text, "%s,NVIDIA,%lld,%lld:", json_text(device, "id", ""),
                          (long long)hami_number(device, "mem"),
                          (long long)hami_number(device, "cores"));
        }
        strbuf_putc(text, ';');
    }
}

static void run_accounting(struct vector *v, json_object *answer)
{
    struct strbuf text = {0};
    int64_t init = hami_number(v->given, "init_containers");
    int64_t count = init + hami_number(v->given, "app_containers");
    struct container *containers = arena_alloc(&v->mem, (size_t)count, sizeof *containers);
    for (int64_t i = 0; i < count; i++)
        containers[i].role = i < init ? CONTAINER_INIT : CONTAINER_APP;
    write_list(&text, json_get(v->given, "per_container_devices"));
    const struct named_share *named;
    uint32_t named_count = 0;
    struct error err;
    json_object *list = json_new_array();
    if (hami_allocated_parse((struct str){text.data, text.len}, containers, (uint32_t)count,
                             &v->mem, &named, &named_count, &err) < 0)
        vector_fail(v, "text", "one that can be read", err.text);
    for (uint32_t i = 0; i < named_count; i++) {
        json_object *device = json_new_object();
        char id[DEVICE_ID_MAX + 1];
        (void)snprintf(id, sizeof id, "%.*s", STR_ARG(named[i].id));
        json_put_text(device, "id", id);
        json_put_int(device, "mem", named[i].mib);
        json_put_int(device, "cores", named[i].percent);
        json_put_int(device, "slots", named[i].beside + 1);
        json_push(list, device);
    }
    json_put(answer, "per_device", list);
    strbuf_done(&text);
}

/* ---- the table ---- */

#define EXACT(field)                                                                               \
    {                                                                                              \
        field, COMPARE_EXACT, NULL, NULL                                                           \
    }

static const struct expectation request_fields[] = {
    EXACT("gpus"),    EXACT("mem"), EXACT("mem_pct"), EXACT("cores"), EXACT("ignored"),
    EXACT("refused"), {0},
};
static const struct expectation counts_fields[] = {
    EXACT("per_container_gpus"), {"order", COMPARE_IGNORED, NULL, NULL}, {0}};
static const struct expectation allowed_fields[] = {EXACT("allowed"), {0}};
static const struct expectation order_fields[] = {EXACT("a_sorts_before_b"), {0}};
static const struct expectation pod_annotation_fields[] = {
    EXACT("text"), EXACT("annotations"), EXACT("decoded_containers"), EXACT("error"), {0}};
static const struct expectation node_annotation_fields[] = {
    EXACT("devices"), {"error", COMPARE_CONTAINS, NULL, NULL}, {0}};
static const struct expectation accounting_fields[] = {EXACT("per_device"), {0}};

#define ACCOUNT "init_containers app_containers per_container_devices"

const struct op hami_value_ops[] = {
    {"hami/request", "container config", request_fields, run_request},
    {"hami/pod-requests", "init app", counts_fields, run_pod_requests},
    {"hami/select-uuid", "annotations device", allowed_fields, run_select},
    {"hami/select-type", "annotations device", allowed_fields, run_select},
    {"hami/order", "policy a b", order_fields, run_order},
    {"hami/pod-annotation", "containers text", pod_annotation_fields, run_pod_annotation},
    {"hami/node-annotation-csv", "text", node_annotation_fields, run_node_annotation},
    {"hami/node-annotation-json", "text", node_annotation_fields, run_node_annotation},
    {"hami/accounting-effective", ACCOUNT, accounting_fields, run_accounting},
    {"hami/accounting-after-init", ACCOUNT, accounting_fields, run_accounting},
    {0},
};
