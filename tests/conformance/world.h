/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFORMANCE_WORLD_H
#define CONFORMANCE_WORLD_H

#include "core/extender.h"
#include "core/names.h"
#include "core/pod.h"
#include "runner.h"
#include "sched/sched.h"
#include "state/cache.h"
#include "translate.h"

/*
 * A cache that events brought to the state that a record's `before` shows: nodes, Device objects,
 * and pods that were bound before us, each decoded from the object that an API server would send.
 */

/* Records that show one node's state directly do not name it. */
#define ONLY_NODE "node"

struct world {
    struct vector *v;
    struct cache *cache;
    struct sched sched;
    json_object *before;   /* node name -> state */
    bool direct;           /* the record shows one state, not a map of nodes */
    json_object *requests; /* pod -> the request it was set up with */
    const char *book;      /* set this pod up by our own booking instead of a bound pod */
};

/* Set up the record's `before` and see that it came out as shown. `book` may be NULL. False when
 * the record is not supported or has failed. world_done() is due in any case. */
bool world_init(struct world *world, struct vector *v, const char *book);

/* Check the invariants of the cache and free it. */
void world_done(struct world *world);

/* A new map of all nodes' states. */
json_object *world_read_back(struct world *world);

/* Answer "after" with the state as it is now, in the shape of `before`. */
void world_put_after(struct world *world, json_object *answer);

/* What one pod holds according to a state's "allocations", over the device types. */
bool world_holdings(struct vector *v, json_object *allocations, const char *pod,
                    struct placement *ret);

/* UIDs follow from names, which no record gives to two pods. */
void world_uid(const char *pod, char out[NAME_UID_MAX + 1]);

/* A new record pod that runs on `node` with these shares: annotation, and a request that leads to
 * them. */
json_object *world_bound_pod(struct world *world, const char *name, const char *node,
                             const struct placement *placement);

/* Decode a record's pod; false when there is none or the decoder refuses it. */
bool world_decode_pod(struct world *world, json_object *pod, struct pod *ret);

/* A record's pod was added or changed. */
void world_pod_event(struct world *world, json_object *pod);

#endif
