/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/decider.h"

#include <errno.h>
#include <string.h>

/* One decision: what the loops over nodes share. */
struct decision {
    struct decider *decider;
    const struct pack_pod *pod;
    struct memo_spec *memo;
    struct pack_prices prices;
    double model_cost[PACK_MODELS_MAX];
    double rank_cost; /* per place in the order */
};

void decider_reset(struct decider *decider)
{
    decider->market = (struct pack_market){0};
    for (uint32_t i = 0; i < decider->cluster->count; i++)
        decider_node_moves(decider, i, 1);
    if (decider->memo != NULL)
        memo_done(decider->memo);
}

void decider_node_moves(struct decider *decider, uint32_t node, int sign)
{
    if (decider->policy->kind == POLICY_PACKS)
        pack_market_move(decider->tables, &decider->market, &decider->cluster->nodes[node], sign);
}

/* Whether what is remembered of this node is out of date. */
static bool is_stale(const struct decision *decision, uint32_t node)
{
    return decision->decider->cluster->changed[node] > decision->memo->seen;
}

/* ---- policies that score ---- */

static void score_node(const struct decision *decision, uint32_t node, union memo_node *ret)
{
    const struct decider *decider = decision->decider;
    ret->score = POLICY_UNFIT;
    if (pack_fits(&decider->cluster->nodes[node], decision->pod))
        ret->score = decider->policy->score(decider->tables, decider->cluster, node, decision->pod,
                                            &ret->card);
}

static int choose_by_score(const struct decision *decision, struct choice *ret)
{
    const struct decider *decider = decision->decider;
    int32_t best = POLICY_UNFIT;
    union memo_node fresh;
    for (uint32_t i = 0; i < decider->cluster->count; i++) {
        union memo_node *node = decision->memo != NULL ? &decision->memo->nodes[i] : &fresh;
        if (decision->memo == NULL || is_stale(decision, i))
            score_node(decision, i, node);
        if (node->score > best) {
            best = node->score;
            *ret = (struct choice){i, node->card};
        }
    }
    return best != POLICY_UNFIT;
}

/* ---- pack ---- */

static void price(struct decision *decision)
{
    const struct decider *decider = decision->decider;
    uint32_t models = decider->trace->model_count;
    pack_price(decider->tables, &decider->market, models, &decision->prices);
    for (uint32_t model = 0; model < models; model++)
        decision->model_cost[model] =
            pack_model_cost(decider->tables, &decision->prices, decision->pod, model);
    decision->rank_cost = decider->tables->weights.rank / decider->cluster->count;
}

static double net_gain(const struct decision *decision, uint32_t node, double gain, double copies)
{
    uint32_t model = decision->decider->cluster->nodes[node].model;
    return gain - copies - decision->model_cost[model] - decision->rank_cost * node;
}

static int choose_afresh(const struct decision *decision, struct choice *ret)
{
    const struct decider *decider = decision->decider;
    double best = 0;
    bool found = false;
    for (uint32_t i = 0; i < decider->cluster->count; i++) {
        const struct pack_node *node = &decider->cluster->nodes[i];
        if (!pack_fits(node, decision->pod))
            continue;
        struct pack_option options[PACK_OPTIONS_MAX];
        unsigned count = pack_options(decider->tables, node, decision->pod, NULL, options);
        for (unsigned k = 0; k < count; k++) {
            double copies = pack_copies_cost(decider->tables, &decision->prices, options[k].lost);
            double gain = net_gain(decision, i, options[k].gain, copies);
            if (!found || gain > best) {
                found = true;
                best = gain;
                *ret = (struct choice){i, options[k].card};
            }
        }
    }
    return found;
}

static int remember_node(const struct decision *decision, uint32_t i, union memo_node *ret)
{
    const struct decider *decider = decision->decider;
    const struct pack_node *node = &decider->cluster->nodes[i];
    struct pack_option options[PACK_OPTIONS_MAX];
    ret->count = pack_fits(node, decision->pod)
                     ? pack_options(decider->tables, node, decision->pod, NULL, options)
                     : 0;
    for (uint32_t k = 0; k < ret->count; k++) {
        uint32_t lost =
            memo_lost_index(decider->memo, options[k].lost, decider->tables->scarce_count);
        if (lost == UINT32_MAX)
            return -ENOMEM;
        ret->options[k] = (struct memo_option){options[k].gain, options[k].card, lost};
    }
    return 0;
}

/* The cost of lost copies, computed once a decision. */
static double lost_cost(const struct decision *decision, uint32_t index)
{
    struct memo *memo = decision->decider->memo;
    struct memo_lost *lost = &memo->lost[index];
    if (lost->priced != memo->decision) {
        lost->priced = memo->decision;
        lost->cost = pack_copies_cost(decision->decider->tables, &decision->prices, lost->copies);
    }
    return lost->cost;
}

static int choose_remembered(const struct decision *decision, struct choice *ret)
{
    const struct decider *decider = decision->decider;
    double best = 0;
    bool found = false;
    decider->memo->decision++;
    for (uint32_t i = 0; i < decider->cluster->count; i++) {
        union memo_node *node = &decision->memo->nodes[i];
        if (is_stale(decision, i) && remember_node(decision, i, node) < 0)
            return -ENOMEM;
        for (uint32_t k = 0; k < node->count; k++) {
            const struct memo_option *option = &node->options[k];
            double gain = net_gain(decision, i, option->gain, lost_cost(decision, option->lost));
            if (!found || gain > best) {
                found = true;
                best = gain;
                *ret = (struct choice){i, option->card};
            }
        }
    }
    return found;
}

/* ---- random ---- */

static int32_t draw_card(const struct decider *decider, const struct pack_node *node,
                         const struct pack_pod *pod)
{
    uint32_t fitting[TRACE_CARDS_MAX], count = 0;
    if (!pack_is_shared(pod))
        return PACK_NO_CARD;
    for (uint32_t card = 0; card < node->cards; card++)
        if (node->free_milli[card] >= pod->milli)
            fitting[count++] = card;
    return (int32_t)fitting[sim_random_below(decider->random, count)];
}

static int choose_at_random(const struct decision *decision, struct choice *ret)
{
    const struct decider *decider = decision->decider;
    const struct cluster *cluster = decider->cluster;
    uint32_t fitting = 0;
    for (uint32_t i = 0; i < cluster->count; i++)
        fitting += pack_fits(&cluster->nodes[i], decision->pod);
    if (fitting == 0)
        return 0;
    uint64_t skip = sim_random_below(decider->random, fitting);
    uint32_t node = 0;
    while (!pack_fits(&cluster->nodes[node], decision->pod) || skip-- > 0)
        node++;
    *ret = (struct choice){node, draw_card(decider, &cluster->nodes[node], decision->pod)};
    return 1;
}

int decider_choose(struct decider *decider, uint32_t spec, struct choice *ret)
{
    struct decision decision = {.decider = decider, .pod = &decider->trace->specs[spec].pod};
    if (decider->policy->kind == POLICY_DRAWS)
        return choose_at_random(&decision, ret);
    if (decider->memo != NULL && (decision.memo = memo_of(decider->memo, spec)) == NULL)
        return -ENOMEM;
    int result;
    if (decider->policy->kind == POLICY_SCORES) {
        result = choose_by_score(&decision, ret);
    } else {
        price(&decision);
        result = decision.memo != NULL ? choose_remembered(&decision, ret)
                                       : choose_afresh(&decision, ret);
    }
    if (decision.memo != NULL && result >= 0)
        decision.memo->seen = decider->cluster->changes;
    return result;
}
