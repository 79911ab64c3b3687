/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/pack_frag.h"

/* Gains nearer than this are equal: what is left of them is rounding. */
#define SAME_GAIN 1e-12
/* The smallest part of the free value that a group of models is taken to reach. */
#define REACH_MIN 0.002

const struct pack_weights pack_default_weights = {
    .cpu_scale = 0.9,
    .fragmentation = 0.12,
    .card_fit = 2e-4,
    .node_fit = 6e-4,
    .core_fit = 6e-6,
    .model = 0.2,
    .scarcity = 60.0,
    .fade = 0.15225,
    .rank = 0.002,
};

/* A node's state, or what a placement would leave of it, as the terms of the gain read it. */
struct rest {
    int64_t cpu_milli, memory_mib;
    uint32_t whole; /* untouched cards */
    double value;   /* of all cards */
};

bool pack_fits(const struct pack_node *node, const struct pack_pod *pod)
{
    if (node->cpu_milli < pod->cpu_milli || node->memory_mib < pod->memory_mib)
        return false;
    if (pod->cards == 0)
        return true;
    if (!pack_allows(pod->models, node->model))
        return false;
    int32_t fitting = 0;
    for (uint32_t card = 0; card < node->cards; card++)
        fitting += node->free_milli[card] >= pod->milli;
    return fitting >= pod->cards;
}

static double value_of(const struct pack_tables *tables, int32_t free_milli)
{
    return tables->value[free_milli / PACK_CELL_MILLI];
}

/* A size between two cells needs the next one. */
static double pod_value(const struct pack_tables *tables, const struct pack_pod *pod)
{
    int32_t cells = (pod->milli + PACK_CELL_MILLI - 1) / PACK_CELL_MILLI;
    return pod->cards * tables->value[cells];
}

static struct rest rest_of(const struct pack_tables *tables, const struct pack_node *node)
{
    struct rest rest = {.cpu_milli = node->cpu_milli, .memory_mib = node->memory_mib};
    for (uint32_t card = 0; card < node->cards; card++) {
        rest.whole += node->free_milli[card] == PACK_CARD_MILLI;
        rest.value += value_of(tables, node->free_milli[card]);
    }
    return rest;
}

/* What is left of node after pod, on `card` if it is a shared one. The value is added up anew, in
 * the order of the cards, so that equal states have equal values to the last bit. */
static struct rest rest_after(const struct pack_tables *tables, const struct pack_node *node,
                              const struct pack_pod *pod, int32_t card)
{
    struct rest rest = {.cpu_milli = node->cpu_milli - pod->cpu_milli,
                        .memory_mib = node->memory_mib - pod->memory_mib};
    int32_t to_take = card == PACK_NO_CARD ? pod->cards : 0;
    for (uint32_t i = 0; i < node->cards; i++) {
        int32_t left = node->free_milli[i];
        if ((int32_t)i == card) {
            left -= pod->milli;
        } else if (to_take > 0 && left == PACK_CARD_MILLI) {
            left = 0;
            to_take--;
        }
        rest.whole += left == PACK_CARD_MILLI;
        rest.value += value_of(tables, left);
    }
    return rest;
}

/* ---- affordability ---- */

static double curve_at(const struct pack_curve *curve, double x)
{
    if (curve->count == 0 || x >= curve->points[curve->count - 1].at)
        return 1.0;
    uint32_t low = 0, high = curve->count; /* points[low].at <= x < points[high].at */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (curve->points[middle].at <= x)
            low = middle;
        else
            high = middle;
    }
    const struct pack_point *point = &curve->points[low];
    return point->share + (x - point->at) / point->need;
}

/* The part of a node's free value that its CPU and its memory can serve. */
static double potential(const struct pack_tables *tables, uint32_t model, const struct rest *rest)
{
    if (rest->value <= 0)
        return 0;
    double cpu = curve_at(&tables->cpu[model], (double)rest->cpu_milli / rest->value);
    double memory = curve_at(&tables->memory[model], (double)rest->memory_mib / rest->value);
    return rest->value * (cpu < memory ? cpu : memory);
}

