/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "core/pack.h"
#include "core/pack_frag.h"
#include "core/pack_learn.h"
#include "core/pack_published.h"
#include "core/pack_value.h"

#define DEMANDS_MAX 16
#define MODELS      2

static struct pack_tables tables;
static struct pack_point points[2 * MODELS * (DEMANDS_MAX + 1)];

static void learn(const struct pack_demand *demands, uint32_t count)
{
    const struct pack_mix mix = {
        .demands = demands, .count = count, .models = MODELS, .cluster_cards = 6400};
    void *work = malloc(pack_learn_work_bytes(count));
    assert_non_null(work);
    assert_true(pack_learn_points(count, MODELS) <= sizeof(points) / sizeof(points[0]));
    pack_learn(&mix, &pack_default_weights, points, work, &tables);
    free(work);
}

static struct pack_demand demand(double weight, int64_t cpu, int64_t memory, int32_t cards,
                                 int32_t milli)
{
    return (struct pack_demand){{cpu, memory, cards, milli, PACK_MODELS_ANY, 0}, weight};
}

static struct pack_node node_of(int64_t cpu, int64_t memory, uint32_t cards, const int32_t *free)
{
    return (struct pack_node){cpu, memory, 0, cards, free};
}

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

/* ---- fitting ---- */

static void test_fits(void **state)
{
    (void)state;
    const int32_t cards[] = {300, 1000, 0};
    const struct pack_node node = node_of(4000, 100, 3, cards);
    struct pack_pod pod = {4000, 100, 1, 1000, PACK_MODELS_ANY, 0};
    assert_true(pack_fits(&node, &pod));
    pod.cpu_milli = 4001;
    assert_false(pack_fits(&node, &pod));
    pod.cpu_milli = 0;
    pod.memory_mib = 101;
    assert_false(pack_fits(&node, &pod));
    pod.memory_mib = 0;
    pod.cards = 2;
    assert_false(pack_fits(&node, &pod));
    pod.milli = 300;
    assert_true(pack_fits(&node, &pod));
    pod.models = 2; /* another model */
    assert_false(pack_fits(&node, &pod));
    pod.cards = 0; /* no card, no model */
    assert_true(pack_fits(&node, &pod));
}

/* ---- value of free space ---- */

static void value_of(const int32_t *milli, const double *weights, unsigned count, double *ret)
{
    static struct value_problem problem;
    value_problem_init(&problem);
    for (unsigned i = 0; i < count; i++)
        value_problem_add(&problem, milli[i], weights[i]);
    value_problem_solve(&problem, ret);
}

/* Two halves make a card; less than a half holds nothing. */
static void test_value_of_halves(void **state)
{
    (void)state;
    double value[PACK_CELLS + 1];
    value_of((int32_t[]){500, 1000}, (double[]){3, 2}, 2, value);
    assert_near(value[0], 0);
    assert_near(value[49], 0);
    assert_near(value[50], 0.5);
    assert_near(value[99], 0.5);
    assert_near(value[100], 1);
}

/* Every 600 needs a card of its own and the 400s ride along; with more 400s than 600s, a card more
 * is needed for every two 400s more. */
static void test_value_of_pairs(void **state)
{
    (void)state;
    double value[PACK_CELLS + 1];
    value_of((int32_t[]){600, 400}, (double[]){2, 1}, 2, value);
    assert_near(value[40], 0);
    assert_near(value[60], 1);
    value_of((int32_t[]){600, 400}, (double[]){1, 5}, 2, value);
    assert_near(value[39], 0);
    assert_near(value[40], 0.5);
    assert_near(value[60], 0.5);
    assert_near(value[80], 1);
}

