/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_LEARNER_H
#define SIM_LEARNER_H

#include "base/arena.h"
#include "base/str.h"
#include "core/pack_learn.h"
#include "core/pack_sample.h"
#include "sim/trace.h"

/* What tables are learned from. */
enum learn {
    LEARN_LIST,    /* the whole list of pods */
    LEARN_SEEN,    /* those that came so far, as the daemon does */
    LEARN_PRIOR,   /* nothing: the shipped guess stays */
    LEARN_NOTHING, /* not even that: empty tables */
    LEARN_MAX
};

/* The owner of packing tables. */
struct learner {
    struct pack_tables tables;
    const struct trace *trace;
    enum learn from;
    struct pack_sample sample;
    struct pack_point *points;
    struct pack_demand *demands;
    void *work;
};

/* "list", "seen", "prior", "nothing". */
const char *learn_name(enum learn learn);

/* The way to learn called `name`, or LEARN_MAX. */
enum learn learn_find(struct str name);

/* Tables as they are before the first pod; LEARN_LIST learns the list of `mix`, on the same nodes as the trace or
 * that itself. Memory is arena's. 0 or -ENOMEM. */
int learner_init(struct learner *learner, const struct trace *trace, const struct trace *mix,
                 enum learn from, struct arena *arena);

/* Count a pod; true when the tables are new. */
bool learner_see(struct learner *learner, uint32_t spec);

#endif
