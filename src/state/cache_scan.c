/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>

#include "base/word.h"
#include "core/allocate.h"

/* What filter and prioritize ask of thousands of nodes. The lock is held for so much work at a time; a node
 * may change between two holds, and each verdict is of the moment in which it was made. */

/* About twenty nanoseconds each. A hold that only recalls what it knows is short whatever their number. */
#define EFFORT_VERDICT 1u
#define EFFORT_SCORE   3u
#define EFFORT_WEIGH   20u
#define EFFORT_HOLD    1500u

/* ---- the nodes of a call ---- */

/* The names of a call. */
struct walk {
    struct cache *cache;
    const struct str *names;
    struct roster_notes *notes; /* NULL: none */
    const uint32_t *sure;       /* the numbers that are noted, if they hold; or NULL */
};

/* Good as long as the lock is held. */
static struct walk walk_begin(struct cache *cache, const struct str *names,
                              struct roster_notes *notes)
{
    bool noted = notes != NULL && notes->numbers != NULL;
    return (struct walk){
        .cache = cache,
        .names = names,
        .notes = noted ? notes : NULL,
        .sure = noted && notes->version == cache->names_version ? notes->numbers : NULL,
    };
}

/* Look a name up, unless it is that of the slot that is noted. */
static uint32_t look_up(const struct walk *walk, uint32_t i)
{
    const struct cache *cache = walk->cache;
    struct str name = walk->names[i];
    uint32_t noted = walk->notes != NULL ? walk->notes->numbers[i] : NODE_NONE;
    if (noted < cache->node_slots && name.len == cache->keys[noted].name_len &&
        word_same_text(name.data, cache->keys[noted].name, name.len))
        return noted;
    uint32_t slot = cache_node_find_locked(cache, name);
    if (walk->notes != NULL)
        walk->notes->numbers[i] = slot;
    return slot;
}

/* Slot of name i, or NODE_NONE. */
static inline uint32_t walk_to(const struct walk *walk, uint32_t i)
{
    uint32_t noted = walk->sure != NULL ? walk->sure[i] : NODE_NONE;
    return noted != NODE_NONE ? noted : look_up(walk, i);
}

/* All names were looked up: what is noted holds. */
static void walk_end(const struct walk *walk)
{
    if (walk->notes != NULL)
        walk->notes->version = walk->cache->names_version;
}

/* The first naming of a node in a call; false: it is another one. */
static inline bool first_named(struct cache *cache, uint32_t slot, uint32_t epoch)
{
    bool first = cache->tags[slot].scan_epoch != epoch;
    cache->tags[slot].scan_epoch = epoch;
    return first;
}

uint32_t cache_repeated(struct cache *cache, struct roster_notes *notes, const struct str *names,
                        uint32_t count, bool *repeated)
{
    uint32_t unknown = 0;
    pthread_mutex_lock(&cache->mutex);
    struct walk walk = walk_begin(cache, names, notes);
    uint32_t epoch = cache_next_epoch_locked(cache);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = walk_to(&walk, i);
        unknown += slot == NODE_NONE;
        repeated[i] |= slot != NODE_NONE && !first_named(cache, slot, epoch);
    }
    walk_end(&walk);
    cache_unlock(cache);
    return unknown;
}

/* ---- one node ---- */

/* How nodes are scored in one call. */
struct scoring {
    const struct node_policy *policy;
    const struct pod_request *request;
    const struct pack_decision *pack; /* NULL: the policy scores by the cards alone */
};

/* What is asked of many nodes. */
struct scan {
    struct question question;
    struct scoring scoring;
    struct pack_decision pack;
    struct memo_entry *memo; /* what they said before, by slot; NULL: nothing can be remembered */
    struct weighed_entry *weighed; /* likewise, with scoring.pack */
    uint32_t own;            /* slot of the pod's own booking, where it is not as for others */
    uint32_t effort;         /* in this hold of the lock so far */
};

static int64_t score_cards(const struct cache *cache, uint32_t slot, const struct cards *cards,
                           const struct scoring *scoring, const struct pod_record *self)
{
    if (scoring->pack == NULL)
        return scoring->policy->score(cards, scoring->request);
    struct pack_site site = cache_pack_site_locked(cache, slot, cards, scoring->pack, self);
    int32_t card;
    return scoring->policy->weigh(pack_site_gain(&site, &card));
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
    cache_give_back_locked(&copy, self);
    return score_cards(cache, slot, &copy.cards, scoring, self);
}

