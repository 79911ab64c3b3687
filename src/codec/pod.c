/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/pod.h"

#include <errno.h>

#include "codec/annotation.h"
#include "codec/hami.h"
#include "codec/host.h"
#include "codec/model_rule.h"
#include "codec/peek.h"
#include "codec/reader.h"

/* The amounts of the device resources in one map of quantities. A current name wins over its old one. */
static int decode_resources(const struct reader_field *map, struct resources *ret, struct error *err)
{
    int rc = reader_field_object(map, NULL, 0, err);
    if (rc < 0 || map->value.data == NULL)
        return rc;

    bool has_current[RESOURCE_MAX] = {false};
    struct reader_iter iter = reader_iterate(map->value);
    UNSET char buffer[READER_KEY_MAX];
    struct str name, value;
    while (reader_next_named(&iter, buffer, &name, &value)) {
        bool deprecated = false;
        enum resource resource = resource_find(name, &deprecated);
        if (resource == RESOURCE_MAX)
            continue;
        int64_t amount;
        if (reader_quantity(value, &amount, err) < 0) {
            reader_at(err, "[\"%.*s\"]", STR_ARG(name));
            return reader_at(err, "%s", map->name);
        }
        if (!deprecated || !has_current[resource])
            ret->amount[resource] = amount;
        has_current[resource] |= !deprecated;
    }
    return 0;
}

static int decode_container(struct str value, bool init, struct arena *mem, struct container *ret,
                            struct error *err)
{
    if (reader_type(value) == READER_NULL) /* Go reads an empty container */
        return 0;
    enum { NAME, RESTART_POLICY, RESOURCES };
    struct reader_field fields[] = {
        [NAME] = {.name = "name"},
        [RESTART_POLICY] = {.name = "restartPolicy"},
        [RESOURCES] = {.name = "resources"},
    };
    struct reader_field requests[] = {{.name = "requests"}};
    struct str restart_policy = {0};
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(&fields[NAME], mem, &ret->name, err);
    if (rc == 0)
        rc = reader_field_string(&fields[RESTART_POLICY], mem, &restart_policy, err);
    if (rc == 0)
        rc = reader_field_object(&fields[RESOURCES], READER_FIELDS(requests), err);
    if (rc < 0)
        return rc;
    if (decode_resources(requests, &ret->requests, err) < 0)
        return reader_at(err, "%s", fields[RESOURCES].name);

    ret->host = host_amount_decode(requests);
    if (init)
        ret->role = str_is(restart_policy, "Always") ? CONTAINER_SIDECAR : CONTAINER_INIT;
    return 0;
}

static int decode_container_list(const struct reader_field *list, bool init, struct arena *mem,
                                 struct container *into, struct error *err)
{
    if (list->value.data == NULL)
        return 0;
    struct reader_iter iter = reader_iterate(list->value);
    struct str value;
    for (uint32_t i = 0; reader_next_item(&iter, &value); i++) {
        if (decode_container(value, init, mem, &into[i], err) < 0) {
            reader_at(err, "[%u]", i);
            return reader_at(err, "%s", list->name);
        }
    }
    return 0;
}

/* Init containers first, as they stand in a running pod. */
static int decode_containers(const struct reader_field *init, const struct reader_field *app,
                             struct arena *mem, struct pod *pod, struct error *err)
{
    uint32_t init_count = 0, app_count = 0;
    int rc = reader_field_array(init, &init_count, err);
    if (rc == 0)
        rc = reader_field_array(app, &app_count, err);
    if (rc < 0)
        return rc;

    uint32_t count;
    if (__builtin_add_overflow(init_count, app_count, &count))
        return reader_no_memory(err);
    struct container *containers = arena_alloc(mem, count, sizeof(*containers));
    if (containers == NULL)
        return reader_no_memory(err);
    rc = decode_container_list(init, true, mem, containers, err);
    if (rc == 0)
        rc = decode_container_list(app, false, mem, containers + init_count, err);
    pod->containers = containers;
    pod->container_count = count;
    return rc;
}

