/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "base/arena.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "body.h"
#include "codec/reader.h"
#include "rng.h"

/*
 * The reader against json-c, which shares no line with it: what the reader accepts json-c accepts,
 * with the same values. json-c accepts more (test_reader.c lists what), so the other direction is
 * held only for texts made valid by construction.
 */

enum { NESTING = 64 };

static struct json_object *oracle_parse(struct str text, enum json_tokener_error *ret)
{
    struct json_tokener *tokener = json_tokener_new_ex(NESTING + 1);
    assert_non_null(tokener);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct strbuf ended = {0}; /* a number alone is known to end only by what follows */
    strbuf_add_str(&ended, text);
    strbuf_putc(&ended, '\n');
    struct json_object *tree = json_tokener_parse_ex(tokener, ended.data, (int)ended.len);
    *ret = json_tokener_get_error(tokener);
    strbuf_done(&ended);
    json_tokener_free(tokener);
    return tree;
}

static void compare(struct str value, struct json_object *tree);

/* json-c cuts a key at its NUL, and then it may replace another. */
static bool has_nul_key(struct str object)
{
    struct reader_iter iter = reader_iterate(object);
    char buffer[READER_KEY_MAX];
    struct str key, member;
    while (reader_next_member(&iter, &key, &member)) {
        struct str text = reader_key(key, buffer);
        if (text.len > 0 && memchr(text.data, '\0', text.len) != NULL)
            return true;
    }
    return false;
}

static void compare_object(struct str value, struct json_object *tree)
{
    if (has_nul_key(value))
        return;
    struct reader_iter iter = reader_iterate(value);
    char buffer[READER_KEY_MAX];
    struct str key, member;
    int found = 0;
    while (reader_next_member(&iter, &key, &member)) {
        char name[READER_KEY_MAX + 1];
        struct str text = reader_key(key, buffer);
        assert_non_null(text.data);
        memcpy(name, text.data, text.len);
        name[text.len] = '\0';
        struct json_object *other;
        assert_true(json_object_object_get_ex(tree, name, &other));
        struct str last;
        if (reader_find(value, name, &last) && last.data == member.data) {
            compare(member, other);
            found++;
        }
        if (other == NULL)
            assert_false(reader_find(value, name, &last));
    }
    int not_null = 0;
    json_object_object_foreach(tree, name, child)
    {
        (void)name;
        not_null += child != NULL;
    }
    assert_int_equal(found, not_null);
}

static void compare(struct str value, struct json_object *tree)
{
    struct arena mem = {0};
    struct error err;
    int64_t number;
    struct str text;
    switch (reader_type(value)) {
    case READER_NULL:
        assert_null(tree);
        break;
    case READER_BOOL:
        assert_true(json_object_is_type(tree, json_type_boolean));
        assert_int_equal(json_object_get_boolean(tree), str_is(value, "true"));
        break;
    case READER_NUMBER:
        assert_true(json_object_is_type(tree, json_type_int) ||
                    json_object_is_type(tree, json_type_double));
        if (parse_int64(value, &number))
            assert_int_equal(json_object_get_int64(tree), number);
        break;
    case READER_STRING:
        assert_true(json_object_is_type(tree, json_type_string));
        assert_int_equal(reader_string(value, &mem, &text, &err), 0);
        assert_int_equal(json_object_get_string_len(tree), text.len);
        assert_memory_equal(json_object_get_string(tree), text.data, text.len);
        break;
    case READER_ARRAY: {
        assert_true(json_object_is_type(tree, json_type_array));
        assert_int_equal(json_object_array_length(tree), reader_count(value));
        struct reader_iter iter = reader_iterate(value);
        struct str item;
        for (size_t i = 0; reader_next_item(&iter, &item); i++)
            compare(item, json_object_array_get_idx(tree, i));
        break;
    }
    case READER_OBJECT:
        assert_true(json_object_is_type(tree, json_type_object));
        compare_object(value, tree);
        break;
    }
    arena_done(&mem);
}

