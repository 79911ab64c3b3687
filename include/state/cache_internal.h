/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_CACHE_INTERNAL_H
#define STATE_CACHE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/unset.h"
#include "state/cache.h"
#include "state/card_store.h"
#include "state/guests.h"
#include "state/memo.h"
#include "state/packing.h"
#include "state/pod_slots.h"

/* What the files of the cache share; nobody else includes this. */

#define NODE_NONE UINT32_MAX

/* A pod that asks for devices, or holds some. */
struct pod_record {
    struct pod_record *next, **link; /* in its node's list while it has a place; link NULL otherwise */
    uint32_t node;                   /* slot of its place, NODE_NONE while it has none */
    enum booking_state state;
    bool confirmed;
    bool drifted; /* the annotation seen last differs from the one taken */
    bool doubled; /* bound, and found on a card that was given twice */
    bool untold;  /* and nobody was told so: on the list of those */
    bool request_invalid; /* request is then zero and says nothing */
    bool unknown_outcome; /* booked, and nobody knows whether the binding happened */
    bool only_read;       /* bound, as was read: events that tell of the time before may still come */
    bool allocating;      /* has the turn of its node, see "turns" in state/cache.h */
    bool rejected;        /* no place, and the last scan found none */
    bool passed;          /* filter named nodes for it, and no bind has come since */
    bool in_flight;       /* and the next filter waits for that bind: on the list of those */
    uint32_t only;        /* passed: the slot of the node if it was one, else NODE_NONE */
    int64_t held_until_ns; /* BOOKING_TENTATIVE, and then on the list of those */
    TAILQ_ENTRY(pod_record) waiting; /* on one of the three lists */
    enum charge_trust trust;
    enum annotation_state annotation; /* of the annotation taken; ANNOTATION_READ for our own plan */
    struct named_share *named; /* with ANNOTATION_HAMI: what it names, in one block with the texts;
                                  `shares` are then those of cards that the node lists now */
    uint32_t named_count, unlisted; /* how many; how many of them are on cards that are not there */
    int32_t priority;
    uint32_t annotation_bytes; /* as seen last */
    uint32_t scan_epoch; /* last question that named this pod */
    uint32_t mark;       /* last list that named it, see cache_list_begin */
    uint64_t version;    /* of what was applied last; 0 = not known, or it must be applied again */
    int64_t unknown_since_ns, woken_ns;
    uint64_t invalid_print;     /* pod_request_print() of an invalid request */
    struct pod_request request; /* its detail is the block below, or NULL */
    void *detail;
    struct pod_policy policy;
    struct host_amount host; /* taken of its node while it has a place */
    uint32_t share_count;
    struct share *shares;  /* as taken from the annotation, or our plan; sorted, unique */
    struct share *charges; /* what is booked, beside each share; same block as shares */
    struct str uid, ns, name; /* behind this struct, in its block */
};

/* By what a name is compared with that of a slot. */
struct node_key {
    const char *name; /* that of the node */
    uint32_t name_len; /* UINT32_MAX in an empty slot, as no name is */
};

/* What a scan reads of every node that it is asked about. */
struct node_tag {
    uint32_t generation; /* another one after every change of what a verdict or a score looks at */
    uint32_t scan_epoch; /* last scan that named this node */
};

/* What a closer look reads comes first. */
struct node {
    struct str name; /* owned, data NULL in an empty slot */
    uint32_t unknown_pods; /* of its pods, with CHARGE_UNKNOWN */
    bool has_node, has_devices;
    bool device_plugin; /* as its Node says; false without one */
    struct inventory *registered; /* by HAMi's device plugin, in one block with its texts; NULL if
                                     not. The rows are made of it while there is no Device object */
    uint16_t count[DEVICE_KIND_MAX];
    struct cards_sum sum[DEVICE_KIND_MAX]; /* of its cards, kept with them */
    struct card_range range;
    char *texts;             /* block behind `links` and the id and model columns */
    struct links links;      /* of its GPUs */
    struct pod_record *pods; /* that have their place here */
    uint32_t allocating;     /* of them, that have the turn: one, but for pods that others bound */
    uint32_t guests; /* pods without devices here, see state/guests.h */
    uint32_t model;  /* of its cards, a number of packing_model() */
    struct host_amount allocatable, used;
    uint32_t node_mark, devices_mark; /* last lists that named the Node and the Device object */
};

/* Is it known which cards the node has? */
static inline bool node_has_inventory(const struct node *node)
{
    return node->has_devices || node->registered != NULL;
}

