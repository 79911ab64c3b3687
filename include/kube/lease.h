/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_LEASE_H
#define KUBE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/api_access.h"
#include "base/error.h"
#include "kube/fence.h"

/*
 * Leader election on a coordination.k8s.io/v1 Lease, as client-go does it (tools/leaderelection):
 * expiry is judged on our own monotonic clock from the moment the record was seen to change;
 * renewTime is for people. One thread, one connection.
 */
struct lease;

struct lease_options {
    const struct api_access *access; /* borrowed until stop */
    const char *ns, *name;           /* the Lease object; borrowed too */
    const char *identity; /* holderIdentity: pod name and uid, or host name and a random part */
    int64_t duration_ms, renew_deadline_ms, retry_period_ms; /* 15 s, 10 s, 2 s */
    struct fence *fence;
    /* Called from the lease's thread, `ended` also from lease_stop; they must not block, no renewal
     * happens meanwhile. began: we lead; `clean` the predecessor released it on purpose after its
     * last binding had ended. ended: we lead no more (already told to the fence). */
    void (*began)(void *self, bool clean);
    void (*ended)(void *self);
    void *self;
};

/* Start the thread; returns before anything is known. -ENOMEM, or what kube_client_open says. */
int lease_start(const struct lease_options *options, struct lease **ret, struct error *err);

/* Who leads, as last seen: copied to `out`; returns whether it is us. */
bool lease_holder(struct lease *lease, char *out, size_t size);

/* Stop. `clean`: no binding of ours is under way or unknown any more: the Lease is released with a
 * mark that says so. Otherwise it is left to expire. Joins the thread, frees. */
void lease_stop(struct lease *lease, bool clean);

#endif
