/* SPDX-License-Identifier: Apache-2.0 */
#include "translate.h"

#include <stdio.h>
#include <string.h>

#include "codec/objects.h"

static void add_containers(struct vector *v, const char *where, json_object *spec, const char *key,
                           json_object *list)
{
    json_object *containers = json_new_array();
    json_put(spec, key, containers);
    if (list != NULL && !json_object_is_type(list, json_type_array)) {
        vector_unsupported(v, "%s: containers are no list", where);
        return;
    }
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        json_object *from = json_object_array_get_idx(list, i);
        char name[32];
        (void)snprintf(name, sizeof(name), "c%zu", i);
        if (!fields_known(v, where, from, "name requests restartPolicy"))
            return;
        json_object *container = json_new_object();
        json_put_text(container, "name", json_text(from, "name", name));
        if (json_get(from, "restartPolicy") != NULL)
            json_put(container, "restartPolicy", json_object_get(json_get(from, "restartPolicy")));
        json_put(json_sub(container, "resources"), "requests",
                 json_object_get(json_get(from, "requests")));
        json_push(containers, container);
    }
}

static void add_spec(struct vector *v, const char *where, json_object *pod, json_object *requests,
                     json_object *spec)
{
    const char *node = json_text(pod, "node", "");
    if (node[0] != '\0')
        json_put_text(spec, "nodeName", node);
    if (json_get(pod, "overhead") != NULL)
        json_put(spec, "overhead", json_object_get(json_get(pod, "overhead")));
    add_containers(v, where, spec, "initContainers", json_get(pod, "init_containers"));
    add_containers(v, where, spec, "containers", json_get(pod, "containers"));
    if (requests == NULL)
        requests = json_get(pod, "requests");
    if (requests != NULL) {
        json_object *main_container = json_new_object();
        json_put_text(main_container, "name", "main");
        json_put(json_sub(main_container, "resources"), "requests", json_object_get(requests));
        json_push(json_get(spec, "containers"), main_container);
    }
}

json_object *pod_object(struct vector *v, const char *where, json_object *pod,
                        json_object *requests, const char *uid)
{
    (void)fields_known(v, where, pod,
                       "name namespace uid node phase annotations labels requests containers "
                       "init_containers overhead ?gpu_shared ?hostNetwork");
    const char *name = json_text(pod, "name", "pod"), *ns = json_text(pod, "namespace", "default");
    const char *slash = strchr(name, '/');
    char before_slash[256];
    if (slash != NULL) {
        (void)snprintf(before_slash, sizeof(before_slash), "%.*s", (int)(slash - name), name);
        ns = before_slash;
        name = slash + 1;
    }

    json_object *object = json_new_object();
    json_put_text(object, "apiVersion", "v1");
    json_put_text(object, "kind", "Pod");
    json_object *metadata = json_sub(object, "metadata");
    json_put_text(metadata, "namespace", ns);
    json_put_text(metadata, "name", name);
    json_put_text(metadata, "uid", json_text(pod, "uid", uid));
    if (json_get(pod, "annotations") != NULL)
        json_put(metadata, "annotations", json_object_get(json_get(pod, "annotations")));
    if (json_get(pod, "labels") != NULL)
        json_put(metadata, "labels", json_object_get(json_get(pod, "labels")));
    add_spec(v, where, pod, requests, json_sub(object, "spec"));
    json_put_text(json_sub(object, "status"), "phase", json_text(pod, "phase", "Pending"));
    return object;
}

static void judge(const struct container *containers, uint32_t count,
                  const struct resources *overhead, struct asked *asked)
{
    struct error err = {0};
    asked->any = true;
    if (request_effective(containers, count, overhead, &asked->effective, &err) == 0) {
        asked->any = resources_any(&asked->effective);
        asked->valid = request_parse(&asked->effective, &asked->request, &err) == 0;
    }
    (void)snprintf(asked->text, sizeof(asked->text), "%s", err.text);
}

bool ask_pod(struct vector *v, const char *where, json_object *pod, json_object *requests,
             struct asked *ret)
{
    struct asked asked = {0};
    struct pod decoded;
    struct error err = {0};
    json_object *object = pod_object(v, where, pod, requests, "uid-asking");
    if (!vector_supported(v)) {
        json_object_put(object);
        return false;
    }
    if (object_decode_pod(str_from(json_compact(object)), &v->mem, &decoded, &err) == 0) {
        judge(decoded.containers, decoded.container_count, &decoded.overhead, &asked);
    } else {
        asked.any = true;
        (void)snprintf(asked.text, sizeof(asked.text), "%s", err.text);
    }
    json_object_put(object);
    *ret = asked;
    return true;
}

static bool add_resources(struct vector *v, const char *where, json_object *map,
                          struct resources *resources)
{
    if (map != NULL && !json_object_is_type(map, json_type_object)) {
        vector_unsupported(v, "%s is no map of amounts", where);
        return false;
    }
    if (map == NULL)
        return true;
    json_object_object_foreach(map, name, value) {
        bool deprecated;
        int64_t number = 0;
        enum resource resource = resource_find(str_from(name), &deprecated);
        if (resource == RESOURCE_MAX) {
            vector_unsupported(v, "unknown resource %s in %s", name, where);
            return false;
        }
        if (value != NULL && !json_number(value, &number)) {
            vector_unsupported(v, "%s of %s is no amount", name, where);
            return false;
        }
        resources->amount[resource] = number;
    }
    return true;
}

bool ask_converted(struct vector *v, const char *where, json_object *types, struct asked *ret)
{
    struct asked asked = {0};
    struct resources amounts = {0};
    if (types != NULL && !json_object_is_type(types, json_type_object)) {
        vector_unsupported(v, "%s is no map of device types", where);
        return false;
    }
    if (types != NULL) {
        json_object_object_foreach(types, type, map) {
            if (device_kind_find(str_from(type)) == DEVICE_KIND_MAX) {
                vector_unsupported(v, "unknown device type %s in %s", type, where);
                return false;
            }
            if (!add_resources(v, where, map, &amounts))
                return false;
        }
    }

    /* Koordinator's own helpers are called with both memory dimensions, which no pod can ask for.
     * The second one is a named dimension of the unified form like any other. */
    int64_t bytes = amounts.amount[RESOURCE_GPU_MEMORY];
    bool both = bytes > 0 && amounts.amount[RESOURCE_GPU_MEMORY_RATIO] > 0;
    if (both)
        amounts.amount[RESOURCE_GPU_MEMORY] = 0;
    const struct container all = {.role = CONTAINER_APP, .requests = amounts};
    judge(&all, 1, NULL, &asked);
    if (both && asked.valid) {
        asked.request.of[DEVICE_GPU].each.bytes = bytes;
        asked.request.of[DEVICE_GPU].named |= (uint8_t)DIM_BIT(DIM_BYTES);
    }
    *ret = asked;
    return true;
}

json_object *combination_names(const struct asked *asked)
{
    json_object *names = json_new_array();
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        uint32_t bits = request_combination(&asked->effective, kind);
        for (enum resource r = 0; r < RESOURCE_MAX; r++)
            if (bits & 1u << r)
                json_push(names, json_object_new_string(resource_name(r)));
    }
    return names;
}

json_object *per_card_map(const struct asked *asked, enum device_kind kind)
{
    const struct device_request *request = &asked->request.of[kind];
    struct amount named = {0};
    if (!asked->valid || request->count == 0)
        return NULL;
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        if (request->named & DIM_BIT(dim))
            amount_set(&named, dim, amount_get(&request->each, dim));
    return amount_map(kind, &named);
}
