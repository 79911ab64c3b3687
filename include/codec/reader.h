/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_READER_H
#define CODEC_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/unset.h"

/*
 * Reading JSON without building a tree: for this layer, and for embed, which turns JSON into YAML.
 *
 * reader_check() judges a text once, to the letter of RFC 8259 plus valid UTF-8. After that a value is
 * nothing but its slice of the text, cut exactly, and the other functions walk such slices without
 * failing. Nothing is copied before it is asked for, and an item can be handed on byte for byte.
 *
 * Errors gather their path from the inside out: the innermost sentence starts with ": ", reader_at() puts
 * one step of the path before it, and the outermost caller has "Pod.metadata.uid: must be a string".
 * `err` must not be NULL here.
 */

enum reader_type { READER_NULL, READER_BOOL, READER_NUMBER, READER_STRING, READER_ARRAY, READER_OBJECT };

/* Accept exactly one JSON value with blanks around it, at most `nesting` levels deep (0 = scalars only),
 * and give its slice. -EINVAL with the byte where it ends to be JSON, -E2BIG when nested deeper. */
#define READER_NESTING_MAX 512u /* `nesting` is at most this */
int reader_check(struct str text, uint32_t nesting, struct str *ret_value, struct error *err);

/* Type of a value. */
enum reader_type reader_type(struct str value);

/* Length of the well-formed UTF-8 sequence that starts at `at` (< end), 0 if there is none. */
size_t reader_utf8_length(const char *at, const char *end);

/* ---- walking ---- */

struct reader_token;

struct reader_iter {
    const char *at;
    const char *end;
    const struct reader_token *token, *behind; /* of the next value or key, where those are noted, and
                                                  behind the last */
};

/* Start on the items of an array or the members of an object. */
struct reader_iter reader_iterate(struct str container);

/* The next item of an array; false at its end. */
bool reader_next_item(struct reader_iter *iter, struct str *ret_value);

/* The next item of an array if it is a string without escapes: its text, a slice of the array. False and
 * nothing moved if it is something else, or at the end. */
bool reader_next_text(struct reader_iter *iter, struct str *ret_text);

/* Keys are compared in this room; a longer key with escapes in it equals no known name. */
#define READER_KEY_MAX 512

/* The next member of an object, its key still with quotes and escapes; false at its end. */
bool reader_next_member(struct reader_iter *iter, struct str *ret_key, struct str *ret_value);

/* The same with the text of its key, as reader_key() gives it. */
bool reader_next_named(struct reader_iter *iter, char buffer[READER_KEY_MAX], struct str *ret_name,
                       struct str *ret_value);

/* Number of items of an array or members of an object, cut at UINT32_MAX. */
uint32_t reader_count(struct str container);

/* The text of a key: a slice of it when there is no escape, else decoded into `buffer`. An escaped key
 * that is too long gives data NULL. */
struct str reader_key(struct str key, char buffer[READER_KEY_MAX]);

/* The value of the last member called exactly `name`; false when it is missing or null. For maps, whose
 * keys are data. */
bool reader_find(struct str object, const char *name, struct str *ret_value);

/* ---- fields of a struct ---- */

/* One field that a decoder knows. */
struct reader_field {
    const char *name;
    struct str value; /* data NULL when missing or null */
};

/* An array of fields with its length, as two arguments. */
#define READER_FIELDS(fields) (fields), (uint32_t)(sizeof(fields) / sizeof((fields)[0]))

/* Find known fields of an object as Go does: letter case does not matter (ASCII), the last member wins,
 * null is missing. A missing object (data NULL) has no fields; another type is an error. */
int reader_object(struct str value, struct reader_field *fields, uint32_t count, struct error *err);

/* reader_object() on a field's value; the path in an error begins with the field's name. So it does in
 * every function below. A missing field leaves *ret as it is and is no error. */
int reader_field_object(const struct reader_field *field, struct reader_field *fields, uint32_t count,
                      struct error *err);

/* Check that the field is an array, if it is there, and give its number of items. */
int reader_field_array(const struct reader_field *field, uint32_t *ret_count, struct error *err);

/* The same with a number that may be too large, but costs less: as many items find room. */
int reader_field_room(const struct reader_field *field, uint32_t *ret_room, struct error *err);

/* Text of a string field. */
int reader_field_string(const struct reader_field *field, struct arena *mem, struct str *ret,
                      struct error *err);

/* An integer field from min to max; a fraction or exponent is refused, as Go does. */
int reader_field_int(const struct reader_field *field, int64_t min, int64_t max, int64_t *ret,
                   struct error *err);

/* A boolean field. */
int reader_field_bool(const struct reader_field *field, bool *ret, struct error *err);

/* Text of a string value; escapes decoded, a lone surrogate becomes U+FFFD. -EINVAL when it is not a
 * string. */
int reader_string(struct str value, struct arena *mem, struct str *ret, struct error *err);

/* Length of the text of a value that is a string, or of a key, without making it. */
size_t reader_string_length(struct str value);

/* A Kubernetes quantity, quoted or as a number, as a whole number; null is 0. */
int reader_quantity(struct str value, int64_t *ret, struct error *err);

/* ---- errors ---- */

/* Put one printf step of the path before the sentence in `err`; returns its code. A "." joins it unless
 * the sentence goes on with ':' or '['. */
int reader_at(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The innermost sentence of a wrong value: -EINVAL. */
int reader_bad(struct error *err, const char *sentence);

/* Out of memory: -ENOMEM. */
int reader_no_memory(struct error *err);

#endif
