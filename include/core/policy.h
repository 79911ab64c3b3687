/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/device.h"
#include "core/request.h"

/*
 * Placement policies on two axes. A policy is one file (policy_NAME.c) and a row in the table of
 * each axis it serves (policy.c). Which cards fit is never a policy's business.
 */

struct pack_site;

/* Order of cards on one node. */
struct device_policy {
    const char *name;
    /* True when the card in row `a` is to be preferred to that in row `b`; rows of one kind. A
     * strict weak order; on ties the lowest minor wins without asking. */
    bool (*prefer)(const struct cards *cards, enum device_kind kind, uint32_t a, uint32_t b);
    /* Of a policy that looks at more than the cards, else NULL: the number, among the node's GPUs, of
     * the card for a pod that takes one, or PACK_NO_CARD to leave it to prefer. */
    int32_t (*pick)(const struct pack_site *site);
};

/* Raw score of a node, higher is better, >= 0; only scores of one policy compare. */
struct node_policy {
    const char *name;
    int64_t (*score)(const struct cards *cards, const struct pod_request *request);
    /* The same from what packing gains at a site (core/pack_site.h); NULL of most policies. Where
     * there is nothing to pack by, score decides. */
    int64_t (*weigh)(double gain);
};

/* The policies, one file each. */
extern const struct device_policy device_policy_default, device_policy_binpack,
    device_policy_spread, device_policy_pack;
extern const struct node_policy node_policy_none, node_policy_binpack, node_policy_spread,
    node_policy_pack;

/* The device policy called `name` (default, binpack, spread, pack), or NULL. Koordinator's
 * LeastAllocated and MostAllocated are other names of spread and binpack. */
const struct device_policy *device_policy_find(struct str name);

/* The node policy called `name` (binpack, spread, pack, none), or NULL; same other names. */
const struct node_policy *node_policy_find(struct str name);

/* "default|binpack|spread|pack" and "binpack|spread|pack|none", for error texts and docs. */
const char *device_policy_names(void);
const char *node_policy_names(void);

/* How full a card is, compared exactly: by percent of memory (of ratio if its bytes are
 * unknown), then by percent of core. Negative: a is emptier than b; 0: equal; positive: a is
 * fuller. */
int card_fullness_compare(const struct cards *cards, enum device_kind kind, uint32_t a, uint32_t b);

#endif
