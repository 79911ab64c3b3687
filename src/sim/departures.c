/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/departures.h"

#include <assert.h>
#include <errno.h>

int departures_init(struct departures *departures, uint32_t room, struct arena *arena)
{
    struct departure *heap = arena_alloc(arena, room, sizeof(*heap));
    if (heap == NULL)
        return -ENOMEM;
    *departures = (struct departures){.heap = heap, .room = room};
    return 0;
}

static bool is_earlier(const struct departure *a, const struct departure *b)
{
    return a->at != b->at ? a->at < b->at : a->arrival < b->arrival;
}

void departures_add(struct departures *departures, const struct departure *departure)
{
    struct departure *heap = departures->heap;
    assert(departures->count < departures->room);
    uint32_t hole = departures->count++;
    while (hole > 0 && is_earlier(departure, &heap[(hole - 1) / 2])) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = *departure;
}

bool departures_take(struct departures *departures, int64_t now, struct departure *ret)
{
    struct departure *heap = departures->heap;
    if (departures->count == 0 || heap[0].at > now)
        return false;
    *ret = heap[0];
    const struct departure last = heap[--departures->count];
    uint32_t hole = 0;
    for (uint32_t child; (child = 2 * hole + 1) < departures->count; hole = child) {
        if (child + 1 < departures->count && is_earlier(&heap[child + 1], &heap[child]))
            child++;
        if (!is_earlier(&heap[child], &last))
            break;
        heap[hole] = heap[child];
    }
    heap[hole] = last;
    return true;
}