/* Good as long as the lock is held; `ret` must not move. */
static void scan_begin(struct cache *cache, const struct pod_request *request,
                       struct pod_record *self, const struct node_policy *policy,
                       const struct host_amount *host, struct scan *ret)
{
    cache_question_locked(cache, request, self, &ret->question);
    bool weighs = policy != NULL && policy->weigh != NULL &&
                  cache_pack_decide_locked(cache, request, host, &ret->pack);
    ret->scoring = (struct scoring){policy, request, weighs ? &ret->pack : NULL};
    struct memo *memo = memos_find(&cache->memos, request, policy, host, cache->node_capacity);
    ret->memo = memo != NULL ? memo->entries : NULL;
    ret->weighed = memo != NULL && weighs ? memo->weighed : NULL;
    ret->own = self != NULL ? self->node : NODE_NONE;
    ret->effort = 0;
}

/* Has this hold been long enough? */
static inline bool is_tired(const struct scan *scan)
{
    return scan->effort >= EFFORT_HOLD;
}

/* What is remembered of a node, which may be nothing. */
static inline struct memo_entry *recall(const struct cache *cache, const struct scan *scan,
                                        uint32_t slot)
{
    struct memo_entry *entry = &scan->memo[slot];
    uint32_t generation = cache->tags[slot].generation;
    if (entry->generation != generation)
        *entry = (struct memo_entry){.generation = generation, .reason = REASON_MAX};
    return entry;
}

static enum reason judge_now(const struct cache *cache, struct scan *scan, uint32_t slot)
{
    scan->effort += EFFORT_VERDICT;
    return cache_glance_locked(cache, slot, &scan->question);
}

static inline enum reason judge(const struct cache *cache, struct scan *scan, uint32_t slot)
{
    if (scan->memo == NULL || slot == scan->own)
        return judge_now(cache, scan, slot);
    struct memo_entry *entry = recall(cache, scan, slot);
    if (entry->reason == REASON_MAX)
        entry->reason = (uint8_t)judge_now(cache, scan, slot);
    return (enum reason)entry->reason;
}

/* Is the node's score by the cards remembered? */
static inline bool is_scored(const struct cache *cache, const struct scan *scan, uint32_t slot)
{
    return scan->memo != NULL && scan->scoring.pack == NULL && scan->memo[slot].scored &&
           scan->memo[slot].generation == cache->tags[slot].generation;
}

static int64_t score_by_cards(const struct cache *cache, struct scan *scan, uint32_t slot)
{
    struct memo_entry *entry = recall(cache, scan, slot);
    int64_t score = score_now(cache, slot, &scan->scoring);
    scan->effort += EFFORT_SCORE;
    entry->scored = score >= INT16_MIN && score <= INT16_MAX;
    entry->score = entry->scored ? (int16_t)score : 0;
    return score;
}

/* What the policy weighs on a node where the pod fits, remembered from now on; NULL if it cannot be. */
static const struct weighed_entry *weigh(struct cache *cache, struct scan *scan, uint32_t slot)
{
    struct weighed_entry *entry = scan->weighed != NULL ? &scan->weighed[slot] : NULL;
    if (entry == NULL || cache_weighed_holds_locked(cache, slot, entry))
        return entry;
    scan->effort += EFFORT_WEIGH;
    return cache_weigh_locked(cache, slot, scan->scoring.pack, entry) ? entry : NULL;
}

static int64_t score_by_packing(struct cache *cache, struct scan *scan, uint32_t slot)
{
    const struct weighed_entry *entry = weigh(cache, scan, slot);
    if (entry == NULL)
        return score_now(cache, slot, &scan->scoring);
    return scan->scoring.policy->weigh(
        cache_weighed_gain_locked(cache, slot, scan->scoring.pack, entry));
}

/* The score of a node, as if the pod had nothing there. */
static inline int64_t score(struct cache *cache, struct scan *scan, uint32_t slot)
{
    if (slot == scan->own)
        return score_without(cache, slot, &scan->scoring, scan->question.self);
    if (scan->scoring.pack != NULL)
        return score_by_packing(cache, scan, slot);
    if (scan->memo == NULL) {
        scan->effort += EFFORT_SCORE;
        return score_now(cache, slot, &scan->scoring);
    }
    return is_scored(cache, scan, slot) ? scan->memo[slot].score
                                        : score_by_cards(cache, scan, slot);
}

/* ---- filter ---- */

