/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PACK_FRAG_H
#define CORE_PACK_FRAG_H

#include "core/pack.h"

/*
 * Fragmentation of a node, F: the free milli that a pod of the typical mix cannot use, weighted by
 * how often such a pod comes (Weng et al., USENIX ATC '23). A pod can use what the cards that fit
 * it have free, if it may use the model, finds its cores and enough such cards; else nothing.
 */

/* What F reads of a node's cards, so that one card's change need not look at the others. */
struct frag_shape {
    int64_t free_milli;
    int32_t fitting[PACK_TYPICAL_MAX]; /* cards with at least tables.sizes[i] free */
    int64_t below[PACK_TYPICAL_MAX];   /* free milli of the other cards */
};

/* The shape of node's cards. */
void frag_shape_init(const struct pack_tables *tables, const struct pack_node *node,
                     struct frag_shape *ret);

/* Change `count` cards from `from` free milli to `to`. */
void frag_shape_move(const struct pack_tables *tables, struct frag_shape *shape, int32_t count,
                     int32_t from, int32_t to);

/* F, in milli, of a node of this model with these free cores. */
double frag_measure(const struct pack_tables *tables, uint32_t model, int64_t cpu_milli,
                    const struct frag_shape *shape);

/* F of a node, in milli. */
double frag_of_node(const struct pack_tables *tables, const struct pack_node *node);

#endif
