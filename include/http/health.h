/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_HEALTH_H
#define HTTP_HEALTH_H

#include "http/server.h"

/*
 * The probes, in the form of Kubernetes' own components: "ok", or with ?verbose or on failure one
 * line a check. `self` is a struct http_app.
 */

/* GET /livez and /healthz: the process answers. */
void health_live(void *self, const struct http_request *request, struct http_reply *reply);

/* GET /readyz: the first lists are complete, the TLS files are good and the daemon is not stopping;
 * 503 otherwise. */
void health_ready(void *self, const struct http_request *request, struct http_reply *reply);

#endif
