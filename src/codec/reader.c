/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/reader.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/parse.h"
#include "base/word.h"
#include "codec/reader_index.h"
#include "codec/skip.h"
#include "core/quantity.h"

/* Everything below walks text that reader_check() accepted, so it looks only for the ends of things. */

enum reader_type reader_type(struct str value)
{
    assert(value.len > 0);
    switch (value.data[0]) {
    case '{':
        return READER_OBJECT;
    case '[':
        return READER_ARRAY;
    case '"':
        return READER_STRING;
    case 't':
    case 'f':
        return READER_BOOL;
    case 'n':
        return READER_NULL;
    default:
        return READER_NUMBER;
    }
}

static struct str between_quotes(struct str value)
{
    return (struct str){value.data + 1, value.len - 2};
}

/* Behind a string; most are short. */
static inline const char *string_end(const char *at, const char *end)
{
    if (end - at > LANE_BYTES) {
        lane bytes = lane_load(at + 1);
        uint32_t stops = lane_bits(lane_equal(bytes, '"') | lane_equal(bytes, '\\'));
        if (stops != 0 && at[1 + __builtin_ctz(stops)] == '"')
            return at + 2 + __builtin_ctz(stops);
    }
    return skip_string(at, end);
}

static inline const char *value_end(const char *at, const char *end)
{
    if (*at == '"')
        return string_end(at, end);
    if (*at == '{' || *at == '[')
        return skip_container(at, end);
    while (at < end && *at != ',' && *at != ' ' && *at != '\t' && *at != '\n' && *at != '\r')
        at++;
    return at;
}

/* To the next value or key. Between two of them there are only blanks and one comma or colon. */
static inline bool skip_between(struct reader_iter *iter)
{
    if (iter->at < iter->end && (*iter->at == ',' || *iter->at == ':'))
        iter->at++;
    if (iter->at < iter->end && (*iter->at == '"' || *iter->at == '{'))
        return true;
    while (iter->at < iter->end && (*iter->at == ' ' || *iter->at == ',' || *iter->at == ':' ||
                                    *iter->at == '\t' || *iter->at == '\n' || *iter->at == '\r'))
        iter->at++;
    return iter->at < iter->end;
}

struct reader_iter reader_iterate(struct str container)
{
    assert(container.len >= 2);
    struct reader_iter iter = {.at = container.data + 1, .end = container.data + container.len - 1};
    const struct reader_token *token = reader_index_find(container.data);
    if (token != NULL && !token->parts_missing) {
        iter.token = token + 1;
        iter.behind = token + token->count;
    }
    return iter;
}

static inline struct str noted_text(const struct reader_token *token)
{
    return (struct str){token->start, token->length};
}

static bool next_by_bytes(struct reader_iter *iter, struct str *ret_value)
{
    if (!skip_between(iter))
        return false;
    const char *start = iter->at;
    iter->at = value_end(start, iter->end);
    *ret_value = (struct str){start, (size_t)(iter->at - start)};
    return true;
}

static inline bool next_item(struct reader_iter *iter, struct str *ret_value)
{
    if (iter->token == NULL)
        return next_by_bytes(iter, ret_value);
    if (iter->token == iter->behind)
        return false;
    *ret_value = noted_text(iter->token);
    iter->token += iter->token->count;
    return true;
}

bool reader_next_item(struct reader_iter *iter, struct str *ret_value)
{
    return next_item(iter, ret_value);
}

static bool next_noted_text(struct reader_iter *iter, struct str *ret_text)
{
    if (iter->token == iter->behind)
        return false;
    struct str value = noted_text(iter->token);
    if (value.data[0] != '"' || memchr(value.data, '\\', value.len) != NULL)
        return false;
    *ret_text = (struct str){value.data + 1, value.len - 2};
    iter->token++;
    return true;
}

