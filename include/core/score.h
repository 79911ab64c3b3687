/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SCORE_H
#define CORE_SCORE_H

#include <stdint.h>

#include "core/device.h"
#include "core/request.h"

/*
 * Koordinator's resource scores (pkg/scheduler/plugins/deviceshare/scoring.go): per resource
 * (total - requested) * 100 / total or requested * 100 / total, weighted, in integer divisions.
 */
#define SCORE_MAX 100

/* Finer, for who ranks nodes by it: a pod with a hundredth of a card takes an eightieth of SCORE_MAX's
 * step on a node of eight cards, and the next pod must see it. */
#define SCORE_FINE 10000

enum score_strategy { SCORE_LEAST_ALLOCATED, SCORE_MOST_ALLOCATED };

/* Weight of each dimension of each kind; Koordinator's default is 1 for everything but gpu-core. */
struct score_weights {
    int64_t weight[DEVICE_KIND_MAX][DIM_MAX];
};

/* Koordinator's default weights. */
extern const struct score_weights score_default_weights;

/* Score 0..100 of one resource list: a card, or a node's cards summed. `request` is what the pod
 * takes in the dimensions it named; dimensions whose total is 0 are left out. 0 when none
 * remains. */
int64_t score_amounts(enum score_strategy strategy, const int64_t weight[DIM_MAX],
                      const struct amount *request, const struct amount *total,
                      const struct amount *free_amount);

/* Node score: for each requested kind score_amounts, on a scale to `max` (SCORE_MAX or SCORE_FINE) instead of
 * 100, over the sums of the node's cards with the PER-CARD request, added up (so it may exceed `max`). */
int64_t score_node(enum score_strategy strategy, const struct score_weights *weights, int64_t max,
                   const struct cards *cards, const struct pod_request *request);

/* From SCORE_FINE to SCORE_MAX, rounded down. In place. */
void score_coarsen(int64_t *scores, uint32_t count);

/* Scale raw scores so that the best is 100 (x 100 / max, integer); all zero stays zero. In
 * place. */
void score_normalize(int64_t *scores, uint32_t count);

/* From normalised scores to kube-scheduler's 0..10: round(10 x (s - min) / (max - min)), 10 for
 * all when equal; half rounds up. In place. */
void score_stretch(int64_t *scores, uint32_t count);

/* From scores that lie close together to 0..10, so that the best stands out: 10 for it and its equals,
 * 0 for what does not fit (0), the others 1..9 in proportion. In place. */
void score_favour_best(int64_t *scores, uint32_t count);

#endif
