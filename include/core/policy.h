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

/* Order of cards on one node. */
struct device_policy {
    const char *name;
    /* True when the card in row `a` is to be preferred to that in row `b`; rows of one kind. A
     * strict weak order; on ties the lowest minor wins without asking. */
    bool (*prefer)(const struct cards *cards, enum device_kind kind, uint32_t a, uint32_t b);
};

/* Raw score of a node, higher is better, >= 0; only scores of one policy compare. */
struct node_policy {
    const char *name;
    int64_t (*score)(const struct cards *cards, const struct pod_request *request);
};

/* The policies, one file each. */
extern const struct device_policy device_policy_default, device_policy_binpack,
    device_policy_spread;
extern const struct node_policy node_policy_none, node_policy_binpack, node_policy_spread;

/* The device policy called `name` (default, binpack, spread), or NULL. Koordinator's
 * LeastAllocated and MostAllocated are other names of spread and binpack. */
const struct device_policy *device_policy_find(struct str name);

/* The node policy called `name` (binpack, spread, none), or NULL; same other names. */
const struct node_policy *node_policy_find(struct str name);

/* "default|binpack|spread" and "binpack|spread|none", for error texts and docs. */
const char *device_policy_names(void);
const char *node_policy_names(void);

/* How full a card is, compared exactly: by percent of memory (of ratio if its bytes are
 * unknown), then by percent of core. Negative: a is emptier than b; 0: equal; positive: a is
 * fuller. */
int card_fullness_compare(const struct cards *cards, enum device_kind kind, uint32_t a, uint32_t b);

#endif
