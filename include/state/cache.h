/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_CACHE_H
#define STATE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/charge.h"
#include "core/extender.h"
#include "core/node.h"
#include "core/pack_site.h"
#include "core/policy.h"
#include "core/pod.h"
#include "core/pod_policy.h"
#include "core/reason.h"
#include "core/roster.h"
#include "state/booking.h"

/*
 * Nodes, their cards, and pods with their bookings. One mutex, taken and released inside every function
 * here; under it run only core and map operations. Every function may be called from any thread; none
 * blocks on anything but the mutex. Inputs are copied; nothing that is returned points into the cache.
 *
 * Invariants, checked by cache_check():
 *   used of a card = sum of the charges of the pods on it, in every dimension;
 *   the charge of a pod is charge_of(its annotation or our plan, its request, the cards now);
 *   used never exceeds total by a decision of cache_book (an inventory that shrinks may make it so).
 *
 * The state is a function of the last event of each object: events of different objects may come in any
 * order. A pod event before its node's, a Device without a Node: all kept until the rest arrives.
 */
struct cache;

/* What to do with a node on which a device pod runs whose cards are unknown. */
enum unknown_pods { UNKNOWN_PODS_CLOSE, UNKNOWN_PODS_IGNORE };

/* What to do with GPU requests on a node whose GPUs a vendor's device plugin hands out, too. */
enum device_plugin_nodes { DEVICE_PLUGIN_NODES_REFUSE, DEVICE_PLUGIN_NODES_ALLOW };

/* A new, empty cache, or NULL when memory ends. Free with cache_free. */
struct cache *cache_new(enum unknown_pods unknown_pods);

/* Free it; nobody may use it any more. NULL is fine. */
void cache_free(struct cache *cache);

/* Change the rule for unknown pods at run time (configuration reload). */
void cache_set_unknown_pods(struct cache *cache, enum unknown_pods unknown_pods);

/* The same for nodes with a device plugin; a new cache refuses. */
void cache_set_device_plugin_nodes(struct cache *cache, enum device_plugin_nodes device_plugin_nodes);

/* Whether HAMi's device plugin is served, which registers its node's cards: bindings then carry the
 * annotations by which it finds them. If not, as in a new cache, its nodes are like any with a
 * device plugin. */
void cache_set_hami_plugin(struct cache *cache, bool served);

/* ---- events: what the API server says. Idempotent. 0, or -ENOMEM with the state unchanged. ---- */

/* A Node exists, and this is what it says. */
int cache_node_set(struct cache *cache, const struct node_facts *facts);

/* A Node is gone; its pods' bookings and its Device object stay until their own events. */
void cache_node_remove(struct cache *cache, struct str name);

/* The Device object of a node, replacing the one before. -EINVAL (err filled, state unchanged) when it
 * breaks a bound of core/device.h or lists a minor twice. */
int cache_devices_set(struct cache *cache, struct str node, const struct inventory *inventory,
                      struct error *err);

/* The Device object is gone: the node's cards give nothing more, bookings stay. */
void cache_devices_remove(struct cache *cache, struct str node);

/* What HAMi's device plugin registers on a known Node, replacing what it registered before: the
 * node's cards while there is no Device object. Unknown Nodes are passed over. Errors as of
 * cache_devices_set. */
int cache_registration_set(struct cache *cache, struct str node, const struct inventory *inventory,
                           struct error *err);

/* Nothing is registered there any more. */
void cache_registration_remove(struct cache *cache, struct str node);

/* What a pod event meant. */
struct pod_event_result {
    enum booking_state state; /* after the event */
    enum charge_trust trust;  /* valid while bound */
    bool taken;               /* its annotation was read for the first time by this event */
    bool odd;                 /* the step was legal but unexpected */
    bool moved;               /* bound elsewhere than booked */
    bool drifted;             /* annotation now differs from the one taken: not applied; once an edit */
};

/* A pod was added or modified. `request` NULL = the pod's request is invalid. Pods that neither ask for a
 * device nor have a booking are not kept. A finished pod is a removed one. What is kept of `policy` follows
 * the pod's annotations until it has a place. */
int cache_pod_set(struct cache *cache, const struct pod *pod, const struct pod_request *request,
                  const struct pod_policy *policy, struct pod_event_result *ret);

