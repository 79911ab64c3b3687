/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_LEARNER_H
#define SIM_LEARNER_H

#include "base/arena.h"
#include "core/pack_learn.h"
#include "sim/trace.h"

/* The owner of packing tables: from the whole list of pods, or from those seen so far. */
struct learner {
    struct pack_tables tables;
    const struct trace *trace;
    struct pack_demand *mix; /* a spec's place is by its first appearance */
    uint32_t *place;         /* of each spec in mix, from 1; 0 = not seen */
    uint32_t count;
    uint64_t seen, next; /* pods; when to learn again */
    struct pack_point *points;
    void *work;
};

/* Tables of an empty mix. Memory is arena's. 0 or -ENOMEM. */
int learner_init(struct learner *learner, const struct trace *trace, struct arena *arena);

/* Learn from the whole list of pods. */
void learner_learn_list(struct learner *learner);

/* Count a pod; true when it was time to learn again and the tables are new. */
bool learner_see(struct learner *learner, uint32_t spec);

#endif
