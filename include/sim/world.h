/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "sim/decider.h"
#include "sim/experiment.h"
#include "sim/learner.h"

/*
 * A cluster with what decides on it and what measures it. Pods arrive and leave; fragmentation is
 * kept up by the typical pods of the whole list, whatever the policy knows.
 */
struct world {
    const struct experiment *experiment;
    struct arena memory;
    struct cluster cluster;
    struct learner list;  /* learned from the whole list: the measure of fragmentation */
    struct learner known; /* what the policy knows */
    struct memo memo;
    struct decider decider;
    double *waste; /* F of each node */
    double waste_sum;
    int64_t *decision_ns;
    uint64_t decisions, decision_room;
    uint32_t rejected[CLASS_MAX];
};

/* An empty cluster. `decisions`: how many pods will arrive. 0 or -ENOMEM. The world must not move
 * in memory afterwards. */
int world_init(struct world *world, const struct experiment *experiment, const uint32_t *ranks,
               uint64_t decisions, struct sim_random *random);

/* Free it; a zeroed one is fine. */
void world_done(struct world *world);

/* A pod of `spec` arrives: 1 and where it is, 0 when it was dropped, or -ENOMEM. */
int world_arrive(struct world *world, uint32_t spec, struct place *ret);

/* It leaves again. */
void world_leave(struct world *world, uint32_t spec, struct place place);

/* Decisions, their times and the dropped pods, into the result. */
void world_report(struct world *world, struct experiment_result *ret);

#endif
