/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_LEADER_H
#define KUBE_LEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/api_access.h"
#include "base/error.h"
#include "kube/fence.h"
#include "kube/lease.h"
#include "kube/own_pod.h"
#include "sched/sched.h"

/*
 * The conductor: what this process does when it begins to lead, and when it ends. A term begins
 * with the Lease, or, without election, with the start of the process:
 *
 *   verbs may answer (sched_set_leading): filter is of use at once, bind is refused until the end;
 *   the label goes off every other Pod of ours and on ours, so that the Service leads here;
 *   T + D pass since the term began, unless the predecessor stopped cleanly;
 *   a list of pods that began after that is complete;
 *   bindings may go out (fence_open).
 *
 * A step that fails is tried again for as long as the term lasts. Only a label that the API server
 * forbids or has no Pod for is given up, with a warning. While it leads, it looks every
 * label_look_ms whether its Pod alone has the label, and, while bindings may go out, sets that
 * right: a late request of a process before, or somebody's hand, may have moved it, and without it
 * the Service leads nowhere. When the term ends, nothing is sent any more at once, verbs stop to
 * answer, and the label goes off our Pod; it also does so at the start of a process that stands for
 * election.
 */
struct leader;

struct leader_options {
    const struct api_access *access; /* borrowed until stop */
    struct fence *fence;
    struct sched *sched;
    /* NULL: no election, we lead from the start. Copied; its fence, began, ended and self are ours
     * to set. */
    const struct lease_options *lease;
    struct own_pod own;      /* name NULL: we run in no Pod, and there is no label */
    int64_t call_timeout_ms; /* of one call about labels */
    int64_t retry_ms;        /* between two tries of a step that failed */
    int64_t label_look_ms;   /* between two looks at the label of who leads */
    /* A complete list of pods that begins when it is called, see reflectors_consistent_pods.
     * `cancel` ends it with -ECANCELED, now or, if none runs, the next one; from any thread. */
    int (*consistent_pods)(void *self, int64_t timeout_ms, struct error *err);
    void (*cancel)(void *self);
    void *self;
};

/* Start. The parts are borrowed until stop. */
int leader_start(const struct leader_options *options, struct leader **ret, struct error *err);

/* Where we stand, one line for readyz and people, cut at `size`: who leads, or what the first
 * binding waits for. Returns whether bindings may go out now. */
bool leader_status(struct leader *leader, char *out, size_t size);

/* Stop, give up the Lease, join the threads, free. `clean` as in lease_stop; what a term that still
 * waits for its predecessor's bindings leaves behind is never clean. NULL is fine. */
void leader_stop(struct leader *leader, bool clean);

#endif
