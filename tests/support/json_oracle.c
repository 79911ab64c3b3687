/* SPDX-License-Identifier: Apache-2.0 */
#include "json_oracle.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>
#include <json-c/json_visit.h>

#include "base/arena.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "codec/reader.h"

/* The tree json-c makes of the text; NULL also for the value null. */
static struct json_object *parse(struct str text, uint32_t nesting, bool *ret_accepted)
{
    struct json_tokener *tokener = json_tokener_new_ex((int)nesting + 1);
    if (tokener == NULL)
        abort();
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct strbuf ended = {0}; /* a number alone is known to end only by what follows */
    strbuf_add_str(&ended, text);
    strbuf_putc(&ended, '\n');
    struct json_object *tree = json_tokener_parse_ex(tokener, ended.data, (int)ended.len);
    *ret_accepted = json_tokener_get_error(tokener) == json_tokener_success;
    strbuf_done(&ended);
    json_tokener_free(tokener);
    return tree;
}

/* ---- the same values ---- */

/* json-c 0.16 takes what an escaped pair of surrogates stands for as a surrogate again when its last 16 bits
 * look like one: U+1D800 and its like. */
static bool confuses_json_c(struct str text)
{
    const unsigned char *at = (const unsigned char *)text.data;
    for (size_t i = 0; i + 3 < text.len; i++)
        if (at[i] >= 0xf0 && (at[i + 1] & 0x0f) == 0x0d && at[i + 2] >= 0xa0)
            return true;
    return false;
}

static const char *compare(struct str value, struct json_object *tree);

/* json-c cuts a key at its NUL, and then it may replace another. */
static bool has_nul_key(struct str object)
{
    struct reader_iter iter = reader_iterate(object);
    char buffer[READER_KEY_MAX];
    struct str key, member;
    while (reader_next_member(&iter, &key, &member)) {
        struct str text = reader_key(key, buffer);
        if (text.data == NULL || (text.len > 0 && memchr(text.data, '\0', text.len) != NULL))
            return true; /* or too long for us to ask for it */
    }
    return false;
}

static const char *compare_member(struct str object, const char *name, struct str member,
                                  struct json_object *tree, int *found)
{
    struct json_object *other;
    struct str last;
    if (!json_object_object_get_ex(tree, name, &other))
        return "json-c lacks a member";
    bool is_last = reader_find(object, name, &last);
    if (is_last != (other != NULL))
        return "a member is null for one of them";
    if (!is_last || last.data != member.data)
        return NULL;
    ++*found;
    return compare(member, other);
}

static const char *compare_object(struct str value, struct json_object *tree)
{
    if (has_nul_key(value))
        return NULL;
    struct reader_iter iter = reader_iterate(value);
    char buffer[READER_KEY_MAX];
    struct str key, member;
    int found = 0, not_null = 0;
    const char *why = NULL;
    while (why == NULL && reader_next_member(&iter, &key, &member)) {
        struct str text = reader_key(key, buffer);
        char *name = malloc(text.len + 1);
        if (name == NULL)
            abort();
        memcpy(name, text.data, text.len);
        name[text.len] = '\0';
        why = compare_member(value, name, member, tree, &found);
        free(name);
    }
    json_object_object_foreach(tree, name, child)
    {
        (void)name;
        not_null += child != NULL;
    }
    return why != NULL ? why : found != not_null ? "json-c has other members" : NULL;
}

static const char *compare_array(struct str value, struct json_object *tree)
{
    if (json_object_array_length(tree) != reader_count(value))
        return "arrays of different length";
    struct reader_iter iter = reader_iterate(value);
    struct str item;
    const char *why = NULL;
    for (size_t i = 0; why == NULL && reader_next_item(&iter, &item); i++)
        why = compare(item, json_object_array_get_idx(tree, i));
    return why;
}

static const char *compare_string(struct str value, struct json_object *tree)
{
    struct arena mem = {0};
    struct str text;
    struct error err;
    const char *why = NULL;
    if (reader_string(value, &mem, &text, &err) != 0)
        why = "the reader does not read a string that it accepted";
    else if (confuses_json_c(text))
        why = NULL;
    else if (!str_eq(text, (struct str){json_object_get_string(tree),
                                        (size_t)json_object_get_string_len(tree)}))
        why = "different strings";
    else if (reader_string_length(value) != text.len)
        why = "the length of a string is not that of its text";
    arena_done(&mem);
    return why;
}

