/* SPDX-License-Identifier: Apache-2.0 */
#include "core/score.h"

#include <stdbool.h>

#define WIRE_MAX 10 /* of a node in kube-scheduler's extender protocol */

const struct score_weights score_default_weights = {
    .weight =
        {
            [DEVICE_GPU] = {[DIM_RATIO] = 1, [DIM_BYTES] = 1},
            [DEVICE_RDMA] = {[DIM_PERCENT] = 1},
            [DEVICE_FPGA] = {[DIM_PERCENT] = 1},
        },
};

/* One resource, from what would be left of it; nothing is left when the request is too large. */
static int64_t score_one(enum score_strategy strategy, int64_t max, int64_t request,
                         int64_t total, int64_t free_amount)
{
    int64_t left = 0;
    if (free_amount <= total && request <= free_amount)
        left = free_amount - request;
    return (strategy == SCORE_LEAST_ALLOCATED ? left : total - left) * max / total;
}

static int64_t score_list(enum score_strategy strategy, const int64_t weight[DIM_MAX], int64_t max,
                          const struct amount *request, const struct amount *total,
                          const struct amount *free_amount)
{
    int64_t score = 0, weights = 0;
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        int64_t of = amount_get(total, dim);
        if (of <= 0 || weight[dim] == 0)
            continue;
        score += weight[dim] * score_one(strategy, max, amount_get(request, dim), of,
                                         amount_get(free_amount, dim));
        weights += weight[dim];
    }
    return weights > 0 ? score / weights : 0;
}

int64_t score_amounts(enum score_strategy strategy, const int64_t weight[DIM_MAX],
                      const struct amount *request, const struct amount *total,
                      const struct amount *free_amount)
{
    return score_list(strategy, weight, SCORE_MAX, request, total, free_amount);
}

int64_t score_node(enum score_strategy strategy, const struct score_weights *weights, int64_t max,
                   const struct cards *cards, const struct pod_request *request)
{
    int64_t score = 0;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        if (request->of[kind].count == 0)
            continue;
        struct cards_sum space;
        const struct cards_sum *sum = cards_sum_of(cards, kind, &space);
        score += score_list(strategy, weights->weight[kind], max, &request->of[kind].each,
                            &sum->total, &sum->left);
    }
    return score;
}

void score_coarsen(int64_t *scores, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        scores[i] /= SCORE_FINE / SCORE_MAX;
}

void score_normalize(int64_t *scores, uint32_t count)
{
    int64_t max = 0;
    for (uint32_t i = 0; i < count; i++)
        if (scores[i] > max)
            max = scores[i];
    int64_t raw = 0, scaled = 0; /* of the one before: many are equal, and a division is slow */
    for (uint32_t i = 0; max > 0 && i < count; i++) {
        if (scores[i] != raw) {
            raw = scores[i];
            scaled = raw * SCORE_MAX / max;
        }
        scores[i] = scaled;
    }
}

void score_stretch(int64_t *scores, uint32_t count)
{
    if (count == 0)
        return;
    int64_t min = scores[0], max = scores[0];
    for (uint32_t i = 1; i < count; i++) {
        min = scores[i] < min ? scores[i] : min;
        max = scores[i] > max ? scores[i] : max;
    }
    int64_t range = max - min, before = min, stretched = range == 0 ? WIRE_MAX : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scores[i] != before) {
            before = scores[i];
            stretched = (2 * WIRE_MAX * (before - min) + range) / (2 * range);
        }
        scores[i] = stretched;
    }
}

void score_favour_best(int64_t *scores, uint32_t count)
{
    int64_t min = INT64_MAX, max = 0;
    for (uint32_t i = 0; i < count; i++) {
        max = scores[i] > max ? scores[i] : max;
        min = scores[i] > 0 && scores[i] < min ? scores[i] : min;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (scores[i] == max)
            scores[i] = WIRE_MAX;
        else if (scores[i] > 0)
            scores[i] = 1 + (WIRE_MAX - 1) * (scores[i] - min) / (max - min + 1);
    }
}
