/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_CACHE_MODEL_H
#define SUPPORT_CACHE_MODEL_H

#include <stdint.h>

/*
 * The cache against a naive model (cache_world.h): flat arrays, no lock, no columns, no incremental sums; used
 * amounts are added up from all pods whenever they are asked for, and whether a pod fits is found by looking
 * at every card. One pair of them a process. A difference fails the cmocka test that runs, or else ends
 * the process.
 *
 * Every event and verb of state/cache.h comes: nodes, devices and pods that are set, removed, told of twice, late,
 * edited and moved; relists of each kind with events in between; pods that are learned and settled; filter,
 * hold, await, book and each of its outcomes; what-ifs, wakes, counters, and both rules that may change.
 */

/* Who decides what happens: a random source, or bytes. */
struct choices {
    uint32_t (*below)(void *self, uint32_t bound); /* a number in 0..bound-1 */
    void *self;
};

/* An empty cache and an empty model, of so many nodes (6 at most) and pods (40 at most). */
void cache_model_begin(struct choices choices, int node_count, int pod_count);

/* One event or verb on both; the node that it touched is compared. */
void cache_model_step(void);

/* Compare everything, and check the cache's own invariants. */
void cache_model_compare(void);

/* Free the cache. */
void cache_model_end(void);

#endif
