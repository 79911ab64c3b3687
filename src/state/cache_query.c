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

/* Give a pod's charges back on a copy of its own node's cards. */
static void give_back(struct card_copy *copy, const struct pod_record *pod)
{
    for (uint32_t i = 0; i < pod->share_count; i++) {
        uint32_t row = cards_find(&copy->cards, pod->charges[i].kind, pod->charges[i].minor);
        if (row != UINT32_MAX)
            cards_charge(&copy->columns, row, &pod->charges[i].amount, pod->charges[i].beside + 1,
                         -1);
    }
}

static uint32_t next_epoch(struct cache *cache)
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
    give_back(&copy, pod);
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

/* Slot of names[i]: kube-scheduler sends nodes in an order that seldom changes, so the slot after the last
 * one is tried before the map. */
static uint32_t find_next(const struct cache *cache, struct str name, uint32_t *last)
{
    uint32_t guess = *last + 1 < cache->node_slots ? *last + 1 : 0;
    if (guess >= cache->node_slots || !str_eq(cache->nodes[guess].name, name))
        guess = cache_node_find_locked(cache, name);
    if (guess != MAP_NONE)
        *last = guess;
    return guess;
}

/* How nodes are scored in one call. */
struct scoring {
    const struct node_policy *policy;
    const struct pod_request *request;
    const struct pack_decision *pack; /* NULL: the policy scores by the cards alone */
};

static int64_t score_cards(const struct cache *cache, uint32_t slot, const struct cards *cards,
                           const struct scoring *scoring, const struct pod_record *self)
{
    if (scoring->pack == NULL)
        return scoring->policy->score(cards, scoring->request);
    struct pack_site site = cache_pack_site_locked(cache, slot, cards, scoring->pack, self);
    return scoring->policy->weigh(&site);
}

/* The score of a node that fits, as if `self` had nothing there. */
static int64_t score_locked(const struct cache *cache, uint32_t slot, const struct scoring *scoring,
                            const struct pod_record *self)
{
    const struct node *node = &cache->nodes[slot];
    if (self != NULL && self->node == slot) {
        struct card_copy copy;
        cache_copy_locked(cache, node, &copy);
        give_back(&copy, self);
        return score_cards(cache, slot, &copy.cards, scoring, self);
    }
    struct cards cards = cache_cards_locked(cache, node);
    return score_cards(cache, slot, &cards, scoring, NULL);
}

static bool is_demoted(const struct ranking *ranking, uint32_t slot, const struct pod_record *self)
{
    return self != NULL && ranking->demote && self->passed && self->only == slot;
}

/* What the policy weighs by, in `space`; NULL for one that looks at the cards alone. */
static const struct pack_decision *decide_locked(struct cache *cache,
                                                 const struct node_policy *policy,
                                                 const struct pod_request *request,
                                                 const struct host_amount *host,
                                                 struct pack_decision *space)
{
    bool weighs =
        policy->weigh != NULL && cache_pack_decide_locked(cache, request, host, space);
    return weighs ? space : NULL;
}

static void scan_locked(struct cache *cache, struct pod_record *self,
                        const struct pod_request *request, const struct str *names, uint32_t count,
                        enum reason *reasons, const struct scoring *scoring,
                        const struct ranking *ranking)
{
    struct question question;
    cache_question_locked(cache, request, self, &question);
    uint32_t epoch = next_epoch(cache), last = 0;
    bool fits = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = find_next(cache, names[i], &last);
        if (slot == MAP_NONE) {
            reasons[i] = REASON_UNKNOWN_NODE;
        } else if (cache->nodes[slot].scan_epoch == epoch) {
            reasons[i] = REASON_DUPLICATE;
        } else {
            cache->nodes[slot].scan_epoch = epoch;
            reasons[i] = cache_glance_locked(cache, slot, &question);
            fits |= reasons[i] == REASON_FITS;
        }
        if (ranking == NULL)
            continue;
        ranking->scores[i] = 0;
        if (reasons[i] == REASON_FITS)
            ranking->scores[i] = is_demoted(ranking, slot, self)
                                     ? -1
                                     : score_locked(cache, slot, scoring, self);
    }
    if (self != NULL)
        self->rejected = !fits && self->state == BOOKING_NONE;
}

void cache_scan(struct cache *cache, struct str uid, const struct pod_request *request,
                const struct str *names, uint32_t count, enum reason *reasons)
{
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *self = cache_pod_lookup_locked(cache, uid);
    scan_locked(cache, self, request, names, count, reasons, NULL, NULL);
    pthread_mutex_unlock(&cache->mutex);
}

void cache_rank(struct cache *cache, struct str uid, const struct pod_request *request,
                const struct str *names, uint32_t count, enum reason *reasons,
                struct ranking *ranking)
{
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *self = cache_pod_lookup_locked(cache, uid);
    ranking->ret_expired = cache_expire_locked(cache, ranking->now_ns);
    ranking->ret_again = self != NULL && self->passed;
    if (self != NULL)
        cache_lapse_locked(cache, self);
    struct pack_decision space;
    struct scoring scoring = {ranking->policy, request, NULL};
    scoring.pack = decide_locked(cache, ranking->policy, request, &ranking->host, &space);
    scan_locked(cache, self, request, names, count, reasons, &scoring, ranking);
    if (self != NULL)
        cache_unpass_locked(cache, self);
    pthread_mutex_unlock(&cache->mutex);
}

