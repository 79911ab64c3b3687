/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/trace_manifests.h"

#include "base/map.h"
#include "base/strbuf.h"
#include "codec/constraints.h"
#include "codec/hami.h"
#include "codec/model_rule.h"
#include "core/hami.h"
#include "core/pack_site.h"
#include "core/quantity.h"
#include "embed/apply.h"
#include "sched/intake.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define MODEL_LABEL "metadata.labels[\"" LABEL_GPU_MODEL "\"]"

/* What of the objects is not played, though it is no mistake: constraints, and these. */
enum { NOTE_POLICY = CONSTRAINT_MAX, NOTE_DEVICE_PLUGIN, NOTE_UNHEALTHY, NOTES };

/* One file while it is read. */
struct reading {
    struct trace *trace;
    struct store store; /* empty: every object is new */
    struct apply apply;
    uint32_t noted[NOTES];             /* objects */
    const struct change *first[NOTES]; /* of them */
};

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

static int begin(struct reading *reading, struct trace *trace, struct str text, const char *path,
                 struct error *err)
{
    *reading = (struct reading){.trace = trace};
    store_init(&reading->store);
    int rc = apply_read(&reading->apply, text, path, err);
    return rc == 0 ? apply_check(&reading->apply, &reading->store, err) : rc;
}

static void note(struct reading *reading, const struct change *change, unsigned what)
{
    if (reading->noted[what]++ == 0)
        reading->first[what] = change;
}

static void note_constraints(struct reading *reading, const struct change *change,
                             uint32_t constraints)
{
    for (unsigned i = 0; i < CONSTRAINT_MAX; i++)
        if ((constraints >> i & 1) != 0)
            note(reading, change, i);
}

static const char *note_field(unsigned what)
{
    switch (what) {
    case NOTE_POLICY:
        return "metadata.annotations: placement policy";
    case NOTE_DEVICE_PLUGIN:
        return "status: a device plugin's cards, which devicePluginNodes may refuse";
    case NOTE_UNHEALTHY:
        return "spec.devices: unhealthy GPUs";
    default:
        return constraint_field((enum constraint)what);
    }
}

/* Say what is not played, and free all. */
static void end(struct reading *reading, bool good)
{
    for (unsigned i = 0; good && i < NOTES; i++)
        if (reading->noted[i] > 0)
            fprintf(stderr, "deviceshare-sim: %s:%u: %.*s: %s: not played (objects: %u)\n",
                    reading->apply.source, reading->first[i]->line,
                    STR_ARG(reading->first[i]->title), note_field(i), reading->noted[i]);
    apply_done(&reading->apply);
    store_done(&reading->store);
}

/* ---- nodes ---- */

/* A card must be a whole one: what the simulator counts are its thousandths. */
static int check_card(const struct device *card, struct error *err)
{
    for (enum dimension dim = DIM_PERCENT; dim <= DIM_RATIO; dim++)
        if (amount_get(&card->total, dim) != 100)
            return error_set(err, -EINVAL, "spec.devices: gpu %d has %s %" PRId64 ", want 100",
                             card->minor, device_dimension_name(DEVICE_GPU, dim),
                             amount_get(&card->total, dim));
    if (card->total.bytes == 0)
        return error_set(err, -EINVAL, "spec.devices: gpu %d does not say its %s", card->minor,
                         device_dimension_name(DEVICE_GPU, DIM_BYTES));
    return 0;
}

static void add_card(struct trace *trace, struct trace_node *node, int64_t bytes)
{
    struct trace_memory *memory = &trace->card_bytes[node->model];
    if (memory->most == 0 || bytes < memory->least)
        memory->least = bytes;
    if (bytes > memory->most)
        memory->most = bytes;
    node->cards++;
}

