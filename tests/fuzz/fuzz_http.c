/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
#include "fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/reader.h"
#include "http/connections.h"
#include "http/handlers.h"
#include "http_messages.h"
#include "refusing_port.h"

/*
 * The bytes of one client's connection, through a socket pair into the server and the daemon's own handlers.
 * The first four bytes decide in which pieces they come and whether the client then closes one half or both.
 * Must hold: every answer is well formed; a request that can be read in one way only reaches its handler just
 * so, and one that two readers may take for different ones reaches none; the pieces make no difference.
 *
 * The server is the real one but for its threads: its loop is turned by hand, so that a run is the same each
 * time and takes microseconds.
 */

enum { BODY_MAX = 2048, CALLS_MAX = 256, OUTPUT_MAX = 1 << 20, PIECES_MAX = 12 };

static struct MHD_Daemon *library;

struct MHD_Daemon *__wrap_MHD_start_daemon(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback may, void *may_self,
                                           MHD_AccessHandlerCallback handle, void *self, ...);

struct MHD_Daemon *__wrap_MHD_start_daemon(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback may, void *may_self,
                                           MHD_AccessHandlerCallback handle, void *self, ...)
{
    va_list options;
    va_start(options, self);
    flags &= ~(unsigned)(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                         MHD_USE_POLL | MHD_USE_ITC);
    library = MHD_start_daemon_va(flags, port, may, may_self, handle, self, options);
    va_end(options);
    return library;
}

int __wrap_connections_start(struct connections *connections, uint32_t request_timeout_ms,
                             uint32_t answer_timeout_ms);

/* Without the thread that cuts late requests: none is late here. */
int __wrap_connections_start(struct connections *connections, uint32_t request_timeout_ms,
                             uint32_t answer_timeout_ms)
{
    (void)request_timeout_ms;
    (void)answer_timeout_ms;
    *connections = (struct connections){0};
    pthread_mutex_init(&connections->lock, NULL);
    pthread_cond_init(&connections->changed, NULL);
    return 0;
}

void __wrap_log_write(enum log_severity severity, const char *file, int line, const char *message,
                      const struct log_field *fields, unsigned count);

void __wrap_log_write(enum log_severity severity, const char *file, int line, const char *message,
                      const struct log_field *fields, unsigned count)
{
    (void)severity;
    (void)file;
    (void)line;
    (void)message;
    (void)fields;
    (void)count;
}

/* ---- the daemon behind it ---- */

static struct sched sched;
static struct http_app app;
static struct http_app_paths paths;
static struct http_route app_routes[HTTP_APP_ROUTES_MAX], routes[HTTP_APP_ROUTES_MAX];
static struct http_server *server;

/* A cluster of one node with two cards. Pods that are asked about are never found, so nothing in it changes. */
static void start_cluster(void)
{
    static const struct device devices[] = {
        {.kind = DEVICE_GPU, .minor = 0, .healthy = true, .total = {100, 100, 8000}, .id = STR("G0")},
        {.kind = DEVICE_GPU, .minor = 1, .healthy = false, .total = {100, 100, 8000}},
    };
    static const struct inventory inventory = {.devices = devices, .count = 2};
    struct error err = {0};
    struct cache *cache = cache_new(UNKNOWN_PODS_CLOSE);
    MUST(cache != NULL);
    MUST(cache_node_set(cache, &(struct node_facts){.name = STR("n1")}) == 0);
    MUST(cache_devices_set(cache, STR("n1"), &inventory, &err) == 0);
    sched_init(&sched, cache, clock_system(), refusing_port(), device_policy_find(STR("default")),
               node_policy_find(STR("spread")));
    sched_set_synced(&sched, true);
}

/* ---- what handlers were given ---- */

struct call {
    char *method;
    char *text; /* path, query and body, one after the other */
    size_t path_len, query_len, body_len;
    unsigned status;
};

static struct call calls[CALLS_MAX];
static size_t call_count;

