/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_FENCE_H
#define KUBE_FENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

/*
 * Two writers in time. A uid and a 409 fence one pod, not one card: a binding sent by a process
 * that was killed or deposed may be committed after its successor has read the state and given the
 * card to another pod. So:
 *
 *   (1) a binding is sent only while our lease is sure to outlast T + D, where T is the timeout
 *       that the API server enforces from reception and D bounds delivery and a commit under way;
 *   (2) a new process or leader sends its first binding only after T + D has passed since it began
 *       to lead, and only once its state includes a consistent read that began after that moment;
 *       no wait when the predecessor stopped cleanly and left its mark in the Lease.
 *
 *   (3) what is sent was decided after the state was so complete, in the same term: a decision bears
 *       a permit, and the permit ends with the term. A thread that decided early and was held up
 *       would else send what the consistent read has shown to be wrong.
 *
 * Under these bounds no two processes' bindings overlap.
 */
struct fence {
    pthread_mutex_t mutex;
    struct clock clock;
    int64_t bind_ns, delivery_ns; /* T, D */
    bool open;                    /* rule (2) is met */
    uint64_t openings;            /* how often it was; the permit is this number */
    /* Our lease holds at least until then; INT64_MIN: none, INT64_MAX: there is no election. */
    int64_t lease_until_ns;
};

/* Closed, without a lease. */
void fence_init(struct fence *fence, struct clock clock, int64_t bind_ms, int64_t delivery_ms);

/* After every thread that used it. */
void fence_done(struct fence *fence);

/* The lease was renewed by a request that began at `sent_ns`: nobody else may take it before
 * sent_ns + duration. */
void fence_renewed(struct fence *fence, int64_t sent_ns, int64_t duration_ns);

/* There is no election: the lease never ends. */
void fence_no_election(struct fence *fence);

/* We do not lead any more: nothing is sent from now on. */
void fence_lost(struct fence *fence);

/* Rule (2) is met: first bindings may go out. */
void fence_open(struct fence *fence);

/* The permit to decide now, 0 if no binding may be sent. */
uint64_t fence_permit(struct fence *fence);

/* May a binding be sent now? Safe from any thread, cheap. */
bool fence_may_send(struct fence *fence);

/* Why not, for the error text and readyz: constant text, or NULL when it may. */
const char *fence_reason(struct fence *fence);

/* The same for a binding that was decided with this permit (0: without one). */
const char *fence_reason_for(struct fence *fence, uint64_t permit);

#endif
