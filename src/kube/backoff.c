/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/backoff.h"

#include <assert.h>
#include <sys/random.h>
#include <time.h>

void backoff_init(struct backoff *backoff, int64_t min_ms, int64_t max_ms)
{
    assert(0 < min_ms && min_ms <= max_ms);
    *backoff = (struct backoff){.min_ms = min_ms, .max_ms = max_ms};
    if (getrandom(&backoff->random, sizeof backoff->random, GRND_NONBLOCK) < 0)
        backoff->random = (uint64_t)time(NULL) ^ (uint64_t)(uintptr_t)backoff;
    backoff->random |= 1; /* xorshift stays at zero */
    backoff_reset(backoff);
}

void backoff_reset(struct backoff *backoff)
{
    backoff->range_ms =
        backoff->min_ms <= backoff->max_ms / 2 ? backoff->min_ms * 2 : backoff->max_ms;
}

int64_t backoff_next_ms(struct backoff *backoff)
{
    int64_t range = backoff->range_ms;
    int64_t low = range / 2 > backoff->min_ms ? range / 2 : backoff->min_ms;
    backoff->range_ms = range <= backoff->max_ms / 2 ? range * 2 : backoff->max_ms;
    return backoff_between(backoff, low, range);
}

/* xorshift64 (Marsaglia 2003): enough to spread clients. */
int64_t backoff_between(struct backoff *backoff, int64_t low, int64_t high)
{
    assert(low <= high);
    uint64_t x = backoff->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    backoff->random = x;
    return low + (int64_t)((x >> 1) % (uint64_t)(high - low + 1));
}
