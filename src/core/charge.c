/* SPDX-License-Identifier: Apache-2.0 */
#include "core/charge.h"

#include <assert.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

/* Sums over a card's pods stay in int64 because no single charge is past the bounds. */
_Static_assert(CARD_BYTES_MAX <= INT64_MAX / PODS_PER_CARD_MAX, "used bytes of a card fit int64");

static struct amount bounded(struct amount amount)
{
    return (struct amount){
        .percent = at_most(amount.percent, CARD_PERCENT_MAX),
        .ratio = at_most(amount.ratio, CARD_PERCENT_MAX),
        .bytes = at_most(amount.bytes, CARD_BYTES_MAX),
    };
}

/* Fill the memory figure that is missing from the other one, as far as the card's size is known. */
static void derive_memory(struct amount *amount, unsigned named, const struct amount *total)
{
    if (amount->bytes == 0 && !(named & DIM_BIT(DIM_BYTES)))
        amount->bytes = memory_ratio_to_bytes(amount->ratio, total->bytes);
    else if (amount->ratio == 0 && !(named & DIM_BIT(DIM_RATIO)) && total->ratio > 0)
        amount->ratio =
            at_most(memory_bytes_to_ratio(amount->bytes, total->bytes), CARD_PERCENT_MAX);
}

/* Is one dimension of an annotation what the request comes to on this card? A derived figure can
 * only be judged on a card whose size is known now: a sick or vanished one proves nothing. */
static bool agrees(enum dimension dim, int64_t written, int64_t expected,
                   const struct device_request *request, const struct amount *total)
{
    if (written == expected)
        return true;
    if (dim == DIM_PERCENT || request->named & DIM_BIT(dim))
        return false;
    if (total->bytes == 0 || amount_get(total, dim) == 0)
        return true;
    return dim == DIM_RATIO && written == expected - 1; /* Koordinator's doubles */
}

/* What one card is charged. Returns whether that is what the annotation says. */
static bool charge_card(const struct device_request *request, const struct amount *written,
                        const struct amount *total, struct amount *ret)
{
    struct amount charge = *written;
    struct amount expected = request_on_card(request, total);
    derive_memory(&charge, request->named, total);

    bool agree = true;
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        agree &= agrees(dim, amount_get(&charge, dim), amount_get(&expected, dim), request, total);
    for (enum dimension dim = 0; !agree && dim < DIM_MAX; dim++)
        amount_set(&charge, dim, larger(amount_get(&charge, dim), amount_get(&expected, dim)));
    *ret = bounded(charge);
    return agree;
}

/* Do the numbers of cards match, whatever is taken from them? */
static enum charge_trust judge_counts(const struct pod_request *request, const struct plan *plan,
                                      uint32_t unlisted)
{
    const struct gpu_detail *detail = request->detail;
    int64_t named[DEVICE_KIND_MAX] = {[DEVICE_GPU] = unlisted};
    int64_t at_most[DEVICE_KIND_MAX];
    for (uint32_t i = 0; i < plan->count; i++)
        named[plan->shares[i].kind]++;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        at_most[kind] = request->of[kind].count;
    if (detail != NULL && detail->apart) {
        at_most[DEVICE_GPU] = 0;
        for (uint32_t i = 0; i < detail->count; i++)
            at_most[DEVICE_GPU] += detail->containers[i].gpu.count;
    }

    enum charge_trust trust = CHARGE_TRUSTED;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        if (named[kind] < request->of[kind].count)
            return CHARGE_UNKNOWN;
        if (named[kind] > at_most[kind])
            trust = CHARGE_INCONSISTENT;
    }
    return trust;
}

/* ---- containers apart ---- */

/* What the containers ask for on all cards together at one time at most, in the dimensions that
 * they name; and on one card if they were all there. */
