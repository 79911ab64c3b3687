/* SPDX-License-Identifier: Apache-2.0 */
/* No preference: the lowest minors that fit, all nodes alike. */
#include "core/policy.h"

static bool prefer(const struct cards *cards, enum device_kind kind, uint32_t a, uint32_t b)
{
    (void)cards, (void)kind, (void)a, (void)b;
    return false;
}

static int64_t score(const struct cards *cards, const struct pod_request *request)
{
    (void)cards, (void)request;
    return 0;
}

const struct device_policy device_policy_default = {.name = "default", .prefer = prefer};
const struct node_policy node_policy_none = {.name = "none", .score = score};
