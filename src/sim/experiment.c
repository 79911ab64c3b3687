/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/experiment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/departures.h"
#include "sim/world.h"

const char *experiment_class_name(enum experiment_class class)
{
    static const char *const names[CLASS_MAX] = {"cpu", "shared", "one", "several"};
    return names[class];
}

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

static double percent(int64_t part, int64_t of)
{
    return of > 0 ? (double)(100 * part) / (double)of : 0;
}

/* To two decimals, from the number's exact value and halves to even, as the published curves are.
 */
static double round2(double x)
{
    char text[64];
    snprintf(text, sizeof(text), "%.2f", x);
    return strtod(text, NULL);
}

/* ---- inflation ---- */

/* The percent of the capacity that has been asked for, halves to even. */
static uint32_t bucket_of(int64_t arrived, int64_t capacity)
{
    return (uint32_t)nearbyint(percent(arrived, capacity));
}

static int64_t demand_of(const struct trace *trace, const struct arrivals *arrivals)
{
    int64_t demand = 0;
    for (uint32_t i = 0; i < arrivals->count; i++)
        demand += trace_demand(&trace->specs[trace->pods[arrivals->pods[i]]].pod);
    return demand;
}

static void bucket_add(const struct world *world, struct experiment_bucket *bucket)
{
    int64_t capacity = world->cluster.capacity_milli, used = world->cluster.used_milli;
    bucket->events++;
    bucket->allocated_percent += round2(percent(used, capacity));
    bucket->fragmented_percent += 100 * world->waste_sum / (double)capacity;
    if (used < capacity)
        bucket->fragmented_ratio += 100 * world->waste_sum / (double)(capacity - used);
}

static void bucket_finish(struct experiment_bucket *bucket)
{
    if (bucket->events == 0)
        return;
    bucket->allocated_percent = round2(bucket->allocated_percent / bucket->events);
    bucket->fragmented_percent = round2(bucket->fragmented_percent / bucket->events);
    bucket->fragmented_ratio = round2(bucket->fragmented_ratio / bucket->events);
}

static int inflate(struct world *world, const struct arrivals *arrivals,
                   struct experiment_result *result)
{
    const struct trace *trace = world->experiment->trace;
    int64_t arrived = 0, rejected = 0;
    for (uint32_t i = 0; i < arrivals->count; i++) {
        uint32_t spec = trace->pods[arrivals->pods[i]];
        int64_t demand = trace_demand(&trace->specs[spec].pod);
        struct place place;
        int rc = world_arrive(world, spec, &place);
        if (rc < 0)
            return rc;
        arrived += demand;
        rejected += rc == 0 ? demand : 0;
        bucket_add(world, &result->buckets[bucket_of(arrived, trace->capacity_milli)]);
    }
    result->rejected_percent = percent(rejected, arrived);
    result->final_percent = percent(world->cluster.used_milli, trace->capacity_milli);
    return 0;
}

int experiment_inflation(const struct experiment *experiment, const struct arrivals *arrivals,
                         struct sim_random *random, struct arena *arena,
                         struct experiment_result *ret, struct error *err)
{
    int64_t begin_ns = clock_now_ns(&experiment->clock);
    const struct trace *trace = experiment->trace;
    struct world world;
    struct experiment_result result = {0};
    result.bucket_count = bucket_of(demand_of(trace, arrivals), trace->capacity_milli) + 1;
    result.buckets = arena_alloc(arena, result.bucket_count, sizeof(*result.buckets));
    if (result.buckets == NULL ||
        world_init(&world, experiment, arrivals->ranks, arrivals->count, random) < 0)
        return no_memory(err);
    int rc = inflate(&world, arrivals, &result);
    for (uint32_t i = 0; i < result.bucket_count; i++)
        bucket_finish(&result.buckets[i]);
    result.total_ns = clock_now_ns(&experiment->clock) - begin_ns;
    world_report(&world, &result);
    world_done(&world);
    if (rc < 0)
        return no_memory(err);
    *ret = result;
    return 0;
}

/* ---- churn ---- */

/* The mean life, in arrivals, that offers `load` times the capacity. */
static double mean_life(const struct trace *trace, double load)
{
    int64_t demand = 0;
    for (uint32_t i = 0; i < trace->pod_count; i++)
        demand += trace_demand(&trace->specs[trace->pods[i]].pod);
    return load * (double)trace->capacity_milli / ((double)demand / trace->pod_count);
}

struct churn_sums {
    int64_t arrived, rejected;
    double allocated;
    uint32_t events;
};

static void let_leave(struct world *world, struct departures *departures, int64_t now)
{
    struct departure next;
    while (departures_take(departures, now, &next))
        world_leave(world, next.spec, next.place);
}

static int churn(struct world *world, struct departures *departures, uint32_t events, double life,
                 struct churn_sums *sums)
{
    const struct trace *trace = world->experiment->trace;
    struct sim_random *random = world->decider.random;
    for (uint32_t now = 0; now < events; now++) {
        let_leave(world, departures, now);
        uint32_t spec = trace->pods[sim_random_below(random, trace->pod_count)];
        double unit = sim_random_unit(random);
        int64_t demand = trace_demand(&trace->specs[spec].pod);
        struct departure departure = {.spec = spec, .arrival = now};
        int rc = world_arrive(world, spec, &departure.place);
        if (rc < 0)
            return rc;
        if (rc > 0) {
            departure.at = (int64_t)now + 1 + (int64_t)(-log(1 - unit) * life);
            departures_add(departures, &departure);
        }
        if (now < events / 3)
            continue;
        sums->arrived += demand;
        sums->rejected += rc == 0 ? demand : 0;
        sums->allocated += (double)world->cluster.used_milli / (double)trace->capacity_milli;
        sums->events++;
    }
    return 0;
}

int experiment_churn(const struct experiment *experiment, const struct arrivals *arrivals,
                     uint32_t events, double load, struct sim_random *random, struct arena *arena,
                     struct experiment_result *ret, struct error *err)
{
    int64_t begin_ns = clock_now_ns(&experiment->clock);
    struct world world;
    struct departures departures;
    struct experiment_result result = {0};
    struct churn_sums sums = {0};
    if (departures_init(&departures, events, arena) < 0 ||
        world_init(&world, experiment, arrivals->ranks, events, random) < 0)
        return no_memory(err);
    int rc = churn(&world, &departures, events, mean_life(experiment->trace, load), &sums);
    result.mean_percent = sums.events > 0 ? 100 * sums.allocated / sums.events : 0;
    result.rejected_percent = percent(sums.rejected, sums.arrived);
    result.total_ns = clock_now_ns(&experiment->clock) - begin_ns;
    world_report(&world, &result);
    world_done(&world);
    if (rc < 0)
        return no_memory(err);
    *ret = result;
    return 0;
}
