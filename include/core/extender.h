/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_EXTENDER_H
#define CORE_EXTENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/device.h"
#include "core/pod.h"
#include "core/reason.h"
#include "core/roster.h"

/* The four verbs' questions and answers as plain data, shared by codec (bytes) and sched
 * (decisions). Arrays and slices live in the request's arena. Wire types:
 * k8s.io/kube-scheduler/extender/v1. */

/* filter and prioritize */
struct candidates_call {
    struct pod pod;
    const struct str *nodes; /* names, in the order of the call */
    uint32_t node_count;
    bool quoted; /* each name stands between quotes, and they need no escapes there: the JSON text of name
                    and quotes, and of names with a comma between, can be copied */
    struct roster_notes notes;  /* of the names, where they were read in their usual form */
    bool full_nodes;            /* asked with Nodes: answered in Nodes */
    const struct str *node_json; /* with full_nodes: each item as received, as JSON text */
};

struct filter_answer {
    const enum reason *reasons; /* one a candidate */
    uint32_t fit_count;
    const char *invalid_text; /* with REASON_INVALID: the pod's own text (arena) */
};

struct prioritize_answer {
    const int64_t *scores; /* 0..10, one a candidate */
    const bool *repeated;  /* named before in the same call: left out of the answer; NULL: none was */
};

struct preempt_victims {
    struct str node;
    const struct str *uids; /* null entries already dropped */
    uint32_t count;
    int64_t pdb_violations;
};

struct preempt_call {
    struct pod pod;
    const struct preempt_victims *nodes; /* null entries already dropped */
    uint32_t node_count;
};

struct preempt_answer {
    const bool *keep; /* one a node of the call */
};

struct bind_call {
    struct pod_id pod;
    struct str node;
};

/* A card given to a pod, with the id that the Device object states. */
struct placed_card {
    struct share share;
    char id[DEVICE_ID_MAX + 1]; /* "" if none */
};

/* What one container has of a card. */
struct placed_part {
    uint32_t container; /* its place in pod order */
    uint32_t card;      /* index into the cards */
    struct amount amount;
};

struct placement {
    uint32_t count;
    struct placed_card cards[CARDS_PER_POD_MAX];
    uint32_t
        container_count; /* of the pod; 0 when no container asks for GPUs by nvidia.com names */
    uint32_t part_count;
    struct placed_part parts[CARDS_PER_POD_MAX]; /* of such containers, in their order */
    bool hami;           /* HAMi's device plugin gives the cards to the containers */
    int64_t hami_time_s; /* then: Unix seconds of the bind */
};

#endif
