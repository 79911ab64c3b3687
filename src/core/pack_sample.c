/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack_sample.h"

#include <string.h>

/* Learn whenever there are a half more pods, but not less often than every so many: early and often at
 * first, because what is done with an empty cluster is hard to mend. */
#define LEARN_EVERY 1000

/* A pod counts half when so many have come after it. */
#define HALF_LIFE 20000

/* A mix that has moved less is the same. */
#define DRIFT_MIN 0.01

/* A mix that has moved so far is learned at once, because a wrong one packs worse than none; it is looked at
 * every so many pods. */
#define DRIFT_SOON 0.05
#define LOOK_EVERY 16

/* The shipped guess stands for so many pods at first and for none when so many were seen. */
#define PRIOR_PODS  20
#define PRIOR_UNTIL 300

#define GIB 1024 /* MiB */

/* What clusters of shared cards are asked for, roughly: docs/policies.md. Weights are percent. */
static const struct pack_demand prior[] = {
    {{4000, 12 * GIB, 1, 250, PACK_MODELS_ANY, 0}, 12},
    {{6000, 20 * GIB, 1, 500, PACK_MODELS_ANY, 0}, 18},
    {{8000, 28 * GIB, 1, 800, PACK_MODELS_ANY, 0}, 14},
    {{8000, 32 * GIB, 1, 1000, PACK_MODELS_ANY, 0}, 52},
    {{16000, 96 * GIB, 2, 1000, PACK_MODELS_ANY, 0}, 2},
    {{32000, 192 * GIB, 4, 1000, PACK_MODELS_ANY, 0}, 1},
    {{64000, 360 * GIB, 8, 1000, PACK_MODELS_ANY, 0}, 1},
};

#define PRIOR_COUNT (sizeof(prior) / sizeof(prior[0]))
_Static_assert(PRIOR_COUNT <= PACK_PRIOR_MAX, "room for the guess");

void pack_sample_init(struct pack_sample *sample)
{
    memset(sample, 0, sizeof(*sample));
}

static bool same(const struct pack_seen *a, const struct pack_seen *b)
{
    return a->bytes == b->bytes && a->pod.cpu_milli == b->pod.cpu_milli &&
           a->pod.memory_mib == b->pod.memory_mib && a->pod.cards == b->pod.cards &&
           a->pod.milli == b->pod.milli && a->pod.models == b->pod.models &&
           a->pod.list == b->pod.list;
}