/* Prices of every size that is asked for, and of none: the dual bound holds for any mix. */
static void test_value_bounds(void **state)
{
    (void)state;
    double value[PACK_CELLS + 1];
    int32_t milli[PACK_CELLS];
    double weights[PACK_CELLS];
    for (unsigned i = 0; i < PACK_CELLS; i++) {
        milli[i] = (int32_t)(i + 1) * PACK_CELL_MILLI;
        weights[i] = 1 + (i * 7919) % 101;
    }
    value_of(milli, weights, PACK_CELLS, value);
    assert_near(value[PACK_CELLS], 1);
    for (unsigned a = 0; a <= PACK_CELLS; a++)
        for (unsigned b = 0; a + b <= PACK_CELLS; b++)
            assert_true(value[a] + value[b] <= value[a + b] + 1e-9);
    value_of(NULL, NULL, 0, value);
    assert_near(value[25], 0.25);
}

/* A size between two cells is the nearer one, so that sizes which fill a card still do. */
static void test_cells(void **state)
{
    (void)state;
    double value[PACK_CELLS + 1];
    static const int32_t cells[][2] = {{0, 0},    {1, 1},   {4, 1},    {14, 1},  {15, 2},
                                       {583, 58}, {416, 42}, {995, 99}, {999, 99}, {1000, 100}};
    for (unsigned i = 0; i < sizeof cells / sizeof cells[0]; i++)
        assert_int_equal(pack_cells(cells[i][0]), cells[i][1]);
    value_of((int32_t[]){583, 416}, (double[]){1, 1}, 2, value); /* 14 and 10 GiB of 24 */
    assert_near(value[58] + value[42], 1);
    value_of((int32_t[]){501}, (double[]){1}, 1, value); /* the price of it: not always */
    assert_near(value[50], 0.5);
}

/* ---- fragmentation ---- */

/* Half of the pods want 500 milli and 2 cores, a quarter two cards, a quarter no GPU. */
static void learn_thirds(void)
{
    const struct pack_demand mix[] = {
        demand(2, 2000, 0, 1, 500),
        demand(1, 8000, 0, 2, 1000),
        demand(1, 1000, 0, 0, 0),
    };
    learn(mix, 3);
}

static void test_fragmentation(void **state)
{
    (void)state;
    learn_thirds();
    assert_int_equal(tables.typical_count, 3);
    const int32_t cards[] = {1000, 1000, 300};
    struct pack_node node = node_of(8000, 0, 3, cards);
    /* of 2300: 300 are too little for 500 and for whole ones; all is lost to the pod without GPU */
    assert_near(frag_of_node(&tables, &node), 0.5 * 300 + 0.25 * 300 + 0.25 * 2300);
    node.cpu_milli = 7999; /* none of it serves two cards */
    assert_near(frag_of_node(&tables, &node), 0.5 * 300 + 0.25 * 2300 + 0.25 * 2300);
    node.cpu_milli = 1999; /* nor anything */
    assert_near(frag_of_node(&tables, &node), 2300);
    node.cpu_milli = 8000;
    node.cards = 1; /* not two cards */
    assert_near(frag_of_node(&tables, &node), 0.25 * 1000 + 0.25 * 1000);
}

static void test_fragmentation_by_model(void **state)
{
    (void)state;
    struct pack_demand mix[] = {demand(1, 0, 0, 1, 500), demand(1, 0, 0, 1, 200)};
    mix[0].pod.models = 2;
    learn(mix, 2);
    const int32_t cards[] = {800};
    struct pack_node node = node_of(0, 0, 1, cards);
    assert_near(frag_of_node(&tables, &node), 400);
    node.model = 1;
    assert_near(frag_of_node(&tables, &node), 0);
}

/* 95 of 100 pods are covered by the two most frequent specs; the third has no say. */
static void test_typical_pods(void **state)
{
    (void)state;
    const struct pack_demand mix[] = {
        demand(5, 0, 0, 1, 990), demand(60, 1000, 0, 1, 100), demand(20, 9000, 1, 1, 200),
        demand(15, 9000, 2, 1, 200), /* the same but for memory */
    };
    learn(mix, 4);
    assert_int_equal(tables.typical_count, 2);
    assert_near(tables.typical[0].share, 60.0 / 95);
    assert_near(tables.typical[1].share, 35.0 / 95);
    assert_int_equal(tables.sizes[tables.typical[1].size], 200);
}

