/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ALLOCATE_INTERNAL_H
#define CORE_ALLOCATE_INTERNAL_H

#include "core/allocate.h"

/* What the files of the allocator share; nobody else includes this. */

/* Cards that are to be taken first, then by the policy: `first` has one entry a row, or is NULL. */
struct card_order {
    const struct device_policy *policy;
    const bool *first;
};

/* allocate_check and allocate_fits_empty of every kind, without details. */
enum reason allocate_check_plain(const struct cards *cards, const struct pod_request *request);
bool allocate_fits_empty_plain(const struct cards *cards, const struct pod_request *request);

/* The rows of one kind that a request gets, ascending. Returns how many, at most request->count:
 * fewer when fewer fit. request->count <= CARDS_PER_POD_MAX. */
uint32_t allocate_pick(const struct cards *cards, enum device_kind kind,
                       const struct device_request *request, const struct card_order *order,
                       uint32_t rows[CARDS_PER_POD_MAX]);

/* Has the request a detail that the plain functions do not know of? */
bool allocate_has_detail(const struct pod_request *request);

/* The same three for a request with such a detail. */
enum reason allocate_check_detailed(const struct cards *cards, const struct pod_request *request);
bool allocate_fits_empty_detailed(const struct cards *cards, const struct pod_request *request);
enum reason allocate_choose_detailed(const struct cards *cards, const struct pod_request *request,
                                     const struct device_policy *policy, struct plan *ret_plan);

/* Choose the cards of every kind for which the request fits, without details, but for `but`. */
void allocate_choose_kinds(const struct cards *cards, const struct pod_request *request,
                           enum device_kind but, const struct device_policy *policy,
                           struct plan *plan);

/* Tell whose the shares of a plan are, for a request whose containers are not placed apart. */
void allocate_assign_parts(const struct gpu_detail *detail, struct plan *plan);

#endif
