/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "body.h"
#include "codec/dump.h"
#include "codec/extender.h"
#include "codec/reader.h"

static struct strbuf out;

static int finish(void **state)
{
    (void)state;
    strbuf_done(&out);
    return 0;
}

/* The answer under construction is exactly this. */
static void assert_answer(const char *expected)
{
    assert_false(out.failed);
    assert_string_equal(out.data, expected);
    struct str value;
    struct error err;
    assert_int_equal(reader_check((struct str){out.data, out.len}, 64, &value, &err), 0);
    strbuf_done(&out);
}

static void assert_answer_is_file(struct str file)
{
    assert_false(out.failed);
    assert_int_equal(out.len, file.len);
    assert_memory_equal(out.data, file.data, file.len);
    body_free(file);
    strbuf_done(&out);
}

static const struct str two_nodes[] = {STR("gpu-node-01"), STR("gpu-node-02")};

static void test_filter_error_is_goldens(void **state)
{
    (void)state;
    extender_encode_filter_error("cache not synced", &out);
    assert_answer_is_file(BODY("responses/filter-error.json"));
}

/* The form of the golden file; the reason is ours. */
static void test_filter_none_fits(void **state)
{
    (void)state;
    struct str golden = BODY("responses/filter-none-fit.json");
    struct str expected = body_replace(golden, "Insufficient koordinator.sh/gpu-core",
                                       reason_text(REASON_INSUFFICIENT_GPU));
    const enum reason reasons[] = {REASON_INSUFFICIENT_GPU, REASON_INSUFFICIENT_GPU};
    struct candidates_call call = {.nodes = two_nodes, .node_count = 2};
    struct filter_answer answer = {.reasons = reasons};
    extender_encode_filter(&call, &answer, &out);
    assert_answer_is_file(expected);
    body_free(golden);
}

static void test_filter_leaves_failures_out_when_one_fits(void **state)
{
    (void)state;
    const struct str nodes[] = {STR("a"), STR("b"), STR("c"), STR("a")};
    const enum reason reasons[] = {REASON_FITS, REASON_INSUFFICIENT_GPU, REASON_NO_GPU,
                                   REASON_DUPLICATE};
    struct candidates_call call = {.nodes = nodes, .node_count = 4};
    struct filter_answer answer = {.reasons = reasons, .fit_count = 1};
    extender_encode_filter(&call, &answer, &out);
    assert_answer("{\"Nodes\":null,\"NodeNames\":[\"a\"],\"FailedNodes\":{},"
                  "\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}");
}

static void test_filter_names_each_failure_once(void **state)
{
    (void)state;
    const struct str nodes[] = {STR("a"), STR("b"), STR("b"), STR("c"), STR("d\"\n")};
    const enum reason reasons[] = {REASON_NODE_CLOSED, REASON_UNKNOWN_NODE, REASON_DUPLICATE,
                                   REASON_INVALID, REASON_TOO_BIG};
    struct candidates_call call = {.nodes = nodes, .node_count = 5};
    struct filter_answer answer = {.reasons = reasons, .invalid_text = "odd \"value\""};
    struct strbuf expected = {0};
    strbuf_printf(&expected,
                  "{\"Nodes\":null,\"NodeNames\":[],\"FailedNodes\":{\"a\":\"%s\"},"
                  "\"FailedAndUnresolvableNodes\":{\"b\":\"%s\",\"c\":\"odd \\\"value\\\"\","
                  "\"d\\\"\\n\":\"%s\"},\"Error\":\"\"}",
                  reason_text(REASON_NODE_CLOSED), reason_text(REASON_UNKNOWN_NODE),
                  reason_text(REASON_TOO_BIG));
    extender_encode_filter(&call, &answer, &out);
    assert_answer(expected.data);
    strbuf_done(&expected);
}

static void test_filter_answers_nodes_with_nodes(void **state)
{
    (void)state;
    const struct str texts[] = {STR("{\"metadata\": {\"name\":\"gpu-node-01\"},\"n\":1e400}"),
                                STR("{}")};
    enum reason reasons[] = {REASON_FITS, REASON_NO_GPU};
    struct candidates_call call = {
        .nodes = two_nodes, .node_count = 2, .full_nodes = true, .node_json = texts};
    struct filter_answer answer = {.reasons = reasons, .fit_count = 1};
    extender_encode_filter(&call, &answer, &out);
    assert_answer(
        "{\"Nodes\":{\"metadata\":{},\"items\":[{\"metadata\": {\"name\":\"gpu-node-01\"},"
        "\"n\":1e400}]},\"NodeNames\":null,\"FailedNodes\":{},"
        "\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}");

    reasons[0] = REASON_NO_GPU;
    answer.fit_count = 0;
    extender_encode_filter(&call, &answer, &out);
    struct strbuf expected = {0};
    strbuf_printf(&expected,
                  "{\"Nodes\":{\"metadata\":{},\"items\":[]},\"NodeNames\":null,\"FailedNodes\":{},"
                  "\"FailedAndUnresolvableNodes\":{\"gpu-node-01\":\"%s\",\"gpu-node-02\":\"%s\"},"
                  "\"Error\":\"\"}",
                  reason_text(REASON_NO_GPU), reason_text(REASON_NO_GPU));
    assert_answer(expected.data);
    strbuf_done(&expected);
}

