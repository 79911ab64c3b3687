/* SPDX-License-Identifier: Apache-2.0 */
/* Pods of a record as the API server would send them. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "codec/annotation.h"
#include "codec/objects.h"

void world_uid(const char *pod, char out[NAME_UID_MAX + 1])
{
    uint64_t hash = UINT64_C(14695981039346656037);
    bool has_namespace = strchr(pod, '/') != NULL;
    for (const char *c = has_namespace ? "" : "default/"; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    for (const char *c = pod; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    (void)snprintf(out, NAME_UID_MAX + 1, "uid-%016" PRIx64, hash);
}

static void put_request(json_object *requests, enum resource resource, int64_t value)
{
    if (value != 0)
        json_put_int(requests, resource_name(resource), value);
}

/* Whether a request gives these shares again: as many cards, and the same amounts in the dimensions
 * that it names. */
static bool gives(struct vector *v, json_object *requests, const struct placement *placement)
{
    struct asked asked;
    int64_t cards[DEVICE_KIND_MAX] = {0};
    if (!ask_pod(v, "booking", NULL, requests, &asked) || !asked.valid)
        return false;
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct share *share = &placement->cards[i].share;
        const struct device_request *request = &asked.request.of[share->kind];
        cards[share->kind]++;
        for (enum dimension dim = 0; dim < DIM_MAX; dim++)
            if (request->named & DIM_BIT(dim) &&
                amount_get(&request->each, dim) != amount_get(&share->amount, dim))
                return false;
        if (share->amount.percent != 0 && !(request->named & DIM_BIT(DIM_PERCENT)))
            return false;
    }
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        if (asked.request.of[kind].count != cards[kind])
            return false;
    return true;
}

/* A new map of requests that names memory as a ratio or in bytes. */
static json_object *request_naming(const struct placement *placement, bool ratio)
{
    int64_t cards = 0;
    struct amount gpu = {0}, other[DEVICE_KIND_MAX] = {{0}};
    json_object *requests = json_new_object();
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct share *share = &placement->cards[i].share;
        other[share->kind].percent += share->amount.percent;
        if (share->kind != DEVICE_GPU)
            continue;
        cards++;
        gpu.percent += share->amount.percent;
        gpu.ratio += share->amount.ratio;
        gpu.bytes += share->amount.bytes;
    }
    put_request(requests, RESOURCE_GPU_CORE, gpu.percent);
    put_request(requests, ratio ? RESOURCE_GPU_MEMORY_RATIO : RESOURCE_GPU_MEMORY,
                ratio ? gpu.ratio : gpu.bytes);
    if (cards > 1 && !(ratio && gpu.ratio == 100 * cards))
        put_request(requests, RESOURCE_GPU_SHARED, cards);
    put_request(requests, RESOURCE_RDMA, other[DEVICE_RDMA].percent);
    put_request(requests, RESOURCE_FPGA, other[DEVICE_FPGA].percent);
    return requests;
}

/* A new map of requests of a pod that holds these shares. Shares that no request leads to get one
 * that is invalid and hence says nothing: such a pod is charged as its annotation says. */
static json_object *request_of(struct vector *v, const struct placement *placement)
{
    for (int ratio = 1; ratio >= 0; ratio--) {
        json_object *requests = request_naming(placement, ratio);
        if (gives(v, requests, placement))
            return requests;
        json_object_put(requests);
    }
    json_object *requests = json_new_object();
    put_request(requests, RESOURCE_GPU_CORE, 1);
    return requests;
}

json_object *world_bound_pod(struct world *world, const char *name, const char *node,
                             const struct placement *placement)
{
    struct strbuf text;
    json_object *pod = json_new_object();
    strbuf_init(&text);
    annotation_format(placement, &text);
    json_put_text(pod, "name", name);
    json_put_text(pod, "node", node);
    json_put_text(pod, "phase", "Running");
    json_put_text(json_sub(pod, "annotations"), ANNOTATION_DEVICE_ALLOCATED,
                  text.data != NULL ? text.data : "");
    json_object *requests = request_of(world->v, placement);
    json_put(pod, "requests", requests);
    json_put(world->requests, name, json_object_get(requests));
    strbuf_done(&text);
    return pod;
}

/* A record's pod that does not say what it requests: what it was set up with, else what its
 * annotation says. */
static json_object *missing_request(struct world *world, json_object *pod)
{
    json_object *known = json_get(world->requests, json_text(pod, "name", ""));
    json_object *annotation = json_get(json_get(pod, "annotations"), ANNOTATION_DEVICE_ALLOCATED);
    const struct share *shares;
    uint32_t count;
    if (json_get(pod, "requests") != NULL || json_get(pod, "containers") != NULL)
        return NULL;
    if (known != NULL)
        return json_object_get(known);
    if (annotation == NULL ||
        annotation_parse(json_slice(annotation), &world->v->mem, &shares, &count, NULL) < 0)
        return NULL;
    struct placement placement = {.count = count};
    for (uint32_t i = 0; i < count; i++)
        placement.cards[i].share = shares[i];
    return request_of(world->v, &placement);
}

bool world_decode_pod(struct world *world, json_object *pod, struct pod *ret)
{
    char uid[NAME_UID_MAX + 1];
    struct error err;
    world_uid(json_text(pod, "name", "pod"), uid);
    json_object *requests = missing_request(world, pod);
    json_object *object = json_object_is_type(pod, json_type_object)
                              ? pod_object(world->v, "given.pod", pod, requests, uid)
                              : json_object_get(pod);
    bool decoded =
        object_decode_pod(str_from(json_compact(object)), &world->v->mem, ret, &err) == 0;
    json_object_put(object);
    json_object_put(requests);
    return decoded;
}

void world_pod_event(struct world *world, json_object *pod)
{
    struct pod decoded;
    if (world_decode_pod(world, pod, &decoded) && sched_pod_changed(&world->sched, &decoded) < 0)
        vector_fail(world->v, "pod event", "taken", "refused");
}
