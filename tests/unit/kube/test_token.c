/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS (INT64_C(1000) * 1000 * 1000)

static char path[] = "/tmp/deviceshare-token-XXXXXX";
static struct token token;

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int setup(void **state)
{
    (void)state;
    close(mkstemp(path));
    write_file("one\n");
    struct error err;
    return token_init(&token, &(struct api_access){.token_file = path}, &err);
}

static int teardown(void **state)
{
    (void)state;
    token_done(&token);
    return unlink(path);
}

static void a_file_is_read_again_after_a_minute(void **state)
{
    (void)state;
    assert_string_equal(token.text.data, "one");
    write_file("two");
    token_refresh(&token);
    assert_string_equal(token.text.data, "one");
    token.read_at_ns -= 59 * SECOND_NS;
    token_refresh(&token);
    assert_string_equal(token.text.data, "one");
    token.read_at_ns -= 2 * SECOND_NS;
    token_refresh(&token);
    assert_string_equal(token.text.data, "two");

    write_file(""); /* under replacement */
    token.read_at_ns -= 61 * SECOND_NS;
    token_refresh(&token);
    assert_string_equal(token.text.data, "two");
    write_file("three");
    token_refresh(&token); /* not before another minute */
    assert_string_equal(token.text.data, "two");
    assert_true(token_reread(&token));
    assert_string_equal(token.text.data, "three");
    assert_false(token_reread(&token));
}

static void a_fixed_token_stays(void **state)
{
    (void)state;
    struct token fixed;
    struct error err;
    assert_int_equal(token_init(&fixed, &(struct api_access){.token = "t"}, &err), 0);
    fixed.read_at_ns -= 61 * SECOND_NS;
    token_refresh(&fixed);
    assert_false(token_reread(&fixed));
    assert_string_equal(fixed.text.data, "t");
    token_done(&fixed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_read_again_after_a_minute, setup, teardown),
        cmocka_unit_test(a_fixed_token_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
