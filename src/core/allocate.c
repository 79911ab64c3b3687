/* SPDX-License-Identifier: Apache-2.0 */
#include "core/allocate_internal.h"

#include <assert.h>
#include <string.h>

#include "core/pack_site.h"

/* What one card must have free, bounded so that every product below stays in int64: a bounded
 * figure is still one more than any card can have. */
struct need {
    unsigned named;
    uint32_t pods_mask; /* all ones for a whole card: no pod may be there */
    int64_t percent;
    int64_t ratio;
    int64_t bytes;
};

/* What one card gives. */
struct room {
    unsigned has;
    uint32_t pods;
    int64_t percent;
    int64_t ratio;
    int64_t bytes;
    int64_t total_bytes;
};

static int64_t bounded(int64_t value, int64_t max)
{
    return value <= max ? value : max + 1;
}

static struct need need_of(const struct device_request *request)
{
    assert(request->named != 0);
    return (struct need){
        .named = request->named,
        .pods_mask = request->whole ? UINT32_MAX : 0,
        .percent = request->some_core ? 1 : bounded(request->each.percent, CARD_PERCENT_MAX),
        .ratio = bounded(request->each.ratio, CARD_PERCENT_MAX),
        .bytes = bounded(request->each.bytes, CARD_BYTES_MAX),
    };
}

/*
 * The fit rule. No branch and no division, because a scan asks this for every card of a cluster.
 * A dimension that is not named is 0 and always fits. The derived figures of request_on_card():
 *   ratio * total / 100, rounded down, <= bytes   is   ratio * total < (bytes + 1) * 100
 *   bytes * 100 / total, rounded down, <= ratio   is   bytes * 100 < (ratio + 1) * total
 * `by_bytes` tells which of them applies; it is the same for all cards of a loop.
 */
static inline bool fits(const struct need *need, const struct room *room, bool by_bytes)
{
    bool no_ratio = !(room->has & DIM_BIT(DIM_RATIO));
    bool derived = by_bytes ? no_ratio | (need->bytes * 100 < (room->ratio + 1) * room->total_bytes)
                            : need->ratio * room->total_bytes < (room->bytes + 1) * 100;
    bool named = by_bytes ? need->bytes <= room->bytes : need->ratio <= room->ratio;
    return ((room->has & need->named) == need->named) & ((room->pods & need->pods_mask) == 0) &
           (need->percent <= room->percent) & named & derived;
}

static inline struct room room_now(const struct card_columns *at, uint32_t row)
{
    return (struct room){
        .has = at->has[row],
        .pods = at->pods[row],
        .percent = at->free_percent[row],
        .ratio = at->free_ratio[row],
        .bytes = at->free_bytes[row],
        .total_bytes = at->total_bytes[row],
    };
}

static inline struct room room_if_empty(const struct card_columns *at, uint32_t row)
{
    return (struct room){
        .has = at->has[row],
        .percent = at->total[row].percent,
        .ratio = at->total[row].ratio,
        .bytes = at->total[row].bytes,
        .total_bytes = at->total_bytes[row],
    };
}

/* Does a plan hold the cards of the kinds up to `last`? No pod gets more, however many a node
 * has. */
static bool plan_holds(const struct pod_request *request, enum device_kind last)
{
    int64_t left = CARDS_PER_POD_MAX;
    for (enum device_kind kind = 0; kind <= last; kind++) {
        if (request->of[kind].count > left)
            return false;
        left -= request->of[kind].count;
    }
    return true;
}

static const enum reason shortage_of[] = {REASON_INSUFFICIENT_GPU, REASON_INSUFFICIENT_RDMA,
                                          REASON_INSUFFICIENT_FPGA};

