/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/parse.h"
#include "http/channel.h"
#include "http/connections.h"
#include "http/framing.h"
#include "http/listener.h"
#include "http/route.h"
#include "http/tls_session.h"

#include <microhttpd.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Headers must fit in here (else 431); bodies pass through it in pieces. The library clears it for each request,
 * so fuzzing has less. */
#ifndef CONNECTION_MEMORY_BYTES
#define CONNECTION_MEMORY_BYTES ((size_t)256 * 1024)
#endif
#define THREAD_STACK_BYTES      ((size_t)512 * 1024)
#define BODY_ROOM_BYTES         ((size_t)1 << 20) /* made at once, at most, on a client's word */
#define HANDSHAKE_MS            50 /* the last one begun is over by then */

struct http_server {
    struct http_options options;
    struct connections connections;
    struct MHD_Daemon *daemon;
    int listen_fd;
    uint16_t port;
    bool asks_clients;    /* for certificates */
    atomic_bool draining; /* every answer closes its connection */
    atomic_uint_fast64_t body_bytes; /* of all requests now */
};

/* One request and its answer. Made when the request line is there, freed when the answer is sent or
 * the connection broke. */
struct exchange {
    struct http_server *server;
    struct channel *channel;
    uint64_t id;
    struct log_field log_context[2];
    struct arena mem;
    struct str path, query;
    struct strbuf body;
    size_t expected; /* bytes of it, as far as room is made at once */
    bool headers_done;
    bool body_too_large; /* the rest is read and thrown away */
    bool no_room;        /* likewise: the bodies of all requests are too many */
    struct route_match match;
    int64_t complete_ns; /* when the whole request was there */
};

static int64_t now_ns(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock);
}

void http_reply_problem(struct http_reply *reply, unsigned status, const char *text)
{
    reply->status = status;
    reply->content_type = "application/json";
    strbuf_done(&reply->body);
    strbuf_puts(&reply->body, "{\"error\":");
    strbuf_json_string(&reply->body, str_from(text));
    strbuf_putc(&reply->body, '}');
}

/* ---- answers ---- */

/* Takes the bytes of the reply. */
static struct MHD_Response *make_response(struct http_reply *reply)
{
    static char no_memory[] = "{\"error\":\"out of memory\"}";

    size_t length;
    char *bytes = strbuf_take(&reply->body, &length);
    if (bytes == NULL) {
        strbuf_done(&reply->body);
        reply->status = 500;
        reply->content_type = "application/json";
        return MHD_create_response_from_buffer(sizeof(no_memory) - 1, no_memory,
                                               MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(length, bytes, mem_free);
    if (response == NULL)
        mem_free(bytes);
    return response;
}

/* Send the reply; its body is gone afterwards. */
static enum MHD_Result send_reply(struct exchange *exchange, struct MHD_Connection *connection,
                                  struct http_reply *reply)
{
    struct http_server *server = exchange->server;
    struct MHD_Response *response = make_response(reply);
    if (response == NULL)
        return MHD_NO;

    enum MHD_Result ok =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
    if (ok == MHD_YES && reply->allow != NULL)
        ok = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow);
    if (ok == MHD_YES && (reply->close || atomic_load(&server->draining)))
        ok = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (ok == MHD_YES &&
        !channel_enter(exchange->channel, CONNECTION_ANSWERING))
        ok = MHD_NO;
    if (ok == MHD_YES)
        ok = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response); /* the connection holds its own reference */
    if (ok == MHD_YES)
        metrics_add(METRIC_HTTP_RESPONSES, metrics_status_class(reply->status), 1);
    return ok;
}

static enum MHD_Result send_problem(struct exchange *exchange, struct MHD_Connection *connection,
                                    unsigned status, const char *text, bool close)
{
    struct http_reply reply = {.close = close};
    http_reply_problem(&reply, status, text);
    if (status == 405)
        reply.allow = exchange->match.allow;
    log_info(4, "HTTP request refused", LOG_INT("status", status), LOG_TEXT("why", text));
    return send_reply(exchange, connection, &reply);
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
    }
    return false;
}

static bool has_loopback_peer(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info != NULL && info->client_addr != NULL && is_loopback(info->client_addr);
}

