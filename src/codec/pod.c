/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/pod.h"

#include <errno.h>

#include "codec/annotation.h"
#include "codec/json.h"

/* The amounts of the device resources in one map of quantities. A current name wins over its old one. */
static int decode_resources(const struct json_field *map, struct resources *ret, struct error *err)
{
    int rc = json_field_object(map, NULL, 0, err);
    if (rc < 0 || map->value.data == NULL)
        return rc;

    struct resources current = {0};
    struct resources old = {0};
    bool current_named[RESOURCE_MAX] = {false};
    struct json_iter iter = json_iterate(map->value);
    char buffer[JSON_KEY_MAX];
    struct str key, value;
    while (json_next_member(&iter, &key, &value)) {
        struct str name = json_key(key, buffer);
        bool deprecated = false;
        enum resource resource = resource_find(name, &deprecated);
        if (resource == RESOURCE_MAX)
            continue;
        struct resources *into = deprecated ? &old : &current;
        if (json_quantity(value, &into->amount[resource], err) < 0) {
            json_at(err, "[\"%.*s\"]", STR_ARG(name));
            return json_at(err, "%s", map->name);
        }
        current_named[resource] |= !deprecated;
    }

    for (int i = 0; i < RESOURCE_MAX; i++)
        ret->amount[i] = current_named[i] ? current.amount[i] : old.amount[i];
    return 0;
}

static int decode_container(struct str value, bool init, struct arena *mem, struct container *ret,
                            struct error *err)
{
    if (json_type(value) == JSON_NULL) /* Go reads an empty container */
        return 0;
    enum { NAME, RESTART_POLICY, RESOURCES };
    struct json_field fields[] = {
        [NAME] = {.name = "name"},
        [RESTART_POLICY] = {.name = "restartPolicy"},
        [RESOURCES] = {.name = "resources"},
    };
    struct json_field requests[] = {{.name = "requests"}};
    struct str restart_policy = {0};
    int rc = json_object(value, JSON_FIELDS(fields), err);
    if (rc == 0)
        rc = json_field_string(&fields[NAME], mem, &ret->name, err);
    if (rc == 0)
        rc = json_field_string(&fields[RESTART_POLICY], mem, &restart_policy, err);
    if (rc == 0)
        rc = json_field_object(&fields[RESOURCES], JSON_FIELDS(requests), err);
    if (rc < 0)
        return rc;
    if (decode_resources(requests, &ret->requests, err) < 0)
        return json_at(err, "%s", fields[RESOURCES].name);

    if (init)
        ret->role = str_is(restart_policy, "Always") ? CONTAINER_SIDECAR : CONTAINER_INIT;
    return 0;
}

static int decode_container_list(const struct json_field *list, bool init, struct arena *mem,
                                 struct container *into, struct error *err)
{
    if (list->value.data == NULL)
        return 0;
    struct json_iter iter = json_iterate(list->value);
    struct str value;
    for (uint32_t i = 0; json_next_item(&iter, &value); i++) {
        if (decode_container(value, init, mem, &into[i], err) < 0) {
            json_at(err, "[%u]", i);
            return json_at(err, "%s", list->name);
        }
    }
    return 0;
}

/* Init containers first, as they stand in a running pod. */
static int decode_containers(const struct json_field *init, const struct json_field *app,
                             struct arena *mem, struct pod *pod, struct error *err)
{
    uint32_t init_count = 0, app_count = 0;
    int rc = json_field_array(init, &init_count, err);
    if (rc == 0)
        rc = json_field_array(app, &app_count, err);
    if (rc < 0)
        return rc;

    uint32_t count;
    if (__builtin_add_overflow(init_count, app_count, &count))
        return json_no_memory(err);
    struct container *containers = arena_alloc(mem, count, sizeof(*containers));
    if (containers == NULL)
        return json_no_memory(err);
    rc = decode_container_list(init, true, mem, containers, err);
    if (rc == 0)
        rc = decode_container_list(app, false, mem, containers + init_count, err);
    pod->containers = containers;
    pod->container_count = count;
    return rc;
}

static int decode_annotation(const struct json_field *annotations, struct arena *mem, struct pod *pod,
                             struct error *err)
{
    struct str value;
    int rc = json_field_object(annotations, NULL, 0, err);
    if (rc < 0 || annotations->value.data == NULL ||
        !json_find(annotations->value, ANNOTATION_DEVICE_ALLOCATED, &value))
        return rc;

