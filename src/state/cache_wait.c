/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>

/* Pods that wait for somebody to do something: bookings with an unknown outcome, and rejected pods that
 * would fit by now. */

void cache_outcome_unknown(struct cache *cache, struct str uid, int64_t now_ns)
{
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *pod = cache_pod_lookup_locked(cache, uid);
    if (pod != NULL && pod->state == BOOKING_BOOKED) {
        pod->unknown_outcome = true;
        pod->unknown_since_ns = now_ns;
    }
    pthread_mutex_unlock(&cache->mutex);
}

static int copy_waiting(struct arena *mem, const struct pod_record *pod, int64_t since_ns,
                        struct waiting_pod *ret)
{
    struct waiting_pod copy = {
        .id = {arena_str(mem, pod->ns), arena_str(mem, pod->name), arena_str(mem, pod->uid)},
        .since_ns = since_ns,
    };
    if (copy.id.ns.data == NULL || copy.id.name.data == NULL || copy.id.uid.data == NULL)
        return -ENOMEM;
    *ret = copy;
    return 1;
}

int cache_next_unknown(struct cache *cache, uint32_t *cursor, struct arena *mem,
                       struct waiting_pod *ret)
{
    int rc = 0;
    pthread_mutex_lock(&cache->mutex);
    for (; rc == 0 && *cursor < cache->pod_slots; ++*cursor) {
        const struct pod_record *pod = cache->pods[*cursor];
        if (pod != NULL && pod->unknown_outcome && pod->state == BOOKING_BOOKED)
            rc = copy_waiting(mem, pod, pod->unknown_since_ns, ret);
    }
    pthread_mutex_unlock(&cache->mutex);
    return rc;
}

/* The next rejected pod at or after *cursor; its request in *ret_request. */
static int next_rejected(struct cache *cache, uint32_t *cursor, struct arena *mem,
                         struct waiting_pod *ret, struct pod_request *ret_request)
{
    int rc = 0;
    pthread_mutex_lock(&cache->mutex);
    for (; rc == 0 && *cursor < cache->pod_slots; ++*cursor) {
        const struct pod_record *pod = cache->pods[*cursor];
        if (pod == NULL || !pod->rejected || pod->request_invalid)
            continue;
        rc = copy_waiting(mem, pod, pod->woken_ns, ret);
        if (rc == 1 && cache_request_copy(&pod->request, mem, ret_request) < 0)
            rc = -ENOMEM;
    }
    pthread_mutex_unlock(&cache->mutex);
    return rc;
}

static bool fits_anywhere(struct cache *cache, const struct pod_request *request)
{
    bool fits = false;
    uint32_t slots = 1;
    for (uint32_t slot = 0; !fits && slot < slots; slot++) {
        pthread_mutex_lock(&cache->mutex);
        slots = cache->node_slots;
        struct question question;
        cache_question_locked(cache, request, NULL, &question);
        fits = slot < slots && cache_glance_locked(cache, slot, &question) == REASON_FITS;
        pthread_mutex_unlock(&cache->mutex);
    }
    return fits;
}

int cache_next_wakeable(struct cache *cache, uint32_t *cursor, struct arena *mem,
                        struct waiting_pod *ret)
{
    struct pod_request request;
    int rc;
    do
        rc = next_rejected(cache, cursor, mem, ret, &request);
    while (rc == 1 && !fits_anywhere(cache, &request));
    return rc;
}

void cache_woken(struct cache *cache, struct str uid, int64_t now_ns)
{
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *pod = cache_pod_lookup_locked(cache, uid);
    if (pod != NULL)
        pod->woken_ns = now_ns;
    pthread_mutex_unlock(&cache->mutex);
}

uint64_t cache_gains(struct cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    uint64_t gains = cache->gains;
    pthread_mutex_unlock(&cache->mutex);
    return gains;
}
