/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pack is not below, by more than two standard errors, on five small made lists: best fit, whatever its tables come from, and FGD and its own
 * figures of a known list when it learns from the pods that come. FLOOR_TABLE=1 prints what was found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "files.h"
#include "sim/experiment.h"

#define NODES    60
#define PODS     400
#define ARRIVALS 6000
#define SEEDS    12
#define SEEN_MAX 0.2 /* points that may be lost by not knowing the list */

/* ---- lists ---- */

struct recipe {
    const char *name;
    int cpu_of_card;              /* milli-cores of a node, a card */
    int parts, several, cpu_only; /* percent of the pods: a part of a card, several cards, none */
    int bound;                    /* percent of those with one card or less, which name models */
};

static const struct recipe recipes[] = {
    {"mixed", 12000, 45, 2, 10, 0},
    {"parts of cards", 12000, 80, 0, 10, 0},
    {"CPU is short", 8000, 40, 2, 25, 0},
    {"bound to models", 12000, 45, 2, 10, 40},
    {"several cards", 12000, 30, 6, 10, 0},
};
#define RECIPES (sizeof(recipes) / sizeof(recipes[0]))

/* Of these are played: a sanitizer sees all of the code with one, and takes its time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAYED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PLAYED 1
#endif
#endif
#ifndef PLAYED
#define PLAYED RECIPES
#endif

static void make_nodes(const struct recipe *recipe, struct sim_random *random, struct strbuf *out)
{
    static const char *const models[] = {"G2", "T4", "P100"};
    static const int cards[] = {8, 2, 4};
    strbuf_puts(out, "sn,cpu_milli,memory_mib,gpu,model\n");
    for (unsigned i = 0; i < NODES; i++) {
        uint64_t m = sim_random_below(random, 3);
        strbuf_printf(out, "n%03u,%d,%d,%d,%s\n", i, recipe->cpu_of_card * cards[m],
                      60000 * cards[m], cards[m], models[m]);
    }
}

static void make_pods(const struct recipe *recipe, struct sim_random *random, struct strbuf *out)
{
    static const char *const lists[] = {"T4", "T4|P100", "P100", "G2"};
    static const int sizes[] = {50, 230, 310, 460, 500, 690, 810};
    strbuf_puts(out, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n");
    for (unsigned i = 0; i < PODS; i++) {
        int kind = (int)sim_random_below(random, 100), cards = 1, milli = 1000;
        int cpu = (int)(1 + sim_random_below(random, 4)) * 2000;
        bool bound = (int)sim_random_below(random, 100) < recipe->bound;
        const char *list = bound ? lists[sim_random_below(random, 4)] : "";
        if (kind < recipe->parts) {
            milli = sizes[sim_random_below(random, 7)];
        } else if (kind < recipe->parts + recipe->several) {
            cards = 2 << sim_random_below(random, 3);
            cpu += 2000 * cards;
            list = "";
        } else if (kind < recipe->parts + recipe->several + recipe->cpu_only) {
            cards = milli = 0;
        }
        strbuf_printf(out, "p%03u,%d,%d,%d,%d,%s\n", i, cpu,
                      (int)(1 + sim_random_below(random, 3)) * 9000, cards, milli,
                      cards > 0 ? list : "");
    }
}

static struct trace traces[RECIPES], wrong[RECIPES];

/* The pods of `mix` on the nodes of `recipe`. */
static void make(const struct recipe *recipe, const struct recipe *mix, struct trace *ret)
{
    struct sim_random random = {11};
    struct strbuf nodes = {0}, pods = {0};
    make_nodes(recipe, &random, &nodes);
    make_pods(mix, &random, &pods);
    assert_int_equal(trace_from(nodes.data, pods.data, ret, NULL), 0);
    strbuf_done(&nodes);
    strbuf_done(&pods);
}

static int make_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECIPES; i++) {
        make(&recipes[i], &recipes[i], &traces[i]);
        make(&recipes[i], &recipes[(i + 1) % RECIPES], &wrong[i]);
    }
    return 0;
}

static int free_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECIPES; i++) {
        trace_done(&traces[i]);
        trace_done(&wrong[i]);
    }
    return 0;
}

/* ---- runs ---- */

