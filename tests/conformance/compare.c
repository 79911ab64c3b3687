/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_label(const char *key)
{
    return strcmp(key, "minor") == 0 || strcmp(key, "id") == 0;
}

static int64_t minor_of(json_object *entry)
{
    int64_t minor = -1;
    (void)json_number(json_get(entry, "minor"), &minor);
    return minor;
}

static int by_minor(const void *a, const void *b)
{
    int64_t left = minor_of(*(json_object *const *)a), right = minor_of(*(json_object *const *)b);
    return (left > right) - (left < right);
}

/* A new value without zero amounts and empty maps, NULL when nothing remains. */
static json_object *normalize(json_object *value)
{
    int64_t number;
    if (json_object_is_type(value, json_type_object)) {
        json_object *kept = json_new_object();
        json_object_object_foreach(value, key, member) {
            json_object *remains = is_label(key) ? json_object_get(member) : normalize(member);
            if (remains != NULL)
                json_put(kept, key, remains);
        }
        if (json_object_object_length(kept) > 0)
            return kept;
        json_object_put(kept);
        return NULL;
    }
    if (json_object_is_type(value, json_type_array)) {
        json_object *kept = json_new_array();
        for (size_t i = 0; i < json_object_array_length(value); i++) {
            json_object *remains = normalize(json_object_array_get_idx(value, i));
            if (remains != NULL)
                json_push(kept, remains);
        }
        json_object_array_sort(kept, by_minor);
        if (json_object_array_length(kept) > 0)
            return kept;
        json_object_put(kept);
        return NULL;
    }
    if (json_number(value, &number))
        return number != 0 ? json_object_new_int64(number) : NULL;
    return json_object_get(value);
}

bool compare_amounts(struct vector *v, const char *field, json_object *expected, json_object *got)
{
    json_object *left = normalize(expected), *right = normalize(got);
    bool same = left == right || json_object_equal(left, right);
    if (!same)
        vector_fail(v, field, json_compact(left), json_compact(right));
    json_object_put(left);
    json_object_put(right);
    return same;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(json_object_get_string(*(json_object *const *)a),
                  json_object_get_string(*(json_object *const *)b));
}

/* A new sorted list of the texts in a list; NULL when something else is in it. */
static json_object *sorted_texts(json_object *list)
{
    if (list != NULL && !json_object_is_type(list, json_type_array))
        return NULL;
    json_object *sorted = json_new_array();
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        json_object *item = json_object_array_get_idx(list, i);
        if (!json_object_is_type(item, json_type_string)) {
            json_object_put(sorted);
            return NULL;
        }
        json_push(sorted, json_object_get(item));
    }
    json_object_array_sort(sorted, by_text);
    return sorted;
}

static bool same_set(json_object *expected, json_object *got)
{
    json_object *left = sorted_texts(expected), *right = sorted_texts(got);
    bool same = left != NULL && right != NULL && json_object_equal(left, right);
    json_object_put(left);
    json_object_put(right);
    return same;
}

static bool same_value(json_object *expected, json_object *got)
{
    int64_t left, right;
    if (json_object_is_type(got, json_type_int) && json_number(expected, &left) &&
        json_number(got, &right))
        return left == right;
    return expected == got || json_object_equal(expected, got);
}

static bool same_text(json_object *expected, json_object *got, enum compare_how how)
{
    if (!json_object_is_type(expected, json_type_string) ||
        !json_object_is_type(got, json_type_string))
        return false;
    const char *wanted = json_object_get_string(expected), *text = json_object_get_string(got);
    if (how == COMPARE_CONTAINS)
        return strstr(text, wanted) != NULL;
    return strncmp(text, wanted, strlen(wanted)) == 0;
}

static const struct expectation *find(const struct expectation *list, const char *field)
{
    for (; list->field != NULL; list++)
        if (strcmp(list->field, field) == 0)
            return list;
    return NULL;
}

static unsigned compare_object(struct vector *v, const char *prefix, const struct expectation *list,
                               json_object *expected, json_object *answer);

/* Returns the number of comparisons made. */
static unsigned compare_field(struct vector *v, const char *path, const struct expectation *field,
                              json_object *expected, json_object *got)
{
    bool same = true;
    switch (field->how) {
    case COMPARE_IGNORED:
        return 0;
    case COMPARE_FEATURE:
        if (!json_says_nothing(expected) &&
            !(json_object_is_type(expected, json_type_int) && json_object_get_int64(expected) == 0))
            vector_unsupported(v, "field expect.%s belongs to a later feature", path);
        return 0;
    case COMPARE_NESTED:
        if (json_object_is_type(expected, json_type_object) &&
            json_object_is_type(got, json_type_object))
            return compare_object(v, path, field->nested, expected, got);
        same = expected == NULL && got == NULL;
        break;
    case COMPARE_AMOUNTS:
        (void)compare_amounts(v, path, expected, got);
        return 1;
    case COMPARE_SET:
        same = same_set(expected, got);
        break;
    case COMPARE_EXACT:
        same = same_value(expected, got);
        break;
    case COMPARE_PREFIX:
    case COMPARE_CONTAINS:
        same = same_text(expected, got, field->how);
        break;
    }
    if (!same)
        vector_fail(v, path, json_compact(expected), json_compact(got));
    return 1;
}

static unsigned compare_object(struct vector *v, const char *prefix, const struct expectation *list,
                               json_object *expected, json_object *answer)
{
    unsigned compared = 0;
    json_object_object_foreach(expected, key, value) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix != '\0' ? "." : "", key);
        const struct expectation *field = find(list, key);
        if (field == NULL) {
            vector_unsupported(v, "unknown field expect.%s", path);
            continue;
        }
        const char *name = field->answer != NULL ? field->answer : field->field;
        compared += compare_field(v, path, field, value, json_get(answer, name));
    }
    return compared;
}

/* Whether each field is known is asked first, so that a record that cannot be judged prints
 * nothing. */
static void know_object(struct vector *v, const char *prefix, const struct expectation *list,
                        json_object *expected)
{
    if (!json_object_is_type(expected, json_type_object))
        return;
    json_object_object_foreach(expected, key, value) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix != '\0' ? "." : "", key);
        const struct expectation *field = find(list, key);
        if (field == NULL)
            vector_unsupported(v, "unknown field expect.%s", path);
        else if (field->how == COMPARE_NESTED)
            know_object(v, path, field->nested, value);
        else if (field->how == COMPARE_FEATURE)
            (void)compare_field(v, path, field, value, NULL);
    }
}

void compare_answer(struct vector *v, const struct expectation *expect, json_object *answer)
{
    if (!json_object_is_type(v->expect, json_type_object))
        vector_unsupported(v, "no expect");
    know_object(v, "", expect, v->expect);
    if (!vector_supported(v))
        return;
    if (compare_object(v, "", expect, v->expect, answer) == 0)
        vector_unsupported(v, "expect holds nothing to compare");
}