/* Why a kind of which too few cards fit is short. */
static enum reason shortage(const struct cards *cards, enum device_kind kind,
                            const struct device_request *request)
{
    static const enum reason none[] = {REASON_NO_GPU, REASON_NO_RDMA, REASON_NO_FPGA};
    struct cards_sum space;
    const struct cards_sum *sum = cards_sum_of(cards, kind, &space);
    if (!sum->listed)
        return none[kind];
    if (request->named & DIM_BIT(DIM_BYTES) && !sum->memory_known)
        return REASON_MEMORY_UNKNOWN;
    return shortage_of[kind];
}

/* Do `count` cards fit? The rest is not looked at. */
static inline bool enough_fit(const struct card_columns *at, uint32_t begin, uint32_t end,
                              const struct need *need, int64_t count, bool by_bytes)
{
    for (uint32_t row = begin; row < end && count > 0; row++) {
        struct room room = room_now(at, row);
        count -= fits(need, &room, by_bytes);
    }
    return count <= 0;
}

static enum reason check_kind(const struct cards *cards, enum device_kind kind,
                              const struct pod_request *request)
{
    const struct device_request *of = &request->of[kind];
    if (of->count == 0)
        return REASON_FITS;

    struct need need = need_of(of);
    uint32_t begin = cards_begin(cards, kind);
    uint32_t end = begin + cards->count[kind];
    if (!plan_holds(request, kind))
        return shortage(cards, kind, of);
    bool enough = need.bytes > 0
                      ? enough_fit(cards->at, begin, end, &need, of->count, true)
                      : enough_fit(cards->at, begin, end, &need, of->count, false);
    return enough ? REASON_FITS : shortage(cards, kind, of);
}

enum reason allocate_check_plain(const struct cards *cards, const struct pod_request *request)
{
    enum reason reason = REASON_FITS;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX && reason == REASON_FITS; kind++)
        reason = check_kind(cards, kind, request);
    return reason;
}

enum reason allocate_check(const struct cards *cards, const struct pod_request *request)
{
    return allocate_has_detail(request) ? allocate_check_detailed(cards, request)
                                        : allocate_check_plain(cards, request);
}

static bool kind_fits_empty(const struct cards *cards, enum device_kind kind,
                            const struct pod_request *request)
{
    const struct device_request *of = &request->of[kind];
    if (of->count == 0)
        return true;

    struct need need = need_of(of);
    uint32_t begin = cards_begin(cards, kind);
    int64_t fitting = 0;
    for (uint32_t row = begin; row < begin + cards->count[kind]; row++) {
        struct room room = room_if_empty(cards->at, row);
        fitting += fits(&need, &room, need.bytes > 0) || cards_may_recover(cards->at, row);
    }
    return fitting >= of->count && plan_holds(request, kind);
}

bool allocate_fits_empty_plain(const struct cards *cards, const struct pod_request *request)
{
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        if (!kind_fits_empty(cards, kind, request))
            return false;
    return true;
}

bool allocate_fits_empty(const struct cards *cards, const struct pod_request *request)
{
    return allocate_has_detail(request) ? allocate_fits_empty_detailed(cards, request)
                                        : allocate_fits_empty_plain(cards, request);
}

enum reason allocate_verdict(const struct cards *cards, const struct pod_request *request)
{
    enum reason first = allocate_check(cards, request);
    if (first == REASON_FITS || reason_verdict(first) == VERDICT_NEVER)
        return first;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        enum reason reason = check_kind(cards, kind, request);
        if (reason_verdict(reason) == VERDICT_NEVER)
            return reason;
    }
    return allocate_fits_empty(cards, request) ? first : REASON_TOO_BIG;
}

