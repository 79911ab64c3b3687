/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_MODELS_H
#define CORE_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * Which models of cards a pod may use, by what it demands of the Node labels that name them. Only packing
 * asks (core/pack.h): who may run where is kube-scheduler's business.
 */

#define MODEL_NAMES_MAX 64 /* of one rule; a longer one says nothing */

/* The model is one of the names, or (`in` false) none of them. A Node that names no model has "". */
struct model_condition {
    bool in;
    const struct str *names;
    uint32_t count;
};

/* Conditions that hold together. */
struct model_term {
    const struct model_condition *conditions;
    uint32_t count;
};

/* All of `always`, and one of `terms` if there is any: a view. Zeroed: any model. */
struct model_rule {
    struct model_term always;
    const struct model_term *terms;
    uint32_t count;
};

/* The models that the rule allows, as bits: bit i for names[i], and each bit from `count` (at most 64)
 * on for a model that the rule does not name. All bits for a rule that says nothing. */
uint64_t models_allowed(const struct model_rule *rule, const struct str *names, uint32_t count);

#endif
