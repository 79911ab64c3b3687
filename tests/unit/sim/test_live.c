/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's cache decides as the simulator does: the same pods on the same cluster, pod by pod, with
 * tables that both learn from what they have seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "files.h"
#include "sim/world.h"
#include "state/cache.h"

#define NODES 40
#define PODS  2000
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define GIB   (INT64_C(1) << 30)
#define MIB   (INT64_C(1) << 20)

static struct cache *cache;
static struct trace trace;
static char names[NODES][8];
static struct str candidates[NODES];

static int64_t no_time(void *self)
{
    (void)self;
    return 0;
}

/* Lists of models. As texts, by which the simulator orders equals, they are in the order of their bits. */
static const char *const lists[] = {"", "m0", "m1", "m1|m0", "m2"};

/* Forty nodes of three models and pods of every class, one in ten without GPU, half of the others bound to models
 * (`bound`). Odd amounts of CPU, so that no two nodes are as good as one another by chance. */
static void make_trace(bool bound)
{
    static const int cards[] = {8, 2, 4}, milli[] = {50, 230, 460, 500, 690, 810};
    struct sim_random random = {7};
    struct strbuf nodes = {0}, pods = {0};
    strbuf_puts(&nodes, "sn,cpu_milli,memory_mib,gpu,model\n");
    for (unsigned i = 0; i < NODES; i++) {
        uint64_t m = i < COUNT_OF(cards) ? i : sim_random_below(&random, 3);
        strbuf_printf(&nodes, "n%03u,%d,%d,%d,m%d\n", i, 11137 * cards[m], 60000 * cards[m],
                      cards[m], (int)m);
    }
    strbuf_puts(&pods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n");
    for (unsigned i = 0; i < 300; i++) {
        uint64_t kind = sim_random_below(&random, 10);
        int count = kind == 0 ? 0 : kind == 9 ? 2 << sim_random_below(&random, 3) : 1;
        int size = kind < 6 ? milli[sim_random_below(&random, 6)] : 1000;
        strbuf_printf(&pods, "p%03u,%u,%u,%d,%d,", i,
                      (unsigned)(1 + sim_random_below(&random, 4)) * 1973,
                      (unsigned)(1 + sim_random_below(&random, 3)) * 9000, count, size);
        uint64_t list = bound ? sim_random_below(&random, 6) : 0;
        strbuf_printf(&pods, "%s\n", lists[list < COUNT_OF(lists) ? list : 0]);
    }
    assert_int_equal(trace_from(nodes.data, pods.data, &trace, NULL), 0);
    strbuf_done(&nodes);
    strbuf_done(&pods);
}

/* Number the models as the trace does, by nodes that are gone before the others come. */
static void number_models(void)
{
    for (uint32_t i = 0; i < trace.model_count; i++) {
        const struct node_facts facts = {.name = trace.models[i], .gpu_model = trace.models[i]};
        assert_int_equal(cache_node_set(cache, &facts), 0);
        cache_node_remove(cache, facts.name);
    }
}

static void add_node(uint32_t position, const struct pack_node *node)
{
    struct device devices[8];
    snprintf(names[position], sizeof names[0], "n%u", position);
    candidates[position] = str_from(names[position]);
    const struct node_facts facts = {
        .name = candidates[position],
        .allocatable = {node->cpu_milli, node->memory_mib * MIB},
        .gpu_model = trace.models[node->model],
    };
    for (uint32_t i = 0; i < node->cards; i++)
        devices[i] = (struct device){.kind = DEVICE_GPU,
                                      .minor = (int32_t)i,
                                      .healthy = true,
                                      .total = {100, 100, 16 * GIB},
                                      .id = STR("")};
    assert_int_equal(cache_node_set(cache, &facts), 0);
    assert_int_equal(cache_devices_set(cache, facts.name,
                                       &(struct inventory){.devices = devices, .count = node->cards},
                                       NULL), 0);
}

static struct pod pod_of(const struct pack_pod *wanted, struct str uid)
{
    return (struct pod){.id = {STR("ns"), uid, uid},
                        .host = {wanted->cpu_milli, wanted->memory_mib * MIB}};
}

static struct pod_request request_of(const struct pack_pod *wanted)
{
    struct pod_request request = {0};
    if (wanted->cards > 0)
        request.of[DEVICE_GPU] = (struct device_request){
            .count = wanted->cards,
            .each = {.percent = wanted->milli / 10, .ratio = wanted->milli / 10},
            .named = DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO),
            .whole = wanted->milli == PACK_CARD_MILLI,
        };
    return request;
}

/* The pod's node affinity: the models of the trace by name. */
struct rule_space {
    struct str names[PACK_MODELS_MAX];
    struct model_condition condition;
};

static struct model_rule rule_of(const struct pack_pod *wanted, struct rule_space *space)
{
    if (wanted->models == PACK_MODELS_ANY)
        return (struct model_rule){0};
    space->condition = (struct model_condition){true, space->names, 0};
    for (uint32_t model = 0; model < trace.model_count; model++)
        if (pack_allows(wanted->models, model))
            space->names[space->condition.count++] = trace.models[model];
    return (struct model_rule){.always = {&space->condition, 1}};
}

/* kube-scheduler's part: nodes of other models, or without the CPU or memory, are no candidates. */
static uint32_t feasible(const struct cluster *cluster, const struct pack_pod *wanted,
                         struct str *ret)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NODES; i++)
        if (pack_allows(wanted->models, cluster->nodes[i].model) &&
            cluster->nodes[i].cpu_milli >= wanted->cpu_milli &&
            cluster->nodes[i].memory_mib >= wanted->memory_mib)
            ret[count++] = candidates[i];
    return count;
}

