/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>

#include "base/log.h"
#include "base/metrics.h"

void janitor_init(struct janitor *janitor, int64_t unknown_grace_ns, int64_t wake_pause_ns,
                  uint32_t wake_burst)
{
    *janitor = (struct janitor){
        .unknown_grace_ns = unknown_grace_ns,
        .wake_pause_ns = wake_pause_ns,
        .wake_burst = wake_burst,
    };
}

/* ---- bindings with an unknown outcome ---- */

static void log_settled(const struct waiting_pod *pod, const char *what)
{
    log_info(2, "Unknown binding settled", LOG_STR("namespace", pod->id.ns),
             LOG_STR("pod", pod->id.name), LOG_STR("uid", pod->id.uid), LOG_TEXT("result", what));
}

/* Read the pod and let it say what became of its binding. */
static void settle(const struct janitor *janitor, struct sched *sched,
                   const struct waiting_pod *waiting, struct arena *mem)
{
    struct pod pod;
    struct error err = {0};
    int64_t asked_ns = clock_now_ns(&sched->clock);
    int rc = sched->port.get_pod(sched->port.self, &waiting->id, mem, &pod, &err);
    if (rc == -ENOENT || (rc == 0 && !str_eq(pod.id.uid, waiting->id.uid))) {
        sched_pod_gone(sched, waiting->id.uid);
        log_settled(waiting, "the pod is gone");
    } else if (rc < 0) {
        log_warning("Pod not readable, its booking stays", LOG_STR("namespace", waiting->id.ns),
                    LOG_STR("pod", waiting->id.name), LOG_TEXT("err", err.text));
    } else if (pod.node_name.len > 0) {
        (void)sched_pod_settled(sched, &pod);
        log_settled(waiting, "the pod is bound");
    } else if (asked_ns - waiting->since_ns >= janitor->unknown_grace_ns) {
        /* Read after the last moment at which it could have been committed: it never was. */
        cache_forget(sched->cache, waiting->id.uid);
        log_settled(waiting, "the binding did not happen");
    }
}

static void settle_unknown(const struct janitor *janitor, struct sched *sched)
{
    uint32_t cursor = 0;
    int rc;
    do {
        struct arena mem;
        struct waiting_pod waiting;
        arena_init(&mem, 0);
        rc = cache_next_unknown(sched->cache, &cursor, &mem, &waiting);
        if (rc == 1)
            settle(janitor, sched, &waiting, &mem);
        arena_done(&mem);
    } while (rc == 1);
}

/* ---- rejected pods that would fit ---- */

static bool wake(const struct janitor *janitor, struct sched *sched,
                 const struct waiting_pod *waiting)
{
    struct error err = {0};
    int64_t now_ns = clock_now_ns(&sched->clock);
    if (waiting->since_ns != INT64_MIN && now_ns - waiting->since_ns < janitor->wake_pause_ns)
        return false;
    int rc = sched->port.wake_pod(sched->port.self, &waiting->id, &err);
    cache_woken(sched->cache, waiting->id.uid, now_ns);
    if (rc < 0) {
        log_warning("Pod not woken", LOG_STR("namespace", waiting->id.ns),
                    LOG_STR("pod", waiting->id.name), LOG_TEXT("err", err.text));
        return true;
    }
    metrics_add(METRIC_WAKES, 0, 1);
    log_info(2, "Pod woken: it would fit now", LOG_STR("namespace", waiting->id.ns),
             LOG_STR("pod", waiting->id.name), LOG_STR("uid", waiting->id.uid));
    return true;
}

static void wake_rejected(struct janitor *janitor, struct sched *sched)
{
    uint64_t gains = cache_gains(sched->cache);
    if (gains == janitor->gains_seen && !janitor->wake_again)
        return;
    janitor->gains_seen = gains;
    uint32_t cursor = 0, found = 0, wakes = 0;
    int rc = 1;
    while (rc == 1 && wakes < janitor->wake_burst) {
        struct arena mem;
        struct waiting_pod waiting;
        arena_init(&mem, 0);
        rc = cache_next_wakeable(sched->cache, &cursor, &mem, &waiting);
        found += rc == 1;
        wakes += rc == 1 && wake(janitor, sched, &waiting);
        arena_done(&mem);
    }
    /* Who would fit is looked at again until kube-scheduler has come for him. */
    janitor->wake_again = found > 0 || rc < 0;
}

void janitor_round(struct janitor *janitor, struct sched *sched)
{
    uint32_t expired = cache_expire(sched->cache, clock_now_ns(&sched->clock));
    metrics_add(METRIC_TENTATIVE_EXPIRED, 0, expired);
    if (!atomic_load(&sched->synced) || !atomic_load(&sched->leading))
        return;
    settle_unknown(janitor, sched);
    if (janitor->wake_burst > 0 && sched->port.wake_pod != NULL)
        wake_rejected(janitor, sched);
}
