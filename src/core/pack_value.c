/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack_value.h"

#include <assert.h>
#include <string.h>

#define TINY       1e-9
#define SAME_PRICE 1e-12
#define ROUNDS_MAX                                                                                 \
    2000 /* far above what 100 sizes need; a stop before the best is still a price                 \
          */

void value_problem_init(struct value_problem *problem)
{
    memset(problem->demand, 0, sizeof(problem->demand));
    problem->count = 0;
}

void value_problem_add(struct value_problem *problem, int32_t milli, double weight)
{
    assert(milli > 0 && milli <= PACK_CARD_MILLI);
    problem->demand[pack_cells(milli)] += weight;
}

/* Begin with one pattern a size: as many of it as a card holds. */
static void start(struct value_problem *problem)
{
    double total = 0;
    problem->count = 0;
    for (int32_t cells = 1; cells <= PACK_CELLS; cells++) {
        if (problem->demand[cells] <= 0)
            continue;
        problem->size[problem->count++] = cells;
        total += problem->demand[cells];
    }
    memset(problem->inverse, 0, sizeof(problem->inverse));
    for (int32_t i = 0; i < problem->count; i++) {
        double held = PACK_CELLS / problem->size[i];
        problem->need[i] = problem->demand[problem->size[i]] / total;
        problem->inverse[i][i] = 1 / held;
        problem->amount[i] = problem->need[i] / held;
    }
}

static void find_prices(struct value_problem *problem)
{
    for (int32_t j = 0; j < problem->count; j++) {
        problem->price[j] = 0;
        for (int32_t i = 0; i < problem->count; i++)
            problem->price[j] += problem->inverse[i][j];
    }
}

/* The dearest pattern in each number of cells. */
static void fill_cards(struct value_problem *problem)
{
    problem->best[0] = 0;
    for (int32_t cells = 1; cells <= PACK_CELLS; cells++) {
        problem->best[cells] = problem->best[cells - 1];
        problem->pick[cells] = -1;
        for (int32_t j = 0; j < problem->count && problem->size[j] <= cells; j++) {
            double price = problem->best[cells - problem->size[j]] + problem->price[j];
            if (price > problem->best[cells] + SAME_PRICE) {
                problem->best[cells] = price;
                problem->pick[cells] = j;
            }
        }
    }
}

/* Choose the pattern that enters: the one that is dearest above the card it fills. False when there
 * is none: the prices are right. A size that is too cheap, even below 0, is left out of patterns.
 */
static bool choose_column(struct value_problem *problem)
{
    fill_cards(problem);
    if (problem->best[PACK_CELLS] <= 1 + TINY)
        return false;
    memset(problem->column, 0, sizeof(problem->column));
    for (int32_t cells = PACK_CELLS; cells > 0;) {
        int32_t j = problem->pick[cells];
        cells -= j >= 0 ? problem->size[j] : 1;
        if (j >= 0)
            problem->column[j] += 1;
    }
    return true;
}

/* The row whose pattern runs out first when the new one enters; -1 if none does. */
static int32_t choose_row(struct value_problem *problem)
{
    int32_t row = -1;
    double least = 0;
    for (int32_t i = 0; i < problem->count; i++) {
        problem->step[i] = 0;
        for (int32_t j = 0; j < problem->count; j++)
            problem->step[i] += problem->inverse[i][j] * problem->column[j];
        if (problem->step[i] <= TINY)
            continue;
        double ratio = problem->amount[i] / problem->step[i];
        if (row < 0 || ratio < least) {
            row = i;
            least = ratio;
        }
    }
    return row;
}

/* Put the new pattern into `row`. */
static void exchange(struct value_problem *problem, int32_t row)
{
    double pivot = problem->step[row];
    for (int32_t j = 0; j < problem->count; j++)
        problem->inverse[row][j] /= pivot;
    problem->amount[row] /= pivot;
    for (int32_t i = 0; i < problem->count; i++) {
        double step = problem->step[i];
        if (i == row || step == 0)
            continue;
        for (int32_t j = 0; j < problem->count; j++)
            problem->inverse[i][j] -= step * problem->inverse[row][j];
        problem->amount[i] -= step * problem->amount[row];
    }
}

void value_problem_solve(struct value_problem *problem, double ret[PACK_CELLS + 1])
{
    start(problem);
    if (problem->count == 0) {
        for (int32_t cells = 0; cells <= PACK_CELLS; cells++)
            ret[cells] = (double)cells / PACK_CELLS;
        return;
    }
    for (int round = 0; round < ROUNDS_MAX; round++) {
        find_prices(problem);
        int32_t row = choose_column(problem) ? choose_row(problem) : -1;
        if (row < 0)
            break;
        exchange(problem, row);
    }
    for (int32_t j = 0; j < problem->count; j++)
        if (problem->price[j] < 0)
            problem->price[j] = 0;
    fill_cards(problem);
    /* Prices that were not the best ones yet make too much of a card; in proportion they are right.
     */
    double whole = problem->best[PACK_CELLS];
    for (int32_t cells = 0; cells <= PACK_CELLS; cells++)
        ret[cells] = whole > 1 + TINY ? problem->best[cells] / whole : problem->best[cells];
}
