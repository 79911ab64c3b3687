/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_CACHE_MODEL_H
#define SUPPORT_CACHE_MODEL_H

#include <stdint.h>

/*
 * The cache against a naive model: flat arrays, no lock, no columns, no incremental sums; used amounts
 * are added up from all pods whenever they are asked for, and whether a pod fits is found by looking at
 * every card. One pair of them a process. A difference fails the cmocka test that runs, or else ends
 * the process.
 */

/* Who decides what happens: a random source, or bytes. */
struct choices {
    uint32_t (*below)(void *self, uint32_t bound); /* a number in 0..bound-1 */
    void *self;
};

/* An empty cache and an empty model. */
void cache_model_begin(struct choices choices);

/* One event or verb on both; the node that it touched is compared. */
void cache_model_step(void);

/* Compare everything, and check the cache's own invariants. */
void cache_model_compare(void);

/* Free the cache. */
void cache_model_end(void);

#endif