static void test_shape_moves(void **state)
{
    (void)state;
    learn_thirds();
    int32_t cards[] = {1000, 700, 1000};
    const struct pack_node node = node_of(9000, 0, 3, cards);
    struct frag_shape moved, fresh;
    frag_shape_init(&tables, &node, &moved);
    frag_shape_move(&tables, &moved, 2, 1000, 0);
    frag_shape_move(&tables, &moved, 1, 700, 200);
    cards[0] = cards[2] = 0;
    cards[1] = 200;
    frag_shape_init(&tables, &node, &fresh);
    assert_int_equal(moved.free_milli, fresh.free_milli);
    for (uint32_t i = 0; i < tables.size_count; i++) {
        assert_int_equal(moved.fitting[i], fresh.fitting[i]);
        assert_int_equal(moved.below[i], fresh.below[i]);
    }
}

/* ---- the published heuristics ---- */

static void test_bestfit(void **state)
{
    (void)state;
    const int32_t cards[] = {1000, 600, 500, 600};
    const struct pack_node node = node_of(64000, 0, 4, cards);
    const struct pack_pod pod = {32000, 0, 1, 500, PACK_MODELS_ANY, 0};
    int32_t card;
    /* left: a quarter of 128 cores and 2200 of 8000 milli: 100 (1 - 0.125 - 0.1375) = 73.75 */
    assert_int_equal(published_bestfit(&node, &pod, &card), 73);
    assert_int_equal(card, 2);
    const struct pack_pod larger = {32000, 0, 1, 550, PACK_MODELS_ANY, 0};
    published_bestfit(&node, &larger, &card);
    assert_int_equal(card, 1); /* the first of two equals */
    const struct pack_pod whole = {0, 0, 1, 1000, PACK_MODELS_ANY, 0};
    published_bestfit(&node, &whole, &card);
    assert_int_equal(card, PACK_NO_CARD);
}

static void test_fgd(void **state)
{
    (void)state;
    const struct pack_demand mix[] = {demand(1, 0, 0, 1, 500)};
    learn(mix, 1);
    const int32_t cards[] = {1000, 700};
    const struct pack_node node = node_of(0, 0, 2, cards);
    int32_t card;
    /* 300 on the first card leaves 700, F stays 0: 50. On the second it leaves 400 of no use:
     * F grows by 400, 100 / (1 + e^0.4) = 40.13. */
    const struct pack_pod pod = {0, 0, 1, 300, PACK_MODELS_ANY, 0};
    assert_int_equal(published_fgd(&tables, &node, &pod, &card), 50);
    assert_int_equal(card, 0);
    const struct pack_node second = node_of(0, 0, 1, cards + 1);
    assert_int_equal(published_fgd(&tables, &second, &pod, &card), 40);
    /* 700 fill the second card; on the first 300 would be lost */
    const struct pack_pod fits = {0, 0, 1, 700, PACK_MODELS_ANY, 0};
    assert_int_equal(published_fgd(&tables, &node, &fits, &card), 50);
    assert_int_equal(card, 1);
    /* 400 free already of no use, and used up: F falls, 100 / (1 + e^-0.4) = 59.87 */
    const int32_t waste[] = {400};
    const struct pack_node third = node_of(0, 0, 1, waste);
    const struct pack_pod takes = {0, 0, 1, 400, PACK_MODELS_ANY, 0};
    assert_int_equal(published_fgd(&tables, &third, &takes, &card), 59);
}

/* ---- pack ---- */

#define FIT(free_cards, cores) (0.0472 / 80 * (free_cards) + 6e-6 * (cores))

/* One kind of pod, a card and 4 cores: value and CPU leave the node together. */
static void test_gain_of_whole_card(void **state)
{
    (void)state;
    const struct pack_demand mix[] = {demand(1, 4000, 1000, 1, 1000)};
    learn(mix, 1);
    const int32_t cards[] = {0, 1000, 1000};
    const struct pack_node node = node_of(8000, 9000, 3, cards);
    struct pack_option options[PACK_OPTIONS_MAX];
    assert_int_equal(pack_options(&tables, &node, &mix[0].pod, NULL, options), 1);
    assert_int_equal(options[0].card, 1);
    assert_near(options[0].gain, -FIT(2, 8));
}

