/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_RANK_H
#define CORE_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/reason.h"

/*
 * Which of the candidates that fit are kept in an answer. Every name that is returned costs
 * kube-scheduler more than it costs us, and it cannot choose what it is not told.
 */

struct rank_rule {
    bool first_only; /* keep only those with the best score */
    uint32_t max;    /* keep at most so many; 0 = all */
};

/* A candidate for a place among the best. */
struct ranked {
    int64_t score;
    uint64_t tie;
    uint32_t index;
};

/* Who they are. */
struct rank_names {
    const struct str *names;
    const uint32_t *hashes; /* roster_hash() of each, or NULL: not computed yet */
};

/* Entries that rank_keep() needs to keep `max` of `count`, or fewer; 0, which keeps all, counts as 1, so that a rule
 * may still become that of one. */
uint32_t rank_space(uint32_t max, uint32_t count);

/* Of the candidates with REASON_FITS keep the best by score (higher is better), and set the others to
 * REASON_LEFT_OUT. Ties go by a hash of pod UID and node name: the same pod is told the same nodes, and
 * pods in a row are told different ones. `space` has rank_space() entries (not needed for max 0). Returns how many are kept. */
uint32_t rank_keep(const struct rank_rule *rule, struct str uid, const struct rank_names *names,
                   const int64_t *scores, uint32_t count, enum reason *reasons,
                   struct ranked *space);

#endif
