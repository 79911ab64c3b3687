/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_BACKOFF_H
#define KUBE_BACKOFF_H

#include <stdint.h>

/*
 * Pauses that double from failure to failure, each taken by chance from the upper half of its
 * range, so that clients that failed together do not return together. One thread's own.
 */
struct backoff {
    int64_t min_ms, max_ms;
    int64_t range_ms; /* of the next pause */
    uint64_t random;
};

/* Pauses from min_ms (> 0) to max_ms (>= min_ms). */
void backoff_init(struct backoff *backoff, int64_t min_ms, int64_t max_ms);

/* The pause after one more failure. */
int64_t backoff_next_ms(struct backoff *backoff);

/* It went well: begin with short pauses again. */
void backoff_reset(struct backoff *backoff);

/* A number by chance, low <= number <= high. */
int64_t backoff_between(struct backoff *backoff, int64_t low, int64_t high);

#endif
