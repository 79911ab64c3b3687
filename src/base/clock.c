/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <assert.h>
#include <time.h>

static int64_t system_now_ns(void *self)
{
    (void)self;
    struct timespec now;
    int rc = clock_gettime(CLOCK_MONOTONIC, &now);
    assert(rc == 0);
    (void)rc;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct clock clock_system(void)
{
    return (struct clock){.now_ns = system_now_ns};
}