/* The same from a pod that was read, not told of: it may be older than events that came meanwhile.
 *
 * learn: read because it was not known. Nothing is done when it is known by now. -EAGAIN, and nothing is
 * done, when any pod was removed since `removals` was asked for: it may have been this one.
 * settle: read because the outcome of its binding was unknown. Nothing is done when it is known by now. */
int cache_pod_learn(struct cache *cache, const struct pod *pod, const struct pod_request *request,
                    const struct pod_policy *policy, uint64_t removals,
                    struct pod_event_result *ret);
int cache_pod_settle(struct cache *cache, const struct pod *pod, const struct pod_request *request,
                     const struct pod_policy *policy, struct pod_event_result *ret);

/* How many pods were removed so far. */
uint64_t cache_removals(struct cache *cache);

/* A pod is gone. Unknown UIDs are fine. */
void cache_pod_remove(struct cache *cache, struct str uid);

/* A Namespace exists, and its labels say this of pods that say nothing themselves. */
int cache_namespace_set(struct cache *cache, struct str name, const struct pod_policy *policy);

/* A Namespace is gone. */
void cache_namespace_remove(struct cache *cache, struct str name);

/* Fill in what a pod of that Namespace does not say itself. */
void cache_namespace_fill(struct cache *cache, struct str name, struct pod_policy *policy);

/* ---- relists: what a complete list does not name is gone ---- */

enum cache_listed { CACHE_NODES, CACHE_DEVICES, CACHE_PODS, CACHE_NAMESPACES, CACHE_LISTED_MAX };

/* A list of this kind begins: objects set from now on carry the mark that is returned. */
uint32_t cache_list_begin(struct cache *cache, enum cache_listed kind);

/* The list names an object that cannot be read: what is known of it stays. `name` is the Node's or Device's
 * name or the pod's uid; unknown ones are fine. */
void cache_list_keep(struct cache *cache, enum cache_listed kind, struct str name);

/* The list names a pod at this version (> 0). True: it is the one that was applied last, which is all that
 * there is to say of it, and it stays. False: it must be set. */
bool cache_pod_same(struct cache *cache, struct str uid, uint64_t version);

/* The list is complete: remove every object of the kind that was not set since its mark was given, as if
 * its own removal event had come. Pods keep the rule that a finished or deleted pod gives its cards back.
 * The lock is held for a slice of the objects at a time. Returns the number removed. */
uint32_t cache_list_end(struct cache *cache, enum cache_listed kind, uint32_t mark);

/* ---- questions ---- */

enum pod_match {
    POD_UNKNOWN,  /* no device pod with this UID */
    POD_KNOWN,    /* uid, namespace and name agree */
    POD_MISMATCH, /* the UID belongs to another namespace or name */
};

/* What is known of a pod. Strings are in `mem`. */
struct pod_view {
    enum booking_state state;
    bool confirmed;       /* booked, and the API server said yes */
    bool request_invalid;
    uint64_t invalid_print; /* then: pod_request_print() of it */
    struct pod_request request;
    struct pod_policy policy; /* with what its Namespace says where the pod says nothing */
    struct str node;      /* of the booking; empty if none */
    int32_t priority;
    uint32_t annotation_bytes; /* of all annotations it had when seen last */
    enum charge_trust trust;
    struct plan charge;   /* what it is charged now */
};

/* Look a pod up by UID and compare its name. Fills *ret only for POD_KNOWN. When memory ends the result
 * is POD_UNKNOWN with ret->node empty. */
enum pod_match cache_pod_find(struct cache *cache, const struct pod_id *id, struct arena *mem,
                              struct pod_view *ret);

/* Judge candidates for a request: reasons[i] for names[i]. The booking that pod `uid` itself holds is
 * not counted against it. A name given twice is REASON_DUPLICATE the second time. A known pod that fits
 * nowhere is remembered as rejected until it is scanned again, booked or placed. The lock is held for a
 * slice of the nodes at a time where they have to be judged anew: each verdict is of its own moment. */
void cache_scan(struct cache *cache, struct str uid, const struct pod_request *request,
                const struct str *names, uint32_t count, enum reason *reasons);

/* cache_scan for a filter that ranks: what is asked, and what is found beside the reasons. */
struct ranking {
    const struct node_policy *policy;
    bool demote;    /* score -1 for the node that this pod's last answer named alone, if no bind came of it */
    int64_t now_ns; /* tentative bookings that end by then are gone */
    struct host_amount host; /* what the pod asks for of CPU and memory, for policies that weigh it */
    struct roster_notes *notes; /* as for cache_score */

