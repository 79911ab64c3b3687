/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CHARGE_H
#define CORE_CHARGE_H

#include <stdint.h>

#include "core/allocate.h"
#include "core/device.h"
#include "core/request.h"

/*
 * What a placed pod is charged for, as a pure function of its annotation, its own request and the
 * node's cards as they are now. It is the same function for our own bookings and for pods placed by
 * others, and it is asked again whenever the node's cards change; so a restart and any order of
 * events end in the same state.
 */
enum charge_trust {
    CHARGE_TRUSTED,      /* annotation agrees with the request: charged as written */
    CHARGE_INCONSISTENT, /* all cards are named, amounts differ: the larger, per dimension */
    CHARGE_UNKNOWN,      /* fewer cards named than requested (maybe none): the rest is somewhere */
};

/* `unlisted` GPUs are named beside `shares`, by ids that none of the node's cards has: they count
 * as named, and are charged nowhere. Of containers that are placed apart the annotation tells only
 * sums: these must come to what the containers ask for together.
 *
 * `request` NULL = the pod's request is invalid and says nothing: charged as the annotation
 * says, CHARGE_INCONSISTENT (CHARGE_UNKNOWN without shares). `shares` are the annotation's,
 * merged by card; a dimension that is 0 there and not named by the request is derived from the
 * card's present total. A derived ratio one below the exact one is believed, because Koordinator's
 * doubles produce it, and no derived figure is doubted on a card whose size is not known now. Every
 * amount is bounded by CARD_PERCENT_MAX and CARD_BYTES_MAX. Writes at most CARDS_PER_POD_MAX shares
 * to ret_plan, in the order of `shares` (which are sorted by kind and minor, unique, count <=
 * CARDS_PER_POD_MAX). */
enum charge_trust charge_of(const struct cards *cards, const struct pod_request *request,
                            const struct share *shares, uint32_t count, uint32_t unlisted,
                            struct plan *ret_plan);

#endif
