/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/cluster.h"

#include "base/log.h"
#include "base/mem.h"
#include "codec/annotation.h"
#include "codec/objects.h"
#include "codec/requests.h"
#include "embed/apply.h"
#include "embed/manifest.h"
#include "embed/store.h"
#include "embed/yaml.h"

#include <errno.h>
#include <pthread.h>

/*
 * The lock is held over the change of an object and the event about it, so that sched hears of
 * changes in their order. Below it are only codec, the store and, through sched's events, the cache
 * with its own short lock; nothing there calls back.
 */
struct cluster {
    pthread_mutex_t lock;
    struct store store;
    struct sched *sched; /* NULL: nobody is told */
};

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

struct cluster *cluster_new(void)
{
    struct cluster *cluster = mem_calloc(1, sizeof *cluster);

    if (cluster == NULL)
        return NULL;
    pthread_mutex_init(&cluster->lock, NULL);
    store_init(&cluster->store);
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    if (cluster == NULL)
        return;
    store_done(&cluster->store);
    pthread_mutex_destroy(&cluster->lock);
    mem_free(cluster);
}

void cluster_attach(struct cluster *cluster, struct sched *sched)
{
    cluster->sched = sched;
}

/* ---- apply ---- */

static int tell_locked(struct cluster *cluster, const struct change *change)
{
    switch (change->kind) {
    case KIND_NAMESPACE:
        return sched_namespace_changed(cluster->sched, change->name, &change->labels);
    case KIND_NODE:
        return sched_node_changed(cluster->sched, &change->node);
    case KIND_DEVICE:
        return sched_device_changed(cluster->sched, change->name, &change->inventory);
    case KIND_POD:
        return sched_pod_changed(cluster->sched, &change->pod);
    default:
        return 0;
    }
}

/* Tell of all changes: namespaces and nodes, then devices, then pods, so that the order in the text does not
 * matter. An object that sched had no memory for can be applied again. */
static int tell_all_locked(struct cluster *cluster, const struct apply *apply, struct error *err)
{
    static const enum object_kind order[] = {KIND_NAMESPACE, KIND_NODE, KIND_DEVICE, KIND_POD};
    int result = 0;

    if (cluster->sched == NULL)
        return 0;
    for (uint32_t k = 0; k < STORE_KINDS; k++) {
        for (uint32_t i = 0; i < apply->count; i++) {
            const struct change *change = &apply->changes[i];

            if (change->kind == order[k] && tell_locked(cluster, change) == -ENOMEM)
                result = error_set(err, -ENOMEM,
                                   "%s:%u: %.*s: stored, but there was no memory to schedule by it",
                                   apply->source, change->line, STR_ARG(change->title));
        }
    }
    return result;
}

int cluster_apply(struct cluster *cluster, struct str text, const char *source, uint32_t *ret_count,
                  struct error *err)
{
    struct apply apply;
    int result = apply_read(&apply, text, source, err);

    if (result == 0) {
        pthread_mutex_lock(&cluster->lock);
        result = apply_check(&apply, &cluster->store, err);
        if (result == 0)
            result = apply_commit(&apply, &cluster->store, err);
        if (result == 0)
            result = tell_all_locked(cluster, &apply, err);
        pthread_mutex_unlock(&cluster->lock);
    }
    if (result == 0 && ret_count != NULL)
        *ret_count = apply.count;
    apply_done(&apply);
    return result;
}

/* ---- delete ---- */

static void tell_gone_locked(struct cluster *cluster, const struct object *object)
{
    if (cluster->sched == NULL)
        return;
    if (object->kind == KIND_NAMESPACE)
        sched_namespace_gone(cluster->sched, object->name);
    else if (object->kind == KIND_NODE)
        sched_node_gone(cluster->sched, object->name);
    else if (object->kind == KIND_DEVICE)
        sched_device_gone(cluster->sched, object->name);
    else
        sched_pod_gone(cluster->sched, str_from(object->uid));
}

int cluster_delete(struct cluster *cluster, struct str kind, struct str ns, struct str name,
                   struct error *err)
{
    enum object_kind known = store_kind_find(kind);
    struct object *object = NULL;

    pthread_mutex_lock(&cluster->lock);
    if (known != KIND_OTHER)
        object = store_find(&cluster->store, known, ns, name);
    if (object != NULL) {
        store_remove(&cluster->store, object);
        tell_gone_locked(cluster, object);
    }
    pthread_mutex_unlock(&cluster->lock);
    if (object == NULL)
        return error_set(err, -ENOENT, "%.*s \"%.*s%s%.*s\" not found", STR_ARG(kind), STR_ARG(ns),
                         ns.len > 0 ? "/" : "", STR_ARG(name));
    object_free(object);
    return 0;
}

/* ---- the port ---- */

/* As an API server names a pod that is not there. */
static int no_pod(const struct pod_id *id, struct error *err)
{
    return error_set(err, -ENOENT, "pods \"%.*s\" not found", STR_ARG(id->name));
}

static int get_pod(void *self, const struct pod_id *id, struct arena *mem, struct pod *ret,
                   struct error *err)
{
    struct cluster *cluster = self;
    const struct object *object;
    struct str json = {NULL, 0};

    pthread_mutex_lock(&cluster->lock);
    object = store_find(&cluster->store, KIND_POD, id->ns, id->name);
    if (object != NULL)
        json = arena_str(mem, object->json);
    pthread_mutex_unlock(&cluster->lock);
    if (object == NULL)
        return no_pod(id, err);
    if (json.data == NULL)
        return no_memory(err);
    return object_decode_pod(json, mem, ret, err);
}

