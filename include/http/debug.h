/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DEBUG_H
#define HTTP_DEBUG_H

#include "http/server.h"

/* GET /debug/cache: what the cache holds, as JSON, nodes by name; ?node=NAME picks one. Only for
 * loopback peers and those with a valid client certificate, unless debug_remote is set (403).
 * `self` is a struct http_app. */
void debug_cache(void *self, const struct http_request *request, struct http_reply *reply);

#endif
