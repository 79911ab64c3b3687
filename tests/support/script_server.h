/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_SCRIPT_SERVER_H
#define SUPPORT_SCRIPT_SERVER_H

/* An HTTP/1.1 server on loopback that does what a test says, misdeeds included. A thread each
 * connection. */
struct script_server;

enum script_how {
    SCRIPT_ANSWER,
    SCRIPT_HALF,  /* half of the answer, then the connection is closed */
    SCRIPT_DROP,  /* the request was read; the connection is closed without a byte */
    SCRIPT_RESET, /* the same with a TCP reset */
    SCRIPT_SILENT /* the request was read; no answer until the client goes */
};

struct script_act {
    enum script_how how;
    int status;          /* default 200 */
    const char *headers; /* further header lines, each with \r\n; NULL = none */
    const char *body;    /* NULL = empty; copied before the next call */
    int delay_ms;        /* before the answer */
};

struct script_request {
    const char *method, *path, *body; /* of the text below */
    const char *text;                 /* headers and body as received */
    unsigned number;                  /* 0 for the first of all */
};

/* `act` is called for each request, one at a time; it decides what happens. */
struct script_server *script_start(struct script_act (*act)(void *self,
                                                            const struct script_request *request),
                                   void *self);

/* "http://127.0.0.1:PORT" */
const char *script_url(const struct script_server *server);

/* Reset the next `count` connections as soon as they are accepted, before anything is read. */
void script_reset_next(struct script_server *server, unsigned count);

/* How many requests came, and the text of one; it stays until script_stop. */
unsigned script_count(struct script_server *server);
const char *script_text(struct script_server *server, unsigned number);

/* How many connections were accepted. */
unsigned script_connections(struct script_server *server);

/* Close everything, join the threads, free. */
void script_stop(struct script_server *server);

#endif
