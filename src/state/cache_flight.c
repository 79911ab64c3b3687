/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <time.h>

/* Pods between filter and bind: in flight, or with a tentative booking. */

#define NS_PER_SECOND INT64_C(1000000000)

void cache_land_locked(struct cache *cache, struct pod_record *pod)
{
    if (!pod->in_flight)
        return;
    TAILQ_REMOVE(&cache->in_flight, pod, waiting);
    pod->in_flight = false;
    pthread_cond_broadcast(&cache->arrived);
}

void cache_unpass_locked(struct cache *cache, struct pod_record *pod)
{
    cache_land_locked(cache, pod);
    pod->passed = false;
    pod->only = NODE_NONE;
}

void cache_lapse_locked(struct cache *cache, struct pod_record *pod)
{
    struct booking_step step = booking_next(pod->state, BOOKING_LAPSE);
    if (step.action != BOOKING_RELEASE)
        return;
    cache_unplace_locked(cache, pod);
    cache_set_state_locked(cache, pod, step.next);
}

uint32_t cache_expire_locked(struct cache *cache, int64_t now_ns)
{
    uint32_t count = 0;
    struct pod_record *first;
    while ((first = TAILQ_FIRST(&cache->tentative)) != NULL && first->held_until_ns <= now_ns) {
        cache_lapse_locked(cache, first);
        count++;
    }
    return count;
}

uint32_t cache_expire(struct cache *cache, int64_t now_ns)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t count = cache_expire_locked(cache, now_ns);
    cache_unlock(cache);
    return count;
}

/* Charge the cards that the pod would get on `slot`; false when it would get none. */
static bool hold_locked(struct cache *cache, struct pod_record *pod, uint32_t slot,
                        const struct device_policy *standard, int64_t until_ns)
{
    struct booking_step step = booking_next(pod->state, BOOKING_HOLD);
    struct plan plan;
    if (step.action != BOOKING_CHARGE ||
        cache_choose_locked(cache, &cache->nodes[slot], pod, standard, &plan) != REASON_FITS)
        return false;
    struct holding holding;
    if (cache_plan_holding(&plan, &holding) < 0)
        return false;
    pod->held_until_ns = until_ns;
    cache_place_locked(cache, pod, slot, &holding, step.next);
    return true;
}

static enum passed passed_locked(struct cache *cache, struct str uid, struct str only,
                                 const struct device_policy *standard, int64_t hold_until_ns)
{
    struct pod_record *pod = cache_pod_lookup_locked(cache, uid);
    if (pod == NULL || pod->state != BOOKING_NONE || pod->request_invalid || pod->policy.invalid)
        return PASSED_UNKNOWN;
    cache_land_locked(cache, pod);
    uint32_t slot = only.len > 0 ? cache_node_find_locked(cache, only) : MAP_NONE;
    pod->passed = true;
    pod->only = slot != MAP_NONE ? slot : NODE_NONE;
    if (slot != MAP_NONE && standard != NULL &&
        hold_locked(cache, pod, slot, standard, hold_until_ns))
        return PASSED_HELD;
    TAILQ_INSERT_TAIL(&cache->in_flight, pod, waiting);
    pod->in_flight = true;
    return PASSED_IN_FLIGHT;
}

enum passed cache_passed(struct cache *cache, struct str uid, struct str only,
                         const struct device_policy *standard, int64_t hold_until_ns)
{
    pthread_mutex_lock(&cache->mutex);
    enum passed passed = passed_locked(cache, uid, only, standard, hold_until_ns);
    cache_unlock(cache);
    return passed;
}

struct timespec cache_from_now(int64_t ns)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t nanoseconds = at.tv_nsec + ns % NS_PER_SECOND;
    at.tv_sec += (time_t)(ns / NS_PER_SECOND + nanoseconds / NS_PER_SECOND);
    at.tv_nsec = (long)(nanoseconds % NS_PER_SECOND);
    return at;
}

/* Nobody is waited for twice. */
static void give_up_locked(struct cache *cache)
{
    struct pod_record *pod;
    while ((pod = TAILQ_FIRST(&cache->in_flight)) != NULL)
        cache_land_locked(cache, pod);
}

/* What there is to wait for now, as the result that it would be in the end. */
static enum awaited missing_locked(struct cache *cache, struct str uid, bool until_known)
{
    if (!TAILQ_EMPTY(&cache->in_flight))
        return AWAITED_TIMEOUT;
    if (until_known && cache_pod_lookup_locked(cache, uid) == NULL)
        return AWAITED_UNKNOWN;
    return AWAITED_ARRIVED;
}

enum awaited cache_await(struct cache *cache, struct str uid, bool until_known, int64_t wait_ns)
{
    enum awaited awaited = AWAITED_NONE;
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *self = cache_pod_lookup_locked(cache, uid);
    if (self != NULL)
        cache_land_locked(cache, self);
    if (wait_ns > 0 && missing_locked(cache, uid, until_known) != AWAITED_ARRIVED) {
        struct timespec deadline = cache_from_now(wait_ns);
        int rc = 0;
        do {
            rc = pthread_cond_timedwait(&cache->arrived, &cache->mutex, &deadline);
            awaited = missing_locked(cache, uid, until_known);
        } while (rc == 0 && awaited != AWAITED_ARRIVED);
        give_up_locked(cache);
    }
    cache_unlock(cache);
    return awaited;
}
