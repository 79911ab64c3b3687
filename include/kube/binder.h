/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_BINDER_H
#define KUBE_BINDER_H

#include <stdint.h>

#include "base/api_access.h"
#include "base/error.h"
#include "kube/fence.h"
#include "sched/port.h"

/*
 * The outward port over a small pool of clients: reading a pod, the one binding write, the wake-up patch.
 * Callers block; as many run in parallel as the pool has clients, further ones wait their turn.
 */
struct binder;

struct binder_options {
    const struct api_access *access; /* borrowed until free */
    uint32_t clients;
    int64_t bind_timeout_ms;     /* T: ?timeout= of the binding, counted by the API server from reception */
    int64_t delivery_timeout_ms; /* D: from our check to reception, and for a commit already under way */
    struct fence *fence;         /* asked before every send; borrowed */
};

/* Open the pool. -ENOMEM, or what kube_client_open says of the access. */
int binder_new(const struct binder_options *options, struct binder **ret, struct error *err);

/* Interrupt what runs, free. NULL is fine. */
void binder_free(struct binder *binder);

/*
 * The port. Answers of POST binding (fieldManager and ?timeout=T set, uid as precondition):
 *   201                                   DONE
 *   409 already assigned                  the pod is read: this uid, our node, our annotation: DONE;
 *                                         our uid elsewhere: REFUSED; still pending: UNKNOWN
 *   409 uid differs, deleting, gated; 400, 401, 403, 404, 405, 422     REFUSED, the server's own message
 *   429                                   REFUSED (nothing was done); Retry-After is obeyed once if it fits T
 *   500, 502, 503, 504, no answer after something was sent              UNKNOWN
 *   the fence said no, nothing was sent                                REFUSED
 * Annotations past 262144 bytes together with the pod's own are refused before the write.
 */
struct port binder_port(struct binder *binder);

#endif
