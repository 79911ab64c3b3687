/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PACK_LEARN_H
#define CORE_PACK_LEARN_H

#include <stddef.h>

#include "core/pack.h"

/*
 * From a mix of requests to packing tables: the value of free space by the dual prices of a
 * cutting-stock problem, the curves of what CPU and memory can serve, the typical pods of F, the
 * multi-card specs and the groups of models. Takes some milliseconds and no memory of its own.
 */

/* What to learn from. */
struct pack_mix {
    const struct pack_demand *demands; /* distinct pods, positive weights */
    uint32_t count;
    uint32_t models;        /* how many the cluster has */
    uint32_t cluster_cards; /* how many cards; sets how fast scarcity fades */
    /* Of a mix that is only a sample: as many pods, of the largest value seen, are taken to be
     * missing on each model that has cards. Counts only if some pods are bound to models at all. */
    double missing;
    uint32_t cards[PACK_MODELS_MAX];   /* of each model; all 0: not known, then they are alike */
    uint32_t largest[PACK_MODELS_MAX]; /* cards of the largest node of each; 0: not known */
    uint32_t guessed; /* the last so many demands are a guess, which knows nothing of models */
};

/* Corners that the curves of such tables may need: the owner of the tables gives them. */
size_t pack_learn_points(uint32_t demands, uint32_t models);

/* Bytes of memory, aligned for any type, that pack_learn works in and leaves again. */
size_t pack_learn_work_bytes(uint32_t demands);

/* Learn tables. They point into `points`; `work` is free again. A mix without GPUs gives tables that make pack
 * a best fit of cards, then nodes, where CPU weighs beside GPUs; while no pod is bound to models, a small part
 * of the demand is taken to be, on each by its cards. */
void pack_learn(const struct pack_mix *mix, const struct pack_weights *weights,
                struct pack_point *points, void *work, struct pack_tables *ret);

#endif
