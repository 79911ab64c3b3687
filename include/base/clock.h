/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Time behind a pointer, so that a test can own it. */
struct clock {
    int64_t (*now_ns)(void *self); /* monotonic nanoseconds */
    void *self;
};

/* The system's monotonic clock. */
struct clock clock_system(void);

/* Nanoseconds of `clock` now. */
static inline int64_t clock_now_ns(const struct clock *clock)
{
    return clock->now_ns(clock->self);
}

#endif