/* Keys and values added up. A value that is no text is none that an API server has stored. */
static uint32_t count_annotation_bytes(struct str annotations)
{
    struct reader_iter iter = reader_iterate(annotations);
    struct str key, value;
    size_t total = 0;
    while (reader_next_member(&iter, &key, &value)) {
        total += reader_string_length(key);
        if (reader_type(value) == READER_STRING)
            total += reader_string_length(value);
    }
    return total < UINT32_MAX ? (uint32_t)total : UINT32_MAX;
}

/* What is read of the annotations before it is known what they mean together. */
struct annotations {
    struct str allocated; /* Koordinator's form; data NULL where there is none */
    struct str hami_allocated, hami_node;
};

/* The annotations that mean something here. The last of a key counts, as for Go. */
static int decode_words(struct str annotations, struct arena *mem, struct pod *pod,
                        struct annotations *found, struct error *err)
{
    const struct {
        struct str key;
        struct str *value;
    } words[] = {
        {STR(ANNOTATION_NODE_POLICY), &pod->policy_words.node},
        {STR(ANNOTATION_DEVICE_POLICY), &pod->policy_words.device},
        {STR(ANNOTATION_NODE_POLICY_STRENGTH), &pod->policy_words.strength},
        {STR(ANNOTATION_HAMI_NODE_POLICY), &pod->policy_words.hami_node},
        {STR(ANNOTATION_HAMI_DEVICE_POLICY), &pod->policy_words.hami_device},
        {STR(ANNOTATION_HAMI_USE_TYPE), &pod->selection.use_model},
        {STR(ANNOTATION_HAMI_NO_TYPE), &pod->selection.no_model},
        {STR(ANNOTATION_HAMI_USE_ID), &pod->selection.use_id},
        {STR(ANNOTATION_HAMI_NO_ID), &pod->selection.no_id},
        {STR(ANNOTATION_DEVICE_ALLOCATED), &found->allocated},
        {STR(ANNOTATION_HAMI_ALLOCATED), &found->hami_allocated},
        {STR(ANNOTATION_HAMI_NODE), &found->hami_node},
        {STR(ANNOTATION_HAMI_BIND_PHASE), &pod->hami_phase},
    };
    struct reader_iter iter = reader_iterate(annotations);
    UNSET char buffer[READER_KEY_MAX];
    struct str name, value;
    while (reader_next_named(&iter, buffer, &name, &value)) {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            if (!str_eq(name, words[i].key))
                continue;
            *words[i].value = (struct str){0};
            if (reader_type(value) != READER_NULL &&
                reader_string(value, mem, words[i].value, err) < 0)
                return reader_at(err, "[\"%s\"]", words[i].key.data);
        }
    }
    return 0;
}

static int decode_annotations(const struct reader_field *annotations, struct arena *mem,
                              struct pod *pod, struct annotations *found, struct error *err)
{
    int rc = reader_field_object(annotations, NULL, 0, err);
    if (rc < 0 || annotations->value.data == NULL)
        return rc;
    pod->annotation_bytes = count_annotation_bytes(annotations->value);
    if (decode_words(annotations->value, mem, pod, found, err) < 0)
        return reader_at(err, "%s", annotations->name);
    return 0;
}

/* HAMi's annotation, where it is of the node that the pod runs on. */
static int read_hami(const struct annotations *found, struct arena *mem, struct pod *pod,
                     struct error *err)
{
    struct error why;
    if (found->hami_allocated.len == 0 || pod->node_name.len == 0)
        return 0;
    int rc = -EINVAL;
    if (found->hami_node.len == 0 || str_eq(found->hami_node, pod->node_name))
        rc = hami_allocated_parse(found->hami_allocated, pod->containers, pod->container_count, mem,
                                  &pod->named, &pod->named_count, &why);
    if (rc == -ENOMEM)
        return reader_no_memory(err);
    pod->annotation = rc == 0 ? ANNOTATION_HAMI : ANNOTATION_UNREADABLE;
    return 0;
}

/* What the pod has. Our own annotation says it to the byte; HAMi's is asked where there is no such.
 */
