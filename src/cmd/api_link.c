/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/api_link.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/random.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "config/kubeconfig.h"
#include "kube/binder.h"
#include "kube/client.h"
#include "kube/incluster.h"
#include "kube/leader.h"
#include "kube/reflector.h"
#include "kube/rights.h"

#define BACKOFF_MIN_MS 800
#define BACKOFF_MAX_MS 30000
#define SMALL_CALL_TIMEOUT_MS 5000
#define LEADER_RETRY_MS 1000
#define LABEL_LOOK_MS 10000
#define ROUND_S 1
#define RIGHTS_ROUNDS 30 /* rights that were missing, or could not be asked for, are asked for again */
#define NS_TO_MS INT64_C(1000000)

struct api_link {
    const struct config *config;
    struct sched *sched;
    struct arena mem; /* credentials and names */
    struct api_access access;
    const char *ns;       /* our own namespace */
    const char *identity; /* in the Lease */
    struct own_pod own;
    struct fence fence;
    struct binder *binder;
    struct reflectors *reflectors;
    struct leader *leader;

    pthread_t housekeeper;
    bool housekeeping;
    pthread_mutex_t mutex; /* what follows */
    pthread_cond_t wake;
    bool stopping;
    bool rights_known;
    struct strbuf missing_rights;
};

/* ---- who we are ---- */

static const char *copy_text(struct arena *mem, const char *text)
{
    return arena_str(mem, str_from(text)).data;
}

static const char *environment(struct api_link *link, const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? copy_text(&link->mem, value) : NULL;
}

/* The Pod's name and UID, or the host's name and something random: no two processes share it, and a restarted
 * container is its own successor only if its Pod is the same. */
static const char *make_identity(struct api_link *link)
{
    char text[512], host[256] = "localhost";
    uint64_t random = 0;
    const char *uid = environment(link, "POD_UID");
    gethostname(host, sizeof host - 1);
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint64_t)getpid();
    if (link->own.name != NULL && uid != NULL)
        snprintf(text, sizeof text, "%s_%s_%08llx", link->own.name, uid,
                 (unsigned long long)(random & 0xffffffffu));
    else
        snprintf(text, sizeof text, "%s_%016llx", host, (unsigned long long)random);
    return copy_text(&link->mem, text);
}

