/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_api.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define REQUESTS_MAX    256
#define WAIT_MS         30000

struct queue {
    struct fake_reply replies[64];
    unsigned put, taken;
    char *requests[REQUESTS_MAX];
    unsigned request_count;
};

static struct {
    pthread_mutex_t mutex;
    int listen_fd;
    pthread_t acceptor;
    pthread_t threads[CONNECTIONS_MAX];
    int fds[CONNECTIONS_MAX]; /* -1 = ended */
    unsigned count;
    char url[64];
    struct queue queues[FAKE_KINDS][FAKE_VERBS];
    int held_fd[FAKE_KINDS]; /* -1 = no watch is held */
} fake = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const struct {
    const char *path;
    const char *empty;
} kinds[FAKE_KINDS] = {
    [FAKE_NODES] = {"/api/v1/nodes", "{\"kind\":\"NodeList\",\"apiVersion\":\"v1\","
                                     "\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}\n"},
    [FAKE_DEVICES] = {"/apis/scheduling.koordinator.sh/v1alpha1/devices",
                      "{\"apiVersion\":\"scheduling.koordinator.sh/v1alpha1\",\"items\":[],"
                      "\"kind\":\"DeviceList\",\"metadata\":{\"continue\":\"\","
                      "\"resourceVersion\":\"1\"}}\n"},
    [FAKE_PODS] = {"/api/v1/pods", "{\"kind\":\"PodList\",\"apiVersion\":\"v1\","
                                   "\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}\n"},
    [FAKE_NAMESPACES] = {"/api/v1/namespaces",
                         "{\"kind\":\"NamespaceList\",\"apiVersion\":\"v1\","
                         "\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}\n"},
};

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- one connection ---- */

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool send_chunk(int fd, const char *data, size_t len)
{
    char size[32];
    snprintf(size, sizeof size, "%zx\r\n", len);
    return send_all(fd, size, strlen(size)) && send_all(fd, data, len) && send_all(fd, "\r\n", 2);
}

static bool send_body(int fd, const struct fake_reply *reply)
{
    size_t len = reply->body != NULL ? strlen(reply->body) : 0;
    size_t piece = reply->piece != 0 ? reply->piece : len;
    for (size_t at = 0; at < len; at += piece)
        if (!send_chunk(fd, reply->body + at, piece < len - at ? piece : len - at))
            return false;
    return true;
}

static bool send_head(int fd, const struct fake_reply *reply)
{
    char head[1024];
    snprintf(head, sizeof head,
             "HTTP/1.1 %d Said\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n%s\r\n",
             reply->status != 0 ? reply->status : 200,
             reply->type != NULL ? reply->type : "application/json",
             reply->header != NULL ? reply->header : "");
    return send_all(fd, head, strlen(head));
}

static void wait_for_end(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    poll(&poll_fd, 1, -1); /* the other side closes, or fake_api_stop does */
}

static void hold(int fd, enum fake_kind kind)
{
    pthread_mutex_lock(&fake.mutex);
    fake.held_fd[kind] = fd;
    pthread_mutex_unlock(&fake.mutex);
    wait_for_end(fd);
    pthread_mutex_lock(&fake.mutex);
    if (fake.held_fd[kind] == fd)
        fake.held_fd[kind] = -1;
    pthread_mutex_unlock(&fake.mutex);
}

/* True when the connection may be used again. */
static bool answer(int fd, enum fake_kind kind, const struct fake_reply *reply)
{
    if (!send_head(fd, reply) || !send_body(fd, reply))
        return false;
    switch (reply->end) {
    case FAKE_COMPLETE:
        return send_all(fd, "0\r\n\r\n", 5);
    case FAKE_HOLD:
        hold(fd, kind);
        return false;
    case FAKE_RESET:
        pause_ms(30); /* a reset takes away what the other side has not read yet */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
                   sizeof(struct linger));
        return false;
    case FAKE_CUT:
        break;
    }
    return false;
}

static bool read_request(int fd, char *request, size_t size)
{
    size_t used = 0;
    for (;;) {
        ssize_t got = recv(fd, request + used, size - 1 - used, 0);
        if (got <= 0)
            return false;
        used += (size_t)got;
        request[used] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL)
            return true;
    }
}

static bool find_kind(const char *request, enum fake_kind *ret)
{
    for (enum fake_kind kind = 0; kind < FAKE_KINDS; kind++) {
        size_t len = strlen(kinds[kind].path);
        if (strncmp(request, "GET ", 4) == 0 && strncmp(request + 4, kinds[kind].path, len) == 0 &&
            request[4 + len] == '?') {
            *ret = kind;
            return true;
        }
    }
    return false;
}

