/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/parse.h"

static void expect_int(struct str text, int64_t expected)
{
    int64_t value = 77;
    assert_true(parse_int64(text, &value));
    assert_int_equal(value, expected);
}

static void refuse_int(struct str text)
{
    int64_t value = 77;
    assert_false(parse_int64(text, &value));
    assert_int_equal(value, 77);
}

static void test_int64(void **state)
{
    (void)state;
    expect_int(STR("0"), 0);
    expect_int(STR("-0"), 0);
    expect_int(STR("007"), 7);
    expect_int(STR("9223372036854775807"), INT64_MAX);
    expect_int(STR("-9223372036854775808"), INT64_MIN);
    refuse_int(STR(""));
    refuse_int(STR("-"));
    refuse_int(STR("+1"));
    refuse_int(STR(" 1"));
    refuse_int(STR("1 "));
    refuse_int(STR("1\0"));
    refuse_int(STR("1.0"));
    refuse_int(STR("0x10"));
    refuse_int(STR("9223372036854775808"));
    refuse_int(STR("-9223372036854775809"));
    refuse_int(STR("99999999999999999999999"));
    refuse_int((struct str){NULL, 0});
}

static void test_bool(void **state)
{
    (void)state;
    bool value = true;
    assert_true(parse_bool(STR("false"), &value));
    assert_false(value);
    assert_true(parse_bool(STR("true"), &value));
    assert_true(value);
    assert_false(parse_bool(STR("True"), &value));
    assert_false(parse_bool(STR("yes"), &value));
    assert_false(parse_bool(STR(""), &value));
    assert_false(parse_bool(STR("true "), &value));
    assert_true(value);
}

static void expect_ms(struct str text, int64_t expected)
{
    int64_t value = 77;
    assert_true(parse_duration_ms(text, &value));
    assert_int_equal(value, expected);
}

static void refuse_ms(struct str text)
{
    int64_t value = 77;
    assert_false(parse_duration_ms(text, &value));
    assert_int_equal(value, 77);
}

/* Values as Go's time.ParseDuration gives them. */
static void test_duration(void **state)
{
    (void)state;
    expect_ms(STR("0"), 0);
    expect_ms(STR("0s"), 0);
    expect_ms(STR("5s"), 5000);
    expect_ms(STR("250ms"), 250);
    expect_ms(STR("1h30m"), 5400000);
    expect_ms(STR("1.5s"), 1500);
    expect_ms(STR("1.s"), 1000);
    expect_ms(STR(".5s"), 500);
    expect_ms(STR("1h0.5m1s"), 3631000);
    expect_ms(STR("1500us"), 1);
    expect_ms(STR("1500\xc2\xb5s"), 1);
    expect_ms(STR("1500\xce\xbcs"), 1);
    expect_ms(STR("999999ns"), 0);
    expect_ms(STR("500us500us"), 1);
    expect_ms(STR("0.3333333333333333333333h"), 1199999);
    expect_ms(STR("0.00000000000000000000000001h"), 0);
    expect_ms(STR("9223372036s"), 9223372036000);
    refuse_ms(STR(""));
    refuse_ms(STR("5"));
    refuse_ms(STR("s"));
    refuse_ms(STR(".s"));
    refuse_ms(STR("-1s"));
    refuse_ms(STR("1 s"));
    refuse_ms(STR("1S"));
    refuse_ms(STR("1d"));
    refuse_ms(STR("1.2.3s"));
    refuse_ms(STR("1s\0"));
    refuse_ms(STR("9223372037s")); /* past int64 nanoseconds, as in Go */
    refuse_ms(STR("2562048h"));
    refuse_ms(STR("9000000000s300000000s"));
    refuse_ms(STR("99999999999999999999h"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int64),
        cmocka_unit_test(test_bool),
        cmocka_unit_test(test_duration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
