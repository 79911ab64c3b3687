/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/query.h"

static void pauses_double_up_to_a_bound(void **state)
{
    (void)state;
    static const int64_t ranges[][2] = {{800, 1600},    {1600, 3200},   {3200, 6400},
                                        {6400, 12800},  {12800, 25600}, {15000, 30000},
                                        {15000, 30000}, {15000, 30000}};
    struct backoff backoff;
    backoff_init(&backoff, 800, 30000);
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
            assert_in_range(backoff_next_ms(&backoff), ranges[i][0], ranges[i][1]);
        backoff_reset(&backoff);
    }
}

static void pauses_differ(void **state)
{
    (void)state;
    struct backoff one, other;
    backoff_init(&one, 1000000, 2000000);
    backoff_init(&other, 1000000, 2000000);
    unsigned same = 0;
    int64_t least = INT64_MAX, most = 0;
    for (unsigned i = 0; i < 1000; i++) {
        int64_t a = backoff_between(&one, 0, 999);
        same += a == backoff_between(&other, 0, 999);
        least = a < least ? a : least;
        most = a > most ? a : most;
    }
    assert_in_range(same, 0, 50);
    assert_in_range(least, 0, 30);
    assert_in_range(most, 970, 999);
}

static void narrow_bounds(void **state)
{
    (void)state;
    struct backoff backoff;
    backoff_init(&backoff, 7, 7);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(backoff_next_ms(&backoff), 7);
    backoff_init(&backoff, 10, 15);
    for (unsigned i = 0; i < 100; i++)
        assert_in_range(backoff_next_ms(&backoff), 10, 15);
    assert_int_equal(backoff_between(&backoff, -3, -3), -3);
}

static void what_a_query_escapes(void **state)
{
    (void)state;
    struct strbuf out = {0};
    query_escape(&out, STR("azAZ09-._~ !=,&%+/?#\x01\xc3\xa4"));
    assert_string_equal(out.data, "azAZ09-._~%20%21%3D%2C%26%25%2B%2F%3F%23%01%C3%A4");
    strbuf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_double_up_to_a_bound),
        cmocka_unit_test(pauses_differ),
        cmocka_unit_test(narrow_bounds),
        cmocka_unit_test(what_a_query_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
