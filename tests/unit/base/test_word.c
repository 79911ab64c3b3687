/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "base/word.h"

static void test_a_mark_stands_at_each_equal_byte_and_nowhere_else(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        for (unsigned at = 0; at < WORD_BYTES; at++) {
            /* The neighbours differ in one bit, where a carry would show. */
            char text[WORD_BYTES];
            memset(text, (int)(byte ^ 1), sizeof text);
            text[at] = (char)byte;
            assert_int_equal(word_bits(word_equal(word_load(text), (char)byte)), 1 << at);
        }
    }
    assert_int_equal(word_bits(word_equal(word_load("\"\"\"a\"\"b\""), '"')), 0xb7);
}

static void test_a_byte_that_is_not_plain_is_marked_wherever_it_stands(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        for (unsigned at = 0; at < WORD_BYTES; at++) {
            char text[WORD_BYTES];
            memset(text, at % 2 == 0 ? ' ' : 0x7f, sizeof text);
            text[at] = (char)byte;
            bool plain = byte >= 0x20 && byte < 0x80;
            assert_int_equal(word_bits(word_not_plain(word_load(text))), plain ? 0 : 1 << at);
        }
    }
}

static void test_bits_are_counted(void **state)
{
    (void)state;
    assert_int_equal(word_count(0), 0);
    assert_int_equal(word_count(UINT64_MAX), 64);
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_int_equal(word_count(UINT64_C(1) << bit), 1);
        assert_int_equal(word_count((UINT64_C(1) << bit) - 1), bit);
    }
}

/* Every byte at every place of a lane, alone among others that differ from it in one bit. */
static void test_lanes_see_what_a_walk_byte_by_byte_sees(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        for (unsigned at = 0; at < LANE_BYTES; at++) {
            char text[LANE_BYTES];
            memset(text, (int)(byte ^ 4), sizeof text);
            text[at] = (char)byte;
            lane bytes = lane_load(text);
            uint32_t equal = 0, odd = 0, special = 0, opens = 0;
            for (unsigned i = 0; i < LANE_BYTES; i++) {
                unsigned char c = (unsigned char)text[i];
                bool plain = c >= 0x20 && c < 0x80;
                equal |= (uint32_t)(c == byte) << i;
                odd |= (uint32_t)!plain << i;
                special |= (uint32_t)(!plain || c == '"' || c == '\\') << i;
                opens |= (uint32_t)(c == '[' || c == '{') << i;
            }
            assert_int_equal(lane_bits(lane_equal(bytes, (char)byte)), equal);
            assert_int_equal(lane_bits(lane_not_plain(bytes)), odd);
            assert_int_equal(lane_special(bytes), special);
            assert_int_equal(lane_bits(lane_equal(lane_fold(bytes), '{')), opens);
        }
    }
}

/* Short texts of every length, compared and copied, exactly as long as the room they stand in. */
static void test_short_texts_are_compared_and_copied(void **state)
{
    (void)state;
    for (size_t len = 0; len <= 70; len++) {
        char *text = malloc(len + 1), *copy = malloc(len + 1);
        assert_true(text != NULL && copy != NULL);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + i % 23);
        memset(copy, '#', len + 1);
        word_copy_text(copy, text, len);
        assert_memory_equal(copy, text, len);
        assert_int_equal(copy[len], '#');
        assert_true(word_same_text(copy, text, len));
        for (size_t i = 0; i < len; i++) {
            copy[i] ^= 0x20;
            assert_false(word_same_text(copy, text, len));
            copy[i] ^= 0x20;
        }
        free(text);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_mark_stands_at_each_equal_byte_and_nowhere_else),
        cmocka_unit_test(test_a_byte_that_is_not_plain_is_marked_wherever_it_stands),
        cmocka_unit_test(test_bits_are_counted),
        cmocka_unit_test(test_lanes_see_what_a_walk_byte_by_byte_sees),
        cmocka_unit_test(test_short_texts_are_compared_and_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
