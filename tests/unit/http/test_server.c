/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Real sockets against a real server on a free port of the loopback interface. */

#define BODY_MAX 1000

static struct http_server *server;
static atomic_bool gate_open; /* /wait answers once it is */
static atomic_int waiting;    /* requests inside /wait */

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int64_t now_ms(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock) / 1000000;
}

/* ---- handlers ---- */

static void echo(void *self, const struct http_request *request, struct http_reply *reply)
{
    assert_string_equal(self, "self");
    assert_true(request->loopback_peer);
    strbuf_printf(&reply->body, "%s %.*s?%.*s rest=%.*s body=", request->method,
                  STR_ARG(request->path), STR_ARG(request->query), STR_ARG(request->rest));
    strbuf_add_str(&reply->body, request->body);
}

static void wait_for_gate(void *self, const struct http_request *request, struct http_reply *reply)
{
    (void)self;
    (void)request;
    atomic_fetch_add(&waiting, 1);
    while (!atomic_load(&gate_open))
        sleep_ms(2);
    atomic_fetch_sub(&waiting, 1);
    strbuf_puts(&reply->body, "waited");
}

static void large(void *self, const struct http_request *request, struct http_reply *reply)
{
    (void)self;
    (void)request;
    for (int i = 0; i < 300000; i++)
        strbuf_puts(&reply->body, "0123456789");
}

static void no_memory(void *self, const struct http_request *request, struct http_reply *reply)
{
    (void)self;
    (void)request;
    reply->body.failed = true;
}

static const struct http_route routes[] = {
    {"POST", "/echo", echo, "self", HTTP_ACCESS_CLIENTS},
    {"GET", "/echo", echo, "self", HTTP_ACCESS_CLIENTS},
    {"DELETE", "/echo/*", echo, "self", HTTP_ACCESS_CLIENTS},
    {"GET", "/wait", wait_for_gate, NULL, HTTP_ACCESS_CLIENTS},
    {"GET", "/large", large, NULL, HTTP_ACCESS_CLIENTS},
    {"GET", "/no-memory", no_memory, NULL, HTTP_ACCESS_CLIENTS},
};

static const struct http_options defaults = {
    .address = "127.0.0.1",
    .max_body_bytes = BODY_MAX,
    .max_bodies_bytes = 80 * BODY_MAX,
    .max_connections = 80,
    .max_connections_per_client = 80,
    .idle_timeout_ms = 60000,
    .request_timeout_ms = 30000,
    .routes = routes,
    .route_count = sizeof(routes) / sizeof(routes[0]),
};

static void start(const struct http_options *options)
{
    struct error err = {0};
    atomic_store(&gate_open, false);
    assert_int_equal(http_server_start(options, &server, &err), 0);
    assert_int_not_equal(http_server_port(server), 0);
}

static int setup(void **state)
{
    (void)state;
    start(&defaults);
    return 0;
}

static int setup_narrow(void **state)
{
    (void)state;
    struct http_options options = defaults;
    options.max_bodies_bytes = 2 * BODY_MAX;
    start(&options);
    return 0;
}

static int setup_impatient(void **state)
{
    (void)state;
    struct http_options options = defaults;
    options.request_timeout_ms = 300;
    start(&options);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    atomic_store(&gate_open, true);
    http_server_stop(server, 10000);
    server = NULL;
    return 0;
}

/* ---- a client ---- */

struct client {
    int fd;
    char input[8192]; /* received and not yet looked at */
    size_t len;
};

static bool try_connect(struct client *client)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(http_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *client = (struct client){.fd = socket(AF_INET, SOCK_STREAM, 0)};
    assert_true(client->fd >= 0);
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 20},
               sizeof(struct timeval));
    if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    close(client->fd);
    return false;
}

static struct client client_open(void)
{
    struct client client;
    assert_true(try_connect(&client));
    return client;
}

static void client_send(struct client *client, const char *text)
{
    size_t length = strlen(text);
    assert_int_equal(send(client->fd, text, length, MSG_NOSIGNAL), (ssize_t)length);
}

