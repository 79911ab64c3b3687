/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that say more than a number of cards and an amount on each: a selection of cards, and
 * containers that are given cards of their own. Decided on a copy of the node's cards.
 */
#include "core/allocate_internal.h"

#include <assert.h>
#include <string.h>

#include "core/hami.h"

bool allocate_has_detail(const struct pod_request *request)
{
    return request->detail != NULL &&
           (request->detail->apart || card_selection_any(&request->detail->select));
}

/* ---- selection ---- */

/* Strike the GPUs off a copy that the pod must not have. Returns whether it may have any that is
 * listed, or none was listed before. */
static bool strike_others(struct card_copy *copy, const struct card_selection *select)
{
    if (!card_selection_any(select))
        return true;
    struct card_columns *at = &copy->columns;
    uint32_t begin = cards_begin(&copy->cards, DEVICE_GPU), listed = 0, left = 0;
    for (uint32_t row = begin; row < begin + copy->cards.count[DEVICE_GPU]; row++) {
        listed += at->registered[row];
        at->registered[row] &= card_selected(select, at->model[row], at->id[row]);
        left += at->registered[row];
        cards_refresh(at, row);
    }
    return left > 0 || listed == 0;
}

/* ---- containers apart ---- */

/* A pod's containers being placed on a copy of a node's cards. */
struct placing {
    const struct gpu_detail *detail;
    const struct cards *before;    /* as they were */
    struct card_copy run;          /* with what runs side by side: app containers and sidecars */
    struct card_copy start;        /* with one init container and the sidecars before it */
    bool held[CARDS_PER_NODE_MAX]; /* rows of the copies that the pod has a part of */
    /* Parts of container i of the detail begin at parts[first[i]]. */
    uint32_t first[CARDS_PER_POD_MAX];
    struct part parts[CARDS_PER_POD_MAX];
};

/* Give a container cards of `copy`. False if too few fit. */
static bool place_container(struct placing *placing, struct card_copy *copy, uint32_t index,
                            const struct card_order *order)
{
    const struct container_request *container = &placing->detail->containers[index];
    uint32_t rows[CARDS_PER_POD_MAX];
    uint32_t count = allocate_pick(&copy->cards, DEVICE_GPU, &container->gpu, order, rows);
    if (count < container->gpu.count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct amount takes = request_on_card(&container->gpu, &copy->columns.total[rows[i]]);
        cards_charge(&copy->columns, rows[i], &takes, 1, 1);
        placing->held[rows[i]] = true;
        placing->parts[placing->first[index] + i] = (struct part){
            .container = container->container,
            .role = container->role,
            .minor = copy->columns.minor[rows[i]],
            .amount = takes,
        };
    }
    return true;
}

/* Charge the parts of a container that has its cards. */
static void charge_parts(const struct placing *placing, struct card_copy *copy, uint32_t index)
{
    const struct part *part = &placing->parts[placing->first[index]];
    for (int64_t i = 0; i < placing->detail->containers[index].gpu.count; i++, part++) {
        uint32_t row = cards_find(&copy->cards, DEVICE_GPU, part->minor);
        cards_charge(&copy->columns, row, &part->amount, 1, 1);
    }
}

/* Init containers run before the others: each on the cards that the pod has anyway, as far as it
 * goes. */
static bool place_init(struct placing *placing, uint32_t index, const struct device_policy *policy)
{
    const struct card_order order = {.policy = policy, .first = placing->held};
    cards_copy(placing->before, &placing->start);
    for (uint32_t i = 0; i < index; i++)
        if (placing->detail->containers[i].role == CONTAINER_SIDECAR)
            charge_parts(placing, &placing->start, i);
    return place_container(placing, &placing->start, index, &order);
}

/* Containers that run side by side, in this order. Returns the place in the order of the first that
 * does not fit, or `count`. */
static uint32_t place_running(struct placing *placing, const uint32_t *in_order, uint32_t count,
                              const struct device_policy *policy)
{
    const struct card_order order = {.policy = policy};
    cards_copy(placing->before, &placing->run);
    memset(placing->held, 0, sizeof placing->held);
    for (uint32_t i = 0; i < count; i++)
        if (!place_container(placing, &placing->run, in_order[i], &order))
            return i;
    return count;
}

static void move_to_front(uint32_t *in_order, uint32_t place)
{
    uint32_t index = in_order[place];
    memmove(in_order + 1, in_order, place * sizeof *in_order);
    in_order[0] = index;
}

/* Place all containers. One that finds no room is tried before the others in the next round, so
 * which of them stands first in the pod does not decide; rounds are bounded, so a hard puzzle may
 * stay unsolved. */
static bool place_all(struct placing *placing, const struct device_policy *policy)
{
    const struct gpu_detail *detail = placing->detail;
    uint32_t in_order[CARDS_PER_POD_MAX] = {0}, running = 0, next = 0;
    assert(detail->count <= CARDS_PER_POD_MAX);
    for (uint32_t i = 0; i < detail->count; i++) {
        placing->first[i] = next;
        next += (uint32_t)detail->containers[i].gpu.count;
        if (detail->containers[i].role != CONTAINER_INIT)
            in_order[running++] = i;
    }
    assert(next <= CARDS_PER_POD_MAX);
    uint32_t stuck = running + 1;
    for (uint32_t round = 0; round <= running && stuck != running; round++) {
        stuck = place_running(placing, in_order, running, policy);
        if (stuck < running)
            move_to_front(in_order, stuck);
    }
    if (stuck != running)
        return false;
    for (uint32_t i = 0; i < detail->count; i++)
        if (detail->containers[i].role == CONTAINER_INIT && !place_init(placing, i, policy))
            return false;
    return true;
}

