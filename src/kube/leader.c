/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/leader.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/client.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define CONSISTENT_READ_MS 120000
#define TROUBLE_TEXT_MAX   200

enum step { STEP_LABELS, STEP_WAIT, STEP_READ, STEP_DONE };

struct leader {
    struct leader_options options;
    struct lease *lease;        /* NULL without election */
    struct kube_client *client; /* NULL when there is no label */
    pthread_t thread;

    pthread_mutex_t mutex; /* of what follows; never held over I/O */
    pthread_cond_t changed;
    bool stopping;
    uint64_t term; /* changes whenever one begins or ends */
    bool leads, clean;
    int64_t began_ns;
    enum step step;
    bool labelled; /* our Pod may have the label */
    char trouble[TROUBLE_TEXT_MAX];
};

static int64_t now_ns(const struct leader *leader)
{
    return clock_now_ns(&leader->options.fence->clock);
}

/* ---- terms ---- */

/* Whether the thread may be reading for the term before. */
static bool change_term(struct leader *leader, bool leads, bool clean)
{
    pthread_mutex_lock(&leader->mutex);
    bool reads = leader->leads && leader->step == STEP_READ;
    /* Once more, now that the thread cannot open it any more for the term that ended. */
    if (!leads)
        fence_lost(leader->options.fence);
    leader->term++;
    leader->leads = leads;
    leader->clean = clean;
    leader->began_ns = now_ns(leader);
    leader->step = STEP_LABELS;
    leader->trouble[0] = '\0';
    sched_set_leading(leader->options.sched, leads);
    pthread_cond_broadcast(&leader->changed);
    pthread_mutex_unlock(&leader->mutex);
    return reads;
}

static void began(void *self, bool clean)
{
    change_term(self, true, clean);
}

static void ended(void *self)
{
    struct leader *leader = self;
    if (change_term(leader, false, false))
        leader->options.cancel(leader->options.self);
}

/* ---- waiting, with the mutex held ---- */

static bool is_over_locked(const struct leader *leader, uint64_t term)
{
    return leader->stopping || leader->term != term;
}

/* Until the time comes or the term is over. The clock may be a test's: it is looked at again now
 * and then. */
static void wait_locked(struct leader *leader, uint64_t term, int64_t until_ns)
{
    for (;;) {
        int64_t left_ns = until_ns - now_ns(leader);
        if (left_ns <= 0 || is_over_locked(leader, term))
            return;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ns = until.tv_nsec + left_ns % 1000000000;
        until.tv_sec += (time_t)(left_ns / 1000000000 + ns / 1000000000);
        until.tv_nsec = (long)(ns % 1000000000);
        pthread_cond_timedwait(&leader->changed, &leader->mutex, &until);
    }
}

static void pause_locked(struct leader *leader, uint64_t term)
{
    wait_locked(leader, term, now_ns(leader) + leader->options.retry_ms * 1000000);
}

/* ---- steps: the mutex is not held ---- */

/* A label that cannot be set is not worth a cluster without scheduler. */
static int unless_hopeless(struct leader *leader, int rc, const struct error *err)
{
    if (rc != -EPERM && rc != -ENOENT)
        return rc;
    log_warning("Label of the leading Pod cannot be kept, the Service may lead elsewhere",
                LOG_TEXT("namespace", leader->options.own.ns),
                LOG_TEXT("pod", leader->options.own.name), LOG_TEXT("err", err->text));
    return 0;
}

static int set_labels(struct leader *leader, bool leads, struct error *err)
{
    const struct own_pod *own = &leader->options.own;
    if (leader->client == NULL)
        return 0;
    int rc =
        leads ? unless_hopeless(leader, own_pod_clear_others(leader->client, own, err), err) : 0;
    if (rc == 0)
        rc = unless_hopeless(leader, own_pod_set_leader(leader->client, own, leads, err), err);
    return rc;
}

static int perform(struct leader *leader, enum step step, struct error *err)
{
    switch (step) {
    case STEP_LABELS:
        return set_labels(leader, true, err);
    case STEP_READ:
        return leader->options.consistent_pods(leader->options.self, CONSISTENT_READ_MS, err);
    case STEP_WAIT:
    case STEP_DONE:
        break;
    }
    return 0;
}

