/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hami.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

const struct hami_rules hami_rules_default = {.memory_factor = 1};

static int bad_amount(const struct container *container, enum resource resource, const char *rule,
                      struct error *err)
{
    return error_set(err, -EINVAL,
                     "invalid resource device requests: [%s]: %s %" PRId64 " of container %.*s %s",
                     resource_name(resource), resource_name(resource),
                     container->requests.amount[resource], STR_ARG(container->name), rule);
}

static int64_t at_most_100(int64_t percent)
{
    return percent < 100 ? percent : 100;
}

/* Bytes of nvidia.com/gpumem, or -1 if no card has so many. */
static int64_t bytes_of(int64_t amount, const struct hami_rules *rules)
{
    int64_t bytes;
    if (__builtin_mul_overflow(amount, rules->memory_factor, &bytes) ||
        __builtin_mul_overflow(bytes, MIB, &bytes) || bytes > CARD_BYTES_MAX)
        return -1;
    return bytes;
}

static struct device_request whole_cards(int64_t count)
{
    return (struct device_request){
        .count = count,
        .each = {.percent = 100, .ratio = 100},
        .named = DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO),
        .whole = true,
    };
}

static bool has_defaults(const struct hami_rules *rules)
{
    return rules->default_memory_mib > 0 || rules->default_cores > 0;
}

int hami_container(const struct container *container, const struct hami_rules *rules,
                   struct device_request *ret, struct error *err)
{
    const int64_t *amount = container->requests.amount;
    int64_t memory = amount[RESOURCE_HAMI_MEMORY], ratio = amount[RESOURCE_HAMI_PERCENTAGE],
            cores = amount[RESOURCE_HAMI_CORES], count = amount[RESOURCE_NVIDIA_GPU];
    static const enum resource names[] = {RESOURCE_NVIDIA_GPU, RESOURCE_HAMI_CORES,
                                          RESOURCE_HAMI_MEMORY, RESOURCE_HAMI_PERCENTAGE};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (amount[names[i]] < 0)
            return bad_amount(container, names[i], "is negative", err);

    bool bare = memory == 0 && ratio == 0 && cores == 0;
    *ret = (struct device_request){0};
    if (bare && (count == 0 || !has_defaults(rules))) {
        if (count > 0)
            *ret = whole_cards(count);
        return 0;
    }
    struct device_request request = {.count = count > 0 ? count : 1};
    if (memory > 0) {
        request.each.bytes = bytes_of(memory, rules);
        if (request.each.bytes < 0)
            return bad_amount(container, RESOURCE_HAMI_MEMORY, "is in MiB: no card has so many",
                              err);
    } else if (ratio == 0 && rules->default_memory_mib > 0) {
        request.each.bytes = rules->default_memory_mib * MIB;
    } else {
        request.each.ratio = ratio > 0 ? at_most_100(ratio) : 100;
    }
    request.each.percent = at_most_100(cores > 0 ? cores : rules->default_cores);
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        if (amount_get(&request.each, dim) > 0)
            request.named |= (uint8_t)DIM_BIT(dim);
    request.whole = request.each.percent == 100;
    request.some_core = request.each.percent == 0;
    *ret = request;
    return 0;
}

/* Does a ask for more than b? By number of cards, then memory, then core. */
static bool asks_more(const struct device_request *a, const struct device_request *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    if (a->each.bytes != b->each.bytes)
        return a->each.bytes > b->each.bytes;
    if (a->each.ratio != b->each.ratio)
        return a->each.ratio > b->each.ratio;
    return a->each.percent > b->each.percent;
}

/* The containers that ask for GPUs, into the room. Returns how many cards they ask for one after
 * the other, or an error. */
static int64_t list_containers(const struct container *containers, uint32_t count,
                               const struct hami_rules *rules, struct gpu_room *room,
                               struct error *err)
{
    int64_t cards = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct device_request gpu;
        int rc = hami_container(&containers[i], rules, &gpu, err);
        if (rc < 0)
            return rc;
        if (gpu.count == 0)
            continue;
        room->containers[room->detail.count++] =
            (struct container_request){.container = i, .role = containers[i].role, .gpu = gpu};
        cards = gpu.count <= CARDS_PER_POD_MAX ? cards + gpu.count : CARDS_PER_POD_MAX + 1;
        if (cards > CARDS_PER_POD_MAX)
            cards = CARDS_PER_POD_MAX + 1;
    }
    return cards;
}