static int read_allocation(const struct annotations *found, struct arena *mem, struct pod *pod,
                           struct error *err)
{
    struct error why;
    if (found->allocated.data != NULL) {
        int rc = annotation_parse(found->allocated, mem, &pod->shares, &pod->share_count, &why);
        if (rc == -ENOMEM)
            return reader_no_memory(err);
        pod->annotation = rc == 0 ? ANNOTATION_READ : ANNOTATION_UNREADABLE;
    }
    return pod->annotation == ANNOTATION_READ ? 0 : read_hami(found, mem, pod, err);
}

static int decode_metadata(const struct reader_field *metadata, struct arena *mem, struct pod *pod,
                           struct annotations *found, struct error *err)
{
    enum { NAME, NAMESPACE, UID, VERSION, DELETED, ANNOTATIONS };
    struct reader_field fields[] = {
        [NAME] = {.name = "name"},
        [NAMESPACE] = {.name = "namespace"},
        [UID] = {.name = "uid"},
        [VERSION] = {.name = "resourceVersion"},
        [DELETED] = {.name = "deletionTimestamp"},
        [ANNOTATIONS] = {.name = "annotations"},
    };
    int rc = reader_field_object(metadata, READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[NAME], mem, &pod->id.name, err);
    if (rc == 0)
        rc = reader_field_string(&fields[NAMESPACE], mem, &pod->id.ns, err);
    if (rc == 0)
        rc = reader_field_string(&fields[UID], mem, &pod->id.uid, err);
    if (rc == 0)
        rc = decode_annotations(&fields[ANNOTATIONS], mem, pod, found, err);
    pod->deleting = fields[DELETED].value.data != NULL;
    struct str version = fields[VERSION].value;
    if (version.len >= 2) /* with its quotes, or nothing that counts */
        pod->version = peek_version((struct str){version.data + 1, version.len - 2});
    return rc < 0 ? reader_at(err, "%s", metadata->name) : 0;
}

/* Amounts of the pod as a whole (Kubernetes 1.32) stand for those of its containers. */
static int decode_host(const struct reader_field *resources, const struct reader_field *overhead,
                       struct pod *pod, struct error *err)
{
    struct reader_field requests[] = {{.name = "requests"}};
    int rc = reader_field_object(resources, READER_FIELDS(requests), err);
    if (rc < 0)
        return rc;
    struct host_amount none = {0}, more = host_amount_decode(overhead);
    pod->host = host_effective(pod->containers, pod->container_count, &none);
    host_amount_override(requests, &pod->host);
    host_add(&pod->host, &more, 1);
    host_bound(&pod->host);
    return 0;
}

static int decode_spec(const struct reader_field *spec, bool with_request, struct arena *mem,
                       struct pod *pod, struct error *err)
{
    enum { NODE_NAME, PRIORITY, INIT_CONTAINERS, CONTAINERS, OVERHEAD, RESOURCES, SELECTOR, AFFINITY };
    struct reader_field fields[] = {
        [NODE_NAME] = {.name = "nodeName"},
        [PRIORITY] = {.name = "priority"},
        [INIT_CONTAINERS] = {.name = "initContainers"},
        [CONTAINERS] = {.name = "containers"},
        [OVERHEAD] = {.name = "overhead"},
        [RESOURCES] = {.name = "resources"},
        [SELECTOR] = {.name = "nodeSelector"},
        [AFFINITY] = {.name = "affinity"},
    };
    int64_t priority = 0;
    int rc = reader_field_object(spec, READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[NODE_NAME], mem, &pod->node_name, err);
    if (rc == 0)
        rc = reader_field_int(&fields[PRIORITY], INT32_MIN, INT32_MAX, &priority, err);
    if (rc == 0 && with_request)
        rc = decode_containers(&fields[INIT_CONTAINERS], &fields[CONTAINERS], mem, pod, err);
    if (rc == 0 && with_request)
        rc = decode_resources(&fields[OVERHEAD], &pod->overhead, err);
    if (rc == 0 && with_request)
        rc = decode_host(&fields[RESOURCES], &fields[OVERHEAD], pod, err);
    if (rc == 0)
        rc = model_rule_decode(&fields[SELECTOR], &fields[AFFINITY], mem, &pod->models, err);
    pod->priority = (int32_t)priority;
    return rc < 0 ? reader_at(err, "%s", spec->name) : 0;
}

