/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "body.h"
#include "codec/reader.h"

static int check(struct str text, struct str *ret_value, struct error *err)
{
    struct str copy = body_copy(text);
    struct str value = {0};
    int rc = reader_check(copy, 64, &value, err);
    if (rc == 0 && ret_value != NULL)
        *ret_value = (struct str){text.data + (value.data - copy.data), value.len};
    body_free(copy);
    return rc;
}

static void accept(struct str text)
{
    struct error err = {0};
    if (check(text, NULL, &err) != 0)
        fail_msg("refused: %.*s (%s)", STR_ARG(text), err.text);
}

static void refuse(struct str text, const char *sentence)
{
    struct error err = {0};
    if (check(text, NULL, &err) != -EINVAL)
        fail_msg("accepted: %.*s", STR_ARG(text));
    assert_string_equal(err.text, sentence);
}

static void test_accepts_json(void **state)
{
    (void)state;
    accept(STR("{}"));
    accept(STR(" \t\r\n[ ] \n"));
    accept(STR("null"));
    accept(STR("0"));
    accept(STR("-0.5e+10"));
    accept(STR("123456789012345678901234567890"));
    accept(STR("\"\\u0000\\ud800\\\"\\/\\b\""));
    accept(STR("\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f"
               "\xbf\xbf\""));
    accept(STR("{\"a\":[true,false,null,{\"\":1e5}],\"a\":2}"));
}

static void test_refuses_what_is_no_json(void **state)
{
    (void)state;
    refuse(STR(""), ": empty");
    refuse(STR("  \n"), ": empty");
    refuse((struct str){NULL, 0}, ": empty");
    refuse(STR("{\"Pod\":"), ": not valid JSON, unexpected end at byte 7");
    refuse(STR("{\"a\":1}x"), ": not valid JSON, more text after the value at byte 7");
    refuse(STR("{} {}"), ": not valid JSON, more text after the value at byte 3");
    refuse(STR("{}\0"), ": not valid JSON, more text after the value at byte 2");
    refuse(STR("nul"), ": not valid JSON, unexpected end at byte 3");
    refuse(STR("\xef\xbb\xbf{}"), ": not valid JSON, unexpected character at byte 0");
    refuse(STR("[1,]"), ": not valid JSON, unexpected character at byte 3");
    refuse(STR("[,1]"), ": not valid JSON, unexpected character at byte 1");
    refuse(STR("[1 2]"), ": not valid JSON, unexpected character at byte 3");
    refuse(STR("{\"a\":1,}"), ": not valid JSON, unexpected character at byte 7");
    refuse(STR("{\"a\" 1}"), ": not valid JSON, unexpected character at byte 5");
    refuse(STR("{a:1}"), ": not valid JSON, unexpected character at byte 1");
    refuse(STR("[}"), ": not valid JSON, unexpected character at byte 1");
}

/* What json-c 0.16 takes even in strict mode, and Go does not. */
static void test_refuses_what_lenient_parsers_take(void **state)
{
    (void)state;
    refuse(STR("'a'"), ": not valid JSON, unexpected character at byte 0");
    refuse(STR("{'a':1}"), ": not valid JSON, unexpected character at byte 1");
    refuse(STR("NaN"), ": not valid JSON, unexpected character at byte 0");
    refuse(STR("-Infinity"), ": not valid JSON, unexpected character at byte 1");
    refuse(STR("True"), ": not valid JSON, unexpected character at byte 0");
    refuse(STR("007"), ": not valid JSON, more text after the value at byte 1");
    refuse(STR("1."), ": not valid JSON, unexpected end at byte 2");
    refuse(STR(".5"), ": not valid JSON, unexpected character at byte 0");
    refuse(STR("+1"), ": not valid JSON, unexpected character at byte 0");
    refuse(STR("-"), ": not valid JSON, unexpected end at byte 1");
    refuse(STR("1e"), ": not valid JSON, unexpected end at byte 2");
    refuse(STR("{}//x"), ": not valid JSON, more text after the value at byte 2");
    refuse(STR("\"a\nb\""), ": not valid JSON, control character in a string at byte 2");
    refuse(STR("\"a\0b\""), ": not valid JSON, control character in a string at byte 2");
    refuse(STR("\"\x1f\""), ": not valid JSON, control character in a string at byte 1");
    refuse(STR("\"\\x41\""), ": not valid JSON, bad escape at byte 2");
    refuse(STR("\"\\\0\""), ": not valid JSON, bad escape at byte 2");
    refuse(STR("\"\\u12g4\""), ": not valid JSON, bad escape at byte 5");
    refuse(STR("\"abc"), ": not valid JSON, unexpected end at byte 4");
    refuse(STR("\"\\"), ": not valid JSON, unexpected end at byte 2");
}