/* Run the handler of a complete request. */
static enum MHD_Result serve(struct exchange *exchange, struct MHD_Connection *connection,
                             const char *method)
{
    const struct http_route *route = exchange->match.route;
    struct http_request request = {
        .method = method,
        .path = exchange->path,
        .query = exchange->query,
        .rest = exchange->match.rest,
        .body = {exchange->body.data, exchange->body.len},
        .id = exchange->id,
        .loopback_peer = has_loopback_peer(connection),
        .known_client = exchange->channel->peer.valid,
        .mem = &exchange->mem,
    };
    struct http_reply reply = {.status = 200, .content_type = "application/json"};
    route->handle(route->self, &request, &reply);

    log_info(4, "HTTP request", LOG_TEXT("method", method), LOG_STR("path", exchange->path),
             LOG_INT("status", reply.status), LOG_INT("bodyBytes", exchange->body.len),
             LOG_INT("answerBytes", reply.body.len),
             LOG_INT("latencyUs", (now_ns() - exchange->complete_ns) / 1000));
    return send_reply(exchange, connection, &reply);
}

/* ---- requests ---- */

static bool is_length_above(const char *length, uint64_t limit)
{
    int64_t value;
    return length != NULL && (!parse_int64(str_from(length), &value) || (uint64_t)value > limit);
}

static size_t room_for(const char *length)
{
    int64_t value;
    if (length == NULL || !parse_int64(str_from(length), &value) || value < 0)
        return 0;
    return (uint64_t)value < BODY_ROOM_BYTES ? (size_t)value : BODY_ROOM_BYTES;
}

static enum MHD_Result refuse_client(struct exchange *exchange, struct MHD_Connection *connection)
{
    const struct tls_peer *peer = &exchange->channel->peer;
    char text[128];
    snprintf(text, sizeof(text), "the client certificate %s", peer->problem);
    log_info(2, "Client refused", LOG_STR("path", exchange->path), LOG_TEXT("why", text),
             LOG_TEXT("claimedName", peer->name));
    return send_problem(exchange, connection, 403, text, true);
}

/* The headers are there: refuse what must not be read, look the route up. */
static enum MHD_Result check_headers(struct exchange *exchange, struct MHD_Connection *connection,
                                     const char *method, const char *version)
{
    const struct http_options *options = &exchange->server->options;
    struct framing framing;
    framing_read(connection, &framing);

    const char *problem = framing_problem(&framing, version);
    if (problem != NULL)
        return send_problem(exchange, connection, 400, problem, true);
    if (is_length_above(framing.length, options->max_body_bytes))
        return send_problem(exchange, connection, 413, "the body is larger than allowed", true);
    exchange->expected = room_for(framing.length);
    route_find(options->routes, options->route_count, method, exchange->path, &exchange->match);
    const struct http_route *route = exchange->match.route;
    if (exchange->server->asks_clients && !exchange->channel->peer.valid && route != NULL &&
        route->access == HTTP_ACCESS_CLIENTS)
        return refuse_client(exchange, connection);
    return MHD_YES;
}

/* Take room for `size` more bytes from what all requests share. */
static bool take_room(struct http_server *server, uint64_t size)
{
    uint64_t before = atomic_fetch_add(&server->body_bytes, size);
    if (before + size <= server->options.max_bodies_bytes)
        return true;
    atomic_fetch_sub(&server->body_bytes, size);
    return false;
}

static void drop_body(struct exchange *exchange)
{
    atomic_fetch_sub(&exchange->server->body_bytes, exchange->body.len);
    strbuf_done(&exchange->body);
}

static void take_body(struct exchange *exchange, const char *data, size_t size)
{
    uint64_t cap = exchange->server->options.max_body_bytes;
    if (exchange->body_too_large || exchange->no_room || exchange->body.failed ||
        exchange->match.route == NULL)
        return;
    if (size > cap - exchange->body.len) {
        exchange->body_too_large = true; /* chunked: only now it shows */
        drop_body(exchange);
        return;
    }
    if (!take_room(exchange->server, size)) {
        exchange->no_room = true;
        drop_body(exchange);
        return;
    }
    size_t before = exchange->body.len;
    if (before == 0)
        (void)strbuf_reserve(&exchange->body, exchange->expected);
    strbuf_add(&exchange->body, data, size);
    /* What did not fit into memory is not held. */
    atomic_fetch_sub(&exchange->server->body_bytes, size - (exchange->body.len - before));
}

