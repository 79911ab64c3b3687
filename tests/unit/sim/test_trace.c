/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/mem.h"
#include "files.h"
#include "sim/arrivals.h"
#include "sim/random.h"
#include "sim/trace.h"

#define NODES                                                                                      \
    "sn,cpu_milli,memory_mib,gpu,model\n"                                                          \
    "node-b,64000,1000,2,T4\r\n"                                                                   \
    "\n"                                                                                           \
    "node-a,96000,2000,8,G2\n"
#define PODS                                                                                       \
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"                                   \
    "p3,1000,10,1,460,,LS\n"                                                                       \
    "p1,2000,20,2,0,T4|G2|Z9,LS\n"                                                                 \
    "p2,1000,10,1,460,,BE\n"                                                                       \
    "p4,3000,30,0,700,T4,BE\n"                                                                     \
    "p5,1,1,1,1000,A1|T4,BE\n"                                                                     \
    "p6,1,1,1,1000,Z9,BE"

static void test_reads_both_files(void **state)
{
    (void)state;
    struct trace trace;
    assert_int_equal(trace_from(NODES, PODS, &trace, NULL), 0);
    assert_int_equal(trace.node_count, 2);
    assert_true(str_is(trace.nodes[0].name, "node-a"));
    assert_int_equal(trace.nodes[0].cards, 8);
    assert_int_equal(trace.nodes[1].memory_mib, 1000);
    assert_true(str_is(trace.models[trace.nodes[1].model], "T4"));
    assert_int_equal(trace.capacity_milli, 10000);
    assert_int_equal(trace.pod_count, 6);
    assert_int_equal(trace.spec_count, 5);
    trace_done(&trace);
}

static void test_pods(void **state)
{
    (void)state;
    struct trace trace;
    assert_int_equal(trace_from(NODES, PODS, &trace, NULL), 0);
    const struct pack_demand *of[6];
    for (uint32_t i = 0; i < 6; i++)
        of[i] = &trace.specs[trace.pods[i]];
    assert_int_equal(of[0]->pod.cards, 2);
    assert_int_equal(of[0]->pod.milli, 1000);
    assert_int_equal(of[0]->pod.models, 3); /* both; the unknown one is no matter */
    assert_ptr_equal(of[1], of[2]);         /* p2 and p3 ask for the same */
    assert_int_equal((int)of[1]->weight, 2);
    assert_true(of[1]->pod.models == PACK_MODELS_ANY);
    assert_int_equal(of[1]->pod.list, 0);
    assert_int_equal(of[3]->pod.milli, 0); /* no card, no list */
    assert_true(of[3]->pod.models == PACK_MODELS_ANY);
    assert_int_equal(of[4]->pod.models, 1); /* T4 was read first */
    assert_int_equal(of[5]->pod.models, 0); /* nowhere */
    assert_int_equal(of[4]->pod.list, 1);   /* "A1|T4" < "T4|G2|Z9" < "Z9" */
    assert_int_equal(of[0]->pod.list, 2);
    assert_int_equal(of[5]->pod.list, 3);
    trace_done(&trace);
}

static void test_five_columns(void **state)
{
    (void)state;
    struct trace trace;
    assert_int_equal(trace_from(NODES,
                                "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,4,1000\n",
                                &trace, NULL),
                     0);
    assert_int_equal(trace.specs[0].pod.cards, 4);
    trace_done(&trace);
}

#define POD_HEADER "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"