/* Filter, choose the best, bind; returns false when it fits nowhere. */
static bool place(const struct cluster *cluster, const struct pack_pod *wanted, struct str uid,
                  struct str *ret_node, uint64_t *ret_cards)
{
    static const struct pod_policy policy = {.node = &node_policy_pack,
                                             .device = &device_policy_pack};
    struct str feasible_names[NODES];
    enum reason reasons[NODES], reason;
    int64_t scores[NODES];
    struct rule_space space;
    struct pod pod = pod_of(wanted, uid);
    struct pod_request request = request_of(wanted);
    pod.models = rule_of(wanted, &space);
    struct pod_event_result result;
    assert_int_equal(cache_pod_set(cache, &pod, &request, &policy, &result), 0);
    assert_int_equal(cache_pack_prepare(cache, 0), 0);
    uint32_t count = feasible(cluster, wanted, feasible_names), best = UINT32_MAX;
    struct ranking ranking = {.policy = policy.node, .host = pod.host, .scores = scores};
    cache_rank(cache, uid, &request, feasible_names, count, reasons, &ranking);
    for (uint32_t i = 0; i < count; i++)
        if (reasons[i] == REASON_FITS && (best == UINT32_MAX || scores[i] > scores[best]))
            best = i;
    if (best == UINT32_MAX) {
        cache_pod_remove(cache, uid);
        return false;
    }
    struct placement placement;
    assert_int_equal(cache_book(cache, uid, feasible_names[best], &device_policy_default,
                                &placement, &reason), BOOK_OK);
    cache_confirm(cache, uid);
    *ret_cards = 0;
    for (uint32_t i = 0; i < placement.count; i++)
        *ret_cards |= UINT64_C(1) << placement.cards[i].share.minor;
    *ret_node = feasible_names[best];
    return true;
}

static void put_guest(const struct pack_pod *wanted, struct str uid, struct str node)
{
    static const struct pod_request nothing;
    static const struct pod_policy no_policy;
    struct pod pod = pod_of(wanted, uid);
    struct pod_event_result result;
    pod.node_name = node;
    assert_int_equal(cache_pod_set(cache, &pod, &nothing, &no_policy, &result), 0);
}

struct alive {
    uint32_t spec;
    struct place place;
    char uid[16];
};

static void arrive(struct world *world, uint32_t spec, struct alive *pod, uint32_t *alive)
{
    const struct pack_pod *wanted = &trace.specs[spec].pod;
    struct str uid = str_from(pod->uid), node = {0};
    uint64_t cards = 0;
    /* The world's cluster is looked at before it changes. */
    bool placed = wanted->cards > 0 && place(&world->cluster, wanted, uid, &node, &cards);
    int fits = world_arrive(world, spec, &pod->place);
    if (fits == 1 && wanted->cards == 0) {
        put_guest(wanted, uid, candidates[pod->place.node]);
    } else if (wanted->cards > 0) {
        assert_int_equal(placed, fits == 1);
        if (placed)
            assert_ptr_equal(node.data, candidates[pod->place.node].data);
        if (placed)
            assert_int_equal(cards, pod->place.cards);
    }
    pod->spec = spec;
    *alive += fits == 1;
}

static void decide_as_the_simulator(bool bound)
{
    make_trace(bound);
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    const struct experiment experiment = {.trace = &trace,
                                          .policy = sim_policy_find(STR("pack")),
                                          .clock = {no_time, NULL},
                                          .cpu_clock = {no_time, NULL},
                                          .learn = LEARN_SEEN};
    static struct world world;
    static struct alive pods[PODS];
    struct sim_random draws = {3}, random = {5};
    struct arena arena;
    struct arrivals ranks;
    struct error err = {0};
    uint32_t alive = 0;
    arena_init(&arena, 0);
    assert_int_equal(arrivals_draw_ranks(&trace, &draws, &arena, &ranks, NULL), 0);
    assert_int_equal(world_init(&world, &experiment, ranks.ranks, PODS, &random), 0);
    number_models();
    for (uint32_t i = 0; i < NODES; i++)
        add_node(i, &world.cluster.nodes[i]);
    for (unsigned i = 0; i < PODS; i++) {
        if (alive > 0 && sim_random_below(&draws, 3) == 0) {
            uint64_t gone = sim_random_below(&draws, alive);
            world_leave(&world, pods[gone].spec, pods[gone].place);
            cache_pod_remove(cache, str_from(pods[gone].uid));
            pods[gone] = pods[--alive];
        }
        snprintf(pods[alive].uid, sizeof pods[0].uid, "uid-%u", i);
        arrive(&world, trace.pods[sim_random_below(&draws, trace.pod_count)], &pods[alive], &alive);
    }
    assert_true(world.rejected[CLASS_SHARED] + world.rejected[CLASS_SEVERAL] > 50);
    if (cache_check(cache, &err) < 0)
        fail_msg("%s", err.text);
    world_done(&world);
    arena_done(&arena);
    cache_free(cache);
    trace_done(&trace);
}

static void test_cache_decides_as_the_simulator(void **state)
{
    (void)state;
    decide_as_the_simulator(false);
}

/* Pods bound to models, told by their node affinity there and by a list here. */
static void test_cache_knows_models_as_the_simulator(void **state)
{
    (void)state;
    decide_as_the_simulator(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache_decides_as_the_simulator),
        cmocka_unit_test(test_cache_knows_models_as_the_simulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
