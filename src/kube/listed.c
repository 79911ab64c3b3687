/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/listed.h"

#include <errno.h>

#include "codec/objects.h"
#include "codec/peek.h"

/* Which of an object's names the cache knows it by. */
static struct str key_of(enum cache_listed kind, const struct object_head *head)
{
    return kind == CACHE_PODS ? head->uid : head->name;
}

/* The object as a whole could not be read: put its name into the complaint and keep what is known
 * of it. */
static int keep_unreadable(struct sched *sched, enum cache_listed kind, struct str json,
                           struct arena *mem, struct error *complaint)
{
    struct object_head head;
    struct error why = {0};
    int rc = object_identity(json, mem, &head, &why);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0) {
        error_wrap(complaint, "an object without readable name");
        return 0;
    }
    sched_list_keep(sched, kind, key_of(kind, &head));
    if (head.ns.len > 0)
        error_wrap(complaint, "%.*s/%.*s", STR_ARG(head.ns), STR_ARG(head.name));
    else
        error_wrap(complaint, "%.*s", STR_ARG(head.name));
    return 0;
}

/* ---- nodes ---- */

static int node_changed(struct sched *sched, struct str json, struct arena *mem,
                        struct error *complaint)
{
    struct node_facts facts;
    int rc = object_decode_node(json, mem, &facts, complaint);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        return keep_unreadable(sched, CACHE_NODES, json, mem, complaint);
    return sched_node_changed(sched, &facts);
}

static int node_gone(struct sched *sched, struct str json, struct arena *mem,
                     struct error *complaint)
{
    struct object_head head;
    int rc = object_identity(json, mem, &head, complaint);
    if (rc == 0)
        sched_node_gone(sched, head.name);
    return rc == -ENOMEM ? rc : 0;
}

/* ---- devices ---- */

static int device_changed(struct sched *sched, struct str json, struct arena *mem,
                          struct error *complaint)
{
    struct str node;
    struct inventory inventory;
    uint32_t skipped;
    int rc = object_decode_device(json, mem, &node, &inventory, &skipped, complaint);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        return keep_unreadable(sched, CACHE_DEVICES, json, mem, complaint);
    if (skipped > 0)
        error_wrap(complaint, "%.*s: %u entries left out", STR_ARG(node), skipped);
    rc = sched_device_changed(sched, node, &inventory);
    if (rc == -EINVAL) /* which sched has reported */
        sched_list_keep(sched, CACHE_DEVICES, node);
    return rc == -ENOMEM ? rc : 0;
}

static int device_gone(struct sched *sched, struct str json, struct arena *mem,
                       struct error *complaint)
{
    struct object_head head;
    int rc = object_identity(json, mem, &head, complaint);
    if (rc == 0)
        sched_device_gone(sched, head.name);
    return rc == -ENOMEM ? rc : 0;
}

/* ---- pods ---- */

/* Most pods of a list that is asked for again are as they were. A pod whose request cannot be read may
 * still hold cards: it is taken as a pod with an invalid request. */
static int pod_changed(struct sched *sched, struct str json, struct arena *mem,
                       struct error *complaint)
{
    struct pod pod;
    struct error why = {0};
    struct str uid;
    uint64_t version;
    if (peek_object(json, &uid, &version) && sched_pod_same(sched, uid, version))
        return 0;
    int rc = object_decode_pod(json, mem, &pod, &why);
    if (rc < 0 && rc != -ENOMEM) {
        *complaint = why;
        rc = object_decode_pod_place(json, mem, &pod, &why);
        if (rc == 0)
            error_wrap(complaint, "%.*s/%.*s", STR_ARG(pod.id.ns), STR_ARG(pod.id.name));
    }
    if (rc == 0 && pod.id.uid.len == 0)
        rc = error_set(complaint, -EINVAL, "metadata.uid: must not be empty");
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        return keep_unreadable(sched, CACHE_PODS, json, mem, complaint);
    return sched_pod_changed(sched, &pod);
}

static int pod_gone(struct sched *sched, struct str json, struct arena *mem,
                    struct error *complaint)
{
    struct object_head head;
    int rc = object_identity(json, mem, &head, complaint);
    if (rc == 0)
        sched_pod_gone(sched, head.uid);
    return rc == -ENOMEM ? rc : 0;
}

/* ---- namespaces ---- */

static int namespace_changed(struct sched *sched, struct str json, struct arena *mem,
                             struct error *complaint)
{
    struct str name;
    struct policy_words labels;
    int rc = object_decode_namespace(json, mem, &name, &labels, complaint);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        return keep_unreadable(sched, CACHE_NAMESPACES, json, mem, complaint);
    return sched_namespace_changed(sched, name, &labels);
}

static int namespace_gone(struct sched *sched, struct str json, struct arena *mem,
                          struct error *complaint)
{
    struct object_head head;
    int rc = object_identity(json, mem, &head, complaint);
    if (rc == 0)
        sched_namespace_gone(sched, head.name);
    return rc == -ENOMEM ? rc : 0;
}

/* ---- the table ---- */

const struct listed listed_table[LISTED_COUNT] = {
    [CACHE_NODES] = {.name = "nodes",
                     .resource = "nodes",
                     .path = "/api/v1/nodes",
                     .selector = "",
                     .kind = CACHE_NODES,
                     .metric = OBJECT_NODE,
                     .changed = node_changed,
                     .gone = node_gone},
    [CACHE_DEVICES] = {.name = "devices",
                       .resource = "devices.scheduling.koordinator.sh",
                       .path = "/apis/scheduling.koordinator.sh/v1alpha1/devices",
                       .selector = "",
                       .installed_later = true,
                       .kind = CACHE_DEVICES,
                       .metric = OBJECT_DEVICE,
                       .changed = device_changed,
                       .gone = device_gone},
    /* Finished pods hold nothing: "status.phase!=Succeeded,status.phase!=Failed". One that finishes
     * leaves the selection and is told as deleted. */
    [CACHE_PODS] = {.name = "pods",
                    .resource = "pods",
                    .path = "/api/v1/pods",
                    .selector =
                        "&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
                    .kind = CACHE_PODS,
                    .metric = OBJECT_POD,
                    .changed = pod_changed,
                    .gone = pod_gone},
    [CACHE_NAMESPACES] = {.name = "namespaces",
                          .resource = "namespaces",
                          .path = "/api/v1/namespaces",
                          .selector = "",
                          .optional = true,
                          .kind = CACHE_NAMESPACES,
                          .metric = OBJECT_NAMESPACE,
                          .changed = namespace_changed,
                          .gone = namespace_gone},
};
