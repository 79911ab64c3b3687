/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_HAMI_H
#define CORE_HAMI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "core/request.h"

/*
 * HAMi's dialect (docs/hami.md; HAMi 2.10, docs/config.md): what a container asks for in nvidia.com
 * names is its own, on cards of its own. A GPU request without any of the three names is whole
 * cards, as with NVIDIA's plugin.
 */

#define MIB (INT64_C(1) << 20)

/* HAMi's device configuration, as far as it gives a request its meaning. */
struct hami_rules {
    int64_t default_memory_mib; /* defaultMem: where no memory is named; 0 = all of the card's */
    int64_t default_cores;      /* defaultCores: percent where no cores are named */
    int64_t memory_factor;      /* memoryFactor: MiB in one nvidia.com/gpumem */
};

/* HAMi's own defaults: 0, 0, 1. */
extern const struct hami_rules hami_rules_default;

/* Room for the detail of one pod; `containers` as many as the pod has. */
struct gpu_room {
    struct gpu_detail detail;
    struct container_request *containers;
};

/* One container's GPUs by HAMi's rule, *ret count 0 if it names none:
 *   cards    nvidia.com/gpu; 1 if only another name is there
 *   memory   nvidia.com/gpumem x memory_factor MiB; else gpumem-percentage, at most 100; else the
 * default; else 100 % core     nvidia.com/gpucores, at most 100; else the default; with 0 any card
 * of which some core is left; 100 takes a card alone Zero is as good as absent. nvidia.com/gpu
 * alone, where the rules have no defaults, is whole cards. -EINVAL for a negative amount, or memory
 * past CARD_BYTES_MAX: a sentence that names the container. */
int hami_container(const struct container *container, const struct hami_rules *rules,
                   struct device_request *ret, struct error *err);

/* The GPUs of a pod in nvidia.com names, and the detail in `room`: `request` is what request_parse
 * made of `effective`. A pod with HAMi's names, or with defaults in the rules, has its GPUs from
 * here; one with whole cards only keeps them, and the detail says whose they are. Nothing changes
 * for other pods. -EINVAL with a sentence as request_validate's. */
int hami_parse(const struct resources *effective, const struct container *containers,
               uint32_t count, const struct hami_rules *rules, struct gpu_room *room,
               struct pod_request *request, struct error *err);

/* The amounts of a share that HAMi's annotation states in whole MiB, on a card of this total: what
 * `request` (NULL if invalid) comes to there, if that is as many whole MiB. */
struct amount hami_amount(const struct pod_request *request, int64_t mib, int64_t percent,
                          const struct amount *card_total);

/* May the selection have a card of this model and id? Ids are compared as they are. A word of a
 * list stands for a model that contains it as a whole word, in any case: "A10" is not in "NVIDIA
 * A100", "A100" is in "NVIDIA-A100-SXM4-40GB". Exclusion wins; a list without words says nothing.
 */
bool card_selected(const struct card_selection *select, struct str model, struct str id);

#endif
