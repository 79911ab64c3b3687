/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PACK_SITE_H
#define CORE_PACK_SITE_H

#include "core/device.h"
#include "core/host.h"
#include "core/pack_sample.h"
#include "core/request.h"

/*
 * Packing (core/pack.h) of real requests on real cards: what of a card is free is what is free of its
 * scarcest dimension. Which cards fit is still the question of core/allocate.h.
 */

/* What is the same for all nodes of one decision. */
struct pack_decision {
    const struct pack_tables *tables;
    const struct pod_request *request;
    struct pack_pod pod;
    struct pack_prices prices;
    double model_cost[PACK_MODELS_MAX];
};

/* One node of it. */
struct pack_site {
    const struct pack_decision *decision;
    const struct cards *cards;
    struct host_amount allocatable; /* 0: not known */
    struct host_amount used;        /* by the pods there, not the one that is decided about */
    uint32_t model;
    double place; /* in the order of the nodes, 0 to 1 */
};

/* The request of one pod as it is counted. */
struct pack_seen pack_seen_of(const struct pod_request *request, const struct host_amount *host);

/* The request as packing sees it; its bytes are a part of `card_bytes`, the memory of a usual card
 * (0: not known). */
struct pack_pod pack_pod_of(const struct pod_request *request, const struct host_amount *host,
                            int64_t card_bytes);

/* Begin a decision about `pod` on a cluster of `models` models with these free cards. `tables` and
 * `request` are borrowed. */
void pack_decision_init(struct pack_decision *decision, const struct pack_tables *tables,
                        const struct pack_market *market, uint32_t models,
                        const struct pod_request *request, const struct pack_pod *pod);

/* What a node has left; the view is on `free_milli`. Cards that give nothing have nothing left. */
struct pack_node pack_node_of(const struct pack_site *site, int32_t free_milli[PACK_CARDS_MAX]);

/* The ways to serve the pod at the site, where it fits: as of pack_options(), whatever the prices. */
unsigned pack_site_options(const struct pack_site *site,
                           struct pack_option ret[PACK_OPTIONS_MAX]);

/* What the best of them, prices of copies taken off, is worth at a node of that model and place. */
static inline double pack_site_net(const struct pack_decision *decision, uint32_t model,
                                   double place, double best)
{
    return best - decision->model_cost[model] - decision->tables->weights.rank * place;
}

/* What the pod is worth at the site, where it fits: higher is better. *ret_card is the number, among
 * the node's GPUs, of the card that it takes, or PACK_NO_CARD when it takes several or none. */
double pack_site_gain(const struct pack_site *site, int32_t *ret_card);

#endif