/* Stands before every handler: `self` is the daemon's own route. */
static void note(void *self, const struct http_request *request, struct http_reply *reply)
{
    const struct http_route *route = self;
    MUST(call_count < CALLS_MAX && request->body.len <= BODY_MAX && request->loopback_peer);
    struct call *call = &calls[call_count++];
    struct strbuf text = {0};
    strbuf_add_str(&text, request->path);
    strbuf_add_str(&text, request->query);
    strbuf_add_str(&text, request->body);
    strbuf_putc(&text, '\0');
    size_t ignored;
    *call = (struct call){.method = strdup(request->method),
                          .text = strbuf_take(&text, &ignored),
                          .path_len = request->path.len,
                          .query_len = request->query.len,
                          .body_len = request->body.len};
    route->handle(route->self, request, reply);
    call->status = reply->status;
}

static void forget_calls(void)
{
    for (size_t i = 0; i < call_count; i++) {
        free(calls[i].method);
        mem_free(calls[i].text);
    }
    call_count = 0;
}

static void start(void)
{
    start_cluster();
    app = (struct http_app){
        .sched = &sched, .limits = codec_default_limits, .per_card_max_nodes = 500};
    uint32_t count = http_app_routes(&app, "", &paths, app_routes);
    count += http_app_health_routes(&app, app_routes + count);
    for (uint32_t i = 0; i < count; i++) {
        routes[i] = app_routes[i];
        routes[i].handle = note;
        routes[i].self = &app_routes[i];
    }
    struct http_options options = {
        .address = "127.0.0.1",
        .max_body_bytes = BODY_MAX,
        .max_bodies_bytes = BODY_MAX,
        .max_connections = 8,
        .max_connections_per_client = 8,
        .idle_timeout_ms = 3600 * 1000,
        .request_timeout_ms = 3600 * 1000,
        .routes = routes,
        .route_count = count,
    };
    struct error err = {0};
    MUST(http_server_start(&options, &server, &err) == 0);
}

/* ---- the connection ---- */

static char output[OUTPUT_MAX];
static size_t output_len;

static bool receive(int client)
{
    bool any = false;
    ssize_t got;
    while ((got = recv(client, output + output_len, OUTPUT_MAX - output_len, MSG_DONTWAIT)) > 0) {
        output_len += (size_t)got;
        MUST(output_len < OUTPUT_MAX);
        any = true;
    }
    return any;
}

static unsigned connections(void)
{
    return MHD_get_daemon_info(library, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections;
}

/* Turn the server's loop until nothing is left unread. */
static void turn(int client)
{
    int unread;
    do {
        unread = 0;
        MUST(MHD_run(library) == MHD_YES);
        ioctl(client, TIOCOUTQ, &unread);
    } while (unread > 0 && connections() > 0);
}

/* Turn it until nothing happens any more: a turn that reads may have something to send in the next one. */
static void turn_until_quiet(int client)
{
    for (int quiet = 0; quiet < 2;) {
        turn(client);
        quiet = receive(client) ? 0 : quiet + 1;
    }
}

static void send_piece(int client, struct str piece)
{
    while (piece.len > 0) {
        ssize_t sent = send(client, piece.data, piece.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN && connections() > 0) {
            turn_until_quiet(client);
            continue;
        }
        if (sent < 0) /* the server has closed: what it says is already there */
            return;
        piece = (struct str){piece.data + sent, piece.len - (size_t)sent};
    }
}

/* One client's connection from begin to end, in so many pieces at most; what came back is in `output`, what
 * handlers saw in `calls`. */
static void converse(struct splitter splitter, int pieces, bool half_close)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int ends[2];
    struct str piece;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    MUST(MHD_add_connection(library, ends[1], (struct sockaddr *)&loopback, sizeof loopback) ==
         MHD_YES);
    output_len = 0;
    forget_calls();
    while (--pieces > 0 && splitter_next(&splitter, &piece)) {
        send_piece(ends[0], piece);
        turn(ends[0]);
    }
    send_piece(ends[0], splitter.rest);
    turn_until_quiet(ends[0]);
    if (half_close) {
        shutdown(ends[0], SHUT_WR);
        turn_until_quiet(ends[0]);
    }
    close(ends[0]);
    for (int i = 0; connections() > 0; i++)
        MUST(MHD_run(library) == MHD_YES && i < 100);
}

