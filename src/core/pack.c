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
    .card_fit = 1e-2,
    .node_fit = 0.0472,
    .core_fit = 6e-6,
    .blind_core = 1 / 30.0,
    .model = 0.2,
    .scarcity = 60.0,
    .fade = 0.15225,
    .rank = 0.002,
    .blind_rank = 2e-4,
    .bound = 0.02,
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
    return tables->value[pack_cells(free_milli)];
}

static double pod_value(const struct pack_tables *tables, const struct pack_pod *pod)
{
    return pod->cards * tables->value[pack_cells(pod->milli)];
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
    const int32_t *left; /* of each card, or NULL */
    struct frag_shape shape;
    uint16_t copies[PACK_SCARCE_MAX];
    double potential, waste;
    double fit; /* of the node, and the value that the pod gives */
};

/* The cards that an option takes, and what all cards of the node have left then. */
struct take {
    uint32_t count;
    uint32_t cards[PACK_CARDS_MAX];
    int32_t free_milli[PACK_CARDS_MAX];
};

static void start_init(struct start *start, const struct pack_tables *tables,
                       const struct pack_node *node, const struct pack_pod *pod,
                       const int32_t *left)
{
    const struct pack_weights *weights = &tables->weights;
    struct rest rest = rest_of(tables, node);
    start->tables = tables;
    start->node = node;
    start->pod = pod;
    start->left = left;
    frag_shape_init(tables, node, &start->shape);
    count_copies(tables, node->model, &rest, start->copies);
    start->potential = potential(tables, node->model, &rest);
    start->waste = frag_measure(tables, node->model, node->cpu_milli, &start->shape);
    double fit = weights->node_fit * (double)start->shape.free_milli / PACK_CARD_MILLI;
    if (node->cpu_milli < PACK_PLENTY)
        fit += weights->core_fit * (double)node->cpu_milli / 1000;
    start->fit = pod_value(tables, pod) - fit;
}

static int32_t left_of(const struct start *start, uint32_t card)
{
    if (start->left != NULL)
        return start->left[card];
    int32_t left = start->node->free_milli[card] - start->pod->milli;
    return left >= 0 ? left : PACK_UNFIT;
}

static void take_none(const struct start *start, struct take *ret)
{
    ret->count = 0;
    if (start->node->cards > 0)
        memcpy(ret->free_milli, start->node->free_milli,
               start->node->cards * sizeof(ret->free_milli[0]));
}

static void take_card(const struct start *start, uint32_t card, struct take *take)
{
    take->cards[take->count++] = card;
    take->free_milli[card] = left_of(start, card);
}

/* The cards with least left over. Every round takes all that have the least, so that whole cards, the
 * usual case, are one round. */
static void take_tightest(const struct start *start, struct take *ret)
{
    uint32_t wanted = (uint32_t)start->pod->cards;
    int32_t done = PACK_UNFIT;
    take_none(start, ret);
    while (ret->count < wanted) {
        int32_t least = INT32_MAX;
        for (uint32_t card = 0; card < start->node->cards; card++) {
            int32_t left = left_of(start, card);
            if (left > done && left < least)
                least = left;
        }
        assert(least < INT32_MAX); /* the pod fits */
        for (uint32_t card = 0; card < start->node->cards && ret->count < wanted; card++)
            if (left_of(start, card) == least)
                take_card(start, card, ret);
        done = least;
    }
}

/* Put the taken cards into the shape as they are then (sign 1), or as they are now (sign -1). */
static void move_shape(struct start *start, const struct take *take, int sign)
{
    for (uint32_t i = 0; i < take->count; i++) {
        int32_t now = start->node->free_milli[take->cards[i]];
        int32_t then = take->free_milli[take->cards[i]];
        frag_shape_move(start->tables, &start->shape, 1, sign > 0 ? now : then,
                        sign > 0 ? then : now);
    }
}

/* F after the placement; the shape is as before when this returns. */
static double waste_after(struct start *start, const struct take *take)
{
    move_shape(start, take, 1);
    double waste = frag_measure(start->tables, start->node->model,
                                start->node->cpu_milli - start->pod->cpu_milli, &start->shape);
    move_shape(start, take, -1);
    return waste;
}

