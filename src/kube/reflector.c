/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/reflector_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/requests.h"

/* A client's own timeout is not used here: each call has its own. */
#define CALL_TIMEOUT_MS 60000
/* A Device definition that is installed after us is found within this. */
#define INSTALL_PAUSE_MS   3000
#define RETRY_AFTER_MS_MAX 120000
#define SAID_MAX           512

static int64_t now_ns(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock);
}

int64_t reflector_now_ms(void)
{
    return now_ns() / 1000000;
}

/* ---- telling ---- */

/* True the first time that this is said. */
static bool is_new(struct reflector *reflector, const char *text)
{
    struct map *said = &reflector->said;
    if (map_get(said, str_from(text)) != MAP_NONE)
        return false;
    if (said->count >= SAID_MAX) {
        map_done(said);
        arena_done(&reflector->said_mem);
    }
    struct str kept = arena_str(&reflector->said_mem, str_from(text));
    if (kept.data != NULL) /* else it may be said again */
        (void)map_put(said, kept, 0);
    return true;
}

static void complain(struct reflector *reflector, const struct error *complaint)
{
    metrics_add(METRIC_BAD_OBJECTS, reflector->listed->metric, 1);
    if (is_new(reflector, complaint->text))
        log_warning("Object cannot be read", LOG_TEXT("resource", reflector->listed->resource),
                    LOG_TEXT("err", complaint->text));
}

int reflector_tell(struct reflector *reflector, struct str json, bool gone)
{
    const struct listed *listed = reflector->listed;
    struct arena mem;
    struct error complaint = {0};
    arena_init(&mem, 0);
    int rc = (gone ? listed->gone : listed->changed)(reflector->all->sched, json, &mem, &complaint);
    arena_done(&mem);
    if (rc == 0 && complaint.code != 0)
        complain(reflector, &complaint);
    return rc;
}

void reflector_heard(struct reflector *reflector)
{
    pthread_mutex_lock(&reflector->all->mutex);
    reflector->status.last_event_ns = now_ns();
    if (reflector->status.synced)
        reflector->status.trouble[0] = '\0';
    pthread_mutex_unlock(&reflector->all->mutex);
}

/* ---- failures ---- */

void reflector_trouble(struct reflector *reflector, const char *format, ...)
{
    struct reflector_status *status = &reflector->status;
    char text[sizeof status->trouble];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&reflector->all->mutex);
    bool fresh = strcmp(text, status->trouble) != 0;
    memcpy(status->trouble, text, sizeof text);
    pthread_mutex_unlock(&reflector->all->mutex);
    if (fresh)
        log_warning("List or watch failed", LOG_TEXT("err", text));
}

/* The server's own words, if it has any. */
static void report_refusal(struct reflector *reflector, const char *verb,
                           const struct exchange *exchange)
{
    const char *resource = reflector->listed->resource;
    int code = exchange->response.status;
    struct arena mem;
    struct status status;
    struct error err;
    arena_init(&mem, 0);
    struct str body = {exchange->body.data, exchange->body.len};
    if (code == 404 && reflector->listed->installed_later)
        reflector_trouble(reflector, "%s is not installed", resource);
    else if (body.len == 0 || status_decode(body, &mem, &status, &err) < 0)
        reflector_trouble(reflector, "cannot %s %s: HTTP %d", verb, resource, code);
    else
        reflector_trouble(reflector, "cannot %s %s: HTTP %d: %.*s", verb, resource, code,
                          STR_ARG(status.message));
    arena_done(&mem);
}

static void report(struct reflector *reflector, enum step_kind kind,
                   const struct exchange *exchange)
{
    const char *verb = kind == STEP_LIST ? "list" : "watch";
    pthread_mutex_lock(&reflector->all->mutex);
    reflector->status.restarts++;
    pthread_mutex_unlock(&reflector->all->mutex);
    if (exchange->rc < 0)
        reflector_trouble(reflector, "cannot %s %s: %s", verb, reflector->listed->resource,
                          exchange->err.text);
    else
        report_refusal(reflector, verb, exchange);
}

static struct backoff *backoff_of(struct reflector *reflector, const struct exchange *exchange)
{
    return exchange->stale ? &reflector->relist : &reflector->backoff;
}

