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

/* What one container gets of a GPU. */
struct part {
    uint32_t container; /* its place in pod order */
    enum container_role role;
    int32_t minor;
    struct amount amount;
};

/* Chosen shares of one pod on one node, by kind and minor ascending; and for a pod whose containers
 * ask for GPUs by nvidia.com names (struct gpu_detail), what each of them gets of these: in the
 * order of containers, minors ascending. A share is the most that parts of it come to at one time.
 */
struct plan {
    uint32_t count;
    struct share shares[CARDS_PER_POD_MAX];
    uint32_t part_count;
    struct part parts[CARDS_PER_POD_MAX];
};

/* The most that the parts of the card `minor` come to at one time, by Kubernetes' rule for what a
 * pod needs: app containers and sidecars side by side, or one init container beside the sidecars
 * before it. `parts` are in the order of containers. False if there is none. */
bool parts_peak(const struct part *parts, uint32_t count, int32_t minor, struct share *ret);

/* Does the request fit on these cards now? REASON_FITS, or the first kind's shortage, or why
 * this kind can never be had here (no card of the kind listed, memory size unknown). The scan's
 * inner loop: reads only the hot columns, allocates nothing. */
enum reason allocate_check(const struct cards *cards, const struct pod_request *request);

/* Would it fit if nothing were booked on the node's usable cards, and if the unhealthy ones came
 * back as big as needed? False means that waiting is in vain. */
bool allocate_fits_empty(const struct cards *cards, const struct pod_request *request);

/* allocate_check for kube-scheduler: a shortage that no waiting mends is REASON_TOO_BIG. */
enum reason allocate_verdict(const struct cards *cards, const struct pod_request *request);

/* A request made ready for a glance at many nodes; of kind DEVICE_KIND_MAX if a glance does not do. */
struct allocate_ask {
    enum device_kind kind;
    enum reason insufficient;
    bool whole, by_bytes;
    int64_t count;
    int64_t percent, ratio, bytes; /* -1: not named */
};

/* Make it ready. */
void allocate_ask(const struct pod_request *request, struct allocate_ask *ret);

/* Does a card with this fit take what is asked for? */
static inline bool allocate_takes(const struct card_fit *fit, const struct allocate_ask *ask)
{
    return (ask->percent <= fit->percent) & (ask->ratio <= fit->ratio) & (ask->bytes <= fit->bytes);
}

/* allocate_verdict() from what the cards come to (of all kinds) if that tells, else REASON_MAX: then the
 * cards themselves must be looked at. */
static inline enum reason allocate_glance(const struct cards_sum sums[DEVICE_KIND_MAX],
                                          const struct allocate_ask *ask)
{
    if (ask->kind == DEVICE_KIND_MAX)
        return REASON_MAX;
    const struct cards_sum *sum = &sums[ask->kind];
    bool fits = false;
    if (allocate_takes(&sum->most, ask)) {
        if (ask->whole) {
            if (!sum->uniform)
                return REASON_MAX;
            fits = ask->count <= sum->idle && allocate_takes(&sum->empty, ask);
        } else if (ask->count <= sum->count && allocate_takes(&sum->least, ask)) {
            fits = true;
        } else if (ask->count == 1 && sum->peak) {
            fits = true;
        } else if (ask->count < sum->count) {
            return REASON_MAX;
        }
    }
    if (fits)
        return REASON_FITS;
    if (!sum->uniform || (ask->by_bytes && !sum->memory_known))
        return REASON_MAX;
    return ask->count <= sum->count && allocate_takes(&sum->empty, ask) ? ask->insufficient
                                                                        : REASON_TOO_BIG;
}

/* Choose cards. REASON_FITS and *ret_plan filled, or the reason of allocate_check and *ret_plan
 * untouched. */
enum reason allocate_choose(const struct cards *cards, const struct pod_request *request,
                            const struct device_policy *policy, struct plan *ret_plan);

/* allocate_choose for a policy that looks at more than the cards; `site` (NULL: nothing more is known)
 * is that of the same cards and request. */
enum reason allocate_choose_at(const struct cards *cards, const struct pod_request *request,
                               const struct device_policy *policy, const struct pack_site *site,
                               struct plan *ret_plan);

/* Whether the card in `row` can take one card's part of the request now. */
bool allocate_card_fits(const struct cards *cards, uint32_t row,
                        const struct device_request *request);

/* Write for people what is short: per requested kind how many cards fit of how many are wanted
 * (for whole cards "1 of 2 whole cards is free"), and per card which dimension is short by how
 * much, or that it is unhealthy. Cut at `size` with "..."; returns the length. Empty text when
 * everything fits. */
size_t allocate_explain(const struct cards *cards, const struct pod_request *request, char *out,
                        size_t size);

#endif
