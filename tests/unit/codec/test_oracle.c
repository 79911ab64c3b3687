/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/strbuf.h"
#include "body.h"
#include "codec/reader_index.h"
#include "json_oracle.h"
#include "rng.h"

/* The reader against json-c on random texts, right and wrong ones; tests/fuzz/fuzz_json.c goes on with it. */

enum { NESTING = 64 };

static bool ask(struct str text)
{
    const char *why;
    enum json_verdict verdict = json_oracle(text, NESTING, &why);
    if (verdict == JSON_DISPUTED)
        fail_msg("%s: %.*s", why, STR_ARG(text));
    return verdict == JSON_ACCEPTED;
}

static bool ask_with_index(struct str text)
{
    AUTO_INDEX index;
    reader_index_begin(&index, NULL);
    return ask(text);
}

/* True when the reader takes the text; json-c agrees in either case, and what is noted of the text
 * changes nothing. */
static bool agree(struct str text)
{
    bool accepted = ask(text);
    assert_int_equal(ask_with_index(text), accepted);
    return accepted;
}

/* ---- texts ---- */

/* As API servers write: no blanks. */
static bool dense;

static void write_blanks(struct rng *rng, struct strbuf *out)
{
    while (!dense && rng_below(rng, 6) == 0)
        strbuf_putc(out, " \t\r\n"[rng_below(rng, 4)]);
}

static void write_string(struct rng *rng, struct strbuf *out)
{
    static const char *const pieces[] = {
        "a",
        "b",
        "sixteen-letters.",
        "a-text-of-more-than-thirty-two-letters",
        "uid",
        "\\\"",
        "\\\\",
        "\\/",
        "\\n",
        "\\u0041",
        "\\u00e9",
        "\\u20aC",
        "\\ud83d\\ude80",
        "\\udc00",
        "\\u0000",
        "\xc3\xa9",
        "\xe2\x82\xac",
        "\xf0\x9f\x9a\x80",
        "{",
        "]",
        ",",
        ":",
        "\x7f",
    };
    strbuf_putc(out, '"');
    for (uint32_t n = rng_below(rng, 5); n > 0; n--)
        strbuf_puts(out, pieces[rng_below(rng, sizeof(pieces) / sizeof(pieces[0]))]);
    strbuf_putc(out, '"');
}

static void write_value(struct rng *rng, int depth, struct strbuf *out)
{
    static const char *const scalars[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "12",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "-0.25e+3",
        "1E400",
        "123456789012345678901234567890",
        "0e0",
    };
    uint32_t kind = rng_below(rng, depth > 4 ? 2 : 4);
    write_blanks(rng, out);
    if (kind == 0) {
        strbuf_puts(out, scalars[rng_below(rng, sizeof(scalars) / sizeof(scalars[0]))]);
    } else if (kind == 1) {
        write_string(rng, out);
    } else {
        strbuf_putc(out, kind == 2 ? '[' : '{');
        for (uint32_t n = rng_below(rng, 5), i = 0; i < n; i++) {
            strbuf_puts(out, i > 0 ? "," : "");
            if (kind == 3) {
                write_blanks(rng, out);
                write_string(rng, out);
                write_blanks(rng, out);
                strbuf_putc(out, ':');
            }
            write_value(rng, depth + 1, out);
        }
        write_blanks(rng, out);
        strbuf_putc(out, kind == 2 ? ']' : '}');
    }
    write_blanks(rng, out);
}

static void test_random_values(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(3);
    struct strbuf text = {0};
    for (int round = 0; round < 5000; round++) {
        text.len = 0;
        write_value(&rng, 0, &text);
        struct str copy = body_copy((struct str){text.data, text.len});
        assert_true(agree(copy));
        body_free(copy);
    }
    strbuf_done(&text);
}

/* What may stand where it should not. */
static const char faults[] = "\"\\{}[],:0-.eE+ntf '/u\n\x01\x80\xc3\xff";

/* Read by both, from a copy of just its length. */
static void count_one(const struct strbuf *text, int *accepted, int *refused)
{
    struct str copy = body_copy((struct str){text->data, text->len});
    if (agree(copy))
        ++*accepted;
    else
        ++*refused;
    body_free(copy);
}

static void test_random_values_with_a_fault(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(4);
    struct strbuf text = {0};
    int accepted = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        text.len = 0;
        write_value(&rng, 0, &text);
        text.data[rng_below(&rng, (uint32_t)text.len)] = faults[rng_below(&rng, sizeof(faults))];
        count_one(&text, &accepted, &refused);
    }
    strbuf_done(&text);
    assert_true(accepted > 100 && refused > 1000); /* both sides were visited */
}

/* Far from the end of a text without blanks the reader looks several bytes ahead; near it, it must not. */
static void test_dense_values_with_a_fault(void **state)
{
    (void)state;
    static const char end[] = ",\"............................................................"
                              "............................................................\"]";
    struct rng rng = rng_seeded(5);
    struct strbuf text = {0};
    int accepted = 0, refused = 0;
    dense = true;
    for (int round = 0; round < 40000; round++) {
        text.len = 0;
        strbuf_putc(&text, '[');
        for (uint32_t parts = rng_below(&rng, 4); parts > 0; parts--) {
            write_value(&rng, 0, &text);
            strbuf_putc(&text, ',');
        }
        write_value(&rng, 0, &text);
        if (rng_below(&rng, 4) > 0)
            text.data[rng_below(&rng, (uint32_t)text.len)] =
                faults[rng_below(&rng, sizeof(faults))];
        strbuf_puts(&text, rng_below(&rng, 2) == 0 ? end : "]");
        count_one(&text, &accepted, &refused);
    }
    dense = false;
    strbuf_done(&text);
    assert_true(accepted > 1000 && refused > 1000);
}

static void test_sample_bodies(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "tests/data/extender/requests/filter-names-odd-pod.json",
        "tests/data/extender/requests/filter-nodes-full.json",
        "tests/data/extender/requests/filter-names-big-annotations.json",
        "tests/data/extender/requests/preempt-full.json",
        "tests/data/extender/bad/null.json",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct str body = body_read(paths[i]);
        assert_true(agree(body));
        body_free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_values),
        cmocka_unit_test(test_random_values_with_a_fault),
        cmocka_unit_test(test_dense_values_with_a_fault),
        cmocka_unit_test(test_sample_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
