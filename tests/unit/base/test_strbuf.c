/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

static void expect_json(struct str text, const char *expected)
{
    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_json_string(&buf, text);
    assert_string_equal(buf.data, expected);
    strbuf_done(&buf);
}

static void test_builds_text(void **state)
{
    (void)state;
    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_puts(&buf, "a=");
    strbuf_int(&buf, INT64_MIN);
    strbuf_putc(&buf, ' ');
    strbuf_int(&buf, 0);
    strbuf_putc(&buf, ' ');
    strbuf_int(&buf, INT64_MAX);
    strbuf_printf(&buf, " %s/%d", "x", 5);
    strbuf_add_str(&buf, (struct str){NULL, 0});
    assert_string_equal(buf.data, "a=-9223372036854775808 0 9223372036854775807 x/5");
    assert_int_equal(buf.len, strlen(buf.data));
    strbuf_done(&buf);
    assert_null(buf.data);
}

static void test_grows_over_many_pieces(void **state)
{
    (void)state;
    struct strbuf buf = {0};
    for (int i = 0; i < 10000; i++)
        strbuf_printf(&buf, "%d,", i % 10);
    assert_int_equal(buf.len, 20000);
    assert_memory_equal(buf.data + 19990, "5,6,7,8,9,", 11);
    strbuf_done(&buf);
}

static void test_json_string_escapes(void **state)
{
    (void)state;
    expect_json(STR(""), "\"\"");
    expect_json(STR("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
    expect_json(STR("\n\r\t\x01\x1f\0."), "\"\\n\\r\\t\\u0001\\u001f\\u0000.\"");
    expect_json(STR("Gr\xc3\xb6\xc3\x9f"
                    "e"),
                "\"Gr\xc3\xb6\xc3\x9f"
                "e\"");
}

static void test_failure_sticks(void **state)
{
    (void)state;
    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_puts(&buf, "kept");
    mem_fail_at(1);
    strbuf_printf(&buf, "%1000d", 1);
    mem_fail_at(0);
    assert_true(buf.failed);
    strbuf_puts(&buf, "x");
    strbuf_int(&buf, 1);
    strbuf_json_string(&buf, STR("y"));
    assert_string_equal(buf.data, "kept");
    size_t len;
    assert_null(strbuf_take(&buf, &len));
    assert_null(buf.data);
    assert_false(buf.failed);
}

static void test_impossible_size_fails(void **state)
{
    (void)state;
    struct strbuf buf;
    strbuf_init(&buf);
    assert_false(strbuf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    strbuf_done(&buf);
}

static void test_take_hands_over(void **state)
{
    (void)state;
    struct strbuf buf;
    size_t len = 99;
    strbuf_init(&buf);
    char *nothing = strbuf_take(&buf, &len);
    assert_string_equal(nothing, "");
    assert_int_equal(len, 0);
    mem_free(nothing);

    strbuf_add(&buf, "a\0b", 3);
    char *text = strbuf_take(&buf, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b", 4);
    assert_null(buf.data);
    assert_int_equal(buf.len, 0);
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builds_text),           cmocka_unit_test(test_grows_over_many_pieces),
        cmocka_unit_test(test_json_string_escapes),   cmocka_unit_test(test_failure_sticks),
        cmocka_unit_test(test_impossible_size_fails), cmocka_unit_test(test_take_hands_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