static const char *compare(struct str value, struct json_object *tree)
{
    int64_t number;
    enum json_type type = json_object_get_type(tree);
    switch (reader_type(value)) {
    case READER_NULL:
        return tree == NULL ? NULL : "not null";
    case READER_BOOL:
        if (type != json_type_boolean)
            return "not a boolean";
        return json_object_get_boolean(tree) == str_is(value, "true") ? NULL : "another boolean";
    case READER_NUMBER:
        if (type != json_type_int && type != json_type_double)
            return "not a number";
        if (parse_int64(value, &number) && json_object_get_int64(tree) != number)
            return "another number";
        return NULL;
    case READER_STRING:
        return type == json_type_string ? compare_string(value, tree) : "not a string";
    case READER_ARRAY:
        return type == json_type_array ? compare_array(value, tree) : "not an array";
    case READER_OBJECT:
        break;
    }
    return type == json_type_object ? compare_object(value, tree) : "not an object";
}

/* ---- and back ---- */

static int stop_at_fraction(struct json_object *value, int flags, struct json_object *parent,
                            const char *key, size_t *index, void *found)
{
    (void)flags, (void)parent, (void)key, (void)index;
    if (!json_object_is_type(value, json_type_double))
        return JSON_C_VISIT_RETURN_CONTINUE;
    *(bool *)found = true;
    return JSON_C_VISIT_RETURN_STOP;
}

static bool has_fraction(struct json_object *tree)
{
    bool found = false;
    json_c_visit(tree, 0, stop_at_fraction, &found);
    return found;
}

/* json-c lets some ill-formed UTF-8 pass: by the table of RFC 3629. */
static bool is_utf8(struct str text)
{
    static const struct {
        unsigned char first[2], second[2];
        unsigned more;
    } forms[] = {
        {{0x00, 0x7f}, {0}, 0},          {{0xc2, 0xdf}, {0x80, 0xbf}, 1}, {{0xe0, 0xe0}, {0xa0, 0xbf}, 2},
        {{0xe1, 0xec}, {0x80, 0xbf}, 2}, {{0xed, 0xed}, {0x80, 0x9f}, 2}, {{0xee, 0xef}, {0x80, 0xbf}, 2},
        {{0xf0, 0xf0}, {0x90, 0xbf}, 3}, {{0xf1, 0xf3}, {0x80, 0xbf}, 3}, {{0xf4, 0xf4}, {0x80, 0x8f}, 3},
    };
    const unsigned char *at = (const unsigned char *)text.data, *end = at + text.len;
    while (at < end) {
        size_t i = 0, count = sizeof forms / sizeof forms[0];
        while (i < count && (*at < forms[i].first[0] || *at > forms[i].first[1]))
            i++;
        if (i == count || (size_t)(end - at) <= forms[i].more)
            return false;
        if (forms[i].more > 0 && (at[1] < forms[i].second[0] || at[1] > forms[i].second[1]))
            return false;
        for (unsigned n = 2; n <= forms[i].more; n++)
            if (at[n] < 0x80 || at[n] > 0xbf)
                return false;
        at += forms[i].more + 1;
    }
    return true;
}

static const char *compare_printed(struct json_object *tree, uint32_t nesting)
{
    struct str value, text = str_from(json_object_to_json_string_ext(tree, JSON_C_TO_STRING_PLAIN));
    struct error err;
    if (has_fraction(tree) || !is_utf8(text))
        return NULL;
    /* json-c does not count an innermost container without items. */
    if (reader_check(text, nesting + 1, &value, &err) != 0)
        return "the reader refuses what json-c printed";
    return compare(value, tree);
}

enum json_verdict json_oracle(struct str text, uint32_t nesting, const char **ret_why)
{
    struct str value;
    struct error err;
    bool accepted;
    bool ours = reader_check(text, nesting, &value, &err) == 0;
    struct json_object *tree = parse(text, nesting, &accepted);
    *ret_why = NULL;
    if (ours)
        *ret_why = accepted ? compare(value, tree) : "json-c refuses what the reader takes";
    if (*ret_why == NULL && accepted)
        *ret_why = compare_printed(tree, nesting);
    json_object_put(tree);
    return *ret_why != NULL ? JSON_DISPUTED : ours ? JSON_ACCEPTED : JSON_REFUSED;
}
