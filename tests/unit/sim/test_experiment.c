/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "base/mem.h"
#include "files.h"
#include "sim/departures.h"
#include "sim/experiment.h"
#include "sim/report.h"
#include "sim/world.h"

static int64_t ticks;

static int64_t tick(void *self)
{
    (void)self;
    return ++ticks;
}

static struct experiment experiment_of(const struct trace *trace, const char *policy)
{
    const struct sim_policy *found = sim_policy_find(str_from(policy));
    assert_non_null(found);
    return (struct experiment){
        .trace = trace, .policy = found, .clock = {tick, NULL}, .cpu_clock = {tick, NULL}};
}

#define NODE_HEADER "sn,cpu_milli,memory_mib,gpu,model\n"
#define POD_HEADER  "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"

/* ---- by hand ---- */

/* Two nodes of two cards; pods a 600, b 600, c 400, d one card, e two cards. */
static const char small_nodes[] = NODE_HEADER "n0,10000,100,2,T4\nn1,10000,100,2,T4\n";
static const char small_pods[] = POD_HEADER
    "a,1000,1,1,600,\nb,1000,1,1,600,\nc,1000,1,1,400,\nd,1000,1,1,1000,\ne,1000,1,2,1000,\n";

static void run_small(const char *policy, uint32_t *pods, uint32_t count, struct arena *arena,
                      struct experiment_result *ret)
{
    struct trace trace;
    assert_int_equal(trace_from(small_nodes, small_pods, &trace, NULL), 0);
    const struct experiment experiment = experiment_of(&trace, policy);
    uint32_t ranks[] = {0, 1};
    const struct arrivals arrivals = {pods, count, ranks};
    struct sim_random random = {1};
    assert_int_equal(experiment_inflation(&experiment, &arrivals, &random, arena, ret, NULL), 0);
    trace_done(&trace);
}

static void test_bestfit_leaves_a_node_for_two_cards(void **state)
{
    (void)state;
    struct arena arena;
    struct experiment_result result;
    arena_init(&arena, 0);
    run_small("bestfit", (uint32_t[]){0, 1, 2, 4}, 4, &arena, &result);
    assert_int_equal(result.rejected[CLASS_SEVERAL], 0);
    assert_true(fabs(result.final_percent - 90) < 1e-9); /* 600 + 600 + 400 + 2000 of 4000 */
    arena_done(&arena);
}

static void test_spread_does_not(void **state)
{
    (void)state;
    struct arena arena;
    struct experiment_result result;
    arena_init(&arena, 0);
    run_small("spread", (uint32_t[]){0, 1, 2, 4}, 4, &arena, &result);
    assert_int_equal(result.rejected[CLASS_SEVERAL], 1);
    assert_int_equal(result.rejected[CLASS_CPU], 0);
    assert_true(fabs(result.final_percent - 40) < 1e-9);
    assert_true(fabs(result.rejected_percent - 100 * 2000 / 3600.0) < 1e-9);
    arena_done(&arena);
}

/* Arrived 15, 30, 40, 90 %: one event in each of these buckets, nothing between. */
static void test_buckets(void **state)
{
    (void)state;
    struct arena arena;
    struct experiment_result result;
    arena_init(&arena, 0);
    run_small("spread", (uint32_t[]){0, 1, 2, 4}, 4, &arena, &result);
    assert_int_equal(result.bucket_count, 91);
    for (uint32_t i = 0; i < result.bucket_count; i++)
        assert_int_equal(result.buckets[i].events, i == 15 || i == 30 || i == 40 || i == 90);
    assert_true(fabs(result.buckets[30].allocated_percent - 30) < 1e-9);
    assert_true(fabs(result.buckets[90].allocated_percent - 40) < 1e-9);
    assert_int_equal(result.decisions, 4);
    arena_done(&arena);
}

/* ---- with and without memo ---- */

/* Forty nodes of three models and pods of every class, from a generator. */
static int made_trace(struct trace *ret)
{
    static const char *const models[] = {"G2", "T4", "P100"};
    static const char *const lists[] = {"", "", "", "T4|P100", "G2"};
    static const int cards[] = {8, 2, 4}, milli[] = {50, 230, 460, 500, 690, 810};
    struct sim_random random = {7};
    struct strbuf nodes = {0}, pods = {0};
    strbuf_puts(&nodes, NODE_HEADER);
    for (unsigned i = 0; i < 40; i++) {
        uint64_t m = sim_random_below(&random, 3);
        strbuf_printf(&nodes, "n%03u,%d,%d,%d,%s\n", i, 12000 * cards[m], 60000 * cards[m],
                      cards[m], models[m]);
    }
    strbuf_puts(&pods, POD_HEADER);
    for (unsigned i = 0; i < 300; i++) {
        uint64_t kind = sim_random_below(&random, 10);
        int count = kind == 0 ? 0 : kind == 9 ? 2 << sim_random_below(&random, 3) : 1;
        int size = kind < 6 ? milli[sim_random_below(&random, 6)] : 1000;
        strbuf_printf(&pods, "p%03u,%u,%u,%d,%d,%s\n", i,
                      (unsigned)(1 + sim_random_below(&random, 4)) * 2000,
                      (unsigned)(1 + sim_random_below(&random, 3)) * 9000, count, size,
                      lists[sim_random_below(&random, kind == 9 ? 3 : 5)]);
    }
    int rc = trace_from(nodes.data, pods.data, ret, NULL);
    strbuf_done(&nodes);
    strbuf_done(&pods);
    return rc;
}