/* A Namespace whose labels say something, or said so. */
struct namespace_record {
    struct str name; /* owned; data NULL in an empty slot */
    struct pod_policy policy;
    uint32_t mark;
};

/* A pod without devices for which filter named one node. */
struct offer {
    uint64_t uid[2];
    uint32_t node;
};

#define OFFERS 256u

TAILQ_HEAD(pod_list, pod_record);

#define WASTE_MAX 24u

/* Blocks to be freed. */
struct waste {
    void *of[WASTE_MAX];
    uint32_t count;
};

struct cache {
    pthread_mutex_t mutex;
    pthread_cond_t arrived;    /* a pod is known, or not in flight any more */
    pthread_cond_t turned;     /* a node has no pod with the turn any more */
    struct pod_list in_flight;
    struct pod_list tentative; /* the one that ends first is first */
    struct pod_list untold;    /* holders of cards given twice, see cache_next_doubled */
    enum unknown_pods unknown_pods;
    enum device_plugin_nodes device_plugin_nodes;
    bool hami_plugin; /* see cache_set_hami_plugin */

    struct node *nodes;
    struct node_key *keys; /* of the same slots */
    struct node_tag *tags; /* likewise */
    uint64_t names_version; /* another one whenever a slot gets a name or loses it; never 0 */
    size_t name_bytes;      /* of all names */
    struct kept_roster *roster; /* NULL: none yet */
    bool roster_begun;          /* one thread makes another */
    struct memos memos;
    uint32_t node_slots, node_capacity;
    struct map node_by_name;
    struct card_store store;

    struct map pod_by_uid; /* value: number in pods */
    struct pod_slots pods;

    struct guests guests;
    struct packing packing;
    struct map namespace_by_name; /* value: index into namespaces */
    struct namespace_record *namespaces;
    uint32_t namespace_slots, namespace_capacity;
    struct offer offers[OFFERS]; /* by UID; a later pod may take the place of an earlier one */

    uint32_t scan_epoch;
    uint32_t marks[CACHE_LISTED_MAX]; /* of the list begun last, by kind */
    struct {
        struct cache_counts view; /* kept up to date but for closed_nodes, a question of configuration */
        uint32_t nodes_with_unknown;
        uint32_t node_slots_free;
    } counts;
    uint64_t gains;
    uint64_t removals; /* of pod records */
    struct waste waste; /* see cache_unlock */
};

/*
 * Release the lock, and free what was thrown away under it: to give memory back may take the kernel a
 * millisecond. A macro, so that the build that times the lock (tests/bench/lock_time.h) sees who
 * held it.
 */
#define cache_unlock(cache)                                                                        \
    do {                                                                                           \
        UNSET struct waste waste_;                                                                 \
        cache_take_waste_locked((cache), &waste_);                                                 \
        pthread_mutex_unlock(&(cache)->mutex);                                                     \
        for (uint32_t block_ = 0; block_ < waste_.count; block_++)                                 \
            mem_free(waste_.of[block_]);                                                           \
    } while (0)

/* Lock held in all of these. */

/* Free the block (may be NULL) once the lock is released. */
void cache_discard_locked(struct cache *cache, void *block);

/* What was discarded until now, for the caller to free. */
void cache_take_waste_locked(struct cache *cache, struct waste *ret);

/* Without the lock: make room for the cards of a node that is told of next, if there soon is none. */
void cache_prepare_cards(struct cache *cache);

/* The slot of a node, or NODE_NONE. */
uint32_t cache_node_find_locked(const struct cache *cache, struct str name);

/* The record of a pod, or NULL. */
struct pod_record *cache_pod_lookup_locked(const struct cache *cache, struct str uid);

/* The slot of a node, made when missing; NODE_NONE when memory ends. */
uint32_t cache_node_ensure_locked(struct cache *cache, struct str name);

/* Something has changed that a verdict on the node, or its score, looks at: what is remembered of it is
 * old. */
void cache_node_touched_locked(struct cache *cache, uint32_t slot);

/* Verify what is remembered, for cache_check. */
int cache_memos_check_locked(struct cache *cache, struct error *err);

/* Remove what an event removes. */
void cache_node_drop_locked(struct cache *cache, uint32_t slot);
void cache_devices_drop_locked(struct cache *cache, uint32_t slot);
void cache_pod_drop_locked(struct cache *cache, struct pod_record *pod);

/* Entries of an inventory in row order, as indexes, and the bytes of their texts. -EINVAL with a
 * sentence when it breaks a bound or lists a minor twice. */
