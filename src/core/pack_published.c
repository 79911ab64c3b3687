/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack_published.h"

#include <math.h>

#include "core/pack_frag.h"

/* The node that BestFit measures by. */
#define BESTFIT_CPU_MILLI  128000.0
#define BESTFIT_CARD_MILLI 8000.0

int32_t pack_tightest_card(const struct pack_node *node, const struct pack_pod *pod)
{
    int32_t best = PACK_NO_CARD;
    if (!pack_is_shared(pod))
        return best;
    for (uint32_t card = 0; card < node->cards; card++) {
        int32_t left = node->free_milli[card] - pod->milli;
        if (left >= 0 && (best < 0 || node->free_milli[card] < node->free_milli[best]))
            best = (int32_t)card;
    }
    return best;
}

int32_t published_bestfit(const struct pack_node *node, const struct pack_pod *pod,
                          int32_t *ret_card)
{
    int64_t left = -(int64_t)pod->cards * pod->milli;
    for (uint32_t card = 0; card < node->cards; card++)
        left += node->free_milli[card];
    double waste = (double)(node->cpu_milli - pod->cpu_milli) / BESTFIT_CPU_MILLI * 0.5;
    waste += (double)left / BESTFIT_CARD_MILLI * 0.5;
    *ret_card = pack_tightest_card(node, pod);
    return (int32_t)((1.0 - waste) * 100.0);
}

/* Why free milli are of no use to a typical pod, in the order in which the sums are added up. */
enum waste {
    NO_CPU_NO_GPU,
    NO_GPU,
    NO_CPU,
    CPU_POD_FITS,
    CPU_POD_LACKS_CPU,
    WRONG_MODEL,
    WASTE_MAX
};

/* F to the last bit as the published simulator has it: FGD truncates what it makes of it. */
static double waste_of(const struct pack_tables *tables, uint32_t model, int64_t cpu_milli,
                       const struct frag_shape *shape)
{
    double sums[WASTE_MAX] = {0};
    double total = (double)shape->free_milli;
    for (uint32_t i = 0; i < tables->typical_count; i++) {
        const struct pack_typical *pod = &tables->typical[i];
        bool has_cpu = cpu_milli >= pod->cpu_milli;
        if (pod->cards == 0)
            sums[has_cpu ? CPU_POD_FITS : CPU_POD_LACKS_CPU] += pod->share * total;
        else if (!pack_allows(pod->models, model))
            sums[WRONG_MODEL] += pod->share * total;
        else if (shape->fitting[pod->size] < pod->cards)
            sums[has_cpu ? NO_GPU : NO_CPU_NO_GPU] += pod->share * total;
        else if (!has_cpu)
            sums[NO_CPU] += pod->share * total;
        else
            sums[NO_GPU] += pod->share * (double)shape->below[pod->size];
    }
    double waste = 0;
    for (enum waste why = 0; why < WASTE_MAX; why++)
        waste += sums[why];
    return waste;
}

/* 0..100, 50 when F stays as it is. */
static int32_t fgd_score(double before, double after)
{
    return (int32_t)(1.0 / (1.0 + exp(-(before - after) / PACK_CARD_MILLI)) * 100.0);
}

int32_t published_fgd(const struct pack_tables *tables, const struct pack_node *node,
                      const struct pack_pod *pod, int32_t *ret_card)
{
    struct frag_shape shape;
    frag_shape_init(tables, node, &shape);
    double before = waste_of(tables, node->model, node->cpu_milli, &shape);
    int64_t cpu_milli = node->cpu_milli - pod->cpu_milli;
    if (!pack_is_shared(pod)) {
        frag_shape_move(tables, &shape, pod->cards, PACK_CARD_MILLI, 0);
        *ret_card = PACK_NO_CARD;
        return fgd_score(before, waste_of(tables, node->model, cpu_milli, &shape));
    }

    int32_t best = -1;
    for (uint32_t card = 0; card < node->cards; card++) {
        int32_t free_milli = node->free_milli[card];
        if (free_milli < pod->milli || pack_seen_before(node, card))
            continue;
        int32_t left = free_milli - pod->milli;
        frag_shape_move(tables, &shape, 1, free_milli, left);
        int32_t score = fgd_score(before, waste_of(tables, node->model, cpu_milli, &shape));
        frag_shape_move(tables, &shape, 1, left, free_milli);
        if (score > best) {
            best = score;
            *ret_card = (int32_t)card;
        }
    }
    return best;
}