static int decode_status(const struct reader_field *status, struct arena *mem, struct pod *pod,
                         struct error *err)
{
    enum { PHASE, NOMINATED_NODE };
    struct reader_field fields[] = {
        [PHASE] = {.name = "phase"},
        [NOMINATED_NODE] = {.name = "nominatedNodeName"},
    };
    struct str phase = {0};
    int rc = reader_field_object(status, READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[PHASE], mem, &phase, err);
    if (rc == 0)
        rc = reader_field_string(&fields[NOMINATED_NODE], mem, &pod->nominated_node, err);
    pod->finished = str_is(phase, "Succeeded") || str_is(phase, "Failed");
    return rc < 0 ? reader_at(err, "%s", status->name) : 0;
}

/* Room for the detail of a request, for the pods that may have one. */
static int make_room(struct arena *mem, struct pod *pod, struct error *err)
{
    bool wanted = card_selection_any(&pod->selection);
    for (uint32_t i = 0; i < pod->container_count && !wanted; i++) {
        const int64_t *amount = pod->containers[i].requests.amount;
        wanted = (amount[RESOURCE_NVIDIA_GPU] | amount[RESOURCE_HAMI_MEMORY] |
                  amount[RESOURCE_HAMI_PERCENTAGE] | amount[RESOURCE_HAMI_CORES]) != 0;
    }
    if (!wanted)
        return 0;
    struct gpu_room *room = arena_alloc(mem, 1, sizeof *room);
    if (room == NULL)
        return reader_no_memory(err);
    room->containers = arena_alloc(mem, pod->container_count, sizeof *room->containers);
    if (room->containers == NULL)
        return reader_no_memory(err);
    room->detail.select = pod->selection;
    pod->room = room;
    return 0;
}

static int decode(struct str value, bool with_request, struct arena *mem, struct pod *ret,
                  struct error *err)
{
    enum { METADATA, SPEC, STATUS };
    struct reader_field fields[] = {
        [METADATA] = {.name = "metadata"},
        [SPEC] = {.name = "spec"},
        [STATUS] = {.name = "status"},
    };
    struct pod pod = {0};
    struct annotations found = {0};
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_metadata(&fields[METADATA], mem, &pod, &found, err);
    if (rc == 0)
        rc = decode_spec(&fields[SPEC], with_request, mem, &pod, err);
    if (rc == 0)
        rc = decode_status(&fields[STATUS], mem, &pod, err);
    if (rc == 0)
        rc = read_allocation(&found, mem, &pod, err);
    if (rc == 0)
        rc = make_room(mem, &pod, err);
    if (rc < 0)
        return rc;
    *ret = pod;
    return 0;
}

static int decode_place(struct str value, const char *problem, struct arena *mem, struct pod *ret,
                        struct error *err)
{
    struct str sentence = arena_str(mem, str_from(problem));
    if (sentence.data == NULL)
        return reader_no_memory(err);
    int rc = decode(value, false, mem, ret, err);
    if (rc == 0)
        ret->request_problem = sentence;
    return rc;
}

/* Kubernetes stores quantities that 64 bits do not hold: that is the mistake of the pod's owner, not of
 * who sent the pod. The sentence begins with Koordinator's words. */
int pod_decode(struct str value, struct arena *mem, struct pod *ret, struct error *err)
{
    int rc = decode(value, true, mem, ret, err);
    if (rc != -ERANGE)
        return rc;
    struct error problem;
    error_set(&problem, rc, "invalid resource unit %s", err->text);
    return decode_place(value, problem.text, mem, ret, err);
}

int pod_decode_place(struct str value, struct arena *mem, struct pod *ret, struct error *err)
{
    return decode_place(value, "the device request cannot be read", mem, ret, err);
}
