/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>
#include <string.h>

#include "core/allocate.h"

/* Questions that a verb asks: each takes the lock once. */

void cache_copy_locked(const struct cache *cache, const struct node *node, struct card_copy *to)
{
    struct cards cards = cache_cards_locked(cache, node);
    cards_copy(&cards, to);
}

void cache_give_back_locked(struct card_copy *copy, const struct pod_record *pod)
{
    for (uint32_t i = 0; i < pod->share_count; i++) {
        uint32_t row = cards_find(&copy->cards, pod->charges[i].kind, pod->charges[i].minor);
        if (row != UINT32_MAX)
            cards_charge(&copy->columns, row, &pod->charges[i].amount, pod->charges[i].beside + 1,
                         -1);
    }
}

uint32_t cache_next_epoch_locked(struct cache *cache)
{
    if (++cache->scan_epoch == 0)
        cache->scan_epoch = 1;
    return cache->scan_epoch;
}

static enum reason verdict_now(const struct cache *cache, const struct node *node,
                               const struct pod_request *request)
{
    struct cards cards = cache_cards_locked(cache, node);
    return allocate_verdict(&cards, request);
}

static enum reason verdict_without(const struct cache *cache, const struct node *node,
                                   const struct pod_request *request, const struct pod_record *pod)
{
    struct card_copy copy;
    cache_copy_locked(cache, node, &copy);
    cache_give_back_locked(&copy, pod);
    return allocate_verdict(&copy.cards, request);
}

enum reason cache_node_bar_locked(const struct cache *cache, const struct node *node,
                                  const struct pod_request *request)
{
    if (!node->has_node)
        return REASON_UNKNOWN_NODE;
    if (!node_has_inventory(node))
        return REASON_NO_DEVICE_OBJECT;
    /* Pods that only kubelet gave cards to are on none of ours. */
    bool served = node->registered != NULL && cache->hami_plugin;
    if (node->device_plugin && !served && request->of[DEVICE_GPU].count > 0 &&
        cache->device_plugin_nodes == DEVICE_PLUGIN_NODES_REFUSE)
        return REASON_DEVICE_PLUGIN;
    return REASON_FITS;
}

/* The verdict on a known node, `self`'s own booking there not counted. What can never be is said before
 * what may pass. */
enum reason cache_judge_locked(const struct cache *cache, uint32_t slot,
                               const struct pod_request *request, const struct pod_record *self)
{
    const struct node *node = &cache->nodes[slot];
    enum reason reason = cache_node_bar_locked(cache, node, request);
    if (reason != REASON_FITS)
        return reason;
    reason = self != NULL && self->node == slot ? verdict_without(cache, node, request, self)
                                                : verdict_now(cache, node, request);
    if (reason_verdict(reason) != VERDICT_NEVER && cache_node_closed_locked(cache, node, self))
        return REASON_NODE_CLOSED;
    return reason;
}

void cache_question_locked(const struct cache *cache, const struct pod_request *request,
                           struct pod_record *self, struct question *ret)
{
    *ret = (struct question){
        .request = request,
        .self = self,
        .refuse_device_plugin = request->of[DEVICE_GPU].count > 0 &&
                                cache->device_plugin_nodes == DEVICE_PLUGIN_NODES_REFUSE,
        .close_unknown = cache->unknown_pods == UNKNOWN_PODS_CLOSE,
    };
    allocate_ask(request, &ret->ask);
}

/* The verdict on a node without these pods; names given twice count once. */
static enum reason judge_without(struct cache *cache, uint32_t slot,
                                 const struct pod_request *request, const struct str *victim_uids,
                                 uint32_t victim_count)
{
    const struct node *node = &cache->nodes[slot];
    enum reason bar = cache_node_bar_locked(cache, node, request);
    if (bar != REASON_FITS)
        return bar;
    struct card_copy copy;
    cache_copy_locked(cache, node, &copy);
    uint32_t unknown = node->unknown_pods, epoch = cache_next_epoch_locked(cache);
    for (uint32_t i = 0; i < victim_count; i++) {
        struct pod_record *victim = cache_pod_lookup_locked(cache, victim_uids[i]);
        if (victim == NULL || victim->node != slot || victim->scan_epoch == epoch)
            continue;
        victim->scan_epoch = epoch;
        cache_give_back_locked(&copy, victim);
        unknown -= victim->trust == CHARGE_UNKNOWN;
    }
    enum reason reason = allocate_verdict(&copy.cards, request);
    if (reason_verdict(reason) != VERDICT_NEVER && unknown > 0 &&
        cache->unknown_pods == UNKNOWN_PODS_CLOSE)
        return REASON_NODE_CLOSED;
    return reason;
}

enum reason cache_what_if(struct cache *cache, struct str node, const struct pod_request *request,
                          const struct str *victim_uids, uint32_t victim_count)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t slot = cache_node_find_locked(cache, node);
    enum reason reason = REASON_UNKNOWN_NODE;
    if (slot != MAP_NONE)
        reason = judge_without(cache, slot, request, victim_uids, victim_count);
    cache_unlock(cache);
    return reason;
}

size_t cache_explain(struct cache *cache, struct str node, const struct pod_request *request,
                     char *out, size_t size)
{
    struct card_copy copy;
    pthread_mutex_lock(&cache->mutex);
    uint32_t slot = cache_node_find_locked(cache, node);
    if (slot != MAP_NONE)
        cache_copy_locked(cache, &cache->nodes[slot], &copy);
    cache_unlock(cache);
    if (size > 0)
        out[0] = '\0';
    /* Writing text is too slow for a lock that is held for microseconds. */
    return slot != MAP_NONE ? allocate_explain(&copy.cards, request, out, size) : 0;
}

int cache_request_copy(const struct pod_request *request, struct arena *mem,
                       struct pod_request *ret)
{
    *ret = *request;
    if (request->detail == NULL)
        return 0;
    void *block = arena_alloc(mem, gpu_detail_size(request->detail), 1);
    if (block == NULL)
        return -ENOMEM;
    ret->detail = gpu_detail_copy(request->detail, block);
    return 0;
}

enum pod_match cache_pod_find(struct cache *cache, const struct pod_id *id, struct arena *mem,
                              struct pod_view *ret)
{
    enum pod_match match = POD_UNKNOWN;
    pthread_mutex_lock(&cache->mutex);
    const struct pod_record *pod = cache_pod_lookup_locked(cache, id->uid);
    if (pod != NULL && !(str_eq(pod->ns, id->ns) && str_eq(pod->name, id->name))) {
        match = POD_MISMATCH;
    } else if (pod != NULL) {
        struct str place =
            pod->node != NODE_NONE ? cache->nodes[pod->node].name : (struct str){"", 0};
        struct str node = arena_str(mem, place);
        struct pod_request request = {0};
        if (node.data != NULL && cache_request_copy(&pod->request, mem, &request) == 0)
            match = POD_KNOWN;
        else
            node = (struct str){0};
        *ret = (struct pod_view){
            .state = pod->state,
            .confirmed = pod->confirmed,
            .request_invalid = pod->request_invalid,
            .invalid_print = pod->invalid_print,
            .request = request,
            .policy = cache_policy_locked(cache, pod),
            .node = node,
            .priority = pod->priority,
            .annotation_bytes = pod->annotation_bytes,
            .trust = pod->trust,
        };
        ret->charge.count = pod->share_count;
        if (pod->share_count > 0)
            memcpy(ret->charge.shares, pod->charges, pod->share_count * sizeof *pod->charges);
    }
    cache_unlock(cache);
    return match;
}
