/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_RNG_H
#define SUPPORT_RNG_H

#include <stdint.h>

/* A small repeatable random source (SplitMix64) for property tests. */
struct rng {
    uint64_t state;
};

/* A source from TEST_SEED in the environment, else from `fallback`; says on stderr which, so that a
 * failure can be repeated. */
struct rng rng_seeded(uint64_t fallback);

/* Next 64 bits. */
uint64_t rng_next(struct rng *rng);

/* A number in 0..bound-1; bound > 0. */
uint32_t rng_below(struct rng *rng, uint32_t bound);

#endif
