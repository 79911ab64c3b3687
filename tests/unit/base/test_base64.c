/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void texts_of_the_standard(void **state)
{
    (void)state;
    static const struct {
        const char *text, *bytes;
    } cases[] = {
        {"", ""},
        {"Zg==", "f"},
        {"Zm8=", "fo"},
        {"Zm9v", "foo"},
        {"Zm9vYg==", "foob"},
        {"Zm9vYmE=", "fooba"},
        {"Zm9vYmFy", "foobar"}, /* RFC 4648, section 10 */
        {"+/+/", "\xfb\xff\xbf"},
        {"Zm9v\nYm\r\nFy\n", "foobar"},
        {"Z\ng\n=\n=\n", "f"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct strbuf out = {0};
        strbuf_puts(&out, ">");
        if (!base64_decode(str_from(cases[i].text), &out) ||
            strcmp(out.data + 1, cases[i].bytes) != 0)
            fail_msg("%s", cases[i].text);
        strbuf_done(&out);
    }
}

static void other_texts(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Z",    "Zg",       "Zg=",       "Zm9vYg", "=",    "====", "Z===",    "Zg==Zg==", "Zg=a",
        "Zm9 ", "Zm9v Zg=", "Zm9v\tZg=", "-_-_",   "Zh==", "Zm9=", "Zg==\n=", "\xc3\xa4", "Zg=\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct strbuf out = {0};
        strbuf_puts(&out, "kept");
        if (base64_decode(str_from(bad[i]), &out))
            fail_msg("%s", bad[i]);
        assert_string_equal(out.data, "kept");
        strbuf_done(&out);
    }
}

static void every_byte(void **state)
{
    (void)state;
    struct strbuf out = {0};
    assert_true(base64_decode(STR("AAECA/3+/w=="), &out));
    assert_int_equal(out.len, 7);
    assert_memory_equal(out.data, "\x00\x01\x02\x03\xfd\xfe\xff", 7);
    strbuf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_the_standard),
        cmocka_unit_test(other_texts),
        cmocka_unit_test(every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
