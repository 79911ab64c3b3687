/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_GUESTS_H
#define STATE_GUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/host.h"

/*
 * Pods without devices that run somewhere: only what they take of a node's CPU and memory is of
 * interest, so one is 40 bytes in an open table, found by the 128 bits of its UID. Other UIDs than
 * UUIDs (an API server gives no others) are folded to as many bits. Not thread safe.
 */
struct guest {
    uint64_t uid[2]; /* both 0 = a free slot */
    uint32_t node;
    uint32_t mark; /* last list that named it */
    struct host_amount amount;
};

struct guests {
    struct guest *slots;
    uint32_t capacity; /* power of two, or 0 */
    uint32_t count;
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

/* Whether there is a guest in slot `at` < capacity. */
bool guests_used(const struct guests *guests, uint32_t at);

#endif