int hami_parse(const struct resources *effective, const struct container *containers,
               uint32_t count, const struct hami_rules *rules, struct gpu_room *room,
               struct pod_request *request, struct error *err)
{
    struct gpu_detail *detail = &room->detail;
    bool whole = request_combination(effective, DEVICE_GPU) == 1u << RESOURCE_NVIDIA_GPU;
    bool hami = request_speaks_hami(effective) || (whole && has_defaults(rules));
    detail->container_count = count;
    detail->count = 0;
    detail->apart = false;
    detail->by_kubelet = effective->amount[RESOURCE_NVIDIA_GPU] > 0;
    detail->containers = room->containers;
    if (hami || whole) {
        int64_t cards = list_containers(containers, count, rules, room, err);
        if (cards < 0)
            return (int)cards;
        if (hami && detail->count > 1 && cards > CARDS_PER_POD_MAX)
            return error_set(err, -EINVAL,
                             "invalid resource device requests: [%s]: more than %d cards for the "
                             "containers of one pod",
                             resource_name(RESOURCE_NVIDIA_GPU), CARDS_PER_POD_MAX);
        if (cards > CARDS_PER_POD_MAX)
            detail->count = 0;
        detail->apart = hami && detail->count > 1;
        for (uint32_t i = 0; hami && i < detail->count; i++)
            if (i == 0 || asks_more(&detail->containers[i].gpu, &request->of[DEVICE_GPU]))
                request->of[DEVICE_GPU] = detail->containers[i].gpu;
    }
    if (detail->count > 0 ||
        (card_selection_any(&detail->select) && request->of[DEVICE_GPU].count > 0))
        request->detail = detail;
    return 0;
}

struct amount hami_amount(const struct pod_request *request, int64_t mib, int64_t percent,
                          const struct amount *card_total)
{
    struct amount amount = {.percent = percent, .bytes = mib * MIB};
    if (request == NULL || (request->detail != NULL && request->detail->apart))
        return amount;
    struct amount expected = request_on_card(&request->of[DEVICE_GPU], card_total);
    if (expected.bytes / MIB == mib) {
        amount.bytes = expected.bytes;
        amount.ratio = expected.ratio;
    }
    return amount;
}

/* ---- selection ---- */

/* Blanks in a model's name may have become dashes on the way. */
static char lower(char c)
{
    if (c == '-' || c == '_')
        return ' ';
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_word_char(char c)
{
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9');
}

static bool same_ignoring_case(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

/* Is `word` in `model`, not as a piece of a longer word? */
static bool model_has(struct str model, struct str word)
{
    for (size_t at = 0; at + word.len <= model.len; at++) {
        size_t end = at + word.len;
        bool begins = at == 0 || !is_word_char(model.data[at - 1]) || !is_word_char(word.data[0]);
        bool ends = end == model.len || !is_word_char(model.data[end]) ||
                    !is_word_char(word.data[word.len - 1]);
        if (begins && ends && same_ignoring_case(model.data + at, word.data, word.len))
            return true;
    }
    return false;
}

static bool id_is(struct str id, struct str word)
{
    return str_eq(id, word);
}

static struct str trimmed(struct str text)
{
    while (text.len > 0 && text.data[0] == ' ')
        text = (struct str){text.data + 1, text.len - 1};
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.len--;
    return text;
}

/* Does a word of the comma-separated list match? *ret_words tells whether it has any. */
static bool list_matches(struct str list, struct str value,
                         bool (*matches)(struct str value, struct str word), bool *ret_words)
{
    bool found = false;
    *ret_words = false;
    for (size_t at = 0; at < list.len;) {
        size_t end = at;
        while (end < list.len && list.data[end] != ',')
            end++;
        struct str word = trimmed((struct str){list.data + at, end - at});
        *ret_words |= word.len > 0;
        found |= word.len > 0 && matches(value, word);
        at = end + 1;
    }
    return found;
}

static bool lists_allow(struct str use, struct str no, struct str value,
                        bool (*matches)(struct str value, struct str word))
{
    bool words;
    if (list_matches(no, value, matches, &words))
        return false;
    return list_matches(use, value, matches, &words) || !words;
}

bool card_selected(const struct card_selection *select, struct str model, struct str id)
{
    return lists_allow(select->use_id, select->no_id, id, id_is) &&
           lists_allow(select->use_model, select->no_model, model, model_has);
}
