/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>
#include <string.h>

#include "base/word.h"
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

static enum reason verdict_of_cards(const struct cache *cache, const struct node *node,
                                    const struct pod_request *request)
{
    struct cards cards = cache_cards_locked(cache, node);
    return allocate_check(&cards, request);
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

/* The nodes of a call, one after the other: kube-scheduler sends them in an order that seldom changes, so
 * the node that came after the last one in another call is tried before the map. */
struct walk {
    struct cache *cache;
    uint32_t *guess; /* where the next slot is guessed, and learned */
};

static struct walk walk_begin(struct cache *cache)
{
    return (struct walk){cache, &cache->first_node};
}

/* Slot of the next name, or MAP_NONE. */
static inline uint32_t walk_on(struct walk *walk, struct str name)
{
    struct cache *cache = walk->cache;
    uint32_t slot = *walk->guess;
    if (slot >= cache->node_slots || name.len != cache->keys[slot].name_len ||
        !word_same_text(name.data, cache->keys[slot].name, name.len)) {
        slot = cache_node_find_locked(cache, name);
        if (slot == MAP_NONE)
            return MAP_NONE;
        *walk->guess = slot;
    }
    walk->guess = &cache->keys[slot].next;
    return slot;
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

static int64_t score_now(const struct cache *cache, uint32_t slot, const struct scoring *scoring)
{
    struct cards cards = cache_cards_locked(cache, &cache->nodes[slot]);
    return score_cards(cache, slot, &cards, scoring, NULL);
}

static int64_t score_without(const struct cache *cache, uint32_t slot,
                             const struct scoring *scoring, const struct pod_record *self)
{
    struct card_copy copy;
    cache_copy_locked(cache, &cache->nodes[slot], &copy);
    give_back(&copy, self);
    return score_cards(cache, slot, &copy.cards, scoring, self);
}

/* What is asked of many nodes. */
struct scan {
    struct question question;
    struct scoring scoring;
    struct memo_entry *memo; /* what they said before, by slot; NULL: nothing can be remembered */
    uint32_t own;            /* slot of the pod's own booking, where it is not as for others */
};

static void scan_begin(struct cache *cache, const struct pod_request *request,
                       struct pod_record *self, struct scoring scoring, struct scan *ret)
{
    cache_question_locked(cache, request, self, &ret->question);
    ret->scoring = scoring;
    ret->memo = memos_find(&cache->memos, request, scoring.policy, cache->node_capacity);
    ret->own = self != NULL ? self->node : NODE_NONE;
}

/* What is remembered of a node, which may be nothing. */
static inline struct memo_entry *recall(const struct cache *cache, const struct scan *scan,
                                        uint32_t slot)
{
    struct memo_entry *entry = &scan->memo[slot];
    uint32_t generation = cache->keys[slot].generation;
    if (entry->generation != generation)
        *entry = (struct memo_entry){.generation = generation, .reason = REASON_MAX};
    return entry;
}

static inline enum reason judge(const struct cache *cache, const struct scan *scan, uint32_t slot)
{
    if (scan->memo == NULL || slot == scan->own)
        return cache_glance_locked(cache, slot, &scan->question);
    struct memo_entry *entry = recall(cache, scan, slot);
    if (entry->reason == REASON_MAX)
        entry->reason = (uint8_t)cache_glance_locked(cache, slot, &scan->question);
    return (enum reason)entry->reason;
}

/* Is the node's score by the cards remembered? */
static inline bool is_scored(const struct cache *cache, const struct scan *scan, uint32_t slot)
{
    return scan->memo != NULL && scan->scoring.pack == NULL && scan->memo[slot].scored &&
           scan->memo[slot].generation == cache->keys[slot].generation;
}

static int64_t score_by_cards(const struct cache *cache, const struct scan *scan, uint32_t slot)
{
    struct memo_entry *entry = recall(cache, scan, slot);
    int64_t score = score_now(cache, slot, &scan->scoring);
    entry->scored = score >= INT16_MIN && score <= INT16_MAX;
    entry->score = entry->scored ? (int16_t)score : 0;
    return score;
}

/* The score of a node, as if the pod had nothing there. */
static inline int64_t score(const struct cache *cache, const struct scan *scan, uint32_t slot)
{
    if (slot == scan->own)
        return score_without(cache, slot, &scan->scoring, scan->question.self);
    if (scan->memo == NULL || scan->scoring.pack != NULL)
        return score_now(cache, slot, &scan->scoring);
    return is_scored(cache, scan, slot) ? scan->memo[slot].score
                                        : score_by_cards(cache, scan, slot);
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

/* The first naming of a node in a scan; false: it is another one. */
static inline bool first_named(struct cache *cache, uint32_t slot, uint32_t epoch)
{
    bool first = cache->keys[slot].scan_epoch != epoch;
    cache->keys[slot].scan_epoch = epoch;
    return first;
}

static void scan_locked(struct cache *cache, const struct scan *scan, const struct str *names,
                        uint32_t count, enum reason *reasons, const struct ranking *ranking)
{
    struct pod_record *self = scan->question.self;
    struct walk walk = walk_begin(cache);
    uint32_t epoch = next_epoch(cache);
    bool fits = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = walk_on(&walk, names[i]);
        if (slot == MAP_NONE)
            reasons[i] = REASON_UNKNOWN_NODE;
        else if (!first_named(cache, slot, epoch))
            reasons[i] = REASON_DUPLICATE;
        else
            reasons[i] = judge(cache, scan, slot);
        fits |= reasons[i] == REASON_FITS;
        if (ranking == NULL)
            continue;
        ranking->scores[i] = 0;
        if (reasons[i] == REASON_FITS)
            ranking->scores[i] = is_demoted(ranking, slot, self) ? -1 : score(cache, scan, slot);
    }
    if (self != NULL)
        self->rejected = !fits && self->state == BOOKING_NONE;
}

void cache_scan(struct cache *cache, struct str uid, const struct pod_request *request,
                const struct str *names, uint32_t count, enum reason *reasons)
{
    struct scan scan;
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *self = cache_pod_lookup_locked(cache, uid);
    scan_begin(cache, request, self, (struct scoring){.request = request}, &scan);
    scan_locked(cache, &scan, names, count, reasons, NULL);
    pthread_mutex_unlock(&cache->mutex);
}

void cache_rank(struct cache *cache, struct str uid, const struct pod_request *request,
                const struct str *names, uint32_t count, enum reason *reasons,
                struct ranking *ranking)
{
    struct scan scan;
    struct pack_decision space;
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *self = cache_pod_lookup_locked(cache, uid);
    ranking->ret_expired = cache_expire_locked(cache, ranking->now_ns);
    ranking->ret_again = self != NULL && self->passed;
    if (self != NULL)
        cache_lapse_locked(cache, self);
    struct scoring scoring = {ranking->policy, request, NULL};
    scoring.pack = decide_locked(cache, ranking->policy, request, &ranking->host, &space);
    scan_begin(cache, request, self, scoring, &scan);
    scan_locked(cache, &scan, names, count, reasons, ranking);
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
    uint32_t epoch = next_epoch(cache);
    struct walk walk = walk_begin(cache);
    struct pack_decision space;
    struct scoring scoring = {ranking->policy, &nothing, NULL};
    scoring.pack = decide_locked(cache, ranking->policy, &nothing, &ranking->host, &space);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = walk_on(&walk, names[i]);
        reasons[i] = REASON_FITS;
        ranking->scores[i] = 0;
        if (slot == MAP_NONE)
            continue;
        if (!first_named(cache, slot, epoch))
            reasons[i] = REASON_DUPLICATE;
        if (slot == demoted)
            ranking->scores[i] = -1;
        else if (scoring.pack != NULL && reasons[i] == REASON_FITS)
            ranking->scores[i] = score_now(cache, slot, &scoring);
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

/* Is there something to score on the node? */
static bool can_score(const struct cache *cache, const struct scan *scan, uint32_t slot)
{
    const struct node *node = &cache->nodes[slot];
    const struct pod_request *request = scan->scoring.request;
    if (!node_has_inventory(node) && request_any(request))
        return false;
    /* What packing weighs is where the pod would go: there must be room. */
    return scan->scoring.pack == NULL || verdict_of_cards(cache, node, request) == REASON_FITS;
}

static uint32_t score_locked(struct cache *cache, const struct scan *scan, const struct str *names,
                             uint32_t count, int64_t *scores, bool *repeated)
{
    struct walk walk = walk_begin(cache);
    uint32_t epoch = next_epoch(cache), unknown = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = walk_on(&walk, names[i]);
        scores[i] = 0;
        if (slot == MAP_NONE)
            unknown++;
        else if (is_scored(cache, scan, slot) || can_score(cache, scan, slot))
            scores[i] = score(cache, scan, slot);
        if (slot != MAP_NONE)
            repeated[i] |= !first_named(cache, slot, epoch);
    }
    return unknown;
}

uint32_t cache_score(struct cache *cache, const struct pod_request *request,
                     const struct host_amount *host, const struct node_policy *policy,
                     const struct str *names, uint32_t count, int64_t *scores, bool *repeated)
{
    struct scan scan;
    struct pack_decision space;
    pthread_mutex_lock(&cache->mutex);
    struct scoring scoring = {policy, request, NULL};
    scoring.pack = decide_locked(cache, policy, request, host, &space);
    scan_begin(cache, request, NULL, scoring, &scan);
    uint32_t unknown = score_locked(cache, &scan, names, count, scores, repeated);
    pthread_mutex_unlock(&cache->mutex);
    return unknown;
}

static int check_entry(const struct cache *cache, const struct scan *scan, uint32_t slot,
                       struct error *err)
{
    const struct memo_entry *entry = &scan->memo[slot];
    if (cache->nodes[slot].name.data == NULL || entry->generation != cache->keys[slot].generation)
        return 0;
    if (entry->reason != REASON_MAX &&
        entry->reason != cache_glance_locked(cache, slot, &scan->question))
        return error_set(err, -EFAULT, "node %.*s: the verdict that is remembered is an old one",
                         STR_ARG(cache->nodes[slot].name));
    if (entry->scored && entry->score != score_now(cache, slot, &scan->scoring))
        return error_set(err, -EFAULT, "node %.*s: the score that is remembered is an old one",
                         STR_ARG(cache->nodes[slot].name));
    return 0;
}

int cache_memos_check_locked(struct cache *cache, struct error *err)
{
    int rc = 0;
    for (unsigned i = 0; i < MEMOS; i++) {
        const struct memo *memo = &cache->memos.of[i];
        struct scan scan = {.scoring = {memo->policy, &memo->request, NULL},
                            .memo = memo->entries};
        cache_question_locked(cache, &memo->request, NULL, &scan.question);
        uint32_t slots =
            memo->capacity < cache->node_slots ? memo->capacity : cache->node_slots;
        for (uint32_t slot = 0; rc == 0 && slot < slots; slot++)
            rc = check_entry(cache, &scan, slot, err);
    }
    return rc;
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
    pthread_mutex_unlock(&cache->mutex);
    return match;
}