/* ---- multi-card specs ---- */

/* How many pods like `pod` fit. Few cards bound them, so counting down is cheaper than dividing. */
static uint32_t copies_of(const struct pack_pod *pod, uint32_t model, const struct rest *rest)
{
    uint32_t copies = rest->whole / (uint32_t)pod->cards;
    if (copies == 0 || !pack_allows(pod->models, model))
        return 0;
    while (copies > 0 && (copies * pod->cpu_milli > rest->cpu_milli ||
                          copies * pod->memory_mib > rest->memory_mib))
        copies--;
    return copies;
}

static void count_copies(const struct pack_tables *tables, uint32_t model, const struct rest *rest,
                         uint16_t *ret)
{
    for (uint32_t i = 0; i < tables->scarce_count; i++)
        ret[i] = (uint16_t)copies_of(&tables->scarce[i].pod, model, rest);
}

/* ---- options ---- */

/* A node before the pod, and the pod: what all its options start from. */
struct start {
    const struct pack_tables *tables;
    const struct pack_node *node;
    const struct pack_pod *pod;
    struct frag_shape shape;
    uint16_t copies[PACK_SCARCE_MAX];
    double potential, waste;
    double fit; /* pod's value less the terms that prefer a full node */
};

static void start_init(struct start *start, const struct pack_tables *tables,
                       const struct pack_node *node, const struct pack_pod *pod)
{
    const struct pack_weights *weights = &tables->weights;
    struct rest rest = rest_of(tables, node);
    start->tables = tables;
    start->node = node;
    start->pod = pod;
    frag_shape_init(tables, node, &start->shape);
    count_copies(tables, node->model, &rest, start->copies);
    start->potential = potential(tables, node->model, &rest);
    start->waste = frag_measure(tables, node->model, node->cpu_milli, &start->shape);
    double fit = weights->node_fit * (double)start->shape.free_milli / PACK_CARD_MILLI +
                 weights->core_fit * (double)node->cpu_milli / 1000;
    start->fit = pod_value(tables, pod) - fit;
}

/* F after the placement; the shape is as before when this returns. */
static double waste_after(struct start *start, int32_t card)
{
    int32_t count = card == PACK_NO_CARD ? start->pod->cards : 1;
    int32_t from = card == PACK_NO_CARD ? PACK_CARD_MILLI : start->node->free_milli[card];
    int32_t to = from - (card == PACK_NO_CARD ? PACK_CARD_MILLI : start->pod->milli);
    frag_shape_move(start->tables, &start->shape, count, from, to);
    double waste = frag_measure(start->tables, start->node->model,
                                start->node->cpu_milli - start->pod->cpu_milli, &start->shape);
    frag_shape_move(start->tables, &start->shape, count, to, from);
    return waste;
}

static double gain_of(struct start *start, int32_t card, const struct rest *after)
{
    const struct pack_weights *weights = &start->tables->weights;
    double gain = potential(start->tables, start->node->model, after) - start->potential;
    gain -= weights->fragmentation * (waste_after(start, card) - start->waste) / PACK_CARD_MILLI;
    if (card != PACK_NO_CARD)
        gain -= weights->card_fit * start->node->free_milli[card] / PACK_CARD_MILLI;
    return gain + start->fit;
}

static void option_fill(struct start *start, int32_t card, struct pack_option *ret)
{
    const struct pack_tables *tables = start->tables;
    struct rest after = rest_after(tables, start->node, start->pod, card);
    ret->card = card;
    ret->gain = gain_of(start, card, &after);
    count_copies(tables, start->node->model, &after, ret->lost);
    for (uint32_t i = 0; i < tables->scarce_count; i++)
        ret->lost[i] = (uint16_t)(start->copies[i] - ret->lost[i]);
}

