/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCHED_PORT_H
#define SCHED_PORT_H

#include "base/arena.h"
#include "base/error.h"
#include "core/extender.h"
#include "core/pod.h"

/* What a bind came to. */
enum bind_outcome {
    BIND_DONE,    /* the pod is on the node with our annotations */
    BIND_REFUSED, /* it is certain that it is not: give the cards back */
    BIND_UNKNOWN, /* the reply was lost: keep the booking until the pod has been read */
};

/* One binding: annotations and node go to the API server in one write. */
struct binding {
    struct pod_id pod; /* uid is the precondition */
    struct str node;
    const struct placement *placement; /* count 0: a pod without devices, no annotation */
    uint32_t annotation_bytes;         /* of the annotations that the pod has already */
    uint64_t permit;                   /* of may_bind, when it was decided; 0: not asked for */
};

/* All that a use case may ask of the outside world. Two implementations: the embedded cluster and the
 * API server. Both may be called from several threads and may block. */
struct port {
    /* The stored pod by namespace and name, into `mem`: 0, -ENOENT, or another error. Its uid may differ
     * from the one asked for: the caller compares. */
    int (*get_pod)(void *self, const struct pod_id *id, struct arena *mem, struct pod *ret,
                   struct error *err);
    /* POST the binding; one whose permit is over is refused. err is filled for the last two outcomes. */
    enum bind_outcome (*bind_pod)(void *self, const struct binding *binding, struct error *err);
    /* Make kube-scheduler try a pod again that it put aside: a change of the pod's annotations does. May be
     * NULL where nobody sleeps. */
    int (*wake_pod)(void *self, const struct pod_id *id, struct error *err);
    /* A permit to decide about bindings, from a moment on at which the state includes all that others sent:
     * 0 if there is none now, and why in err. May be NULL where nobody else binds. */
    uint64_t (*may_bind)(void *self, struct error *err);
    void *self;
};

#endif
