/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_POD_H
#define CORE_POD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/device.h"
#include "core/hami.h"
#include "core/models.h"
#include "core/pod_policy.h"
#include "core/request.h"

/* The few facts of a Pod that matter here. Slices are borrowed from whoever decoded it. */

struct pod_id {
    struct str ns;
    struct str name;
    struct str uid;
};

enum annotation_state {
    ANNOTATION_ABSENT,
    ANNOTATION_UNREADABLE, /* not JSON of the right shape, or past our bounds */
    ANNOTATION_READ,
    ANNOTATION_HAMI, /* HAMi's alone: names cards by their ids */
};

/* What HAMi's annotation says that a pod has of one card, at one time at most. */
struct named_share {
    struct str id;
    int64_t mib;
    int64_t percent;
    uint32_t beside; /* as in struct share */
};

struct pod {
    struct pod_id id;
    struct str node_name;      /* empty while pending */
    struct str nominated_node; /* status.nominatedNodeName */
    int32_t priority;
    bool finished; /* phase Succeeded or Failed */
    bool deleting; /* has a deletionTimestamp; still holds its cards */

    struct str request_problem; /* a sentence if what it asks for is not known: an invalid request */
    const struct container *containers; /* device requests, in pod order */
    uint32_t container_count;
    struct resources overhead;
    struct host_amount host; /* CPU and memory that it asks for in all */

    struct card_selection selection; /* which GPUs its annotations want */
    struct model_rule models; /* which models of GPUs its nodeSelector and node affinity demand */
    struct gpu_room *room; /* for its request's detail (core/hami.h); NULL if it can have none */

    enum annotation_state annotation; /* scheduling.koordinator.sh/device-allocated, or HAMi's */
    const struct share *shares;       /* what it says, sorted by kind and minor, one entry a card */
    uint32_t share_count;
    const struct named_share *named; /* with ANNOTATION_HAMI: ids unique */
    uint32_t named_count;
    struct str hami_phase;            /* hami.io/bind-phase; empty if none */
    struct policy_words policy_words; /* what its annotations say of where it wants to go */
    uint32_t annotation_bytes; /* keys and values of all its annotations, added up */
    uint64_t version; /* its resourceVersion where that is a number, as all are; 0 = not known */
};

/* A fingerprint of what the pod asks for of devices, valid or not: pods that ask for the same, container by
 * container, have the same. */
uint64_t pod_request_print(const struct pod *pod);

#endif
