/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PACK_PUBLISHED_H
#define CORE_PACK_PUBLISHED_H

#include "core/pack.h"

/*
 * The two published heuristics that packing is measured against, with their truncations, which are
 * part of them. Scores are 0..100, higher is better, for a pod that fits.
 */

/* FGD: how little F grows, on the card where it grows least, the first of equals. *ret_card is that
 * card, PACK_NO_CARD for whole cards or none. */
int32_t published_fgd(const struct pack_tables *tables, const struct pack_node *node,
                      const struct pack_pod *pod, int32_t *ret_card);

/* BestFit: how little is left of a node of 128 cores and 8 cards; *ret_card is the fullest card
 * that fits. */
int32_t published_bestfit(const struct pack_node *node, const struct pack_pod *pod,
                          int32_t *ret_card);

/* The fullest card that fits a shared pod, the first of equals; PACK_NO_CARD for other pods. */
int32_t pack_tightest_card(const struct pack_node *node, const struct pack_pod *pod);

#endif
