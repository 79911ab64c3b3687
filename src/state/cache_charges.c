/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* Places of pods: what they are charged for, on which cards. */

struct share *cache_shares_block(uint32_t count)
{
    return mem_calloc((size_t)count * 2 + 1, sizeof(struct share));
}

int cache_plan_holding(const struct plan *plan, struct holding *ret)
{
    *ret = (struct holding){
        .annotation = ANNOTATION_READ,
        .shares = cache_shares_block(plan->count),
        .count = plan->count,
    };
    if (ret->shares == NULL)
        return -ENOMEM;
    if (plan->count > 0)
        memcpy(ret->shares, plan->shares, plan->count * sizeof plan->shares[0]);
    return 0;
}

struct named_share *cache_named_block(const struct named_share *named, uint32_t count)
{
    size_t bytes = count * sizeof *named;
    for (uint32_t i = 0; i < count; i++)
        bytes += named[i].id.len;
    struct named_share *block = mem_calloc(bytes + 1, 1);
    if (block == NULL)
        return NULL;
    char *text = (char *)(block + count);
    for (uint32_t i = 0; i < count; i++) {
        block[i] = named[i];
        text = str_copy(text, named[i].id, &block[i].id);
    }
    return block;
}

/* Put a pod's charges on (sign 1) or take them off its node's cards. A card that is not listed now gets
 * nothing: the charge waits in the record for its return. */
static void apply_charges(struct cache *cache, const struct pod_record *pod, int sign)
{
    struct node *node = &cache->nodes[pod->node];
    struct cards cards = cache_cards_locked(cache, node);
    struct card_columns *columns = card_range_columns(node->range);
    for (uint32_t i = 0; i < pod->share_count; i++) {
        const struct share *charge = &pod->charges[i];
        uint32_t row = cards_find(&cards, charge->kind, charge->minor);
        if (row != UINT32_MAX)
            cards_charge(columns, row, &charge->amount, charge->beside + 1, sign);
    }
}

static void count_trust(struct cache *cache, const struct pod_record *pod, int sign)
{
    struct node *node = &cache->nodes[pod->node];
    uint32_t one = (uint32_t)sign;
    if (pod->trust == CHARGE_INCONSISTENT)
        cache->counts.view.inconsistent_pods += one;
    if (pod->trust != CHARGE_UNKNOWN)
        return;
    cache_node_touched_locked(cache, pod->node);
    cache->counts.view.unknown_pods += one;
    if (sign > 0 && node->unknown_pods == 0)
        cache->counts.nodes_with_unknown++;
    node->unknown_pods += one;
    if (sign < 0 && node->unknown_pods == 0)
        cache->counts.nodes_with_unknown--;
}

void cache_uncharge_locked(struct cache *cache, struct pod_record *pod)
{
    apply_charges(cache, pod, -1);
    count_trust(cache, pod, -1);
}

/* The row of the GPU with this id, or UINT32_MAX. *ret_all_named tells whether every GPU has one.
 */
static uint32_t find_id(const struct cards *cards, struct str id, bool *ret_all_named)
{
    uint32_t begin = cards_begin(cards, DEVICE_GPU), found = UINT32_MAX;
    *ret_all_named = true;
    for (uint32_t row = begin; row < begin + cards->count[DEVICE_GPU]; row++) {
        *ret_all_named &= cards->at->id[row].len > 0;
        if (str_eq(cards->at->id[row], id))
            found = row;
    }
    return found;
}

static void insert_share(struct pod_record *pod, const struct share *share)
{
    uint32_t at = pod->share_count++;
    for (; at > 0 && pod->shares[at - 1].minor > share->minor; at--)
        pod->shares[at] = pod->shares[at - 1];
    pod->shares[at] = *share;
}

/* The shares of a pod whose annotation names cards by id, on the cards that the node lists now.
 * Returns how many it names that are not among them. Where a card tells no id it may be any of
 * those: none then counts. */
static uint32_t resolve_named(const struct cards *cards, struct pod_record *pod)
{
    uint32_t unlisted = 0;
    bool all_named = true;
    pod->share_count = 0;
    for (uint32_t i = 0; i < pod->named_count; i++) {
        const struct named_share *named = &pod->named[i];
        uint32_t row = find_id(cards, named->id, &all_named);
        if (row == UINT32_MAX) {
            unlisted++;
            continue;
        }
        struct share share = {
            .kind = DEVICE_GPU,
            .minor = cards->at->minor[row],
            .amount = hami_amount(pod->request_invalid ? NULL : &pod->request, named->mib,
                                  named->percent, &cards->at->total[row]),
            .beside = named->beside,
        };
        insert_share(pod, &share);
    }
    return all_named ? unlisted : 0;
}

