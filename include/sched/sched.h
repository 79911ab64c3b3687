/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/extender.h"
#include "core/policy.h"
#include "core/pod.h"
#include "sched/port.h"
#include "state/cache.h"

/*
 * The use cases: one verb a file (filter.c, prioritize.c, preempt.c, bind.c), and events.c for what the
 * API server tells. No JSON, no HTTP. Verbs may run in parallel. Answers live in the request's arena.
 */

/* Settings that a configuration reload may change; swapped whole under the struct's own atomics. */
struct sched {
    struct cache *cache;
    struct clock clock;
    struct port port;
    _Atomic(const struct device_policy *) device_policy;
    _Atomic(const struct node_policy *) node_policy;
    atomic_bool synced; /* nodes, devices and pods are listed: verbs may answer */
};

/* Set up over parts that outlive it. Not synced yet. */
void sched_init(struct sched *sched, struct cache *cache, struct clock clock, struct port port,
                const struct device_policy *device_policy, const struct node_policy *node_policy);

/* First lists complete (or lost again): from now on verbs decide. */
void sched_set_synced(struct sched *sched, bool synced);

/* Which candidates can take the pod. An invalid request is an answer (every node REASON_INVALID), not an
 * error. Errors: -EAGAIN not synced; -ESTALE the body's request is not that of the stored pod; -ENOMEM. */
int sched_filter(struct sched *sched, const struct candidates_call *call, struct arena *mem,
                 struct filter_answer *ret, struct error *err);

/* Scores 0..10 of the candidates by the node policy; all 10 for a pod without devices, with an invalid
 * request or while not synced. -ENOMEM only. */
int sched_prioritize(struct sched *sched, const struct candidates_call *call, struct arena *mem,
                     struct prioritize_answer *ret, struct error *err);

/* Keep the candidates on which the pod fits once their victims' bookings are given back. While not synced
 * or for an invalid request none is kept. -ENOMEM only. */
int sched_preempt(struct sched *sched, const struct preempt_call *call, struct arena *mem,
                  struct preempt_answer *ret, struct error *err);

/* Decide again, book, write annotation and node in one outward call, confirm or forget. 0 = the pod is on
 * the node (also when an earlier bind already put it there). Errors: -EAGAIN not synced, -ENOENT no such
 * pod, -ESTALE uid, name or namespace do not belong together, -EINVAL invalid request, -ENOSPC devices are
 * short now, -EBUSY an earlier bind's outcome is not known yet, -EEXIST bound elsewhere, -EIO the write
 * failed, -ENOMEM. */
int sched_bind(struct sched *sched, const struct bind_call *call, struct arena *mem, struct error *err);

/* ---- events ---- */

/* A pod was added or changed: validate and convert its request, one cache call, count and log drift. */
int sched_pod_changed(struct sched *sched, const struct pod *pod);

/* A pod is gone. */
void sched_pod_gone(struct sched *sched, struct str uid);

/* A node was added or changed. */
int sched_node_changed(struct sched *sched, struct str name);

/* A node is gone. */
void sched_node_gone(struct sched *sched, struct str name);

/* A Device object was added or changed. */
int sched_device_changed(struct sched *sched, struct str node, const struct inventory *inventory);

/* A Device object is gone. */
void sched_device_gone(struct sched *sched, struct str node);

#endif
