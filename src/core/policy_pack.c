/* SPDX-License-Identifier: Apache-2.0 */
/* Room for the pods to come: by tables learned from the mix of requests (core/pack.h). Where there is
 * nothing to weigh, and for what packing does not look at, the same as binpack. */
#include "core/pack_site.h"
#include "core/policy.h"

/* Gains are small numbers around 0; scores are whole and not negative. */
#define GAIN_MAX   1e5
#define GAIN_SCALE 1e9

static bool prefer(const struct cards *cards, enum device_kind kind, uint32_t a, uint32_t b)
{
    return device_policy_binpack.prefer(cards, kind, a, b);
}

static int32_t pick(const struct pack_site *site)
{
    int32_t card;
    (void)pack_site_gain(site, &card);
    return card;
}

static int64_t score(const struct cards *cards, const struct pod_request *request)
{
    return node_policy_binpack.score(cards, request);
}

static int64_t weigh(double gain)
{
    gain = gain < -GAIN_MAX ? -GAIN_MAX : gain > GAIN_MAX ? GAIN_MAX : gain;
    return (int64_t)((gain + GAIN_MAX) * GAIN_SCALE);
}

const struct device_policy device_policy_pack = {.name = "pack", .prefer = prefer, .pick = pick};
const struct node_policy node_policy_pack = {.name = "pack", .score = score, .weigh = weigh};