static void test_refuses_bad_utf8(void **state)
{
    (void)state;
    static const char *const sequences[] = {
        "\x80",             /* continuation byte alone */
        "\xc0\xaf",         /* overlong slash */
        "\xc1\xbf",         /* overlong */
        "\xc3",             /* cut short */
        "\xe0\x9f\xbf",     /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xe2\x82",         /* cut short */
        "\xe2\x82\x28",     /* bad third byte */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xf4\x90\x80\x80", /* past U+10FFFF */
        "\xf0\x9f\x98\x28", /* bad fourth byte */
        "\xf5\x80\x80\x80",
        "\xff",
    };
    for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
        char text[16] = "\"a";
        strcat(text, sequences[i]);
        strcat(text, "\"");
        refuse(str_from(text), ": not valid JSON, bad UTF-8 at byte 2");
        text[strlen(text) - 1] = '\0'; /* the same at the very end of the text */
        refuse(str_from(text), ": not valid JSON, bad UTF-8 at byte 2");
    }
}

static void test_bounds_nesting(void **state)
{
    (void)state;
    char text[2 * 65 + 1], far[2 * 65 + 100];
    struct str value;
    struct error err;
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    assert_int_equal(reader_check((struct str){text, 130}, 65, &value, &err), 0);
    assert_int_equal(reader_check((struct str){text, 130}, 64, &value, &err), -E2BIG);
    assert_string_equal(err.text, ": nesting deeper than 64");
    memset(far, ' ', sizeof far); /* the end is far where it is deepest */
    memcpy(far, "[1,", 3);
    memcpy(far + 3, text + 1, 129);
    assert_int_equal(reader_check((struct str){far, sizeof far}, 65, &value, &err), 0);
    assert_int_equal(reader_check((struct str){far, sizeof far}, 64, &value, &err), -E2BIG);
    memcpy(far + 66, "{}", 2);
    assert_int_equal(reader_check((struct str){far, sizeof far}, 65, &value, &err), 0);
    assert_int_equal(reader_check((struct str){far, sizeof far}, 64, &value, &err), -E2BIG);
    assert_int_equal(reader_check(STR("1"), 0, &value, &err), 0);
    assert_int_equal(reader_check(STR("[]"), 0, &value, &err), -E2BIG);
    /* Depth is what is open at once, not how often something was opened. */
    assert_int_equal(reader_check(STR("[[],[],[{}]]"), 3, &value, &err), 0);
}

static void test_value_is_cut_exactly(void **state)
{
    (void)state;
    struct str value;
    struct error err;
    assert_int_equal(check(STR(" \n{\"a\" : 1 } \t"), &value, &err), 0);
    assert_true(str_is(value, "{\"a\" : 1 }"));
}

static void test_walks_members_and_items(void **state)
{
    (void)state;
    struct str text =
        STR("{ \"a\" : [ 1 , \"x,]\\\"\" ,{\"b\":[]}, null ] , \"c\\u0041\":-1.5e3 }");
    struct str key, value;
    accept(text);
    assert_int_equal(reader_count(text), 2);
    struct reader_iter members = reader_iterate(text);
    assert_true(reader_next_member(&members, &key, &value));
    assert_true(str_is(key, "\"a\""));
    assert_int_equal(reader_type(value), READER_ARRAY);
    assert_int_equal(reader_count(value), 4);

    static const char *const items[] = {"1", "\"x,]\\\"\"", "{\"b\":[]}", "null"};
    struct reader_iter iter = reader_iterate(value);
    struct str item;
    for (int i = 0; i < 4; i++) {
        assert_true(reader_next_item(&iter, &item));
        assert_true(str_is(item, items[i]));
    }
    assert_false(reader_next_item(&iter, &item));

    assert_true(reader_next_member(&members, &key, &value));
    char buffer[READER_KEY_MAX];
    assert_true(str_is(reader_key(key, buffer), "cA"));
    assert_true(str_is(value, "-1.5e3"));
    assert_int_equal(reader_type(value), READER_NUMBER);
    assert_false(reader_next_member(&members, &key, &value));
}

static void expect_decoded(struct str json, struct str expected)
{
    struct arena mem = {0};
    struct str text = {0};
    struct error err;
    accept(json);
    assert_int_equal(reader_string(json, &mem, &text, &err), 0);
    assert_int_equal(text.len, expected.len);
    assert_memory_equal(text.data, expected.data, expected.len);
    arena_done(&mem);
}