/* The best card of one sort, used or untouched, the first of equals; false if none fits. */
static bool best_shared(struct start *start, bool untouched, struct pack_option *ret)
{
    const struct pack_node *node = start->node;
    bool found = false;
    for (uint32_t card = 0; card < node->cards; card++) {
        int32_t free_milli = node->free_milli[card];
        if ((free_milli == PACK_CARD_MILLI) != untouched || free_milli < start->pod->milli ||
            pack_seen_before(node, card))
            continue;
        struct pack_option option;
        option_fill(start, (int32_t)card, &option);
        if (!found || option.gain > ret->gain + SAME_GAIN)
            *ret = option;
        found = true;
    }
    return found;
}

unsigned pack_options(const struct pack_tables *tables, const struct pack_node *node,
                      const struct pack_pod *pod, struct pack_option ret[PACK_OPTIONS_MAX])
{
    struct start start;
    start_init(&start, tables, node, pod);
    if (!pack_is_shared(pod)) {
        option_fill(&start, PACK_NO_CARD, &ret[0]);
        return 1;
    }
    unsigned count = best_shared(&start, false, &ret[0]);
    return count + best_shared(&start, true, &ret[count]);
}

/* ---- prices ---- */

void pack_market_move(const struct pack_tables *tables, struct pack_market *market,
                      const struct pack_node *node, int sign)
{
    assert(node->model < PACK_MODELS_MAX);
    struct rest rest = rest_of(tables, node);
    market->free_value[node->model] += sign * rest.value;
    for (uint32_t i = 0; i < tables->scarce_count; i++)
        market->copies[i] += sign * (int64_t)copies_of(&tables->scarce[i].pod, node->model, &rest);
}

/* A model is dear when those who may use it want more of the value than they can reach. */
static void price_models(const struct pack_tables *tables, const struct pack_market *market,
                         uint32_t models, double *ret)
{
    double all = 0;
    for (uint32_t model = 0; model < models; model++) {
        all += market->free_value[model];
        ret[model] = 0;
    }
    if (all <= 0)
        all = 1e-9;
    for (uint32_t i = 0; i < tables->group_count; i++) {
        const struct pack_group *group = &tables->groups[i];
        double reach = 0;
        for (uint32_t model = 0; model < models; model++)
            if (pack_allows(group->models, model))
                reach += market->free_value[model];
        double price = group->share / (reach / all > REACH_MIN ? reach / all : REACH_MIN);
        for (uint32_t model = 0; model < models; model++)
            if (pack_allows(group->models, model))
                ret[model] += price;
    }
}

void pack_price(const struct pack_tables *tables, const struct pack_market *market, uint32_t models,
                struct pack_prices *ret)
{
    assert(models <= PACK_MODELS_MAX);
    price_models(tables, market, models, ret->model);
    for (uint32_t i = 0; i < tables->scarce_count; i++) {
        const struct pack_scarce *scarce = &tables->scarce[i];
        ret->copy[i] = tables->weights.scarcity * scarce->share * scarce->pod.cards *
                       exp(-(double)market->copies[i] / tables->fade);
    }
}

double pack_model_cost(const struct pack_tables *tables, const struct pack_prices *prices,
                       const struct pack_pod *pod, uint32_t model)
{
    double use = pod->cards;
    if (pod->milli < PACK_CARD_MILLI) {
        double value = pod_value(tables, pod);
        use = (double)pod->cards * pod->milli / PACK_CARD_MILLI;
        use = value > use ? value : use;
    }
    return tables->weights.model * use * prices->model[model];
}

double pack_copies_cost(const struct pack_tables *tables, const struct pack_prices *prices,
                        const uint16_t *lost)
{
    double cost = 0;
    for (uint32_t i = 0; i < tables->scarce_count; i++)
        cost += prices->copy[i] * lost[i];
    return cost;
}
