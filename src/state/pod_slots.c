/* SPDX-License-Identifier: Apache-2.0 */
#include "state/pod_slots.h"

#include <assert.h>
#include <stddef.h>

#include "base/mem.h"

void pod_slots_done(struct pod_slots *slots)
{
    for (uint32_t i = 0; i < slots->chunk_count; i++)
        mem_free(slots->chunks[i]);
    mem_free(slots->chunks);
    *slots = (struct pod_slots){0};
}

static struct pod_slot *slot_at(const struct pod_slots *slots, uint32_t number)
{
    return &slots->chunks[number / POD_SLOTS_CHUNK][number % POD_SLOTS_CHUNK];
}

static bool has_room(const struct pod_slots *slots)
{
    return slots->first_free > 0 || slots->count < slots->chunk_count * POD_SLOTS_CHUNK;
}

bool pod_slots_reserve(struct pod_slots *slots)
{
    if (has_room(slots))
        return true;
    if (slots->chunk_count == UINT32_MAX / POD_SLOTS_CHUNK)
        return false;
    if (slots->chunk_count == slots->chunk_capacity) {
        uint32_t capacity = slots->chunk_capacity * 2 + 16;
        struct pod_slot **grown = mem_realloc(slots->chunks, capacity, sizeof(struct pod_slot *));
        if (grown == NULL)
            return false;
        slots->chunks = grown;
        slots->chunk_capacity = capacity;
    }
    struct pod_slot *chunk = mem_calloc(POD_SLOTS_CHUNK, sizeof *chunk);
    if (chunk == NULL)
        return false;
    slots->chunks[slots->chunk_count++] = chunk;
    return true;
}

uint32_t pod_slots_put(struct pod_slots *slots, struct pod_record *pod)
{
    assert(pod != NULL && has_room(slots));
    uint32_t number = slots->first_free > 0 ? slots->first_free - 1 : slots->count++;
    struct pod_slot *slot = slot_at(slots, number);
    slots->first_free = slot->next_free;
    *slot = (struct pod_slot){.pod = pod};
    return number;
}

void pod_slots_clear(struct pod_slots *slots, uint32_t number)
{
    struct pod_slot *slot = slot_at(slots, number);
    assert(slot->pod != NULL);
    *slot = (struct pod_slot){.next_free = slots->first_free};
    slots->first_free = number + 1;
}