/* The request is complete: answer it. */
static enum MHD_Result answer(struct exchange *exchange, struct MHD_Connection *connection,
                              const char *method)
{
    exchange->complete_ns = now_ns();
    if (!channel_enter(exchange->channel, CONNECTION_HANDLING))
        return MHD_NO;
    if (exchange->body_too_large)
        return send_problem(exchange, connection, 413, "the body is larger than allowed", true);
    if (exchange->no_room)
        return send_problem(exchange, connection, 503, "too many bodies at once", true);
    if (exchange->body.failed)
        return send_problem(exchange, connection, 500, "out of memory", true);
    if (exchange->match.status == 404)
        return send_problem(exchange, connection, 404, "no such path", false);
    if (exchange->match.status == 405)
        return send_problem(exchange, connection, 405, "the path has no such method", false);
    return serve(exchange, connection, method);
}

/* The lines that are logged from here on are about this request. */
static void begin_log_context(struct exchange *exchange)
{
    const struct tls_peer *peer = &exchange->channel->peer;
    exchange->log_context[0] = LOG_INT("requestID", exchange->id);
    exchange->log_context[1] = LOG_TEXT("client", peer->name);
    log_set_context(exchange->log_context, peer->valid ? 2 : 1);
}

static enum MHD_Result go_on(struct exchange *exchange, struct MHD_Connection *connection,
                             const char *method, const char *version, const char *upload_data,
                             size_t *upload_size)
{
    if (!exchange->headers_done) {
        exchange->headers_done = true;
        return check_headers(exchange, connection, method, version);
    }
    if (*upload_size > 0) {
        take_body(exchange, upload_data, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    return answer(exchange, connection, method);
}

/* Called once when the headers are there, then for each piece of the body, then at its end. */
static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_size, void **request)
{
    struct exchange *exchange = *request;
    const struct http_server *server = self;
    (void)url; /* the raw one is in exchange */
    if (exchange == NULL)
        return MHD_NO;
    if (!exchange->headers_done && server->asks_clients)
        channel_judge(exchange->channel);
    begin_log_context(exchange);
    enum MHD_Result result =
        go_on(exchange, connection, method, version, upload_data, upload_size);
    log_set_context(NULL, 0);
    return result;
}

static void exchange_free(struct exchange *exchange)
{
    drop_body(exchange);
    arena_done(&exchange->mem);
    mem_free(exchange);
}

static bool copy_uri(struct exchange *exchange, const char *uri)
{
    struct str copy = arena_str(&exchange->mem, str_from(uri));
    if (copy.data == NULL)
        return false;
    const char *mark = memchr(copy.data, '?', copy.len);
    size_t path_len = mark != NULL ? (size_t)(mark - copy.data) : copy.len;
    exchange->path = (struct str){copy.data, path_len};
    if (mark != NULL)
        exchange->query = (struct str){mark + 1, copy.len - path_len - 1};
    return true;
}

/* The request line is there; what is returned comes back as `request` in the calls that follow. */
static void *on_request_line(void *self, const char *uri, struct MHD_Connection *connection)
{
    static _Atomic uint64_t requests;
    struct http_server *server = self;
    struct channel *channel = channel_of(connection);
    if (channel == NULL)
        return NULL;
    struct exchange *exchange = mem_calloc(1, sizeof(*exchange));
    if (exchange == NULL)
        return NULL;
    exchange->server = server;
    exchange->channel = channel;
    exchange->id = atomic_fetch_add(&requests, 1) + 1;
    arena_init(&exchange->mem, 0);
    if (!copy_uri(exchange, uri) ||
        !channel_enter(exchange->channel, CONNECTION_ARRIVING)) {
        exchange_free(exchange);
        return NULL;
    }
    return exchange;
}

/* The answer is sent, or the connection broke on the way. */
static void on_request_over(void *self, struct MHD_Connection *connection, void **request,
                            enum MHD_RequestTerminationCode why)
{
    struct exchange *exchange = *request;
    (void)self;
    (void)connection;
    (void)why;
    if (exchange == NULL)
        return;
    channel_enter(exchange->channel, CONNECTION_IDLE);
    exchange_free(exchange);
    *request = NULL;
}

/* Somebody wants to connect: one that asks for nothing makes room for him, if need be. */
static enum MHD_Result on_accept(void *self, const struct sockaddr *address, socklen_t size)
{
    struct http_server *server = self;
    (void)size;
    uint32_t peer = connections_peer(&server->connections, address);
    bool room = connections_make_room(&server->connections, peer, server->options.max_connections);
    return room ? MHD_YES : MHD_NO;
}

static void on_connection(void *self, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_server *server = self;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = channel_open(connection, &server->connections, server->options.tls,
                                server->asks_clients);
        return;
    }
    channel_close(*context);
    *context = NULL;
}

