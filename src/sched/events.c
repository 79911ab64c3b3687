/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>

#include "base/log.h"
#include "base/metrics.h"
#include "sched/intake.h"

static const struct {
    const char *message;
    const char *meaning;
} drift_texts[] = {
    [DRIFT_EDITED] = {"Allocation annotation edited", "the booking taken first stays"},
    [DRIFT_MOVED] = {"Pod bound to another node than booked", "counted where it runs"},
    [DRIFT_UNBOUND] = {"Bound pod seen without a node", "its booking is given back"},
    [DRIFT_INCONSISTENT] = {"Allocation annotation does not match the pod's request",
                            "charged the larger of both"},
    [DRIFT_INCOMPLETE] = {"Allocation annotation names too few cards",
                          "the others are unknown until the pod ends"},
    [DRIFT_UNREADABLE] = {"Allocation annotation unreadable",
                          "its cards are unknown until the pod ends"},
    [DRIFT_MISSING] = {"Device pod without allocation annotation",
                       "its cards are unknown until the pod ends"},
    [DRIFT_DOUBLED] = {"Card given twice", "it takes no new pod until enough of its pods end"},
};

static void warn(const struct pod_id *id, struct str node, enum metric_drift kind)
{
    metrics_add(METRIC_DRIFT, kind, 1);
    log_warning(drift_texts[kind].message, LOG_STR("namespace", id->ns), LOG_STR("pod", id->name),
                LOG_STR("uid", id->uid), LOG_STR("node", node),
                LOG_TEXT("meaning", drift_texts[kind].meaning));
}

static void drift(const struct pod *pod, enum metric_drift kind)
{
    warn(&pod->id, pod->node_name, kind);
}

/* Any event may show that a card was given twice. Short of memory, the next one says so. */
static void report_doubled(struct sched *sched)
{
    struct arena mem;
    struct doubled_pod pod;
    arena_init(&mem, 0);
    while (cache_next_doubled(sched->cache, &mem, &pod) == 1)
        warn(&pod.id, pod.node, DRIFT_DOUBLED);
    arena_done(&mem);
}

/* Report what an event showed to be out of the ordinary; the cache says each thing once. */
static void report(struct sched *sched, const struct pod *pod,
                   const struct pod_event_result *result)
{
    report_doubled(sched);
    if (result->moved)
        drift(pod, DRIFT_MOVED);
    else if (result->odd)
        drift(pod, DRIFT_UNBOUND);
    if (result->drifted)
        drift(pod, DRIFT_EDITED);
    if (!result->taken || result->state != BOOKING_BOUND)
        return;
    if (pod->annotation == ANNOTATION_UNREADABLE)
        drift(pod, DRIFT_UNREADABLE);
    else if (pod->annotation == ANNOTATION_ABSENT)
        drift(pod, DRIFT_MISSING);
    else if (result->trust == CHARGE_UNKNOWN)
        drift(pod, DRIFT_INCOMPLETE);
    else if (result->trust == CHARGE_INCONSISTENT)
        drift(pod, DRIFT_INCONSISTENT);
}

/* The pod's request in `space`, or NULL when it is invalid. */
static const struct pod_request *request_of(const struct sched *sched, const struct pod *pod,
                                            struct pod_request *space)
{
    struct error why;
    return intake_request(pod, &sched->hami_rules, space, &why) == 0 ? space : NULL;
}

/* What its annotations say of where it wants to go; the pod's owner hears of a mistake from filter. */
static struct pod_policy policy_of(const struct pod *pod)
{
    struct pod_policy policy;
    struct error why;
    (void)intake_policy(pod, &policy, &why);
    return policy;
}

int sched_pod_changed(struct sched *sched, const struct pod *pod)
{
    struct pod_request space;
    struct pod_policy policy = policy_of(pod);
    struct pod_event_result result;
    int rc = cache_pod_set(sched->cache, pod, request_of(sched, pod, &space), &policy, &result);
    if (rc == 0)
        report(sched, pod, &result);
    return rc;
}

