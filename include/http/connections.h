/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CONNECTIONS_H
#define HTTP_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * Open connections and what each of them is doing, so that late ones can be cut and a stop can wait
 * for the busy ones. libmicrohttpd only knows a timeout of silence: a client that sends one byte a
 * second would hold its thread for ever.
 *
 * (greeting: TLS only) --handshake done--> idle
 *   idle --first byte--> arriving --body complete--> handling --answer queued--> answering
 * --sent--> idle
 *     \________________________/                                                     /
 *                 \---- late: 408, socket shut down: cut ----- late: cut -----------/
 *
 * A connection without a request may stay idle as long as the idle timeout allows. The first byte
 * of a request is seen in the kernel's count of received bytes, because the library tells of a
 * request only when its first line is complete. A handshake may take as long as a request. What is
 * late on an encrypted connection is cut without a 408, which could not be encrypted from outside.
 */
enum connection_phase {
    CONNECTION_GREETING,
    CONNECTION_IDLE,
    CONNECTION_ARRIVING,
    CONNECTION_HANDLING,
    CONNECTION_ANSWERING,
    CONNECTION_CUT,
};

/* One open connection. Owned by the table. */
struct connection {
    struct connection *next, *previous;
    int fd;
    bool encrypted;
    enum connection_phase phase;
    int64_t since_ns;         /* of the phase */
    int64_t first_byte_ns;    /* of the request; 0 = none seen */
    uint32_t peer;            /* its address, see connections_peer */
    bool served;              /* a request of it was answered */
    uint64_t received_before; /* bytes of the requests before this one */
};

#define CONNECTIONS_PEERS 1024

/* The table. Its own lock; every function may be called from any thread. */
struct connections {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t watchdog;
    struct connection *first;
    uint32_t open;                         /* not cut */
    uint32_t held[CONNECTIONS_PEERS];      /* of the open ones, by peer */
    bool known[CONNECTIONS_PEERS];         /* a request of this peer was answered */
    uint32_t seed;
    int64_t request_timeout_ns, answer_timeout_ns;
    int64_t draining_since_ns; /* 0 = not draining */
    bool stopped;
};

/* An empty table with a thread that cuts requests that take longer than `request_timeout_ms` to
 * arrive and answers that take longer than `answer_timeout_ms` to be taken. 0 or a negative errno
 * value. */
int connections_start(struct connections *connections, uint32_t request_timeout_ms,
                      uint32_t answer_timeout_ms);

/* End the thread and free the table; every connection has been closed. */
void connections_stop(struct connections *connections);

/* Who is at the other end, for fair shares: a number below CONNECTIONS_PEERS, the same for an IPv4 address or the
 * first half of an IPv6 address. Two that share a number share what they get; which do nobody can know. */
uint32_t connections_peer(const struct connections *connections, const struct sockaddr *address);

/* Is there room for one more connection of this peer, if there may be `max`? When there is none, another peer's
 * that waits for nothing is cut, if that peer has more, or never asked for anything as this one did: rather one over
 * which nothing was asked, then one of a peer that never asked, then one of who has most. Else it is one of the peer's
 * own, which may be on its way to be closed. False when there is none of these. */
bool connections_make_room(struct connections *connections, uint32_t peer, uint32_t max);

/* A connection of this peer was accepted, and is idle or, if encrypted, greeting; NULL when memory ends. */
struct connection *connections_add(struct connections *connections, int fd, bool encrypted,
                                   uint32_t peer);

/* A connection is about to be closed: its fd is not touched any more. */
void connections_remove(struct connections *connections, struct connection *connection);

/* The connection enters `phase`. False when it has been cut meanwhile: nothing may be sent on it.
 */
bool connections_enter(struct connections *connections, struct connection *connection,
                       enum connection_phase phase);

/* What a drain left over. */
struct connections_left {
    unsigned busy;     /* requests not answered */
    unsigned handling; /* of these, those whose handler is still running */
};

/* Wait until no request is arriving or being answered, at most `timeout_ms`. Connections are shut
 * down once they have been idle for a moment; after the time all are. */
struct connections_left connections_drain(struct connections *connections, int64_t timeout_ms);

#endif