bool reader_next_text(struct reader_iter *iter, struct str *ret_text)
{
    if (iter->token != NULL)
        return next_noted_text(iter, ret_text);
    struct reader_iter ahead = *iter;
    if (!skip_between(&ahead) || *ahead.at != '"')
        return false;
    const char *start = ahead.at + 1, *at = start;
    uint32_t stops = 0;
    while (ahead.end - at >= LANE_BYTES && stops == 0) {
        lane bytes = lane_load(at);
        stops = lane_bits(lane_equal(bytes, '"') | lane_equal(bytes, '\\'));
        at += stops == 0 ? LANE_BYTES : __builtin_ctz(stops);
    }
    while (*at != '"' && *at != '\\')
        at++;
    if (*at != '"')
        return false;
    *ret_text = (struct str){start, (size_t)(at - start)};
    iter->at = at + 1;
    return true;
}

bool reader_next_member(struct reader_iter *iter, struct str *ret_key, struct str *ret_value)
{
    return next_item(iter, ret_key) && next_item(iter, ret_value);
}

static inline bool next_named(struct reader_iter *iter, char buffer[READER_KEY_MAX],
                              struct str *ret_name, struct str *ret_value)
{
    bool plain = iter->token != iter->behind && iter->token->plain;
    struct str key;
    if (!next_item(iter, &key))
        return false;
    *ret_name = plain ? between_quotes(key) : reader_key(key, buffer);
    return next_item(iter, ret_value);
}

bool reader_next_named(struct reader_iter *iter, char buffer[READER_KEY_MAX], struct str *ret_name,
                       struct str *ret_value)
{
    return next_named(iter, buffer, ret_name, ret_value);
}

uint32_t reader_count(struct str container)
{
    bool object = reader_type(container) == READER_OBJECT;
    struct reader_iter iter = reader_iterate(container);
    struct str key, value;
    uint32_t count = 0;
    while (object ? reader_next_member(&iter, &key, &value) : reader_next_item(&iter, &value))
        count += count < UINT32_MAX;
    return count;
}

/* ---- strings ---- */

static uint32_t hex_unit(const char *digits)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        char c = digits[i];
        uint32_t digit = (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        unit = unit << 4 | digit;
    }
    return unit;
}

static size_t put_utf8(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)((0xf00u >> length & 0xf0) | point);
    return length;
}

