/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_GUESTS_H
#define STATE_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/host.h"

/*
 * Pods without devices that run somewhere: only what they take of a node's CPU and memory is of
 * interest, so one is 48 bytes in an open table, found by the 128 bits of its UID. Other UIDs than
 * UUIDs (an API server gives no others) are folded to as many bits. A table that grows moves a few
 * guests with each put that follows, so that none takes long: until the last one is moved, they lie
 * in two. Not thread safe.
 */
struct guest {
    uint64_t uid[2]; /* both 0 = a free slot */
    uint32_t node; /* GUEST_MOVED: it is in the larger table, or nowhere */
    uint32_t mark; /* last list that named it */
    struct host_amount amount;
    uint64_t version; /* of what was applied last, 0 = not known */
};

#define GUEST_MOVED UINT32_MAX

struct guests {
    struct guest *slots;
    uint32_t capacity; /* power of two, or 0 */
    uint32_t count;
    struct guest *old; /* what it grew out of, NULL when all have been moved */
    uint32_t old_capacity, moved; /* slots below `moved` are */
    void *empty_old;
};

/* The 128 bits of a UID, never both 0. */
void guest_uid(struct str uid, uint64_t ret[2]);

/* Free the table; a zeroed one is empty. */
void guests_done(struct guests *guests);

/* The guest with this UID, or NULL. Valid until the next put or remove. */
struct guest *guests_find(const struct guests *guests, struct str uid);

/* The same, made (zeroed but for uid) when missing: *ret_fresh. NULL when memory ends. */
struct guest *guests_put(struct guests *guests, struct str uid, bool *ret_fresh);

/* Remove one. Others may move to lower slots, also to its own. */
void guests_remove(struct guests *guests, struct guest *guest);

/* Move what is left in up to `slots` slots of the table that this one grew out of. True: nothing is left
 * there, and guests do not change their slots before the next put or remove. */
bool guests_settle(struct guests *guests, uint32_t slots);

/* Number of slots, of both tables. */
uint32_t guests_slots(const struct guests *guests);

/* The guest in slot `at` < guests_slots(), or NULL. */
struct guest *guests_at(const struct guests *guests, uint32_t at);

/* The table that this one grew out of once nothing is left there, for mem_free(), or NULL. To give a large
 * one back to the kernel takes long. One that is not taken before the next is freed then. */
void *guests_take_old(struct guests *guests);

#endif