void allocate_ask(const struct pod_request *request, struct allocate_ask *ret)
{
    struct allocate_ask ask = {.kind = DEVICE_KIND_MAX};
    uint32_t kinds = 0;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        const struct device_request *of = &request->of[kind];
        if (of->count == 0)
            continue;
        struct need need = need_of(of);
        kinds++;
        ask = (struct allocate_ask){
            .kind = kind,
            .insufficient = shortage_of[kind],
            .count = of->count,
            .whole = of->whole,
            .by_bytes = of->named & DIM_BIT(DIM_BYTES),
            .percent = of->named & DIM_BIT(DIM_PERCENT) || of->some_core ? need.percent : -1,
            .ratio = of->named & DIM_BIT(DIM_RATIO) ? need.ratio : -1,
            .bytes = of->named & DIM_BIT(DIM_BYTES) ? need.bytes : -1,
        };
    }
    /* A request is by bytes or by ratio, never by both. */
    bool plain = kinds == 1 && !allocate_has_detail(request) && (ask.ratio < 0 || ask.bytes < 0) && ask.bytes != 0 &&
                 plan_holds(request, ask.kind);
    if (!plain)
        ask.kind = DEVICE_KIND_MAX;
    *ret = ask;
}

/* The best cards of one kind so far, best first. */
struct choice {
    uint32_t limit;
    uint32_t count;
    uint32_t rows[CARDS_PER_POD_MAX];
};

/* Does the card in row `a` come before the one in `b`? */
static bool comes_first(const struct card_order *order, const struct cards *cards,
                        enum device_kind kind, uint32_t a, uint32_t b)
{
    if (order->first != NULL && order->first[a] != order->first[b])
        return order->first[a];
    return order->policy->prefer(cards, kind, a, b);
}

/* Offer a fitting row, in ascending order of rows: on ties the earlier one stays ahead. */
static void offer(struct choice *choice, const struct cards *cards, enum device_kind kind,
                  const struct card_order *order, uint32_t row)
{
    uint32_t place = choice->count;
    while (place > 0 && comes_first(order, cards, kind, row, choice->rows[place - 1]))
        place--;
    if (place == choice->limit)
        return;
    if (choice->count < choice->limit)
        choice->count++;
    uint32_t *at = choice->rows + place;
    memmove(at + 1, at, (choice->count - 1 - place) * sizeof(*at));
    *at = row;
}

static void sort_rows(struct choice *choice)
{
    for (uint32_t i = 1; i < choice->count; i++) {
        uint32_t row = choice->rows[i], place = i;
        for (; place > 0 && choice->rows[place - 1] > row; place--)
            choice->rows[place] = choice->rows[place - 1];
        choice->rows[place] = row;
    }
}

bool allocate_card_fits(const struct cards *cards, uint32_t row,
                        const struct device_request *request)
{
    struct need need = need_of(request);
    struct room room = room_now(cards->at, row);
    return fits(&need, &room, need.bytes > 0);
}

/* ---- links ---- */

/* The card in `row` as a bit; 0 if none stands for it. */
static uint64_t bit_of(const struct cards *cards, uint32_t row)
{
    int32_t minor = cards->at->minor[row];
    return minor < LINK_CARDS_MAX ? UINT64_C(1) << minor : 0;
}

/*
 * Take the best connected of the cards that are as good as those chosen. Worse ones never come in: what
 * stands before the last of the choice stays, and only its equals are exchanged.
 */
static void choose_linked(struct choice *choice, const struct cards *cards, enum device_kind kind,
                          const struct need *need, const struct card_order *order)
{
    uint32_t last = choice->rows[choice->count - 1], begin = cards_begin(cards, kind), kept = 0;
    uint64_t must = 0, may = 0;
    while (comes_first(order, cards, kind, choice->rows[kept], last))
        must |= bit_of(cards, choice->rows[kept++]);
    for (uint32_t row = begin; row < begin + cards->count[kind]; row++) {
        struct room room = room_now(cards->at, row);
        if (fits(need, &room, need->bytes > 0) && !comes_first(order, cards, kind, row, last) &&
            !comes_first(order, cards, kind, last, row))
            may |= bit_of(cards, row);
    }
    uint32_t wanted = choice->count - kept;
    if ((uint32_t)__builtin_popcountll(may) < wanted)
        return; /* only with minors that no bit stands for */
    uint64_t taken = links_pick(cards->links, must, may, wanted);
    for (uint32_t row = begin; row < begin + cards->count[kind]; row++)
        if ((bit_of(cards, row) & taken) != 0)
            choice->rows[kept++] = row;
    assert(kept == choice->count);
}

