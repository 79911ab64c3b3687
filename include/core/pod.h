/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_POD_H
#define CORE_POD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/device.h"
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

    enum annotation_state annotation; /* scheduling.koordinator.sh/device-allocated */
    const struct share *shares;       /* what it says, sorted by kind and minor, one entry a card */
    uint32_t share_count;
    struct policy_words policy_words; /* what its annotations say of where it wants to go */
    uint32_t annotation_bytes; /* keys and values of all its annotations, added up */
};

#endif