static void test_prioritize_is_goldens(void **state)
{
    (void)state;
    const struct str nodes[] = {STR("gpu-node-02"), STR("gpu-node-01"), STR("gpu-node-02")};
    const int64_t scores[] = {10, 3, 10};
    const bool repeated[] = {false, false, true};
    struct candidates_call call = {.nodes = nodes, .node_count = 3};
    struct prioritize_answer answer = {.scores = scores, .repeated = repeated};
    extender_encode_prioritize(&call, &answer, &out);
    assert_answer_is_file(BODY("responses/prioritize-ok.json"));

    call.node_count = 0;
    extender_encode_prioritize(&call, &answer, &out);
    assert_answer("[]");
}

/* Names are copied from the body with what stands between them, or one by one: the answer is the same. */
static void test_names_are_copied_as_they_stand(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "[\"a\",\"b\",\"c\",\"d\"]",
        "[ \"a\" ,\"b\",\"c\", \"d\"]",
    };
    enum reason reasons[4];
    for (unsigned kept = 0; kept < 16; kept++) {
        struct strbuf wanted = {0}, scored = {0};
        const char *comma = "";
        struct filter_answer answer = {.reasons = reasons};
        strbuf_puts(&wanted, "{\"Nodes\":null,\"NodeNames\":[");
        strbuf_putc(&scored, '[');
        for (unsigned i = 0; i < 4; i++) {
            bool fits = kept >> i & 1;
            reasons[i] = fits ? REASON_FITS : REASON_LEFT_OUT;
            answer.fit_count += fits;
            if (fits)
                strbuf_printf(&wanted, "%s\"%c\"", comma, 'a' + (int)i);
            comma = fits ? "," : comma;
            strbuf_printf(&scored, "%s{\"Host\":\"%c\",\"Score\":%u}", i > 0 ? "," : "",
                          'a' + (int)i, i * 3 + 1);
        }
        strbuf_puts(&wanted, "],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{},"
                             "\"Error\":\"\"}");
        strbuf_putc(&scored, ']');
        for (unsigned body = 0; body < 2; body++) {
            struct str nodes[4];
            for (unsigned i = 0; i < 4; i++)
                nodes[i] = (struct str){strchr(bodies[body], 'a' + (int)i), 1};
            struct candidates_call call = {.nodes = nodes, .node_count = 4, .quoted = true};
            extender_encode_filter(&call, &answer, &out);
            assert_answer(wanted.data);
            struct prioritize_answer scores = {.scores = (const int64_t[]){1, 4, 7, 10}};
            extender_encode_prioritize(&call, &scores, &out);
            assert_answer(scored.data);
        }
        strbuf_done(&wanted);
        strbuf_done(&scored);
    }
}

/* All three answers of a call, one after the other. */
static char *answer_all(const struct candidates_call *call, const enum reason *some,
                        const enum reason *none, const int64_t *scores, const bool *repeated)
{
    size_t length;
    struct filter_answer some_fit = {.reasons = some, .fit_count = 1};
    struct filter_answer none_fits = {.reasons = none, .invalid_text = "wrong \"value\""};
    struct prioritize_answer prioritized = {.scores = scores, .repeated = repeated};
    extender_encode_filter(call, &some_fit, &out);
    extender_encode_filter(call, &none_fits, &out);
    extender_encode_prioritize(call, &prioritized, &out);
    return strbuf_take(&out, &length);
}