/* True when the reader takes the text, and then json-c agrees with it. */
static bool agree(struct str text)
{
    struct str value;
    struct error err;
    if (reader_check(text, NESTING, &value, &err) != 0)
        return false;
    enum json_tokener_error problem;
    struct json_object *tree = oracle_parse(text, &problem);
    if (problem != json_tokener_success)
        fail_msg("json-c refuses %.*s: %s", STR_ARG(text), json_tokener_error_desc(problem));
    compare(value, tree);
    json_object_put(tree);
    return true;
}

/* ---- texts ---- */

static void write_blanks(struct rng *rng, struct strbuf *out)
{
    while (rng_below(rng, 6) == 0)
        strbuf_putc(out, " \t\r\n"[rng_below(rng, 4)]);
}

static void write_string(struct rng *rng, struct strbuf *out)
{
    static const char *const pieces[] = {
        "a",
        "b",
        "uid",
        "\\\"",
        "\\\\",
        "\\/",
        "\\n",
        "\\u0041",
        "\\u00e9",
        "\\u20aC",
        "\\ud83d\\ude80",
        "\\udc00",
        "\\u0000",
        "\xc3\xa9",
        "\xe2\x82\xac",
        "\xf0\x9f\x9a\x80",
        "{",
        "]",
        ",",
        ":",
        "\x7f",
    };
    strbuf_putc(out, '"');
    for (uint32_t n = rng_below(rng, 5); n > 0; n--)
        strbuf_puts(out, pieces[rng_below(rng, sizeof(pieces) / sizeof(pieces[0]))]);
    strbuf_putc(out, '"');
}

static void write_value(struct rng *rng, int depth, struct strbuf *out)
{
    static const char *const scalars[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "12",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "-0.25e+3",
        "1E400",
        "123456789012345678901234567890",
        "0e0",
    };
    uint32_t kind = rng_below(rng, depth > 4 ? 2 : 4);
    write_blanks(rng, out);
    if (kind == 0) {
        strbuf_puts(out, scalars[rng_below(rng, sizeof(scalars) / sizeof(scalars[0]))]);
    } else if (kind == 1) {
        write_string(rng, out);
    } else {
        strbuf_putc(out, kind == 2 ? '[' : '{');
        for (uint32_t n = rng_below(rng, 5), i = 0; i < n; i++) {
            strbuf_puts(out, i > 0 ? "," : "");
            if (kind == 3) {
                write_blanks(rng, out);
                write_string(rng, out);
                write_blanks(rng, out);
                strbuf_putc(out, ':');
            }
            write_value(rng, depth + 1, out);
        }
        write_blanks(rng, out);
        strbuf_putc(out, kind == 2 ? ']' : '}');
    }
    write_blanks(rng, out);
}

static void test_random_values(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(3);
    struct strbuf text = {0};
    for (int round = 0; round < 5000; round++) {
        text.len = 0;
        write_value(&rng, 0, &text);
        struct str copy = body_copy((struct str){text.data, text.len});
        assert_true(agree(copy));
        body_free(copy);
    }
    strbuf_done(&text);
}

static void test_random_values_with_a_fault(void **state)
{
    (void)state;
    static const char faults[] = "\"\\{}[],:0-.eE+ntf '/u\n\x01\x80\xc3\xff";
    struct rng rng = rng_seeded(4);
    struct strbuf text = {0};
    int accepted = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        text.len = 0;
        write_value(&rng, 0, &text);
        text.data[rng_below(&rng, (uint32_t)text.len)] = faults[rng_below(&rng, sizeof(faults))];
        struct str copy = body_copy((struct str){text.data, text.len});
        if (agree(copy))
            accepted++;
        else
            refused++;
        body_free(copy);
    }
    strbuf_done(&text);
    assert_true(accepted > 100 && refused > 1000); /* both sides were visited */
}

static void test_sample_bodies(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "tests/data/extender/requests/filter-names-odd-pod.json",
        "tests/data/extender/requests/filter-nodes-full.json",
        "tests/data/extender/requests/filter-names-big-annotations.json",
        "tests/data/extender/requests/preempt-full.json",
        "tests/data/extender/bad/null.json",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct str body = body_read(paths[i]);
        assert_true(agree(body));
        body_free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_values),
        cmocka_unit_test(test_random_values_with_a_fault),
        cmocka_unit_test(test_sample_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