static int64_t told_pause(struct reflector *reflector, const struct exchange *exchange)
{
    int64_t least = exchange->response.retry_after_ms;
    if (least > RETRY_AFTER_MS_MAX)
        least = RETRY_AFTER_MS_MAX;
    return backoff_between(backoff_of(reflector, exchange), least, least + least / 4);
}

static int64_t choose_pause(struct reflector *reflector, const struct exchange *exchange)
{
    struct backoff *backoff = backoff_of(reflector, exchange);
    const struct kube_response *response = &exchange->response;
    if (exchange->rc < 0)
        return backoff_next_ms(backoff);
    if (response->status == 404 && reflector->listed->installed_later)
        return INSTALL_PAUSE_MS < backoff->max_ms ? INSTALL_PAUSE_MS : backoff->max_ms;
    if (response->status == 401 || response->status == 403) /* somebody must do something */
        return backoff_between(backoff, backoff->max_ms / 2, backoff->max_ms);
    return backoff_next_ms(backoff);
}

struct step reflector_failed(struct reflector *reflector, enum step_kind kind,
                             struct exchange *exchange)
{
    if (exchange->rc == -ECANCELED) /* a list is wanted, or the end */
        return (struct step){.kind = STEP_LIST};
    report(reflector, kind, exchange);
    if (exchange->rc == 0)
        exchange->stale = exchange->response.status == 410 || exchange->response.status == 404;
    bool told = exchange->rc == 0 && exchange->response.retry_after_ms > 0;
    return (struct step){
        .kind = exchange->stale ? STEP_LIST : kind,
        .pause_ms = told ? told_pause(reflector, exchange) : choose_pause(reflector, exchange),
        .told = told,
    };
}

/* ---- the thread ---- */

