/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/pack_frag.h"

static int init_parts(struct world *world, const uint32_t *ranks)
{
    const struct experiment *experiment = world->experiment;
    const struct trace *trace = experiment->trace;
    const struct trace *mix = experiment->mix != NULL ? experiment->mix : trace;
    struct arena *memory = &world->memory;
    if (cluster_init(&world->cluster, trace, ranks, memory) < 0 ||
        learner_init(&world->list, trace, trace, LEARN_LIST, memory) < 0 ||
        learner_init(&world->known, trace, mix, experiment->learn, memory) < 0)
        return -ENOMEM;
    world->waste = arena_alloc(memory, world->cluster.count, sizeof(*world->waste));
    world->decision_ns = arena_alloc(memory, world->decision_room, sizeof(*world->decision_ns));
    return world->waste != NULL && world->decision_ns != NULL ? 0 : -ENOMEM;
}

int world_init(struct world *world, const struct experiment *experiment, const uint32_t *ranks,
               uint64_t decisions, struct sim_random *random)
{
    *world = (struct world){.experiment = experiment, .decision_room = decisions};
    int rc = init_parts(world, ranks);
    if (rc < 0) {
        world_done(world);
        return rc;
    }
    memo_init(&world->memo, world->cluster.count, experiment->trace->spec_count);
    world->decider = (struct decider){
        .policy = experiment->policy,
        .trace = experiment->trace,
        .cluster = &world->cluster,
        .tables = &world->known.tables,
        .random = random,
        .memo = experiment->no_cache ? NULL : &world->memo,
    };
    decider_reset(&world->decider);
    for (uint32_t i = 0; i < world->cluster.count; i++) {
        world->waste[i] = frag_of_node(&world->list.tables, &world->cluster.nodes[i]);
        world->waste_sum += world->waste[i];
    }
    return 0;
}

void world_done(struct world *world)
{
    memo_done(&world->memo);
    arena_done(&world->memory);
}

static void measure_node(struct world *world, uint32_t node)
{
    double waste = frag_of_node(&world->list.tables, &world->cluster.nodes[node]);
    world->waste_sum += waste - world->waste[node];
    world->waste[node] = waste;
}

static enum experiment_class class_of(const struct pack_pod *pod)
{
    if (pod->cards == 0)
        return CLASS_CPU;
    if (pack_is_shared(pod))
        return CLASS_SHARED;
    return pod->cards == 1 ? CLASS_ONE : CLASS_SEVERAL;
}

/* Choose, and note how long it took. */
static int decide(struct world *world, uint32_t spec, struct choice *ret)
{
    const struct clock *clock = &world->experiment->cpu_clock;
    assert(world->decisions < world->decision_room);
    int64_t begin_ns = clock_now_ns(clock);
    int result = decider_choose(&world->decider, spec, ret);
    world->decision_ns[world->decisions++] = clock_now_ns(clock) - begin_ns;
    return result;
}

int world_arrive(struct world *world, uint32_t spec, struct place *ret)
{
    const struct pack_pod *pod = &world->experiment->trace->specs[spec].pod;
    struct choice choice;
    if (learner_see(&world->known, spec))
        decider_reset(&world->decider);
    int result = decide(world, spec, &choice);
    if (result <= 0) {
        world->rejected[class_of(pod)] += result == 0;
        return result;
    }
    decider_node_moves(&world->decider, choice.node, -1);
    *ret = cluster_add(&world->cluster, pod, choice.node, choice.card);
    decider_node_moves(&world->decider, choice.node, 1);
    measure_node(world, choice.node);
    return 1;
}

void world_leave(struct world *world, uint32_t spec, struct place place)
{
    decider_node_moves(&world->decider, place.node, -1);
    cluster_remove(&world->cluster, &world->experiment->trace->specs[spec].pod, place);
    decider_node_moves(&world->decider, place.node, 1);
    measure_node(world, place.node);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void world_report(struct world *world, struct experiment_result *ret)
{
    uint64_t count = world->decisions;
    int64_t sum = 0;
    ret->decisions = count;
    memcpy(ret->rejected, world->rejected, sizeof(ret->rejected));
    if (count == 0)
        return;
    qsort(world->decision_ns, count, sizeof(*world->decision_ns), by_number);
    for (uint64_t i = 0; i < count; i++)
        sum += world->decision_ns[i];
    ret->mean_ns = sum / (int64_t)count;
    ret->p50_ns = world->decision_ns[(count - 1) / 2];
    ret->p99_ns = world->decision_ns[(count - 1) * 99 / 100];
    ret->max_ns = world->decision_ns[count - 1];
}
