/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PACK_H
#define CORE_PACK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Packing: which node and card to give a pod so that the pods still to come find room
 * (docs/simulator.md has the formula and its figures). The policy looks at what a node has left,
 * GPUs, CPU and memory, through tables learned from the mix of requests (core/pack_learn.h). All
 * here is a function of its arguments; the tables are values that somebody else owns.
 *
 * Amounts: a card is 1000 milli, CPU is in milli-cores, memory in MiB. Doubles are used in the
 * files pack*.c and nowhere else in core; whether something fits is decided in integers.
 */

#define PACK_CARD_MILLI 1000 /* one card */
#define PACK_CELL_MILLI 10   /* the value table's step: one percent of a card */
#define PACK_CELLS      (PACK_CARD_MILLI / PACK_CELL_MILLI)

#define PACK_MODELS_MAX    64  /* card models, bits of a mask */
#define PACK_TYPICAL_MAX   256 /* typical pods of the fragmentation measure */
#define PACK_TYPICAL_WORDS (PACK_TYPICAL_MAX / 64)
#define PACK_SCARCE_MAX    64 /* multi-card specs that have a price */
#define PACK_GROUPS_MAX    128 /* sets of models that pods ask for */

#define PACK_CARDS_MAX     256 /* cards of one node */

#define PACK_MODELS_ANY UINT64_MAX
#define PACK_NO_CARD    (-1) /* the pod takes several cards, or none */
#define PACK_UNFIT      (-1) /* of a card that cannot take the pod */
#define PACK_PLENTY     (INT64_C(1) << 40) /* CPU or memory of a node that does not say it */

/* What a node has left: a view, the owner keeps it unchanged meanwhile. */
struct pack_node {
    int64_t cpu_milli;
    int64_t memory_mib;
    uint32_t model; /* below PACK_MODELS_MAX */
    uint32_t cards;
    const int32_t *free_milli; /* of each card */
};

/* What a pod asks for. */
struct pack_pod {
    int64_t cpu_milli;
    int64_t memory_mib;
    int32_t cards;   /* 0: no GPU */
    int32_t milli;   /* of each card; 0 when cards is 0 */
    uint64_t models; /* allowed ones as bits */
    uint32_t list;   /* tells apart, and orders, lists that come down to the same bits; else 0 */
};

/* A pod of the mix and how often it is asked for. */
struct pack_demand {
    struct pack_pod pod;
    double weight;
};

/* The knobs; docs/simulator.md says how they were found. */
struct pack_weights {
    double cpu_scale;     /* of the CPU that a unit of value is taken to need; at most 0.9 */
    double fragmentation; /* of a whole card's growth of F */
    double card_fit;      /* of a free card: the fuller card first */
    double node_fit;      /* of a node's free cards, per root of the cluster's: the fuller node first */
    double core_fit;      /* of a node's free cores */
    double blind_core;    /* the same, in free cards, when nothing is known of what CPU serves */
    double model;         /* of the price of a card model */
    double scarcity;      /* highest price of a copy, per share of the mix and card */
    double fade; /* copies at which that price has fallen to 1/e, per root of the cluster's cards */
    double rank;  /* of the last node's place in the order */
    double blind_rank; /* the same when nothing is known of the mix */
    double bound; /* part of the demand that is taken to be bound to models while no pod is */
};

extern const struct pack_weights pack_default_weights;

/* A corner of a piecewise linear curve: `share` is reached at `at`, and from here to the next
 * corner a whole share would need `need`. */
struct pack_point {
    double at, share, need;
};

/* Share of the demand, by value, that `x` CPU or memory per unit of value can serve. */
struct pack_curve {
    const struct pack_point *points; /* ascending, the first at 0 */
    uint32_t count;                  /* 0: everything can be served */
};

/* A typical pod of the fragmentation measure. */
struct pack_typical {
    double share;
    int64_t cpu_milli;
    uint64_t models;
    int32_t cards;
    uint32_t size; /* index into tables.sizes; of no meaning when cards is 0 */
};

/* A multi-card spec and its share of all pods. */
struct pack_scarce {
    struct pack_pod pod;
    double share;
};

/* A set of models that pods ask for and its share of the demand by value. */
struct pack_group {
    uint64_t models;
    double share;
};

