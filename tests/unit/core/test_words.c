/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/names.h"
#include "core/reason.h"
#include "core/text.h"

static struct str repeat(char *buffer, char c, size_t len)
{
    memset(buffer, c, len);
    return (struct str){buffer, len};
}

static void test_subdomain(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "node-1", "10.0.0.7", "gpu-1.rack2.example.com", "0"};
    static const char *const bad[] = {
        "",    "A",   "Node-1", "-a",   "a-",   ".a",   "a.",        "a..b",
        "a_b", "a/b", "a b",    "a.-b", "a-.b", "a%2f", "../../etc", "\xc3\xa4",
    };
    char buffer[NAME_SUBDOMAIN_MAX + 1];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(name_is_subdomain(str_from(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(name_is_subdomain(str_from(bad[i])));
    assert_false(name_is_subdomain((struct str){0}));
    assert_false(name_is_subdomain((struct str){"a\0b", 3}));
    assert_true(name_is_subdomain(repeat(buffer, 'a', NAME_SUBDOMAIN_MAX)));
    assert_false(name_is_subdomain(repeat(buffer, 'a', NAME_SUBDOMAIN_MAX + 1)));
}

static void test_label(void **state)
{
    (void)state;
    char buffer[NAME_LABEL_MAX + 1];
    assert_true(name_is_label(STR("kube-system")));
    assert_true(name_is_label(STR("0")));
    assert_false(name_is_label(STR("a.b")));
    assert_false(name_is_label(STR("-a")));
    assert_false(name_is_label(STR("a-")));
    assert_false(name_is_label(STR("")));
    assert_false(name_is_label(STR("Default")));
    assert_true(name_is_label(repeat(buffer, 'x', NAME_LABEL_MAX)));
    assert_false(name_is_label(repeat(buffer, 'x', NAME_LABEL_MAX + 1)));
}

static void test_uid(void **state)
{
    (void)state;
    char buffer[NAME_UID_MAX + 1];
    assert_true(name_is_uid(STR("8c25ea37-2909-6e62-b7bf-e2fcadebea8d")));
    assert_true(name_is_uid(STR("0b9af5e3bd0f0ac9a8c0bd4b9ee3de1a"))); /* a mirror pod's */
    assert_true(name_is_uid(STR("UID-1")));
    assert_false(name_is_uid(STR("")));
    assert_false(name_is_uid(STR("a/b")));
    assert_false(name_is_uid(STR("a.b")));
    assert_false(name_is_uid((struct str){"a\0", 2}));
    assert_true(name_is_uid(repeat(buffer, 'f', NAME_UID_MAX)));
    assert_false(name_is_uid(repeat(buffer, 'f', NAME_UID_MAX + 1)));
}

/* kube-scheduler and users compare these. */
static void test_reason_texts(void **state)
{
    (void)state;
    assert_string_equal(reason_text(REASON_INSUFFICIENT_GPU), "Insufficient gpu devices");
    assert_string_equal(reason_text(REASON_INSUFFICIENT_RDMA), "Insufficient rdma devices");
    assert_string_equal(reason_text(REASON_INSUFFICIENT_FPGA), "Insufficient fpga devices");
    /* Koordinator has one text for short and none. */
    assert_ptr_equal(strstr(reason_text(REASON_NO_GPU), "Insufficient gpu devices"),
                     reason_text(REASON_NO_GPU));
    assert_ptr_equal(strstr(reason_text(REASON_NO_RDMA), "Insufficient rdma devices"),
                     reason_text(REASON_NO_RDMA));
    assert_ptr_equal(strstr(reason_text(REASON_NO_FPGA), "Insufficient fpga devices"),
                     reason_text(REASON_NO_FPGA));
}

static void test_reason_classes(void **state)
{
    (void)state;
    assert_int_equal(reason_verdict(REASON_FITS), VERDICT_FITS);
    for (enum reason r = REASON_INSUFFICIENT_GPU; r <= REASON_NODE_CLOSED; r++)
        assert_int_equal(reason_verdict(r), VERDICT_NOT_NOW);
    for (enum reason r = REASON_UNKNOWN_NODE; r < REASON_DUPLICATE; r++)
        assert_int_equal(reason_verdict(r), VERDICT_NEVER);
}

/* kube-scheduler adds up nodes by text: two reasons with one text would be mixed. */
static void test_reasons_differ(void **state)
{
    (void)state;
    for (enum reason a = 0; a < REASON_MAX; a++) {
        assert_true(strlen(reason_text(a)) > 0 && strlen(reason_word(a)) > 0);
        for (enum reason b = 0; b < a; b++) {
            assert_string_not_equal(reason_text(a), reason_text(b));
            assert_string_not_equal(reason_word(a), reason_word(b));
        }
    }
}

static void test_text_is_cut(void **state)
{
    (void)state;
    char out[12];
    struct text text = text_begin(out, sizeof(out));
    text_add(&text, "%s", "elevenchars");
    assert_string_equal(out, "elevenchars");
    assert_false(text.cut);

    text = text_begin(out, sizeof(out));
    text_add(&text, "%d-", 1234567);
    text_add(&text, "%s", "abcd");
    assert_string_equal(out, "1234567-...");
    assert_int_equal(text.len, 11);
    text_add(&text, "more");
    assert_string_equal(out, "1234567-...");
}

static void test_text_in_tiny_buffers(void **state)
{
    (void)state;
    char out[4] = "xyz";
    struct text text = text_begin(out, 0);
    text_add(&text, "a");
    assert_int_equal(text.len, 0);
    assert_string_equal(out, "xyz");
    text = text_begin(out, 1);
    text_add(&text, "a");
    assert_string_equal(out, "");
    text = text_begin(out, 3);
    text_add(&text, "abc");
    assert_int_equal(text.len, strlen(out));
    text = text_begin(out, 4);
    text_add(&text, "abcd");
    assert_string_equal(out, "...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subdomain),
        cmocka_unit_test(test_label),
        cmocka_unit_test(test_uid),
        cmocka_unit_test(test_reason_texts),
        cmocka_unit_test(test_reason_classes),
        cmocka_unit_test(test_reasons_differ),
        cmocka_unit_test(test_text_is_cut),
        cmocka_unit_test(test_text_in_tiny_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