static void sum_containers(const struct gpu_detail *detail, const struct amount *card_total,
                           struct amount *ret_pod, struct amount *ret_card)
{
    struct part parts[CARDS_PER_POD_MAX];
    struct share pod = {0}, card = {0};
    assert(detail->count <= CARDS_PER_POD_MAX);
    for (unsigned on_card = 0; on_card < 2; on_card++) {
        for (uint32_t i = 0; i < detail->count; i++) {
            const struct container_request *container = &detail->containers[i];
            struct amount amount = container->gpu.each;
            if (on_card)
                amount = request_on_card(&container->gpu, card_total);
            for (enum dimension dim = 0; !on_card && dim < DIM_MAX; dim++)
                amount_set(&amount, dim, amount_get(&amount, dim) * container->gpu.count);
            parts[i] = (struct part){
                .container = container->container, .role = container->role, .amount = amount};
        }
        parts_peak(parts, detail->count, 0, on_card ? &card : &pod);
    }
    *ret_pod = pod.amount;
    *ret_card = card.amount;
}

static const struct amount *total_of(const struct cards *cards, const struct share *share)
{
    static const struct amount unknown;
    uint32_t row = cards_find(cards, share->kind, share->minor);
    return row == UINT32_MAX ? &unknown : &cards->at->total[row];
}

/* The GPUs of containers that are placed apart, as written if that comes to enough. Returns whether
 * it does. */
static bool charge_apart(const struct cards *cards, const struct gpu_detail *detail,
                         uint32_t unlisted, struct plan *plan)
{
    struct amount wanted, on_card, written = {0};
    sum_containers(detail, &written, &wanted, &on_card);
    for (uint32_t i = 0; i < plan->count && plan->shares[i].kind == DEVICE_GPU; i++) {
        struct amount *charge = &plan->shares[i].amount;
        derive_memory(charge, 0, total_of(cards, &plan->shares[i]));
        for (enum dimension dim = 0; dim < DIM_MAX; dim++)
            amount_set(&written, dim, amount_get(&written, dim) + amount_get(charge, dim));
        written.ratio += plan->shares[i].beside + 1; /* that many may have been rounded down */
    }
    bool enough = unlisted > 0 || (written.percent >= wanted.percent &&
                                   written.ratio >= wanted.ratio && written.bytes >= wanted.bytes);
    for (uint32_t i = 0; i < plan->count && plan->shares[i].kind == DEVICE_GPU; i++) {
        struct amount *charge = &plan->shares[i].amount;
        sum_containers(detail, total_of(cards, &plan->shares[i]), &wanted, &on_card);
        for (enum dimension dim = 0; !enough && dim < DIM_MAX; dim++)
            amount_set(charge, dim, larger(amount_get(charge, dim), amount_get(&on_card, dim)));
        *charge = bounded(*charge);
    }
    return enough;
}

enum charge_trust charge_of(const struct cards *cards, const struct pod_request *request,
                            const struct share *shares, uint32_t count, uint32_t unlisted,
                            struct plan *ret_plan)
{
    static const struct pod_request says_nothing;
    bool apart = request != NULL && request->detail != NULL && request->detail->apart;
    assert(count <= CARDS_PER_POD_MAX);

    ret_plan->count = count;
    ret_plan->part_count = 0;
    bool agree = true;
    for (uint32_t i = 0; i < count; i++) {
        enum device_kind kind = shares[i].kind;
        ret_plan->shares[i] = shares[i];
        if (!apart || kind != DEVICE_GPU)
            agree &= charge_card(request != NULL ? &request->of[kind] : &says_nothing.of[kind],
                                 &shares[i].amount, total_of(cards, &shares[i]),
                                 &ret_plan->shares[i].amount);
    }
    if (apart)
        agree &= charge_apart(cards, request->detail, unlisted, ret_plan);

    enum charge_trust trust = CHARGE_UNKNOWN;
    if (request != NULL)
        trust = judge_counts(request, ret_plan, unlisted);
    else if (count + unlisted > 0)
        trust = CHARGE_INCONSISTENT;
    if (trust == CHARGE_TRUSTED && !agree)
        trust = CHARGE_INCONSISTENT;
    return trust;
}