/* Of any length, copied or written anew: the answer is the same, and nothing is read beyond the names. */
static void test_names_of_any_length_are_copied(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    for (uint32_t longest = 1; longest < 80; longest++) {
        struct str names[COUNT];
        enum reason some[COUNT], none[COUNT];
        int64_t scores[COUNT];
        bool repeated[COUNT];
        struct strbuf list = {0};
        for (uint32_t i = 0; i < COUNT; i++) {
            names[i].len = i + 1 == COUNT ? longest : i % longest;
            strbuf_puts(&list, i > 0 ? ",\"" : "\"");
            for (size_t n = 0; n < names[i].len; n++)
                strbuf_putc(&list, (char)('a' + i % 26));
            strbuf_putc(&list, '"');
            some[i] = i % 5 == 0 ? REASON_FITS : REASON_NO_GPU;
            none[i] = 1 + i % REASON_LEFT_OUT;
            scores[i] = i % 11;
            repeated[i] = i % 7 == 6;
        }
        char *text = malloc(list.len); /* to the byte, for those who watch */
        assert_non_null(text);
        memcpy(text, list.data, list.len);
        strbuf_done(&list);
        for (uint32_t i = 0; i < COUNT; i++)
            names[i].data = i > 0 ? names[i - 1].data + names[i - 1].len + 3 : text + 1;
        struct candidates_call call = {.nodes = names, .node_count = COUNT};
        char *written = answer_all(&call, some, none, scores, repeated);
        call.quoted = true;
        char *copied = answer_all(&call, some, none, scores, repeated);
        assert_string_equal(copied, written);
        mem_free(written);
        mem_free(copied);
        free(text);
    }
}

static void test_preempt_is_goldens(void **state)
{
    (void)state;
    const struct str uids[] = {STR("0f20d90b-c6f0-47a4-8cbf-1af26fde5d39")};
    const struct preempt_victims nodes[] = {
        {.node = STR("gpu-node-02"), .uids = uids, .count = 1, .pdb_violations = 1},
        {.node = STR("gpu-node-01"), .uids = uids, .count = 1},
        {.node = STR("gpu-node-03"), .count = 0}, /* kept, but without victims: an error for 1.37 */
    };
    bool keep[] = {false, true, true};
    struct preempt_call call = {.nodes = nodes, .node_count = 3};
    struct preempt_answer answer = {.keep = keep};
    extender_encode_preempt(&call, &answer, &out);
    assert_answer_is_file(BODY("responses/preempt-ok.json"));
    keep[1] = false;
    extender_encode_preempt(&call, &answer, &out);
    assert_answer_is_file(BODY("responses/preempt-none.json"));
}

static void test_bind_is_goldens(void **state)
{
    (void)state;
    extender_encode_bind(NULL, &out);
    assert_answer_is_file(BODY("responses/bind-ok.json"));
    extender_encode_bind("", &out);
    assert_answer_is_file(BODY("responses/bind-ok.json"));
    extender_encode_bind("pod is already assigned to another node", &out);
    assert_answer_is_file(BODY("responses/bind-error.json"));
}

static void test_sentences_leave_as_utf8(void **state)
{
    (void)state;
    extender_encode_problem("name: \"Gr\xc3\xb6\xc3\" \xff<", &out); /* cut inside a character */
    assert_answer("{\"error\":\"name: \\\"Gr\xc3\xb6\xef\xbf\xbd\\\" \xef\xbf\xbd<\"}");
}

static void test_no_memory_is_seen_by_the_caller(void **state)
{
    (void)state;
    const int64_t scores[] = {10, 3};
    struct candidates_call call = {.nodes = two_nodes, .node_count = 2};
    struct prioritize_answer answer = {.scores = scores};
    mem_fail_at(0);
    extender_encode_prioritize(&call, &answer, &out);
    extender_encode_bind("some sentence", &out);
    long count = mem_count();
    strbuf_done(&out);
    assert_true(count > 2);
    for (long n = 1; n <= count; n++) {
        mem_fail_at(n);
        extender_encode_prioritize(&call, &answer, &out);
        extender_encode_bind("some sentence", &out);
        mem_fail_at(0);
        assert_true(out.failed);
        strbuf_done(&out);
    }
}

/* ---- kube-scheduler's side ---- */

static void test_questions_read_back(void **state)
{
    (void)state;
    struct arena mem = {0};
    struct error err;
    struct candidates_call call;
    extender_encode_args(STR("{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\"}}"),
                         two_nodes, 2, &out);
    assert_int_equal(extender_decode_candidates((struct str){out.data, out.len},
                                                &codec_default_limits, NULL, &mem, &call,
                                                &err),
                     0);
    assert_int_equal(call.node_count, 2);
    assert_true(str_eq(call.nodes[1], two_nodes[1]));
    strbuf_done(&out);

    struct pod_id pod = {.ns = STR("n"), .name = STR("p"), .uid = STR("u")};
    struct bind_call bind;
    extender_encode_bind_args(&pod, STR("node"), &out);
    assert_int_equal(extender_decode_bind((struct str){out.data, out.len}, &codec_default_limits,
                                          &mem, &bind, &err),
                     0);
    assert_true(str_is(bind.pod.ns, "n") && str_is(bind.pod.name, "p"));
    assert_true(str_is(bind.pod.uid, "u") && str_is(bind.node, "node"));
    arena_done(&mem);
}

