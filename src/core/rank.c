/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rank.h"

#include <stddef.h>

#include "core/roster.h"

/* Both are hashes already: this is to give each pod an order of its own. */
static inline uint64_t tie_of(uint64_t pod, uint32_t name)
{
    return (pod ^ name) * UINT64_C(0xff51afd7ed558ccd);
}

static bool better(const struct ranked *a, const struct ranked *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    if (a->tie != b->tie)
        return a->tie < b->tie;
    return a->index < b->index;
}

/* Bring the `max` best of all to the front, the worst of them last. Some passes over half of what the pass
 * before looked at (Hoare's selection); no two are equal. */
static void select_best(struct ranked *all, uint32_t count, uint32_t max)
{
    int64_t place = (int64_t)max - 1, low = 0, high = (int64_t)count - 1;
    while (low < high) {
        struct ranked pivot = all[place];
        int64_t i = low, j = high;
        while (i <= j) {
            while (better(&all[i], &pivot))
                i++;
            while (better(&pivot, &all[j]))
                j--;
            if (i > j)
                break;
            struct ranked moved = all[i];
            all[i++] = all[j];
            all[j--] = moved;
        }
        if (j < place)
            low = i;
        if (place < i)
            high = j;
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

uint32_t rank_space(uint32_t max, uint32_t count)
{
    uint32_t least = max > 0 ? max : 1;
    return least < count / 2 ? 2 * least : count;
}

/* Candidates are gathered, and whenever there are twice as many as are kept the worse half goes: from then
 * on only what is better than the worst that is left is looked at closely. */
static void keep_best(uint32_t max, struct str uid, const struct rank_names *names,
                      const int64_t *scores, uint32_t count, enum reason *reasons,
                      struct ranked *space)
{
    const uint32_t *hashes = names->hashes;
    uint64_t pod = (uint64_t)roster_hash(uid) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t held = 0, room = rank_space(max, count);
    int64_t floor = INT64_MIN;
    uint64_t floor_tie = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (reasons[i] != REASON_FITS)
            continue;
        reasons[i] = REASON_LEFT_OUT;
        int64_t score = scores[i];
        if (score < floor)
            continue;
        uint64_t tie = tie_of(pod, hashes != NULL ? hashes[i] : roster_hash(names->names[i]));
        if (score == floor && tie >= floor_tie)
            continue;
        space[held++] = (struct ranked){score, tie, i};
        if (held == room && max < room) {
            select_best(space, held, max);
            held = max;
            floor = space[max - 1].score;
            floor_tie = space[max - 1].tie;
        }
    }
    if (held > max)
        select_best(space, held, max);
    for (uint32_t i = 0; i < held && i < max; i++)
        reasons[space[i].index] = REASON_FITS;
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
