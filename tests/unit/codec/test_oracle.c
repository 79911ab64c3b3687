/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/strbuf.h"
#include "body.h"
#include "json_oracle.h"
#include "rng.h"

/* The reader against json-c on random texts, right and wrong ones; tests/fuzz/fuzz_json.c goes on with it. */

enum { NESTING = 64 };

/* True when the reader takes the text; json-c agrees in either case. */
static bool agree(struct str text)
{
    const char *why;
    enum json_verdict verdict = json_oracle(text, NESTING, &why);
    if (verdict == JSON_DISPUTED)
        fail_msg("%s: %.*s", why, STR_ARG(text));
    return verdict == JSON_ACCEPTED;
}

/* ---- texts ---- */

static void write_blanks(struct rng *rng, struct strbuf *out)
{
    while (rng_below(rng, 6) == 0)
        strbuf_putc(out, " \t\r\n"[rng_below(rng, 4)]);
}

static void write_string(struct rng *rng, struct strbuf *out)
{
    static const char *const pieces[] = {
        "a",
        "b",
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

static void test_random_values_with_a_fault(void **state)
{
    (void)state;
    static const char faults[] = "\"\\{}[],:0-.eE+ntf '/u\n\x01\x80\xc3\xff";
    struct rng rng = rng_seeded(4);
    struct strbuf text = {0};
    int accepted = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        text.len = 0;
        write_value(&rng, 0, &text);
        text.data[rng_below(&rng, (uint32_t)text.len)] = faults[rng_below(&rng, sizeof(faults))];
        struct str copy = body_copy((struct str){text.data, text.len});
        if (agree(copy))
            accepted++;
        else
            refused++;
        body_free(copy);
    }
    strbuf_done(&text);
    assert_true(accepted > 100 && refused > 1000); /* both sides were visited */
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
        cmocka_unit_test(test_sample_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