/* ---- the thread ---- */

static void note_failure_locked(struct leader *leader, uint64_t term, const struct error *err)
{
    if (is_over_locked(leader, term))
        return;
    if (leader->trouble[0] == '\0')
        log_warning("First binding has to wait", LOG_TEXT("err", err->text));
    snprintf(leader->trouble, sizeof leader->trouble, "%.*s", TROUBLE_TEXT_MAX - 1, err->text);
    pause_locked(leader, term);
}

static void open_locked(struct leader *leader)
{
    fence_open(leader->options.fence);
    log_info(0, "Bindings may go out",
             LOG_INT("afterMs", (now_ns(leader) - leader->began_ns) / 1000000),
             LOG_TEXT("predecessor", leader->clean ? "stopped cleanly" : "waited for"));
}

/* One step of the term that runs. */
static void advance_locked(struct leader *leader)
{
    const struct fence *fence = leader->options.fence;
    uint64_t term = leader->term;
    struct error err = {0};
    int rc = 0;
    if (leader->step == STEP_WAIT && !leader->clean) {
        wait_locked(leader, term, leader->began_ns + fence->bind_ns + fence->delivery_ns);
    } else if (leader->step != STEP_WAIT) {
        leader->labelled |= leader->step == STEP_LABELS;
        enum step step = leader->step;
        pthread_mutex_unlock(&leader->mutex);
        rc = perform(leader, step, &err);
        pthread_mutex_lock(&leader->mutex);
    }
    if (rc < 0) {
        note_failure_locked(leader, term, &err);
    } else if (!is_over_locked(leader, term)) {
        leader->trouble[0] = '\0';
        leader->step++;
        if (leader->step == STEP_DONE)
            open_locked(leader);
    }
}

static void take_label_off_locked(struct leader *leader)
{
    uint64_t term = leader->term;
    struct error err = {0};
    pthread_mutex_unlock(&leader->mutex);
    int rc = set_labels(leader, false, &err);
    pthread_mutex_lock(&leader->mutex);
    if (rc == 0)
        leader->labelled = false;
    else
        pause_locked(leader, term);
}

/* Only while the Lease is surely ours: a process that slept past it, and has not noticed, would take
 * the label from its successor. */
static int mend_label(struct leader *leader, struct error *err)
{
    bool alone = false;
    int rc = own_pod_leads_alone(leader->client, &leader->options.own, &alone, err);
    if (rc < 0 || alone || !fence_may_send(leader->options.fence))
        return rc;
    log_warning("Label of the leading Pod was moved, it is set again",
                LOG_TEXT("namespace", leader->options.own.ns),
                LOG_TEXT("pod", leader->options.own.name));
    return set_labels(leader, true, err);
}

/* Look again after a while. What fails is tried again the next time; that the API server is away, or
 * that a right is, is told elsewhere. */
static void keep_label_locked(struct leader *leader)
{
    uint64_t term = leader->term;
    struct error err = {0};
    wait_locked(leader, term, now_ns(leader) + leader->options.label_look_ms * 1000000);
    if (is_over_locked(leader, term))
        return;
    pthread_mutex_unlock(&leader->mutex);
    if (mend_label(leader, &err) < 0)
        log_info(2, "Label of the leading Pod not looked at", LOG_TEXT("err", err.text));
    pthread_mutex_lock(&leader->mutex);
}

static void *run(void *self)
{
    struct leader *leader = self;
    pthread_mutex_lock(&leader->mutex);
    while (!leader->stopping) {
        if (leader->leads && leader->step != STEP_DONE)
            advance_locked(leader);
        else if (!leader->leads && leader->labelled)
            take_label_off_locked(leader);
        else if (leader->leads && leader->client != NULL)
            keep_label_locked(leader);
        else
            pthread_cond_wait(&leader->changed, &leader->mutex);
    }
    pthread_mutex_unlock(&leader->mutex);
    return NULL;
}

/* ---- life ---- */

static void leader_free(struct leader *leader)
{
    kube_client_free(leader->client);
    pthread_cond_destroy(&leader->changed);
    pthread_mutex_destroy(&leader->mutex);
    mem_free(leader);
}

