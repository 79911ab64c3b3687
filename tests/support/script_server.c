/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* asprintf, strcasestr, POLLRDHUP */
#include "script_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS_MAX      512
#define CONNECTIONS_MAX   256
#define REQUEST_BYTES_MAX (512 * 1024)

struct connection {
    struct script_server *server;
    pthread_t thread;
    int fd;
};

struct script_server {
    struct script_act (*act)(void *self, const struct script_request *request);
    void *self;
    int listen_fd;
    char url[64];
    pthread_t thread;

    pthread_mutex_t mutex; /* of what follows */
    unsigned resets;
    unsigned request_count;
    char *requests[REQUESTS_MAX];
    unsigned connection_count;
    struct connection connections[CONNECTIONS_MAX];
};

static void check(bool good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

/* ---- requests ---- */

static bool is_complete(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    if (end == NULL)
        return false;
    const char *field = strcasestr(request, "Content-Length: ");
    size_t length = field != NULL && field < end ? strtoul(field + 16, NULL, 10) : 0;
    return strlen(end + 4) >= length;
}

/* The next request of a connection; NULL when the client closed it. */
static char *read_request(int fd)
{
    size_t used = 0, capacity = 4096;
    char *text = calloc(1, capacity);
    check(text != NULL, "calloc");
    while (!is_complete(text)) {
        if (capacity - used < 4096) {
            capacity *= 2;
            check(capacity <= REQUEST_BYTES_MAX, "request too large");
            text = realloc(text, capacity);
            check(text != NULL, "realloc");
        }
        ssize_t got = recv(fd, text + used, capacity - 1 - used, 0);
        if (got <= 0) {
            free(text);
            return NULL;
        }
        used += (size_t)got;
        text[used] = '\0';
    }
    return text;
}

/* Copies of the two words of the first line. */
static void split(const char *text, char method[16], char path[1024])
{
    check(sscanf(text, "%15s %1023s", method, path) == 2, "request line");
}

/* ---- answers ---- */

static char *answer_text(const struct script_act *act)
{
    const char *body = act->body != NULL ? act->body : "";
    char *text = NULL;
    int length = asprintf(&text,
                          "HTTP/1.1 %d Scripted\r\nContent-Type: application/json\r\n%s"
                          "Content-Length: %zu\r\n\r\n%s",
                          act->status != 0 ? act->status : 200,
                          act->headers != NULL ? act->headers : "", strlen(body), body);
    check(length >= 0, "asprintf");
    return text;
}

static void send_text(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        text += sent;
        length -= (size_t)sent;
    }
}

static void reset_on_close(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0, "SO_LINGER");
}

/* Until the time is over or the client closes. */
static void wait_for_client(int fd, int ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN | POLLRDHUP};
    poll(&poll_fd, 1, ms);
}

/* Do it; false when the connection is to be closed. */
static bool play(int fd, const struct script_act *act, const char *answer)
{
    size_t length = strlen(answer);
    if (act->delay_ms > 0)
        wait_for_client(fd, act->delay_ms);
    switch (act->how) {
    case SCRIPT_ANSWER:
        send_text(fd, answer, length);
        return true;
    case SCRIPT_HALF:
        send_text(fd, answer, length / 2);
        return false;
    case SCRIPT_DROP:
        return false;
    case SCRIPT_RESET:
        reset_on_close(fd);
        return false;
    case SCRIPT_SILENT:
        wait_for_client(fd, -1);
        return false;
    }
    return false;
}

static bool serve_one(struct connection *connection)
{
    struct script_server *server = connection->server;
    char *text = read_request(connection->fd);
    if (text == NULL)
        return false;
    char method[16], path[1024];
    split(text, method, path);

    pthread_mutex_lock(&server->mutex);
    check(server->request_count < REQUESTS_MAX, "too many requests");
    struct script_request request = {.method = method,
                                     .path = path,
                                     .body = strstr(text, "\r\n\r\n") + 4,
                                     .text = text,
                                     .number = server->request_count};
    server->requests[server->request_count++] = text;
    struct script_act act = server->act(server->self, &request);
    char *answer = answer_text(&act);
    pthread_mutex_unlock(&server->mutex);

    bool go_on = play(connection->fd, &act, answer);
    free(answer);
    return go_on;
}

static void *serve(void *self)
{
    struct connection *connection = self;
    while (serve_one(connection))
        ;
    pthread_mutex_lock(&connection->server->mutex);
    close(connection->fd);
    connection->fd = -1;
    pthread_mutex_unlock(&connection->server->mutex);
    return NULL;
}

/* ---- connections ---- */

static void take_connection(struct script_server *server, int fd)
{
    pthread_mutex_lock(&server->mutex);
    check(server->connection_count < CONNECTIONS_MAX, "too many connections");
    struct connection *connection = &server->connections[server->connection_count++];
    *connection = (struct connection){.server = server, .fd = fd};
    bool reset = server->resets > 0;
    if (reset) {
        server->resets--;
        reset_on_close(fd);
        close(fd);
        connection->fd = -1;
    } else {
        check(pthread_create(&connection->thread, NULL, serve, connection) == 0, "thread");
    }
    pthread_mutex_unlock(&server->mutex);
}

static void *accept_all(void *self)
{
    struct script_server *server = self;
    for (;;) {
        int fd = accept(server->listen_fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        take_connection(server, fd);
    }
}

/* ---- life ---- */

struct script_server *
script_start(struct script_act (*act)(void *self, const struct script_request *request), void *self)
{
    struct script_server *server = calloc(1, sizeof *server);
    check(server != NULL, "calloc");
    server->act = act;
    server->self = self;
    pthread_mutex_init(&server->mutex, NULL);
    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    check(bind(server->listen_fd, (struct sockaddr *)&address, size) == 0, "bind");
    check(listen(server->listen_fd, 64) == 0, "listen");
    check(getsockname(server->listen_fd, (struct sockaddr *)&address, &size) == 0, "getsockname");
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u",
             (unsigned)ntohs(address.sin_port));
    check(pthread_create(&server->thread, NULL, accept_all, server) == 0, "thread");
    return server;
}

const char *script_url(const struct script_server *server)
{
    return server->url;
}

void script_reset_next(struct script_server *server, unsigned count)
{
    pthread_mutex_lock(&server->mutex);
    server->resets = count;
    pthread_mutex_unlock(&server->mutex);
}

unsigned script_count(struct script_server *server)
{
    pthread_mutex_lock(&server->mutex);
    unsigned count = server->request_count;
    pthread_mutex_unlock(&server->mutex);
    return count;
}

const char *script_text(struct script_server *server, unsigned number)
{
    pthread_mutex_lock(&server->mutex);
    check(number < server->request_count, "no such request");
    const char *text = server->requests[number];
    pthread_mutex_unlock(&server->mutex);
    return text;
}

unsigned script_connections(struct script_server *server)
{
    pthread_mutex_lock(&server->mutex);
    unsigned count = server->connection_count;
    pthread_mutex_unlock(&server->mutex);
    return count;
}

void script_stop(struct script_server *server)
{
    if (server == NULL)
        return;
    shutdown(server->listen_fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listen_fd);
    pthread_mutex_lock(&server->mutex);
    for (unsigned i = 0; i < server->connection_count; i++)
        if (server->connections[i].fd >= 0)
            shutdown(server->connections[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&server->mutex);
    for (unsigned i = 0; i < server->connection_count; i++)
        if (server->connections[i].thread != 0)
            pthread_join(server->connections[i].thread, NULL);
    for (unsigned i = 0; i < server->request_count; i++)
        free(server->requests[i]);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}