/* Decode the \u escape whose 'u' is at *at, with the second half of a surrogate pair. */
static uint32_t take_code_point(const char **at, const char *end)
{
    uint32_t point = hex_unit(*at + 1);
    *at += 5;
    bool high = point >= 0xd800 && point < 0xdc00;
    if (high && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        uint32_t low = hex_unit(*at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            *at += 6;
            return 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return point >= 0xd800 && point < 0xe000 ? 0xfffd : point;
}

static char escaped_byte(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c; /* quote, backslash, slash */
    }
}

/* Copy some bytes that are no escapes, at least the first. They go to no more than there is behind `at`. */
static inline size_t copy_plain(const char *at, const char *end, char *out)
{
    if (end - at < WORD_BYTES) {
        *out = *at;
        return 1;
    }
    uint64_t stops = word_equal(word_load(at), '\\');
    memcpy(out, at, WORD_BYTES);
    return stops != 0 ? (size_t)__builtin_ctzll(stops) / 8 : WORD_BYTES;
}

/* Decode what stands between the quotes. It never grows: `out` has room for raw.len bytes. */
static size_t unescape(struct str raw, char *out)
{
    const char *at = raw.data;
    const char *end = raw.data + raw.len;
    size_t length = 0;
    while (at < end) {
        if (*at != '\\') {
            size_t plain = copy_plain(at, end, out + length);
            at += plain;
            length += plain;
            continue;
        }
        at++;
        if (*at == 'u')
            length += put_utf8(take_code_point(&at, end), out + length);
        else
            out[length++] = escaped_byte(*at++);
    }
    return length;
}

static bool has_escape(struct str raw)
{
    return raw.len > 0 && memchr(raw.data, '\\', raw.len) != NULL;
}

struct str reader_key(struct str key, char buffer[READER_KEY_MAX])
{
    struct str raw = between_quotes(key);
    if (!has_escape(raw))
        return raw;
    if (raw.len > READER_KEY_MAX)
        return (struct str){NULL, 0};
    return (struct str){buffer, unescape(raw, buffer)};
}

static int decode_escapes(struct str raw, struct arena *mem, struct str *ret, struct error *err)
{
    char *text = arena_alloc(mem, raw.len + 1, 1);
    if (text == NULL)
        return reader_no_memory(err);
    *ret = (struct str){text, unescape(raw, text)};
    return 0;
}

int reader_string(struct str value, struct arena *mem, struct str *ret, struct error *err)
{
    if (reader_type(value) != READER_STRING)
        return reader_bad(err, "must be a string");

    struct str raw = between_quotes(value);
    if (!has_escape(raw)) {
        struct str copy = arena_str(mem, raw);
        if (copy.data == NULL)
            return reader_no_memory(err);
        *ret = copy;
        return 0;
    }
    return decode_escapes(raw, mem, ret, err);
}

size_t reader_string_length(struct str value)
{
    assert(reader_type(value) == READER_STRING);
    struct str raw = between_quotes(value);
    if (!has_escape(raw))
        return raw.len;
    const char *at = raw.data;
    const char *end = raw.data + raw.len;
    size_t length = raw.len;
    while ((at = memchr(at, '\\', (size_t)(end - at))) != NULL) {
        char scratch[4];
        const char *escape = at++;
        if (*at == 'u')
            length += put_utf8(take_code_point(&at, end), scratch);
        else
            (void)at++, length++;
        length -= (size_t)(at - escape);
    }
    return length;
}

int reader_quantity(struct str value, int64_t *ret, struct error *err)
{
    char buffer[READER_KEY_MAX];
    struct str text = value;
    switch (reader_type(value)) {
    case READER_NULL:
        *ret = 0;
        return 0;
    case READER_STRING:
        text = reader_key(value, buffer); /* a quantity is never longer than a key */
        break;
    case READER_NUMBER:
        break;
    default:
        return reader_bad(err, "must be a quantity");
    }
    if (text.data == NULL)
        return reader_bad(err, "must be a quantity");
    return quantity_parse(text, ret, err) < 0 ? error_wrap(err, "%s", "") : 0;
}

/* ---- fields ---- */

/* The fields that are looked for at a time have the lengths of their names beside them; the last ones
 * of a longer list go without. */
#define LENGTHS 16u

static inline bool folds_to(struct str key, const char *name, size_t length)
{
    return key.len == length &&
           (length == 0 || ((key.data[0] ^ name[0]) & ~0x20) == 0) &&
           (memcmp(key.data, name, length) == 0 || strncasecmp(key.data, name, length) == 0);
}

static struct str unless_null(struct str value)
{
    return reader_type(value) == READER_NULL ? (struct str){NULL, 0} : value;
}

bool reader_find(struct str object, const char *name, struct str *ret_value)
{
    struct reader_iter iter = reader_iterate(object);
    UNSET char buffer[READER_KEY_MAX];
    struct str key, value;
    struct str found = {NULL, 0}, wanted = str_from(name);
    while (next_named(&iter, buffer, &key, &value))
        if (str_eq(key, wanted))
            found = unless_null(value);
    if (found.data == NULL)
        return false;
    *ret_value = found;
    return true;
}

int reader_object(struct str value, struct reader_field *fields, uint32_t count, struct error *err)
{
    UNSET size_t lengths[LENGTHS];
    uint64_t any = 0; /* bit n: a name has n letters, give or take 64 */
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(fields[i].name);
        fields[i].value = (struct str){NULL, 0};
        any |= UINT64_C(1) << length % 64;
        if (i < LENGTHS)
            lengths[i] = length;
    }
    if (value.data == NULL)
        return 0;
    if (reader_type(value) != READER_OBJECT)
        return reader_bad(err, "must be an object");

    struct reader_iter iter = reader_iterate(value);
    UNSET char buffer[READER_KEY_MAX];
    struct str name, member;
    while (next_named(&iter, buffer, &name, &member)) {
        if ((any >> name.len % 64 & 1) == 0)
            continue;
        for (uint32_t i = 0; i < count; i++)
            if (folds_to(name, fields[i].name, i < LENGTHS ? lengths[i] : strlen(fields[i].name)))
                fields[i].value = unless_null(member);
    }
    return 0;
}