/* The healthy GPUs of a Device object. Cards of other kinds are left there: no pod may ask for them. */
static int add_cards(struct trace *trace, struct trace_node *node, const struct inventory *inventory,
                     struct error *err)
{
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct device *card = &inventory->devices[i];
        if (card->kind != DEVICE_GPU || !card->healthy)
            continue;
        int rc = check_card(card, err);
        if (rc < 0)
            return rc;
        add_card(trace, node, card->total.bytes);
    }
    if (node->cards > TRACE_CARDS_MAX)
        return error_set(err, -EINVAL, "spec.devices: %u GPUs, more than %d", node->cards,
                         TRACE_CARDS_MAX);
    return 0;
}

/* The model of a node's cards: what its Node says, which pods' nodeSelector and affinity are about, or its
 * Device. */
static int model_of(struct trace *trace, const struct node_facts *facts,
                    const struct inventory *inventory, struct error *err)
{
    struct str model = facts->gpu_model;
    for (uint32_t i = 0; i < inventory->count; i++) {
        const struct device *card = &inventory->devices[i];
        if (card->kind != DEVICE_GPU || card->model.len == 0)
            continue;
        if (model.len > 0 && !str_eq(model, card->model))
            return error_set(err, -EINVAL, MODEL_LABEL ": is \"%.*s\", but that of its Node \"%.*s\"",
                             STR_ARG(card->model), STR_ARG(model));
        model = card->model;
    }
    return trace_model(trace, model, err);
}

/* What a Node must say, and must not say of cards that no Device object lists. */
static int check_node(const struct node_facts *facts, bool has_device, struct error *err)
{
    if (facts->allocatable.cpu_milli == 0 || facts->allocatable.memory_bytes == 0)
        return error_set(err, -EINVAL, "status.allocatable: cpu and memory must be told");
    if (has_device)
        return 0;
    if (facts->registration != REGISTRATION_ABSENT)
        return error_set(err, -EINVAL,
                         "metadata.annotations[\"" ANNOTATION_HAMI_REGISTER
                         "\"]: cards are read from a Device object, and there is none");
    if (facts->device_plugin)
        return error_set(err, -EINVAL,
                         "status: counts whole cards, and no Device object says what they are");
    return 0;
}

static void note_node(struct reading *reading, const struct change *change,
                      const struct inventory *inventory)
{
    note_constraints(reading, change, constraints_of_node(change->json));
    if (change->node.device_plugin)
        note(reading, change, NOTE_DEVICE_PLUGIN);
    for (uint32_t i = 0; i < inventory->count; i++) {
        if (inventory->devices[i].healthy || inventory->devices[i].kind != DEVICE_GPU)
            continue;
        note(reading, change, NOTE_UNHEALTHY);
        break;
    }
}

static int read_node(struct reading *reading, const struct change *change,
                     const struct change *device, struct trace_node *ret, struct error *err)
{
    static const struct inventory nothing;
    struct trace *trace = reading->trace;
    const struct node_facts *facts = &change->node;
    const struct inventory *inventory = device != NULL ? &device->inventory : &nothing;
    if (check_node(facts, device != NULL, err) < 0)
        return apply_at(&reading->apply, change, err);
    int model = model_of(trace, facts, inventory, err);
    if (model < 0)
        return apply_at(&reading->apply, device != NULL ? device : change, err);
    *ret = (struct trace_node){
        .name = arena_str(&trace->memory, facts->name),
        .cpu_milli = facts->allocatable.cpu_milli,
        .memory_mib = facts->allocatable.memory_bytes / MIB,
        .model = (uint32_t)model,
    };
    if (ret->name.data == NULL)
        return no_memory(err);
    if (add_cards(trace, ret, inventory, err) < 0)
        return apply_at(&reading->apply, device, err);
    note_node(reading, change, inventory);
    return 0;
}

