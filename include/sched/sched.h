/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/extender.h"
#include "core/hami.h"
#include "core/pod.h"
#include "core/pod_policy.h"
#include "core/policy.h"
#include "sched/port.h"
#include "state/cache.h"

/*
 * The use cases: one verb a file (filter.c, prioritize.c, preempt.c, bind.c), and events.c for what the
 * API server tells. No JSON, no HTTP. Verbs may run in parallel. Answers live in the request's arena.
 */

/* Settings that a configuration reload may change; swapped whole under the struct's own atomics. The
 * policies are those of pods that name none. */
struct sched {
    struct cache *cache;
    struct clock clock;
    struct port port;
    struct hami_rules
        hami_rules; /* what requests in HAMi's dialect mean; set before the first call */
    _Atomic(const struct device_policy *) device_policy;
    _Atomic(const struct node_policy *) node_policy;
    _Atomic(enum policy_strength) node_strength; /* prefer or require */
    _Atomic uint32_t max_candidates;             /* that filter returns; 0 = all */
    _Atomic int64_t in_flight_wait_ns;           /* of a filter for the binds before it; 0 = none */
    int64_t turn_wait_ns; /* of a bind for its turn, see state/cache.h; set before the first call */
    uint32_t turn_waiters_max; /* binds that wait at a time; others are refused at once */
    atomic_uint turn_waiters;
    atomic_bool tentative;                       /* hold the cards where filter left one node */
    atomic_bool watching; /* pods come from a watch, which may be behind kube-scheduler's own */
    atomic_bool synced;  /* nodes, devices and pods are listed: verbs may answer */
    atomic_bool leading; /* this process may decide; true from the start where there is no election */
};

/* Set up over parts that outlive it. Not synced yet; strength prefer, all candidates, no wait,
 * nothing tentative, not watching, HAMi's rules as HAMi has them, no wait for turns. */
void sched_init(struct sched *sched, struct cache *cache, struct clock clock, struct port port,
                const struct device_policy *device_policy, const struct node_policy *node_policy);

/* First lists complete (or lost again): from now on verbs decide. */
void sched_set_synced(struct sched *sched, bool synced);

/* This process leads, or does not any more. */
void sched_set_leading(struct sched *sched, bool leading);

/* May verbs decide now? 0, -EAGAIN not synced, -EPERM another replica leads. */
int sched_ready(const struct sched *sched, struct error *err);

/* What filter and prioritize calls are to be read with, see cache_roster_take; it must stay until the call is
 * answered. */
const struct roster *sched_roster_take(struct sched *sched);
void sched_roster_leave(const struct roster *roster);

/* Which candidates can take the pod, and of these the best by its node policy: as many as max_candidates says,
 * with strength require only those that the policy ranks first. Waits for the bind of a pod before it, and may
 * book tentatively, see "between filter and bind" in state/cache.h. An invalid request is an answer (every node REASON_INVALID), not an
 * error. Errors: those of sched_ready; -ESTALE the body's request is not that of the stored pod; -ENOMEM. */
int sched_filter(struct sched *sched, const struct candidates_call *call, struct arena *mem,
                 struct filter_answer *ret, struct error *err);

/* Scores 0..10 of the candidates by the node policy; all 10 for a pod without devices or with an invalid
 * request. Errors: those of sched_ready, which the caller answers with an empty list; -ENOMEM. */
int sched_prioritize(struct sched *sched, const struct candidates_call *call, struct arena *mem,
                     struct prioritize_answer *ret, struct error *err);

/* Keep the candidates on which the pod fits once their victims' bookings are given back; none for an
 * invalid request. Errors: those of sched_ready, which the caller answers with an empty map; -ENOMEM. */
int sched_preempt(struct sched *sched, const struct preempt_call *call, struct arena *mem,
                  struct preempt_answer *ret, struct error *err);

/* Decide again, book, write annotation and node in one outward call, confirm or forget. 0 = the pod
 * is on the node (also when an earlier bind already put it there). Logs one line for the audit,
 * whatever comes of it. Errors: those of sched_ready, -ENOENT no such pod, -ESTALE uid, name or
 * namespace do not belong together, -EINVAL invalid request, -ENOSPC devices are short now, -EBUSY
 * an earlier bind's outcome is not known yet, -EEXIST bound elsewhere, -EIO the write failed,
 * -ENOMEM. Where HAMi's device plugin is served it may wait for its turn before; -EBUSY when that
 * does not come. */
int sched_bind(struct sched *sched, const struct bind_call *call, struct arena *mem, struct error *err);

/* ---- events ---- */

/* A pod was added or changed: validate and convert its request, one cache call, count and log drift. */
int sched_pod_changed(struct sched *sched, const struct pod *pod);

/* A pod was read because the cache did not know it, or because the outcome of its binding was unknown: see
 * cache_pod_learn and cache_pod_settle. */
int sched_pod_learned(struct sched *sched, const struct pod *pod, uint64_t removals);
int sched_pod_settled(struct sched *sched, const struct pod *pod);

/* A pod is gone. */
void sched_pod_gone(struct sched *sched, struct str uid);

/* A node was added or changed. */
int sched_node_changed(struct sched *sched, const struct node_facts *facts);

/* A node is gone. */
void sched_node_gone(struct sched *sched, struct str name);

/* A Device object was added or changed. */
int sched_device_changed(struct sched *sched, struct str node, const struct inventory *inventory);

/* A Device object is gone. */
void sched_device_gone(struct sched *sched, struct str node);

/* A Namespace was added or changed: its labels of ours are the defaults of its pods. Labels that are no
 * policy say nothing; they are counted and logged. */
int sched_namespace_changed(struct sched *sched, struct str name, const struct policy_words *labels);

/* A Namespace is gone. */
void sched_namespace_gone(struct sched *sched, struct str name);

/* A complete list of one kind begins; between it and sched_list_end every object of the list is told by its
 * changed-event. Events of the watch may come in between. */
uint32_t sched_list_begin(struct sched *sched, enum cache_listed kind);

/* The list names an object that cannot be read: what is known of it stays. `name` as for cache_list_keep. */
void sched_list_keep(struct sched *sched, enum cache_listed kind, struct str name);

/* The list names a pod at this version. True: nothing has changed, see cache_pod_same. */
bool sched_pod_same(struct sched *sched, struct str uid, uint64_t version);

/* The list is complete: what it did not name is gone. */
void sched_list_end(struct sched *sched, enum cache_listed kind, uint32_t mark);

/* ---- housekeeping: call about once a second, from one thread ---- */

struct janitor {
    int64_t unknown_grace_ns; /* after so long a binding that was sent can no longer happen */
    int64_t wake_pause_ns;    /* between two wakes of one pod */
    uint32_t wake_burst;      /* wakes in one round, at most; 0 switches waking off */
    uint64_t gains_seen;
    bool wake_again; /* the last round left somebody who would fit */
};

/* Settings as given, nothing seen yet. */
void janitor_init(struct janitor *janitor, int64_t unknown_grace_ns, int64_t wake_pause_ns,
                  uint32_t wake_burst);

/* One round: end tentative bookings that are past their time; read each pod whose binding has an unknown outcome and confirm or forget it; wake rejected pods
 * that would fit since something made room. May block in the outward port. */
void janitor_round(struct janitor *janitor, struct sched *sched);

#endif