/* What is asked, and how far the answer is. */
struct inquiry {
    struct str uid;
    const struct pod_request *request;
    const struct str *names;
    uint32_t count, done;
    enum reason *reasons;    /* REASON_MAX: not judged yet */
    struct ranking *ranking; /* NULL: nothing is scored */
    uint32_t demoted;        /* slot, or NODE_NONE */
};

static struct walk walk_of(struct cache *cache, const struct inquiry *inquiry)
{
    return walk_begin(cache, inquiry->names,
                      inquiry->ranking != NULL ? inquiry->ranking->notes : NULL);
}

/* For one hold of the lock. */
static void begin_hold(struct cache *cache, const struct inquiry *inquiry, struct scan *ret)
{
    const struct ranking *ranking = inquiry->ranking;
    struct pod_record *self = cache_pod_lookup_locked(cache, inquiry->uid);
    scan_begin(cache, inquiry->request, self, ranking != NULL ? ranking->policy : NULL,
               ranking != NULL ? &ranking->host : NULL, ret);
}

/* Say of each name whether it is a node's and its first, while the marks of this call last. */
static void look_at_names(struct cache *cache, const struct inquiry *inquiry)
{
    struct walk walk = walk_of(cache, inquiry);
    enum reason *reasons = inquiry->reasons;
    uint32_t epoch = cache_next_epoch_locked(cache);
    for (uint32_t i = 0; i < inquiry->count; i++) {
        uint32_t slot = walk_to(&walk, i);
        bool first = slot == NODE_NONE || first_named(cache, slot, epoch);
        reasons[i] = slot == NODE_NONE ? REASON_UNKNOWN_NODE : first ? REASON_MAX : REASON_DUPLICATE;
        if (inquiry->ranking != NULL)
            inquiry->ranking->scores[i] = 0;
    }
    walk_end(&walk);
}

/* The same, and what is remembered of each node: what nearly all calls come to. Nodes that are to be looked
 * at in any case are set apart afterwards. */
static void recall_nodes(struct cache *cache, const struct memo_entry *memo,
                         struct inquiry *inquiry)
{
    struct walk walk = walk_of(cache, inquiry);
    struct node_tag *tags = cache->tags;
    enum reason *reasons = inquiry->reasons;
    int64_t *scores = inquiry->ranking->scores;
    uint32_t epoch = cache_next_epoch_locked(cache), count = inquiry->count;
    bool whole = true;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = walk_to(&walk, i);
        scores[i] = 0;
        if (slot == NODE_NONE) {
            reasons[i] = REASON_UNKNOWN_NODE;
            continue;
        }
        struct node_tag *tag = &tags[slot];
        const struct memo_entry *entry = &memo[slot];
        enum reason reason = (enum reason)entry->reason;
        if (entry->generation != tag->generation)
            reason = REASON_MAX;
        if (reason == REASON_FITS) {
            scores[i] = entry->score;
            reason = entry->scored ? REASON_FITS : REASON_MAX;
        }
        if (tag->scan_epoch == epoch) {
            scores[i] = 0;
            reason = REASON_DUPLICATE;
        }
        tag->scan_epoch = epoch;
        reasons[i] = reason;
        whole &= reason != REASON_MAX;
    }
    inquiry->done = whole ? count : 0;
    walk_end(&walk);
}

/* The node with the pod's own booking, and the one that is demoted, are not as for others. */
static void set_apart(struct cache *cache, const struct scan *scan, struct inquiry *inquiry)
{
    struct walk walk = walk_of(cache, inquiry);
    if (scan->own == NODE_NONE && inquiry->demoted == NODE_NONE)
        return;
    for (uint32_t i = 0; i < inquiry->count; i++) {
        uint32_t slot = walk_to(&walk, i);
        if (slot == NODE_NONE || (slot != scan->own && slot != inquiry->demoted) ||
            inquiry->reasons[i] == REASON_DUPLICATE)
            continue;
        inquiry->reasons[i] = REASON_MAX;
        inquiry->ranking->scores[i] = 0;
        inquiry->done = 0;
    }
}

static int64_t score_unless_demoted(struct cache *cache, struct scan *scan,
                                    const struct inquiry *inquiry, uint32_t slot)
{
    return slot == inquiry->demoted ? -1 : score(cache, scan, slot);
}

/* All that fits was weighed; now it is priced, all at the same prices, and in one hold of the lock. A node
 * that has changed meanwhile is looked at again. */
