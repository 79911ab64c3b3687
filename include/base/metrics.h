/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdint.h>

#include "base/strbuf.h"

/*
 * Process-wide counters and histograms from one table; atomic, no lock, no registration.
 * A family has at most one label, whose values are a closed list in the table: cardinality is bounded
 * by construction. Gauges that come from the cache are rendered by their own writer (http/metrics).
 *
 * METRIC_COUNTER(ID, name, help, label, values): values is one string of words joined by '|', in the
 * order of the enum that the caller indexes with; label "" and values "" for a plain counter.
 */
#define METRIC_COUNTERS(X)                                                                         \
    X(METRIC_ALLOCATIONS, "scheduler_deviceshare_allocations_total",                               \
      "Device allocations decided at bind, by result.", "result", "success|refused|error|unknown") \
    X(METRIC_REQUESTS, "deviceshare_extender_requests_total", "Extender calls answered, by verb.", \
      "verb", "filter|prioritize|preempt|bind")                                                    \
    X(METRIC_REQUEST_ERRORS, "deviceshare_extender_request_errors_total",                          \
      "Extender calls answered with an error, by verb.", "verb", "filter|prioritize|preempt|bind") \
    X(METRIC_INVALID_REQUESTS, "deviceshare_invalid_device_requests_total",                        \
      "Filter calls for pods whose device request is invalid.", "", "")                            \
    X(METRIC_WORDS_IGNORED, "deviceshare_hami_policy_words_ignored_total",                         \
      "Policy words of HAMi's that mean nothing here, each time they were read.", "", "")          \
    X(METRIC_SAMPLE_REJECTED, "deviceshare_filter_sample_rejected_total",                          \
      "Filter calls in which no candidate node fitted.", "", "")                                   \
    X(METRIC_FORGED_FILTERS, "deviceshare_filter_body_differs_total",                              \
      "Filter calls whose pod differs from the stored API object.", "", "")                        \
    X(METRIC_DRIFT, "deviceshare_allocation_drift_total",                                          \
      "Pods whose allocation is not what was booked, by kind.", "kind",                            \
      "edited|moved|unbound|inconsistent|incomplete|unreadable|missing|doubled")                   \
    X(METRIC_BAD_OBJECTS, "deviceshare_bad_objects_total",                                         \
      "API objects that could not be read, by kind.", "kind",                                       \
      "node|device|pod|registration|namespace")                                                    \
    X(METRIC_FILTER_WAITS, "deviceshare_filter_waits_total",                                       \
      "Filter calls that waited for the bind of a pod in flight, by what came of it.", "result",   \
      "arrived|timeout|unknown")                                                                   \
    X(METRIC_TURN_WAITS, "deviceshare_hami_turn_waits_total",                                      \
      "Binds that waited for HAMi's device plugin to set up the pod before, by what came of it.",  \
      "result", "arrived|timeout|refused")                                                         \
    X(METRIC_TENTATIVE, "deviceshare_tentative_bookings_total",                                    \
      "Cards held for a pod because filter left one node.", "", "")                                \
    X(METRIC_TENTATIVE_EXPIRED, "deviceshare_tentative_bookings_expired_total",                    \
      "Tentative bookings whose pod was not bound in time.", "", "")                               \
    X(METRIC_WAKES, "deviceshare_pods_woken_total",                                                \
      "Rejected pods that were woken because something made room.", "", "")                        \
    X(METRIC_HTTP_RESPONSES, "deviceshare_http_responses_total", "HTTP answers by status class.",  \
      "code", "2xx|4xx|5xx")                                                                       \
    X(METRIC_CONFIG_RELOADS, "deviceshare_config_reloads_total",                                   \
      "Configuration reloads, by result.", "result", "success|refused")

/* Histograms of seconds with fixed buckets; same label rule. */
#define METRIC_HISTOGRAMS(X)                                                                       \
    X(METRIC_REQUEST_SECONDS, "deviceshare_extender_request_duration_seconds",                     \
      "Time from the complete request body to the complete answer, by verb.", "verb",              \
      "filter|prioritize|preempt|bind")                                                            \
    X(METRIC_BIND_CALL_SECONDS, "deviceshare_bind_call_duration_seconds",                          \
      "Time of the outward binding call.", "", "")

#define X(id, ...) id,
enum metric_counter { METRIC_COUNTERS(X) METRIC_COUNTER_MAX };
enum metric_histogram { METRIC_HISTOGRAMS(X) METRIC_HISTOGRAM_MAX };
#undef X

/* Indexes into the label values above. */
enum metric_verb { VERB_FILTER, VERB_PRIORITIZE, VERB_PREEMPT, VERB_BIND, VERB_MAX };
enum metric_allocation { ALLOCATION_SUCCESS, ALLOCATION_REFUSED, ALLOCATION_ERROR, ALLOCATION_UNKNOWN };
enum metric_wait { WAIT_ARRIVED, WAIT_TIMEOUT, WAIT_UNKNOWN };
enum metric_turn { TURN_ARRIVED, TURN_TIMEOUT, TURN_REFUSED };
enum metric_drift {
    DRIFT_EDITED,       /* annotation changed after it was taken; not applied */
    DRIFT_MOVED,        /* seen bound to another node than booked */
    DRIFT_UNBOUND,      /* a bound pod was seen without a node */
    DRIFT_INCONSISTENT, /* annotation does not match the pod's own request */
    DRIFT_INCOMPLETE,   /* annotation names fewer cards than the request needs */
    DRIFT_UNREADABLE,   /* annotation is not readable */
    DRIFT_MISSING,      /* a placed device pod without annotation */
    DRIFT_DOUBLED,      /* on a card of which its pods have more than there is */
};
enum metric_object {
    OBJECT_NODE,
    OBJECT_DEVICE,
    OBJECT_POD,
    OBJECT_REGISTRATION,
    OBJECT_NAMESPACE
};

/* Add `n` to counter `id`; `label` indexes its values (0 for a plain counter). Out-of-range labels are
 * a programming error (assert). Thread safe. */
void metrics_add(enum metric_counter id, unsigned label, uint64_t n);

/* The value of a counter. */
uint64_t metrics_get(enum metric_counter id, unsigned label);

/* Record a duration in a histogram. Thread safe. */
void metrics_observe_ns(enum metric_histogram id, unsigned label, int64_t ns);

/* Append all families in Prometheus text format 0.0.4; each line ends in a newline, buckets are
 * cumulative and +Inf equals _count within one rendering. */
void metrics_render(struct strbuf *out);

/* Set everything to zero. Tests only. */
void metrics_reset(void);

/* Index of an HTTP status in the label values of METRIC_HTTP_RESPONSES. */
static inline unsigned metrics_status_class(unsigned status)
{
    return status >= 500 ? 2 : status >= 400 ? 1 : 0;
}

#endif
