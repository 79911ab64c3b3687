/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/constraints.h"

#include "codec/extender.h"
#include "codec/model_rule.h"
#include "codec/reader.h"

#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"

static const char *const fields[CONSTRAINT_MAX] = {
    [CONSTRAINT_SELECTOR] = "spec.nodeSelector",
    [CONSTRAINT_NODE_AFFINITY] = "spec.affinity.nodeAffinity",
    [CONSTRAINT_POD_AFFINITY] = "spec.affinity.podAffinity",
    [CONSTRAINT_POD_ANTI_AFFINITY] = "spec.affinity.podAntiAffinity",
    [CONSTRAINT_SPREAD] = "spec.topologySpreadConstraints",
    [CONSTRAINT_UNSCHEDULABLE] = "spec.unschedulable",
    [CONSTRAINT_TAINTS] = "spec.taints",
};

const char *constraint_field(enum constraint constraint)
{
    return fields[constraint];
}

/* The member `name` of what may be an object; data NULL if it has none. */
static struct str member(struct str value, const char *name)
{
    struct reader_field field[] = {{.name = name}};
    struct error unused;
    if (value.data == NULL || reader_object(value, READER_FIELDS(field), &unused) < 0)
        return (struct str){0};
    return field->value;
}

/* The "spec" of an object's text. */
static struct str spec_of(struct str json)
{
    struct error unused;
    struct str value;
    if (reader_check(json, codec_default_limits.nesting, &value, &unused) < 0)
        return (struct str){0};
    return member(value, "spec");
}

/* The items of what may be an array. */
static struct reader_iter items(struct str value)
{
    bool is_array = value.data != NULL && reader_type(value) == READER_ARRAY;
    return is_array ? reader_iterate(value) : (struct reader_iter){0};
}

static bool any_item(struct str value)
{
    struct reader_iter iter = items(value);
    struct str item;
    return iter.at != NULL && reader_next_item(&iter, &item);
}

/* A member that is this word. Words of the API need no escapes. */
static bool member_is(struct str value, const char *name, const char *word)
{
    char buffer[READER_KEY_MAX];
    struct str text = member(value, name);
    return text.data != NULL && reader_type(text) == READER_STRING &&
           str_is(reader_key(text, buffer), word);
}

static uint32_t bit_if(bool condition, enum constraint constraint)
{
    return condition ? UINT32_C(1) << constraint : 0;
}

/* ---- pods ---- */

static bool names_model(struct str key)
{
    return str_is(key, LABEL_GPU_MODEL) || str_is(key, LABEL_GPU_PRODUCT);
}

static bool selects_otherwise(struct str selector)
{
    char buffer[READER_KEY_MAX];
    struct str key, value;
    if (selector.data == NULL || reader_type(selector) != READER_OBJECT)
        return false;
    struct reader_iter iter = reader_iterate(selector);
    while (reader_next_member(&iter, &key, &value))
        if (!names_model(reader_key(key, buffer)))
            return true;
    return false;
}

/* An expression about a model's label; Gt and Lt compare it as a number and say nothing of models. */
static bool is_about_models(struct str expression)
{
    char buffer[READER_KEY_MAX];
    struct str key = member(expression, "key");
    return key.data != NULL && reader_type(key) == READER_STRING &&
           names_model(reader_key(key, buffer)) && !member_is(expression, "operator", "Gt") &&
           !member_is(expression, "operator", "Lt");
}

static bool term_is_about_models(struct str term)
{
    struct str item;
    if (any_item(member(term, "matchFields")))
        return false;
    struct reader_iter iter = items(member(term, "matchExpressions"));
    while (iter.at != NULL && reader_next_item(&iter, &item))
        if (!is_about_models(item))
            return false;
    return true;
}

static bool demands_otherwise(struct str node_affinity)
{
    struct reader_iter iter = items(member(member(node_affinity, REQUIRED), "nodeSelectorTerms"));
    struct str term;
    while (iter.at != NULL && reader_next_item(&iter, &term))
        if (!term_is_about_models(term))
            return true;
    return false;
}

/* Without a word DoNotSchedule is meant. */
static bool must_spread(struct str constraints)
{
    struct reader_iter iter = items(constraints);
    struct str item;
    while (iter.at != NULL && reader_next_item(&iter, &item))
        if (!member_is(item, "whenUnsatisfiable", "ScheduleAnyway"))
            return true;
    return false;
}

uint32_t constraints_of_pod(struct str json)
{
    struct str spec = spec_of(json), affinity = member(spec, "affinity");
    struct str near = member(member(affinity, "podAffinity"), REQUIRED);
    struct str apart = member(member(affinity, "podAntiAffinity"), REQUIRED);
    return bit_if(selects_otherwise(member(spec, "nodeSelector")), CONSTRAINT_SELECTOR) |
           bit_if(demands_otherwise(member(affinity, "nodeAffinity")), CONSTRAINT_NODE_AFFINITY) |
           bit_if(any_item(near), CONSTRAINT_POD_AFFINITY) |
           bit_if(any_item(apart), CONSTRAINT_POD_ANTI_AFFINITY) |
           bit_if(must_spread(member(spec, "topologySpreadConstraints")), CONSTRAINT_SPREAD);
}

/* ---- nodes ---- */

static bool keeps_away(struct str taints)
{
    struct reader_iter iter = items(taints);
    struct str item;
    while (iter.at != NULL && reader_next_item(&iter, &item))
        if (!member_is(item, "effect", "PreferNoSchedule"))
            return true;
    return false;
}

uint32_t constraints_of_node(struct str json)
{
    struct str spec = spec_of(json), cordoned = member(spec, "unschedulable");
    return bit_if(cordoned.data != NULL && str_is(cordoned, "true"), CONSTRAINT_UNSCHEDULABLE) |
           bit_if(keeps_away(member(spec, "taints")), CONSTRAINT_TAINTS);
}