int reader_field_object(const struct reader_field *field, struct reader_field *fields, uint32_t count,
                      struct error *err)
{
    int rc = reader_object(field->value, fields, count, err);
    return rc < 0 ? reader_at(err, "%s", field->name) : 0;
}

/* 1: an array, 0: missing. */
static int check_array(const struct reader_field *field, struct error *err)
{
    if (field->value.data == NULL)
        return 0;
    if (reader_type(field->value) == READER_ARRAY)
        return 1;
    reader_bad(err, "must be an array");
    return reader_at(err, "%s", field->name);
}

int reader_field_array(const struct reader_field *field, uint32_t *ret_count, struct error *err)
{
    int rc = check_array(field, err);
    if (rc > 0)
        *ret_count = reader_count(field->value);
    return rc < 0 ? rc : 0;
}

/* One more than the commas. */
static uint32_t room_of(struct str array)
{
    const char *at = array.data, *end = array.data + array.len;
    uint32_t commas = 0;
    for (; end - at >= LANE_BYTES; at += LANE_BYTES)
        commas += word_count(lane_bits(lane_equal(lane_load(at), ',')));
    for (; at < end; at++)
        commas += *at == ',';
    return commas < UINT32_MAX ? commas + 1 : commas;
}

int reader_field_room(const struct reader_field *field, uint32_t *ret_room, struct error *err)
{
    int rc = check_array(field, err);
    if (rc > 0)
        *ret_room = room_of(field->value);
    return rc < 0 ? rc : 0;
}

int reader_field_string(const struct reader_field *field, struct arena *mem, struct str *ret,
                      struct error *err)
{
    if (field->value.data == NULL)
        return 0;
    int rc = reader_string(field->value, mem, ret, err);
    return rc < 0 ? reader_at(err, "%s", field->name) : 0;
}

int reader_field_int(const struct reader_field *field, int64_t min, int64_t max, int64_t *ret,
                   struct error *err)
{
    if (field->value.data == NULL)
        return 0;
    int64_t number;
    if (!parse_int64(field->value, &number)) {
        reader_bad(err, "must be an integer");
        return reader_at(err, "%s", field->name);
    }
    if (number < min || number > max) {
        error_set(err, -EINVAL, ": must be from %lld to %lld", (long long)min, (long long)max);
        return reader_at(err, "%s", field->name);
    }
    *ret = number;
    return 0;
}

int reader_field_bool(const struct reader_field *field, bool *ret, struct error *err)
{
    if (field->value.data == NULL)
        return 0;
    if (!parse_bool(field->value, ret)) {
        reader_bad(err, "must be true or false");
        return reader_at(err, "%s", field->name);
    }
    return 0;
}

/* ---- errors ---- */

int reader_at(struct error *err, const char *format, ...)
{
    char step[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(step, sizeof(step), format, args);
    va_end(args);
    bool joined = err->text[0] == ':' || err->text[0] == '[';
    return error_set(err, err->code, "%s%s%s", length < 0 ? "?" : step, joined ? "" : ".",
                     err->text);
}

int reader_bad(struct error *err, const char *sentence)
{
    return error_set(err, -EINVAL, ": %s", sentence);
}

int reader_no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, ": out of memory");
}
