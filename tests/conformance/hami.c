/* SPDX-License-Identifier: Apache-2.0 */
#include "hami.h"

#include <stdio.h>
#include <string.h>

#include "codec/hami.h"
#include "codec/objects.h"
#include "sched/intake.h"

json_object *hami_vectors;

int64_t hami_number(json_object *object, const char *key)
{
    int64_t number = 0;
    json_object *value = json_get(object, key);
    return value != NULL && json_number(value, &number) ? number : 0;
}

/* ---- what is not in scope ---- */

/* Does the text of a member hold the word? */
static bool holds(json_object *object, const char *key, const char *word)
{
    json_object *value = json_get(object, key);
    return value != NULL && strstr(json_compact(value), word) != NULL;
}

const char *hami_out_of_scope(json_object *vector)
{
    const char *repo = json_text(json_get(vector, "origin"), "repo", "");
    static const struct {
        const char *word;
        const char *feature;
    } words[] = {
        {"vgpu-mode", "vgpu-mode"},
        {"mig_profiles", "MIG"},
        {"migProfiles", "MIG"},
        {"numa-bind\"", "numa-bind"},
        {"\"numa_bind\":true", "numa-bind"},
        {"mutex", "mutex"},
        {"topology-aware", "topology-aware"},
        {"pair_text", "topology-aware"},
        {"scoring-weights", "scoring weights"},
    };
    if (strcmp(repo, "Project-HAMi/HAMi") != 0 && strcmp(repo, "(seed)") != 0)
        return "another scheduler";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (holds(vector, "given", words[i].word))
            return words[i].feature;
    return NULL;
}

/* ---- cards ---- */

static bool read_card(struct vector *v, json_object *device, uint32_t row, struct card_copy *copy)
{
    json_object *used = json_get(device, "used");
    struct card_columns *at = &copy->columns;
    if (!fields_known(v, "device", device,
                      "id index type mode health numa slots mem cores used score") ||
        !fields_known(v, "device.used", used, "slots mem cores"))
        return false;
    struct amount takes = {.percent = hami_number(used, "cores"),
                           .bytes = hami_number(used, "mem") * MIB};
    bool healthy = json_truth(device, "health", true);
    at->minor[row] = (int32_t)row;
    at->registered[row] = true;
    at->slots[row] = (uint32_t)hami_number(device, "slots");
    at->id[row] = json_slice(json_get(device, "id"));
    at->model[row] = json_slice(json_get(device, "type"));
    at->total[row] = (struct amount){0};
    if (healthy)
        at->total[row] = (struct amount){.percent = hami_number(device, "cores"),
                                         .ratio = 100,
                                         .bytes = hami_number(device, "mem") * MIB};
    /* A score stands for how full the card is. */
    takes.bytes += hami_number(device, "score") * at->total[row].bytes / 100;
    if (at->total[row].bytes > 0)
        takes.ratio = memory_bytes_to_ratio(takes.bytes, at->total[row].bytes);
    at->used[row] = takes;
    at->pods[row] = at->users[row] = (uint32_t)hami_number(used, "slots");
    cards_refresh(at, row);
    return true;
}

bool hami_read_cards(struct vector *v, json_object *devices, struct hami_cards *ret)
{
    static const struct card_columns nothing;
    static const struct cards none = {.at = &nothing};
    size_t count =
        json_object_is_type(devices, json_type_array) ? json_object_array_length(devices) : 0;
    struct card_copy *copy = arena_alloc(&v->mem, 1, sizeof *copy);
    if (copy == NULL || count == 0 || count > CARDS_PER_NODE_MAX) {
        vector_unsupported(v, "a node without devices");
        return false;
    }
    cards_copy(&none, copy);
    copy->cards.count[DEVICE_GPU] = (uint16_t)count;
    for (size_t i = 0; i < count; i++)
        if (!read_card(v, json_object_array_get_idx(devices, i), (uint32_t)i, copy))
            return false;
    *ret = (struct hami_cards){.cards = copy, .devices = devices};
    return true;
}

/* ---- pods ---- */

static void put_request(json_object *requests, const char *name, int64_t amount)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)amount);
    if (amount > 0)
        json_put_text(requests, name, text);
}

/* In HAMi's parsed form, no memory and no percentage (101 is its mark for none) is all of the card.
 */
static json_object *container_of(struct vector *v, json_object *parsed)
{
    json_object *container = json_new_object();
    json_object *requests = json_sub(json_sub(container, "resources"), "requests");
    int64_t gpus = hami_number(parsed, "gpus"), mib = hami_number(parsed, "mem");
    int64_t percent = hami_number(parsed, "mem_pct");
    json_put_text(container, "name", "c");
    if (!fields_known(v, "request", parsed, "gpus mem mem_pct cores type") || gpus == 0)
        return container;
    put_request(requests, "nvidia.com/gpu", gpus);
    put_request(requests, "nvidia.com/gpumem", mib);
    put_request(requests, "nvidia.com/gpumem-percentage",
                mib > 0 || percent == 101 ? (mib > 0 ? 0 : 100) : (percent > 0 ? percent : 100));
    put_request(requests, "nvidia.com/gpucores", hami_number(parsed, "cores"));
    return container;
}

static bool decode(struct vector *v, json_object *pod, struct pod *ret)
{
    struct error err;
    struct str text = arena_str(&v->mem, str_from(json_compact(pod)));
    json_object_put(pod);
    if (object_decode_pod(text, &v->mem, ret, &err) == 0)
        return vector_supported(v);
    vector_fail(v, "pod", "a Pod that can be read", err.text);
    return false;
}

static json_object *new_pod(json_object *annotations)
{
    json_object *pod = json_new_object();
    json_put_text(pod, "kind", "Pod");
    json_put_text(json_sub(pod, "metadata"), "name", "p");
    if (annotations != NULL)
        json_put(json_sub(pod, "metadata"), "annotations", json_object_get(annotations));
    json_put(json_sub(pod, "spec"), "initContainers", json_new_array());
    json_put(json_sub(pod, "spec"), "containers", json_new_array());
    return pod;
}

static void add_containers(struct vector *v, json_object *pod, const char *key, json_object *list)
{
    json_object *to = json_get(json_sub(pod, "spec"), key);
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++)
        json_push(to, container_of(v, json_object_array_get_idx(list, i)));
}

bool hami_ask(struct vector *v, json_object *annotations, json_object *init, json_object *app,
              struct pod *ret_pod, struct pod_request *ret)
{
    struct error err;
    json_object *pod = new_pod(annotations);
    add_containers(v, pod, "initContainers", init);
    add_containers(v, pod, "containers", app);
    if (!decode(v, pod, ret_pod))
        return false;
    *ret = (struct pod_request){0};
    if (intake_request(ret_pod, &hami_rules_default, ret, &err) == 0)
        return true;
    vector_fail(v, "request", "a valid one", err.text);
    return false;
}

bool hami_ask_written(struct vector *v, json_object *container, struct pod *ret)
{
    /* The API server copies limits to requests. */
    static const char *const from[] = {"requests", "limits"};
    json_object *pod = new_pod(NULL), *written = json_new_object();
    json_put_text(written, "name", "c");
    for (size_t i = 0; i < 2; i++) {
        json_object *amounts = json_get(container, from[i]);
        if (amounts == NULL)
            continue;
        json_object_object_foreach(amounts, key, value) json_put(
            json_sub(json_sub(written, "resources"), "requests"), key, json_object_get(value));
    }
    json_push(json_get(json_sub(pod, "spec"), "containers"), written);
    return fields_known(v, "container", container, "limits requests") && decode(v, pod, ret);
}
