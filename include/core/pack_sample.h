/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PACK_SAMPLE_H
#define CORE_PACK_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pack_learn.h"

/*
 * The mix of requests as it is seen, pod by pod: a value of fixed size. Old pods count less and less,
 * and a shipped guess stands in for a mix until some hundred pods have been seen.
 */

#define PACK_SAMPLE_MAX 512 /* distinct requests */
#define PACK_PRIOR_MAX  16  /* requests of the shipped guess */
#define PACK_SAMPLE_MISSING 1.5 /* pack_mix.missing of a sample */

/* A request as seen. What it is of a card is known only when the cards are. */
struct pack_seen {
    struct pack_pod pod;
    int64_t bytes; /* of each card's memory; 0: pod.milli says all */
    double weight; /* how many pods */
};

struct pack_sample {
    struct pack_seen seen[PACK_SAMPLE_MAX];
    double learned[PACK_SAMPLE_MAX];     /* share of each request when it was taken last */
    uint16_t index[2 * PACK_SAMPLE_MAX]; /* hash table: place in seen, from 1; 0 = free */
    uint32_t count;
    double weight; /* of all */
    uint64_t pods; /* seen so far, never less */
    uint64_t next; /* learn again when so many were seen */
    uint64_t look; /* or when the mix has moved far, which is asked when so many were seen */
    uint64_t left_out; /* pods that found no room */
};

/* An empty sample. */
void pack_sample_init(struct pack_sample *sample);

/* Count what one pod asks for. */
void pack_sample_see(struct pack_sample *sample, const struct pack_seen *seen);

/* Whether it is time to learn: the mix has moved far since the sample was taken last, or enough pods were
 * seen and it has moved at all. If it has not, the number of pods counts from here. */
bool pack_sample_due(struct pack_sample *sample);

/* How far the mix has moved since it was taken last: 0, the same, to 1, nothing in common. */
double pack_sample_drift(const struct pack_sample *sample);

/* The sample is taken to learn from: drift and the number of pods count from here. */
void pack_sample_taken(struct pack_sample *sample);

/* How many pods the shipped guess stands for now; 0 when it has no say any more. */
double pack_sample_prior(const struct pack_sample *sample);

/* The mix to learn from, the guess included and last, for cards of `card_bytes` memory (0: not known, then a
 * request in bytes counts as a whole card). Fills count,
 * demands and guessed of *ret; `demands` has room for PACK_SAMPLE_MAX + PACK_PRIOR_MAX. */
void pack_sample_mix(const struct pack_sample *sample, int64_t card_bytes,
                     struct pack_demand *demands, struct pack_mix *ret);

/* What part of a card of `card_bytes` so many bytes (> 0) are, in milli: rounded down as what is free is, so
 * that they fit into what is exactly as large, but at least 1; a whole one if it is not known. */
int32_t pack_milli_of_bytes(int64_t bytes, int64_t card_bytes);

#endif
