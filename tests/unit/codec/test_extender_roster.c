/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "body.h"
#include "codec/extender.h"
#include "rng.h"

/* A call is read with a roster as without one, and what the roster says of its names is noted. */

enum { KNOWN = 40, MANY = 60 };

static struct rng rng;
static char texts[MANY][48];
static struct str names[MANY]; /* the first ones are in the roster */
static struct roster *roster;

static void make_roster(void)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "%snode-%02u%s", i % 3 ? "a-pool-with-a-long-name-" : "", i,
                 i % 5 ? "" : "-0");
        names[i] = str_from(texts[i]);
        bytes += i < KNOWN ? names[i].len : 0;
    }
    roster = roster_begin(calloc(1, roster_block_size(KNOWN, bytes)), KNOWN, 3);
    for (uint32_t i = 0; i < KNOWN; i++)
        roster_add(roster, names[i], 1000 + i);
    roster_end(roster);
}

/* The number of a name by itself. */
static uint32_t number_of(struct str name)
{
    for (uint32_t i = 0; i < KNOWN; i++)
        if (str_eq(names[i], name))
            return 1000 + i;
    return ROSTER_NONE;
}

/* Pieces of the roster, names from anywhere, names again; blanks now and then, and an escape. */
static struct str make_body(bool *ret_escaped)
{
    static const char *const separators[] = {",", ",", ",", ",", ",", ", ", " ,", ",\n\t"};
    struct strbuf out = {0};
    *ret_escaped = false;
    strbuf_puts(&out, "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\"}},"
                      "\"Other\":[\"x\",\"node-00\"],\"NodeNames\":[");
    for (uint32_t left = rng_below(&rng, 8), written = 0; left > 0; left--) {
        uint32_t place = rng_below(&rng, MANY), count = 1 + rng_below(&rng, 20);
        for (; count > 0 && place < MANY; count--, place++) {
            if (written++ > 0)
                strbuf_puts(&out, separators[rng_below(&rng, 8)]);
            bool escaped = rng_below(&rng, 200) == 0;
            *ret_escaped |= escaped;
            strbuf_printf(&out, "\"%s%.*s\"", escaped ? "\\u0061" : "", STR_ARG(names[place]));
        }
    }
    strbuf_puts(&out, rng_below(&rng, 2) ? "]}" : " ] }");
    struct str body = body_copy((struct str){out.data, out.len});
    strbuf_done(&out);
    return body;
}

static void check_notes(const struct candidates_call *call)
{
    uint32_t strangers = 0;
    assert_ptr_equal(call->notes.roster, roster);
    assert_int_equal(call->notes.version, 3);
    for (uint32_t i = 0; i < call->node_count; i++) {
        assert_int_equal(call->notes.numbers[i], number_of(call->nodes[i]));
        assert_int_equal(call->notes.hashes[i], roster_hash(call->nodes[i]));
        strangers += call->notes.numbers[i] == ROSTER_NONE;
    }
    assert_int_equal(call->notes.strangers, strangers);
    assert_true(call->notes.pieces <= call->node_count - strangers);
}

static void test_a_roster_changes_nothing_but_the_notes(void **state)
{
    (void)state;
    for (int round = 0; round < 4000; round++) {
        struct arena mem;
        struct candidates_call plain, noted;
        struct error err = {0};
        bool escaped;
        struct str body = make_body(&escaped);
        arena_init(&mem, 0);
        assert_int_equal(
            extender_decode_candidates(body, &codec_default_limits, NULL, &mem, &plain, &err), 0);
        assert_int_equal(
            extender_decode_candidates(body, &codec_default_limits, roster, &mem, &noted, &err), 0);
        assert_int_equal(plain.node_count, noted.node_count);
        assert_int_equal(plain.quoted, noted.quoted);
        assert_int_equal(noted.quoted, !escaped);
        for (uint32_t i = 0; i < plain.node_count; i++)
            assert_true(str_eq(plain.nodes[i], noted.nodes[i]));
        if (noted.quoted)
            check_notes(&noted);
        else
            assert_null(noted.notes.numbers);
        arena_done(&mem);
        body_free(body);
    }
}

static struct candidates_call read_names(const char *list, struct arena *mem)
{
    struct candidates_call call;
    struct error err = {0};
    struct strbuf out = {0};
    strbuf_printf(&out,
                  "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\"}},"
                  "\"NodeNames\":[%s]}",
                  list);
    struct str body = arena_str(mem, (struct str){out.data, out.len});
    strbuf_done(&out);
    assert_int_equal(extender_decode_candidates(body, &codec_default_limits, roster, mem, &call, &err), 0);
    return call;
}

static void test_whole_pieces_are_taken_at_once(void **state)
{
    (void)state;
    struct arena mem;
    struct strbuf list = {0};
    arena_init(&mem, 0);
    strbuf_add(&list, roster->text, roster_bytes(roster, 0, KNOWN));
    struct candidates_call call = read_names(list.data, &mem);
    assert_int_equal(call.node_count, KNOWN);
    assert_int_equal(call.notes.pieces, 1);
    strbuf_puts(&list, ",\"stranger\",");
    strbuf_add(&list, roster->text + roster->begin[5], roster_bytes(roster, 5, 10));
    call = read_names(list.data, &mem);
    assert_int_equal(call.node_count, KNOWN + 11);
    assert_int_equal(call.notes.strangers, 1);
    assert_in_range(call.notes.pieces, 2, 4); /* what finds no room goes on in another one */
    strbuf_done(&list);
    arena_done(&mem);
}

int main(void)
{
    rng = rng_seeded(5);
    make_roster();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_roster_changes_nothing_but_the_notes),
        cmocka_unit_test(test_whole_pieces_are_taken_at_once),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(roster);
    return failed;
}