static void test_strings_are_decoded(void **state)
{
    (void)state;
    expect_decoded(STR("\"\""), STR(""));
    expect_decoded(STR("\"plain\""), STR("plain"));
    expect_decoded(STR("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), STR("\"\\/\b\f\n\r\t"));
    expect_decoded(STR("\"a\\u0000b\""), STR("a\0b"));
    expect_decoded(STR("\"\\u00e9\\u20AC\\ud83d\\ude80\""),
                   STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80"));
    /* Lone halves become U+FFFD, as in Go; what follows is read by itself. */
    expect_decoded(STR("\"\\ud800\""), STR("\xef\xbf\xbd"));
    expect_decoded(STR("\"\\udc00x\""), STR("\xef\xbf\xbdx"));
    expect_decoded(STR("\"\\ud800\\u0041\""), STR("\xef\xbf\xbd"
                                                  "A"));
    expect_decoded(STR("\"\\ud800\\ud83d\\ude80\""), STR("\xef\xbf\xbd\xf0\x9f\x9a\x80"));
    expect_decoded(STR("\"\\ud800\\n\""), STR("\xef\xbf\xbd\n"));
    expect_decoded(STR("\"\\ud83d\\\\ude80\""), STR("\xef\xbf\xbd\\ude80"));
}

static void test_fields_match_as_in_go(void **state)
{
    (void)state;
    enum { NAME, UID, PLAIN };
    struct reader_field fields[] = {
        [NAME] = {.name = "NodeNames"}, [UID] = {.name = "uid"}, [PLAIN] = {.name = "Pod"}};
    struct error err;
    struct str text =
        STR("{\"nodenames\":1,\"NODENAMES\":2,\"uid\":null,\"\\u0050od\":3,\"po\":4}");
    accept(text);
    assert_int_equal(reader_object(text, READER_FIELDS(fields), &err), 0);
    assert_true(str_is(fields[NAME].value, "2")); /* the last one */
    assert_null(fields[UID].value.data);          /* null is missing */
    assert_true(str_is(fields[PLAIN].value, "3"));

    text = STR("{\"uid\":1,\"UID\":null,\"nodeNames\":[]}");
    assert_int_equal(reader_object(text, READER_FIELDS(fields), &err), 0);
    assert_null(fields[UID].value.data);
    assert_true(str_is(fields[NAME].value, "[]"));
    assert_null(fields[PLAIN].value.data); /* nothing is left over from before */
}

static void test_a_nul_in_a_key_makes_another_key(void **state)
{
    (void)state;
    struct reader_field fields[] = {{.name = "uid"}};
    struct error err;
    struct str value;
    struct str text = STR("{\"uid\":1,\"uid\\u0000\":2,\"uid\\u0000x\":3,\"\\u0000uid\":4}");
    accept(text);
    assert_int_equal(reader_object(text, READER_FIELDS(fields), &err), 0);
    assert_true(str_is(fields[0].value, "1"));
    assert_true(reader_find(text, "uid", &value));
    assert_true(str_is(value, "1"));
}

static void test_find_matches_exactly(void **state)
{
    (void)state;
    struct str value = STR("untouched");
    struct str text = STR("{\"a.b/C\":1,\"a.b/c\":2,\"a.b/c\":3,\"n\":4,\"n\":null}");
    assert_true(reader_find(text, "a.b/c", &value));
    assert_true(str_is(value, "3"));
    assert_true(reader_find(text, "a.b/C", &value));
    assert_true(str_is(value, "1"));
    assert_false(reader_find(text, "A.B/C", &value));
    assert_false(reader_find(text, "n", &value));
    assert_true(str_is(value, "1"));
}

static void test_long_escaped_keys_equal_no_name(void **state)
{
    (void)state;
    char key[READER_KEY_MAX + 16];
    char buffer[READER_KEY_MAX];
    memset(key, 'a', sizeof(key));
    key[0] = key[sizeof(key) - 1] = '"';
    assert_int_equal(reader_key((struct str){key, sizeof(key)}, buffer).len, sizeof(key) - 2);
    memcpy(key + 1, "\\n", 2);
    assert_null(reader_key((struct str){key, sizeof(key)}, buffer).data);
    key[READER_KEY_MAX + 1] = '"'; /* the longest that fits */
    assert_int_equal(reader_key((struct str){key, READER_KEY_MAX + 2}, buffer).len,
                     READER_KEY_MAX - 1);
}

static struct reader_field field_of(struct str value)
{
    return (struct reader_field){.name = "f", .value = value};
}

static void test_typed_fields(void **state)
{
    (void)state;
    struct error err;
    struct arena mem = {0};
    struct reader_field f;
    int64_t number = 7;
    bool flag = true;
    uint32_t count = 7;
    struct str text = STR("old");

    f = field_of((struct str){NULL, 0});
    assert_int_equal(reader_field_int(&f, 0, 1, &number, &err), 0);
    assert_int_equal(reader_field_bool(&f, &flag, &err), 0);
    assert_int_equal(reader_field_array(&f, &count, &err), 0);
    assert_int_equal(reader_field_string(&f, &mem, &text, &err), 0);
    assert_int_equal(number, 7);
    assert_true(flag);
    assert_int_equal(count, 7);
    assert_true(str_is(text, "old"));

    f = field_of(STR("1.0"));
    assert_int_equal(reader_field_int(&f, 0, 9, &number, &err), -EINVAL);
    assert_string_equal(err.text, "f: must be an integer");
    f = field_of(STR("\"1\""));
    assert_int_equal(reader_field_int(&f, 0, 9, &number, &err), -EINVAL);
    f = field_of(STR("10"));
    assert_int_equal(reader_field_int(&f, 0, 9, &number, &err), -EINVAL);
    assert_string_equal(err.text, "f: must be from 0 to 9");
    assert_int_equal(number, 7);
    f = field_of(STR("9"));
    assert_int_equal(reader_field_int(&f, 0, 9, &number, &err), 0);
    assert_int_equal(number, 9);

    f = field_of(STR("0"));
    assert_int_equal(reader_field_bool(&f, &flag, &err), -EINVAL);
    assert_int_equal(reader_field_array(&f, &count, &err), -EINVAL);
    assert_string_equal(err.text, "f: must be an array");
    assert_int_equal(reader_field_string(&f, &mem, &text, &err), -EINVAL);
    assert_string_equal(err.text, "f: must be a string");
    assert_int_equal(reader_field_object(&f, NULL, 0, &err), -EINVAL);
    assert_string_equal(err.text, "f: must be an object");
    arena_done(&mem);
}

static void test_quantities(void **state)
{
    (void)state;
    struct error err;
    int64_t value = 7;
    assert_int_equal(reader_quantity(STR("\"8Gi\""), &value, &err), 0);
    assert_int_equal(value, INT64_C(8) << 30);
    assert_int_equal(reader_quantity(STR("50"), &value, &err), 0);
    assert_int_equal(value, 50);
    assert_int_equal(reader_quantity(STR("1e3"), &value, &err), 0);
    assert_int_equal(value, 1000);
    assert_int_equal(reader_quantity(STR("\"5\\u0030\""), &value, &err), 0);
    assert_int_equal(value, 50);
    assert_int_equal(reader_quantity(STR("null"), &value, &err), 0);
    assert_int_equal(value, 0);
    assert_int_equal(reader_quantity(STR("true"), &value, &err), -EINVAL);
    assert_string_equal(err.text, ": must be a quantity");
    assert_int_equal(reader_quantity(STR("\"8Gx\""), &value, &err), -EINVAL);
    assert_memory_equal(err.text, ": ", 2);
    assert_non_null(strstr(err.text, "8Gx"));
}

static void test_paths_join(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(reader_bad(&err, "must be a string"), -EINVAL);
    reader_at(&err, "uid");
    reader_at(&err, "[%d]", 3);
    reader_at(&err, "items");
    assert_int_equal(reader_at(&err, "Pod"), -EINVAL);
    assert_string_equal(err.text, "Pod.items[3].uid: must be a string");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_json),
        cmocka_unit_test(test_refuses_what_is_no_json),
        cmocka_unit_test(test_refuses_what_lenient_parsers_take),
        cmocka_unit_test(test_refuses_bad_utf8),
        cmocka_unit_test(test_bounds_nesting),
        cmocka_unit_test(test_value_is_cut_exactly),
        cmocka_unit_test(test_walks_members_and_items),
        cmocka_unit_test(test_strings_are_decoded),
        cmocka_unit_test(test_fields_match_as_in_go),
        cmocka_unit_test(test_a_nul_in_a_key_makes_another_key),
        cmocka_unit_test(test_find_matches_exactly),
        cmocka_unit_test(test_long_escaped_keys_equal_no_name),
        cmocka_unit_test(test_typed_fields),
        cmocka_unit_test(test_quantities),
        cmocka_unit_test(test_paths_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
