/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_TEST_CACHE_H
#define SUPPORT_TEST_CACHE_H

#include "state/cache.h"

/* Free a cache whose invariants hold; otherwise the test has failed. */
void cache_free_sound(struct cache *cache);

/* So many GPUs, of each so many percent of compute and of memory; 100 is a whole one. */
struct pod_request gpus(int64_t count, int64_t percent);

#endif
