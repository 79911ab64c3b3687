/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_POD_SLOTS_H
#define STATE_POD_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The records of pods by number, in pieces of a fixed size that never move: however many there are, one
 * more costs the same. Records are borrowed. Not thread safe.
 */
#define POD_SLOTS_CHUNK 512u

struct pod_record;

struct pod_slot {
    struct pod_record *pod; /* NULL: free */
    uint32_t next_free;     /* one more than the number of the next free slot, 0: none */
};

struct pod_slots {
    struct pod_slot **chunks;
    uint32_t chunk_count, chunk_capacity;
    uint32_t count;      /* of slots, free ones among them */
    uint32_t first_free; /* one more than its number, 0: none */
};

/* Free the slots; zeroed ones are empty. */
void pod_slots_done(struct pod_slots *slots);

/* Room for one more: false when memory ends. */
bool pod_slots_reserve(struct pod_slots *slots);

/* Put a pod into a free slot, which pod_slots_reserve() found, and give its number. */
uint32_t pod_slots_put(struct pod_slots *slots, struct pod_record *pod);

/* The slot is free again. */
void pod_slots_clear(struct pod_slots *slots, uint32_t number);

/* The pod in slot `number` < count, or NULL. */
static inline struct pod_record *pod_slots_at(const struct pod_slots *slots, uint32_t number)
{
    return slots->chunks[number / POD_SLOTS_CHUNK][number % POD_SLOTS_CHUNK].pod;
}

#endif