int cache_sort_inventory(const struct inventory *inventory, uint16_t order[CARDS_PER_NODE_MAX],
                         size_t *ret_text_bytes, struct error *err);

/* Rows for the node from an inventory in this order (NULL: as it stands), instead of those that it
 * has; its pods are charged on them anew. `texts` is a block for links, ids and models and taken over;
 * NULL: the texts are borrowed from the inventory, and it has no links. -ENOMEM with nothing changed. */
int cache_rows_set_locked(struct cache *cache, struct node *node, const struct inventory *inventory,
                          const uint16_t *order, char *texts);

/* No rows any more. */
void cache_rows_clear_locked(struct cache *cache, struct node *node);

/* The Node's registration is gone, or the Node. */
void cache_registration_drop_locked(struct cache *cache, uint32_t slot);

/* Free the slot if nothing is known of the node any more. */
void cache_node_tidy_locked(struct cache *cache, uint32_t slot);

/* What is left on a node has changed: packing looks at it again. */
void cache_pack_stale_locked(struct cache *cache, uint32_t slot);

/* Room for `capacity` nodes in what packing keeps; false when memory ends. */
bool cache_pack_reserve_locked(struct cache *cache, uint32_t capacity);

/* Begin a decision of a policy that packs; false when there is nothing to weigh by. */
bool cache_pack_decide_locked(struct cache *cache, const struct pod_request *request,
                              const struct host_amount *host, struct pack_decision *ret);

/* Is what was weighed of the node still so? */
bool cache_weighed_holds_locked(const struct cache *cache, uint32_t slot,
                                const struct weighed_entry *entry);

/* Weigh the node, where the pod of the decision fits, but for the prices. False: too much is remembered
 * already, and *ret says nothing. */
bool cache_weigh_locked(struct cache *cache, uint32_t slot, const struct pack_decision *decision,
                        struct weighed_entry *ret);

/* pack_site_gain() of a node from what was weighed and holds, at the prices of the decision begun last. */
double cache_weighed_gain_locked(struct cache *cache, uint32_t slot,
                                 const struct pack_decision *decision,
                                 const struct weighed_entry *entry);

/* Verify what packing keeps, for cache_check. */
int cache_pack_check_locked(struct cache *cache, struct error *err);

/* The node as that decision sees it, `self`'s part of CPU and memory (may be NULL) given back. */
struct pack_site cache_pack_site_locked(const struct cache *cache, uint32_t slot,
                                        const struct cards *cards,
                                        const struct pack_decision *decision,
                                        const struct pod_record *self);

/* The pod's own policy with its Namespace's where it says nothing. */
struct pod_policy cache_policy_locked(const struct cache *cache, const struct pod_record *pod);

/* Remove a Namespace's record; free all of them. */
void cache_namespace_drop_locked(struct cache *cache, uint32_t slot);
void cache_namespaces_done(struct cache *cache);

/* A pod without devices was seen: where it runs, and what it takes there. 0 or -ENOMEM. */
int cache_guest_set_locked(struct cache *cache, const struct pod *pod);

/* It is gone. */
void cache_guest_drop_locked(struct cache *cache, struct guest *guest);

/* A window on the node's cards. */
struct cards cache_cards_locked(const struct cache *cache, const struct node *node);

/* A number that no node or pod has as its scan_epoch. */
uint32_t cache_next_epoch_locked(struct cache *cache);

/* Give a pod's charges back on a copy of its own node's cards. */
void cache_give_back_locked(struct card_copy *copy, const struct pod_record *pod);

/* Free what is kept of the roster; verify it, for cache_check. */
void cache_roster_done(struct cache *cache);
int cache_roster_check_locked(struct cache *cache, struct error *err);

/* After any change of a node's cards, or of what is charged on them: add up what is left. */
void cache_add_up_locked(struct cache *cache, struct node *node);

/* Copy the node's cards; `to` must not move afterwards. */
void cache_copy_locked(const struct cache *cache, const struct node *node, struct card_copy *to);

/* What a pod has on its node, in blocks of the heap. */
struct holding {
    enum annotation_state annotation;
    struct share *shares; /* from cache_shares_block, for `count` or named_count */
    uint32_t count;
    struct named_share *named; /* from cache_named_block, or NULL */
    uint32_t named_count;
};

/* Put the pod's place on `slot` with this holding, which is taken over, charge it, and move it to that
 * state. The pod must have no place. */
void cache_place_locked(struct cache *cache, struct pod_record *pod, uint32_t slot,
                        const struct holding *holding, enum booking_state state);

