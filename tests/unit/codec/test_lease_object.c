/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/lease_object.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "test_arena.h"

/* As kube-apiserver answers; the parts that are nobody's business here included. */
#define STORED                                                                                     \
    "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":\"x\","  \
    "\"namespace\":\"ns\",\"uid\":\"1-2\",\"resourceVersion\":\"77\","                             \
    "\"annotations\":{\"deviceshare.io/clean-stop\":\"a_1\",\"team\":\"\\u0041 \\\"b\\\"\"},"      \
    "\"managedFields\":[{\"manager\":\"m\"}]},"                                                    \
    "\"spec\":{\"holderIdentity\":\"a_1\",\"leaseDurationSeconds\":15,"                            \
    "\"acquireTime\":\"2026-11-29T12:00:10.000000Z\",\"renewTime\":\"2026-11-29T12:00:12."         \
    "123456Z\","                                                                                   \
    "\"leaseTransitions\":3,\"strategy\":\"OldestEmulationVersion\"}}"

static void decodes_a_stored_one(void **state)
{
    (void)state;
    struct lease_record record;
    struct error err;
    assert_int_equal(lease_object_decode(STR(STORED), &mem, &record, &err), 0);
    assert_true(str_is(record.holder, "a_1"));
    assert_int_equal(record.duration_s, 15);
    assert_int_equal(record.transitions, 3);
    assert_true(str_is(record.acquired, "2026-11-29T12:00:10.000000Z"));
    assert_true(str_is(record.renewed, "2026-11-29T12:00:12.123456Z"));
    assert_true(str_is(record.clean_stop, "a_1"));
    assert_int_equal(
        lease_object_decode(STR("{\"kind\":\"Lease\",\"spec\":{\"holderIdentity\":null}}"), &mem,
                            &record, &err),
        0);
    assert_int_equal(record.holder.len, 0);
    assert_int_equal(record.clean_stop.len, 0);
}

static void refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"kind\":\"Pod\"}",
        "{\"kind\":\"Lease\",\"spec\":[]}",
        "{\"kind\":\"Lease\",\"spec\":{\"leaseDurationSeconds\":1.5}}",
        "{\"kind\":\"Lease\",\"spec\":{\"leaseTransitions\":4294967296}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"annotations\":{\"deviceshare.io/clean-stop\":1}}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct lease_record record = {.duration_s = 9};
        struct error err;
        assert_int_equal(lease_object_decode(str_from(texts[i]), &mem, &record, &err), -EINVAL);
        assert_int_equal(record.duration_s, 9);
    }
    struct strbuf out = {0};
    struct lease_record record = {0};
    assert_int_equal(
        lease_object_change(STR("{\"kind\":\"Lease\",\"spec\":7}"), &record, &out, NULL), -EINVAL);
    assert_int_equal(
        lease_object_change(STR("{\"kind\":\"Lease\",\"metadata\":{\"annotations\":7}}"), &record,
                            &out, NULL),
        -EINVAL);
    assert_int_equal(out.len, 0);
}

static void a_change_touches_only_the_record(void **state)
{
    (void)state;
    struct lease_record record = {.holder = STR("b_2"),
                                  .duration_s = 10,
                                  .transitions = 4,
                                  .acquired = STR("2026-11-29T12:01:00.000000Z"),
                                  .renewed = STR("2026-11-29T12:01:00.000001Z")};
    struct strbuf out = {0};
    struct error err;
    assert_int_equal(lease_object_change(STR(STORED), &record, &out, &err), 0);
    assert_string_equal(
        out.data,
        "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/"
        "v1\",\"metadata\":{\"name\":\"x\","
        "\"namespace\":\"ns\",\"uid\":\"1-2\",\"resourceVersion\":\"77\","
        "\"managedFields\":[{\"manager\":\"m\"}],\"annotations\":{\"team\":\"\\u0041 \\\"b\\\"\"}},"
        "\"spec\":{\"strategy\":\"OldestEmulationVersion\",\"holderIdentity\":\"b_2\","
        "\"leaseDurationSeconds\":10,\"acquireTime\":\"2026-11-29T12:01:00.000000Z\","
        "\"renewTime\":\"2026-11-29T12:01:00.000001Z\",\"leaseTransitions\":4}}");

    record.clean_stop = STR("b_2"); /* and what was written reads as what was meant */
    struct strbuf again = {0};
    struct lease_record read;
    assert_int_equal(lease_object_change((struct str){out.data, out.len}, &record, &again, &err),
                     0);
    assert_int_equal(lease_object_decode((struct str){again.data, again.len}, &mem, &read, &err),
                     0);
    assert_true(str_is(read.clean_stop, "b_2") && str_is(read.holder, "b_2"));
    assert_non_null(strstr(again.data, "\"team\""));
    strbuf_done(&again);
    strbuf_done(&out);
}

static void a_new_one(void **state)
{
    (void)state;
    struct lease_record record = {
        .holder = STR("a"), .duration_s = 15, .acquired = STR("T"), .renewed = STR("T")};
    struct strbuf out = {0};
    lease_object_new(STR("ns"), STR("x"), &record, &out);
    assert_string_equal(
        out.data, "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":"
                  "{\"namespace\":\"ns\",\"name\":\"x\"},\"spec\":{\"holderIdentity\":\"a\","
                  "\"leaseDurationSeconds\":15,\"acquireTime\":\"T\",\"renewTime\":\"T\","
                  "\"leaseTransitions\":0}}");
    strbuf_done(&out);
}

static void change_without_memory(void **state)
{
    (void)state;
    struct lease_record record = {.holder = STR("b_2"), .duration_s = 10};
    struct strbuf out = {0};
    struct error err;
    mem_fail_at(1);
    assert_int_equal(lease_object_change(STR(STORED), &record, &out, &err), -ENOMEM);
    mem_fail_at(0);
    strbuf_done(&out);
}

static void times_have_six_digits(void **state)
{
    (void)state;
    char text[MICROTIME_TEXT_MAX];
    microtime_format(INT64_C(1795953610123456), text);
    assert_string_equal(text, "2026-11-29T12:00:10.123456Z");
    microtime_format(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000000Z");
    microtime_format(7, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000007Z");
    microtime_format(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999999Z");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, arena_setup, arena_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(decodes_a_stored_one),
        TEST(refuses_what_is_none),
        TEST(a_change_touches_only_the_record),
        TEST(a_new_one),
        TEST(change_without_memory),
        TEST(times_have_six_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
