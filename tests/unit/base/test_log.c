/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* What went to stderr since capture_start(), which is a pipe meanwhile. */
static char captured[4 * PIPE_BUF];
static int pipe_ends[2];
static int real_stderr;

static void capture_start(void)
{
    assert_int_equal(pipe(pipe_ends), 0);
    real_stderr = dup(STDERR_FILENO);
    assert_true(real_stderr >= 0);
    assert_int_equal(dup2(pipe_ends[1], STDERR_FILENO), STDERR_FILENO);
    close(pipe_ends[1]);
}

static void capture_stop(void)
{
    assert_int_equal(dup2(real_stderr, STDERR_FILENO), STDERR_FILENO);
    close(real_stderr);
    size_t length = 0;
    ssize_t got;
    while ((got = read(pipe_ends[0], captured + length, sizeof(captured) - 1 - length)) > 0)
        length += (size_t)got;
    close(pipe_ends[0]);
    captured[length] = '\0';
}

static void test_line_has_klogs_form(void **state)
{
    (void)state;
    capture_start();
    log_warning("Pod bound", LOG_TEXT("pod", "ns/name"), LOG_INT("latencyMs", -3));
    capture_stop();

    char severity, file[32];
    int month, day, hour, minute, second, micro, line, read = 0;
    long pid;
    assert_int_equal(sscanf(captured, "%c%2d%2d %2d:%2d:%2d.%6d %ld %31[a-z_.]:%d]%n", &severity,
                            &month, &day, &hour, &minute, &second, &micro, &pid, file, &line,
                            &read),
                     10);
    assert_int_equal(severity, 'W');
    assert_in_range(month, 1, 12);
    assert_in_range(day, 1, 31);
    assert_int_equal(pid, getpid());
    assert_string_equal(file, "test_log.c");
    assert_string_equal(captured + read, " \"Pod bound\" pod=\"ns/name\" latencyMs=-3\n");
}

static void *log_from_another_thread(void *self)
{
    (void)self;
    log_error("other", LOG_INT("own", 3));
    return NULL;
}

static void test_context_is_of_one_thread(void **state)
{
    (void)state;
    const struct log_field context[] = {LOG_INT("requestID", 7), LOG_TEXT("client", "a b")};
    pthread_t thread;
    capture_start();
    log_set_context(context, 2);
    log_error("mine", LOG_INT("own", 1));
    assert_int_equal(pthread_create(&thread, NULL, log_from_another_thread, NULL), 0);
    pthread_join(thread, NULL);
    log_set_context(NULL, 0);
    log_error("after", LOG_INT("own", 2));
    capture_stop();
    assert_non_null(strstr(captured, " \"mine\" requestID=7 client=\"a b\" own=1\n"));
    assert_non_null(strstr(captured, " \"other\" own=3\n"));
    assert_non_null(strstr(captured, " \"after\" own=2\n"));
}

static void test_values_cannot_forge_a_line(void **state)
{
    (void)state;
    static const char hostile[] =
        "a\nE1129 00:00:00.000000 1 x.c:1] \"forged\"\r\t\\\0\x1b[2J\xe2\x80\xa8";
    capture_start();
    log_error("bad", LOG_STR("name", ((struct str){hostile, sizeof(hostile) - 1})));
    capture_stop();
    assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
    assert_non_null(strstr(captured,
                           "name=\"a\\nE1129 00:00:00.000000 1 x.c:1] \\\"forged\\\"\\x0d\\t"
                           "\\\\\\x00\\x1b[2J\\xe2\\x80\\xa8\"\n"));
}

static void test_long_lines_are_cut_whole(void **state)
{
    (void)state;
    static char big[3 * PIPE_BUF];
    memset(big, '"', sizeof(big)); /* each takes two bytes */
    int seen = 0;
    for (size_t length = PIPE_BUF / 2 - 80; length < PIPE_BUF / 2 + 10; length++) {
        capture_start();
        log_error("big", LOG_STR("a", ((struct str){big, length})), LOG_INT("b", 1));
        capture_stop();
        size_t got = strlen(captured);
        assert_true(got <= PIPE_BUF);
        bool whole = strstr(captured, "\\\"\" b=1\n") != NULL;
        bool cut = strcmp(captured + got - 7, "\\\"...\"\n") == 0;
        bool second_left_out = strcmp(captured + got - 4, "\\\"\"\n") == 0;
        assert_int_equal(whole + cut + second_left_out, 1);
        seen |= whole | cut << 1 | second_left_out << 2;
    }
    assert_int_equal(seen, 7);
    capture_start();
    log_error("big", LOG_STR("a", ((struct str){big, sizeof(big)})), LOG_INT("b", 1));
    capture_stop();
    assert_true(strlen(captured) <= PIPE_BUF && strlen(captured) > PIPE_BUF - 10);
    assert_string_equal(captured + strlen(captured) - 7, "\\\"...\"\n");
}

static void test_verbosity_drops_info_only(void **state)
{
    (void)state;
    assert_int_equal(log_verbosity(), 2);
    capture_start();
    log_info(4, "debug", LOG_INT("a", 1));
    log_info(2, "normal", LOG_INT("a", 1));
    log_set_verbosity(4);
    log_info(4, "wanted", LOG_INT("a", 1));
    log_set_verbosity(0);
    log_info(2, "unwanted", LOG_INT("a", 1));
    log_error("always", LOG_INT("a", 1));
    log_set_verbosity(2);
    capture_stop();
    assert_null(strstr(captured, "debug"));
    assert_non_null(strstr(captured, "I"));
    assert_non_null(strstr(captured, "\"normal\""));
    assert_non_null(strstr(captured, "\"wanted\""));
    assert_null(strstr(captured, "unwanted"));
    assert_non_null(strstr(captured, "\"always\""));
}

static void test_errno_is_left_alone(void **state)
{
    (void)state;
    capture_start();
    errno = EXDEV;
    log_error("x", LOG_INT("a", 1));
    int after = errno;
    capture_stop();
    assert_int_equal(after, EXDEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_has_klogs_form),
        cmocka_unit_test(test_context_is_of_one_thread),
        cmocka_unit_test(test_values_cannot_forge_a_line),
        cmocka_unit_test(test_long_lines_are_cut_whole),
        cmocka_unit_test(test_verbosity_drops_info_only),
        cmocka_unit_test(test_errno_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
