/* SPDX-License-Identifier: Apache-2.0 */
#include "http/handlers.h"

#include "base/log.h"
#include "base/metrics.h"
#include "http/debug.h"
#include "http/health.h"
#include "http/metrics.h"

#include <errno.h>
#include <stdio.h>

/* ---- what is common to the verbs ---- */

static const char *const verb_names[VERB_MAX] = {
    [VERB_FILTER] = "filter",
    [VERB_PRIORITIZE] = "prioritize",
    [VERB_PREEMPT] = "preempt",
    [VERB_BIND] = "bind",
};

/* One call of a verb. */
struct call {
    struct http_app *app;
    enum metric_verb verb;
    const struct http_request *request;
    struct http_reply *reply;
    int64_t start_ns;
};

static struct call call_begin(struct http_app *app, enum metric_verb verb,
                              const struct http_request *request, struct http_reply *reply)
{
    return (struct call){app, verb, request, reply, clock_now_ns(&app->sched->clock)};
}

/* Count the call; `rc` negative: it failed. */
static void call_end(const struct call *call, int rc)
{
    metrics_add(METRIC_REQUESTS, call->verb, 1);
    if (rc < 0 || call->reply->body.failed)
        metrics_add(METRIC_REQUEST_ERRORS, call->verb, 1);
    metrics_observe_ns(METRIC_REQUEST_SECONDS, call->verb,
                       clock_now_ns(&call->app->sched->clock) - call->start_ns);
}

static void log_failure(const struct call *call, const struct error *err)
{
    log_info(2, "Extender call failed", LOG_TEXT("verb", verb_names[call->verb]),
             LOG_TEXT("err", err->text));
}

/* Another replica leads, or the first lists are not complete. Such an answer closes its connection: a
 * client that keeps it alive would stay with us when the Service has moved on to the leader. */
static bool not_our_turn(const struct call *call, int rc)
{
    if (rc != -EPERM && rc != -EAGAIN)
        return false;
    call->reply->close = true;
    return true;
}

/* For the verbs whose answers have no place for an error: the caller's fault or ours. */
static void reply_failure(const struct call *call, int rc, const struct error *err)
{
    log_failure(call, err);
    call->reply->status = rc == -ENOMEM ? 500 : 400;
    extender_encode_problem(err->text, &call->reply->body);
}

/* ---- the verbs ---- */

static void handle_filter(void *self, const struct http_request *request, struct http_reply *reply)
{
    struct call call = call_begin(self, VERB_FILTER, request, reply);
    struct candidates_call question;
    struct filter_answer answer;
    struct error err = {0};
    const struct roster *roster = sched_roster_take(call.app->sched);
    int rc = extender_decode_candidates(request->body, &call.app->limits, roster, request->mem,
                                        &question, &err);
    if (rc == 0)
        rc = sched_filter(call.app->sched, &question, request->mem, &answer, &err);
    sched_roster_leave(roster);
    if (rc == 0) {
        extender_encode_filter(&question, &answer, &reply->body);
    } else {
        if (!not_our_turn(&call, rc))
            log_failure(&call, &err);
        extender_encode_filter_error(err.text, &reply->body);
    }
    call_end(&call, rc);
}

static void handle_prioritize(void *self, const struct http_request *request,
                              struct http_reply *reply)
{
    struct call call = call_begin(self, VERB_PRIORITIZE, request, reply);
    struct candidates_call question;
    struct prioritize_answer answer;
    struct error err = {0};
    const struct roster *roster = sched_roster_take(call.app->sched);
    int rc = extender_decode_candidates(request->body, &call.app->limits, roster, request->mem,
                                        &question, &err);
    if (rc == 0)
        rc = sched_prioritize(call.app->sched, &question, request->mem, &answer, &err);
    sched_roster_leave(roster);
    if (rc == 0)
        extender_encode_prioritize(&question, &answer, &reply->body);
    else if (not_our_turn(&call, rc))
        strbuf_puts(&reply->body, "[]");
    else
        reply_failure(&call, rc, &err);
    call_end(&call, rc);
}

static void handle_preempt(void *self, const struct http_request *request, struct http_reply *reply)
{
    struct call call = call_begin(self, VERB_PREEMPT, request, reply);
    struct preempt_call question;
    struct preempt_answer answer;
    struct error err = {0};
    int rc =
        extender_decode_preempt(request->body, &call.app->limits, request->mem, &question, &err);
    if (rc == 0)
        rc = sched_preempt(call.app->sched, &question, request->mem, &answer, &err);
    if (rc == 0)
        extender_encode_preempt(&question, &answer, &reply->body);
    else if (not_our_turn(&call, rc))
        strbuf_puts(&reply->body, "{\"NodeNameToMetaVictims\":{}}");
    else
        reply_failure(&call, rc, &err);
    call_end(&call, rc);
}

static void handle_bind(void *self, const struct http_request *request, struct http_reply *reply)
{
    struct call call = call_begin(self, VERB_BIND, request, reply);
    struct bind_call question;
    struct error err = {0};
    int rc = extender_decode_bind(request->body, &call.app->limits, request->mem, &question, &err);
    if (rc < 0) {
        log_failure(&call, &err);
    } else {
        rc = sched_bind(call.app->sched, &question, request->mem, &err); /* logs what comes of it */
        not_our_turn(&call, rc);
    }
    extender_encode_bind(rc < 0 ? err.text : NULL, &reply->body);
    call_end(&call, rc);
}

/* ---- the table ---- */

uint32_t http_app_routes(struct http_app *app, const char *prefix, struct http_app_paths *paths,
                         struct http_route *routes)
{
    static const http_handler verbs[VERB_MAX] = {
        [VERB_FILTER] = handle_filter,
        [VERB_PRIORITIZE] = handle_prioritize,
        [VERB_PREEMPT] = handle_preempt,
        [VERB_BIND] = handle_bind,
    };
    uint32_t count = 0;
    for (unsigned i = 0; i < VERB_MAX; i++) {
        snprintf(paths->verb[i], sizeof(paths->verb[i]), "%s/%s", prefix, verb_names[i]);
        routes[count++] = (struct http_route){.method = "POST",
                                              .path = paths->verb[i],
                                              .handle = verbs[i],
                                              .self = app,
                                              .access = HTTP_ACCESS_CLIENTS};
    }
    /* These say themselves whom they answer. */
    routes[count++] = (struct http_route){"GET", "/debug/cache", debug_cache, app, HTTP_ACCESS_ALL};
    routes[count++] =
        (struct http_route){"GET", "/debug/policy", debug_policy, app, HTTP_ACCESS_ALL};
    return count;
}

uint32_t http_app_health_routes(struct http_app *app, struct http_route *routes)
{
    static const struct {
        const char *path;
        http_handler handle;
    } rows[] = {
        {"/livez", health_live},
        {"/readyz", health_ready},
        {"/healthz", health_live},
        {"/metrics", metrics_page},
    };
    uint32_t count = sizeof(rows) / sizeof(rows[0]);
    for (uint32_t i = 0; i < count; i++)
        routes[i] =
            (struct http_route){"GET", rows[i].path, rows[i].handle, app, HTTP_ACCESS_ALL};
    return count;
}
