/* SPDX-License-Identifier: Apache-2.0 */
/* What a table cannot say; the cases are in tests/cases/core/quantity.case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "core/quantity.h"

static int64_t value_of(const char *text)
{
    int64_t value = 0;
    struct error err;
    assert_int_equal(quantity_parse(str_from(text), &value, &err), 0);
    return value;
}

static void test_failure_leaves_the_output(void **state)
{
    (void)state;
    int64_t value = 42;
    struct error err = {0};
    assert_int_equal(quantity_parse(STR("8Gb"), &value, &err), -EINVAL);
    assert_int_equal(quantity_parse(STR("1e30"), &value, &err), -ERANGE);
    assert_int_equal(value, 42);
    assert_int_equal(quantity_parse(STR("x"), &value, NULL), -EINVAL);
}

static void test_empty_slice(void **state)
{
    (void)state;
    int64_t value = 42;
    struct error err;
    assert_int_equal(quantity_parse((struct str){0}, &value, &err), -EINVAL);
    assert_string_equal(err.text, "quantity \"\" is not a Kubernetes quantity");
}

static void test_slice_ends_where_it_says(void **state)
{
    (void)state;
    int64_t value;
    assert_int_equal(quantity_parse((struct str){"12Gi", 3}, &value, NULL), 0);
    assert_int_equal(value, 12000000000);
    assert_int_equal(quantity_parse((struct str){"12Gi", 2}, &value, NULL), 0);
    assert_int_equal(value, 12);
}

/* Long texts are quoted in part, bytes that would upset a log line are not repeated. */
static void test_error_quotes_safely(void **state)
{
    (void)state;
    char text[5000];
    int64_t value;
    struct error err;
    memset(text, '9', sizeof(text));
    assert_int_equal(quantity_parse((struct str){text, sizeof(text)}, &value, &err), -ERANGE);
    assert_string_equal(err.text,
                        "quantity \"9999999999999999999999999999999999999999...\" does not "
                        "fit 64 bits");
    assert_int_equal(quantity_parse((struct str){"1\n\x80\0 Gi", 7}, &value, &err), -EINVAL);
    assert_string_equal(err.text, "quantity \"1??? Gi\" is not a Kubernetes quantity");
}

/* Thousands of digits are exact too, and a huge exponent costs no time. */
static void test_any_number_of_digits(void **state)
{
    (void)state;
    char text[4003];
    int64_t value;
    memset(text, '0', sizeof(text));
    text[1] = '.';
    assert_int_equal(quantity_parse((struct str){text, 4000}, &value, NULL), 0);
    assert_int_equal(value, 0);
    text[3999] = '1'; /* the last of 3998 decimals */
    assert_int_equal(quantity_parse((struct str){text, 4000}, &value, NULL), 0);
    assert_int_equal(value, 1);
    memcpy(text + 4000, "Ei", 2);
    assert_int_equal(quantity_parse((struct str){text, 4002}, &value, NULL), 0);
    assert_int_equal(value, 1);
    assert_int_equal(value_of("0e2147483647"), 0);
    assert_int_equal(value_of("1e-2147483647"), 1);
    assert_int_equal(quantity_parse(STR("1e2147483647"), &value, NULL), -ERANGE);
}

/* Thousandths, rounded up as Kubernetes' MilliValue() does. */
static void test_milli(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t milli;
    } cases[] = {{"1", 1000},    {"250m", 250},      {"0.1", 100}, {"1.5", 1500}, {"1u", 1},
                 {"-0.1u", -1},  {"1k", 1000000},    {"2Ki", 2048000}, {"0", 0},  {"1e3", 1000000}};
    int64_t value;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(quantity_parse_milli(str_from(cases[i].text), &value, NULL), 0);
        assert_int_equal(value, cases[i].milli);
    }
    assert_int_equal(quantity_parse_milli(STR("9223372036854775807"), &value, NULL), -ERANGE);
    assert_int_equal(quantity_parse_milli(STR("8Ei"), &value, NULL), -ERANGE);
    assert_int_equal(quantity_parse_milli(STR("x"), &value, NULL), -EINVAL);
}

/* Every power of two and its neighbours survive both canonical forms. */
static void test_format_then_parse(void **state)
{
    (void)state;
    char text[QUANTITY_TEXT_MAX];
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int64_t delta = -1; delta <= 1; delta++) {
            int64_t value = (int64_t)((UINT64_C(1) << bit) + (uint64_t)delta);
            size_t len = quantity_format_binary(value, text);
            assert_int_equal(len, strlen(text));
            assert_int_equal(value_of(text), value);
            len = quantity_format_decimal(value, text);
            assert_int_equal(len, strlen(text));
            assert_int_equal(value_of(text), value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failure_leaves_the_output),
        cmocka_unit_test(test_empty_slice),
        cmocka_unit_test(test_slice_ends_where_it_says),
        cmocka_unit_test(test_error_quotes_safely),
        cmocka_unit_test(test_any_number_of_digits),
        cmocka_unit_test(test_format_then_parse),
        cmocka_unit_test(test_milli),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
