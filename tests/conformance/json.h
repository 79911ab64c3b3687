/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFORMANCE_JSON_H
#define CONFORMANCE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "base/str.h"

/* Small readers over json-c. Objects are borrowed unless a function says "new". A program that runs
 * out of memory here ends: it is a test. */

/* The member `key`; NULL when it is absent or null, or `object` is no object. */
json_object *json_get(json_object *object, const char *key);

/* True when the member is there, even as null. */
bool json_has(json_object *object, const char *key);

/* The member as text, or `fallback` when it is absent or no string. */
const char *json_text(json_object *object, const char *key, const char *fallback);

/* The member as a truth value, or `fallback` when it is absent or none. */
bool json_truth(json_object *object, const char *key, bool fallback);

/* Null, {}, [], "" or false: says nothing. */
bool json_says_nothing(json_object *value);

/* A number, or a quantity in a string, as a whole number. */
bool json_number(json_object *value, int64_t *ret);

/* A string value as a slice into it. */
struct str json_slice(json_object *value);

/* Compact text of a value, owned by it (null is "null"). */
const char *json_compact(json_object *value);

/* A new empty object or array. */
json_object *json_new_object(void);
json_object *json_new_array(void);

/* Set a member of `object`, which takes `value` over. */
void json_put(json_object *object, const char *key, json_object *value);
void json_put_int(json_object *object, const char *key, int64_t value);
void json_put_bool(json_object *object, const char *key, bool value);
void json_put_text(json_object *object, const char *key, const char *value);

/* Append to `array`, which takes `value` over. */
void json_push(json_object *array, json_object *value);

/* The member `key` as an object; made empty when it is absent. */
json_object *json_sub(json_object *object, const char *key);

#endif