/* A pod without GPU takes 3 of 8 cores: 5 are left for two cards that need 3.6 each, nine tenths of
 * what they ask, and a card that lacks its 4 cores counts as wasted only below 4. */
static void test_gain_of_cpu_pod(void **state)
{
    (void)state;
    const struct pack_demand mix[] = {demand(1, 4000, 1000, 1, 1000)};
    learn(mix, 1);
    const int32_t cards[] = {1000, 1000};
    const struct pack_node node = node_of(8000, 9000, 2, cards);
    struct pack_pod pod = {3000, 0, 0, 0, PACK_MODELS_ANY, 0};
    struct pack_option options[PACK_OPTIONS_MAX];
    assert_int_equal(pack_options(&tables, &node, &pod, NULL, options), 1);
    assert_near(options[0].gain, 2 * (2500 / 3600.0) - 2 - FIT(2, 8));
    pod.cpu_milli = 5000;
    pack_options(&tables, &node, &pod, NULL, options);
    assert_near(options[0].gain, 2 * (1500 / 3600.0) - 2 - 0.12 * 2 - FIT(2, 8));
    pod.cpu_milli = 0;
    pod.memory_mib = 8000; /* 500 for each card that needs 1000 */
    pack_options(&tables, &node, &pod, NULL, options);
    assert_near(options[0].gain, 2 * 0.5 - 2 - FIT(2, 8));
}

/* Sizes 500 and 1000: a used card with 500 left keeps its worth for a 500, a whole one loses. */
static void test_options_of_shared_pod(void **state)
{
    (void)state;
    const struct pack_demand mix[] = {demand(1, 0, 0, 1, 500), demand(1, 0, 0, 1, 1000)};
    learn(mix, 2);
    const int32_t cards[] = {1000, 700, 500};
    const struct pack_node node = node_of(0, 0, 3, cards);
    struct pack_option options[PACK_OPTIONS_MAX];
    assert_int_equal(pack_options(&tables, &node, &mix[0].pod, NULL, options), 2);
    assert_int_equal(options[0].card, 2);
    assert_int_equal(options[1].card, 0);
    /* before: for half of the pods 500 and 700 are too little: F = 600; after 850 - 250 of that */
    assert_near(options[0].gain, -0.12 * (350 - 600) / 1000 - 1e-2 * 0.5 - FIT(2.2, 0));
    assert_near(options[1].gain, -0.12 * (850 - 600) / 1000 - 1e-2 - FIT(2.2, 0));
}

/* Nothing is known: less free on node and card is better, as in best fit. */
static void test_empty_mix_is_best_fit(void **state)
{
    (void)state;
    learn(NULL, 0);
    const int32_t cards[] = {900, 400, 600, 1000};
    const struct pack_node node = node_of(9000, 9000, 4, cards);
    const struct pack_node fuller = node_of(9000, 9000, 3, cards);
    const struct pack_pod pod = {1000, 1000, 1, 300, PACK_MODELS_ANY, 0};
    struct pack_option here[PACK_OPTIONS_MAX], there[PACK_OPTIONS_MAX];
    assert_int_equal(pack_options(&tables, &node, &pod, NULL, here), 2);
    assert_int_equal(here[0].card, 1);
    assert_true(here[0].gain > here[1].gain);
    pack_options(&tables, &fuller, &pod, NULL, there);
    assert_true(there[0].gain > here[0].gain);
    /* nothing says what CPU serves: thirty cores weigh as much as a card; with a mix they do not */
    assert_near(here[0].gain, -1e-2 * 0.4 - FIT(2.9 + 9.0 / 30, 0));
    assert_near(tables.weights.rank, 2e-4);
    const struct pack_demand mix[] = {demand(1, 4000, 1000, 1, 1000)};
    learn(mix, 1);
    assert_near(tables.weights.core_fit, 6e-6);
    assert_near(tables.weights.rank, 2e-3);
}

