/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/random.h"

uint64_t sim_random_next(struct sim_random *random)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t sim_random_below(struct sim_random *random, uint64_t n)
{
    return (uint64_t)((unsigned __int128)sim_random_next(random) * n >> 64);
}

double sim_random_unit(struct sim_random *random)
{
    return (double)(sim_random_next(random) >> 11) / 9007199254740992.0; /* 2^53 */
}

void sim_random_shuffle(struct sim_random *random, uint32_t *items, uint32_t count)
{
    for (uint32_t i = count; i-- > 1;) {
        uint64_t j = sim_random_below(random, (uint64_t)i + 1);
        uint32_t item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}
