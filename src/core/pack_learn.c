/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack_learn.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pack_value.h"

/* Typical pods are the most frequent ones that make up this part of the mix. */
#define TYPICAL_PERCENT 95

/* A demand on the curve of one model: what it needs per unit of value, and its weight. */
struct need {
    double need, weight;
};

/* The memory that learning works in, one part after the other. */
union work {
    struct value_problem value;
    struct pack_demand demands[1];
    struct need needs[1];
};

size_t pack_learn_points(uint32_t demands, uint32_t models)
{
    return 2 * (size_t)models * ((size_t)demands + 1);
}

size_t pack_learn_work_bytes(uint32_t demands)
{
    size_t list = demands * sizeof(struct pack_demand);
    return list > sizeof(union work) ? list : sizeof(union work);
}

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* ---- value ---- */

/* The fewest cards that hold the mix, cut into cells: pods of several cards are whole ones. */
static void learn_value(const struct pack_mix *mix, struct value_problem *problem,
                        struct pack_tables *tables)
{
    value_problem_init(problem);
    for (uint32_t i = 0; i < mix->count; i++) {
        const struct pack_pod *pod = &mix->demands[i].pod;
        if (pod->cards == 1)
            value_problem_add(problem, pod->milli, mix->demands[i].weight);
        else if (pod->cards > 1)
            value_problem_add(problem, PACK_CARD_MILLI, mix->demands[i].weight * pod->cards);
    }
    value_problem_solve(problem, tables->value);
}

static double value_of_demand(const struct pack_tables *tables, const struct pack_demand *demand)
{
    return demand->pod.cards * tables->value[pack_cells(demand->pod.milli)];
}

/* ---- typical pods ---- */

/* What F knows of a pod; memory is not part of it. Larger ones first. */
static int typical_order(const struct pack_pod *a, const struct pack_pod *b)
{
    int by = order(b->cpu_milli, a->cpu_milli);
    by = by != 0 ? by : order(b->milli, a->milli);
    by = by != 0 ? by : order(b->cards, a->cards);
    by = by != 0 ? by : order(b->list, a->list);
    return by != 0 ? by : (b->models > a->models) - (b->models < a->models);
}

static int by_typical(const void *a, const void *b)
{
    const struct pack_demand *x = a, *y = b;
    return typical_order(&x->pod, &y->pod);
}

static int by_weight(const void *a, const void *b)
{
    const struct pack_demand *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return typical_order(&x->pod, &y->pod);
}

/* Sum up what F cannot tell apart; returns how many are left. */
static uint32_t merge_typical(struct pack_demand *demands, uint32_t count)
{
    uint32_t kept = 0;
    qsort(demands, count, sizeof(*demands), by_typical);
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && typical_order(&demands[kept - 1].pod, &demands[i].pod) == 0)
            demands[kept - 1].weight += demands[i].weight;
        else
            demands[kept++] = demands[i];
    }
    return kept;
}

static uint32_t size_index(struct pack_tables *tables, int32_t milli)
{
    for (uint32_t i = 0; i < tables->size_count; i++)
        if (tables->sizes[i] == milli)
            return i;
    tables->sizes[tables->size_count] = milli;
    return tables->size_count++;
}

static void add_typical(struct pack_tables *tables, const struct pack_pod *pod, double share)
{
    uint32_t i = tables->typical_count++;
    tables->typical[i] = (struct pack_typical){
        .share = share,
        .cpu_milli = pod->cpu_milli,
        .models = pod->models,
        .cards = pod->cards,
    };
    if (pod->cards == 0)
        return;
    tables->typical[i].size = size_index(tables, pod->milli);
    for (uint32_t model = 0; model < PACK_MODELS_MAX; model++)
        if (pack_allows(pod->models, model))
            tables->typical_of[model][i / 64] |= UINT64_C(1) << i % 64;
}

