/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void test_set_fills_code_and_sentence(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(error_set(&err, -EINVAL, "%s: %d", "minor", 7), -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_string_equal(err.text, "minor: 7");
}

static void test_set_without_a_place(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, -ENOMEM, "nobody reads this"), -ENOMEM);
    assert_int_equal(error_wrap(NULL, "nor this"), -EIO);
}

static void test_set_cuts_long_texts(void **state)
{
    (void)state;
    char big[2 * ERROR_TEXT_MAX];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    struct error err;
    error_set(&err, -E2BIG, "%s", big);
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    error_wrap(&err, "%s", big);
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    assert_int_equal(err.code, -E2BIG);
}

static void test_set_may_quote_the_old_sentence(void **state)
{
    (void)state;
    struct error err;
    error_set(&err, -EINVAL, "inner");
    error_set(&err, -ERANGE, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (inner)");
}

static void test_wrap_keeps_the_code(void **state)
{
    (void)state;
    struct error err;
    error_set(&err, -ENOENT, "no such node");
    assert_int_equal(error_wrap(&err, "pod %s", "a"), -ENOENT);
    assert_string_equal(err.text, "pod a: no such node");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_fills_code_and_sentence),
        cmocka_unit_test(test_set_without_a_place),
        cmocka_unit_test(test_set_cuts_long_texts),
        cmocka_unit_test(test_set_may_quote_the_old_sentence),
        cmocka_unit_test(test_wrap_keeps_the_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
