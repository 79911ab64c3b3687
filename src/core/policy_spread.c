/* SPDX-License-Identifier: Apache-2.0 */
/* The emptiest card that fits and the node with least allocated: pods disturb each other least. */
#include "core/policy.h"
#include "core/score.h"

static bool prefer(const struct cards *cards, enum device_kind kind, uint32_t a, uint32_t b)
{
    return card_fullness_compare(cards, kind, a, b) < 0;
}

static int64_t score(const struct cards *cards, const struct pod_request *request)
{
    return score_node(SCORE_LEAST_ALLOCATED, &score_default_weights, SCORE_FINE, cards, request);
}

const struct device_policy device_policy_spread = {.name = "spread", .prefer = prefer};
const struct node_policy node_policy_spread = {.name = "spread", .score = score};
