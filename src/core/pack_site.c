/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack_site.h"

#include <assert.h>

#include "core/allocate.h"

#define BYTES_PER_MIB     (INT64_C(1) << 20)
#define MILLI_PER_PERCENT (PACK_CARD_MILLI / 100)

_Static_assert(CARDS_PER_NODE_MAX <= PACK_CARDS_MAX, "a node's cards have room");

/* ---- requests ---- */

static int32_t milli_of_percent(int64_t percent)
{
    return percent < 100 ? (int32_t)percent * MILLI_PER_PERCENT : PACK_CARD_MILLI;
}

static int64_t mib_up(int64_t bytes)
{
    return bytes / BYTES_PER_MIB + (bytes % BYTES_PER_MIB > 0);
}

struct pack_seen pack_seen_of(const struct pod_request *request, const struct host_amount *host)
{
    const struct device_request *gpu = &request->of[DEVICE_GPU];
    struct pack_seen seen = {
        .pod = {.cpu_milli = host->cpu_milli,
                .memory_mib = mib_up(host->memory_bytes),
                .models = PACK_MODELS_ANY},
        .weight = 1,
    };
    if (gpu->count == 0)
        return seen;
    seen.pod.cards = (int32_t)gpu->count;
    seen.pod.milli = gpu->whole ? PACK_CARD_MILLI : milli_of_percent(gpu->each.percent);
    int32_t ratio = milli_of_percent(gpu->each.ratio);
    if (ratio > seen.pod.milli)
        seen.pod.milli = ratio;
    seen.bytes = gpu->whole ? 0 : gpu->each.bytes;
    if (gpu->count > 1 && seen.pod.milli < PACK_CARD_MILLI) {
        /* Parts of several cards are as good as so many pods with a part of one each. */
        seen.weight = (double)gpu->count;
        seen.pod.cards = 1;
        seen.pod.cpu_milli /= gpu->count;
        seen.pod.memory_mib /= gpu->count;
    }
    return seen;
}

struct pack_pod pack_pod_of(const struct pod_request *request, const struct host_amount *host,
                            int64_t card_bytes)
{
    struct pack_seen seen = pack_seen_of(request, host);
    struct pack_pod pod = seen.pod;
    int32_t milli = seen.bytes > 0 ? pack_milli_of_bytes(seen.bytes, card_bytes) : 0;
    pod.cards = (int32_t)request->of[DEVICE_GPU].count;
    pod.cpu_milli = host->cpu_milli;
    pod.memory_mib = mib_up(host->memory_bytes);
    pod.milli = milli > pod.milli ? milli : pod.milli;
    return pod;
}

void pack_decision_init(struct pack_decision *decision, const struct pack_tables *tables,
                        const struct pack_market *market, uint32_t models,
                        const struct pod_request *request, const struct pack_pod *pod)
{
    decision->tables = tables;
    decision->request = request;
    decision->pod = *pod;
    pack_price(tables, market, models, &decision->prices);
    for (uint32_t model = 0; model < models; model++)
        decision->model_cost[model] = pack_model_cost(tables, &decision->prices, pod, model);
}

/* ---- cards ---- */

static int64_t part(int64_t amount, int64_t total)
{
    return amount > 0 ? amount * PACK_CARD_MILLI / total : 0;
}

/* What the card in `row` has left after `take`, of its scarcest dimension. */
static int32_t milli_left(const struct card_columns *at, uint32_t row, const struct amount *take)
{
    const struct amount *total = &at->total[row];
    int64_t left = PACK_CARD_MILLI, memory = PACK_CARD_MILLI;
    if (total->percent > 0)
        left = part(at->free_percent[row] - take->percent, total->percent);
    if (total->bytes > 0)
        memory = part(at->free_bytes[row] - take->bytes, total->bytes);
    else if (total->ratio > 0)
        memory = part(at->free_ratio[row] - take->ratio, total->ratio);
    left = memory < left ? memory : left;
    return left < PACK_CARD_MILLI ? (int32_t)left : PACK_CARD_MILLI;
}

/* A card that holds a pod is no whole one, even if that takes nothing of it. */
static int32_t free_milli_of(const struct card_columns *at, uint32_t row)
{
    static const struct amount nothing;
    if (at->has[row] == 0)
        return 0;
    int32_t left = milli_left(at, row, &nothing);
    return left == PACK_CARD_MILLI && at->pods[row] > 0 ? PACK_CARD_MILLI - 1 : left;
}

struct pack_node pack_node_of(const struct pack_site *site, int32_t free_milli[PACK_CARDS_MAX])
{
    const struct cards *cards = site->cards;
    struct host_amount left = site->allocatable;
    uint32_t begin = cards_begin(cards, DEVICE_GPU);
    for (uint32_t i = 0; i < cards->count[DEVICE_GPU]; i++)
        free_milli[i] = free_milli_of(cards->at, begin + i);
    host_add(&left, &site->used, -1);
    return (struct pack_node){
        .cpu_milli = site->allocatable.cpu_milli > 0 ? left.cpu_milli : PACK_PLENTY,
        .memory_mib =
            site->allocatable.memory_bytes > 0 ? left.memory_bytes / BYTES_PER_MIB : PACK_PLENTY,
        .model = site->model,
        .cards = cards->count[DEVICE_GPU],
        .free_milli = free_milli,
    };
}

/* ---- one node ---- */

/* What each card would have left, as a card is taken: in all its dimensions. */
static void fill_left(const struct pack_site *site, int32_t left[PACK_CARDS_MAX])
{
    const struct cards *cards = site->cards;
    const struct device_request *request = &site->decision->request->of[DEVICE_GPU];
    uint32_t begin = cards_begin(cards, DEVICE_GPU);
    for (uint32_t i = 0; i < cards->count[DEVICE_GPU]; i++) {
        left[i] = PACK_UNFIT;
        if (!allocate_card_fits(cards, begin + i, request))
            continue;
        struct amount take = request_on_card(request, &cards->at->total[begin + i]);
        left[i] = milli_left(cards->at, begin + i, &take);
    }
}

unsigned pack_site_options(const struct pack_site *site, struct pack_option ret[PACK_OPTIONS_MAX])
{
    const struct pack_decision *decision = site->decision;
    int32_t free_milli[PACK_CARDS_MAX], left[PACK_CARDS_MAX];
    struct pack_node node = pack_node_of(site, free_milli);
    /* kube-scheduler says that CPU and memory are enough: it knows of pods that are on their way. */
    if (node.cpu_milli < decision->pod.cpu_milli)
        node.cpu_milli = decision->pod.cpu_milli;
    if (node.memory_mib < decision->pod.memory_mib)
        node.memory_mib = decision->pod.memory_mib;
    if (decision->pod.cards > 0)
        fill_left(site, left);
    unsigned count = pack_options(decision->tables, &node, &decision->pod, left, ret);
    assert(count > 0);
    return count;
}

double pack_site_gain(const struct pack_site *site, int32_t *ret_card)
{
    const struct pack_decision *decision = site->decision;
    struct pack_option options[PACK_OPTIONS_MAX];
    unsigned count = pack_site_options(site, options);
    double best = 0;
    for (unsigned i = 0; i < count; i++) {
        double gain = options[i].gain -
                      pack_copies_cost(decision->tables, &decision->prices, options[i].lost);
        if (i > 0 && gain <= best)
            continue;
        best = gain;
        *ret_card = options[i].card;
    }
    return pack_site_net(decision, site->model, site->place, best);
}
