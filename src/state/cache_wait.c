/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>

#define SLICE 512u /* pods looked at while the lock is held once */

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
    cache_unlock(cache);
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

/* Where a pod that was looked for goes. */
struct found {
    struct arena *mem;
    struct waiting_pod *pod;
    struct pod_request *request; /* of a rejected one */
};

/* Look at the pods from *cursor on, a slice of them in one hold of the lock, until `take` returns
 * something else than 0 for one. */
static int walk_pods(struct cache *cache, uint32_t *cursor,
                     int (*take)(const struct pod_record *pod, const struct found *to),
                     const struct found *to)
{
    int rc = 0;
    bool more = true;
    while (rc == 0 && more) {
        pthread_mutex_lock(&cache->mutex);
        for (uint32_t i = 0; rc == 0 && i < SLICE && *cursor < cache->pods.count; i++, ++*cursor)
            if (pod_slots_at(&cache->pods, *cursor) != NULL)
                rc = take(pod_slots_at(&cache->pods, *cursor), to);
        more = *cursor < cache->pods.count;
        cache_unlock(cache);
    }
    return rc;
}

static int take_unknown(const struct pod_record *pod, const struct found *to)
{
    if (!pod->unknown_outcome || pod->state != BOOKING_BOOKED)
        return 0;
    return copy_waiting(to->mem, pod, pod->unknown_since_ns, to->pod);
}

int cache_next_unknown(struct cache *cache, uint32_t *cursor, struct arena *mem,
                       struct waiting_pod *ret)
{
    return walk_pods(cache, cursor, take_unknown, &(struct found){.mem = mem, .pod = ret});
}

static int take_rejected(const struct pod_record *pod, const struct found *to)
{
    if (!pod->rejected || pod->request_invalid)
        return 0;
    int rc = copy_waiting(to->mem, pod, pod->woken_ns, to->pod);
    if (rc == 1 && cache_request_copy(&pod->request, to->mem, to->request) < 0)
        rc = -ENOMEM;
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
        cache_unlock(cache);
    }
    return fits;
}

int cache_next_wakeable(struct cache *cache, uint32_t *cursor, struct arena *mem,
                        struct waiting_pod *ret)
{
    struct pod_request request;
    struct found found = {.mem = mem, .pod = ret, .request = &request};
    int rc;
    do
        rc = walk_pods(cache, cursor, take_rejected, &found);
    while (rc == 1 && !fits_anywhere(cache, &request));
    return rc;
}

void cache_woken(struct cache *cache, struct str uid, int64_t now_ns)
{
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *pod = cache_pod_lookup_locked(cache, uid);
    if (pod != NULL)
        pod->woken_ns = now_ns;
    cache_unlock(cache);
}

uint64_t cache_gains(struct cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    uint64_t gains = cache->gains;
    cache_unlock(cache);
    return gains;
}
