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
static enum charge_trust judge_counts(const struct pod_request *request, const struct plan *plan)
{
    int64_t named[DEVICE_KIND_MAX] = {0};
    for (uint32_t i = 0; i < plan->count; i++)
        named[plan->shares[i].kind]++;

    enum charge_trust trust = CHARGE_TRUSTED;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        if (named[kind] < request->of[kind].count)
            return CHARGE_UNKNOWN;
        if (named[kind] > request->of[kind].count)
            trust = CHARGE_INCONSISTENT;
    }
    return trust;
}

enum charge_trust charge_of(const struct cards *cards, const struct pod_request *request,
                            const struct share *shares, uint32_t count, struct plan *ret_plan)
{
    static const struct pod_request says_nothing;
    static const struct amount unknown;
    assert(count <= CARDS_PER_POD_MAX);

    struct plan plan = {.count = count};
    bool agree = true;
    for (uint32_t i = 0; i < count; i++) {
        enum device_kind kind = shares[i].kind;
        uint32_t row = cards_find(cards, kind, shares[i].minor);
        const struct amount *total = row == UINT32_MAX ? &unknown : &cards->at->total[row];
        plan.shares[i] = shares[i];
        agree &= charge_card(request != NULL ? &request->of[kind] : &says_nothing.of[kind],
                             &shares[i].amount, total, &plan.shares[i].amount);
    }

    enum charge_trust trust = CHARGE_UNKNOWN;
    if (request != NULL)
        trust = judge_counts(request, &plan);
    else if (count > 0)
        trust = CHARGE_INCONSISTENT;
    if (trust == CHARGE_TRUSTED && !agree)
        trust = CHARGE_INCONSISTENT;
    *ret_plan = plan;
    return trust;
}