static double gain_of(struct start *start, const struct take *take, const struct rest *after)
{
    const struct pack_weights *weights = &start->tables->weights;
    double gain = potential(start->tables, start->node->model, after) - start->potential;
    gain -= weights->fragmentation * (waste_after(start, take) - start->waste) / PACK_CARD_MILLI;
    if (pack_is_shared(start->pod))
        gain -= weights->card_fit * start->node->free_milli[take->cards[0]] / PACK_CARD_MILLI;
    return gain + start->fit;
}

static void option_fill(struct start *start, const struct take *take, struct pack_option *ret)
{
    const struct pack_tables *tables = start->tables;
    struct pack_node node = *start->node;
    node.cpu_milli -= start->pod->cpu_milli;
    node.memory_mib -= start->pod->memory_mib;
    node.free_milli = take->free_milli;
    /* Added up anew, in the order of the cards: equal states have equal values to the last bit. */
    struct rest after = rest_of(tables, &node);
    ret->card = take->count == 1 ? (int32_t)take->cards[0] : PACK_NO_CARD;
    ret->gain = gain_of(start, take, &after);
    count_copies(tables, node.model, &after, ret->lost);
    for (uint32_t i = 0; i < tables->scarce_count; i++)
        ret->lost[i] = (uint16_t)(start->copies[i] - ret->lost[i]);
}

/* Whether a lower card is as this one: what is true of one is of the other. */
static bool alike_before(const struct start *start, uint32_t card)
{
    const int32_t *free_milli = start->node->free_milli;
    for (uint32_t i = 0; i < card; i++)
        if (free_milli[i] == free_milli[card] && left_of(start, i) == left_of(start, card))
            return true;
    return false;
}

/* The best card of one sort, used or untouched, the first of equals; false if none fits. */
static bool best_shared(struct start *start, bool untouched, struct pack_option *ret)
{
    const struct pack_node *node = start->node;
    bool found = false;
    for (uint32_t card = 0; card < node->cards; card++) {
        if ((node->free_milli[card] == PACK_CARD_MILLI) != untouched ||
            left_of(start, card) == PACK_UNFIT || alike_before(start, card))
            continue;
        struct take take;
        struct pack_option option;
        take_none(start, &take);
        take_card(start, card, &take);
        option_fill(start, &take, &option);
        if (!found || option.gain > ret->gain + SAME_GAIN)
            *ret = option;
        found = true;
    }
    return found;
}

unsigned pack_options(const struct pack_tables *tables, const struct pack_node *node,
                      const struct pack_pod *pod, const int32_t *left,
                      struct pack_option ret[PACK_OPTIONS_MAX])
{
    struct start start;
    assert(node->cards <= PACK_CARDS_MAX && (uint32_t)pod->cards <= node->cards);
    start_init(&start, tables, node, pod, left);
    if (!pack_is_shared(pod)) {
        struct take take;
        take_tightest(&start, &take);
        option_fill(&start, &take, &ret[0]);
        return 1;
    }
    unsigned count = best_shared(&start, false, &ret[0]);
    return count + best_shared(&start, true, &ret[count]);
}

/* ---- prices ---- */

void pack_hold(const struct pack_tables *tables, const struct pack_node *node,
               struct pack_holding *ret)
{
    struct rest rest = rest_of(tables, node);
    assert(node->model < PACK_MODELS_MAX);
    ret->value = rest.value;
    ret->model = node->model;
    count_copies(tables, node->model, &rest, ret->copies);
}

void pack_market_add(const struct pack_tables *tables, struct pack_market *market,
                     const struct pack_holding *holding, int sign)
{
    market->free_value[holding->model] += sign * holding->value;
    for (uint32_t i = 0; i < tables->scarce_count; i++)
        market->copies[i] += sign * (int64_t)holding->copies[i];
}

void pack_market_move(const struct pack_tables *tables, struct pack_market *market,
                      const struct pack_node *node, int sign)
{
    struct pack_holding holding;
    pack_hold(tables, node, &holding);
    pack_market_add(tables, market, &holding, sign);
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
