/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_ARRIVALS_H
#define SIM_ARRIVALS_H

#include "base/arena.h"
#include "base/error.h"
#include "sim/random.h"
#include "sim/trace.h"

/*
 * The order in which pods arrive, and the order of the nodes among equal scores: drawn from a seed,
 * or read from a published order file (line 1: rank of each node, line 2: pods; both index what
 * the trace has sorted by name).
 */
struct arrivals {
    uint32_t *pods;
    uint32_t count;
    uint32_t *ranks; /* of each node; 0 wins */
};

/* Shuffle the trace's pods, then leave some out or draw more until their GPU demand is about
 * `ratio` of the capacity; then shuffle the ranks. `random` goes on from there. Memory is
 * `arena`'s. 0 or -ENOMEM; -EINVAL when no pod of the trace asks for GPUs. */
int arrivals_draw(const struct trace *trace, double ratio, struct sim_random *random,
                  struct arena *arena, struct arrivals *ret, struct error *err);

/* Ranks alone, for churn. 0 or -ENOMEM. */
int arrivals_draw_ranks(const struct trace *trace, struct sim_random *random, struct arena *arena,
                        struct arrivals *ret, struct error *err);

/* Read an order file. 0, or a negative code with FILE:LINE and a sentence. */
int arrivals_read(const struct trace *trace, const char *path, struct arena *arena,
                  struct arrivals *ret, struct error *err);

#endif
