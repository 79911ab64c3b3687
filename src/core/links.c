/* SPDX-License-Identifier: Apache-2.0 */
#include "core/links.h"

#include <assert.h>
#include <stddef.h>

static uint32_t size_of(uint64_t cards)
{
    return (uint32_t)__builtin_popcountll(cards);
}

static int order(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

/* Cards of other groups, wholly free until now, that taking from `group` would break up. */
static uint32_t broken_by(const struct links *links, const struct link_group *group, uint64_t may)
{
    uint32_t cards = 0;
    for (uint32_t i = 0; i < links->count; i++) {
        uint64_t other = links->groups[i].minors;
        if ((other & ~may) == 0 && (other & group->minors) != 0 && (other & ~group->minors) != 0)
            cards += size_of(other);
    }
    return cards;
}

/* Negative: `a` is the closer group to take cards of `may` from. */
static int closer(const struct links *links, const struct link_group *a,
                  const struct link_group *b, uint64_t may)
{
    if (a->link != b->link)
        return a->link > b->link ? -1 : 1;
    int by = 0;
    if (a->link == LINK_PARTITION)
        by = order(size_of(a->minors), size_of(b->minors));
    if (by == 0)
        by = order(size_of(a->minors & may), size_of(b->minors & may));
    return by != 0 ? by : order(broken_by(links, a, may), broken_by(links, b, may));
}

/* The closest group that has all of `must` and `count` of `may`, or NULL. */
static const struct link_group *closest(const struct links *links, uint64_t must, uint64_t may,
                                        uint32_t count)
{
    const struct link_group *best = NULL;
    for (uint32_t i = 0; i < links->count; i++) {
        const struct link_group *group = &links->groups[i];
        if ((must & ~group->minors) != 0 || size_of(group->minors & may) < count)
            continue;
        if (best == NULL || closer(links, group, best, may) < 0)
            best = group;
    }
    return best;
}

/* The largest part of `may`, two cards at least and `count` at most, that is all of a group that is
 * free; one card, the lowest, where there is none. */
static uint64_t largest_piece(const struct links *links, uint64_t may, uint32_t count)
{
    const struct link_group *best = NULL;
    for (uint32_t i = 0; i < links->count; i++) {
        const struct link_group *group = &links->groups[i];
        uint32_t size = size_of(group->minors & may);
        uint32_t most = best != NULL ? size_of(best->minors & may) : 2;
        if (size > count || size < most)
            continue;
        if (best == NULL || size > most || closer(links, group, best, may) < 0)
            best = group;
    }
    return best != NULL ? best->minors & may : may & -may;
}

uint64_t links_pick(const struct links *links, uint64_t must, uint64_t may, uint32_t count)
{
    uint64_t taken = 0;
    assert((must & may) == 0 && size_of(may) >= count);
    while (count > 0) {
        const struct link_group *group = closest(links, must | taken, may, count);
        if (group != NULL)
            may &= group->minors;
        uint64_t piece = largest_piece(links, may, count);
        taken |= piece;
        may &= ~piece;
        count -= size_of(piece);
    }
    return taken;
}