static void learn_typical(const struct pack_mix *mix, struct pack_demand *demands,
                          struct pack_tables *tables)
{
    double total = 0, covered = 0;
    for (uint32_t i = 0; i < mix->count; i++) {
        demands[i] = mix->demands[i];
        total += demands[i].weight;
    }
    uint32_t count = merge_typical(demands, mix->count);
    qsort(demands, count, sizeof(*demands), by_weight);
    for (uint32_t i = 0; i < count && i < PACK_TYPICAL_MAX; i++) {
        if (covered >= TYPICAL_PERCENT * total / 100)
            break;
        covered += demands[i].weight;
        add_typical(tables, &demands[i].pod, demands[i].weight / total);
    }
    for (uint32_t i = 0; i < tables->typical_count; i++)
        tables->typical[i].share /= covered / total;
}

/* ---- affordability ---- */

static int by_need(const void *a, const void *b)
{
    const struct need *x = a, *y = b;
    if (x->need != y->need)
        return x->need < y->need ? -1 : 1;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

/* The cheapest demands first: with more CPU or memory more of them can be served. */
static struct pack_curve make_curve(struct need *needs, uint32_t count, struct pack_point *points)
{
    qsort(needs, count, sizeof(*needs), by_need);
    points[0] = (struct pack_point){0};
    for (uint32_t i = 0; i < count; i++) {
        points[i].need = needs[i].need;
        points[i + 1] = (struct pack_point){
            .at = points[i].at + needs[i].need * needs[i].weight,
            .share = points[i].share + needs[i].weight,
        };
    }
    return (struct pack_curve){.points = points, .count = count + 1};
}

static void learn_curve(const struct pack_mix *mix, uint32_t model, bool of_memory,
                        struct need *needs, struct pack_tables *tables, struct pack_point *points)
{
    double total = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < mix->count; i++) {
        const struct pack_pod *pod = &mix->demands[i].pod;
        double value = value_of_demand(tables, &mix->demands[i]);
        if (value <= 0 || !pack_allows(pod->models, model))
            continue;
        double amount = of_memory ? (double)pod->memory_mib
                                  : tables->weights.cpu_scale * (double)pod->cpu_milli;
        needs[count] = (struct need){amount / value, mix->demands[i].weight * value};
        total += needs[count++].weight;
    }
    for (uint32_t i = 0; i < count; i++)
        needs[i].weight /= total;
    struct pack_curve *curve = of_memory ? &tables->memory[model] : &tables->cpu[model];
    *curve = make_curve(needs, count, points);
}

static void learn_curves(const struct pack_mix *mix, struct need *needs, struct pack_tables *tables,
                         struct pack_point *points)
{
    for (uint32_t model = 0; model < mix->models; model++) {
        learn_curve(mix, model, false, needs, tables, points);
        points += mix->count + 1;
        learn_curve(mix, model, true, needs, tables, points);
        points += mix->count + 1;
    }
}

/* ---- prices ---- */

static void add_to_group(struct pack_tables *tables, uint64_t models, double weight)
{
    uint32_t g = 0;
    while (g < tables->group_count && tables->groups[g].models != models)
        g++;
    if (g == PACK_GROUPS_MAX)
        return;
    if (g == tables->group_count)
        tables->groups[tables->group_count++] = (struct pack_group){.models = models};
    tables->groups[g].share += weight;
}

static uint32_t count_cards(const struct pack_mix *mix)
{
    uint32_t cards = 0;
    for (uint32_t model = 0; model < mix->models; model++)
        cards += mix->cards[model];
    return cards;
}

/* A large pod that may only go to one model comes seldom and must not find that model full. */
static void add_missing(const struct pack_mix *mix, double largest, struct pack_tables *tables)
{
    bool known = count_cards(mix) > 0;
    for (uint32_t model = 0; model < mix->models; model++)
        if (!known || mix->cards[model] > 0)
            add_to_group(tables, UINT64_C(1) << model, mix->missing * largest);
}

/* Nobody asked for a model, but somebody may: then that model must not be the one that was filled first. In
 * proportion to its cards, so that models of which as much is free are as dear. */
static void add_bound(const struct pack_mix *mix, double weight, struct pack_tables *tables)
{
    uint32_t cards = count_cards(mix);
    for (uint32_t model = 0; model < mix->models; model++) {
        double part = cards > 0 ? (double)mix->cards[model] / cards : 1.0 / mix->models;
        if (part > 0)
            add_to_group(tables, UINT64_C(1) << model, weight * part);
    }
}

