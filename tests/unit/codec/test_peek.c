/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "body.h"
#include "codec/peek.h"

static void test_versions(void **state)
{
    (void)state;
    assert_int_equal(peek_version(STR("1")), 1);
    assert_int_equal(peek_version(STR("9999999999999999999")), UINT64_C(9999999999999999999));
    static const char *const others[] = {"", "0", "01", "10000000000000000000", "-1", "+1", "1 ",
                                         "1.0", "1e3", "a", "\\u0031"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(peek_version(str_from(others[i])), 0);
}

/* "uid version", or "-". */
static void assert_peeked(const char *json, const char *uid, uint64_t version)
{
    struct str copy = body_copy(str_from(json)), found;
    uint64_t number;
    bool peeked = peek_object(copy, &found, &number);
    assert_int_equal(peeked, uid != NULL);
    if (peeked) {
        assert_true(str_is(found, uid));
        assert_int_equal(number, version);
    }
    body_free(copy);
}

static void test_objects(void **state)
{
    (void)state;
    assert_peeked("{\"metadata\":{\"name\":\"a\",\"uid\":\"u-1\",\"resourceVersion\":\"17\",\"x\":1",
                  "u-1", 17);
    assert_peeked("{\"metadata\":{\"resourceVersion\":\"17\",\"uid\":\"u\",", "u", 17);
    static const char *const others[] = {
        "",
        "{",
        "{\"metadata\":{",
        "{\"metadata\":{}}",
        "{\"metadata\":{\"uid\":\"u\"}}",
        "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"17",
        "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"17\"",
        "{\"metadata\":{\"uid\":\"\",\"resourceVersion\":\"17\",",
        "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"x\",",
        "{\"metadata\":{\"uid\":\"u\\\"\",\"resourceVersion\":\"17\",",
        "{\"metadata\":{\"u\\u0069d\":\"u\",\"resourceVersion\":\"17\",",
        "{\"metadata\":{\"generation\":1,\"uid\":\"u\",\"resourceVersion\":\"17\",",
        "{ \"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"17\",",
        "{\"kind\":\"Pod\",\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"17\",",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_peeked(others[i], NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