void cache_charge_locked(struct cache *cache, struct pod_record *pod)
{
    struct cards cards = cache_cards_locked(cache, &cache->nodes[pod->node]);
    pod->unlisted = pod->annotation == ANNOTATION_HAMI ? resolve_named(&cards, pod) : 0;
    struct plan charge;
    pod->trust = charge_of(&cards, pod->request_invalid ? NULL : &pod->request, pod->shares,
                           pod->share_count, pod->unlisted, &charge);
    assert(charge.count == pod->share_count);
    memcpy(pod->charges, charge.shares, charge.count * sizeof charge.shares[0]);
    apply_charges(cache, pod, 1);
    count_trust(cache, pod, 1);
}

void cache_place_locked(struct cache *cache, struct pod_record *pod, uint32_t slot,
                        const struct holding *holding, enum booking_state state)
{
    uint32_t room = holding->count + holding->named_count;
    assert(pod->node == NODE_NONE && room <= CARDS_PER_POD_MAX);
    struct node *node = &cache->nodes[slot];
    cache_discard_locked(cache, pod->shares);
    cache_discard_locked(cache, pod->named);
    pod->shares = holding->shares;
    pod->charges = holding->shares + room;
    pod->share_count = holding->count;
    pod->named = holding->named;
    pod->named_count = holding->named_count;
    pod->annotation = holding->annotation;
    pod->node = slot;
    pod->next = node->pods;
    pod->link = &node->pods;
    if (pod->next != NULL)
        pod->next->link = &pod->next;
    node->pods = pod;
    pod->rejected = false;
    host_add(&node->used, &pod->host, 1);
    cache_charge_locked(cache, pod);
    cache_add_up_locked(cache, node);
    cache_pack_stale_locked(cache, slot);
    cache_set_state_locked(cache, pod, state);
    if (state == BOOKING_BOUND)
        cache_unpass_locked(cache, pod);
    if (cache_holds_doubled_locked(cache, pod))
        cache_find_doubled_locked(cache, node);
}

void cache_unplace_locked(struct cache *cache, struct pod_record *pod)
{
    if (pod->node == NODE_NONE)
        return;
    uint32_t slot = pod->node;
    cache_set_allocating_locked(cache, pod, false);
    cache_undouble_locked(cache, pod);
    cache_uncharge_locked(cache, pod);
    cache_add_up_locked(cache, &cache->nodes[slot]);
    host_add(&cache->nodes[slot].used, &pod->host, -1);
    cache_pack_stale_locked(cache, slot);
    *pod->link = pod->next;
    if (pod->next != NULL)
        pod->next->link = pod->link;
    pod->link = NULL;
    pod->next = NULL;
    pod->node = NODE_NONE;
    pod->confirmed = pod->unknown_outcome = pod->only_read = false;
    cache->gains++;
    pod->annotation = ANNOTATION_ABSENT;
    pod->share_count = 0;
    pod->named_count = 0;
    cache_discard_locked(cache, pod->shares);
    cache_discard_locked(cache, pod->named);
    pod->shares = pod->charges = NULL;
    pod->named = NULL;
    cache_node_tidy_locked(cache, slot);
}

void cache_set_state_locked(struct cache *cache, struct pod_record *pod, enum booking_state state)
{
    struct cache_counts *counts = &cache->counts.view;
    counts->tentative +=
        (uint32_t)(state == BOOKING_TENTATIVE) - (pod->state == BOOKING_TENTATIVE);
    counts->booked += (uint32_t)(state == BOOKING_BOOKED) - (pod->state == BOOKING_BOOKED);
    counts->bound += (uint32_t)(state == BOOKING_BOUND) - (pod->state == BOOKING_BOUND);
    if (pod->state == BOOKING_TENTATIVE && state != BOOKING_TENTATIVE)
        TAILQ_REMOVE(&cache->tentative, pod, waiting);
    if (pod->state != BOOKING_TENTATIVE && state == BOOKING_TENTATIVE)
        TAILQ_INSERT_TAIL(&cache->tentative, pod, waiting);
    pod->state = state;
}

bool cache_node_closed_locked(const struct cache *cache, const struct node *node,
                              const struct pod_record *except)
{
    uint32_t unknown = node->unknown_pods;
    if (except != NULL && except->node != NODE_NONE && &cache->nodes[except->node] == node &&
        except->trust == CHARGE_UNKNOWN)
        unknown--;
    return unknown > 0 && cache->unknown_pods == UNKNOWN_PODS_CLOSE;
}
