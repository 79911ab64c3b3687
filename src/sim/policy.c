/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/policy.h"

#include <assert.h>

#include "core/pack_published.h"

/* The node by whose size the published policies measure. */
#define LARGE_CPU_MILLI  128000.0
#define LARGE_CARD_MILLI 8000.0

static int64_t free_cards_milli(const struct pack_node *node)
{
    int64_t sum = 0;
    for (uint32_t card = 0; card < node->cards; card++)
        sum += node->free_milli[card];
    return sum;
}

static uint32_t untouched_cards(const struct pack_node *node)
{
    uint32_t count = 0;
    for (uint32_t card = 0; card < node->cards; card++)
        count += node->free_milli[card] == PACK_CARD_MILLI;
    return count;
}

static int32_t score_bestfit(const struct pack_tables *tables, const struct cluster *cluster,
                             uint32_t node, const struct pack_pod *pod, int32_t *ret_card)
{
    (void)tables;
    return published_bestfit(&cluster->nodes[node], pod, ret_card);
}

static int32_t score_fgd(const struct pack_tables *tables, const struct cluster *cluster,
                         uint32_t node, const struct pack_pod *pod, int32_t *ret_card)
{
    return published_fgd(tables, &cluster->nodes[node], pod, ret_card);
}

/* DotProd: the more a pod's demand looks like what the node has free, the worse. */
static int32_t score_dotprod(const struct pack_tables *tables, const struct cluster *cluster,
                             uint32_t at, const struct pack_pod *pod, int32_t *ret_card)
{
    (void)tables;
    const struct pack_node *node = &cluster->nodes[at];
    double product =
        (double)node->cpu_milli / LARGE_CPU_MILLI * ((double)pod->cpu_milli / LARGE_CPU_MILLI);
    product += (double)free_cards_milli(node) / LARGE_CARD_MILLI *
               ((double)trace_demand(pod) / LARGE_CARD_MILLI);
    *ret_card = pack_tightest_card(node, pod);
    return (int32_t)(100.0 * (1.0 - product / 2));
}

/* Of the pod's cards, the fullest that fit: how many are untouched, and how free they are. */
static int32_t packing_cards(const struct pack_node *node, const struct pack_pod *pod,
                             uint32_t *ret_percent)
{
    bool taken[TRACE_CARDS_MAX] = {false};
    int32_t untouched = 0;
    *ret_percent = 0;
    for (int32_t i = 0; i < pod->cards; i++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t card = 0; card < node->cards; card++)
            if (!taken[card] && node->free_milli[card] >= pod->milli &&
                (best == UINT32_MAX || node->free_milli[card] < node->free_milli[best]))
                best = card;
        assert(best != UINT32_MAX); /* the pod fits */
        taken[best] = true;
        untouched += node->free_milli[best] == PACK_CARD_MILLI;
        *ret_percent += (uint32_t)node->free_milli[best] / 10;
    }
    return untouched;
}

/* Packing: used cards before untouched ones, those before empty nodes. */
static int32_t score_packing(const struct pack_tables *tables, const struct cluster *cluster,
                             uint32_t at, const struct pack_pod *pod, int32_t *ret_card)
{
    (void)tables;
    const struct pack_node *node = &cluster->nodes[at];
    *ret_card = pack_tightest_card(node, pod);
    if (pod->cards == 0)
        return 0;
    int32_t cards = (int32_t)node->cards;
    if (untouched_cards(node) == node->cards)
        return 33 - cards > cards ? 33 - cards : cards;
    uint32_t percent;
    int32_t untouched = packing_cards(node, pod, &percent);
    if (untouched > 0)
        return 50 - untouched > 33 ? 50 - untouched : 33;
    int32_t score = 100 - (int32_t)(percent / 10);
    return score > 50 ? score : 50;
}

/* Clustering: pods of a kind together, then the fuller node. */
static int32_t score_clustering(const struct pack_tables *tables, const struct cluster *cluster,
                                uint32_t at, const struct pack_pod *pod, int32_t *ret_card)
{
    (void)tables;
    const struct pack_node *node = &cluster->nodes[at];
    const struct cluster_load *load = &cluster->load[at];
    *ret_card = pack_tightest_card(node, pod);
    if (pod->cards == 0)
        return 0;
    int32_t score =
        (int32_t)(25 * (LARGE_CARD_MILLI - (double)free_cards_milli(node)) / LARGE_CARD_MILLI);
    if (load->running[cluster_class(pod)] > 0)
        return score + (load->classes == 1 ? 75 : 50);
    return score + (load->classes == 0 ? 25 : 0);
}

/* The emptiest card that fits a shared pod, the first of equals. */
static int32_t emptiest_card(const struct pack_node *node, const struct pack_pod *pod)
{
    int32_t best = PACK_NO_CARD;
    if (!pack_is_shared(pod))
        return best;
    for (uint32_t card = 0; card < node->cards; card++)
        if (node->free_milli[card] >= pod->milli &&
            (best < 0 || node->free_milli[card] > node->free_milli[best]))
            best = (int32_t)card;
    return best;
}

/* Spread: the node whose cards (for pods without GPU: whose cores) are the emptiest, in 1/1000. */
static int32_t score_spread(const struct pack_tables *tables, const struct cluster *cluster,
                            uint32_t at, const struct pack_pod *pod, int32_t *ret_card)
{
    (void)tables;
    const struct pack_node *node = &cluster->nodes[at];
    *ret_card = emptiest_card(node, pod);
    if (pod->cards == 0)
        return (int32_t)(node->cpu_milli * 1000 / (cluster->load[at].cpu_milli + 1));
    return (int32_t)((free_cards_milli(node) - trace_demand(pod)) / node->cards);
}

static const struct sim_policy policies[] = {
    {"random", "any node and card that fit", POLICY_DRAWS, NULL},
    {"spread", "the emptiest node, its emptiest card", POLICY_SCORES, score_spread},
    {"bestfit", "the least left of CPU and GPU", POLICY_SCORES, score_bestfit},
    {"dotprod", "the least alike demand and free room", POLICY_SCORES, score_dotprod},
    {"packing", "used cards, then used nodes", POLICY_SCORES, score_packing},
    {"clustering", "pods of a kind together", POLICY_SCORES, score_clustering},
    {"fgd", "the least growth of fragmentation (ATC '23)", POLICY_SCORES, score_fgd},
    {"pack", "the most room left for the mix of pods to come", POLICY_PACKS, NULL},
};

const struct sim_policy *sim_policy_at(unsigned i)
{
    return i < sizeof(policies) / sizeof(policies[0]) ? &policies[i] : NULL;
}

const struct sim_policy *sim_policy_find(struct str name)
{
    for (unsigned i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
        if (str_is(name, policies[i].name))
            return &policies[i];
    return NULL;
}