static struct timespec deadline_in(int64_t ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* Wait until it is time for the step. If somebody wants a list, that is the step, and time for it is
 * at once, or when the server said. False at the end. */
static bool wait_for(struct reflector *reflector, struct step *step)
{
    struct reflectors *all = reflector->all;
    struct timespec deadline = deadline_in(step->pause_ms);
    bool over = step->pause_ms <= 0;
    pthread_mutex_lock(&all->mutex);
    while (!all->stopping && (step->told || !reflector->hurry) && !over)
        over = pthread_cond_timedwait(&reflector->wake, &all->mutex, &deadline) == ETIMEDOUT;
    bool going_on = !all->stopping;
    if (reflector->hurry)
        step->kind = STEP_LIST;
    reflector->hurry = false;
    if (going_on) /* under the mutex, so that no later interruption is taken back */
        kube_client_resume(reflector->client);
    pthread_mutex_unlock(&all->mutex);
    return going_on;
}

static void *reflect(void *self)
{
    struct reflector *reflector = self;
    struct step step = {.kind = STEP_LIST};
    while (wait_for(reflector, &step))
        step = step.kind == STEP_LIST ? reflector_list(reflector) : reflector_watch(reflector);
    return NULL;
}

/* ---- life ---- */

static void init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void reflector_done(struct reflector *reflector)
{
    kube_client_free(reflector->client);
    strbuf_done(&reflector->version);
    map_done(&reflector->said);
    arena_done(&reflector->said_mem);
    pthread_cond_destroy(&reflector->wake);
}

static bool reflector_init(struct reflectors *all, struct reflector *reflector,
                           const struct listed *listed, struct error *err)
{
    *reflector = (struct reflector){.all = all, .listed = listed, .status.name = listed->name};
    init_cond(&reflector->wake);
    map_init(&reflector->said);
    arena_init(&reflector->said_mem, 0);
    backoff_init(&reflector->backoff, all->options.backoff_min_ms, all->options.backoff_max_ms);
    backoff_init(&reflector->relist, all->options.backoff_min_ms, all->options.backoff_max_ms);
    reflector->client = kube_client_open(all->options.access, CALL_TIMEOUT_MS, err);
    return reflector->client != NULL;
}

/* End the threads, of which the first `running` were started. */
static void end_threads(struct reflectors *all, unsigned running)
{
    pthread_mutex_lock(&all->mutex);
    all->stopping = true;
    for (unsigned i = 0; i < running; i++)
        pthread_cond_signal(&all->of[i].wake);
    pthread_cond_broadcast(&all->listed);
    pthread_mutex_unlock(&all->mutex);
    for (unsigned i = 0; i < running; i++)
        kube_client_interrupt(all->of[i].client);
    for (unsigned i = 0; i < running; i++)
        pthread_join(all->of[i].thread, NULL);
    pthread_mutex_lock(&all->mutex);
    while (all->waiters > 0)
        pthread_cond_wait(&all->listed, &all->mutex);
    pthread_mutex_unlock(&all->mutex);
}

static void free_all(struct reflectors *all, unsigned initialised)
{
    for (unsigned i = 0; i < initialised; i++)
        reflector_done(&all->of[i]);
    pthread_cond_destroy(&all->listed);
    pthread_mutex_destroy(&all->mutex);
    mem_free(all);
}

int reflectors_start(const struct reflector_options *options, struct sched *sched,
                     struct reflectors **ret, struct error *err)
{
    struct reflectors *all = mem_calloc(1, sizeof *all);
    if (all == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    all->options = *options;
    all->sched = sched;
    pthread_mutex_init(&all->mutex, NULL);
    init_cond(&all->listed);
    struct error why;
    while (all->count < LISTED_COUNT && (options->namespaces || !listed_table[all->count].optional))
        all->count++;
    for (unsigned i = 0; i < all->count; i++) {
        if (!reflector_init(all, &all->of[i], &listed_table[i], &why)) {
            free_all(all, i + 1);
            return error_set(err, why.code, "%s", why.text);
        }
    }
    for (unsigned i = 0; i < all->count; i++) {
        int rc = -pthread_create(&all->of[i].thread, NULL, reflect, &all->of[i]);
        if (rc < 0) {
            end_threads(all, i);
            free_all(all, all->count);
            return error_set(err, rc, "thread: %s", strerror(-rc));
        }
    }
    *ret = all;
    return 0;
}

void reflectors_stop(struct reflectors *reflectors)
{
    if (reflectors == NULL)
        return;
    end_threads(reflectors, reflectors->count);
    free_all(reflectors, reflectors->count);
}

/* ---- questions ---- */

unsigned reflectors_status(struct reflectors *reflectors,
                           struct reflector_status ret[REFLECTOR_COUNT])
{
    pthread_mutex_lock(&reflectors->mutex);
    for (unsigned i = 0; i < reflectors->count; i++)
        ret[i] = reflectors->of[i].status;
    pthread_mutex_unlock(&reflectors->mutex);
    return reflectors->count;
}

int reflectors_consistent_pods(struct reflectors *reflectors, int64_t timeout_ms, struct error *err)
{
    struct reflector *pods = &reflectors->of[CACHE_PODS];
    struct timespec deadline = deadline_in(timeout_ms);
    bool over = false;
    pthread_mutex_lock(&reflectors->mutex);
    uint64_t ticket = ++pods->lists_wanted;
    pods->hurry = true;
    pthread_cond_signal(&pods->wake);
    kube_client_interrupt(pods->client);
    reflectors->waiters++;
    while (!reflectors->stopping && !reflectors->cancelled && pods->lists_done < ticket && !over)
        over =
            pthread_cond_timedwait(&reflectors->listed, &reflectors->mutex, &deadline) == ETIMEDOUT;
    reflectors->waiters--;
    bool done = pods->lists_done >= ticket;
    bool stopping = reflectors->stopping || reflectors->cancelled;
    reflectors->cancelled = false;
    pthread_cond_broadcast(&reflectors->listed);
    pthread_mutex_unlock(&reflectors->mutex);
    if (done)
        return 0;
    return stopping ? error_set(err, -ECANCELED, "list of pods: stopping")
                    : error_set(err, -ETIMEDOUT, "list of pods: not complete after %lld ms",
                                (long long)timeout_ms);
}

void reflectors_cancel_wait(struct reflectors *reflectors)
{
    pthread_mutex_lock(&reflectors->mutex);
    reflectors->cancelled = true;
    pthread_cond_broadcast(&reflectors->listed);
    pthread_mutex_unlock(&reflectors->mutex);
}
