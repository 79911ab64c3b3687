/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "codec/reader.h"
#include "codec/skip.h"
#include "rng.h"

/* ---- ends, against a walk byte by byte ---- */

static const char *walk_string(const char *at)
{
    for (at++; *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

static const char *walk_container(const char *at)
{
    unsigned depth = 0;
    do {
        if (*at == '"') {
            at = walk_string(at);
            continue;
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
    } while (depth > 0);
    return at;
}

/* In two pieces, wherever they are cut, each from a block of its own. */
static void expect_split_ends(const char *text, size_t size, size_t len)
{
    for (size_t cut = 0; text[0] != '"' && cut < len; cut += cut < 70 ? 1 : 13) {
        struct skip skip = {0};
        char *first = malloc(cut + 1), *second = malloc(size - cut);
        assert_non_null(first);
        assert_non_null(second);
        memcpy(first, text, cut);
        memcpy(second, text + cut, size - cut);
        assert_null(skip_on(&skip, first, first + cut));
        assert_int_equal(skip_on(&skip, second, second + size - cut) - second, len - cut);
        free(first);
        free(second);
    }
}

/* The end is found in a text that ends there, with not a byte to read behind it, and with text
 * behind it that looks like more of the same. */
static void expect_ends(const char *json, size_t len)
{
    static const char behind[] = "\"}]\\{[\"\"}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}]}";
    bool string = json[0] == '"';
    for (int more = 0; more < 2; more++) {
        size_t size = len + (more ? sizeof behind : 0);
        char *text = malloc(size);
        assert_non_null(text);
        memcpy(text, json, len);
        if (more)
            memcpy(text + len, behind, sizeof behind);
        const char *end = string ? skip_string(text, text + size) : skip_container(text, text + size);
        expect_split_ends(text, size, len);
        assert_int_equal(end - text, len);
        assert_ptr_equal(end, string ? walk_string(text) : walk_container(text));
        free(text);
    }
}

static void test_every_length_of_a_string(void **state)
{
    (void)state;
    /* What stands last before the quote matters most: an escaped quote, an escaped backslash. */
    static const char *const tails[] = {"", "\\\"", "\\\\", "\\\\\\\"", "\\u0022", "\xc3\xa9", "]}"};
    for (size_t length = 0; length < 200; length++) {
        for (size_t tail = 0; tail < sizeof tails / sizeof tails[0]; tail++) {
            struct strbuf text = {0};
            strbuf_putc(&text, '"');
            for (size_t i = 0; i < length; i++)
                strbuf_putc(&text, 'x');
            strbuf_puts(&text, tails[tail]);
            strbuf_putc(&text, '"');
            expect_ends(text.data, text.len);

            struct strbuf list = {0};
            strbuf_printf(&list, "[%s,{%s:[]}]", text.data, text.data);
            expect_ends(list.data, list.len);
            strbuf_done(&list);
            strbuf_done(&text);
        }
    }
}

static void test_a_row_of_backslashes_over_the_edge_of_a_block(void **state)
{
    (void)state;
    for (size_t before = 50; before < 70; before++) {
        for (size_t pairs = 0; pairs < 70; pairs++) {
            struct strbuf text = {0};
            strbuf_puts(&text, "[\"");
            for (size_t i = 0; i < before; i++)
                strbuf_putc(&text, ']');
            for (size_t i = 0; i < pairs; i++)
                strbuf_puts(&text, "\\\\");
            strbuf_puts(&text, "\\\"]\"]");
            expect_ends(text.data, text.len);
            strbuf_done(&text);
        }
    }
}

static void add_random(struct strbuf *text, struct rng *rng, unsigned depth)
{
    static const char *const atoms[] = {"1",        "true",  "\"\"",     "\"a\\\\\"", "\"\\\"]\"",
                                        "\"{[}\"",  "-1e5",  "\"\\\\\\\"}\"", "{}",   "[]",
                                        "\"0123456789 a longer text than a word or two of the machine\""};
    uint32_t choice = rng_below(rng, depth == 0 ? 12 : 15);
    if (choice < 11) {
        strbuf_puts(text, atoms[choice]);
        return;
    }
    bool object = choice % 2 == 0;
    uint32_t count = rng_below(rng, depth == 0 ? 2 : 6);
    strbuf_putc(text, object ? '{' : '[');
    for (uint32_t i = 0; i < count; i++) {
        strbuf_puts(text, i > 0 ? ", " : "");
        if (object)
            strbuf_puts(text, i % 2 == 0 ? "\"key\":" : "\"\\\\\" : ");
        if (depth > 0)
            add_random(text, rng, depth - 1);
        else
            strbuf_puts(text, "null");
    }
    strbuf_putc(text, object ? '}' : ']');
}

static void test_random_values(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(20);
    for (int i = 0; i < 3000; i++) {
        struct strbuf text = {0};
        struct str value;
        struct error err = {0};
        strbuf_putc(&text, '[');
        for (uint32_t parts = 1 + rng_below(&rng, 4); parts > 0; parts--) {
            add_random(&text, &rng, 5);
            strbuf_puts(&text, parts > 1 ? "," : "]");
        }
        assert_int_equal(reader_check((struct str){text.data, text.len}, 64, &value, &err), 0);
        expect_ends(text.data, text.len);
        strbuf_done(&text);
    }
}

static void test_deep_and_wide(void **state)
{
    (void)state;
    for (size_t depth = 1; depth < 300; depth++) {
        struct strbuf text = {0};
        for (size_t i = 0; i < depth; i++)
            strbuf_puts(&text, i % 3 == 0 ? "{\"\":" : "[");
        strbuf_puts(&text, "0");
        for (size_t i = depth; i > 0; i--)
            strbuf_putc(&text, (i - 1) % 3 == 0 ? '}' : ']');
        expect_ends(text.data, text.len);
        strbuf_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length_of_a_string),
        cmocka_unit_test(test_a_row_of_backslashes_over_the_edge_of_a_block),
        cmocka_unit_test(test_random_values),
        cmocka_unit_test(test_deep_and_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