/* Find the Devices by name; other objects than these and Nodes are refused. */
static int index_devices(const struct reading *reading, struct map *devices, struct error *err)
{
    for (uint32_t i = 0; i < reading->apply.count; i++) {
        const struct change *change = &reading->apply.changes[i];
        if (change->kind == KIND_NODE)
            continue;
        if (change->kind != KIND_DEVICE) {
            error_set(err, -EINVAL, "kind: neither Node nor Device");
            return apply_at(&reading->apply, change, err);
        }
        if (change->skipped > 0) {
            error_set(err, -EINVAL, "spec.devices: entries that cannot be used: %u (the first is in "
                      "the line before)", change->skipped);
            return apply_at(&reading->apply, change, err);
        }
        if (map_put(devices, change->name, i) < 0)
            return no_memory(err);
    }
    return 0;
}

/* Nodes by the map of their Devices, which are taken out of it. */
static int read_each_node(struct reading *reading, struct map *devices, struct trace_node *nodes,
                          uint32_t *ret_count, struct error *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < reading->apply.count; i++) {
        const struct change *change = &reading->apply.changes[i];
        if (change->kind != KIND_NODE)
            continue;
        uint32_t device = map_get(devices, change->name);
        int rc = read_node(reading, change,
                           device != MAP_NONE ? &reading->apply.changes[device] : NULL,
                           &nodes[count++], err);
        if (rc < 0)
            return rc;
        map_remove(devices, change->name);
    }
    *ret_count = count;
    return 0;
}

static int check_all_taken(const struct reading *reading, const struct map *devices,
                           struct error *err)
{
    for (uint32_t i = 0; devices->count > 0 && i < reading->apply.count; i++) {
        const struct change *change = &reading->apply.changes[i];
        if (change->kind != KIND_DEVICE || map_get(devices, change->name) == MAP_NONE)
            continue;
        error_set(err, -EINVAL, "metadata.name: there is no Node of this name");
        return apply_at(&reading->apply, change, err);
    }
    return 0;
}

static int read_nodes(struct trace *trace, struct str text, const char *path, struct error *err)
{
    struct reading reading;
    struct map devices;
    struct trace_node *nodes = NULL;
    uint32_t count = 0;
    map_init(&devices);
    int rc = begin(&reading, trace, text, path, err);
    if (rc == 0)
        rc = index_devices(&reading, &devices, err);
    if (rc == 0) {
        nodes = arena_alloc(&trace->memory, reading.apply.count, sizeof(*nodes));
        rc = nodes != NULL ? read_each_node(&reading, &devices, nodes, &count, err)
                           : no_memory(err);
    }
    if (rc == 0)
        rc = check_all_taken(&reading, &devices, err);
    if (rc == 0 && trace_set_nodes(trace, nodes, count, err) < 0)
        rc = error_wrap(err, "%s", path);
    end(&reading, rc == 0);
    map_done(&devices);
    return rc;
}

/* ---- pods ---- */

/* Requests of cards that the simulator has no picture of. */
static int check_playable(const struct pod *pod, const struct pod_request *request,
                          struct error *err)
{
    const struct device_request *gpu = &request->of[DEVICE_GPU];
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        if (kind != DEVICE_GPU && request->of[kind].count > 0)
            return error_set(err, -EINVAL, "spec.containers: %s: only GPUs are played",
                             device_dimension_name(kind, DIM_PERCENT));
    if (request->detail != NULL && request->detail->apart && request->detail->count > 1)
        return error_set(err, -EINVAL,
                         "spec.containers: %u of them ask for GPUs of their own, and a pod is played "
                         "as one",
                         request->detail->count);
    if (gpu->count > TRACE_CARDS_MAX)
        return error_set(err, -EINVAL, "spec.containers: %" PRId64 " GPUs, more than %d",
                         gpu->count, TRACE_CARDS_MAX);
    for (enum dimension dim = DIM_PERCENT; gpu->count > 0 && dim <= DIM_RATIO; dim++)
        if (amount_get(&gpu->each, dim) > 100)
            return error_set(err, -EINVAL, "spec.containers: %s: %" PRId64 " of one card fit nowhere",
                             device_dimension_name(DEVICE_GPU, dim), amount_get(&gpu->each, dim));
    if (gpu->count > 0 && (pod->selection.use_id.len > 0 || pod->selection.no_id.len > 0))
        return error_set(err, -EINVAL, "metadata.annotations[\"%s\"]: cards have no ids here",
                         pod->selection.use_id.len > 0 ? ANNOTATION_HAMI_USE_ID
                                                       : ANNOTATION_HAMI_NO_ID);
    return 0;
}