int sched_pod_learned(struct sched *sched, const struct pod *pod, uint64_t removals)
{
    struct pod_request space;
    struct pod_policy policy = policy_of(pod);
    struct pod_event_result result;
    int rc = cache_pod_learn(sched->cache, pod, request_of(sched, pod, &space), &policy, removals,
                             &result);
    if (rc == 0)
        report(sched, pod, &result);
    return rc;
}

int sched_pod_settled(struct sched *sched, const struct pod *pod)
{
    struct pod_request space;
    struct pod_policy policy = policy_of(pod);
    struct pod_event_result result;
    int rc = cache_pod_settle(sched->cache, pod, request_of(sched, pod, &space), &policy, &result);
    if (rc == 0)
        report(sched, pod, &result);
    return rc;
}

void sched_pod_gone(struct sched *sched, struct str uid)
{
    cache_pod_remove(sched->cache, uid);
}

static int registration_changed(struct sched *sched, const struct node_facts *facts)
{
    struct error err = {0};
    int rc = 0;
    switch (facts->registration) {
    case REGISTRATION_ABSENT:
        cache_registration_remove(sched->cache, facts->name);
        return 0;
    case REGISTRATION_READ:
        rc = cache_registration_set(sched->cache, facts->name, &facts->registered, &err);
        break;
    case REGISTRATION_UNREADABLE:
        rc = error_set(&err, -EINVAL, "%.*s", STR_ARG(facts->registration_problem));
        break;
    }
    if (rc != -EINVAL)
        return rc;
    metrics_add(METRIC_BAD_OBJECTS, OBJECT_REGISTRATION, 1);
    log_warning("Registration of HAMi's device plugin refused, the one before stays",
                LOG_STR("node", facts->name), LOG_TEXT("err", err.text));
    return 0;
}

int sched_node_changed(struct sched *sched, const struct node_facts *facts)
{
    int rc = cache_node_set(sched->cache, facts);
    if (rc == 0)
        rc = registration_changed(sched, facts);
    report_doubled(sched);
    return rc;
}

void sched_node_gone(struct sched *sched, struct str name)
{
    cache_node_remove(sched->cache, name);
}

int sched_device_changed(struct sched *sched, struct str node, const struct inventory *inventory)
{
    struct error err = {0};
    int rc = cache_devices_set(sched->cache, node, inventory, &err);
    if (rc == -EINVAL) {
        metrics_add(METRIC_BAD_OBJECTS, OBJECT_DEVICE, 1);
        log_warning("Device object refused, the one before stays", LOG_STR("node", node),
                    LOG_TEXT("err", err.text));
    }
    report_doubled(sched);
    return rc;
}

void sched_device_gone(struct sched *sched, struct str node)
{
    cache_devices_remove(sched->cache, node);
    report_doubled(sched);
}

int sched_namespace_changed(struct sched *sched, struct str name, const struct policy_words *labels)
{
    struct error why = {0};
    struct pod_policy policy;
    uint32_t ignored;
    if (pod_policy_read(labels, &policy, &ignored, &why) < 0) {
        metrics_add(METRIC_BAD_OBJECTS, OBJECT_NAMESPACE, 1);
        log_warning("Labels of a Namespace are no policy, its pods have the configured one",
                    LOG_STR("namespace", name), LOG_TEXT("err", why.text));
        policy = (struct pod_policy){0};
    }
    return cache_namespace_set(sched->cache, name, &policy);
}

void sched_namespace_gone(struct sched *sched, struct str name)
{
    cache_namespace_remove(sched->cache, name);
}

uint32_t sched_list_begin(struct sched *sched, enum cache_listed kind)
{
    return cache_list_begin(sched->cache, kind);
}

void sched_list_keep(struct sched *sched, enum cache_listed kind, struct str name)
{
    cache_list_keep(sched->cache, kind, name);
}

bool sched_pod_same(struct sched *sched, struct str uid, uint64_t version)
{
    return cache_pod_same(sched->cache, uid, version);
}

void sched_list_end(struct sched *sched, enum cache_listed kind, uint32_t mark)
{
    static const char *const names[] = {"nodes", "devices", "pods", "namespaces"};
    uint32_t removed = cache_list_end(sched->cache, kind, mark);
    report_doubled(sched);
    log_info(2, "List complete", LOG_TEXT("objects", names[kind]), LOG_INT("removed", removed));
}
