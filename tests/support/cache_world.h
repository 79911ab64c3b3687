/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_CACHE_WORLD_H
#define SUPPORT_CACHE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "state/cache.h"

/* The world of the naive model of cache_model.h, and its arithmetic: for cache_model.c. */

enum { NODES_MAX = 6, PODS_MAX = 40, CARDS = 6, SHARES = 8, ONLY_WENT = -2 };

struct model_card {
    enum device_kind kind;
    int32_t minor;
    bool healthy;
    struct amount total; /* as stated */
};

struct model_node {
    bool has_node, has_devices, device_plugin;
    uint32_t node_mark, devices_mark;
    int card_count;
    struct model_card cards[CARDS];
};

struct model_pod {
    bool known;
    bool invalid;
    struct pod_request request;
    struct pod_policy policy;
    uint32_t mark;
    int node; /* -1: no place */
    enum booking_state state;
    bool confirmed;
    bool unknown; /* the outcome of its binding, since then */
    int64_t unknown_since;
    bool only_read; /* bound by a read that is younger than the watch */
    bool drifted;
    bool doubled; /* found on a card given twice */
    bool untold;  /* and cache_next_doubled() has not named it yet */
    bool rejected;
    int64_t woken;
    bool in_flight;
    bool passed;   /* filter answered with nodes, and no bind came of it */
    int only;      /* with this one alone; -1: with several; ONLY_WENT */
    int64_t until; /* BOOKING_TENTATIVE */
    enum annotation_state annotation; /* the shares are from it, or our own */
    int share_count;
    struct share shares[SHARES];
};

struct world {
    int node_count, pod_count;
    struct model_node nodes[NODES_MAX];
    struct model_pod pods[PODS_MAX];
    bool left_out[PODS_MAX]; /* not charged, for a what-if */
    bool plugin_allowed, unknown_ignored;
    uint32_t marks[3];
    uint64_t removals;
    int64_t now; /* moves with the operations */
};

/* "n-0"..., "uid-0"...: text that lives as long as the process. */
struct str world_node_name(int n);
struct str world_pod_uid(int p);

/* A card's total as the rules count it: an unhealthy one has nothing. */
struct amount world_usable(const struct model_card *card);

/* The card that a node's Device lists, or NULL. */
const struct model_card *world_card(const struct model_node *node, enum device_kind kind, int32_t minor);

/* What a request takes on a card of this total. */
struct amount world_wanted(const struct device_request *request, struct amount total);

/* How a placed pod is charged: fills SHARES charges, returns the trust. */
enum charge_trust world_charge(const struct world *world, const struct model_pod *pod, struct share *charges);

/* Sum of the charges on a card, and of how many shares. */
struct amount world_used(const struct world *world, int n, enum device_kind kind, int32_t minor,
                         uint32_t *ret_holders);

/* Runs a pod there whose cards are not known? Whatever the rule for such nodes is. */
bool world_has_unknown(const struct world *world, int n);

/* The same under the rule of now. */
bool world_closed(const struct world *world, int n);

/* Has a card room for one device of a request; has a node, for all of it; has any node? */
bool world_card_fits(const struct world *world, int n, const struct model_card *card,
                     const struct device_request *request);
bool world_fits(const struct world *world, int n, const struct pod_request *request);
bool world_fits_somewhere(const struct world *world, const struct pod_request *request);

/* Is the node in the cache at all? */
bool world_knows(const struct world *world, int n);

/* The cache says the same of a node, or of everything, its own invariants and counters included; else the
 * test fails. */
void world_compare_node(const struct world *world, struct cache *cache, int n);
void world_compare(const struct world *world, struct cache *cache);

#endif