/* Discard what a record owns, and the record. */
void cache_record_discard_locked(struct cache *cache, struct pod_record *pod);

/* Take the pod's place away and give its charges back. No place: nothing happens. */
void cache_unplace_locked(struct cache *cache, struct pod_record *pod);

/* Does a pod that has a place hold a card that was given twice? */
bool cache_holds_doubled_locked(const struct cache *cache, const struct pod_record *pod);

/* After a change of the node's cards or of what is charged on them: put its bound pods that hold a card
 * given twice, and were not found before, on the list of those to be told of. */
void cache_find_doubled_locked(struct cache *cache, const struct node *node);

/* The pod's place ends: it is not one of those any more. */
void cache_undouble_locked(struct cache *cache, struct pod_record *pod);

/* Take the charges of a placed pod off the cards (not its place), and put them on again, computed anew. What
 * the cards come to is for the caller to add up, once for all that he changes. */
void cache_uncharge_locked(struct cache *cache, struct pod_record *pod);
void cache_charge_locked(struct cache *cache, struct pod_record *pod);

/* The verdict on a node, `self`'s (may be NULL) own booking there not counted. */
enum reason cache_judge_locked(const struct cache *cache, uint32_t slot,
                               const struct pod_request *request, const struct pod_record *self);

/* A request that is put to many nodes. */
struct question {
    const struct pod_request *request;
    struct pod_record *self; /* its own booking is not counted; NULL: nobody's */
    struct allocate_ask ask;
    bool refuse_device_plugin, close_unknown;
};

/* Make it ready. The request is borrowed. */
void cache_question_locked(const struct cache *cache, const struct pod_request *request,
                           struct pod_record *self, struct question *ret);

/* cache_judge_locked() with a glance first, which does for nearly all nodes. */
static inline enum reason cache_glance_locked(const struct cache *cache, uint32_t slot,
                                              const struct question *question)
{
    const struct node *node = &cache->nodes[slot];
    bool plain = node->has_node && node->has_devices &&
                 !(node->device_plugin && question->refuse_device_plugin) &&
                 !(node->unknown_pods > 0 && question->close_unknown) &&
                 (question->self == NULL || question->self->node != slot);
    enum reason reason = plain ? allocate_glance(node->sum, &question->ask) : REASON_MAX;
    if (reason != REASON_MAX)
        return reason;
    return cache_judge_locked(cache, slot, question->request, question->self);
}

/* The pod is not in flight any more; what filter answered is still known. */
void cache_land_locked(struct cache *cache, struct pod_record *pod);

/* A bind came, or the pod has a place or is gone: what filter answered is over. */
void cache_unpass_locked(struct cache *cache, struct pod_record *pod);

/* End the pod's tentative booking if it has one. */
void cache_lapse_locked(struct cache *cache, struct pod_record *pod);

/* End those that are past their time. Returns how many. */
uint32_t cache_expire_locked(struct cache *cache, int64_t now_ns);

/* Which cards of the node the pod would get. */
enum reason cache_choose_locked(struct cache *cache, const struct node *node,
                                const struct pod_record *pod, const struct device_policy *standard,
                                struct plan *ret_plan);

/* The pod, which has a place, takes the turn of its node or gives it back. */
void cache_set_allocating_locked(struct cache *cache, struct pod_record *pod, bool allocating);

/* `ns` from now, on the clock of the cache's conditions. */
struct timespec cache_from_now(int64_t ns);

/* Move the pod to a booking state, keeping the counters right. */
void cache_set_state_locked(struct cache *cache, struct pod_record *pod, enum booking_state state);

/* Why no request of this form may come to the node, whatever its cards have free; REASON_FITS if it may. */
enum reason cache_node_bar_locked(const struct cache *cache, const struct node *node,
                                  const struct pod_request *request);

/* Room for `count` shares and their charges; NULL when memory ends. Never NULL for 0. */
struct share *cache_shares_block(uint32_t count);

/* A holding of our own plan's shares. 0 or -ENOMEM. */
int cache_plan_holding(const struct plan *plan, struct holding *ret);

/* A copy of what HAMi's annotation names; NULL when memory ends. */
struct named_share *cache_named_block(const struct named_share *named, uint32_t count);

/* A request and its detail, copied into `mem`. 0 or -ENOMEM. */
int cache_request_copy(const struct pod_request *request, struct arena *mem,
                       struct pod_request *ret);

/* Is the node closed to new device pods, not counting `except` (may be NULL)? */
bool cache_node_closed_locked(const struct cache *cache, const struct node *node,
                              const struct pod_record *except);

#endif
