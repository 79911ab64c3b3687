/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_HTTP_MESSAGES_H
#define FUZZ_HTTP_MESSAGES_H

#include <stdbool.h>

#include "base/str.h"

/*
 * The two sides of an HTTP/1.1 connection, read naively and strictly (RFC 9112): the oracle of fuzz_http.c.
 * It leaves out what servers may read in different ways, and says so; it never guesses.
 */

struct plain_request {
    struct str method, path, query;
    struct str body; /* as decoded */
    bool stated;     /* its length came in a Content-Length */
};

enum plain {
    PLAIN_READ,       /* one whole request that has only one reading */
    PLAIN_UNFINISHED, /* the beginning of one: its handler must not run */
    PLAIN_AMBIGUOUS,  /* clear lines, but two lengths, or none or two hosts: must be refused */
    PLAIN_OTHER,      /* anything else */
};

/* Read the next request of `rest` and move it on. A body that came in chunks is put together in `room`, which
 * has as many bytes as `rest`. */
enum plain plain_request_next(struct str *rest, char *room, struct plain_request *ret);

struct plain_answer {
    unsigned status;
    bool close;
    bool json; /* by its Content-Type */
    struct str body;
};

/* Read the next answer of `rest` and move it on; `head` = it is one to HEAD, and has a length and no body.
 * False when there is no well-formed one. */
bool plain_answer_next(struct str *rest, bool head, struct plain_answer *ret);

#endif
