/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "http/tls.h"

/*
 * A thin adapter over libmicrohttpd: thread per connection (handlers may block), bodies collected
 * up to a cap before the handler runs, Content-Length on every answer, limits on connections and on
 * the time a request may take to arrive, drain at stop. Several may run in one process. Log lines
 * of a request bear its requestID and, if it is known, the client's name.
 */
struct http_server;

/* A complete request. Borrowed, valid during the handler. */
struct http_request {
    const char *method;
    struct str path;  /* decoded by nobody: compared byte for byte */
    struct str query; /* what follows '?', raw; empty if none */
    struct str rest;  /* for prefix routes: the path behind the route's own */
    struct str body;
    uint64_t id; /* counted through in this process, from 1 */
    bool loopback_peer;
    bool known_client; /* has shown a valid client certificate */
    struct arena *mem; /* lives until the answer is sent */
};

/* The answer to fill; starts as 200, application/json, empty. */
struct http_reply {
    unsigned status;
    const char *content_type; /* static text */
    const char *allow;        /* Allow header for 405, or NULL */
    bool close;               /* Connection: close */
    struct strbuf body;       /* owned by the server */
};

typedef void (*http_handler)(void *self, const struct http_request *request,
                             struct http_reply *reply);

/* Who is answered. */
enum http_access {
    HTTP_ACCESS_CLIENTS, /* those with a valid certificate, where clients are asked for one */
    HTTP_ACCESS_ALL,
};

/* One row of the route table. */
struct http_route {
    const char *method; /* "GET" routes answer HEAD too */
    const char *path;   /* exact, or a prefix when it ends in "/" + "*" */
    http_handler handle;
    void *self;
    enum http_access access;
};

struct http_options {
    const char *address; /* numeric IPv4 or IPv6 */
    uint16_t port;       /* 0 = any */
    struct tls *tls;     /* borrowed until stop; NULL = plain HTTP */
    uint64_t max_body_bytes;
    uint64_t max_bodies_bytes; /* of all requests together */
    uint32_t max_connections, max_connections_per_client;
    uint32_t idle_timeout_ms, request_timeout_ms;
    const struct http_route *routes; /* borrowed until stop */
    uint32_t route_count;
};

/* Listen and serve. Unknown paths get 404, known paths with another method 405 with Allow, callers
 * that lack a client certificate 403 before their body is read, bodies past the cap 413, requests
 * that take too long to arrive 408 and a closed connection; each with a JSON body. */
int http_server_start(const struct http_options *options, struct http_server **ret,
                      struct error *err);

/* The port it listens on. */
uint16_t http_server_port(const struct http_server *server);

/* Stop: accept no more, answer what is being handled (with Connection: close), wait for it at most
 * `drain_ms`, close idle connections, free. Returns the number of requests that were still running
 * when the time was up (0 = clean); if a handler is among them the server is not freed, because the
 * handler still uses it, and the process had better exit. NULL is fine. */
unsigned http_server_stop(struct http_server *server, int64_t drain_ms);

/* Answer with a problem: status and {"error": text}. */
void http_reply_problem(struct http_reply *reply, unsigned status, const char *text);

#endif