static bool receive_more(struct client *client)
{
    assert_true(client->len < sizeof(client->input) - 1);
    ssize_t got =
        recv(client->fd, client->input + client->len, sizeof(client->input) - 1 - client->len, 0);
    if (got <= 0)
        return false;
    client->len += (size_t)got;
    client->input[client->len] = '\0';
    return true;
}

/* Header names may come in any case. */
static const char *find_nocase(const char *text, const char *word)
{
    for (size_t length = strlen(word); *text != '\0'; text++) {
        if (strncasecmp(text, word, length) == 0)
            return text;
    }
    return NULL;
}

struct answer {
    int status;
    bool close;
    char headers[2048];
    char body[4096];
};

/* Read one answer with a Content-Length; `head` = one without a body. */
static struct answer read_answer(struct client *client, bool head)
{
    struct answer answer = {0};
    char *end;
    while ((end = strstr(client->input, "\r\n\r\n")) == NULL)
        assert_true(receive_more(client));
    size_t headers = (size_t)(end + 4 - client->input);
    assert_true(headers < sizeof(answer.headers));
    memcpy(answer.headers, client->input, headers);
    assert_int_equal(sscanf(answer.headers, "HTTP/1.1 %d", &answer.status), 1);
    answer.close = find_nocase(answer.headers, "\r\nConnection: close\r\n") != NULL;
    assert_null(find_nocase(answer.headers, "Transfer-Encoding"));
    const char *field = find_nocase(answer.headers, "\r\nContent-Length: ");
    size_t length = 0;
    if (answer.status != 100) {
        assert_non_null(field);
        assert_int_equal(sscanf(field, "\r\n%*[^:]: %zu", &length), 1);
    }
    if (head)
        length = 0;
    while (client->len < headers + length)
        assert_true(receive_more(client));
    assert_true(length < sizeof(answer.body));
    memcpy(answer.body, client->input + headers, length);
    client->len -= headers + length;
    memmove(client->input, client->input + headers + length, client->len + 1);
    return answer;
}

static struct answer ask(struct client *client, const char *text)
{
    client_send(client, text);
    return read_answer(client, false);
}

static struct answer ask_once(const char *text)
{
    struct client client = client_open();
    struct answer answer = ask(&client, text);
    close(client.fd);
    return answer;
}

/* The server has ended the connection (end of stream or reset) within `ms`. */
static bool is_closed(struct client *client, int ms)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    char byte;
    return poll(&poll_fd, 1, ms) == 1 && recv(client->fd, &byte, 1, MSG_PEEK) <= 0;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path, length, body)                                                                   \
    "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Length: " length "\r\n\r\n" body

/* ---- tests ---- */

static void request_reaches_handler(void **state)
{
    (void)state;
    struct answer answer = ask_once(POST("/echo?a=b%20c&d", "5", "hello"));
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "POST /echo?a=b%20c&d rest= body=hello");
    assert_non_null(strstr(answer.headers, "Content-Type: application/json\r\n"));

    answer = ask_once("DELETE /echo/a%2Fb/c HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_string_equal(answer.body, "DELETE /echo/a%2Fb/c? rest=a%2Fb/c body=");
}

static void connection_is_kept(void **state)
{
    (void)state;
    struct client client = client_open();
    for (int i = 0; i < 20; i++) {
        struct answer answer = ask(&client, POST("/echo", "2", "hi"));
        assert_int_equal(answer.status, 200);
        assert_false(answer.close);
    }
    /* also after an answer that is a problem */
    assert_int_equal(ask(&client, POST("/nowhere", "2", "hi")).status, 404);
    assert_int_equal(ask(&client, POST("/wait", "2", "hi")).status, 405);
    assert_int_equal(ask(&client, POST("/echo", "2", "hi")).status, 200);
    close(client.fd);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct client client = client_open();
    client_send(&client, POST("/echo", "1", "1") POST("/echo", "1", "2") GET("/echo?3"));
    assert_string_equal(read_answer(&client, false).body, "POST /echo? rest= body=1");
    assert_string_equal(read_answer(&client, false).body, "POST /echo? rest= body=2");
    assert_string_equal(read_answer(&client, false).body, "GET /echo?3 rest= body=");
    close(client.fd);
}

