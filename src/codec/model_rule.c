/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/model_rule.h"

#include <errno.h>
#include <stddef.h>

static const char *const labels[] = {LABEL_GPU_MODEL, LABEL_GPU_PRODUCT};

enum { LABELS = sizeof labels / sizeof labels[0], UNCLEAR = 1 };

static bool is_label(struct str key)
{
    for (size_t i = 0; i < LABELS; i++)
        if (str_is(key, labels[i]))
            return true;
    return false;
}

/* Room for the parts of one rule; taken from the front. */
struct room {
    struct arena *mem;
    struct str *names;
    struct model_condition *conditions;
    struct model_term *terms;
    uint32_t name_count, condition_count, term_count;
};

static int make_room(struct arena *mem, struct room *ret, struct error *err)
{
    *ret = (struct room){
        .mem = mem,
        .names = arena_alloc(mem, MODEL_NAMES_MAX, sizeof *ret->names),
        .conditions = arena_alloc(mem, MODEL_NAMES_MAX, sizeof *ret->conditions),
        .terms = arena_alloc(mem, MODEL_NAMES_MAX, sizeof *ret->terms),
    };
    bool all = ret->names != NULL && ret->conditions != NULL && ret->terms != NULL;
    return all ? 0 : reader_no_memory(err);
}

/* Every function below gives 0, -ENOMEM, or UNCLEAR: then the rule says nothing. */

static int add_name(struct room *room, struct str value, struct error *err)
{
    if (room->name_count == MODEL_NAMES_MAX || reader_type(value) != READER_STRING)
        return UNCLEAR;
    return reader_string(value, room->mem, &room->names[room->name_count++], err) < 0 ? -ENOMEM : 0;
}

/* A condition on the names added since there were `from`. */
static int add_condition(struct room *room, bool in, uint32_t from)
{
    if (room->condition_count == MODEL_NAMES_MAX)
        return UNCLEAR;
    room->conditions[room->condition_count++] =
        (struct model_condition){in, &room->names[from], room->name_count - from};
    return 0;
}

/* ---- nodeSelector ---- */

static int read_selector(const struct reader_field *selector, struct room *room,
                         struct model_term *ret, struct error *err)
{
    struct str value;
    if (selector->value.data == NULL)
        return 0;
    if (reader_type(selector->value) != READER_OBJECT)
        return UNCLEAR;
    for (size_t i = 0; i < LABELS; i++) {
        if (!reader_find(selector->value, labels[i], &value))
            continue;
        uint32_t from = room->name_count;
        int rc = add_name(room, value, err);
        if (rc == 0)
            rc = add_condition(room, true, from);
        if (rc != 0)
            return rc;
    }
    *ret = (struct model_term){room->conditions, room->condition_count};
    return 0;
}

/* ---- affinity ---- */

static int add_names(const struct reader_field *values, struct room *room, struct error *err)
{
    uint32_t count = 0;
    if (reader_field_array(values, &count, err) < 0)
        return UNCLEAR;
    if (count == 0)
        return 0;
    struct reader_iter iter = reader_iterate(values->value);
    struct str value;
    while (reader_next_item(&iter, &value)) {
        int rc = add_name(room, value, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Exists is "not without a name", DoesNotExist "without a name". */
static int add_expression(struct str op, const struct reader_field *values, struct room *room,
                          struct error *err)
{
    uint32_t from = room->name_count;
    bool exists = str_is(op, "Exists"), absent = str_is(op, "DoesNotExist");
    if (exists || absent) {
        if (room->name_count == MODEL_NAMES_MAX)
            return UNCLEAR;
        room->names[room->name_count++] = STR("");
        return add_condition(room, absent, from);
    }
    bool in = str_is(op, "In");
    if (!in && !str_is(op, "NotIn"))
        return 0;
    int rc = add_names(values, room, err);
    return rc != 0 ? rc : add_condition(room, in, from);
}

static int read_expression(struct str value, struct room *room, struct error *err)
{
    enum { KEY, OPERATOR, VALUES };
    struct reader_field fields[] = {
        [KEY] = {.name = "key"}, [OPERATOR] = {.name = "operator"}, [VALUES] = {.name = "values"}};
    struct str key = STR(""), op = STR("");
    if (reader_object(value, READER_FIELDS(fields), err) < 0)
        return UNCLEAR;
    int rc = reader_field_string(&fields[KEY], room->mem, &key, err);
    if (rc == 0)
        rc = reader_field_string(&fields[OPERATOR], room->mem, &op, err);
    if (rc < 0)
        return rc == -ENOMEM ? rc : UNCLEAR;
    return is_label(key) ? add_expression(op, &fields[VALUES], room, err) : 0;
}

static int read_term(struct str value, struct room *room, struct error *err)
{
    struct reader_field expressions[] = {{.name = "matchExpressions"}};
    uint32_t count = 0, from = room->condition_count;
    if (room->term_count == MODEL_NAMES_MAX ||
        reader_object(value, READER_FIELDS(expressions), err) < 0 ||
        reader_field_array(expressions, &count, err) < 0)
        return UNCLEAR;
    struct reader_iter iter = count > 0 ? reader_iterate(expressions->value) : (struct reader_iter){0};
    struct str item;
    for (uint32_t i = 0; i < count && reader_next_item(&iter, &item); i++) {
        int rc = read_expression(item, room, err);
        if (rc != 0)
            return rc;
    }
    room->terms[room->term_count++] =
        (struct model_term){&room->conditions[from], room->condition_count - from};
    return 0;
}

static int read_affinity(const struct reader_field *affinity, struct room *room, struct error *err)
{
    struct reader_field node[] = {{.name = "nodeAffinity"}};
    struct reader_field required[] = {{.name = "requiredDuringSchedulingIgnoredDuringExecution"}};
    struct reader_field terms[] = {{.name = "nodeSelectorTerms"}};
    uint32_t count = 0;
    if (reader_field_object(affinity, READER_FIELDS(node), err) < 0 ||
        reader_field_object(node, READER_FIELDS(required), err) < 0 ||
        reader_field_object(required, READER_FIELDS(terms), err) < 0 ||
        reader_field_array(terms, &count, err) < 0)
        return UNCLEAR;
    if (count == 0)
        return 0;
    struct reader_iter iter = reader_iterate(terms->value);
    struct str item;
    while (reader_next_item(&iter, &item)) {
        int rc = read_term(item, room, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int model_rule_decode(const struct reader_field *selector, const struct reader_field *affinity,
                      struct arena *mem, struct model_rule *ret, struct error *err)
{
    struct room room;
    *ret = (struct model_rule){0};
    if (selector->value.data == NULL && affinity->value.data == NULL)
        return 0;
    if (make_room(mem, &room, err) < 0)
        return -ENOMEM;
    struct model_rule rule = {0};
    int rc = read_selector(selector, &room, &rule.always, err);
    if (rc == 0)
        rc = read_affinity(affinity, &room, err);
    rule.terms = room.terms;
    rule.count = room.term_count;
    if (rc == 0)
        *ret = rule;
    return rc < 0 ? rc : 0;
}