static void price_nodes(struct cache *cache, struct scan *scan, struct inquiry *inquiry)
{
    struct walk walk = walk_of(cache, inquiry);
    enum reason *reasons = inquiry->reasons;
    for (uint32_t i = 0; i < inquiry->count; i++) {
        if (reasons[i] != REASON_FITS)
            continue;
        uint32_t slot = walk_to(&walk, i);
        reasons[i] = slot != NODE_NONE ? judge(cache, scan, slot) : REASON_UNKNOWN_NODE;
        inquiry->ranking->scores[i] =
            reasons[i] == REASON_FITS ? score_unless_demoted(cache, scan, inquiry, slot) : 0;
    }
}

/* Judge what is left, and score it, until it has been enough for one hold. */
static void look_at_nodes(struct cache *cache, struct scan *scan, struct inquiry *inquiry)
{
    struct walk walk = walk_of(cache, inquiry);
    enum reason *reasons = inquiry->reasons;
    uint32_t i = inquiry->done;
    for (; i < inquiry->count && !is_tired(scan); i++) {
        if (reasons[i] != REASON_MAX)
            continue;
        uint32_t slot = walk_to(&walk, i);
        reasons[i] = slot != NODE_NONE ? judge(cache, scan, slot) : REASON_UNKNOWN_NODE;
        if (inquiry->ranking == NULL || reasons[i] != REASON_FITS)
            continue;
        if (scan->scoring.pack != NULL && slot != scan->own)
            (void)weigh(cache, scan, slot); /* its price comes at the end */
        else
            inquiry->ranking->scores[i] = score_unless_demoted(cache, scan, inquiry, slot);
    }
    inquiry->done = i;
}

static bool any_fits(const struct inquiry *inquiry)
{
    uint32_t i = 0;
    while (i < inquiry->count && inquiry->reasons[i] != REASON_FITS)
        i++;
    return i < inquiry->count;
}

/* The lock is held at the beginning and at the end. */
static void inquire_locked(struct cache *cache, struct inquiry *inquiry)
{
    struct scan scan;
    begin_hold(cache, inquiry, &scan);
    if (inquiry->ranking != NULL && scan.memo != NULL && scan.scoring.pack == NULL) {
        recall_nodes(cache, scan.memo, inquiry);
        set_apart(cache, &scan, inquiry);
    } else {
        look_at_names(cache, inquiry);
    }
    look_at_nodes(cache, &scan, inquiry);
    while (inquiry->done < inquiry->count) {
        cache_unlock(cache);
        pthread_mutex_lock(&cache->mutex);
        begin_hold(cache, inquiry, &scan);
        look_at_nodes(cache, &scan, inquiry);
    }
    if (inquiry->ranking != NULL && scan.scoring.pack != NULL)
        price_nodes(cache, &scan, inquiry);
    struct pod_record *self = scan.question.self;
    if (self != NULL)
        self->rejected = self->state == BOOKING_NONE && !any_fits(inquiry);
}

void cache_scan(struct cache *cache, struct str uid, const struct pod_request *request,
                const struct str *names, uint32_t count, enum reason *reasons)
{
    struct inquiry inquiry = {.uid = uid,
                              .request = request,
                              .names = names,
                              .count = count,
                              .reasons = reasons,
                              .demoted = NODE_NONE};
    pthread_mutex_lock(&cache->mutex);
    inquire_locked(cache, &inquiry);
    cache_unlock(cache);
}

void cache_rank(struct cache *cache, struct str uid, const struct pod_request *request,
                const struct str *names, uint32_t count, enum reason *reasons,
                struct ranking *ranking)
{
    struct inquiry inquiry = {.uid = uid,
                              .request = request,
                              .names = names,
                              .count = count,
                              .reasons = reasons,
                              .ranking = ranking,
                              .demoted = NODE_NONE};
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *self = cache_pod_lookup_locked(cache, uid);
    ranking->ret_expired = cache_expire_locked(cache, ranking->now_ns);
    ranking->ret_again = self != NULL && self->passed;
    if (self != NULL)
        cache_lapse_locked(cache, self);
    if (ranking->ret_again && ranking->demote)
        inquiry.demoted = self->only;
    inquire_locked(cache, &inquiry);
    self = cache_pod_lookup_locked(cache, uid);
    if (self != NULL)
        cache_unpass_locked(cache, self);
    cache_unlock(cache);
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
    uint32_t epoch = cache_next_epoch_locked(cache);
    struct walk walk = walk_begin(cache, names, ranking->notes);
    struct scan scan;
    scan_begin(cache, &nothing, NULL, ranking->policy, &ranking->host, &scan);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = walk_to(&walk, i);
        reasons[i] = REASON_FITS;
        ranking->scores[i] = 0;
        if (slot == NODE_NONE)
            continue;
        if (!first_named(cache, slot, epoch))
            reasons[i] = REASON_DUPLICATE;
        if (slot == demoted)
            ranking->scores[i] = -1;
        else if (scan.scoring.pack != NULL && reasons[i] == REASON_FITS)
            ranking->scores[i] = score_by_packing(cache, &scan, slot);
    }
    walk_end(&walk);
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
    cache_unlock(cache);
}

