/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_ROUTE_H
#define HTTP_ROUTE_H

#include <stdint.h>

#include "base/str.h"
#include "http/server.h"

/* What a method and a path lead to. */
struct route_match {
    unsigned status;                /* 200 found, 404 no such path, 405 other method */
    const struct http_route *route; /* 200 */
    struct str rest;                /* 200: the path behind a prefix route's own */
    char allow[64];                 /* 405: the methods of the path, "GET, HEAD" */
};

/* Look up a request in a table. Exact paths win over prefixes, earlier rows over later ones. A GET
 * row also serves HEAD. */
void route_find(const struct http_route *routes, uint32_t count, const char *method,
                struct str path, struct route_match *ret);

#endif