enum way { BEST_FIT, FGD, LIST, SEEN, PRIOR, NOTHING, WRONG, WAYS };
static const struct {
    const char *name, *policy;
    enum learn learn;
} ways[WAYS] = {{"best fit", "bestfit", LEARN_LIST}, {"FGD", "fgd", LEARN_LIST},
                {"list", "pack", LEARN_LIST},        {"seen", "pack", LEARN_SEEN},
                {"prior", "pack", LEARN_PRIOR},      {"nothing", "pack", LEARN_NOTHING},
                {"another's list", "pack", LEARN_LIST}};

static int64_t no_time(void *self)
{
    (void)self;
    return 0;
}

/* GPU demand in percent that finds no place: of 130 % of the GPUs that come and stay, or of a load of all of
 * them that comes and goes; of each seed. */
static void run(size_t list, enum way way, bool churn, double ret[SEEDS])
{
    const struct trace *trace = &traces[list];
    const struct experiment experiment = {.trace = trace,
                                          .policy = sim_policy_find(str_from(ways[way].policy)),
                                          .clock = {no_time, NULL},
                                          .cpu_clock = {no_time, NULL},
                                          .learn = ways[way].learn,
                                          .mix = way == WRONG ? &wrong[list] : NULL};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct arena arena;
        struct arrivals arrivals;
        struct experiment_result result;
        struct sim_random random = {seed};
        arena_init(&arena, 0);
        assert_int_equal(churn ? arrivals_draw_ranks(trace, &random, &arena, &arrivals, NULL)
                               : arrivals_draw(trace, 1.3, &random, &arena, &arrivals, NULL), 0);
        assert_int_equal(churn ? experiment_churn(&experiment, &arrivals, ARRIVALS, 1, &random,
                                                  &arena, &result, NULL)
                               : experiment_inflation(&experiment, &arrivals, &random, &arena,
                                                      &result, NULL), 0);
        ret[seed - 1] = result.rejected_percent;
        arena_done(&arena);
    }
}

static double mean(const double lost[SEEDS])
{
    double sum = 0;
    for (int i = 0; i < SEEDS; i++)
        sum += lost[i];
    return sum / SEEDS;
}

/* Not more is lost than there, as far as so many pairs can tell: not by more than
 * two standard errors. */
static void hold(size_t list, enum way way, double lost[WAYS][SEEDS], enum way bar)
{
    double difference = mean(lost[way]) - mean(lost[bar]), squares = 0;
    for (int i = 0; i < SEEDS; i++) {
        double off = lost[way][i] - lost[bar][i] - difference;
        squares += off * off;
    }
    double error = sqrt(squares / (SEEDS - 1) / SEEDS);
    if (difference > 2 * error)
        fail_msg("%s, %s: %.2f %% rejected, %s %.2f, standard error of the difference %.2f",
                 recipes[list].name, ways[way].name, mean(lost[way]), ways[bar].name,
                 mean(lost[bar]), error);
}

static void hold_all(bool churn)
{
    bool print = getenv("FLOOR_TABLE") != NULL;
    for (size_t list = 0; list < PLAYED; list++) {
        double lost[WAYS][SEEDS];
        if (print)
            print_message("%-16s %-6s", recipes[list].name, churn ? "churn" : "fill");
        for (enum way way = 0; way < WAYS; way++) {
            run(list, way, churn, lost[way]);
            if (print)
                print_message(" %s %.2f", ways[way].name, mean(lost[way]));
        }
        if (print)
            print_message("\n");
        for (enum way way = LIST; way < WAYS; way++)
            hold(list, way, lost, BEST_FIT);
        hold(list, SEEN, lost, FGD);
        if (!churn && mean(lost[SEEN]) > mean(lost[LIST]) + SEEN_MAX)
            fail_msg("%s: %.2f %% rejected by what was seen, %.2f by the list", recipes[list].name,
                     mean(lost[SEEN]), mean(lost[LIST]));
    }
}

static void test_fill(void **state)
{
    (void)state;
    hold_all(false);
}

static void test_churn(void **state)
{
    (void)state;
    hold_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_churn),
    };
    return cmocka_run_group_tests(tests, make_lists, free_lists);
}
