/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_MEMO_H
#define SIM_MEMO_H

#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "core/pack.h"

/* A pack option as remembered: the lost copies are kept once for all options that lose the same. */
struct memo_option {
    double gain;
    int32_t card;
    uint32_t lost;
};

/* What one node is to one spec of pod. */
union memo_node {
    struct {
        int32_t score, card; /* of a policy that scores */
    };
    struct {
        uint32_t count;
        struct memo_option options[PACK_OPTIONS_MAX];
    };
};

/* What all nodes are to one spec, as of the change `seen` of the cluster. */
struct memo_spec {
    uint64_t seen;
    union memo_node *nodes; /* NULL: the spec did not come yet */
};

/* A set of lost copies and what it costs at the prices of decision `priced`. */
struct memo_lost {
    const uint16_t *copies;
    uint64_t priced;
    double cost;
};

/* Everything remembered; all of it is in `memory`. */
struct memo {
    struct arena memory;
    uint32_t node_count, spec_count;
    struct memo_spec *specs;
    struct map lost_index; /* copies as bytes -> index into lost */
    struct memo_lost *lost;
    uint32_t lost_count, lost_room;
    uint64_t decision;
};

/* An empty memo; allocates nothing. */
void memo_init(struct memo *memo, uint32_t nodes, uint32_t specs);

/* Forget everything and free it. */
void memo_done(struct memo *memo);

/* What is remembered of a spec; NULL without memory. */
struct memo_spec *memo_of(struct memo *memo, uint32_t spec);

/* The index of a set of lost copies, of `count` specs; UINT32_MAX without memory. */
uint32_t memo_lost_index(struct memo *memo, const uint16_t *copies, uint32_t count);

#endif
