/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/memo.h"

#include <string.h>

void memo_init(struct memo *memo, uint32_t nodes, uint32_t specs)
{
    *memo = (struct memo){.node_count = nodes, .spec_count = specs};
}

void memo_done(struct memo *memo)
{
    map_done(&memo->lost_index);
    arena_done(&memo->memory);
    memo_init(memo, memo->node_count, memo->spec_count);
}

struct memo_spec *memo_of(struct memo *memo, uint32_t spec)
{
    if (memo->specs == NULL)
        memo->specs = arena_alloc(&memo->memory, memo->spec_count, sizeof(*memo->specs));
    if (memo->specs == NULL)
        return NULL;
    struct memo_spec *of = &memo->specs[spec];
    if (of->nodes == NULL)
        of->nodes = arena_alloc(&memo->memory, memo->node_count, sizeof(*of->nodes));
    return of->nodes != NULL ? of : NULL;
}

static bool lost_reserve(struct memo *memo)
{
    if (memo->lost_count < memo->lost_room)
        return true;
    uint32_t room = memo->lost_room > 0 ? memo->lost_room * 2 : 64;
    struct memo_lost *lost = arena_alloc(&memo->memory, room, sizeof(*lost));
    if (lost == NULL)
        return false;
    if (memo->lost_count > 0)
        memcpy(lost, memo->lost, memo->lost_count * sizeof(*lost));
    memo->lost = lost;
    memo->lost_room = room;
    return true;
}

uint32_t memo_lost_index(struct memo *memo, const uint16_t *copies, uint32_t count)
{
    struct str key = {(const char *)copies, count * sizeof(*copies)};
    uint32_t index = map_get(&memo->lost_index, key);
    if (index != MAP_NONE)
        return index;
    uint16_t *kept = arena_alloc(&memo->memory, count, sizeof(*kept));
    if (kept == NULL || !lost_reserve(memo))
        return MAP_NONE;
    if (count > 0)
        memcpy(kept, copies, count * sizeof(*kept));
    key.data = (const char *)kept;
    if (map_put(&memo->lost_index, key, memo->lost_count) < 0)
        return MAP_NONE;
    memo->lost[memo->lost_count] = (struct memo_lost){.copies = kept};
    return memo->lost_count++;
}
