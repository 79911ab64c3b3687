/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DECIDER_H
#define SIM_DECIDER_H

#include <stdbool.h>

#include "sim/cluster.h"
#include "sim/memo.h"
#include "sim/policy.h"
#include "sim/random.h"

/*
 * Chooses node and card for one pod after the other. With a memo it scores a node again only if it
 * changed since a pod of the same spec was last decided; what it chooses is the same.
 */
struct decider {
    const struct sim_policy *policy;
    const struct trace *trace;
    const struct cluster *cluster;
    const struct pack_tables *tables;
    struct pack_market market;
    struct sim_random *random;
    struct memo *memo; /* NULL: none */
};

/* What was chosen. */
struct choice {
    uint32_t node;
    int32_t card; /* PACK_NO_CARD: whole cards, or none */
};

/* The tables are new: forget what was computed with others. */
void decider_reset(struct decider *decider);

/* Choose for a pod of `spec`: 1 and *ret, 0 when it fits nowhere, or -ENOMEM. */
int decider_choose(struct decider *decider, uint32_t spec, struct choice *ret);

/* A node is about to change (sign -1), or has changed (sign 1). */
void decider_node_moves(struct decider *decider, uint32_t node, int sign);

#endif