/* The smaller the cluster, the more a fuller node counts. */
static void test_node_fit_by_cluster(void **state)
{
    (void)state;
    static union {
        max_align_t align;
        char bytes[256 << 10];
    } work;
    const struct pack_demand mix[] = {demand(1, 4000, 1000, 1, 1000)};
    const uint32_t cards[] = {6400, 100, 1, 0};
    const double want[] = {0.0472 / 80, 0.00472, 0.0472, 0.0472};
    assert_true(pack_learn_work_bytes(1) <= sizeof(work));
    for (unsigned i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
        const struct pack_mix of = {
            .demands = mix, .count = 1, .models = MODELS, .cluster_cards = cards[i]};
        pack_learn(&of, &pack_default_weights, points, &work, &tables);
        assert_near(tables.weights.node_fit, want[i]);
    }
}

/* ---- prices ---- */

/* A quarter of the pods asks for two cards, 4 cores: the last copies are dear. */
static void test_scarcity(void **state)
{
    (void)state;
    const struct pack_demand mix[] = {demand(3, 1000, 0, 1, 1000), demand(1, 4000, 10, 2, 1000)};
    learn(mix, 2);
    assert_int_equal(tables.scarce_count, 1);
    assert_near(tables.fade, 0.15225 * 80);
    const int32_t cards[] = {1000, 1000, 1000, 1000, 1000};
    struct pack_node node = node_of(9000, 10, 5, cards);
    struct pack_market market = {0};
    struct pack_prices prices;
    pack_market_move(&tables, &market, &node, 1);
    assert_int_equal(market.copies[0], 1); /* by memory */
    node.memory_mib = 1000;
    pack_market_move(&tables, &market, &node, 1);
    assert_int_equal(market.copies[0], 3); /* and two by cards and cores */
    pack_price(&tables, &market, MODELS, &prices);
    assert_near(prices.copy[0], 60 * 0.25 * 2 * exp(-3 / tables.fade));
    pack_market_move(&tables, &market, &node, -1);
    assert_int_equal(market.copies[0], 1);

    struct pack_option options[PACK_OPTIONS_MAX];
    pack_options(&tables, &node, &mix[0].pod, NULL, options);
    assert_int_equal(options[0].lost[0], 0); /* 4 cards and 8 cores are left */
    node.cpu_milli = 8000;
    pack_options(&tables, &node, &mix[0].pod, NULL, options);
    assert_int_equal(options[0].lost[0], 1);
    assert_near(pack_copies_cost(&tables, &prices, options[0].lost), prices.copy[0]);
    node.cpu_milli = 20000;
    pack_options(&tables, &node, &mix[1].pod, NULL, options);
    assert_int_equal(options[0].lost[0], 1); /* of five cards it takes two */
}

/* Half of the value may go to model 0 only, which has a quarter of the room. */
static void test_model_prices(void **state)
{
    (void)state;
    struct pack_demand mix[] = {demand(1, 0, 0, 1, 1000), demand(1, 1, 0, 1, 1000)};
    mix[0].pod.models = 1;
    learn(mix, 2);
    const int32_t cards[] = {1000, 1000, 1000};
    struct pack_node node = node_of(9000, 10, 1, cards);
    struct pack_market market = {0};
    struct pack_prices prices;
    pack_market_move(&tables, &market, &node, 1);
    node.model = 1;
    node.cards = 3;
    pack_market_move(&tables, &market, &node, 1);
    pack_price(&tables, &market, MODELS, &prices);
    assert_near(prices.model[0], 0.5 / 0.25 + 0.5);
    assert_near(prices.model[1], 0.5);
    assert_near(pack_model_cost(&tables, &prices, &mix[1].pod, 0), 0.2 * 2.5);
    const struct pack_pod cpu_pod = {1000, 0, 0, 0, PACK_MODELS_ANY, 0};
    assert_near(pack_model_cost(&tables, &prices, &cpu_pod, 0), 0);
    /* nothing of model 0 is left: its price is bounded */
    const struct pack_market gone = {.free_value = {0, 3}};
    pack_price(&tables, &gone, MODELS, &prices);
    assert_near(prices.model[0], 0.5 / 0.002 + 0.5);
}

