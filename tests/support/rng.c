/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

#include <stdio.h>
#include <stdlib.h>

struct rng rng_seeded(uint64_t fallback)
{
    const char *text = getenv("TEST_SEED");
    struct rng rng = {text != NULL ? strtoull(text, NULL, 0) : fallback};
    fprintf(stderr, "TEST_SEED=%llu\n", (unsigned long long)rng.state);
    return rng;
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t rng_below(struct rng *rng, uint32_t bound)
{
    return (uint32_t)(rng_next(rng) % bound);
}