uint32_t allocate_pick(const struct cards *cards, enum device_kind kind,
                       const struct device_request *request, const struct card_order *order,
                       uint32_t rows[CARDS_PER_POD_MAX])
{
    assert(request->count <= CARDS_PER_POD_MAX);
    struct need need = need_of(request);
    struct choice choice = {.limit = (uint32_t)request->count};
    uint32_t begin = cards_begin(cards, kind);
    for (uint32_t row = begin; row < begin + cards->count[kind]; row++) {
        struct room room = room_now(cards->at, row);
        if (fits(&need, &room, need.bytes > 0))
            offer(&choice, cards, kind, order, row);
    }
    if (kind == DEVICE_GPU && cards->links != NULL && choice.limit > 1 && choice.count == choice.limit)
        choose_linked(&choice, cards, kind, &need, order);
    sort_rows(&choice);
    memcpy(rows, choice.rows, choice.count * sizeof rows[0]);
    return choice.count;
}

static void add_share(const struct cards *cards, enum device_kind kind,
                      const struct device_request *request, uint32_t row, struct plan *plan)
{
    plan->shares[plan->count++] = (struct share){
        .kind = kind,
        .minor = cards->at->minor[row],
        .amount = request_on_card(request, &cards->at->total[row]),
    };
}

void allocate_choose_kinds(const struct cards *cards, const struct pod_request *request,
                           enum device_kind but, const struct device_policy *policy,
                           struct plan *plan)
{
    const struct card_order order = {.policy = policy};
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        const struct device_request *of = &request->of[kind];
        if (kind == but || of->count == 0)
            continue;
        uint32_t rows[CARDS_PER_POD_MAX];
        uint32_t count = allocate_pick(cards, kind, of, &order, rows);
        assert(count == of->count);
        for (uint32_t i = 0; i < count; i++)
            add_share(cards, kind, of, rows[i], plan);
    }
}

enum reason allocate_choose(const struct cards *cards, const struct pod_request *request,
                            const struct device_policy *policy, struct plan *ret_plan)
{
    if (allocate_has_detail(request))
        return allocate_choose_detailed(cards, request, policy, ret_plan);
    enum reason reason = allocate_check_plain(cards, request);
    if (reason != REASON_FITS)
        return reason;
    ret_plan->count = ret_plan->part_count = 0;
    allocate_choose_kinds(cards, request, DEVICE_KIND_MAX, policy, ret_plan);
    if (request->detail != NULL)
        allocate_assign_parts(request->detail, ret_plan);
    return REASON_FITS;
}

enum reason allocate_choose_at(const struct cards *cards, const struct pod_request *request,
                               const struct device_policy *policy, const struct pack_site *site,
                               struct plan *ret_plan)
{
    int32_t card = PACK_NO_CARD;
    if (policy->pick != NULL && site != NULL && request->of[DEVICE_GPU].count == 1 &&
        !allocate_has_detail(request) && allocate_check_plain(cards, request) == REASON_FITS)
        card = policy->pick(site);
    if (card == PACK_NO_CARD)
        return allocate_choose(cards, request, policy, ret_plan);
    ret_plan->count = ret_plan->part_count = 0;
    add_share(cards, DEVICE_GPU, &request->of[DEVICE_GPU],
              cards_begin(cards, DEVICE_GPU) + (uint32_t)card, ret_plan);
    allocate_choose_kinds(cards, request, DEVICE_GPU, policy, ret_plan);
    if (request->detail != NULL)
        allocate_assign_parts(request->detail, ret_plan);
    return REASON_FITS;
}
