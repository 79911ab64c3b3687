/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/fence.h"

#include <assert.h>

#define NS_PER_MS 1000000

/* Never later than the truth: a sum that overflows upwards saturates. */
static int64_t add_ns(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t ms_to_ns(int64_t ms)
{
    int64_t ns;
    assert(ms >= 0);
    return __builtin_mul_overflow(ms, (int64_t)NS_PER_MS, &ns) ? INT64_MAX : ns;
}

void fence_init(struct fence *fence, struct clock clock, int64_t bind_ms, int64_t delivery_ms)
{
    *fence = (struct fence){
        .clock = clock,
        .bind_ns = ms_to_ns(bind_ms),
        .delivery_ns = ms_to_ns(delivery_ms),
        .lease_until_ns = INT64_MIN,
    };
    int rc = pthread_mutex_init(&fence->mutex, NULL);
    assert(rc == 0);
    (void)rc;
}

void fence_done(struct fence *fence)
{
    pthread_mutex_destroy(&fence->mutex);
}

/* INT64_MAX says "never ends": a sum must not come to mean that. */
void fence_renewed(struct fence *fence, int64_t sent_ns, int64_t duration_ns)
{
    int64_t until_ns = add_ns(sent_ns, duration_ns);
    if (until_ns == INT64_MAX)
        until_ns--;
    pthread_mutex_lock(&fence->mutex);
    fence->lease_until_ns = until_ns;
    pthread_mutex_unlock(&fence->mutex);
}

void fence_no_election(struct fence *fence)
{
    pthread_mutex_lock(&fence->mutex);
    fence->lease_until_ns = INT64_MAX;
    pthread_mutex_unlock(&fence->mutex);
}

void fence_lost(struct fence *fence)
{
    pthread_mutex_lock(&fence->mutex);
    fence->lease_until_ns = INT64_MIN;
    fence->open = false;
    pthread_mutex_unlock(&fence->mutex);
}

void fence_open(struct fence *fence)
{
    pthread_mutex_lock(&fence->mutex);
    fence->openings += !fence->open;
    fence->open = true;
    pthread_mutex_unlock(&fence->mutex);
}

/* The clock is read under the lock: a thread that waited for it must not judge by an old time. */
static const char *reason_locked(struct fence *fence)
{
    if (fence->lease_until_ns == INT64_MIN)
        return "this process does not hold the lease";
    if (!fence->open)
        return "bindings of a process before this one may still arrive";
    if (fence->lease_until_ns == INT64_MAX)
        return NULL;
    int64_t latest_ns =
        add_ns(add_ns(clock_now_ns(&fence->clock), fence->bind_ns), fence->delivery_ns);
    if (latest_ns >= fence->lease_until_ns)
        return "the lease may end before the binding does";
    return NULL;
}

const char *fence_reason_for(struct fence *fence, uint64_t permit)
{
    pthread_mutex_lock(&fence->mutex);
    const char *reason = reason_locked(fence);
    if (reason == NULL && permit != 0 && permit != fence->openings)
        reason = "it was decided in an earlier term";
    pthread_mutex_unlock(&fence->mutex);
    return reason;
}

const char *fence_reason(struct fence *fence)
{
    return fence_reason_for(fence, 0);
}

uint64_t fence_permit(struct fence *fence)
{
    pthread_mutex_lock(&fence->mutex);
    uint64_t permit = reason_locked(fence) == NULL ? fence->openings : 0;
    pthread_mutex_unlock(&fence->mutex);
    return permit;
}

bool fence_may_send(struct fence *fence)
{
    return fence_reason(fence) == NULL;
}