static void head_has_length_and_no_body(void **state)
{
    (void)state;
    struct client client = client_open();
    client_send(&client, "HEAD /large HTTP/1.1\r\nHost: x\r\n\r\n");
    struct answer answer = read_answer(&client, true);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.headers, "Content-Length: 3000000\r\n"));
    assert_int_equal(ask(&client, GET("/echo")).status, 200);
    close(client.fd);
}

static void unknown_paths_and_methods(void **state)
{
    (void)state;
    struct answer answer = ask_once(GET("/nowhere"));
    assert_int_equal(answer.status, 404);
    assert_string_equal(answer.body, "{\"error\":\"no such path\"}");

    answer = ask_once("PATCH /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(answer.status, 405);
    assert_non_null(strstr(answer.headers, "Allow: POST, GET, HEAD\r\n"));
}

static void misleading_headers_are_refused(void **state)
{
    (void)state;
    const char *bad[] = {
        "POST /echo HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
        "POST /echo HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 2\r\n\r\nhi",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nhi",
        ("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
         "2\r\nhi\r\n0\r\n\r\n"),
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -2\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2x\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct client client = client_open();
        struct answer answer = ask(&client, bad[i]);
        assert_int_equal(answer.status, 400);
        assert_true(answer.close);
        assert_true(is_closed(&client, 5000));
        close(client.fd);
    }
    /* HTTP/1.0 knows no Host */
    assert_int_equal(ask_once("GET /echo HTTP/1.0\r\n\r\n").status, 200);
}

static void bodies_are_bounded(void **state)
{
    (void)state;
    char request[8192];
    char body[BODY_MAX + 1] = {0};
    memset(body, 'b', BODY_MAX);
    snprintf(request, sizeof(request), POST("/echo", "%d", "%s"), BODY_MAX, body);
    assert_int_equal(ask_once(request).status, 200);

    /* refused by its length, before a byte of it is read */
    struct client client = client_open();
    struct answer answer = ask(&client, POST("/echo", "1001", ""));
    assert_int_equal(answer.status, 413);
    assert_string_equal(answer.body, "{\"error\":\"the body is larger than allowed\"}");
    assert_true(is_closed(&client, 5000));
    close(client.fd);
    assert_int_equal(ask_once(POST("/echo", "99999999999999999999999", "")).status, 413);
    assert_int_equal(ask_once(POST("/echo", "9223372036854775808", "")).status, 413);

    /* chunked: by the bytes that come */
    snprintf(request, sizeof(request),
             "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
             "%x\r\n%s\r\n0\r\n\r\n",
             BODY_MAX, body);
    assert_int_equal(ask_once(request).status, 200);
    snprintf(request, sizeof(request),
             "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
             "%x\r\n%s\r\n1\r\nx\r\n0\r\n\r\n",
             BODY_MAX, body);
    client = client_open();
    answer = ask(&client, request);
    assert_int_equal(answer.status, 413);
    assert_true(answer.close);
    close(client.fd);
}

/* One that was refused, because a body of the test before still counted, tries again. */
static void hold_again(struct client *client, const char *request)
{
    struct pollfd answered = {.fd = client->fd, .events = POLLIN};
    if (poll(&answered, 1, 0) <= 0)
        return;
    close(client->fd);
    *client = client_open();
    client_send(client, request);
}

/* Two clients hold all the room; a third is told so, and has its turn when one is gone. */
static void bodies_are_bounded_together(void **state)
{
    (void)state;
    char held[8192], body[BODY_MAX + 1] = {0};
    memset(body, 'b', BODY_MAX - 1); /* the last byte never comes */
    snprintf(held, sizeof(held), POST("/echo", "%d", "%s"), BODY_MAX, body);
    struct client clients[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = client_open();
        client_send(&clients[i], held);
    }
    int status = 200;
    for (int tries = 0; tries < 3000 && status == 200; tries++) {
        struct answer answer = ask_once(POST("/echo", "3", "abc"));
        status = answer.status;
        if (status == 503)
            assert_true(answer.close);
        else
            sleep_ms(10);
        for (int i = 0; i < 2 && status == 200; i++)
            hold_again(&clients[i], held);
    }
    assert_int_equal(status, 503);
    close(clients[0].fd);
    for (int tries = 0; tries < 3000 && status == 503; tries++) {
        status = ask_once(POST("/echo", "3", "abc")).status;
        sleep_ms(10);
    }
    assert_int_equal(status, 200);
    close(clients[1].fd);
}

static void continue_is_sent_only_for_acceptable_bodies(void **state)
{
    (void)state;
    struct client client = client_open();
    client_send(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                         "Content-Length: 2\r\n\r\n");
    assert_int_equal(read_answer(&client, false).status, 100);
    assert_string_equal(ask(&client, "hi").body, "POST /echo? rest= body=hi");
    close(client.fd);

    client = client_open();
    assert_int_equal(ask(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                                  "Content-Length: 1001\r\n\r\n")
                         .status,
                     413);
    close(client.fd);
}

static void headers_are_bounded(void **state)
{
    (void)state;
    struct client client = client_open();
    client_send(&client, "GET /echo HTTP/1.1\r\nHost: x\r\nX: ");
    char junk[4096];
    memset(junk, 'j', sizeof(junk));
    for (int i = 0; i < 100; i++) {
        if (send(client.fd, junk, sizeof(junk), MSG_NOSIGNAL) < 0)
            break;
    }
    char status[13] = {0};
    assert_true(recv(client.fd, status, 12, MSG_WAITALL) == 12);
    assert_string_equal(status, "HTTP/1.1 431");
    close(client.fd);
    assert_int_equal(ask_once(GET("/echo")).status, 200);
}

static void large_answers_are_whole(void **state)
{
    (void)state;
    struct client client = client_open();
    client_send(&client, "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    size_t total = 0;
    char block[65536];
    char last = 0;
    for (ssize_t got; (got = recv(client.fd, block, sizeof(block), 0)) > 0; total += (size_t)got)
        last = block[got - 1];
    assert_in_range(total, 3000000, 3001000);
    assert_int_equal(last, '9');
    close(client.fd);
}

static void end_of_memory_is_a_500(void **state)
{
    (void)state;
    struct answer answer = ask_once(GET("/no-memory"));
    assert_int_equal(answer.status, 500);
    assert_string_equal(answer.body, "{\"error\":\"out of memory\"}");
}

/* Whatever allocation fails on the way of one request: an answer or an end of the connection, and
 * the next request is served. */
static void failed_allocations_are_survived(void **state)
{
    (void)state;
    for (long n = 1; n < 20; n++) {
        mem_fail_at(n);
        struct client client = client_open();
        client_send(&client, POST("/echo", "5", "hello"));
        while (receive_more(&client) && strstr(client.input, "\r\n\r\n") == NULL)
            ;
        close(client.fd);
        mem_fail_at(0);
        assert_int_equal(ask_once(POST("/echo", "5", "hello")).status, 200);
    }
}

static void slow_requests_are_cut(void **state)
{
    (void)state;
    const char *beginnings[] = {
        "G",
        "GET /echo HTTP/1.1\r\nHost: x\r\n",
        POST("/echo", "5", "hel"),
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe",
    };
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
        struct client client = client_open();
        client_send(&client, beginnings[i]);
        struct answer answer = read_answer(&client, false);
        assert_int_equal(answer.status, 408);
        assert_true(answer.close);
        assert_string_equal(answer.body, "{\"error\":\"the request took too long to arrive\"}");
        assert_true(is_closed(&client, 5000));
        close(client.fd);
    }
}

/* One byte now and then does not help, at any place of the request, nor on a used connection. */
static void trickling_requests_are_cut(void **state)
{
    (void)state;
    struct client client = client_open();
    assert_int_equal(ask(&client, GET("/echo")).status, 200);
    static const char request[] = "GET /echo HTTP/1.1\r\nHost: x\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaa";
    int64_t begin = now_ms();
    size_t sent = 0;
    for (; sent < sizeof(request) - 1 && now_ms() - begin < 10000; sent++) {
        if (send(client.fd, request + sent, 1, MSG_NOSIGNAL) != 1)
            break;
        sleep_ms(50);
        if (is_closed(&client, 0) || strstr(client.input, "408") != NULL)
            break;
        struct pollfd poll_fd = {.fd = client.fd, .events = POLLIN};
        if (poll(&poll_fd, 1, 0) == 1)
            receive_more(&client);
    }
    assert_true(sent < sizeof(request) - 1);
    assert_non_null(strstr(client.input, "HTTP/1.1 408 "));
    close(client.fd);
}

static void idle_connections_are_not_cut(void **state)
{
    (void)state;
    struct client unused = client_open();
    struct client used = client_open();
    assert_int_equal(ask(&used, GET("/echo")).status, 200);
    sleep_ms(1000); /* more than three request timeouts */
    assert_int_equal(ask(&unused, GET("/echo")).status, 200);
    assert_int_equal(ask(&used, GET("/echo")).status, 200);
    close(unused.fd);
    close(used.fd);
}

static void slow_handlers_are_not_cut(void **state)
{
    (void)state;
    struct client client = client_open();
    client_send(&client, GET("/wait"));
    sleep_ms(1000);
    atomic_store(&gate_open, true);
    assert_string_equal(read_answer(&client, false).body, "waited");
    close(client.fd);
}

static void waiting_handlers_block_nobody(void **state)
{
    (void)state;
    struct client blocked[32];
    for (size_t i = 0; i < 32; i++) {
        blocked[i] = client_open();
        client_send(&blocked[i], GET("/wait"));
    }
    while (atomic_load(&waiting) < 32)
        sleep_ms(2);
    assert_int_equal(ask_once(GET("/echo")).status, 200);
    atomic_store(&gate_open, true);
    for (size_t i = 0; i < 32; i++) {
        assert_string_equal(read_answer(&blocked[i], false).body, "waited");
        close(blocked[i].fd);
    }
}

static void connections_past_the_limit_are_closed(void **state)
{
    (void)state;
    struct client clients[81];
    for (size_t i = 0; i < 80; i++) {
        clients[i] = client_open();
        assert_int_equal(ask(&clients[i], GET("/echo")).status, 200);
    }
    clients[80] = client_open();
    assert_true(is_closed(&clients[80], 5000));
    for (size_t i = 0; i < 81; i++)
        close(clients[i].fd);
    int64_t begin = now_ms(); /* the places come back */
    for (;;) {
        struct client client = client_open();
        client_send(&client, GET("/echo"));
        bool served = receive_more(&client);
        close(client.fd);
        if (served)
            break;
        assert_true(now_ms() - begin < 10000);
        sleep_ms(20);
    }
}

static void answers_are_counted(void **state)
{
    (void)state;
    metrics_reset();
    ask_once(GET("/echo"));
    ask_once(GET("/nowhere"));
    ask_once(POST("/echo", "1001", ""));
    ask_once(GET("/no-memory"));
    assert_int_equal(metrics_get(METRIC_HTTP_RESPONSES, 0), 1);
    assert_int_equal(metrics_get(METRIC_HTTP_RESPONSES, 1), 2);
    assert_int_equal(metrics_get(METRIC_HTTP_RESPONSES, 2), 1);
}

/* ---- stop ---- */

struct stopping {
    pthread_t thread;
    int64_t drain_ms;
    unsigned left;
    atomic_bool done;
};

static void *stop_thread(void *self)
{
    struct stopping *stopping = self;
    stopping->left = http_server_stop(server, stopping->drain_ms);
    atomic_store(&stopping->done, true);
    return NULL;
}

static void begin_stop(struct stopping *stopping, int64_t drain_ms)
{
    *stopping = (struct stopping){.drain_ms = drain_ms};
    assert_int_equal(pthread_create(&stopping->thread, NULL, stop_thread, stopping), 0);
}

static void end_stop(struct stopping *stopping)
{
    pthread_join(stopping->thread, NULL);
    server = NULL;
}

static void stop_waits_for_requests(void **state)
{
    (void)state;
    struct client running = client_open();
    struct client arriving = client_open();
    struct client idle = client_open();
    assert_int_equal(ask(&idle, GET("/echo")).status, 200);
    client_send(&running, GET("/wait"));
    client_send(&arriving, "GET /echo HT");
    while (atomic_load(&waiting) < 1)
        sleep_ms(2);

    struct stopping stopping;
    begin_stop(&stopping, 20000);
    assert_true(is_closed(&idle, 5000)); /* not before its moment of grace */
    struct client refused;
    assert_false(try_connect(&refused));
    assert_false(atomic_load(&stopping.done));
    client_send(&arriving, "TP/1.1\r\nHost: x\r\n\r\n");
    struct answer answer = read_answer(&arriving, false);
    assert_int_equal(answer.status, 200);
    assert_true(answer.close);
    assert_false(atomic_load(&stopping.done));
    atomic_store(&gate_open, true);
    answer = read_answer(&running, false);
    assert_string_equal(answer.body, "waited");
    assert_true(answer.close);
    end_stop(&stopping);
    assert_int_equal(stopping.left, 0);
    close(running.fd);
    close(arriving.fd);
    close(idle.fd);
}

/* A client that has no pause longer than the grace is told by an answer, never by a lost request.
 */
static void stop_loses_no_request_of_a_busy_client(void **state)
{
    (void)state;
    struct client client = client_open();
    assert_int_equal(ask(&client, GET("/echo")).status, 200);
    struct stopping stopping;
    begin_stop(&stopping, 20000);
    struct answer answer;
    do {
        sleep_ms(20);
        answer = ask(&client, GET("/echo"));
        assert_int_equal(answer.status, 200);
    } while (!answer.close);
    end_stop(&stopping);
    assert_int_equal(stopping.left, 0);
    close(client.fd);
}

static void stop_gives_up_after_its_time(void **state)
{
    (void)state;
    struct client stalled = client_open();
    client_send(&stalled, POST("/echo", "5", "hel"));
    sleep_ms(50);
    int64_t begin = now_ms();
    struct stopping stopping;
    begin_stop(&stopping, 500);
    end_stop(&stopping);
    assert_int_equal(stopping.left, 1);
    assert_in_range(now_ms() - begin, 450, 10000);
    assert_true(is_closed(&stalled, 5000));
    close(stalled.fd);
}

static void bad_addresses_are_refused(void **state)
{
    (void)state;
    struct error err = {0};
    struct http_server *other = NULL;
    struct http_options options = defaults;
    options.address = "localhost";
    assert_int_equal(http_server_start(&options, &other, &err), -EINVAL);
    assert_string_equal(err.text, "localhost is not a numeric IPv4 or IPv6 address");

    options.address = "127.0.0.1";
    options.port = http_server_port(server);
    assert_int_equal(http_server_start(&options, &other, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "cannot listen on 127.0.0.1 port "));
    assert_null(other);
    assert_int_equal(http_server_stop(NULL, 0), 0);
}

int main(void)
{
#define NORMAL(test)    cmocka_unit_test_setup_teardown(test, setup, teardown)
#define IMPATIENT(test) cmocka_unit_test_setup_teardown(test, setup_impatient, teardown)
    const struct CMUnitTest tests[] = {
        NORMAL(request_reaches_handler),
        NORMAL(connection_is_kept),
        NORMAL(pipelined_requests_are_answered_in_order),
        NORMAL(head_has_length_and_no_body),
        NORMAL(unknown_paths_and_methods),
        NORMAL(misleading_headers_are_refused),
        NORMAL(bodies_are_bounded),
        cmocka_unit_test_setup_teardown(bodies_are_bounded_together, setup_narrow, teardown),
        NORMAL(continue_is_sent_only_for_acceptable_bodies),
        NORMAL(headers_are_bounded),
        NORMAL(large_answers_are_whole),
        NORMAL(end_of_memory_is_a_500),
        NORMAL(failed_allocations_are_survived),
        IMPATIENT(slow_requests_are_cut),
        IMPATIENT(trickling_requests_are_cut),
        IMPATIENT(idle_connections_are_not_cut),
        IMPATIENT(slow_handlers_are_not_cut),
        NORMAL(waiting_handlers_block_nobody),
        NORMAL(connections_past_the_limit_are_closed),
        NORMAL(answers_are_counted),
        NORMAL(stop_waits_for_requests),
        NORMAL(stop_loses_no_request_of_a_busy_client),
        NORMAL(stop_gives_up_after_its_time),
        NORMAL(bad_addresses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