/* The preconditions of POST pods/binding (registry/core/pod/storage). */
static int check_bindable(const struct object *object, const struct binding *binding,
                          struct arena *mem, struct error *err)
{
    struct str name = binding->pod.name;
    struct pod pod;
    int result;

    if (!str_is(binding->pod.uid, object->uid))
        return error_set(err, -EINVAL,
                         "Precondition failed: UID in precondition: %.*s, UID in object meta: %s",
                         STR_ARG(binding->pod.uid), object->uid);
    result = object_decode_pod(object->json, mem, &pod, err);
    if (result < 0)
        return result;
    if (pod.deleting)
        return error_set(err, -EINVAL, "pod %.*s is being deleted, cannot be assigned to a host",
                         STR_ARG(name));
    if (pod.node_name.len > 0)
        return error_set(err, -EINVAL, "pod %.*s is already assigned to node \"%.*s\"",
                         STR_ARG(name), STR_ARG(pod.node_name));
    return 0;
}

/* The pod as it is when bound: its text in `out`, and decoded. */
static int make_bound(const struct object *object, const struct binding *binding,
                      struct strbuf *out, struct arena *mem, struct pod *ret, struct error *err)
{
    static const struct placement nothing;
    const struct placement *placement = binding->placement != NULL ? binding->placement : &nothing;
    struct binding_annotations list;
    struct str keys[BINDING_ANNOTATIONS_MAX], values[BINDING_ANNOTATIONS_MAX], json;
    int result;

    binding_annotations(placement, binding->node, &list);
    for (uint32_t i = 0; i < list.count; i++) {
        keys[i] = str_from(list.keys[i]);
        values[i] = (struct str){list.values[i].data, list.values[i].len};
    }
    result = list.failed
                 ? no_memory(err)
                 : object_bind_pod(object->json, binding->node, keys, values, list.count, out, err);
    binding_annotations_done(&list);
    if (result < 0)
        return result;
    json = (struct str){out->data, out->len};
    result = manifest_check_annotations(json, mem, err);
    return result == 0 ? object_decode_pod(json, mem, ret, err) : result;
}

static int bind_locked(struct cluster *cluster, const struct binding *binding, struct arena *mem,
                       struct error *err)
{
    struct object *object =
        store_find(&cluster->store, KIND_POD, binding->pod.ns, binding->pod.name);
    struct str json;
    struct strbuf out;
    struct pod pod;
    int result;

    if (object == NULL)
        return no_pod(&binding->pod, err);
    result = check_bindable(object, binding, mem, err);
    if (result < 0)
        return result;
    strbuf_init(&out);
    result = make_bound(object, binding, &out, mem, &pod, err);
    if (result == 0) {
        json.data = strbuf_take(&out, &json.len);
        object_set_json(object, json);
        /* It is bound now, whoever hears of it; sched itself asked and knows. */
        if (cluster->sched != NULL && sched_pod_changed(cluster->sched, &pod) < 0)
            log_error("No memory to take a pod event", LOG_STR("namespace", binding->pod.ns),
                      LOG_STR("pod", binding->pod.name));
    }
    strbuf_done(&out);
    return result;
}

/* Nothing is lost on the way to memory: what is not done is refused. */
static enum bind_outcome bind_pod(void *self, const struct binding *binding, struct error *err)
{
    struct cluster *cluster = self;
    struct arena mem;
    int result;

    arena_init(&mem, 0);
    pthread_mutex_lock(&cluster->lock);
    result = bind_locked(cluster, binding, &mem, err);
    pthread_mutex_unlock(&cluster->lock);
    arena_done(&mem);
    return result == 0 ? BIND_DONE : BIND_REFUSED;
}

struct port cluster_port(struct cluster *cluster)
{
    return (struct port){.get_pod = get_pod, .bind_pod = bind_pod, .self = cluster};
}

/* ---- dump ---- */

int cluster_dump_json(struct cluster *cluster, struct strbuf *out, struct error *err)
{
    const char *before = "";

    strbuf_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[");
    pthread_mutex_lock(&cluster->lock);
    for (uint32_t i = 0; i < STORE_KINDS; i++) {
        for (const struct object *o = cluster->store.first[i]; o != NULL; o = o->next) {
            strbuf_puts(out, before);
            strbuf_add_str(out, o->json);
            before = ",";
        }
    }
    pthread_mutex_unlock(&cluster->lock);
    strbuf_puts(out, "]}");
    return out->failed ? no_memory(err) : 0;
}

int cluster_dump_yaml(struct cluster *cluster, struct strbuf *out, struct error *err)
{
    struct arena mem;
    struct strbuf json;
    const struct str *items = NULL;
    uint32_t count = 0;
    int result;

    /* From one copy, so that it is one moment's state and the lock is not held for the slow part.
     */
    arena_init(&mem, 0);
    strbuf_init(&json);
    result = cluster_dump_json(cluster, &json, err);
    if (result == 0)
        result = object_list_items((struct str){json.data, json.len}, &mem, &items, &count, err);
    for (uint32_t i = 0; result == 0 && i < count; i++)
        result = yaml_from_json(items[i], out, err);
    strbuf_done(&json);
    arena_done(&mem);
    return result;
}
