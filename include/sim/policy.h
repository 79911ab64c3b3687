/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_POLICY_H
#define SIM_POLICY_H

#include "base/str.h"
#include "sim/cluster.h"

/*
 * The policies that can be simulated: one table. Most give each node that fits a score and the
 * first node with the highest one is taken; `pack` weighs its options against prices, `random`
 * draws.
 */
struct sim_policy {
    const char *name;
    const char *summary;
    enum { POLICY_SCORES, POLICY_PACKS, POLICY_DRAWS } kind;
    /* Score of a node for a pod that fits; *ret_card is where a shared pod goes. */
    int32_t (*score)(const struct pack_tables *tables, const struct cluster *cluster, uint32_t node,
                     const struct pack_pod *pod, int32_t *ret_card);
};

#define POLICY_UNFIT INT32_MIN /* no score */

/* The policy called `name`, or NULL. */
const struct sim_policy *sim_policy_find(struct str name);

/* The i-th policy, NULL behind the last. */
const struct sim_policy *sim_policy_at(unsigned i);

#endif
