/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_METRICS_H
#define HTTP_METRICS_H

#include "http/server.h"

/* GET /metrics, Prometheus text format 0.0.4: the counters and histograms of base/metrics.h, gauges
 * of the cache, and the gauges per card where configured. `self` is a struct http_app. */
void metrics_page(void *self, const struct http_request *request, struct http_reply *reply);

#endif
