/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_REFLECTOR_H
#define KUBE_REFLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/api_access.h"
#include "base/error.h"
#include "sched/sched.h"

/*
 * Keeps the cache equal to the API server: one thread and one connection for Nodes, Devices,
 * Pods and, if wanted, Namespaces each. List in pages, decode as it arrives, tell sched; watch from the list's version with
 * bookmarks; a broken or silent stream resumes from the last version seen; 410 lists again without
 * dropping what is there before the new list is complete. What went unseen is found by the list
 * (sched_list_begin, sched_list_end).
 */
struct reflectors;

struct reflector_options {
    const struct api_access *access; /* borrowed until stop */
    int64_t page_size;               /* objects a page */
    int64_t watch_timeout_ms;        /* asked of the server, with jitter 1x..2x */
    int64_t idle_timeout_ms; /* silence after which a watch counts as dead (bookmarks come every
                                minute) */
    int64_t backoff_min_ms, backoff_max_ms;
    bool namespaces; /* follow these, too */
};

/* Start the threads. sched_set_synced(true) once all of them have listed for the first time; a
 * missing Device CRD is waited for and does not stop the others. */
int reflectors_start(const struct reflector_options *options, struct sched *sched,
                     struct reflectors **ret, struct error *err);

/* How each stands, for readyz. Returns how many there are. */
struct reflector_status {
    const char *name;       /* "nodes", "devices", "pods", "namespaces" */
    bool synced;            /* has listed */
    char trouble[256];      /* "" or what it waits for: "devices.scheduling.koordinator.sh is not
                               installed" */
    uint64_t lists, events; /* complete lists, events of watches */
    uint64_t restarts;      /* failures of both */
    int64_t last_event_ns;  /* monotonic, of the last byte seen */
};
#define REFLECTOR_COUNT CACHE_LISTED_MAX
unsigned reflectors_status(struct reflectors *reflectors,
                           struct reflector_status ret[REFLECTOR_COUNT]);

/* Begin a new list of pods now and wait until it is complete: the state then includes every binding
 * that the API server had committed when this was called. -ETIMEDOUT, -ECANCELED at stop. */
int reflectors_consistent_pods(struct reflectors *reflectors, int64_t timeout_ms,
                               struct error *err);

/* End the wait of reflectors_consistent_pods with -ECANCELED, or that of its next call if nobody is
 * in it. Any thread. */
void reflectors_cancel_wait(struct reflectors *reflectors);

/* Stop and join the threads at once, free. NULL is fine. */
void reflectors_stop(struct reflectors *reflectors);

#endif
