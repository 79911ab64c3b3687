/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_API_H
#define FAKE_API_H

#include <stdbool.h>
#include <stddef.h>

/*
 * An API server on loopback that plays a script: it answers lists and watches of Nodes, Devices and
 * Pods as told, also as no real one would on demand. Without a script a list is empty and a watch
 * stays silent. One at a time; plain HTTP; a thread for each connection.
 */

enum fake_kind { FAKE_NODES, FAKE_DEVICES, FAKE_PODS, FAKE_NAMESPACES, FAKE_KINDS };
enum fake_verb { FAKE_LIST, FAKE_WATCH, FAKE_VERBS };

/* How an answer ends once its body is out. */
enum fake_end {
    FAKE_COMPLETE, /* in order */
    FAKE_CUT,      /* the connection is closed before the answer is complete */
    FAKE_RESET,    /* the same, with a reset */
    FAKE_HOLD,     /* not at all: events can be pushed, until the other side goes */
};

struct fake_reply {
    int status;         /* 0 = 200 */
    const char *header; /* further lines, each with its "\r\n"; NULL = none */
    const char *type;   /* NULL = application/json */
    const char *body;   /* NULL = empty; lives as long as the server */
    size_t piece;       /* bytes a chunk; 0 = all at once */
    enum fake_end end;
};

/* Start; returns the base URL. */
const char *fake_api_start(void);

/* End all connections and threads. */
void fake_api_stop(void);

/* The next reply to this verb on this kind; replies queue up. */
void fake_api_next(enum fake_kind kind, enum fake_verb verb, struct fake_reply reply);

/* Send `text` down the held watch of this kind, waiting for it to be there at most 30 s; false if
 * none came. */
bool fake_api_push(enum fake_kind kind, const char *text);

/* Number of requests so far. */
unsigned fake_api_requests(enum fake_kind kind, enum fake_verb verb);

/* The whole header of request `n` (from 0); NULL when there was none. */
const char *fake_api_request(enum fake_kind kind, enum fake_verb verb, unsigned n);

/* Wait at most 30 s until there were `n` requests; false if there were not. */
bool fake_api_wait(enum fake_kind kind, enum fake_verb verb, unsigned n);

/* Connections accepted so far. */
unsigned fake_api_connections(void);

#endif