    struct str text;
    struct error why;
    rc = json_string(value, mem, &text, err);
    if (rc < 0) {
        json_at(err, "[\"" ANNOTATION_DEVICE_ALLOCATED "\"]");
        return json_at(err, "%s", annotations->name);
    }
    rc = annotation_parse(text, mem, &pod->shares, &pod->share_count, &why);
    if (rc == -ENOMEM)
        return json_no_memory(err);
    pod->annotation = rc == 0 ? ANNOTATION_READ : ANNOTATION_UNREADABLE;
    return 0;
}

static int decode_metadata(const struct json_field *metadata, struct arena *mem, struct pod *pod,
                           struct error *err)
{
    enum { NAME, NAMESPACE, UID, DELETED, ANNOTATIONS };
    struct json_field fields[] = {
        [NAME] = {.name = "name"},
        [NAMESPACE] = {.name = "namespace"},
        [UID] = {.name = "uid"},
        [DELETED] = {.name = "deletionTimestamp"},
        [ANNOTATIONS] = {.name = "annotations"},
    };
    int rc = json_field_object(metadata, JSON_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = json_field_string(&fields[NAME], mem, &pod->id.name, err);
    if (rc == 0)
        rc = json_field_string(&fields[NAMESPACE], mem, &pod->id.ns, err);
    if (rc == 0)
        rc = json_field_string(&fields[UID], mem, &pod->id.uid, err);
    if (rc == 0)
        rc = decode_annotation(&fields[ANNOTATIONS], mem, pod, err);
    pod->deleting = fields[DELETED].value.data != NULL;
    return rc < 0 ? json_at(err, "%s", metadata->name) : 0;
}

static int decode_spec(const struct json_field *spec, struct arena *mem, struct pod *pod,
                       struct error *err)
{
    enum { NODE_NAME, PRIORITY, INIT_CONTAINERS, CONTAINERS, OVERHEAD };
    struct json_field fields[] = {
        [NODE_NAME] = {.name = "nodeName"},
        [PRIORITY] = {.name = "priority"},
        [INIT_CONTAINERS] = {.name = "initContainers"},
        [CONTAINERS] = {.name = "containers"},
        [OVERHEAD] = {.name = "overhead"},
    };
    int64_t priority = 0;
    int rc = json_field_object(spec, JSON_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = json_field_string(&fields[NODE_NAME], mem, &pod->node_name, err);
    if (rc == 0)
        rc = json_field_int(&fields[PRIORITY], INT32_MIN, INT32_MAX, &priority, err);
    if (rc == 0)
        rc = decode_containers(&fields[INIT_CONTAINERS], &fields[CONTAINERS], mem, pod, err);
    if (rc == 0)
        rc = decode_resources(&fields[OVERHEAD], &pod->overhead, err);
    pod->priority = (int32_t)priority;
    return rc < 0 ? json_at(err, "%s", spec->name) : 0;
}

static int decode_status(const struct json_field *status, struct arena *mem, struct pod *pod,
                         struct error *err)
{
    enum { PHASE, NOMINATED_NODE };
    struct json_field fields[] = {
        [PHASE] = {.name = "phase"},
        [NOMINATED_NODE] = {.name = "nominatedNodeName"},
    };
    struct str phase = {0};
    int rc = json_field_object(status, JSON_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = json_field_string(&fields[PHASE], mem, &phase, err);
    if (rc == 0)
        rc = json_field_string(&fields[NOMINATED_NODE], mem, &pod->nominated_node, err);
    pod->finished = str_is(phase, "Succeeded") || str_is(phase, "Failed");
    return rc < 0 ? json_at(err, "%s", status->name) : 0;
}

int pod_decode(struct str value, struct arena *mem, struct pod *ret, struct error *err)
{
    enum { METADATA, SPEC, STATUS };
    struct json_field fields[] = {
        [METADATA] = {.name = "metadata"},
        [SPEC] = {.name = "spec"},
        [STATUS] = {.name = "status"},
    };
    struct pod pod = {0};
    int rc = json_object(value, JSON_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_metadata(&fields[METADATA], mem, &pod, err);
    if (rc == 0)
        rc = decode_spec(&fields[SPEC], mem, &pod, err);
    if (rc == 0)
        rc = decode_status(&fields[STATUS], mem, &pod, err);
    if (rc < 0)
        return rc;
    *ret = pod;
    return 0;
}
