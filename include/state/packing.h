/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_PACKING_H
#define STATE_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/models.h"
#include "core/pack_site.h"

/*
 * What the cache keeps for policies that pack: the sample of requests, the tables learned from it, and
 * the market of what all nodes have left. Everything but the sample and the names of models begins when
 * the first pod asks for such a policy. For the files of this layer only.
 */

struct pack_book; /* tables with the memory they point into */

struct pack_kept {
    struct pack_holding holding;
    uint32_t generation; /* of the tables that it was counted by; another one: not in the market */
    uint32_t change;     /* another one whenever what is left on the node changes */
    bool stale;
};

/*
 * Lost copies, as an option of a node has them. Nodes differ less than in all ways that they could, so
 * each set is kept once, and what it costs is computed once a decision.
 */
#define LOSSES_MAX  2048u
#define LOSSES_NONE UINT16_MAX

struct pack_losses {
    uint32_t count;
    uint16_t place[2 * LOSSES_MAX]; /* by hash and from there on: number + 1, or 0 */
    uint16_t copies[LOSSES_MAX][PACK_SCARCE_MAX];
    uint64_t decision[LOSSES_MAX]; /* that the cost is of */
    double cost[LOSSES_MAX];
};

struct packing {
    bool on;
    bool learning; /* a thread is, without the lock */
    struct pack_sample sample;
    struct str models[PACK_MODELS_MAX]; /* owned; 0 is the one without name */
    uint32_t model_count;

    struct pack_book *book;
    struct pack_market market;
    uint32_t generation; /* of the tables, from 1 */
    uint64_t decisions;  /* by them */
    uint32_t counted;    /* slots below it are in the market, but for the stale ones */
    struct pack_kept *kept;
    uint32_t *stale; /* slots, each once */
    uint32_t stale_count, capacity;

    int64_t card_bytes; /* mean memory of a card, when learned */
    uint32_t cards;     /* of the cluster, when learned */
    uint32_t learned_models, learned_cards; /* of the cache, cards of all kinds */
    uint64_t learned_pods, learned_times;
    int64_t learned_ns;
};

/* The number of the model of a Node's cards, made when it is new. Models beyond the last number, and
 * those that there is no memory for, are as one without a name. */
uint32_t packing_model(struct packing *packing, struct str name);

/* The models that a pod may use, as bits. Pods and Nodes come in any order, so models that the rule names
 * get numbers too; but not more than half of all, which are kept for those of Nodes. */
uint64_t packing_allowed(struct packing *packing, const struct model_rule *rule);

/* Free all of it. */
void packing_done(struct packing *packing);

#endif