static void test_answers_are_read(void **state)
{
    (void)state;
    struct arena mem = {0};
    struct error err;
    struct filter_result result;
    struct str body = BODY("responses/filter-ok.json");
    assert_int_equal(extender_decode_filter_result(body, &mem, &result, &err), 0);
    body_free(body);
    assert_int_equal(result.node_count, 1);
    assert_true(str_is(result.nodes[0], "gpu-node-01"));
    assert_int_equal(result.error.len, 0);
    assert_true(str_is(result.first_failure, "Insufficient koordinator.sh/gpu-core"));

    body = BODY("responses/filter-error.json");
    assert_int_equal(extender_decode_filter_result(body, &mem, &result, &err), 0);
    body_free(body);
    assert_int_equal(result.node_count, 0);
    assert_true(str_is(result.error, "cache not synced"));
    assert_int_equal(result.first_failure.len, 0);

    assert_int_equal(
        extender_decode_filter_result(
            STR("{\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{\"a\":\"never\"}}"), &mem,
            &result, &err),
        0);
    assert_true(str_is(result.first_failure, "never"));

    const struct str *hosts;
    const int64_t *scores;
    uint32_t count;
    body = BODY("responses/prioritize-ok.json");
    assert_int_equal(extender_decode_priorities(body, &mem, &hosts, &scores, &count, &err), 0);
    body_free(body);
    assert_int_equal(count, 2);
    assert_true(str_is(hosts[0], "gpu-node-02"));
    assert_int_equal(scores[0], 10);
    assert_int_equal(scores[1], 3);

    struct str text = {0};
    assert_int_equal(extender_decode_bind_result(STR("{\"Error\":\"no\"}"), &mem, &text, &err), 0);
    assert_true(str_is(text, "no"));
    assert_int_equal(extender_decode_bind_result(STR("{}"), &mem, &text, &err), 0);
    assert_int_equal(text.len, 0);
    arena_done(&mem);
}

/* As kube-scheduler: a score that is no integer spoils the list. */
static void test_bad_answers(void **state)
{
    (void)state;
    struct arena mem = {0};
    struct error err;
    const struct str *hosts;
    const int64_t *scores;
    uint32_t count;
    assert_int_equal(extender_decode_priorities(STR("[{\"Host\":\"a\",\"Score\":7.0}]"), &mem,
                                                &hosts, &scores, &count, &err),
                     -EINVAL);
    assert_string_equal(err.text, "body[0].Score: must be an integer");
    assert_int_equal(extender_decode_priorities(STR("{}"), &mem, &hosts, &scores, &count, &err),
                     -EINVAL);
    assert_string_equal(err.text, "body: must be an array");
    struct filter_result result;
    assert_int_equal(extender_decode_filter_result(STR("[]"), &mem, &result, &err), -EINVAL);
    assert_string_equal(err.text, "body: must be an object");
    assert_int_equal(extender_decode_filter_result(STR("{\"NodeNames\":[1]}"), &mem, &result, &err),
                     -EINVAL);
    assert_string_equal(err.text, "NodeNames[0]: must be a string");
    struct str text;
    assert_int_equal(extender_decode_bind_result(STR(""), &mem, &text, &err), -EINVAL);
    arena_done(&mem);
}

static void test_dump_amount(void **state)
{
    (void)state;
    struct amount amount = {.percent = 100, .bytes = INT64_C(1) << 40};
    dump_amount(DEVICE_GPU, &amount, &out);
    assert_answer("{\"koordinator.sh/gpu-core\":100,\"koordinator.sh/gpu-memory\":1099511627776}");
    dump_amount(DEVICE_RDMA, &amount, &out); /* has no bytes */
    assert_answer("{\"koordinator.sh/rdma\":100}");
    amount = (struct amount){0};
    dump_amount(DEVICE_GPU, &amount, &out);
    assert_answer("{}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, finish)
        TEST(test_filter_error_is_goldens),
        TEST(test_filter_none_fits),
        TEST(test_filter_leaves_failures_out_when_one_fits),
        TEST(test_filter_names_each_failure_once),
        TEST(test_filter_answers_nodes_with_nodes),
        TEST(test_prioritize_is_goldens),
        TEST(test_names_are_copied_as_they_stand),
        TEST(test_names_of_any_length_are_copied),
        TEST(test_preempt_is_goldens),
        TEST(test_bind_is_goldens),
        TEST(test_sentences_leave_as_utf8),
        TEST(test_no_memory_is_seen_by_the_caller),
        TEST(test_questions_read_back),
        TEST(test_answers_are_read),
        TEST(test_bad_answers),
        TEST(test_dump_amount),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
