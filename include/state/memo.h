/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_MEMO_H
#define STATE_MEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/host.h"
#include "core/pack.h"
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

/* Of one node under a policy that weighs: the ways to serve the pod there, before prices, which change with
 * every booking anywhere. */
struct weighed_entry {
    double gain[PACK_OPTIONS_MAX];
    uint16_t lost[PACK_OPTIONS_MAX]; /* copies, see packing_lost() */
    uint8_t count;                   /* 0: nothing is known */
    uint32_t change;                 /* of the node when it was weighed, see struct pack_kept */
    uint32_t tables;                 /* generation of those */
};

struct memo {
    struct pod_request request;
    struct host_amount host; /* what a policy that weighs looks at, else 0 */
    void *detail; /* of the request, or NULL */
    const struct node_policy *policy;
    uint64_t used; /* when last, as a number that counts up; 0: never */
    struct memo_entry *entries; /* by slot */
    struct weighed_entry *weighed; /* by slot, of a policy that weighs; NULL also when memory ends */
    uint32_t capacity;
};

struct memos {
    struct memo of[MEMOS];
    uint64_t uses;
};

/* What is remembered of a request under a policy (NULL: it is only judged), with room for at least `slots`
 * nodes. `host` matters to policies that weigh, and may be NULL for others. One that is new takes the
 * place of the one that was used longest ago. NULL when memory ends, or there is no node. */
struct memo *memos_find(struct memos *memos, const struct pod_request *request,
                        const struct node_policy *policy, const struct host_amount *host,
                        uint32_t slots);

/* Forget everything. */
void memos_forget(struct memos *memos);

/* Free all of it. */
void memos_done(struct memos *memos);

#endif