static void test_errors_name_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *nodes, *pods, *want;
    } cases[] = {
        {"", PODS, ":1: no header line"},
        {"sn,cpu_milli\n", PODS, ":1: no column \"memory_mib\""},
        {"sn,cpu_milli,memory_mib,gpu,model\nn,1,2,x,T4\n", PODS, ":2: gpu is \"x\""},
        {"sn,cpu_milli,memory_mib,gpu,model\nn,1,2,65,T4\n", PODS, ":2: gpu is \"65\""},
        {"sn,cpu_milli,memory_mib,gpu,model\nn,1,2,0,T4\n", PODS, "no cards"},
        {NODES, POD_HEADER, ":1: no pods"},
        {NODES, POD_HEADER "a,1,2,1,500\n\nb,1,2,1\n", ":4: 4 fields, the header has 5"},
        {NODES, POD_HEADER "a,1,2,1,500\nb,1,2,1,0\n", ":3: gpu_milli is \"0\""},
        {NODES, POD_HEADER "a,1,2,1,1001\n", ":2: gpu_milli is \"1001\""},
        {"kind: Node\n", PODS, ":1: no column \"sn\""}, /* nobody brings another format */
        {NODES, POD_HEADER "a,-1,2,1,500\n", ":2: cpu_milli is \"-1\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct trace trace;
        struct error err = {0};
        assert_int_equal(trace_from(cases[i].nodes, cases[i].pods, &trace, NULL), -EINVAL);
        assert_int_equal(trace_from(cases[i].nodes, cases[i].pods, &trace, &err), -EINVAL);
        if (strstr(err.text, cases[i].want) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", err.text, cases[i].want);
    }
    struct trace trace;
    struct error err = {0};
    assert_int_equal(trace_read("/nonexistent", "/nonexistent", NULL, &trace, &err), -ENOENT);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct trace trace;
    mem_fail_at(0);
    assert_int_equal(trace_from(NODES, PODS, &trace, NULL), 0);
    trace_done(&trace);
    long count = mem_count();
    assert_true(count > 2);
    for (long n = 1; n <= count; n++) {
        mem_fail_at(n);
        assert_int_equal(trace_from(NODES, PODS, &trace, NULL), -ENOMEM);
    }
    mem_fail_at(0);
}

/* ---- another format ---- */

#define ANYWHERE "n.yaml"

static int other_nodes_read, other_pods_read;

/* Two nodes and two pods, whatever the text says. */
static int other_nodes(struct trace *trace, struct str text, const char *path, struct error *err)
{
    (void)path;
    other_nodes_read++;
    if (memchr(text.data, '!', text.len) != NULL)
        return error_set(err, -EINVAL, ANYWHERE ":7: no");
    struct trace_node *nodes = arena_alloc(&trace->memory, 2, sizeof(*nodes));
    int t4 = trace_model(trace, STR("T4"), err), g2 = trace_model(trace, STR("G2"), err);
    if (nodes == NULL || t4 < 0 || g2 < 0)
        return error_set(err, -ENOMEM, "out of memory");
    assert_int_equal(trace_model(trace, STR("T4"), err), t4);
    assert_int_equal(trace_find_model(trace, STR("G2")), g2);
    assert_int_equal(trace_find_model(trace, STR("A1")), -1);
    nodes[0] = (struct trace_node){STR("node-b"), 64000, 1000, 2, (uint32_t)t4};
    nodes[1] = (struct trace_node){STR("node-a"), 96000, 2000, 8, (uint32_t)g2};
    return trace_set_nodes(trace, nodes, 2, err);
}

static int other_pods(struct trace *trace, struct str text, const char *path, struct error *err)
{
    (void)text;
    (void)path;
    other_pods_read++;
    struct trace_pod *pods = arena_alloc(&trace->memory, 2, sizeof(*pods));
    if (pods == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    pods[0] = (struct trace_pod){STR("y"), STR("G2"), {.cards = 1, .milli = 500, .models = 2}};
    pods[1] = (struct trace_pod){STR("x"), STR(""), {.cards = 2, .milli = 1000, .models = 3}};
    return trace_set_pods(trace, pods, 2, err);
}

static const struct trace_format other = {other_nodes, other_pods};

static void test_another_format(void **state)
{
    (void)state;
    struct trace trace;
    other_nodes_read = other_pods_read = 0;
    assert_int_equal(trace_from_other("kind: a\n", "kind: b\n", &other, &trace, NULL), 0);
    assert_int_equal(other_nodes_read, 1);
    assert_int_equal(other_pods_read, 1);
    assert_int_equal(trace.capacity_milli, 10000);
    assert_true(str_is(trace.nodes[0].name, "node-a"));
    assert_int_equal(trace.specs[trace.pods[0]].pod.cards, 2); /* x before y */
    assert_int_equal(trace.specs[trace.pods[0]].pod.list, 0);
    assert_int_equal(trace.specs[trace.pods[1]].pod.list, 1);
    trace_done(&trace);
    /* Each file for itself. */
    assert_int_equal(trace_from_other(NODES, "kind: b\n", &other, &trace, NULL), 0);
    assert_int_equal(other_nodes_read, 1);
    assert_int_equal(other_pods_read, 2);
    trace_done(&trace);
    struct error err = {0};
    assert_int_equal(trace_from_other("a: !", PODS, &other, &trace, &err), -EINVAL);
    assert_string_equal(err.text, ANYWHERE ":7: no");
}

/* What a text begins with says whose it is. */
static void test_formats_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_other;
    } cases[] = {
        {"apiVersion: v1\n", true},
        {"\n \t\r\n  {\"kind\": 1}", true},
        {"{\n}\n", true},
        {"[\n]", true},
        {"---\nkind: Node", true},
        {"%YAML 1.2\n", true},
        {"# nodes, in CSV or not\n", true},
        {"- kind: Node\n", true},
        {"sn,cpu_milli,memory_mib,gpu,model\nn:0,1,2,3,T4\n", false},
        {"\nsn,cpu_milli,memory_mib,gpu,model\nn,1,2,3,T4\n", false},
        {"sn", false},
        {"", false},
        {" \n", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct trace trace = {0};
        other_nodes_read = 0;
        if (trace_from_other(cases[i].text, PODS, &other, &trace, NULL) == 0)
            trace_done(&trace);
        if (other_nodes_read != cases[i].is_other)
            fail_msg("\"%s\" is taken for the other format: %d", cases[i].text, other_nodes_read);
    }
}

static void test_too_many_models(void **state)
{
    (void)state;
    struct trace trace = {0};
    struct error err;
    for (int i = 0; i < PACK_MODELS_MAX; i++) {
        char name[8];
        snprintf(name, sizeof(name), "m%d", i);
        assert_int_equal(trace_model(&trace, str_from(name), &err), i);
    }
    assert_int_equal(trace_model(&trace, STR("m0"), &err), 0);
    assert_int_equal(trace_model(&trace, STR("one more"), &err), -EINVAL);
    assert_string_equal(err.text, "more than 64 models");
    trace_done(&trace);
}

/* ---- random ---- */

static void test_random(void **state)
{
    (void)state;
    struct sim_random random = {1};
    assert_true(sim_random_next(&random) == UINT64_C(0x910a2dec89025cc1));
    assert_true(sim_random_next(&random) == UINT64_C(0xbeeb8da1658eec67));
    random.state = 1;
    assert_int_equal(sim_random_below(&random, 1000), 566); /* 0x910a2dec... / 2^64 = 0.56656 */
}

/* The published list of pods has 8152; its shuffle needs no more than that. */
static void test_shuffle(void **state)
{
    (void)state;
    static uint32_t items[8152];
    static const uint32_t first[2][5] = {{3862, 2586, 4350, 3915, 6751},
                                         {2283, 6811, 4495, 2792, 2645}};
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct sim_random random = {seed};
        for (uint32_t i = 0; i < 8152; i++)
            items[i] = i;
        sim_random_shuffle(&random, items, 8152);
        assert_memory_equal(items, first[seed - 1], sizeof(first[0]));
    }
}

