/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ALLOCATE_H
#define CORE_ALLOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/device.h"
#include "core/policy.h"
#include "core/reason.h"
#include "core/request.h"

/*
 * Allocation on one node. A card fits if it has every dimension that the request names, and in
 * every dimension that the card has (also the derived one) what the request takes is free; a whole
 * card must hold no pod at all. So no decision takes a card below zero. Decided in integers only.
 */

/* Chosen shares of one pod on one node, by kind and minor ascending. */
struct plan {
    uint32_t count;
    struct share shares[CARDS_PER_POD_MAX];
};

/* Does the request fit on these cards now? REASON_FITS, or the first kind's shortage, or why
 * this kind can never be had here (no card of the kind listed, memory size unknown). The scan's
 * inner loop: reads only the hot columns, allocates nothing. */
enum reason allocate_check(const struct cards *cards, const struct pod_request *request);

/* Would it fit if nothing were booked on the node's usable cards, and if the unhealthy ones came
 * back as big as needed? False means that waiting is in vain. */
bool allocate_fits_empty(const struct cards *cards, const struct pod_request *request);

/* allocate_check for kube-scheduler: a shortage that no waiting mends is REASON_TOO_BIG. */
enum reason allocate_verdict(const struct cards *cards, const struct pod_request *request);

/* Choose cards. REASON_FITS and *ret_plan filled, or the reason of allocate_check and *ret_plan
 * untouched. */
enum reason allocate_choose(const struct cards *cards, const struct pod_request *request,
                            const struct device_policy *policy, struct plan *ret_plan);

/* Write for people what is short: per requested kind how many cards fit of how many are wanted
 * (for whole cards "1 of 2 whole cards is free"), and per card which dimension is short by how
 * much, or that it is unhealthy. Cut at `size` with "..."; returns the length. Empty text when
 * everything fits. */
size_t allocate_explain(const struct cards *cards, const struct pod_request *request, char *out,
                        size_t size);

#endif
