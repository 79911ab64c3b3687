/* SPDX-License-Identifier: Apache-2.0 */
#include "core/models.h"

#include <stddef.h>

#define MODELS_MAX 64 /* bits */

/* `name` NULL is a model that no condition names. */
static bool holds(const struct model_condition *condition, const struct str *name)
{
    bool named = false;
    for (uint32_t i = 0; name != NULL && i < condition->count && !named; i++)
        named = str_eq(condition->names[i], *name);
    return named == condition->in;
}

static bool term_holds(const struct model_term *term, const struct str *name)
{
    for (uint32_t i = 0; i < term->count; i++)
        if (!holds(&term->conditions[i], name))
            return false;
    return true;
}

static bool allowed(const struct model_rule *rule, const struct str *name)
{
    bool any = rule->count == 0;
    for (uint32_t i = 0; i < rule->count && !any; i++)
        any = term_holds(&rule->terms[i], name);
    return any && term_holds(&rule->always, name);
}

uint64_t models_allowed(const struct model_rule *rule, const struct str *names, uint32_t count)
{
    uint64_t models = allowed(rule, NULL) ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < count && i < MODELS_MAX; i++) {
        uint64_t bit = UINT64_C(1) << i;
        models = allowed(rule, &names[i]) ? models | bit : models & ~bit;
    }
    return models;
}