/* Paths are compared byte for byte: "%2F" is no slash. */
static size_t keep_escapes(void *self, struct MHD_Connection *connection, char *text)
{
    (void)self;
    (void)connection;
    return strlen(text);
}

static void log_library(void *self, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void log_library(void *self, const char *format, va_list args)
{
    (void)self;
    char text[256];
    int length = vsnprintf(text, sizeof(text), format, args);
    while (length > 0 && (size_t)length < sizeof(text) && text[length - 1] == '\n')
        text[--length] = '\0';
    log_info(4, "HTTP library", LOG_TEXT("message", text));
}

/* ---- start and stop ---- */

static struct MHD_Daemon *start_daemon(struct http_server *server)
{
    const struct http_options *options = &server->options;
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    if (strchr(options->address, ':') != NULL)
        flags |= MHD_USE_IPv6;
    static char priorities[] = TLS_PRIORITIES;
    struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem encrypted[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, priorities},
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)channel_on_hello},
        {MHD_OPTION_END, 0, NULL},
    };
    if (options->tls != NULL)
        flags |= MHD_USE_TLS;
    /* The logger must come first, or the library's own reports of the others go to stderr. */
    return MHD_start_daemon(
        flags, 0, on_accept, server, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
        MHD_OPTION_LISTEN_SOCKET, server->listen_fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        CONNECTION_MEMORY_BYTES, MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK_BYTES,
        /* Those that are cut and not yet closed do not count. */
        MHD_OPTION_CONNECTION_LIMIT, 2 * (unsigned)options->max_connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)options->max_connections_per_client,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)((options->idle_timeout_ms + 999) / 1000),
        MHD_OPTION_URI_LOG_CALLBACK, on_request_line, server, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_request_over, server,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_ARRAY,
        options->tls != NULL ? encrypted : plain, MHD_OPTION_END);
}

/* Is there anything that only clients with a certificate get? */
static bool asks_clients(const struct http_options *options)
{
    bool asks = false;
    for (uint32_t i = 0; i < options->route_count; i++)
        asks = asks || options->routes[i].access == HTTP_ACCESS_CLIENTS;
    return asks && options->tls != NULL && tls_asks_clients(options->tls);
}

int http_server_start(const struct http_options *options, struct http_server **ret,
                      struct error *err)
{
    struct http_server *server = mem_calloc(1, sizeof(*server));
    if (server == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    server->options = *options;
    server->asks_clients = asks_clients(options);
    int result = listener_open(options->address, options->port, &server->listen_fd, err);
    if (result < 0)
        goto free_server;
    server->port = listener_port(server->listen_fd);
    result = connections_start(&server->connections, options->request_timeout_ms,
                               options->idle_timeout_ms);
    if (result < 0) {
        error_set(err, result, "cannot start a thread: %s", strerror(-result));
        goto close_listener;
    }
    server->daemon = start_daemon(server);
    if (server->daemon == NULL) {
        result = error_set(err, -EIO, "cannot start the HTTP server");
        goto stop_connections;
    }
    *ret = server;
    return 0;

stop_connections:
    connections_stop(&server->connections);
close_listener:
    close(server->listen_fd);
free_server:
    mem_free(server);
    return result;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

/* Take no new connections, but lose none that a client believes to be open: those in the queue, and
 * those whose handshake is on its way, are taken, then the world is refused. The fd stays open
 * until the library's thread, which may be about to look at it, is gone. */
static void stop_listening(struct http_server *server)
{
    listener_refuse(server->listen_fd);
    MHD_quiesce_daemon(server->daemon);
    struct pollfd queue = {.fd = server->listen_fd, .events = POLLIN};
    for (unsigned i = 0; i < LISTENER_BACKLOG && poll(&queue, 1, HANDSHAKE_MS) == 1; i++) {
        struct sockaddr_storage address;
        socklen_t size = sizeof(address);
        int fd = accept(server->listen_fd, (struct sockaddr *)&address, &size);
        if (fd >= 0)
            MHD_add_connection(server->daemon, fd, (struct sockaddr *)&address, size);
    }
    shutdown(server->listen_fd, SHUT_RDWR);
}

unsigned http_server_stop(struct http_server *server, int64_t drain_ms)
{
    if (server == NULL)
        return 0;
    atomic_store(&server->draining, true);
    stop_listening(server);
    struct connections_left left = connections_drain(&server->connections, drain_ms);
    if (left.handling > 0)
        return left.busy;
    MHD_stop_daemon(server->daemon);
    close(server->listen_fd);
    connections_stop(&server->connections);
    mem_free(server);
    return left.busy;
}
