/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HANDLERS_H
#define HTTP_HANDLERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "codec/extender.h"
#include "http/server.h"
#include "http/tls.h"
#include "sched/sched.h"

/*
 * The routes of the daemon: decode, call one use case, encode. One short function a route.
 *
 *   POST PREFIX/filter PREFIX/prioritize PREFIX/preempt PREFIX/bind
 *   GET  /debug/cache (who may: http/debug.h)
 *   GET  /livez /readyz /healthz (?verbose)   /metrics
 */
enum http_per_card { HTTP_PER_CARD_AUTO, HTTP_PER_CARD_ON, HTTP_PER_CARD_OFF };

struct http_app {
    struct sched *sched;
    struct codec_limits limits;
    struct tls *tls;      /* readyz fails while its files are bad; NULL = plain HTTP */
    /* With a real cluster: are its lists complete and no right missing? If not, `out` says what is
     * waited for. NULL = sched's own word is enough. */
    bool (*cluster_ready)(void *self, char *out, size_t size);
    /* Who leads and what the first binding waits for: a line of readyz that decides nothing, since a
     * replica that stands by is ready. NULL = there is nothing to say. */
    void (*cluster_leader)(void *self, char *out, size_t size);
    void *cluster;
    atomic_bool draining; /* readyz fails */
    atomic_bool debug_remote;
    atomic_int per_card;                 /* enum http_per_card: gauges per card in /metrics */
    _Atomic uint32_t per_card_max_nodes; /* auto: off above this many device nodes */
};

#define HTTP_APP_ROUTES_MAX 16

/* Fill `routes` (room for HTTP_APP_ROUTES_MAX) with the daemon's rows for the verbs below `prefix`
 * ("" or "/v1") and /debug; the path strings live in `paths`. Returns their number. */
struct http_app_paths {
    char verb[4][1088]; /* the longest prefix of the configuration and a verb */
};
uint32_t http_app_routes(struct http_app *app, const char *prefix, struct http_app_paths *paths,
                         struct http_route *routes);

/* The rows for probes and metrics, to go to the same server or another. Returns their number. */
uint32_t http_app_health_routes(struct http_app *app, struct http_route *routes);

#endif
