/* SPDX-License-Identifier: Apache-2.0 */
#include "http/health.h"

#include "http/handlers.h"
#include "http/query.h"

#define WHY_MAX 1024

/* One line of a probe. */
struct check {
    const char *name;
    const char *failure; /* unless `passes` writes its own */
    bool (*passes)(const struct http_app *app, char *why, size_t size);
    bool (*applies)(const struct http_app *app); /* NULL = always */
};

static bool answers(const struct http_app *app, char *why, size_t size)
{
    (void)app, (void)why, (void)size;
    return true;
}

static bool is_synced(const struct http_app *app, char *why, size_t size)
{
    if (app->cluster_ready != NULL && !app->cluster_ready(app->cluster, why, size))
        return false;
    return atomic_load(&app->sched->synced);
}

static bool is_staying(const struct http_app *app, char *why, size_t size)
{
    (void)why, (void)size;
    return !atomic_load(&app->draining);
}

static bool has_good_tls(const struct http_app *app, char *why, size_t size)
{
    (void)why, (void)size;
    return tls_healthy(app->tls);
}

static bool has_tls(const struct http_app *app)
{
    return app->tls != NULL;
}

static const struct check checks[] = {
    {"ping", "", answers, NULL},
    {"synced", "nodes, devices and pods are not listed yet", is_synced, NULL},
    {"tls", "the certificate has expired or its files are bad; the log says more", has_good_tls,
     has_tls},
    {"shutdown", "the process is shutting down", is_staying, NULL},
};

enum { LIVE_CHECKS = 1, READY_CHECKS = sizeof(checks) / sizeof(checks[0]) };

/* Append one line a check; false when one fails. */
static bool list_checks(const struct http_app *app, unsigned count, struct strbuf *out)
{
    bool all = true;
    for (unsigned i = 0; i < count; i++) {
        if (checks[i].applies != NULL && !checks[i].applies(app))
            continue;
        char why[WHY_MAX] = "";
        bool pass = checks[i].passes(app, why, sizeof why);
        if (pass)
            strbuf_printf(out, "[+]%s ok\n", checks[i].name);
        else
            strbuf_printf(out, "[-]%s failed: %s\n", checks[i].name,
                          why[0] != '\0' ? why : checks[i].failure);
        all = all && pass;
    }
    return all;
}

static void tell_leader(const struct http_app *app, struct strbuf *out)
{
    char line[WHY_MAX] = "";
    if (app->cluster_leader == NULL)
        return;
    app->cluster_leader(app->cluster, line, sizeof line);
    strbuf_printf(out, "[ ]leader %s\n", line);
}

static void probe(const struct http_app *app, const struct http_request *request, unsigned count,
                  struct http_reply *reply)
{
    reply->content_type = "text/plain; charset=utf-8";
    bool healthy = list_checks(app, count, &reply->body);
    if (healthy && !query_find(request->query, "verbose", NULL)) {
        strbuf_done(&reply->body);
        strbuf_puts(&reply->body, "ok");
        return;
    }
    if (count == READY_CHECKS)
        tell_leader(app, &reply->body);
    reply->status = healthy ? 200 : 503;
    struct str name = {request->path.data + 1, request->path.len - 1};
    strbuf_printf(&reply->body, "%.*s check %s\n", STR_ARG(name), healthy ? "passed" : "failed");
}

void health_live(void *self, const struct http_request *request, struct http_reply *reply)
{
    probe(self, request, LIVE_CHECKS, reply);
}

void health_ready(void *self, const struct http_request *request, struct http_reply *reply)
{
    probe(self, request, READY_CHECKS, reply);
}
