/* SPDX-License-Identifier: Apache-2.0 */
#include "http/connections.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/* A client in full swing sends its next request sooner than this; one that does not is told by the
 * end of the connection that the server is going. */
#define IDLE_GRACE_NS (250 * NS_PER_MS)

/* A handshake takes some rounds to the client and back. */
#define GREETING_GRACE_NS (1000 * NS_PER_MS)

static int64_t now_ns(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock);
}

/* Bytes received on a connection since it was opened; 0 when the kernel does not tell, and then a
 * request that stops before the end of its first line is only cut by the idle timeout. */
static uint64_t bytes_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    return info.tcpi_bytes_received;
}

/* Those of them that were read; what lies unread begins the next request. Asked in this order, what
 * arrives in between counts as unread. */
static uint64_t bytes_read(int fd)
{
    uint64_t received = bytes_received(fd);
    int unread = 0;
    if (ioctl(fd, FIONREAD, &unread) != 0 || unread < 0 || (uint64_t)unread > received)
        return received;
    return received - (uint64_t)unread;
}

static void note_first_byte_locked(struct connection *connection, int64_t now)
{
    if (connection->phase == CONNECTION_IDLE && connection->first_byte_ns == 0 &&
        bytes_received(connection->fd) > connection->received_before)
        connection->first_byte_ns = now;
}

/* A request has begun and its answer is not yet sent. */
static bool is_busy(const struct connection *connection)
{
    switch (connection->phase) {
    case CONNECTION_GREETING: /* nothing was asked yet */
        break;
    case CONNECTION_IDLE:
        return connection->first_byte_ns != 0;
    case CONNECTION_ARRIVING:
    case CONNECTION_HANDLING:
    case CONNECTION_ANSWERING:
        return true;
    case CONNECTION_CUT:
        break;
    }
    return false;
}

static bool is_arriving(const struct connection *connection)
{
    return connection->phase == CONNECTION_ARRIVING ||
           (connection->phase == CONNECTION_IDLE && connection->first_byte_ns != 0);
}

/* The library's thread sees the end of the stream and closes the connection. */
static void cut_locked(struct connections *connections, struct connection *connection)
{
    if (connection->phase != CONNECTION_CUT) {
        connections->open--;
        connections->held[connection->peer]--;
    }
    connection->phase = CONNECTION_CUT;
    shutdown(connection->fd, SHUT_RDWR);
}