static void fill_plan(const struct placing *placing, struct plan *plan)
{
    const struct cards *cards = placing->before;
    uint32_t begin = cards_begin(cards, DEVICE_GPU);
    for (uint32_t i = 0; i < placing->detail->count; i++)
        plan->part_count += (uint32_t)placing->detail->containers[i].gpu.count;
    memcpy(plan->parts, placing->parts, plan->part_count * sizeof plan->parts[0]);
    for (uint32_t row = begin; row < begin + cards->count[DEVICE_GPU]; row++)
        if (parts_peak(plan->parts, plan->part_count, cards->at->minor[row],
                       &plan->shares[plan->count]))
            plan->count++;
}

/* ---- both ---- */

/* What both kinds of detail are decided on. */
struct decision {
    struct card_copy allowed;
    struct placing placing;
};

/* Does the request fit the cards that it may have? Containers apart are placed as tightly as can
 * be, so that no policy finds room where this finds none. */
static enum reason check(struct decision *decision, const struct pod_request *request)
{
    const struct cards *cards = &decision->allowed.cards;
    enum reason reason = allocate_check_plain(cards, request);
    if (reason != REASON_FITS || !request->detail->apart)
        return reason;
    decision->placing.detail = request->detail;
    decision->placing.before = cards;
    return place_all(&decision->placing, &device_policy_binpack) ? REASON_FITS
                                                                 : REASON_INSUFFICIENT_GPU;
}

enum reason allocate_check_detailed(const struct cards *cards, const struct pod_request *request)
{
    struct decision decision;
    cards_copy(cards, &decision.allowed);
    if (!strike_others(&decision.allowed, &request->detail->select))
        return REASON_NOT_SELECTED;
    return check(&decision, request);
}

bool allocate_fits_empty_detailed(const struct cards *cards, const struct pod_request *request)
{
    struct decision decision;
    struct card_columns *at = &decision.allowed.columns;
    cards_copy(cards, &decision.allowed);
    strike_others(&decision.allowed, &request->detail->select);
    if (!allocate_fits_empty_plain(&decision.allowed.cards, request))
        return false;
    if (!request->detail->apart)
        return true;
    uint32_t begin = cards_begin(cards, DEVICE_GPU);
    for (uint32_t i = 0; i < cards->count[DEVICE_GPU]; i++) {
        uint32_t row = begin - cards->first + i;
        if (at->registered[row] && !cards_can_give(at, row))
            return true; /* a sick card may come back as big as needed */
        at->used[row] = (struct amount){0};
        at->pods[row] = at->users[row] = 0;
        cards_refresh(at, row);
    }
    struct pod_request gpus = {.detail = request->detail};
    gpus.of[DEVICE_GPU] = request->of[DEVICE_GPU];
    return check(&decision, &gpus) == REASON_FITS;
}

enum reason allocate_choose_detailed(const struct cards *cards, const struct pod_request *request,
                                     const struct device_policy *policy, struct plan *ret_plan)
{
    struct decision decision;
    cards_copy(cards, &decision.allowed);
    if (!strike_others(&decision.allowed, &request->detail->select))
        return REASON_NOT_SELECTED;
    enum reason reason = check(&decision, request);
    if (reason != REASON_FITS)
        return reason;
    ret_plan->count = ret_plan->part_count = 0;
    if (!request->detail->apart) {
        allocate_choose_kinds(&decision.allowed.cards, request, DEVICE_KIND_MAX, policy, ret_plan);
        allocate_assign_parts(request->detail, ret_plan);
        return REASON_FITS;
    }
    if (!place_all(&decision.placing, policy)) {
        bool tight = place_all(&decision.placing, &device_policy_binpack);
        assert(tight);
    }
    fill_plan(&decision.placing, ret_plan);
    allocate_choose_kinds(&decision.allowed.cards, request, DEVICE_GPU, policy, ret_plan);
    return REASON_FITS;
}

/* Containers that run side by side have the shares one after the other; an init container has those
 * that begin after the sidecars before it. */
void allocate_assign_parts(const struct gpu_detail *detail, struct plan *plan)
{
    uint32_t running = 0, sidecars = 0;
    for (uint32_t i = 0; i < detail->count; i++) {
        const struct container_request *container = &detail->containers[i];
        bool init = container->role == CONTAINER_INIT;
        uint32_t from = init ? sidecars : running;
        for (uint32_t n = 0; n < container->gpu.count; n++) {
            const struct share *share = &plan->shares[from + n];
            assert(share->kind == DEVICE_GPU && plan->part_count < CARDS_PER_POD_MAX);
            plan->parts[plan->part_count++] = (struct part){.container = container->container,
                                                            .role = container->role,
                                                            .minor = share->minor,
                                                            .amount = share->amount};
        }
        if (!init)
            running += (uint32_t)container->gpu.count;
        if (container->role == CONTAINER_SIDECAR)
            sidecars = running;
    }
}
