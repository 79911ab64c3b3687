/* SPDX-License-Identifier: Apache-2.0 */
#include "core/policy.h"

#include <stddef.h>

static const struct device_policy *const device_policies[] = {
    &device_policy_default,
    &device_policy_binpack,
    &device_policy_spread,
    &device_policy_pack,
};

static const struct node_policy *const node_policies[] = {
    &node_policy_binpack,
    &node_policy_spread,
    &node_policy_pack,
    &node_policy_none,
};

/* Koordinator's names for the same. */
static const struct {
    const char *theirs;
    const char *ours;
} aliases[] = {
    {"LeastAllocated", "spread"},
    {"MostAllocated", "binpack"},
};

static struct str our_name(struct str name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (str_is(name, aliases[i].theirs))
            return str_from(aliases[i].ours);
    return name;
}

const struct device_policy *device_policy_find(struct str name)
{
    for (size_t i = 0; i < sizeof(device_policies) / sizeof(device_policies[0]); i++)
        if (str_is(our_name(name), device_policies[i]->name))
            return device_policies[i];
    return NULL;
}

const struct node_policy *node_policy_find(struct str name)
{
    for (size_t i = 0; i < sizeof(node_policies) / sizeof(node_policies[0]); i++)
        if (str_is(our_name(name), node_policies[i]->name))
            return node_policies[i];
    return NULL;
}

const char *device_policy_names(void)
{
    return "default|binpack|spread|pack";
}

const char *node_policy_names(void)
{
    return "binpack|spread|pack|none";
}

/* used / total, compared without division: 0/1 for what a card does not have. */
static int fraction_compare(int64_t used_a, int64_t total_a, int64_t used_b, int64_t total_b)
{
    __int128 a = total_a > 0 ? used_a : 0;
    __int128 b = total_b > 0 ? used_b : 0;
    a *= total_b > 0 ? total_b : 1;
    b *= total_a > 0 ? total_a : 1;
    return (a > b) - (a < b);
}

static enum dimension memory_dimension(const struct amount *total)
{
    return total->bytes > 0 ? DIM_BYTES : DIM_RATIO;
}

int card_fullness_compare(const struct cards *cards, enum device_kind kind, uint32_t a, uint32_t b)
{
    (void)kind;
    const struct amount *total_a = &cards->at->total[a], *used_a = &cards->at->used[a];
    const struct amount *total_b = &cards->at->total[b], *used_b = &cards->at->used[b];

    enum dimension dim_a = memory_dimension(total_a);
    enum dimension dim_b = memory_dimension(total_b);
    int r = fraction_compare(amount_get(used_a, dim_a), amount_get(total_a, dim_a),
                             amount_get(used_b, dim_b), amount_get(total_b, dim_b));
    if (r != 0)
        return r;
    return fraction_compare(used_a->percent, total_a->percent, used_b->percent, total_b->percent);
}
