/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rank.h"

#include <stddef.h>

#include "core/roster.h"

/* By the pod the order of all names changes, and by the name that of all pods. */
static uint64_t tie_of(uint64_t pod, uint32_t name)
{
    uint64_t hash = (pod ^ name) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 32) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 33;
}

static bool better(const struct ranked *a, const struct ranked *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    if (a->tie != b->tie)
        return a->tie < b->tie;
    return a->index < b->index;
}

/* A heap with the worst of the best on top: n candidates cost n log(max) at worst, whatever their order,
 * and nothing beyond the best is ever sorted. */
static void sift_down(struct ranked *heap, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count)
            return;
        if (child + 1 < count && better(&heap[child], &heap[child + 1]))
            child++;
        if (!better(&heap[at], &heap[child]))
            return;
        struct ranked moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static void sift_up(struct ranked *heap, uint32_t at)
{
    while (at > 0 && better(&heap[(at - 1) / 2], &heap[at])) {
        struct ranked moved = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = moved;
        at = (at - 1) / 2;
    }
}

/* Leave out all but those with the best score. Returns how many stay. */
static uint32_t keep_first(const int64_t *scores, uint32_t count, enum reason *reasons)
{
    int64_t best = INT64_MIN;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (reasons[i] == REASON_FITS && scores[i] > best)
            best = scores[i];
    for (uint32_t i = 0; i < count; i++) {
        if (reasons[i] == REASON_FITS && scores[i] < best)
            reasons[i] = REASON_LEFT_OUT;
        kept += reasons[i] == REASON_FITS;
    }
    return kept;
}

static uint32_t count_fitting(const enum reason *reasons, uint32_t count)
{
    uint32_t fit = 0;
    for (uint32_t i = 0; i < count; i++)
        fit += reasons[i] == REASON_FITS;
    return fit;
}

static void keep_best(uint32_t max, struct str uid, const struct rank_names *names,
                      const int64_t *scores, uint32_t count, enum reason *reasons,
                      struct ranked *heap)
{
    uint64_t pod = (uint64_t)roster_hash(uid) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t held = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (reasons[i] != REASON_FITS)
            continue;
        reasons[i] = REASON_LEFT_OUT;
        if (held == max && scores[i] < heap[0].score)
            continue;
        uint32_t name = names->hashes != NULL ? names->hashes[i] : roster_hash(names->names[i]);
        struct ranked candidate = {scores[i], tie_of(pod, name), i};
        if (held < max) {
            heap[held] = candidate;
            sift_up(heap, held++);
        } else if (better(&candidate, &heap[0])) {
            heap[0] = candidate;
            sift_down(heap, held, 0);
        }
    }
    for (uint32_t i = 0; i < held; i++)
        reasons[heap[i].index] = REASON_FITS;
}

uint32_t rank_keep(const struct rank_rule *rule, struct str uid, const struct rank_names *names,
                   const int64_t *scores, uint32_t count, enum reason *reasons,
                   struct ranked *space)
{
    uint32_t fit =
        rule->first_only ? keep_first(scores, count, reasons) : count_fitting(reasons, count);
    if (rule->max == 0 || fit <= rule->max)
        return fit;
    keep_best(rule->max, uid, names, scores, count, reasons, space);
    return rule->max;
}