void cache_offered(struct cache *cache, struct str uid, struct str node)
{
    struct offer key;
    pthread_mutex_lock(&cache->mutex);
    struct offer *offer = offer_of(cache, uid, &key);
    key.node = cache_node_find_locked(cache, node);
    *offer = key;
    cache_unlock(cache);
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
    cache_unlock(cache);
}

/* ---- prioritize ---- */

/* Is there something to score on the node? */
static bool can_score(const struct cache *cache, const struct scan *scan, uint32_t slot)
{
    const struct node *node = &cache->nodes[slot];
    const struct pod_request *request = scan->scoring.request;
    if (!node_has_inventory(node) && request_any(request))
        return false;
    if (scan->scoring.pack == NULL)
        return true;
    /* What packing weighs is where the pod would go: there must be room. */
    struct cards cards = cache_cards_locked(cache, node);
    return allocate_check(&cards, request) == REASON_FITS;
}

static int64_t score_if_can(struct cache *cache, struct scan *scan, uint32_t slot)
{
    return can_score(cache, scan, slot) ? score(cache, scan, slot) : 0;
}

/* From `i` on until it has been enough for one hold; returns how far it came. */
static uint32_t score_nodes(const struct walk *walk, struct scan *scan, uint32_t i, uint32_t count,
                            int64_t *scores)
{
    struct cache *cache = walk->cache;
    const struct memo_entry *memo = scan->scoring.pack == NULL ? scan->memo : NULL;
    const struct node_tag *tags = cache->tags;
    bool priced = scan->scoring.pack != NULL; /* all at the same prices */
    for (; i < count && (priced || !is_tired(scan)); i++) {
        uint32_t slot = walk_to(walk, i);
        if (slot == NODE_NONE)
            scores[i] = 0;
        else if (memo != NULL && memo[slot].scored && memo[slot].generation == tags[slot].generation)
            scores[i] = memo[slot].score;
        else
            scores[i] = score_if_can(cache, scan, slot);
    }
    return i;
}

uint32_t cache_score(struct cache *cache, const struct pod_request *request,
                     const struct host_amount *host, const struct node_policy *policy,
                     struct roster_notes *notes, const struct str *names, uint32_t count,
                     int64_t *scores, bool *repeated)
{
    struct scan scan;
    uint32_t unknown = cache_repeated(cache, notes, names, count, repeated), done = 0;
    do {
        pthread_mutex_lock(&cache->mutex);
        struct walk walk = walk_begin(cache, names, notes);
        scan_begin(cache, request, NULL, policy, host, &scan);
        done = score_nodes(&walk, &scan, done, count, scores);
        cache_unlock(cache);
    } while (done < count);
    return unknown;
}

/* ---- invariants ---- */

static int check_entry(const struct cache *cache, const struct scan *scan, uint32_t slot,
                       struct error *err)
{
    const struct memo_entry *entry = &scan->memo[slot];
    if (cache->nodes[slot].name.data == NULL || entry->generation != cache->tags[slot].generation)
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

/* What is remembered gives the same score as weighing anew. */
static int check_weighed(struct cache *cache, const struct memo *memo, uint32_t slots,
                         struct error *err)
{
    struct pack_decision decision;
    struct scoring scoring = {memo->policy, &memo->request, &decision};
    if (memo->weighed == NULL ||
        !cache_pack_decide_locked(cache, &memo->request, &memo->host, &decision))
        return 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct weighed_entry *entry = &memo->weighed[slot];
        if (cache->nodes[slot].name.data == NULL || !cache_weighed_holds_locked(cache, slot, entry))
            continue;
        double gain = cache_weighed_gain_locked(cache, slot, &decision, entry);
        if (memo->policy->weigh(gain) != score_now(cache, slot, &scoring))
            return error_set(err, -EFAULT, "node %.*s: what was weighed is remembered wrongly",
                             STR_ARG(cache->nodes[slot].name));
    }
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
        if (rc == 0)
            rc = check_weighed(cache, memo, slots, err);
    }
    return rc;
}