/* What was learned, by pack_learn. */
struct pack_tables {
    struct pack_weights weights; /* for this cluster and mix: node_fit is of one free card */
    double value[PACK_CELLS + 1]; /* of so many free cells on one card; a whole one is worth 1 */
    double fade;                  /* copies */
    struct pack_curve cpu[PACK_MODELS_MAX], memory[PACK_MODELS_MAX];
    struct pack_typical typical[PACK_TYPICAL_MAX];
    /* As bits, those that may use a model's cards. */
    uint64_t typical_of[PACK_MODELS_MAX][PACK_TYPICAL_WORDS];
    int32_t sizes[PACK_TYPICAL_MAX]; /* distinct milli of the typical pods */
    struct pack_scarce scarce[PACK_SCARCE_MAX];
    struct pack_group groups[PACK_GROUPS_MAX];
    uint32_t typical_count, size_count, scarce_count, group_count;
};

/* What the whole cluster has left: the owner moves a node out before it changes and in after. */
struct pack_market {
    double free_value[PACK_MODELS_MAX];
    int64_t copies[PACK_SCARCE_MAX]; /* how many more of each multi-card spec fit */
};

/* One node's part of that. */
struct pack_holding {
    double value;
    uint32_t model;
    uint16_t copies[PACK_SCARCE_MAX]; /* of the first scarce_count specs */
};

/* What follows from it for one decision. */
struct pack_prices {
    double model[PACK_MODELS_MAX];
    double copy[PACK_SCARCE_MAX];
};

/* One way to serve a pod on a node. */
struct pack_option {
    int32_t card;                   /* the one card, or PACK_NO_CARD */
    double gain;                    /* before prices and rank; higher is better */
    uint16_t lost[PACK_SCARCE_MAX]; /* copies that no longer fit, of the first scarce_count specs */
};

#define PACK_OPTIONS_MAX 2 /* the best used card and the best whole one */

/* Whether node has the CPU, memory, model and cards for pod. */
bool pack_fits(const struct pack_node *node, const struct pack_pod *pod);

/* Whether pod takes part of one card. */
static inline bool pack_is_shared(const struct pack_pod *pod)
{
    return pod->cards == 1 && pod->milli < PACK_CARD_MILLI;
}

/* Whether `models` has bit `model`. */
static inline bool pack_allows(uint64_t models, uint32_t model)
{
    return (models >> model & 1) != 0;
}

/*
 * The cells of a size or of what is free on a card, to the nearest one, so that sizes which fill a card still
 * do so in cells: rounded up, 14 and 10 GiB would be too much for 24. But something is not nothing, and a
 * part is not the whole.
 */
static inline int32_t pack_cells(int32_t milli)
{
    int32_t cells = (milli + PACK_CELL_MILLI / 2) / PACK_CELL_MILLI;
    if (milli > 0 && cells == 0)
        return 1;
    return milli < PACK_CARD_MILLI && cells == PACK_CELLS ? PACK_CELLS - 1 : cells;
}

/* Whether a lower card has as much free as this one: what is true of one is of the other. */
static inline bool pack_seen_before(const struct pack_node *node, uint32_t card)
{
    for (uint32_t i = 0; i < card; i++)
        if (node->free_milli[i] == node->free_milli[card])
            return true;
    return false;
}

/* The ways to serve pod, which fits, on node: a pod that shares one card has the best used one first,
 * then the best untouched one. Other pods have one way: the cards with least left over, of equals the
 * lowest numbers. `left` is what each card would have left, or PACK_UNFIT; NULL stands for what the
 * cards' free milli come to, whole cards from untouched ones. Returns how many, 1 or 2. */
unsigned pack_options(const struct pack_tables *tables, const struct pack_node *node,
                      const struct pack_pod *pod, const int32_t *left,
                      struct pack_option ret[PACK_OPTIONS_MAX]);

/* What node brings to the market. */
void pack_hold(const struct pack_tables *tables, const struct pack_node *node,
               struct pack_holding *ret);

/* Bring it in (sign 1) or take it out (sign -1). */
void pack_market_add(const struct pack_tables *tables, struct pack_market *market,
                     const struct pack_holding *holding, int sign);

/* Add node's (sign 1) or take out (sign -1) what it has left. */
void pack_market_move(const struct pack_tables *tables, struct pack_market *market,
                      const struct pack_node *node, int sign);

/* The prices at `market`, on a cluster of the first `models` models. */
void pack_price(const struct pack_tables *tables, const struct pack_market *market, uint32_t models,
                struct pack_prices *ret);

/* What pod pays for a card of `model`. */
double pack_model_cost(const struct pack_tables *tables, const struct pack_prices *prices,
                       const struct pack_pod *pod, uint32_t model);

/* What the copies lost by an option cost; `lost` is the option's. */
double pack_copies_cost(const struct pack_tables *tables, const struct pack_prices *prices,
                        const uint16_t *lost);

#endif
