/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DEPARTURES_H
#define SIM_DEPARTURES_H

#include <stdbool.h>

#include "sim/cluster.h"

/* Pods that will leave, by time and then by arrival: a heap of fixed room. */
struct departure {
    int64_t at;
    uint32_t arrival, spec;
    struct place place;
};

struct departures {
    struct departure *heap;
    uint32_t count, room;
};

/* An empty heap for `room` departures. Memory is arena's. 0 or -ENOMEM. */
int departures_init(struct departures *departures, uint32_t room, struct arena *arena);

/* Add one; there must be room. */
void departures_add(struct departures *departures, const struct departure *departure);

/* Take the next one that is due at `now`; false if there is none. */
bool departures_take(struct departures *departures, int64_t now, struct departure *ret);

#endif