static uint64_t mix_in(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Tenants choose requests, but a full table is no more than half full: a bad one costs a scan. */
static uint32_t hash_of(const struct pack_seen *seen)
{
    uint64_t hash = mix_in((uint64_t)seen->bytes, (uint64_t)seen->pod.cpu_milli);
    hash = mix_in(hash, (uint64_t)seen->pod.memory_mib);
    hash = mix_in(hash, (uint64_t)seen->pod.cards << 32 | (uint32_t)seen->pod.milli);
    hash = mix_in(hash, seen->pod.models);
    return (uint32_t)mix_in(hash, seen->pod.list) % (2 * PACK_SAMPLE_MAX);
}

/* The place of the request in the hash table, or the free one where it belongs. */
static uint32_t find(const struct pack_sample *sample, const struct pack_seen *seen)
{
    uint32_t at = hash_of(seen);
    while (sample->index[at] != 0 && !same(&sample->seen[sample->index[at] - 1], seen))
        at = (at + 1) % (2 * PACK_SAMPLE_MAX);
    return at;
}

static void rebuild_index(struct pack_sample *sample)
{
    memset(sample->index, 0, sizeof(sample->index));
    for (uint32_t i = 0; i < sample->count; i++)
        sample->index[find(sample, &sample->seen[i])] = (uint16_t)(i + 1);
}

/* Count everything half; what is left of less than one pod goes. */
static void age(struct pack_sample *sample)
{
    uint32_t kept = 0;
    sample->weight = 0;
    for (uint32_t i = 0; i < sample->count; i++) {
        sample->seen[i].weight /= 2;
        if (sample->seen[i].weight < 1)
            continue;
        sample->weight += sample->seen[i].weight;
        sample->seen[kept] = sample->seen[i];
        sample->learned[kept++] = sample->learned[i];
    }
    sample->count = kept;
    rebuild_index(sample);
}

/* Forget a request that was seen once; false if there is none. */
static bool make_room(struct pack_sample *sample)
{
    uint32_t once = 0;
    while (once < sample->count && sample->seen[once].weight >= 2)
        once++;
    if (once == sample->count)
        return false;
    sample->weight -= sample->seen[once].weight;
    sample->seen[once] = sample->seen[--sample->count];
    sample->learned[once] = sample->learned[sample->count];
    rebuild_index(sample);
    return true;
}

void pack_sample_see(struct pack_sample *sample, const struct pack_seen *seen)
{
    sample->pods++;
    if (sample->weight >= HALF_LIFE)
        age(sample);
    if (sample->index[find(sample, seen)] == 0) {
        if (sample->count == PACK_SAMPLE_MAX && !make_room(sample)) {
            sample->left_out++;
            return;
        }
        sample->seen[sample->count] = *seen;
        sample->seen[sample->count].weight = 0;
        sample->learned[sample->count] = 0;
        sample->index[find(sample, seen)] = (uint16_t)(sample->count + 1);
        sample->count++;
    }
    sample->seen[sample->index[find(sample, seen)] - 1].weight += seen->weight;
    sample->weight += seen->weight;
}

double pack_sample_drift(const struct pack_sample *sample)
{
    double sum = 0, known = 0;
    if (sample->weight <= 0)
        return 0;
    for (uint32_t i = 0; i < sample->count; i++) {
        double moved = sample->seen[i].weight / sample->weight - sample->learned[i];
        sum += moved > 0 ? moved : -moved;
        known += sample->learned[i];
    }
    return (sum + (1 - known)) / 2; /* what went since then has moved, too */
}

void pack_sample_taken(struct pack_sample *sample)
{
    for (uint32_t i = 0; i < sample->count; i++)
        sample->learned[i] = sample->seen[i].weight / sample->weight;
    uint64_t half = sample->pods / 2 > 1 ? sample->pods / 2 : 1;
    sample->look = sample->pods + LOOK_EVERY;
    sample->next = sample->pods + (half < LEARN_EVERY ? half : LEARN_EVERY);
}

bool pack_sample_due(struct pack_sample *sample)
{
    if (sample->pods < sample->next) {
        if (sample->pods < sample->look)
            return false;
        sample->look = sample->pods + LOOK_EVERY;
        return pack_sample_drift(sample) > DRIFT_SOON;
    }
    if (pack_sample_prior(sample) > 0 || pack_sample_drift(sample) > DRIFT_MIN)
        return true;
    pack_sample_taken(sample);
    return false;
}

double pack_sample_prior(const struct pack_sample *sample)
{
    if (sample->pods >= PRIOR_UNTIL)
        return 0;
    return PRIOR_PODS * (1 - (double)sample->pods / PRIOR_UNTIL);
}

int32_t pack_milli_of_bytes(int64_t bytes, int64_t card_bytes)
{
    if (bytes >= card_bytes)
        return PACK_CARD_MILLI;
    int32_t milli = (int32_t)(bytes * PACK_CARD_MILLI / card_bytes);
    return milli > 0 ? milli : 1;
}

void pack_sample_mix(const struct pack_sample *sample, int64_t card_bytes,
                     struct pack_demand *demands, struct pack_mix *ret)
{
    uint32_t count = 0;
    double guess = pack_sample_prior(sample);
    for (uint32_t i = 0; i < sample->count; i++) {
        const struct pack_seen *seen = &sample->seen[i];
        struct pack_demand demand = {seen->pod, seen->weight};
        int32_t milli = seen->bytes > 0 ? pack_milli_of_bytes(seen->bytes, card_bytes) : 0;
        if (milli > demand.pod.milli)
            demand.pod.milli = milli;
        demands[count++] = demand;
    }
    for (uint32_t i = 0; guess > 0 && i < PRIOR_COUNT; i++) {
        demands[count] = prior[i];
        demands[count++].weight *= guess / 100;
    }
    ret->demands = demands;
    ret->count = count;
    ret->guessed = guess > 0 ? PRIOR_COUNT : 0;
}