/* Churn in two worlds at once: every decision must be the same. */
static void same_choices(const struct trace *trace, const char *policy, enum learn learn)
{
    struct experiment with = experiment_of(trace, policy), without = with;
    with.learn = without.learn = learn;
    without.no_cache = true;
    static struct world a, b;
    struct sim_random draws = {3}, random_a = {5}, random_b = {5};
    struct arena arena;
    struct arrivals ranks;
    arena_init(&arena, 0);
    assert_int_equal(arrivals_draw_ranks(trace, &draws, &arena, &ranks, NULL), 0);
    assert_int_equal(world_init(&a, &with, ranks.ranks, 3000, &random_a), 0);
    assert_int_equal(world_init(&b, &without, ranks.ranks, 3000, &random_b), 0);
    struct {
        uint32_t spec;
        struct place place;
    } live[600];
    uint32_t alive = 0;
    for (unsigned i = 0; i < 3000; i++) {
        if (alive == 600 || (alive > 0 && sim_random_below(&draws, 5) == 0)) {
            uint64_t gone = sim_random_below(&draws, alive);
            world_leave(&a, live[gone].spec, live[gone].place);
            world_leave(&b, live[gone].spec, live[gone].place);
            live[gone] = live[--alive];
        }
        uint32_t spec = trace->pods[sim_random_below(&draws, trace->pod_count)];
        struct place here = {0}, there = {0};
        int fits = world_arrive(&a, spec, &here);
        assert_int_equal(fits, world_arrive(&b, spec, &there));
        assert_int_equal(here.node, there.node);
        assert_int_equal(here.cards, there.cards);
        if (fits == 1 && alive < 600) {
            live[alive].spec = spec;
            live[alive++].place = here;
        }
    }
    assert_true(a.rejected[CLASS_SHARED] + a.rejected[CLASS_ONE] + a.rejected[CLASS_SEVERAL] > 100);
    assert_true(fabs(a.waste_sum - b.waste_sum) < 1e-3);
    world_done(&a);
    world_done(&b);
    arena_done(&arena);
}

static void test_memo_changes_no_choice(void **state)
{
    (void)state;
    struct trace trace;
    assert_int_equal(made_trace(&trace), 0);
    for (unsigned i = 0; sim_policy_at(i) != NULL; i++)
        same_choices(&trace, sim_policy_at(i)->name, LEARN_LIST);
    same_choices(&trace, "pack", LEARN_SEEN);
    same_choices(&trace, "fgd", LEARN_SEEN);
    trace_done(&trace);
}

/* When all have left, the cluster is as it was, to the last milli. */
static void test_leaving_gives_all_back(void **state)
{
    (void)state;
    static struct world world;
    static struct place places[300];
    struct trace trace;
    struct sim_random random = {1};
    struct arena arena;
    struct arrivals ranks;
    arena_init(&arena, 0);
    assert_int_equal(made_trace(&trace), 0);
    assert_int_equal(arrivals_draw_ranks(&trace, &random, &arena, &ranks, NULL), 0);
    const struct experiment experiment = experiment_of(&trace, "pack");
    assert_int_equal(world_init(&world, &experiment, ranks.ranks, 300, &random), 0);
    const struct pack_market empty = world.decider.market;
    double waste = world.waste_sum;
    int fits[300];
    for (uint32_t i = 0; i < trace.pod_count; i++)
        fits[i] = world_arrive(&world, trace.pods[i], &places[i]);
    assert_true(world.cluster.used_milli > 0);
    for (uint32_t i = 0; i < trace.pod_count; i++)
        if (fits[i] == 1)
            world_leave(&world, trace.pods[i], places[i]);
    assert_int_equal(world.cluster.used_milli, 0);
    for (uint32_t i = 0; i < world.cluster.count; i++)
        assert_int_equal(world.cluster.load[i].classes, 0);
    for (uint32_t i = 0; i < PACK_SCARCE_MAX; i++)
        assert_int_equal(world.decider.market.copies[i], empty.copies[i]);
    for (uint32_t i = 0; i < trace.model_count; i++)
        assert_true(fabs(world.decider.market.free_value[i] - empty.free_value[i]) < 1e-9);
    assert_true(fabs(world.waste_sum - waste) < 1e-6);
    world_done(&world);
    trace_done(&trace);
    arena_done(&arena);
}

