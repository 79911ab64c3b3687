/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_FRAMING_H
#define HTTP_FRAMING_H

#include <stdbool.h>

#include <microhttpd.h>

/* How often the headers that delimit and address a request came, and with what. */
struct framing {
    unsigned hosts, lengths, encodings;
    const char *length, *encoding; /* of the request; the last one's value, NULL = none */
    bool expects;    /* to be told to go on before it sends its body */
    bool blank_name; /* "Content-Length :" is no name to the library, and may be one to a proxy */
};

/* Look through a request's headers. */
void framing_read(struct MHD_Connection *connection, struct framing *ret);

/* What is wrong with the headers, or NULL. The library takes the first of two and guesses; two ends
 * of a connection that guess differently are how requests get smuggled. */
const char *framing_problem(const struct framing *framing, const char *version);

#endif