/* ---- what must hold ---- */

static bool call_is(const struct call *call, const struct plain_request *request)
{
    const char *query = call->text + call->path_len, *body = query + call->query_len;
    return str_is(request->method, call->method) &&
           str_eq(request->path, (struct str){call->text, call->path_len}) &&
           str_eq(request->query, (struct str){query, call->query_len}) &&
           str_eq(request->body, (struct str){body, call->body_len});
}

static bool is_routed(const struct plain_request *request)
{
    for (const struct http_route *route = routes; route->path != NULL; route++) {
        if (str_is(request->path, route->path) &&
            (str_is(request->method, route->method) ||
             (str_is(request->method, "HEAD") && strcmp(route->method, "GET") == 0)))
            return true;
    }
    return false;
}

/* As long as the oracle can read the requests, each has reached its handler as it was sent. */
static void check_calls(struct str sent)
{
    struct plain_request request;
    char *room = malloc(sent.len + 1);
    size_t next = 0;
    MUST(room != NULL);
    for (bool going = true; going && sent.len > 0;) {
        enum plain plain = plain_request_next(&sent, room, &request);
        bool too_large = plain == PLAIN_READ && request.body.len > BODY_MAX;
        if (plain == PLAIN_READ && !too_large && is_routed(&request)) {
            MUST(next < call_count);
            MUST(call_is(&calls[next], &request));
            next++;
        }
        if (plain == PLAIN_UNFINISHED || plain == PLAIN_AMBIGUOUS || too_large)
            MUST(next == call_count);
        going = plain == PLAIN_READ && !too_large;
    }
    free(room);
}

static bool begins(struct str text, const char *with)
{
    return text.len >= strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

/* The library ends the connection with a page of its own on what it cannot read. Some of these (version 0.9.75)
 * have their header twice, so that only the first one can be judged. */
static bool is_librarys_own(const struct plain_answer *answer)
{
    return answer->close && !answer->json && answer->status >= 400;
}

/* What came back is answers and nothing else, in the handlers' order; writes their statuses. */
static void check_answers(struct str sent, struct strbuf *statuses)
{
    struct str rest = {output, output_len}, value;
    struct plain_answer answer;
    struct error err;
    size_t next = 0;
    bool closed = false;
    while (rest.len > 0) {
        MUST(!closed);
        /* An answer to HEAD is told by what follows it: no body begins like a status line. */
        struct str again = rest;
        if (!plain_answer_next(&rest, false, &answer) || begins(answer.body, "H")) {
            bool head = memmem(sent.data, sent.len, "HEAD ", 5) != NULL;
            MUST(head || is_librarys_own(&answer));
            rest = again;
            MUST(plain_answer_next(&rest, true, &answer));
        }
        if (is_librarys_own(&answer))
            rest.len = 0;
        MUST(!answer.json || answer.body.len == 0 || reader_check(answer.body, 64, &value, &err) == 0);
        if (answer.status == 100)
            continue;
        if (next < call_count && calls[next].status == answer.status)
            next++;
        else
            MUST(answer.status >= 400);
        closed = answer.close;
        strbuf_printf(statuses, "%u ", answer.status);
    }
    MUST(next == call_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct splitter splitter = splitter_init(data, size);
    struct str sent = splitter.rest;
    bool half_close = splitter.state & 1;
    struct strbuf whole = {0}, pieces = {0};
    if (server == NULL)
        start();
    converse(splitter, 1, half_close);
    check_calls(sent);
    check_answers(sent, &whole);
    converse(splitter, PIECES_MAX, half_close);
    check_calls(sent);
    check_answers(sent, &pieces);
    MUST(str_eq((struct str){whole.data, whole.len}, (struct str){pieces.data, pieces.len}));
    forget_calls();
    strbuf_done(&whole);
    strbuf_done(&pieces);
    return 0;
}