/* Note the request and take the reply for it. */
static struct fake_reply take_reply(const char *request, enum fake_kind kind)
{
    enum fake_verb verb = strstr(request, "watch=1") != NULL ? FAKE_WATCH : FAKE_LIST;
    struct fake_reply reply = {.body = verb == FAKE_LIST ? kinds[kind].empty : NULL,
                               .end = verb == FAKE_LIST ? FAKE_COMPLETE : FAKE_HOLD};
    pthread_mutex_lock(&fake.mutex);
    struct queue *queue = &fake.queues[kind][verb];
    assert(queue->request_count < REQUESTS_MAX);
    queue->requests[queue->request_count++] = strdup(request);
    if (queue->taken < queue->put)
        reply = queue->replies[queue->taken++];
    pthread_mutex_unlock(&fake.mutex);
    return reply;
}

static void *serve(void *self)
{
    int *slot = self;
    int fd = *slot;
    char request[8192];
    enum fake_kind kind;
    bool more = true;
    while (more && read_request(fd, request, sizeof request)) {
        if (find_kind(request, &kind)) {
            struct fake_reply reply = take_reply(request, kind);
            more = answer(fd, kind, &reply);
        } else {
            more = answer(fd, 0, &(struct fake_reply){.status = 404});
        }
    }
    pthread_mutex_lock(&fake.mutex);
    *slot = -1;
    close(fd);
    pthread_mutex_unlock(&fake.mutex);
    return NULL;
}

static void *accept_all(void *unused)
{
    (void)unused;
    for (;;) {
        int fd = accept(fake.listen_fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* as Go's servers do */
        pthread_mutex_lock(&fake.mutex);
        assert(fake.count < CONNECTIONS_MAX);
        unsigned slot = fake.count++;
        fake.fds[slot] = fd;
        pthread_create(&fake.threads[slot], NULL, serve, &fake.fds[slot]);
        pthread_mutex_unlock(&fake.mutex);
    }
}

/* ---- for tests ---- */

const char *fake_api_start(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    fake.count = 0;
    memset(fake.queues, 0, sizeof fake.queues);
    for (enum fake_kind kind = 0; kind < FAKE_KINDS; kind++)
        fake.held_fd[kind] = -1;
    fake.listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fake.listen_fd, (struct sockaddr *)&address, size) < 0 ||
        listen(fake.listen_fd, 64) < 0 ||
        getsockname(fake.listen_fd, (struct sockaddr *)&address, &size) < 0 ||
        pthread_create(&fake.acceptor, NULL, accept_all, NULL) != 0)
        abort();
    snprintf(fake.url, sizeof fake.url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    return fake.url;
}

void fake_api_stop(void)
{
    shutdown(fake.listen_fd, SHUT_RDWR);
    pthread_join(fake.acceptor, NULL);
    close(fake.listen_fd);
    pthread_mutex_lock(&fake.mutex);
    for (unsigned i = 0; i < fake.count; i++)
        if (fake.fds[i] >= 0)
            shutdown(fake.fds[i], SHUT_RDWR);
    pthread_mutex_unlock(&fake.mutex);
    for (unsigned i = 0; i < fake.count; i++)
        pthread_join(fake.threads[i], NULL);
    for (enum fake_kind kind = 0; kind < FAKE_KINDS; kind++)
        for (enum fake_verb verb = 0; verb < FAKE_VERBS; verb++)
            for (unsigned i = 0; i < fake.queues[kind][verb].request_count; i++)
                free(fake.queues[kind][verb].requests[i]);
}

void fake_api_next(enum fake_kind kind, enum fake_verb verb, struct fake_reply reply)
{
    pthread_mutex_lock(&fake.mutex);
    struct queue *queue = &fake.queues[kind][verb];
    assert(queue->put < sizeof queue->replies / sizeof queue->replies[0]);
    queue->replies[queue->put++] = reply;
    pthread_mutex_unlock(&fake.mutex);
}

bool fake_api_push(enum fake_kind kind, const char *text)
{
    for (int waited = 0; waited < WAIT_MS; waited++) {
        pthread_mutex_lock(&fake.mutex);
        int fd = fake.held_fd[kind];
        bool sent = fd >= 0 && send_chunk(fd, text, strlen(text));
        pthread_mutex_unlock(&fake.mutex);
        if (sent)
            return true;
        pause_ms(1);
    }
    return false;
}

unsigned fake_api_requests(enum fake_kind kind, enum fake_verb verb)
{
    pthread_mutex_lock(&fake.mutex);
    unsigned count = fake.queues[kind][verb].request_count;
    pthread_mutex_unlock(&fake.mutex);
    return count;
}

const char *fake_api_request(enum fake_kind kind, enum fake_verb verb, unsigned n)
{
    pthread_mutex_lock(&fake.mutex);
    struct queue *queue = &fake.queues[kind][verb];
    const char *request = n < queue->request_count ? queue->requests[n] : NULL;
    pthread_mutex_unlock(&fake.mutex);
    return request;
}

bool fake_api_wait(enum fake_kind kind, enum fake_verb verb, unsigned n)
{
    for (int waited = 0; waited < WAIT_MS; waited++) {
        if (fake_api_requests(kind, verb) >= n)
            return true;
        pause_ms(1);
    }
    return false;
}

unsigned fake_api_connections(void)
{
    pthread_mutex_lock(&fake.mutex);
    unsigned count = fake.count;
    pthread_mutex_unlock(&fake.mutex);
    return count;
}