    int64_t *scores;      /* one a name: raw score of a node that fits, else 0 */
    bool ret_again;       /* filter was answered with nodes before, and no bind came of it */
    uint32_t ret_expired; /* tentative bookings that were past their time */
};

/* cache_scan, with each score of a node that fits taken together with its verdict. What filter knew of
 * the pod before ends: it is not in flight and holds nothing tentatively. */
void cache_rank(struct cache *cache, struct str uid, const struct pod_request *request,
                const struct str *names, uint32_t count, enum reason *reasons,
                struct ranking *ranking);

/* The same for a pod without devices, of which nothing is kept but the node that an answer named alone
 * (cache_offered): for a policy that weighs CPU and memory, every node fits. */
void cache_rank_plain(struct cache *cache, struct str uid, const struct str *names, uint32_t count,
                      enum reason *reasons, struct ranking *ranking);

/* Filter is about to name this node alone for a pod without devices. Only some hundred such pods are
 * remembered, the last ones. */
void cache_offered(struct cache *cache, struct str uid, struct str node);

/* Raw node scores of a policy: scores[i] for names[i]; 0 for nodes that are unknown or, of a request for
 * devices, have no cards.
 * repeated[i] is set for a name that was given before, if its node is known. Returns how many are not.
 * `notes` (may be NULL) is what is known of the names, and is brought up to date. */
uint32_t cache_score(struct cache *cache, const struct pod_request *request,
                     const struct host_amount *host, const struct node_policy *policy,
                     struct roster_notes *notes, const struct str *names, uint32_t count,
                     int64_t *scores, bool *repeated);

/* Only which names were given before, as of cache_score. */
uint32_t cache_repeated(struct cache *cache, struct roster_notes *notes, const struct str *names,
                        uint32_t count, bool *repeated);

/*
 * The roster: all nodes, in the order in which a call had them (core/roster.h). It is a snapshot, and its
 * numbers may be old: every function here that is given notes of them sees that by their version.
 */

/* The present one, for reading a call with; NULL while there is none. Costs next to nothing. It stays as it
 * is until cache_roster_leave(), which may come after the cache's end, and takes no lock. */
const struct roster *cache_roster_take(struct cache *cache);
void cache_roster_leave(const struct roster *roster);

/* The nodes of a call of `count` names were looked up with these notes. Make another roster if nodes came or
 * went, or if the present one has another order than calls have. Without memory the old one stays. */
void cache_roster_learn(struct cache *cache, const struct roster_notes *notes, uint32_t count);

/* Would the request fit on `node` once the bookings of these pods there are given back? Computed on a
 * copy. Pods that hold nothing on that node change nothing. */
enum reason cache_what_if(struct cache *cache, struct str node, const struct pod_request *request,
                          const struct str *victim_uids, uint32_t victim_count);

/* Per-card explanation of why `request` does not fit on `node` now, see allocate_explain. */
size_t cache_explain(struct cache *cache, struct str node, const struct pod_request *request, char *out,
                     size_t size);

/* ---- packing ---- */

/*
 * For policies that weigh what the cluster needs (core/pack_site.h). What they need is kept from the first call
 * on; what pods without devices take of a node is known all the time.
 */

/* Make ready for a decision: learn tables if there are none yet, or if the mix of requests has drifted since
 * they were learned. That is done without the lock, by one thread at a time, in some milliseconds; else this
 * costs next to nothing. 0, or -ENOMEM: then packing goes by the tables it has, or scores as binpack does. */
int cache_pack_prepare(struct cache *cache, int64_t now_ns);

/* A card model, and what of it the cluster has left. */
struct pack_model_view {
    struct str name;
    double free_value, price;
};

/* A request as it was seen, or a spec of several cards that has a price. */
struct pack_spec_view {
    struct pack_pod pod;
    int64_t bytes; /* of each card's memory; 0: pod.milli says all */
    double share;  /* of all seen */
    int64_t copies; /* how many more fit; of priced specs only */
    double price;   /* of such a copy */
};