/* The place of the pod's offer. */
static struct offer *offer_of(struct cache *cache, struct str uid, struct offer *ret_key)
{
    guest_uid(uid, ret_key->uid);
    return &cache->offers[(ret_key->uid[0] ^ ret_key->uid[1]) % OFFERS];
}

static bool same_uid(const struct offer *a, const struct offer *b)
{
    return a->uid[0] == b->uid[0] && a->uid[1] == b->uid[1];
}

static void rank_plain_locked(struct cache *cache, const struct str *names, uint32_t count,
                              enum reason *reasons, struct ranking *ranking, uint32_t demoted)
{
    static const struct pod_request nothing;
    uint32_t epoch = next_epoch(cache), last = 0;
    struct pack_decision space;
    struct scoring scoring = {ranking->policy, &nothing, NULL};
    scoring.pack = decide_locked(cache, ranking->policy, &nothing, &ranking->host, &space);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = find_next(cache, names[i], &last);
        reasons[i] = REASON_FITS;
        ranking->scores[i] = 0;
        if (slot == MAP_NONE)
            continue;
        if (cache->nodes[slot].scan_epoch == epoch)
            reasons[i] = REASON_DUPLICATE;
        cache->nodes[slot].scan_epoch = epoch;
        struct cards cards = cache_cards_locked(cache, &cache->nodes[slot]);
        if (slot == demoted)
            ranking->scores[i] = -1;
        else if (scoring.pack != NULL && reasons[i] == REASON_FITS)
            ranking->scores[i] = score_cards(cache, slot, &cards, &scoring, NULL);
    }
}

void cache_rank_plain(struct cache *cache, struct str uid, const struct str *names, uint32_t count,
                      enum reason *reasons, struct ranking *ranking)
{
    struct offer key;
    pthread_mutex_lock(&cache->mutex);
    struct offer *offer = offer_of(cache, uid, &key);
    ranking->ret_again = same_uid(offer, &key);
    rank_plain_locked(cache, names, count, reasons, ranking,
                      ranking->ret_again && ranking->demote ? offer->node : NODE_NONE);
    pthread_mutex_unlock(&cache->mutex);
}

void cache_offered(struct cache *cache, struct str uid, struct str node)
{
    struct offer key;
    pthread_mutex_lock(&cache->mutex);
    struct offer *offer = offer_of(cache, uid, &key);
    key.node = cache_node_find_locked(cache, node);
    *offer = key;
    pthread_mutex_unlock(&cache->mutex);
}

void cache_bind_refused(struct cache *cache, struct str uid)
{
    struct offer key;
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *pod = cache_pod_lookup_locked(cache, uid);
    struct offer *offer = offer_of(cache, uid, &key);
    if (pod != NULL)
        cache_unpass_locked(cache, pod);
    if (same_uid(offer, &key))
        *offer = (struct offer){.node = NODE_NONE};
    pthread_mutex_unlock(&cache->mutex);
}

uint32_t cache_score(struct cache *cache, const struct pod_request *request,
                     const struct host_amount *host, const struct node_policy *policy,
                     const struct str *names, uint32_t count, int64_t *scores, bool *repeated)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t epoch = next_epoch(cache), last = 0, unknown = 0;
    struct pack_decision space;
    struct scoring scoring = {policy, request, NULL};
    scoring.pack = decide_locked(cache, policy, request, host, &space);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = find_next(cache, names[i], &last);
        struct node *node = slot != MAP_NONE ? &cache->nodes[slot] : NULL;
        scores[i] = 0;
        unknown += node == NULL;
        if (node == NULL)
            continue;
        repeated[i] |= node->scan_epoch == epoch;
        node->scan_epoch = epoch;
        if (!node_has_inventory(node) && request_any(request))
            continue;
        struct cards cards = cache_cards_locked(cache, node);
        /* What packing weighs is where the pod would go: there must be room. */
        if (scoring.pack == NULL || allocate_check(&cards, request) == REASON_FITS)
            scores[i] = score_cards(cache, slot, &cards, &scoring, NULL);
    }
    pthread_mutex_unlock(&cache->mutex);
    return unknown;
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
    uint32_t unknown = node->unknown_pods, epoch = next_epoch(cache);
    for (uint32_t i = 0; i < victim_count; i++) {
        struct pod_record *victim = cache_pod_lookup_locked(cache, victim_uids[i]);
        if (victim == NULL || victim->node != slot || victim->scan_epoch == epoch)
            continue;
        victim->scan_epoch = epoch;
        give_back(&copy, victim);
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
    pthread_mutex_unlock(&cache->mutex);
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
    pthread_mutex_unlock(&cache->mutex);
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
    pthread_mutex_unlock(&cache->mutex);
    return match;
}
