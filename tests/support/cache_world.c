/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_world.h"

#include <stdio.h>

/* All of it is worked out anew whenever it is asked for: slow, and hard to get wrong. */

struct str world_node_name(int n)
{
    static const char *const names[NODES_MAX] = {"n-0", "n-1", "n-2", "n-3", "n-4", "n-5"};
    return str_from(names[n]);
}

struct str world_pod_uid(int p)
{
    static char uids[PODS_MAX][8];
    if (uids[p][0] == '\0')
        snprintf(uids[p], sizeof uids[p], "uid-%d", p);
    return str_from(uids[p]);
}

struct amount world_usable(const struct model_card *card)
{
    return card->healthy ? card->total : (struct amount){0};
}

const struct model_card *world_card(const struct model_node *node, enum device_kind kind, int32_t minor)
{
    for (int i = 0; node->has_devices && i < node->card_count; i++) {
        if (node->cards[i].kind == kind && node->cards[i].minor == minor)
            return &node->cards[i];
    }
    return NULL;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool names(const struct device_request *request, enum dimension dim)
{
    return (request->named & DIM_BIT(dim)) != 0;
}

/* No single figure is past the bounds of core/device.h. */
static int64_t capped(int64_t ratio)
{
    return ratio < CARD_PERCENT_MAX ? ratio : CARD_PERCENT_MAX;
}

struct amount world_wanted(const struct device_request *request, struct amount total)
{
    struct amount amount = request->each;
    if (names(request, DIM_RATIO) && !names(request, DIM_BYTES) && total.bytes > 0)
        amount.bytes = request->each.ratio * total.bytes / 100;
    if (names(request, DIM_BYTES) && !names(request, DIM_RATIO) && total.bytes > 0 &&
        total.ratio > 0)
        amount.ratio = capped(request->each.bytes * 100 / total.bytes);
    return amount;
}

/* An annotation's share with the memory figure it lacks, as far as the card's size is known. */
static struct amount completed(const struct device_request *request, struct amount amount,
                               struct amount total)
{
    if (amount.bytes == 0 && !names(request, DIM_BYTES))
        amount.bytes = amount.ratio * total.bytes / 100;
    else if (amount.ratio == 0 && !names(request, DIM_RATIO) && total.ratio > 0)
        amount.ratio = capped(amount.bytes * 100 / total.bytes);
    return amount;
}

static bool believable(const struct device_request *request, struct amount have,
                       struct amount total)
{
    struct amount want = world_wanted(request, total);
    if (have.percent != want.percent)
        return false;
    if ((names(request, DIM_BYTES) || total.bytes > 0) && have.bytes != want.bytes)
        return false;
    if (names(request, DIM_RATIO))
        return have.ratio == want.ratio;
    if (total.bytes == 0 || total.ratio == 0)
        return true;
    return have.ratio == want.ratio || have.ratio + 1 == want.ratio;
}

enum charge_trust world_charge(const struct world *world, const struct model_pod *pod, struct share *charges)
{
    const struct model_node *node = &world->nodes[pod->node];
    int named[DEVICE_KIND_MAX] = {0};
    bool trusted = !pod->invalid, complete = true;
    for (int i = 0; i < pod->share_count; i++)
        named[pod->shares[i].kind]++;
    for (int kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        int64_t want = pod->invalid ? 0 : pod->request.of[kind].count;
        complete = complete && named[kind] >= want;
        trusted = trusted && named[kind] == want;
    }
    if (pod->share_count == 0)
        complete = false;
    for (int i = 0; i < pod->share_count; i++) {
        const struct device_request *request = &pod->request.of[pod->shares[i].kind];
        const struct model_card *card = world_card(node, pod->shares[i].kind, pod->shares[i].minor);
        struct amount total = card != NULL ? world_usable(card) : (struct amount){0};
        struct amount have = completed(request, pod->shares[i].amount, total);
        struct amount want = world_wanted(request, total);
        charges[i] = pod->shares[i];
        charges[i].amount = have;
        if (!believable(request, have, total)) {
            trusted = false;
            charges[i].amount = (struct amount){max64(have.percent, want.percent),
                                                max64(have.ratio, want.ratio),
                                                max64(have.bytes, want.bytes)};
        }
    }
    return !complete ? CHARGE_UNKNOWN : trusted ? CHARGE_TRUSTED : CHARGE_INCONSISTENT;
}

/* Does the pod hold something on the node? */
static bool counts(const struct world *world, int p, int n)
{
    const struct model_pod *pod = &world->pods[p];
    return pod->known && pod->node == n && !world->left_out[p];
}

struct amount world_used(const struct world *world, int n, enum device_kind kind, int32_t minor,
                         uint32_t *ret_holders)
{
    struct amount used = {0};
    *ret_holders = 0;
    for (int p = 0; p < world->pod_count; p++) {
        const struct model_pod *pod = &world->pods[p];
        if (!counts(world, p, n))
            continue;
        struct share charges[SHARES];
        world_charge(world, pod, charges);
        for (int i = 0; i < pod->share_count; i++) {
            if (charges[i].kind != kind || charges[i].minor != minor)
                continue;
            used.percent += charges[i].amount.percent;
            used.ratio += charges[i].amount.ratio;
            used.bytes += charges[i].amount.bytes;
            ++*ret_holders;
        }
    }
    return used;
}

bool world_has_unknown(const struct world *world, int n)
{
    for (int p = 0; p < world->pod_count; p++) {
        struct share charges[SHARES];
        if (counts(world, p, n) && world_charge(world, &world->pods[p], charges) == CHARGE_UNKNOWN)
            return true;
    }
    return false;
}

bool world_closed(const struct world *world, int n)
{
    return !world->unknown_ignored && world_has_unknown(world, n);
}

bool world_card_fits(const struct world *world, int n, const struct model_card *card,
                     const struct device_request *request)
{
    struct amount total = world_usable(card), want = world_wanted(request, total);
    uint32_t holders;
    struct amount used = world_used(world, n, card->kind, card->minor, &holders);
    if (names(request, DIM_PERCENT) && total.percent == 0)
        return false;
    if (names(request, DIM_RATIO) && total.ratio == 0)
        return false;
    if (names(request, DIM_BYTES) && total.bytes == 0)
        return false;
    if (request->whole && holders > 0)
        return false;
    bool given_twice =
        holders > 1 && ((total.percent > 0 && used.percent > total.percent) ||
                        (total.ratio > 0 && used.ratio > total.ratio) ||
                        (total.bytes > 0 && used.bytes > total.bytes));
    return !given_twice &&
           (want.percent == 0 || used.percent + want.percent <= total.percent) &&
           (total.ratio == 0 || want.ratio == 0 || used.ratio + want.ratio <= total.ratio) &&
           (total.bytes == 0 || want.bytes == 0 || used.bytes + want.bytes <= total.bytes);
}

bool world_fits(const struct world *world, int n, const struct pod_request *request)
{
    const struct model_node *node = &world->nodes[n];
    if (!node->has_node || !node->has_devices || world_closed(world, n))
        return false;
    if (node->device_plugin && !world->plugin_allowed && request->of[DEVICE_GPU].count > 0)
        return false;
    for (int kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        const struct device_request *of = &request->of[kind];
        int64_t fit = 0;
        for (int i = 0; i < node->card_count; i++)
            fit += (int)node->cards[i].kind == kind && world_card_fits(world, n, &node->cards[i], of);
        if (of->count > 0 && fit < of->count)
            return false;
    }
    return true;
}

bool world_fits_somewhere(const struct world *world, const struct pod_request *request)
{
    for (int n = 0; n < world->node_count; n++) {
        if (world_fits(world, n, request))
            return true;
    }
    return false;
}

bool world_knows(const struct world *world, int n)
{
    bool placed = false;
    for (int p = 0; p < world->pod_count; p++)
        placed |= world->pods[p].known && world->pods[p].node == n;
    return world->nodes[n].has_node || world->nodes[n].has_devices || placed;
}
