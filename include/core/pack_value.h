/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PACK_VALUE_H
#define CORE_PACK_VALUE_H

#include "core/pack.h"

/*
 * What free space on a card is worth: "fewest cards that hold this mix of sizes" as a linear
 * problem over cutting patterns, solved by column generation. A size is worth its dual price, the
 * part of a card that one more such pod costs; free cells are worth the best set of sizes that they
 * hold.
 */
struct value_problem {
    double demand[PACK_CELLS + 1];          /* by size in cells; 0: not asked for */
    int32_t size[PACK_CELLS];               /* the sizes asked for, ascending */
    double need[PACK_CELLS];                /* their parts of the demand */
    double inverse[PACK_CELLS][PACK_CELLS]; /* of the basis: a row a pattern, a column a size */
    double amount[PACK_CELLS];              /* of the pattern in each row of the basis */
    double price[PACK_CELLS];               /* of each size */
    double column[PACK_CELLS],
        step[PACK_CELLS];         /* the pattern that enters; in terms of the basis */
    double best[PACK_CELLS + 1];  /* price of the best pattern in so many cells */
    int32_t pick[PACK_CELLS + 1]; /* a size in it; -1: the last cell stays empty */
    int32_t count;
};

/* An empty problem. */
void value_problem_init(struct value_problem *problem);

/* Add `weight` pods of `milli` (1..PACK_CARD_MILLI; in cells as of pack_cells). */
void value_problem_add(struct value_problem *problem, int32_t milli, double weight);

/* The value of 0..PACK_CELLS free cells; that of a whole card is 1. Without demands it is the plain
 * share of the card. */
void value_problem_solve(struct value_problem *problem, double ret[PACK_CELLS + 1]);

#endif