/* The models that a pod can go to: those it may use and, if it wants several cards, that have such nodes. */
static uint64_t models_for(const struct pack_mix *mix, const struct pack_pod *pod)
{
    uint64_t small = 0, large = 0;
    for (uint32_t model = 0; model < mix->models; model++) {
        bool fits = mix->largest[model] >= (uint32_t)pod->cards;
        *(fits ? &large : &small) |= UINT64_C(1) << model;
    }
    return (pod->models & large) != 0 ? pod->models & ~small : pod->models;
}

static void learn_groups(const struct pack_mix *mix, struct pack_tables *tables)
{
    double total = 0, largest = 0, all = 0;
    bool bound = false;
    bool guess = mix->guessed == mix->count;
    uint32_t count = guess ? mix->count : mix->count - mix->guessed;
    for (uint32_t i = 0; i < count; i++) {
        const struct pack_pod *pod = &mix->demands[i].pod;
        if (pod->cards == 0)
            continue;
        double value = value_of_demand(tables, &mix->demands[i]);
        add_to_group(tables, guess ? PACK_MODELS_ANY : models_for(mix, pod),
                     mix->demands[i].weight * value);
        all += mix->demands[i].weight * value;
        largest = value > largest ? value : largest;
        bound |= pod->models != PACK_MODELS_ANY;
    }
    if (tables->group_count == 0)
        add_to_group(tables, PACK_MODELS_ANY, all = 1);
    if (bound && mix->missing > 0)
        add_missing(mix, largest, tables);
    if (!bound)
        add_bound(mix, all * tables->weights.bound / (1 - tables->weights.bound), tables);
    for (uint32_t g = 0; g < tables->group_count; g++)
        total += tables->groups[g].share;
    for (uint32_t g = 0; g < tables->group_count; g++)
        tables->groups[g].share = total > 0 ? tables->groups[g].share / total : 0;
}

/* The specs of several cards; where there are too many, those with the most cards in the mix. */
static void learn_scarce(const struct pack_mix *mix, struct pack_tables *tables)
{
    double total = 0;
    for (uint32_t i = 0; i < mix->count; i++)
        total += mix->demands[i].weight;
    for (uint32_t i = 0; i < mix->count; i++) {
        const struct pack_pod *pod = &mix->demands[i].pod;
        if (pod->cards < 2)
            continue;
        struct pack_scarce scarce = {*pod, mix->demands[i].weight / total};
        if (tables->scarce_count < PACK_SCARCE_MAX) {
            tables->scarce[tables->scarce_count++] = scarce;
            continue;
        }
        struct pack_scarce *least = &tables->scarce[0];
        for (uint32_t s = 1; s < PACK_SCARCE_MAX; s++)
            if (tables->scarce[s].share * tables->scarce[s].pod.cards <
                least->share * least->pod.cards)
                least = &tables->scarce[s];
        if (scarce.share * scarce.pod.cards > least->share * least->pod.cards)
            *least = scarce;
    }
    /* The room for a spec varies with the root of what passes through the cluster. */
    double fade = tables->weights.fade * sqrt(mix->cluster_cards);
    tables->fade = fade > 1 ? fade : 1;
}

/* Where nothing says what CPU and the order are worth they weigh as in best fit: there CPU is as scarce as GPUs. */
static void learn_weights(const struct pack_mix *mix, struct pack_weights *weights)
{
    /* In a small cluster what passes through varies more, of what there is: fuller nodes count for more. */
    weights->node_fit /= sqrt(mix->cluster_cards > 0 ? mix->cluster_cards : 1);
    for (uint32_t i = 0; i < mix->count; i++)
        if (mix->demands[i].pod.cards > 0)
            return;
    weights->core_fit = weights->blind_core * weights->node_fit;
    weights->rank = weights->blind_rank;
}

void pack_learn(const struct pack_mix *mix, const struct pack_weights *weights,
                struct pack_point *points, void *work, struct pack_tables *ret)
{
    assert(mix->models <= PACK_MODELS_MAX && (uintptr_t)work % _Alignof(union work) == 0);
    memset(ret, 0, sizeof(*ret));
    ret->weights = *weights;
    learn_weights(mix, &ret->weights);
    learn_value(mix, work, ret);
    learn_typical(mix, work, ret);
    learn_curves(mix, work, ret, points);
    learn_groups(mix, ret);
    learn_scarce(mix, ret);
}
