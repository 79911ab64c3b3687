/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_DEBUG_H
#define HTTP_DEBUG_H

#include "http/server.h"

/* GET /debug/cache: what the cache holds, as JSON, nodes by name; ?node=NAME picks one. Only for
 * loopback peers and those with a valid client certificate, unless debug_remote is set (403).
 * `self` is a struct http_app. */
void debug_cache(void *self, const struct http_request *request, struct http_reply *reply);

/* GET /debug/policy: what the policy pack goes by: the mix of requests as seen, the tables learned from it
 * and the prices as of now. For the same peers. `self` is a struct http_app. */
void debug_policy(void *self, const struct http_request *request, struct http_reply *reply);

#endif