static void stop_thread(struct leader *leader)
{
    pthread_mutex_lock(&leader->mutex);
    leader->stopping = true;
    pthread_cond_broadcast(&leader->changed);
    pthread_mutex_unlock(&leader->mutex);
    if (leader->client != NULL)
        kube_client_interrupt(leader->client);
    leader->options.cancel(leader->options.self);
    pthread_join(leader->thread, NULL);
}

static int open_client(struct leader *leader, struct error *err)
{
    struct error why = {.code = -ENOMEM, .text = "out of memory"};
    if (leader->options.own.name == NULL)
        return 0;
    leader->client =
        kube_client_open(leader->options.access, leader->options.call_timeout_ms, &why);
    return leader->client != NULL ? 0 : error_set(err, why.code, "%s", why.text);
}

static int stand_for_election(struct leader *leader, struct error *err)
{
    struct lease_options options = *leader->options.lease;
    options.fence = leader->options.fence;
    options.began = began;
    options.ended = ended;
    options.self = leader;
    return lease_start(&options, &leader->lease, err);
}

int leader_start(const struct leader_options *options, struct leader **ret, struct error *err)
{
    struct leader *leader = mem_calloc(1, sizeof *leader);
    if (leader == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    leader->options = *options;
    leader->labelled = options->own.name != NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&leader->mutex, NULL);
    pthread_cond_init(&leader->changed, &attributes);
    pthread_condattr_destroy(&attributes);

    sched_set_leading(options->sched, false);
    if (options->lease == NULL) {
        fence_no_election(options->fence);
        began(leader, false);
    }
    int rc = open_client(leader, err);
    if (rc == 0 && (rc = -pthread_create(&leader->thread, NULL, run, leader)) < 0)
        error_set(err, rc, "no thread for the leader: %s", strerror(-rc));
    if (rc < 0) {
        leader_free(leader);
        return rc;
    }
    if (options->lease != NULL && (rc = stand_for_election(leader, err)) < 0) {
        stop_thread(leader);
        leader_free(leader);
        return rc;
    }
    *ret = leader;
    return 0;
}

bool leader_status(struct leader *leader, char *out, size_t size)
{
    static const char *const waits[] = {
        [STEP_LABELS] = "before its first binding it moves the label to its Pod",
        [STEP_WAIT] = "before its first binding it waits for those of its predecessor",
        [STEP_READ] = "before its first binding it reads all pods",
    };
    pthread_mutex_lock(&leader->mutex);
    bool leads = leader->leads;
    enum step step = leader->step;
    char trouble[TROUBLE_TEXT_MAX];
    memcpy(trouble, leader->trouble, sizeof trouble);
    pthread_mutex_unlock(&leader->mutex);

    if (leads && step != STEP_DONE) {
        snprintf(out, size, "leads; %s%s%s", waits[step], trouble[0] != '\0' ? ": " : "", trouble);
        return false;
    }
    if (leads) {
        const char *reason = fence_reason(leader->options.fence);
        snprintf(out, size, "leads%s%s", reason != NULL ? "; no binding now: " : "",
                 reason != NULL ? reason : "");
        return reason == NULL;
    }
    char holder[256] = "";
    if (leader->lease != NULL)
        lease_holder(leader->lease, holder, sizeof holder);
    if (holder[0] != '\0')
        snprintf(out, size, "stands by; the Lease names %s", holder);
    else
        snprintf(out, size, "stands by; nobody is known to lead");
    return false;
}

/* Can no binding of those before us arrive any more? Our mark speaks for them, too. */
static bool nothing_awaited(struct leader *leader)
{
    pthread_mutex_lock(&leader->mutex);
    bool nothing = leader->clean || leader->step > STEP_WAIT;
    pthread_mutex_unlock(&leader->mutex);
    return nothing;
}

void leader_stop(struct leader *leader, bool clean)
{
    if (leader == NULL)
        return;
    stop_thread(leader);
    if (leader->lease != NULL)
        lease_stop(leader->lease, clean && nothing_awaited(leader));
    else
        ended(leader);
    leader_free(leader);
}