/* The models that a pod may use, by its demands of labels and its annotations. */
static uint64_t models_for(const struct trace *trace, const struct pod *pod)
{
    struct card_selection select = {pod->selection.use_model, pod->selection.no_model, STR(""),
                                    STR("")};
    uint64_t models = models_allowed(&pod->models, trace->models, trace->model_count);
    for (uint32_t i = 0; i < trace->model_count; i++)
        if (!card_selected(&select, trace->models[i], STR("")))
            models &= ~(UINT64_C(1) << i);
    return models;
}

static void add_name(struct strbuf *list, uint32_t before, struct str name)
{
    strbuf_printf(list, "%s%.*s", before > 0 ? "|" : "", STR_ARG(name));
}

/* What of a pod names models as a list in CSV does, and all that it says of them; NULL if nothing does. */
static const struct model_condition *plain_list(const struct pod *pod)
{
    const struct model_rule *rule = &pod->models;
    const struct model_term *only = rule->count == 0 ? &rule->always : rule->terms;
    if (rule->count > (rule->always.count == 0 ? 1 : 0) || only->count != 1 ||
        pod->selection.use_model.len > 0 || pod->selection.no_model.len > 0)
        return NULL;
    return only->conditions->in ? only->conditions : NULL;
}

/* The models as a list in CSV has them, so that specs are told apart and ordered alike: the names as they stand
 * where a list does, else those of the models allowed, in the cluster's order. Never empty, which means any. */
static int list_of(struct trace *trace, const struct pod *pod, uint64_t models, struct str *ret,
                   struct error *err)
{
    struct strbuf list = {0};
    const struct model_condition *plain = plain_list(pod);
    uint32_t before = 0;
    for (uint32_t i = 0; plain != NULL && i < plain->count; i++)
        add_name(&list, before++, plain->names[i]);
    for (uint32_t i = 0; plain == NULL && i < trace->model_count; i++)
        if (pack_allows(models, i))
            add_name(&list, before++, trace->models[i]);
    if (list.len == 0)
        strbuf_puts(&list, "|");
    bool good = !list.failed;
    if (good)
        *ret = arena_str(&trace->memory, (struct str){list.data, list.len});
    strbuf_done(&list);
    return good && ret->data != NULL ? 0 : no_memory(err);
}

/* The memory of each card that the pod may have: its bytes are a part of that. */
static int card_bytes_for(const struct trace *trace, const struct trace_pod *row, int64_t bytes,
                          int64_t *ret, struct error *err)
{
    const char *resource = device_dimension_name(DEVICE_GPU, DIM_BYTES);
    struct trace_memory all = {0};
    char least[QUANTITY_TEXT_MAX], most[QUANTITY_TEXT_MAX];
    for (uint32_t i = 0; i < trace->model_count; i++) {
        const struct trace_memory *memory = &trace->card_bytes[i];
        if (!pack_allows(row->pod.models, i) || memory->most == 0)
            continue;
        all.least = all.most == 0 || memory->least < all.least ? memory->least : all.least;
        all.most = memory->most > all.most ? memory->most : all.most;
    }
    quantity_format_binary(all.least, least);
    quantity_format_binary(all.most, most);
    if (all.most == 0)
        return error_set(err, -EINVAL,
                         "spec.containers: %s: no card that the pod may have says its memory",
                         resource);
    if (all.least < all.most)
        return error_set(err, -EINVAL,
                         "spec.containers: %s: the cards that the pod may have are of %s to %s, so "
                         "that it is not one part of them",
                         resource, least, most);
    if (bytes > all.most)
        return error_set(err, -EINVAL, "spec.containers: %s: more than the %s of a card", resource,
                         most);
    *ret = all.most;
    return 0;
}

