/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_BINDER_H
#define KUBE_BINDER_H

#include <stdint.h>

#include "base/api_access.h"
#include "base/error.h"
#include "kube/fence.h"
#include "sched/port.h"

/*
 * The outward port over a small pool of clients: reading a pod, the one binding write, the wake-up
 * patch. Callers block; as many run in parallel as the pool has clients, further ones wait their
 * turn.
 */
struct binder;

struct binder_options {
    const struct api_access *access; /* borrowed until free */
    uint32_t clients;
    /* T: ?timeout= of the binding, counted by the API server from reception */
    int64_t bind_timeout_ms;
    /* D: from our check to reception, and for a commit already under way; > 0 */
    int64_t delivery_timeout_ms;
    struct fence *fence; /* asked before every send; borrowed */
};

/* Open the clients. 0, -ENOMEM, or what kube_client_open says of the access. */
int binder_new(const struct binder_options *options, struct binder **ret, struct error *err);

/* Interrupt what runs and who waits, wait until they have left, free. No call may begin after this
 * one. NULL is fine. */
void binder_free(struct binder *binder);

/*
 * The port. Answers of POST binding (fieldManager and ?timeout=T set, uid as precondition), all as
 * a Status of the API server's:
 *
 *   201 Success                           DONE
 *   409 already assigned                  the pod is read, see below
 *   409 uid differs, deleting, gated      REFUSED, with the server's own message
 *   400, 401, 403, 404, 405, 422          REFUSED, the same
 *   429                                   REFUSED, nothing was done; a Retry-After is obeyed once
 *                                         if it fits into T
 *   5xx, anything else, no answer         UNKNOWN
 *   nothing was sent, or the fence said no                             REFUSED
 *   annotations past 262144 bytes together with the pod's own          REFUSED, not sent
 *
 * An answer that is no Status may come from anybody on the way, and a refusal of a request which
 * libcurl had to send twice says nothing of the first time: then, too, the pod is read. Our uid on
 * our node with our annotation is DONE; elsewhere, with another annotation, or gone is REFUSED;
 * pending or not readable is UNKNOWN.
 */
struct port binder_port(struct binder *binder);

#endif