static int read_access(struct api_link *link, struct error *err)
{
    const struct config *config = link->config;
    const char *context =
        config->kubernetes.context[0] != '\0' ? config->kubernetes.context : NULL;
    int rc = config->kubernetes.kubeconfig[0] != '\0'
                 ? kubeconfig_load(config->kubernetes.kubeconfig, context, &link->mem,
                                   &link->access, err)
                 : incluster_access(NULL, &link->mem, &link->access, err);
    if (rc < 0)
        return rc;
    const char *pod_ns = environment(link, "POD_NAMESPACE");
    const char *wanted = config->leader_election.ns;
    link->ns = wanted[0] != '\0' ? wanted : pod_ns != NULL ? pod_ns : link->access.ns;
    if (link->ns == NULL)
        link->ns = "default";
    link->own = (struct own_pod){.ns = pod_ns, .name = environment(link, "POD_NAME")};
    if (link->own.ns == NULL)
        link->own.name = NULL;
    link->identity = make_identity(link);
    return link->identity != NULL ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* ---- made and freed ---- */

int api_link_new(const struct config *config, struct api_link **ret, struct error *err)
{
    struct api_link *link = mem_calloc(1, sizeof *link);
    if (link == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    link->config = config;
    arena_init(&link->mem, 0);
    pthread_mutex_init(&link->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&link->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    fence_init(&link->fence, clock_system(), config->bind.timeout_ms, config->bind.delivery_ms);
    kube_global_init();
    int rc = read_access(link, err);
    struct binder_options options = {
        .access = &link->access,
        .clients = (uint32_t)config->bind.clients,
        .bind_timeout_ms = config->bind.timeout_ms,
        .delivery_timeout_ms = config->bind.delivery_ms,
        .fence = &link->fence,
    };
    if (rc == 0)
        rc = binder_new(&options, &link->binder, err);
    if (rc < 0) {
        api_link_free(link);
        return rc;
    }
    *ret = link;
    return 0;
}

struct port api_link_port(struct api_link *link)
{
    return binder_port(link->binder);
}

void api_link_free(struct api_link *link)
{
    if (link == NULL)
        return;
    binder_free(link->binder);
    fence_done(&link->fence);
    strbuf_done(&link->missing_rights);
    pthread_cond_destroy(&link->wake);
    pthread_mutex_destroy(&link->mutex);
    arena_done(&link->mem);
    mem_free(link);
}

/* ---- housekeeping ---- */

/* Returns false when it is time to stop. */
static bool wait_a_round(struct api_link *link)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ROUND_S;
    pthread_mutex_lock(&link->mutex);
    int rc = 0;
    while (!link->stopping && rc == 0)
        rc = pthread_cond_timedwait(&link->wake, &link->mutex, &until);
    bool go_on = !link->stopping;
    pthread_mutex_unlock(&link->mutex);
    return go_on;
}

static void keep_rights(struct api_link *link, struct strbuf *missing)
{
    pthread_mutex_lock(&link->mutex);
    strbuf_done(&link->missing_rights);
    link->missing_rights = *missing;
    link->rights_known = true;
    pthread_mutex_unlock(&link->mutex);
}

/* Ask the API server what we may do. Until it has answered, nothing is known to be missing: a server that does
 * not answer shows in the reflectors. Returns true when there is nothing left to ask. */
static bool check_rights(struct api_link *link)
{
    struct error err = {0};
    struct strbuf missing = {0};
    struct kube_client *client = kube_client_open(&link->access, SMALL_CALL_TIMEOUT_MS, &err);
    struct rights_wanted wanted = {
        .ns = link->ns,
        .wake = link->config->wake.enabled,
        .namespaces = link->config->policy.namespace_labels,
        .elect = link->config->leader_election.enabled,
        .label_own_pod = link->own.name != NULL,
    };
    int rc = client != NULL ? rights_check(client, &wanted, &missing, &err) : -EIO;
    kube_client_free(client);
    if (rc < 0) {
        log_warning("Rights not checked", LOG_TEXT("err", err.text));
        strbuf_done(&missing);
        return false;
    }
    bool complete = missing.len == 0;
    if (complete)
        log_info(2, "Rights complete", LOG_TEXT("namespace", link->ns));
    else
        log_error("Rights are missing", LOG_STR("missing", ((struct str){missing.data, missing.len})));
    keep_rights(link, &missing);
    return complete;
}

static void *keep_house(void *arg)
{
    struct api_link *link = arg;
    const struct config *config = link->config;
    struct janitor janitor;
    int64_t grace_ms = config->bind.timeout_ms + config->bind.delivery_ms;
    uint32_t burst = config->wake.enabled ? (uint32_t)config->wake.burst : 0;
    janitor_init(&janitor, grace_ms * NS_TO_MS, config->wake.pause_ms * NS_TO_MS, burst);
    bool rights_done = check_rights(link);
    for (unsigned round = 1; wait_a_round(link); round++) {
        janitor_round(&janitor, link->sched);
        if (!rights_done && round % RIGHTS_ROUNDS == 0)
            rights_done = check_rights(link);
    }
    return NULL;
}

/* ---- start and stop ---- */

static int consistent_pods(void *self, int64_t timeout_ms, struct error *err)
{
    struct api_link *link = self;
    return reflectors_consistent_pods(link->reflectors, timeout_ms, err);
}

static void cancel_consistent_pods(void *self)
{
    struct api_link *link = self;
    reflectors_cancel_wait(link->reflectors);
}

static int follow(struct api_link *link, struct error *err)
{
    const struct config *config = link->config;
    struct reflector_options options = {
        .access = &link->access,
        .page_size = config->reflector.page_size,
        .watch_timeout_ms = config->reflector.watch_timeout_ms,
        .idle_timeout_ms = config->reflector.idle_timeout_ms,
        .backoff_min_ms = BACKOFF_MIN_MS,
        .backoff_max_ms = BACKOFF_MAX_MS,
        .namespaces = config->policy.namespace_labels,
    };
    return reflectors_start(&options, link->sched, &link->reflectors, err);
}

static int stand_for_election(struct api_link *link, struct error *err)
{
    const struct config *config = link->config;
    struct lease_options lease = {
        .access = &link->access,
        .ns = link->ns,
        .name = config->leader_election.name,
        .identity = link->identity,
        .duration_ms = config->leader_election.lease_duration_ms,
        .renew_deadline_ms = config->leader_election.renew_deadline_ms,
        .retry_period_ms = config->leader_election.retry_period_ms,
    };
    struct leader_options options = {
        .access = &link->access,
        .fence = &link->fence,
        .sched = link->sched,
        .lease = config->leader_election.enabled ? &lease : NULL,
        .own = link->own,
        .call_timeout_ms = SMALL_CALL_TIMEOUT_MS,
        .retry_ms = LEADER_RETRY_MS,
        .label_look_ms = LABEL_LOOK_MS,
        .consistent_pods = consistent_pods,
        .cancel = cancel_consistent_pods,
        .self = link,
    };
    return leader_start(&options, &link->leader, err);
}

int api_link_start(struct api_link *link, struct sched *sched, struct error *err)
{
    link->sched = sched;
    sched_set_leading(sched, false);
    log_info(0, "API server", LOG_TEXT("server", link->access.server),
             LOG_TEXT("namespace", link->ns), LOG_TEXT("identity", link->identity));
    int rc = follow(link, err);
    if (rc == 0)
        rc = stand_for_election(link, err);
    if (rc < 0)
        return rc;
    rc = pthread_create(&link->housekeeper, NULL, keep_house, link);
    if (rc != 0)
        return error_set(err, -rc, "cannot start a thread: %s", strerror(rc));
    link->housekeeping = true;
    return 0;
}

/* Is no binding's outcome unknown? None is under way: the server has drained. */
static bool nothing_unknown(struct api_link *link)
{
    struct arena mem;
    struct waiting_pod pod;
    uint32_t cursor = 0;
    arena_init(&mem, 0);
    int rc = cache_next_unknown(link->sched->cache, &cursor, &mem, &pod);
    arena_done(&mem);
    return rc == 0;
}

void api_link_stop(struct api_link *link)
{
    if (link == NULL || link->sched == NULL)
        return;
    pthread_mutex_lock(&link->mutex);
    link->stopping = true;
    pthread_cond_broadcast(&link->wake);
    pthread_mutex_unlock(&link->mutex);
    if (link->housekeeping)
        pthread_join(link->housekeeper, NULL);
    link->housekeeping = false;
    bool clean = nothing_unknown(link);
    leader_stop(link->leader, clean);
    link->leader = NULL;
    reflectors_stop(link->reflectors);
    link->reflectors = NULL;
}

/* ---- how it stands ---- */

static bool rights_complete(struct api_link *link, char *out, size_t size)
{
    pthread_mutex_lock(&link->mutex);
    bool complete = !link->rights_known || link->missing_rights.len == 0;
    if (!complete)
        snprintf(out, size, "rights are missing: %s", link->missing_rights.data);
    pthread_mutex_unlock(&link->mutex);
    return complete;
}

bool api_link_synced(struct api_link *link, char *out, size_t size)
{
    struct reflector_status status[REFLECTOR_COUNT];
    size_t len = 0;
    if (!rights_complete(link, out, size))
        return false;
    out[0] = '\0';
    unsigned count = reflectors_status(link->reflectors, status);
    for (unsigned i = 0; i < count; i++) {
        if (status[i].synced || len >= size)
            continue;
        bool told = status[i].trouble[0] != '\0';
        int written = snprintf(out + len, size - len, "%s%s: %s", len > 0 ? "; " : "",
                               status[i].name, told ? status[i].trouble : "not listed yet");
        len += written > 0 ? (size_t)written : 0;
    }
    return len == 0;
}

void api_link_leader(struct api_link *link, char *out, size_t size)
{
    leader_status(link->leader, out, size);
}