/* What the pod asks for of GPUs, CPU and memory, as packing has it. */
static int convert(const struct trace *trace, const struct pod *pod,
                   const struct pod_request *request, struct trace_pod *row, struct error *err)
{
    const struct device_request *gpu = &request->of[DEVICE_GPU];
    uint64_t models = row->pod.models;
    int64_t card_bytes = 0;
    if (gpu->count > 0 && gpu->each.bytes > 0 && !gpu->whole &&
        card_bytes_for(trace, row, gpu->each.bytes, &card_bytes, err) < 0)
        return -EINVAL;
    row->pod = pack_pod_of(request, &pod->host, card_bytes);
    row->pod.models = models;
    if (row->pod.cards > 1 && row->pod.milli < PACK_CARD_MILLI)
        return error_set(err, -EINVAL,
                         "spec.containers: parts of %d cards, and several are played as whole ones",
                         row->pod.cards);
    return 0;
}

static int read_request(struct trace *trace, const struct pod *pod, struct trace_pod *row,
                        struct error *err)
{
    struct pod_request request;
    int rc = intake_request(pod, &hami_rules_default, &request, err);
    if (rc < 0)
        return error_wrap(err, "spec.containers");
    rc = check_playable(pod, &request, err);
    row->pod.models = PACK_MODELS_ANY;
    uint64_t models = models_for(trace, pod);
    if (rc == 0 && request.of[DEVICE_GPU].count > 0 && models != PACK_MODELS_ANY) {
        row->pod.models = models & UINT64_MAX >> (PACK_MODELS_MAX - trace->model_count);
        rc = list_of(trace, pod, row->pod.models, &row->list, err);
    }
    return rc == 0 ? convert(trace, pod, &request, row, err) : rc;
}

/* Namespace and name: what pods are sorted by. */
static int read_name(struct trace *trace, const struct change *change, struct trace_pod *row,
                     struct error *err)
{
    char text[STORE_KEY_MAX + 1];
    int len = snprintf(text, sizeof(text), "%.*s/%.*s", STR_ARG(change->ns), STR_ARG(change->name));
    row->name = arena_str(&trace->memory, (struct str){text, (size_t)len});
    return row->name.data != NULL ? 0 : no_memory(err);
}

static bool speaks_of_policy(const struct policy_words *words)
{
    return (words->node.len | words->device.len | words->strength.len | words->hami_node.len |
            words->hami_device.len) > 0;
}

static int read_pod(struct reading *reading, const struct change *change, struct trace_pod *row,
                    struct error *err)
{
    int rc = 0;
    if (change->kind != KIND_POD)
        rc = error_set(err, -EINVAL, "kind: no Pod");
    if (rc == 0)
        rc = read_name(reading->trace, change, row, err);
    if (rc == 0)
        rc = read_request(reading->trace, &change->pod, row, err);
    if (rc < 0)
        return apply_at(&reading->apply, change, err);
    note_constraints(reading, change, constraints_of_pod(change->json));
    if (speaks_of_policy(&change->pod.policy_words))
        note(reading, change, NOTE_POLICY);
    return 0;
}

static int read_pods(struct trace *trace, struct str text, const char *path, struct error *err)
{
    struct reading reading;
    struct trace_pod *pods = NULL;
    int rc = begin(&reading, trace, text, path, err);
    if (rc == 0) {
        pods = arena_alloc(&trace->memory, reading.apply.count, sizeof(*pods));
        rc = pods != NULL ? 0 : no_memory(err);
    }
    for (uint32_t i = 0; rc == 0 && i < reading.apply.count; i++)
        rc = read_pod(&reading, &reading.apply.changes[i], &pods[i], err);
    if (rc == 0 && (rc = trace_set_pods(trace, pods, reading.apply.count, err)) == -EINVAL)
        error_wrap(err, "%s", path);
    end(&reading, rc == 0);
    return rc;
}

const struct trace_format trace_manifests = {read_nodes, read_pods};