/* What packing goes by. */
struct pack_view {
    bool on;
    uint64_t pods, left_out; /* seen since the start; and not told apart, for lack of room */
    double prior_pods;       /* that the shipped guess stands for now */
    double drift;            /* since it was learned */
    uint64_t learned_times, learned_pods;
    int64_t learned_ns; /* on the clock of cache_pack_prepare */
    int64_t card_bytes;
    uint32_t cards;
    double fade;
    double value[PACK_CELLS + 1];
    uint32_t mix_count, scarce_count, model_count;
    const struct pack_spec_view *mix; /* the most frequent first */
    const struct pack_spec_view *scarce;
    const struct pack_model_view *models;
};

/* Copy it into `mem`: 0 or -ENOMEM. */
int cache_pack_view(struct cache *cache, struct arena *mem, struct pack_view *ret);

/* ---- between filter and bind ---- */

/*
 * kube-scheduler goes on to the next pod while the bind call of the last one is on its way. A pod for which
 * filter named nodes is therefore in flight until its bind arrives: the next filter waits for it, or, where
 * one node was named, finds its cards held by a tentative booking. Only pods that are known as pending are.
 */

enum passed { PASSED_UNKNOWN, PASSED_IN_FLIGHT, PASSED_HELD };

/* Filter is about to answer with nodes; `only` is the node if it is one, else empty. Hold its cards until
 * `hold_until_ns`, chosen with the pod's own device policy or `standard`, or let the pod be in flight where
 * nothing is to be held (`standard` NULL) or can be. */
enum passed cache_passed(struct cache *cache, struct str uid, struct str only,
                         const struct device_policy *standard, int64_t hold_until_ns);

/* The bind that came for this pod was refused before the cache was asked to book. Whatever stands behind
 * filter agreed to the node, so the next filter may name it again, and nobody waits for this one. */
void cache_bind_refused(struct cache *cache, struct str uid);

enum awaited {
    AWAITED_NONE,    /* there was nothing to wait for */
    AWAITED_ARRIVED, /* in time */
    AWAITED_TIMEOUT, /* a bind did not come; its pod is never waited for again */
    AWAITED_UNKNOWN, /* binds came, but `uid` itself is still not known */
};

/* Wait until no other pod than `uid` is in flight and, with `until_known`, `uid` is known; at most `wait_ns`
 * in all. The lock is free meanwhile. */
enum awaited cache_await(struct cache *cache, struct str uid, bool until_known, int64_t wait_ns);

/* End the tentative bookings that are past their time. Returns how many. */
uint32_t cache_expire(struct cache *cache, int64_t now_ns);

/* ---- bind ---- */

enum book_result {
    BOOK_OK,     /* booked now; *ret_placement filled */
    BOOK_NO_FIT, /* *ret_reason says why */
    BOOK_UNKNOWN_POD,
    BOOK_INVALID_REQUEST,
    BOOK_INVALID_POLICY,
    BOOK_ALREADY_HERE, /* booked and confirmed, or bound, on this node: an earlier bind succeeded */
    BOOK_ELSEWHERE,    /* booked and confirmed, or bound, on another node */
    BOOK_NOT_ITS_TURN, /* another pod has the turn of the node: see cache_await_turn; nothing is
                          booked */
    BOOK_IN_PROGRESS,  /* booked, here or elsewhere, and not yet confirmed */
    BOOK_NO_MEMORY,
};

/* Decide on `node` and book, in one step; with the pod's own device policy, or with `standard` when it has
 * none. */
enum book_result cache_book(struct cache *cache, struct str uid, struct str node,
                            const struct device_policy *standard, struct placement *ret_placement,
                            enum reason *ret_reason);

/*
 * Turns. HAMi's device plugin learns from kubelet that a container starts, not whose it is: it
 * takes the pod of its node whose hami.io/bind-phase is "allocating". So where that plugin is
 * served and has registered the node, at most one pod that asks by nvidia.com names is between our
 * booking and the phase "success" or "failed", or its end, as the watch tells. Pods of the same
 * phase that others bound have the turn, too.
 */

/* Wait until no pod has the turn of `node`, at most `wait_ns`; false when one has still. */
bool cache_await_turn(struct cache *cache, struct str node, int64_t wait_ns);

/* The API server accepted the binding of a booked pod. */
void cache_confirm(struct cache *cache, struct str uid);

/* The API server refused the binding, or the pod was read back as not ours: give the cards back. A pod
 * that the watch has seen bound meanwhile keeps its booking. */
void cache_forget(struct cache *cache, struct str uid);

