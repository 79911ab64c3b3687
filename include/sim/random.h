/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdint.h>

/* SplitMix64: the same numbers from the same seed, everywhere and for ever. */
struct sim_random {
    uint64_t state; /* the seed at first */
};

/* The next 64 bits. */
uint64_t sim_random_next(struct sim_random *random);

/* A number below `n` (> 0): the high half of a 128-bit product, one draw. */
uint64_t sim_random_below(struct sim_random *random, uint64_t n);

/* A number in [0, 1) with 53 random bits. */
double sim_random_unit(struct sim_random *random);

/* Put items in random order: from the last down, each changes places with one not above it. */
void sim_random_shuffle(struct sim_random *random, uint32_t *items, uint32_t count);

#endif