/* ---- churn ---- */

static void test_departures_in_order(void **state)
{
    (void)state;
    struct arena arena;
    struct departures departures;
    struct sim_random random = {2};
    arena_init(&arena, 0);
    assert_int_equal(departures_init(&departures, 500, &arena), 0);
    for (uint32_t i = 0; i < 500; i++) {
        const struct departure one = {.at = (int64_t)sim_random_below(&random, 100), .arrival = i};
        departures_add(&departures, &one);
    }
    struct departure next, last = {.at = -1};
    unsigned taken = 0;
    for (; departures_take(&departures, 49, &next); taken++, last = next)
        assert_true(next.at > last.at || (next.at == last.at && next.arrival > last.arrival));
    assert_true(taken > 200 && last.at <= 49);
    for (; departures_take(&departures, 100, &next); taken++)
        assert_true(next.at > 49);
    assert_int_equal(taken, 500);
    arena_done(&arena);
}

/* A load of a thousandth is never turned away; one of 50 nearly always. */
static void test_churn_follows_the_load(void **state)
{
    (void)state;
    struct trace trace;
    struct arena arena;
    struct arrivals ranks;
    struct sim_random random = {1};
    struct experiment_result result;
    arena_init(&arena, 0);
    assert_int_equal(made_trace(&trace), 0);
    const struct experiment experiment = experiment_of(&trace, "pack");
    assert_int_equal(arrivals_draw_ranks(&trace, &random, &arena, &ranks, NULL), 0);
    assert_int_equal(
        experiment_churn(&experiment, &ranks, 3000, 0.001, &random, &arena, &result, NULL), 0);
    assert_true(result.rejected_percent == 0 && result.mean_percent < 1);
    assert_int_equal(
        experiment_churn(&experiment, &ranks, 3000, 50, &random, &arena, &result, NULL), 0);
    assert_true(result.rejected_percent > 60 && result.mean_percent > 60);
    assert_int_equal(result.decisions, 3000);
    trace_done(&trace);
    arena_done(&arena);
}

/* ---- memory ---- */

static void test_without_memory(void **state)
{
    (void)state;
    struct trace trace;
    struct experiment_result result;
    assert_int_equal(trace_from(small_nodes, small_pods, &trace, NULL), 0);
    struct experiment experiment = experiment_of(&trace, "pack");
    experiment.learn = LEARN_SEEN;
    uint32_t ranks[] = {0, 1}, pods[] = {0, 1, 2, 3, 4};
    const struct arrivals arrivals = {pods, 5, ranks};
    struct sim_random random = {1};
    long count = 1;
    for (long n = 0; n <= count; n++) {
        struct arena arena;
        arena_init(&arena, 0);
        mem_fail_at(n);
        int rc = experiment_inflation(&experiment, &arrivals, &random, &arena, &result, NULL);
        assert_int_equal(rc, n == 0 ? 0 : -ENOMEM);
        if (n == 0)
            count = mem_count();
        arena_done(&arena);
    }
    mem_fail_at(0);
    assert_true(count > 3);
    trace_done(&trace);
}

/* ---- report ---- */

static void test_json(void **state)
{
    (void)state;
    struct arena arena;
    struct experiment_result result;
    struct strbuf out = {0};
    arena_init(&arena, 0);
    run_small("fgd", (uint32_t[]){0, 1, 2, 4}, 4, &arena, &result);
    const struct report_head head = {
        .policy = "fgd", .nodes = "n \"1\"", .pods = "p", .seed = 9, .load = 1};
    report_json(&head, &result, &out);
    assert_false(out.failed);
    assert_non_null(strstr(out.data, "\"allocated_percent_at\": {\"15\": 15.00, \"30\": 30.00"));
    assert_non_null(strstr(out.data, "\"nodes\": \"n \\\"1\\\"\""));
    assert_non_null(strstr(out.data, "\"decisions\": 4, \"seconds\": "));
    assert_non_null(strstr(out.data, "\"seed\": 9"));
    strbuf_done(&out);
    report_text(&head, &result, &out);
    assert_non_null(strstr(out.data, "4 decisions"));
    strbuf_done(&out);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bestfit_leaves_a_node_for_two_cards),
        cmocka_unit_test(test_spread_does_not),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_memo_changes_no_choice),
        cmocka_unit_test(test_leaving_gives_all_back),
        cmocka_unit_test(test_departures_in_order),
        cmocka_unit_test(test_churn_follows_the_load),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
