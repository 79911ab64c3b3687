/* SPDX-License-Identifier: Apache-2.0 */
#include "core/roster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rng.h"

enum { MANY = 60, LONGEST = 60 };

static struct rng rng;
static char texts[MANY][LONGEST + 12];
static struct str names[MANY];

/* Names that have much in common: short ones, the beginnings of others, the empty one. */
static void make_names(uint32_t count)
{
    static const char common[] = "gpu-pool-a-node-000000000000000000000000000000000000000000000";
    for (uint32_t i = 0; i < count; i++) {
        int length = (int)rng_below(&rng, LONGEST);
        snprintf(texts[i], sizeof texts[i], "%.*s%u", i > 0 ? length : 0, common, i);
        names[i] = i > 0 ? str_from(texts[i]) : STR("");
    }
}

static struct roster *make_roster(uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += names[i].len;
    void *block = calloc(1, roster_block_size(count, bytes));
    assert_non_null(block);
    struct roster *roster = roster_begin(block, count, 7);
    for (uint32_t i = 0; i < count; i++)
        roster_add(roster, names[i], 100 + i);
    roster_end(roster);
    return roster;
}

static void test_it_is_one_text(void **state)
{
    (void)state;
    names[0] = STR("a"), names[1] = STR("bcd"), names[2] = STR("");
    struct roster *roster = make_roster(3);
    assert_int_equal(roster->count, 3);
    assert_int_equal(roster->version, 7);
    assert_int_equal(roster->longest, 3);
    assert_int_equal(roster_bytes(roster, 0, 3), 12);
    assert_memory_equal(roster->text, "\"a\",\"bcd\",\"\"", 12);
    assert_int_equal(roster_bytes(roster, 1, 1), 5);
    assert_int_equal(roster_bytes(roster, 2, 0), 0);
    free(roster);
    roster = make_roster(0);
    assert_int_equal(roster_match(roster, 0, "\"a\"", 3), 0);
    assert_int_equal(roster_find(roster, roster_hash(STR("a"))), ROSTER_NONE);
    free(roster);
}

static void test_each_name_is_found_and_no_other(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        make_names(MANY);
        struct roster *roster = make_roster(MANY);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_int_equal(roster_find(roster, roster->hash[i]), i);
            assert_int_equal(roster->hash[i], roster_hash(names[i]));
            assert_int_equal(roster->number[i], 100 + i);
        }
        assert_int_equal(roster_find(roster, roster_hash(STR("nobody"))), ROSTER_NONE);
        free(roster);
    }
}

/* How many names from `place` on `text` begins with, by comparing one after the other. */
static uint32_t count_names(uint32_t place, const char *text, size_t len)
{
    uint32_t count = 0;
    for (size_t at = 0; place + count < MANY; count++) {
        struct str name = names[place + count];
        if (count > 0 && (at == len || text[at++] != ','))
            break;
        if (len - at < name.len + 2 || text[at] != '"' || text[at + name.len + 1] != '"' ||
            memcmp(text + at + 1, name.data, name.len) != 0)
            break;
        at += name.len + 2;
    }
    return count;
}

/* Parts of its own text, whole or with one byte changed or missing. */
static void test_as_many_names_match_as_stand_there(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        make_names(MANY);
        struct roster *roster = make_roster(MANY);
        uint32_t place = rng_below(&rng, MANY), other = rng_below(&rng, 4) ? place : rng_below(&rng, MANY);
        size_t len = roster_bytes(roster, place, 1 + rng_below(&rng, MANY - place));
        if (rng_below(&rng, 2))
            len = rng_below(&rng, (uint32_t)len + 1);
        char *text = malloc(len > 0 ? len : 1); /* of just this size: reading on would be seen */
        assert_non_null(text);
        memcpy(text, roster->text + roster->begin[place], len);
        if (len > 0 && rng_below(&rng, 2))
            text[rng_below(&rng, (uint32_t)len)] ^= 1 << rng_below(&rng, 7);
        assert_int_equal(roster_match(roster, other, text, len), count_names(other, text, len));
        free(text);
        free(roster);
    }
}

static void test_only_plain_names_are_taken(void **state)
{
    (void)state;
    char longest[254];
    memset(longest, 'a', sizeof longest);
    assert_true(roster_takes(STR("gpu-0.example")));
    assert_true(roster_takes((struct str){longest, 253}));
    assert_false(roster_takes((struct str){longest, 254}));
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[] = {'a', (char)byte, 'b'};
        bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
        assert_int_equal(roster_takes((struct str){text, sizeof text}), plain);
    }
}

static void test_sizes_have_a_bound(void **state)
{
    (void)state;
    assert_int_equal(roster_block_size(UINT32_MAX, 0), SIZE_MAX);
    assert_int_equal(roster_block_size(1, UINT32_MAX), SIZE_MAX);
}

int main(void)
{
    rng = rng_seeded(11);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_one_text),
        cmocka_unit_test(test_each_name_is_found_and_no_other),
        cmocka_unit_test(test_as_many_names_match_as_stand_there),
        cmocka_unit_test(test_only_plain_names_are_taken),
        cmocka_unit_test(test_sizes_have_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
