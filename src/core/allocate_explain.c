/* SPDX-License-Identifier: Apache-2.0 */
/* Why a request does not fit on a node, card by card, for people. */
#include "core/allocate.h"

#include <inttypes.h>

#include "core/hami.h"
#include "core/quantity.h"
#include "core/text.h"

static struct amount free_of(const struct card_columns *at, uint32_t row)
{
    return (struct amount){at->free_percent[row], at->free_ratio[row], at->free_bytes[row]};
}

/* The dimensions in which the card has less than the request takes from it, as DIM_BIT()s. A
 * dimension that the card does not have at all is short if the request names it. */
static unsigned short_dimensions(const struct card_columns *at, uint32_t row,
                                 const struct device_request *request)
{
    struct amount takes = request_on_card(request, &at->total[row]);
    struct amount left = free_of(at, row);
    unsigned dims = request->named & ~(unsigned)at->has[row];
    if (request->some_core && left.percent == 0)
        dims |= DIM_BIT(DIM_PERCENT);
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        if (at->has[row] & DIM_BIT(dim) && amount_get(&takes, dim) > amount_get(&left, dim))
            dims |= DIM_BIT(dim);
    return dims;
}

static bool selected(const struct card_columns *at, uint32_t row,
                     const struct card_selection *select)
{
    return select == NULL || card_selected(select, at->model[row], at->id[row]);
}

static bool card_fits(const struct card_columns *at, uint32_t row,
                      const struct device_request *request, const struct card_selection *select)
{
    return selected(at, row, select) && at->has[row] != 0 &&
           !(request->whole && at->pods[row] > 0) && short_dimensions(at, row, request) == 0;
}

/* "50% core wanted, 25% free" or "memory 8Gi wanted, 4Gi free". */
static void describe_shortage(struct text *text, enum device_kind kind, enum dimension dim,
                              int64_t wanted, int64_t left)
{
    if (dim == DIM_BYTES) {
        char wanted_text[QUANTITY_TEXT_MAX], left_text[QUANTITY_TEXT_MAX];
        quantity_format_binary(wanted, wanted_text);
        quantity_format_binary(left, left_text);
        text_add(text, "memory %s wanted, %s free", wanted_text, left_text);
        return;
    }
    if (wanted == 0) {
        text_add(text, "all core taken");
        return;
    }
    const char *what = dim == DIM_RATIO ? " memory" : kind == DEVICE_GPU ? " core" : "";
    text_add(text, "%" PRId64 "%%%s wanted, %" PRId64 "%% free", wanted, what, left);
}

static void describe_dimensions(struct text *text, const struct card_columns *at, uint32_t row,
                                enum device_kind kind, const struct device_request *request)
{
    unsigned dims = short_dimensions(at, row, request);
    struct amount takes = request_on_card(request, &at->total[row]);
    struct amount left = free_of(at, row);
    const char *comma = "";
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        if (!(dims & DIM_BIT(dim)))
            continue;
        text_add(text, "%s", comma);
        comma = ", ";
        if (at->has[row] & DIM_BIT(dim))
            describe_shortage(text, kind, dim, amount_get(&takes, dim), amount_get(&left, dim));
        else
            text_add(text, "states no %s", device_dimension_name(kind, dim));
    }
}

static void describe_card(struct text *text, const struct card_columns *at, uint32_t row,
                          enum device_kind kind, const struct device_request *request,
                          const struct card_selection *select)
{
    uint32_t pods = at->pods[row];
    text_add(text, "; %s %" PRId32 ": ", device_kind_name(kind), at->minor[row]);
    if (!at->registered[row])
        text_add(text, "not listed any more");
    else if (!selected(at, row, select))
        text_add(text, "not of the type or id asked for");
    else if (at->has[row] == 0 && cards_can_give(at, row))
        text_add(text, "in use by %" PRIu32 " containers, as many as may share it", at->users[row]);
    else if (at->has[row] == 0)
        text_add(text, "unhealthy");
    else if (request->whole && pods > 0)
        text_add(text, "in use by %" PRIu32 " pod%s", pods, pods == 1 ? "" : "s");
    else
        describe_dimensions(text, at, row, kind, request);
}

/* "2 whole cards wanted, 1 of 2 whole cards is free" or "1 card wanted, 0 of 4 fit". */
static void describe_kind(struct text *text, enum device_kind kind,
                          const struct device_request *request, int64_t fitting, int64_t cards)
{
    const char *whole = request->whole ? "whole " : "";
    text_add(text, "%s%s: %" PRId64 " %scard%s wanted, ", text->len > 0 ? "; " : "",
             device_kind_name(kind), request->count, whole, request->count == 1 ? "" : "s");
    if (fitting >= request->count)
        text_add(text, "at most %d devices for one pod", CARDS_PER_POD_MAX);
    else if (cards == 0)
        text_add(text, "the node has none");
    else if (request->whole)
        text_add(text, "%" PRId64 " of %" PRId64 " whole cards %s free", fitting, request->count,
                 fitting == 1 ? "is" : "are");
    else
        text_add(text, "%" PRId64 " of %" PRId64 " fit", fitting, cards);
}

/* `left` is how many more cards one pod may have; the kind's are taken off it. */
static void explain_kind(struct text *text, const struct cards *cards, enum device_kind kind,
                         const struct device_request *request, const struct card_selection *select,
                         int64_t *left)
{
    uint32_t begin = cards_begin(cards, kind);
    uint32_t end = begin + cards->count[kind];
    int64_t fitting = 0;
    for (uint32_t row = begin; row < end; row++)
        fitting += card_fits(cards->at, row, request, select);

    bool too_many = request->count > *left;
    *left -= too_many ? *left : request->count;
    if (fitting >= request->count && !too_many)
        return;
    describe_kind(text, kind, request, fitting, cards->count[kind]);
    for (uint32_t row = begin; row < end; row++)
        if (!card_fits(cards->at, row, request, select))
            describe_card(text, cards->at, row, kind, request, select);
}

size_t allocate_explain(const struct cards *cards, const struct pod_request *request, char *out,
                        size_t size)
{
    const struct gpu_detail *detail = request->detail;
    struct text text = text_begin(out, size);
    int64_t left = CARDS_PER_POD_MAX;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        if (request->of[kind].count > 0)
            explain_kind(&text, cards, kind, &request->of[kind],
                         kind == DEVICE_GPU && detail != NULL ? &detail->select : NULL, &left);
    if (text.len == 0 && detail != NULL && detail->apart &&
        allocate_check(cards, request) != REASON_FITS)
        text_add(&text, "gpu: each container fits, but not all together");
    return text.len;
}
