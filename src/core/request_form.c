/* SPDX-License-Identifier: Apache-2.0 */
/* The unified form of a request: compared, applied to a card, written for people. */
#include "core/request.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/quantity.h"
#include "core/text.h"

bool request_any(const struct pod_request *request)
{
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        if (request->of[kind].count > 0)
            return true;
    return false;
}

bool request_eq(const struct pod_request *a, const struct pod_request *b)
{
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        const struct device_request *x = &a->of[kind];
        const struct device_request *y = &b->of[kind];
        if (x->count != y->count || x->named != y->named || x->whole != y->whole)
            return false;
        for (enum dimension dim = 0; dim < DIM_MAX; dim++)
            if (amount_get(&x->each, dim) != amount_get(&y->each, dim))
                return false;
    }
    return true;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

struct amount request_on_card(const struct device_request *request, const struct amount *card_total)
{
    struct amount takes = request->each;
    /* What is past the bounds fits no card anyway; bounded, the derived figure stays in int64. */
    int64_t ratio = at_most(takes.ratio, CARD_PERCENT_MAX);
    int64_t bytes = at_most(takes.bytes, CARD_BYTES_MAX);
    if (takes.bytes == 0)
        takes.bytes = memory_ratio_to_bytes(ratio, card_total->bytes);
    else if (takes.ratio == 0 && card_total->ratio > 0)
        takes.ratio = at_most(memory_bytes_to_ratio(bytes, card_total->bytes), CARD_PERCENT_MAX);
    return takes;
}

static void format_amounts(enum device_kind kind, const struct amount *each, struct text *text)
{
    bool gpu = kind == DEVICE_GPU;
    const char *before = " x ";
    if (each->percent > 0) {
        text_add(text, "%s%" PRId64 "%%%s", before, each->percent, gpu ? " core" : "");
        before = ", ";
    }
    if (each->ratio > 0)
        text_add(text, "%s%" PRId64 "%% memory", before, each->ratio);
    if (each->bytes > 0) {
        char bytes[QUANTITY_TEXT_MAX];
        quantity_format_binary(each->bytes, bytes);
        text_add(text, "%s%s", before, bytes);
    }
}

size_t request_format(const struct pod_request *request, char *out, size_t size)
{
    struct text text = text_begin(out, size);
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        const struct device_request *of = &request->of[kind];
        if (of->count == 0)
            continue;
        bool whole_gpu = kind == DEVICE_GPU && of->whole && of->each.ratio == 100 &&
                         (of->each.percent == 100 || of->each.percent == 0);
        text_add(&text, "%s%" PRId64 "%s %s", text.len > 0 ? ", " : "", of->count,
                 whole_gpu ? " whole" : "", device_kind_name(kind));
        if (!whole_gpu)
            format_amounts(kind, &of->each, &text);
    }
    if (text.len == 0)
        text_add(&text, "no devices");
    return text.len;
}
