/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXPERIMENT_H
#define SIM_EXPERIMENT_H

#include "base/clock.h"
#include "sim/arrivals.h"
#include "sim/learner.h"
#include "sim/policy.h"

/*
 * Two experiments. Inflation: pods arrive and stay until 130 % of the GPUs are asked for; a pod
 * that does not fit is dropped. Churn: pods drawn from the list arrive one a tick and live for an
 * exponential time that makes the offered load a given part of the capacity; the first third is
 * not counted.
 */

/* How to run. */
struct experiment {
    const struct trace *trace;
    const struct sim_policy *policy;
    struct clock clock;     /* of the whole experiment */
    struct clock cpu_clock; /* of one decision: what this thread computed, not what it waited */
    enum learn learn;
    const struct trace *mix; /* on the same nodes: LEARN_LIST learns its list; NULL: the trace's own */
    bool no_cache;          /* score every node in every decision */
};

/* Means over the events at which this percent of the capacity had been asked for. */
struct experiment_bucket {
    uint32_t events;
    double allocated_percent;
    double fragmented_percent; /* F of the cluster, of its capacity */
    double fragmented_ratio;   /* the same, of what is free; in percent */
};

/* Classes of dropped pods. */
enum experiment_class { CLASS_CPU, CLASS_SHARED, CLASS_ONE, CLASS_SEVERAL, CLASS_MAX };

struct experiment_result {
    struct experiment_bucket *buckets; /* inflation: by percent, from 0 */
    uint32_t bucket_count;
    double final_percent;    /* inflation: allocated at the end */
    double mean_percent;     /* churn: allocated on average */
    double rejected_percent; /* GPU demand that was dropped, of what arrived (and counts) */
    uint32_t rejected[CLASS_MAX];
    uint64_t decisions;
    int64_t total_ns;                        /* the experiment, learning included */
    int64_t mean_ns, p50_ns, p99_ns, max_ns; /* of one decision, by cpu_clock */
};

/* "cpu", "shared", "one", "several". */
const char *experiment_class_name(enum experiment_class class);

/* Let `arrivals` arrive. `random` is for the policy of that name; the result is in arena. 0 or
 * -ENOMEM. */
int experiment_inflation(const struct experiment *experiment, const struct arrivals *arrivals,
                         struct sim_random *random, struct arena *arena,
                         struct experiment_result *ret, struct error *err);

/* Let `events` pods arrive at `load` times the capacity, drawn from `random`; of arrivals only the
 * ranks are read. 0 or -ENOMEM. */
int experiment_churn(const struct experiment *experiment, const struct arrivals *arrivals,
                     uint32_t events, double load, struct sim_random *random, struct arena *arena,
                     struct experiment_result *ret, struct error *err);

#endif