/* ---- arrivals ---- */

static int64_t demand_of(const struct trace *trace, const struct arrivals *arrivals)
{
    int64_t demand = 0;
    for (uint32_t i = 0; i < arrivals->count; i++)
        demand += trace_demand(&trace->specs[trace->pods[arrivals->pods[i]]].pod);
    return demand;
}

/* 10 cards; the pods ask for 4.92: more are drawn up to 1.3 x 10, or some left out. */
static void test_draws_to_the_ratio(void **state)
{
    (void)state;
    struct trace trace;
    struct arrivals arrivals;
    struct arena arena;
    arena_init(&arena, 0);
    assert_int_equal(trace_from(NODES, PODS, &trace, NULL), 0);
    for (uint64_t seed = 1; seed < 50; seed++) {
        struct sim_random random = {seed};
        assert_int_equal(arrivals_draw(&trace, 1.3, &random, &arena, &arrivals, NULL), 0);
        assert_true(arrivals.count > 6);
        int64_t demand = demand_of(&trace, &arrivals);
        /* the last one was asked for one card of its two, and the next would have passed */
        assert_true(demand > 13000 - 1000 && demand <= 13000 + 1000);
        assert_int_equal(arrivals.ranks[0] + arrivals.ranks[1], 1);
        assert_int_equal(arrivals_draw(&trace, 0.3, &random, &arena, &arrivals, NULL), 0);
        assert_true(arrivals.count < 6);
        assert_true(demand_of(&trace, &arrivals) <= 3000);
    }
    arena_done(&arena);
    trace_done(&trace);
}

static int read_order(const struct trace *trace, const char *text, struct arena *arena,
                      struct arrivals *ret, struct error *err)
{
    char path[64];
    file_write(path, text);
    int rc = arrivals_read(trace, path, arena, ret, err);
    unlink(path);
    return rc;
}

static void test_order_file(void **state)
{
    (void)state;
    struct trace trace;
    struct arrivals arrivals;
    struct arena arena;
    struct error err;
    arena_init(&arena, 0);
    assert_int_equal(trace_from(NODES, PODS, &trace, NULL), 0);
    assert_int_equal(read_order(&trace, "1 0\n5 0 0 3\n", &arena, &arrivals, &err), 0);
    assert_int_equal(arrivals.count, 4);
    assert_int_equal(arrivals.pods[3], 3);
    assert_int_equal(arrivals.ranks[0], 1);
    static const char *const bad[] = {"1 1\n5\n", "1\n5\n", "0 1 2\n5\n",
                                      "1 x\n5\n", "",       "2 0\n5\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(read_order(&trace, bad[i], &arena, &arrivals, &err), -EINVAL);
        assert_non_null(strstr(err.text, ":1: "));
    }
    assert_int_equal(read_order(&trace, "1 0\n5 6\n", &arena, &arrivals, &err), -EINVAL);
    assert_non_null(strstr(err.text, ":2: "));
    assert_int_equal(read_order(&trace, "1 0\n", &arena, &arrivals, &err), -EINVAL);
    arena_done(&arena);
    trace_done(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_both_files),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_five_columns),
        cmocka_unit_test(test_errors_name_file_and_line),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_shuffle),
        cmocka_unit_test(test_draws_to_the_ratio),
        cmocka_unit_test(test_order_file),
        cmocka_unit_test(test_another_format),
        cmocka_unit_test(test_formats_are_told_apart),
        cmocka_unit_test(test_too_many_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
