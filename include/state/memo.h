/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_MEMO_H
#define STATE_MEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/policy.h"
#include "core/request.h"

/*
 * What was found of each node when a request was put to it last. Pods that ask for the same come in
 * numbers, prioritize follows filter, and in between few nodes change: an entry is good as long as its
 * node's generation is the one that it was made at. For the files of this layer only; the lock is held.
 */
#define MEMOS 8u

/* Of one node; all zero: nothing is known. */
struct memo_entry {
    uint32_t generation; /* of the node; never 0 there */
    int16_t score;
    bool scored;    /* `score` is that of the policy, which looks at the cards alone */
    uint8_t reason; /* REASON_MAX: not judged */
};

struct memo {
    struct pod_request request;
    void *detail; /* of the request, or NULL */
    const struct node_policy *policy;
    uint64_t used; /* when last, as a number that counts up; 0: never */
    struct memo_entry *entries; /* by slot */
    uint32_t capacity;
};

struct memos {
    struct memo of[MEMOS];
    uint64_t uses;
};

/* The entries of a request under a policy (NULL: it is only judged), for at least `slots` nodes. One that
 * is new takes the place of the one that was used longest ago. NULL when memory ends,
 * or there is no node. */
struct memo_entry *memos_find(struct memos *memos, const struct pod_request *request,
                              const struct node_policy *policy, uint32_t slots);

/* Forget everything. */
void memos_forget(struct memos *memos);

/* Free all of it. */
void memos_done(struct memos *memos);

#endif