static void cut_late_request_locked(struct connections *connections, struct connection *connection)
{
    static const char body[] = "{\"error\":\"the request took too long to arrive\"}";
    char answer[256];
    int length = snprintf(answer, sizeof(answer),
                          "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
                          "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                          sizeof(body) - 1, body);
    /* The library cannot answer before the request is complete. Nothing else is being sent on a
     * connection whose request is still arriving. */
    if (!connection->encrypted)
        (void)!send(connection->fd, answer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
    metrics_add(METRIC_HTTP_RESPONSES, metrics_status_class(408), 1);
    cut_locked(connections, connection);
}

static unsigned cut_late_locked(struct connections *connections, int64_t now)
{
    unsigned cut = 0;
    for (struct connection *c = connections->first; c != NULL; c = c->next) {
        note_first_byte_locked(c, now);
        if (is_arriving(c) && now - c->first_byte_ns > connections->request_timeout_ns) {
            cut_late_request_locked(connections, c);
            cut++;
        } else if ((c->phase == CONNECTION_ANSWERING &&
                    now - c->since_ns > connections->answer_timeout_ns) ||
                   (c->phase == CONNECTION_GREETING &&
                    now - c->since_ns > connections->request_timeout_ns)) {
            cut_locked(connections, c);
            cut++;
        }
    }
    return cut;
}

static void wait_locked(struct connections *connections, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    pthread_cond_timedwait(&connections->changed, &connections->lock, &until);
}

static void *watch(void *self)
{
    struct connections *connections = self;
    int64_t tick_ns = connections->request_timeout_ns / 4;
    if (tick_ns < 10 * NS_PER_MS)
        tick_ns = 10 * NS_PER_MS;
    if (tick_ns > NS_PER_S)
        tick_ns = NS_PER_S;

    pthread_mutex_lock(&connections->lock);
    int64_t next_ns = now_ns() + tick_ns;
    while (!connections->stopped) {
        wait_locked(connections, next_ns);
        int64_t now = now_ns();
        if (now < next_ns)
            continue;
        next_ns = now + tick_ns;
        unsigned cut = cut_late_locked(connections, now);
        if (cut > 0) {
            pthread_mutex_unlock(&connections->lock);
            log_info(2, "Connections cut: handshake, request or answer took too long",
                     LOG_INT("count", cut));
            pthread_mutex_lock(&connections->lock);
        }
    }
    pthread_mutex_unlock(&connections->lock);
    return NULL;
}

int connections_start(struct connections *connections, uint32_t request_timeout_ms,
                      uint32_t answer_timeout_ms)
{
    *connections = (struct connections){
        .request_timeout_ns = request_timeout_ms * NS_PER_MS,
        .answer_timeout_ns = answer_timeout_ms * NS_PER_MS,
    };
    if (getentropy(&connections->seed, sizeof(connections->seed)) != 0)
        connections->seed = (uint32_t)now_ns();
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&connections->lock, NULL);
    pthread_cond_init(&connections->changed, &attributes);
    pthread_condattr_destroy(&attributes);

    int failure = pthread_create(&connections->watchdog, NULL, watch, connections);
    if (failure != 0) {
        pthread_cond_destroy(&connections->changed);
        pthread_mutex_destroy(&connections->lock);
    }
    return -failure;
}

void connections_stop(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    connections->stopped = true;
    pthread_cond_broadcast(&connections->changed);
    pthread_mutex_unlock(&connections->lock);
    pthread_join(connections->watchdog, NULL);
    pthread_cond_destroy(&connections->changed);
    pthread_mutex_destroy(&connections->lock);
}

uint32_t connections_peer(const struct connections *connections, const struct sockaddr *address)
{
    uint64_t who = 0;
    if (address->sa_family == AF_INET)
        who = ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    else if (address->sa_family == AF_INET6)
        memcpy(&who, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof(who));
    /* Stirred with what nobody outside knows. */
    who = (who ^ connections->seed) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(who >> 32) % CONNECTIONS_PEERS;
}

/* A new connection of who has asked before is worth more than one of who never did: a crowd that comes at once must
 * not push it out before its request is here. */
enum claim { CLAIM_NONE, CLAIM_KNOWN, CLAIM_SERVED };

static enum claim claim_of(const struct connections *connections, const struct connection *c)
{
    if (c->served)
        return CLAIM_SERVED;
    return connections->known[c->peer] ? CLAIM_KNOWN : CLAIM_NONE;
}

/* Has `a` less of a claim to its connection than `b`? */
static bool is_worse(const struct connections *connections, const struct connection *a,
                     const struct connection *b)
{
    enum claim claim_a = claim_of(connections, a), claim_b = claim_of(connections, b);
    if (claim_a != claim_b)
        return claim_a < claim_b;
    uint32_t held_a = connections->held[a->peer], held_b = connections->held[b->peer];
    return held_a != held_b ? held_a > held_b : a->since_ns < b->since_ns;
}

/* Whose place a newcomer gets: of those who have more than he or less of a claim, else of his own. */
static struct connection *find_place_locked(struct connections *connections, uint32_t peer)
{
    struct connection *worst = NULL, *own = NULL;
    enum claim claim = connections->known[peer] ? CLAIM_KNOWN : CLAIM_NONE;
    for (struct connection *c = connections->first; c != NULL; c = c->next) {
        note_first_byte_locked(c, now_ns());
        if (c->phase == CONNECTION_CUT || is_busy(c))
            continue;
        if ((connections->held[c->peer] > connections->held[peer] ||
             claim_of(connections, c) < claim) &&
            (worst == NULL || is_worse(connections, c, worst)))
            worst = c;
        if (c->peer == peer && (own == NULL || is_worse(connections, c, own)))
            own = c;
    }
    return worst != NULL ? worst : own;
}

bool connections_make_room(struct connections *connections, uint32_t peer, uint32_t max)
{
    pthread_mutex_lock(&connections->lock);
    bool full = connections->open >= max;
    struct connection *worst = full ? find_place_locked(connections, peer) : NULL;
    if (worst != NULL)
        cut_locked(connections, worst);
    pthread_mutex_unlock(&connections->lock);
    return !full || worst != NULL;
}

struct connection *connections_add(struct connections *connections, int fd, bool encrypted,
                                   uint32_t peer)
{
    struct connection *connection = mem_calloc(1, sizeof(*connection));
    if (connection == NULL)
        return NULL;
    connection->fd = fd;
    connection->encrypted = encrypted;
    connection->phase = encrypted ? CONNECTION_GREETING : CONNECTION_IDLE;
    connection->since_ns = now_ns();
    connection->peer = peer;

    pthread_mutex_lock(&connections->lock);
    connections->open++;
    connections->held[peer]++;
    connection->next = connections->first;
    if (connection->next != NULL)
        connection->next->previous = connection;
    connections->first = connection;
    pthread_mutex_unlock(&connections->lock);
    return connection;
}

void connections_remove(struct connections *connections, struct connection *connection)
{
    pthread_mutex_lock(&connections->lock);
    if (connection->phase != CONNECTION_CUT) {
        connections->open--;
        connections->held[connection->peer]--;
    }
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        connections->first = connection->next;
    pthread_cond_broadcast(&connections->changed);
    pthread_mutex_unlock(&connections->lock);
    mem_free(connection);
}

bool connections_enter(struct connections *connections, struct connection *connection,
                       enum connection_phase phase)
{
    int64_t now = now_ns();
    pthread_mutex_lock(&connections->lock);
    bool open = connection->phase != CONNECTION_CUT;
    if (open) {
        connection->phase = phase;
        connection->since_ns = now;
        if (phase == CONNECTION_ANSWERING)
            connection->served = connections->known[connection->peer] = true;
        if (phase == CONNECTION_IDLE) {
            connection->first_byte_ns = 0;
            connection->received_before = bytes_read(connection->fd);
        } else if (connection->first_byte_ns == 0) {
            connection->first_byte_ns = now;
        }
        if (connections->draining_since_ns != 0)
            pthread_cond_broadcast(&connections->changed);
    }
    pthread_mutex_unlock(&connections->lock);
    return open;
}

/* Nothing is going on, and for so long that nothing is on its way either. */
static bool is_quiet(const struct connection *connection, int64_t draining_since, int64_t now)
{
    bool greeting = connection->phase == CONNECTION_GREETING;
    int64_t since = connection->since_ns > draining_since ? connection->since_ns : draining_since;
    return (greeting || (connection->phase == CONNECTION_IDLE && !is_busy(connection))) &&
           now - since > (greeting ? GREETING_GRACE_NS : IDLE_GRACE_NS);
}

/* Shut idle connections down, count what is not finished. */
static struct connections_left drain_step_locked(struct connections *connections, int64_t now,
                                                 bool time_is_up, unsigned *ret_open)
{
    struct connections_left left = {0};
    unsigned open = 0;
    for (struct connection *c = connections->first; c != NULL; c = c->next) {
        note_first_byte_locked(c, now);
        left.busy += is_busy(c);
        left.handling += c->phase == CONNECTION_HANDLING;
        bool quiet = is_quiet(c, connections->draining_since_ns, now);
        if (c->phase != CONNECTION_CUT && c->phase != CONNECTION_HANDLING && (quiet || time_is_up))
            cut_locked(connections, c);
        open += c->phase != CONNECTION_CUT;
    }
    *ret_open = open;
    return left;
}

struct connections_left connections_drain(struct connections *connections, int64_t timeout_ms)
{
    pthread_mutex_lock(&connections->lock);
    int64_t now = now_ns();
    int64_t deadline_ns = now + timeout_ms * NS_PER_MS;
    connections->draining_since_ns = now;
    for (;;) {
        unsigned open;
        bool time_is_up = now >= deadline_ns;
        struct connections_left left = drain_step_locked(connections, now, time_is_up, &open);
        if (open == 0 || time_is_up) {
            pthread_mutex_unlock(&connections->lock);
            return left;
        }
        int64_t next_ns = now + IDLE_GRACE_NS / 5;
        wait_locked(connections, next_ns < deadline_ns ? next_ns : deadline_ns);
        now = now_ns();
    }
}
