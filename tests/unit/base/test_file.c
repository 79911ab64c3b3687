/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"

enum { SIZE = 10000 };

static char path[] = "/tmp/deviceshare-file-XXXXXX";

static int setup(void **state)
{
    (void)state;
    char text[SIZE];
    memset(text, 'x', sizeof text);
    int fd = mkstemp(path);
    ssize_t wrote = write(fd, text, sizeof text);
    close(fd);
    return wrote == SIZE ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void a_file_is_appended(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct error err = {0};
    strbuf_puts(&out, "before");
    assert_int_equal(file_read(path, SIZE, &out, &err), 0);
    assert_int_equal(out.len, 6 + SIZE);
    assert_memory_equal(out.data, "beforexxx", 9);
    strbuf_done(&out);
}

static void failures_leave_what_was_there(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct error err = {0};
    strbuf_puts(&out, "before");
    assert_int_equal(file_read(path, SIZE - 1, &out, &err), -EFBIG);
    assert_string_equal(out.data, "before");
    assert_int_equal(file_read("/nonexistent", SIZE, &out, &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent: No such file or directory");
    assert_int_equal(file_read("/tmp", SIZE, &out, &err), -EISDIR);
    strbuf_done(&out);
    for (long n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(file_read(path, SIZE, &out, &err), -ENOMEM);
        mem_fail_at(0);
        assert_int_equal(out.len, 0);
        strbuf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_appended),
        cmocka_unit_test(failures_leave_what_was_there),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
