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

static bool device_request_eq(const struct device_request *a, const struct device_request *b)
{
    bool same = a->count == b->count && a->named == b->named && a->whole == b->whole &&
                a->some_core == b->some_core;
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        same &= amount_get(&a->each, dim) == amount_get(&b->each, dim);
    return same;
}

static bool selection_eq(const struct card_selection *a, const struct card_selection *b)
{
    return str_eq(a->use_model, b->use_model) && str_eq(a->no_model, b->no_model) &&
           str_eq(a->use_id, b->use_id) && str_eq(a->no_id, b->no_id);
}

static bool containers_eq(const struct gpu_detail *a, const struct gpu_detail *b)
{
    bool same = a->apart == b->apart && a->by_kubelet == b->by_kubelet &&
                a->container_count == b->container_count && a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = a->containers[i].container == b->containers[i].container &&
               a->containers[i].role == b->containers[i].role &&
               device_request_eq(&a->containers[i].gpu, &b->containers[i].gpu);
    return same;
}

bool request_same_devices(const struct pod_request *a, const struct pod_request *b)
{
    static const struct gpu_detail none;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        if (!device_request_eq(&a->of[kind], &b->of[kind]))
            return false;
    const struct gpu_detail *x = a->detail != NULL ? a->detail : &none;
    const struct gpu_detail *y = b->detail != NULL ? b->detail : &none;
    return (x->count == 0 && y->count == 0) || containers_eq(x, y);
}

bool request_eq(const struct pod_request *a, const struct pod_request *b)
{
    if (a->detail == NULL || b->detail == NULL)
        return a->detail == b->detail && request_same_devices(a, b);
    return selection_eq(&a->detail->select, &b->detail->select) && request_same_devices(a, b);
}

bool card_selection_any(const struct card_selection *select)
{
    return (select->use_model.len | select->no_model.len | select->use_id.len | select->no_id.len) >
           0;
}

size_t gpu_detail_size(const struct gpu_detail *detail)
{
    const struct card_selection *select = &detail->select;
    return sizeof *detail + detail->count * sizeof detail->containers[0] + select->use_model.len +
           select->no_model.len + select->use_id.len + select->no_id.len;
}

const struct gpu_detail *gpu_detail_copy(const struct gpu_detail *detail, void *block)
{
    struct gpu_detail *copy = block;
    struct container_request *containers = (struct container_request *)(copy + 1);
    char *text = (char *)(containers + detail->count);
    *copy = *detail;
    if (detail->count > 0)
        memcpy(containers, detail->containers, detail->count * sizeof *containers);
    copy->containers = containers;
    text = str_copy(text, detail->select.use_model, &copy->select.use_model);
    text = str_copy(text, detail->select.no_model, &copy->select.no_model);
    text = str_copy(text, detail->select.use_id, &copy->select.use_id);
    str_copy(text, detail->select.no_id, &copy->select.no_id);
    return copy;
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

static void format_kind(const char *before, enum device_kind kind, const struct device_request *of,
                        struct text *text)
{
    bool whole_gpu = kind == DEVICE_GPU && of->whole && of->each.ratio == 100 &&
                     (of->each.percent == 100 || of->each.percent == 0);
    text_add(text, "%s%" PRId64 "%s %s", before, of->count, whole_gpu ? " whole" : "",
             device_kind_name(kind));
    if (!whole_gpu)
        format_amounts(kind, &of->each, text);
}

/* "container 0: 1 gpu x 8Gi; container 2: 1 gpu x 4Gi", counted in pod order. */
static void format_containers(const struct gpu_detail *detail, struct text *text)
{
    for (uint32_t i = 0; i < detail->count; i++) {
        text_add(text, "%scontainer %" PRIu32, i > 0 ? "; " : "", detail->containers[i].container);
        format_kind(": ", DEVICE_GPU, &detail->containers[i].gpu, text);
    }
}

size_t request_format(const struct pod_request *request, char *out, size_t size)
{
    struct text text = text_begin(out, size);
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        if (request->of[kind].count == 0)
            continue;
        if (kind == DEVICE_GPU && request->detail != NULL && request->detail->apart)
            format_containers(request->detail, &text);
        else
            format_kind(text.len > 0 ? ", " : "", kind, &request->of[kind], &text);
    }
    if (text.len == 0)
        text_add(&text, "no devices");
    return text.len;
}