/* A sample with pods that are bound to a model: on each model one pod of two cards may be missing.
 */
static void test_missing_pods(void **state)
{
    (void)state;
    struct pack_demand mix[] = {demand(8, 0, 0, 1, 1000), demand(1, 0, 0, 2, 1000)};
    static union {
        max_align_t align;
        char bytes[256 << 10];
    } work;
    assert_true(pack_learn_work_bytes(2) <= sizeof(work));
    struct pack_mix sample = {
        .demands = mix, .count = 2, .models = MODELS, .cluster_cards = 6400, .missing = 1};
    pack_learn(&sample, &pack_default_weights, points, &work, &tables);
    assert_int_equal(tables.group_count, 1 + MODELS); /* nobody asks for a model, a few may */
    assert_near(tables.groups[0].share, 0.98);
    assert_near(tables.groups[1].share, 0.01);
    sample.cards[1] = 64; /* by its cards; model 0 has none */
    pack_learn(&sample, &pack_default_weights, points, &work, &tables);
    assert_int_equal(tables.group_count, 2);
    assert_true(tables.groups[1].models == 2);
    assert_near(tables.groups[1].share, 0.02);
    sample.cards[1] = 0;
    mix[1].pod.models = 1;
    pack_learn(&sample, &pack_default_weights, points, &work, &tables);
    assert_int_equal(tables.group_count, 3);
    assert_near(tables.groups[0].share, 8.0 / 14);
    assert_near(tables.groups[1].share, 4.0 / 14); /* seen and missing */
    assert_near(tables.groups[2].share, 2.0 / 14);
    assert_true(tables.groups[2].models == 2);
    sample.missing = 0;
    pack_learn(&sample, &pack_default_weights, points, &work, &tables);
    assert_near(tables.groups[1].share, 2.0 / 10);
}

/* A pod of two cards depends on the model that has nodes with two, whether it names it or not. */
static void test_models_with_room(void **state)
{
    (void)state;
    struct pack_demand mix[] = {demand(8, 0, 0, 1, 1000), demand(1, 0, 0, 2, 1000),
                                demand(1, 0, 0, 8, 1000)};
    mix[0].pod.models = 1;
    static union {
        max_align_t align;
        char bytes[256 << 10];
    } work;
    assert_true(pack_learn_work_bytes(3) <= sizeof(work));
    const struct pack_mix known = {.demands = mix, .count = 3, .models = MODELS,
                                   .cluster_cards = 6400, .largest = {1, 4}};
    pack_learn(&known, &pack_default_weights, points, &work, &tables);
    assert_int_equal(tables.group_count, 3);
    assert_near(tables.groups[0].share, 8.0 / 18);
    assert_true(tables.groups[1].models == (PACK_MODELS_ANY & ~UINT64_C(1)));
    assert_near(tables.groups[1].share, 2.0 / 18);
    assert_true((tables.groups[2].models & 3) == 3); /* no node has eight: any may get one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_value_of_halves),
        cmocka_unit_test(test_value_of_pairs),
        cmocka_unit_test(test_value_bounds),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_fragmentation),
        cmocka_unit_test(test_fragmentation_by_model),
        cmocka_unit_test(test_typical_pods),
        cmocka_unit_test(test_shape_moves),
        cmocka_unit_test(test_bestfit),
        cmocka_unit_test(test_fgd),
        cmocka_unit_test(test_gain_of_whole_card),
        cmocka_unit_test(test_gain_of_cpu_pod),
        cmocka_unit_test(test_options_of_shared_pod),
        cmocka_unit_test(test_empty_mix_is_best_fit),
        cmocka_unit_test(test_node_fit_by_cluster),
        cmocka_unit_test(test_scarcity),
        cmocka_unit_test(test_model_prices),
        cmocka_unit_test(test_missing_pods),
        cmocka_unit_test(test_models_with_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
