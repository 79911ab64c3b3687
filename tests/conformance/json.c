/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/quantity.h"

static void need(bool done)
{
    if (done)
        return;
    fputs("conformance: out of memory\n", stderr);
    exit(2);
}

json_object *json_get(json_object *object, const char *key)
{
    json_object *value = NULL;
    if (!json_object_is_type(object, json_type_object))
        return NULL;
    return json_object_object_get_ex(object, key, &value) ? value : NULL;
}

bool json_has(json_object *object, const char *key)
{
    return json_object_is_type(object, json_type_object) &&
           json_object_object_get_ex(object, key, NULL);
}

const char *json_text(json_object *object, const char *key, const char *fallback)
{
    json_object *value = json_get(object, key);
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : fallback;
}

bool json_truth(json_object *object, const char *key, bool fallback)
{
    json_object *value = json_get(object, key);
    return json_object_is_type(value, json_type_boolean) ? json_object_get_boolean(value)
                                                         : fallback;
}

bool json_says_nothing(json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return true;
    case json_type_boolean:
        return !json_object_get_boolean(value);
    case json_type_object:
        return json_object_object_length(value) == 0;
    case json_type_array:
        return json_object_array_length(value) == 0;
    case json_type_string:
        return json_object_get_string_len(value) == 0;
    case json_type_int:
    case json_type_double:
        return false;
    }
    return false;
}

bool json_number(json_object *value, int64_t *ret)
{
    if (json_object_is_type(value, json_type_int)) {
        *ret = json_object_get_int64(value);
        return true;
    }
    if (json_object_is_type(value, json_type_string))
        return quantity_parse(json_slice(value), ret, NULL) == 0;
    if (json_object_is_type(value, json_type_double))
        return quantity_parse(str_from(json_object_get_string(value)), ret, NULL) == 0;
    return false;
}

struct str json_slice(json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return (struct str){0};
    return (struct str){json_object_get_string(value), (size_t)json_object_get_string_len(value)};
}

const char *json_compact(json_object *value)
{
    if (value == NULL)
        return "null";
    return json_object_to_json_string_ext(value,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

json_object *json_new_object(void)
{
    json_object *object = json_object_new_object();
    need(object != NULL);
    return object;
}

json_object *json_new_array(void)
{
    json_object *array = json_object_new_array();
    need(array != NULL);
    return array;
}

void json_put(json_object *object, const char *key, json_object *value)
{
    need(json_object_object_add(object, key, value) == 0);
}

void json_put_int(json_object *object, const char *key, int64_t value)
{
    json_object *number = json_object_new_int64(value);
    need(number != NULL);
    json_put(object, key, number);
}

void json_put_bool(json_object *object, const char *key, bool value)
{
    json_object *truth = json_object_new_boolean(value);
    need(truth != NULL);
    json_put(object, key, truth);
}

void json_put_text(json_object *object, const char *key, const char *value)
{
    json_object *text = json_object_new_string(value);
    need(text != NULL);
    json_put(object, key, text);
}

void json_push(json_object *array, json_object *value)
{
    need(json_object_array_add(array, value) == 0);
}

json_object *json_sub(json_object *object, const char *key)
{
    json_object *sub = json_get(object, key);
    if (sub == NULL) {
        sub = json_new_object();
        json_put(object, key, sub);
    }
    return sub;
}