/* The outcome of a booked pod's binding is unknown since `now_ns`: it waits for somebody to read the pod. */
void cache_outcome_unknown(struct cache *cache, struct str uid, int64_t now_ns);

/* ---- cards given twice ---- */

/* A bound pod that was found on such a card. */
struct doubled_pod {
    struct pod_id id;
    struct str node;
};

/* The next bound pod that was found to hold a card that was given twice (cards_given_twice()): by an event
 * of its own, of another pod or of the cards, so that every order of events finds the same. Each pod once
 * while it keeps its place. Copied into `mem`. 1 found, 0 no more, -ENOMEM: it stays the next. */
int cache_next_doubled(struct cache *cache, struct arena *mem, struct doubled_pod *ret);

/* ---- what waits ---- */

/* A pod that waits, copied into the caller's arena. */
struct waiting_pod {
    struct pod_id id;
    int64_t since_ns; /* its outcome is unknown since; or it was woken last (INT64_MIN: never) */
};

/* The next booked pod whose binding has an unknown outcome, at or after *cursor (start with 0); moves
 * *cursor behind it. 1 found, 0 no more, -ENOMEM. */
int cache_next_unknown(struct cache *cache, uint32_t *cursor, struct arena *mem,
                       struct waiting_pod *ret);

/* The next pod that the last scan for it rejected everywhere although its request is valid, and that would
 * now fit on some node. Same results. Each node is judged under a lock of its own. */
int cache_next_wakeable(struct cache *cache, uint32_t *cursor, struct arena *mem,
                        struct waiting_pod *ret);

/* The pod was woken at `now_ns`. */
void cache_woken(struct cache *cache, struct str uid, int64_t now_ns);

/* A number that changes whenever something on our side may have made room: cards came, grew or recovered, a
 * booking was given back, a node opened. Equal numbers: no rejected pod can fit that did not before. */
uint64_t cache_gains(struct cache *cache);

/* ---- views for people and tests ---- */

/* A card; also one that is not listed any more while pods still hold it (registered false). */
struct card_view {
    enum device_kind kind;
    int32_t minor;
    bool registered; /* listed in the Device object */
    bool usable;     /* listed, healthy and with something to give */
    uint32_t pods;
    uint32_t users; /* their containers */
    uint32_t slots; /* containers that may; 0 = any number */
    struct amount total, used;
    struct str id;
};

struct node_pod_view {
    struct pod_id id;
    enum booking_state state;
    enum charge_trust trust;
    bool confirmed;
    bool drifted; /* its annotation was edited after it was taken */
    uint32_t share_count;
    const struct share *shares;
};

struct node_view {
    struct str name;
    bool has_node, has_devices, device_plugin, closed;
    bool registered; /* by HAMi's device plugin, whether that counts or a Device object */
    uint32_t card_count;
    const struct card_view *cards;
    uint32_t pod_count;
    const struct node_pod_view *pods; /* ordered by namespace, name, uid */
    struct host_amount allocatable;   /* CPU and memory; 0: not known */
    struct host_amount used;          /* by all pods */
    uint32_t other_pods;              /* without devices */
    struct str gpu_model;
};

/* Number of node slots; iterate cache_node_at over 0..n-1. Slots are stable while a node is known. */
uint32_t cache_node_slots(struct cache *cache);

/* Copy slot `index` into `mem`: 1 filled, 0 an empty slot, -ENOMEM. The lock is held for one node only, so
 * a dump of a large cluster never holds up a filter. */
int cache_node_at(struct cache *cache, uint32_t index, struct arena *mem, struct node_view *ret);

/* Same by name; 0 when the node is not known. */
int cache_node_get(struct cache *cache, struct str name, struct arena *mem, struct node_view *ret);

struct cache_counts {
    uint32_t nodes;        /* with Node object */
    uint32_t device_nodes; /* whose cards are known */
    uint32_t cards;
    uint32_t pods;         /* kept records */
    uint32_t tentative, booked, bound;
    uint32_t inconsistent_pods, unknown_pods;
    uint32_t closed_nodes;
};

/* Totals of the whole cache. */
void cache_count(struct cache *cache, struct cache_counts *ret);

/* Verify the invariants at the top. 0, or -EFAULT with the first violation in err. For tests and debug:
 * holds the lock for the whole check. */
int cache_check(struct cache *cache, struct error *err);

#endif
