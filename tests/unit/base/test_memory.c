/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdalign.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"

static void test_calloc_zeroes_and_checks_the_product(void **state)
{
    (void)state;
    unsigned char *block = mem_calloc(100, 1);
    assert_non_null(block);
    for (int i = 0; i < 100; i++)
        assert_int_equal(block[i], 0);
    mem_free(block);
    assert_null(mem_calloc(SIZE_MAX / 2, 3));
    assert_null(mem_realloc(NULL, SIZE_MAX / 2, 3));
}

static void test_nothing_is_still_a_block(void **state)
{
    (void)state;
    void *none = mem_calloc(0, 8);
    assert_non_null(none);
    none = mem_realloc(none, 0, 8);
    assert_non_null(none);
    mem_free(none);
    mem_free(NULL);
}

static void test_only_the_nth_allocation_fails(void **state)
{
    (void)state;
    mem_fail_at(2);
    void *first = mem_calloc(1, 1);
    void *second = mem_calloc(1, 1);
    void *third = mem_realloc(NULL, 1, 1);
    assert_int_equal(mem_count(), 3);
    mem_fail_at(0);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    mem_free(first);
    mem_free(third);
}

static void test_failed_realloc_keeps_the_block(void **state)
{
    (void)state;
    char *block = mem_calloc(4, 1);
    assert_non_null(block);
    memcpy(block, "abc", 4);
    mem_fail_at(1);
    void *bigger = mem_realloc(block, 4000, 1);
    mem_fail_at(0);
    assert_null(bigger);
    assert_string_equal(block, "abc");
    mem_free(block);
}

static void test_arena_pieces_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 0);
    unsigned char *pieces[200];
    for (size_t i = 0; i < 200; i++) {
        size_t size = i * 7 % 300;
        pieces[i] = arena_alloc(&arena, size, 1);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(pieces[i][k], 0);
        memset(pieces[i], (int)i, size);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < i * 7 % 300; k++)
            assert_int_equal(pieces[i][k], (unsigned char)i);
    arena_done(&arena);
    assert_null(arena.head);
    arena_done(&arena);
}

static void test_arena_big_pieces_leave_room_for_small_ones(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 0);
    assert_non_null(arena_alloc(&arena, 1, 8));
    mem_fail_at(0);
    assert_non_null(arena_alloc(&arena, 1, 3 << 20));
    for (int i = 0; i < 100; i++)
        assert_non_null(arena_alloc(&arena, 1, 8));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__) /* there every piece is a block */
    assert_int_equal(mem_count(), 1); /* the small ones still came from the first block */
#endif
    arena_done(&arena);
}

static void test_arena_limit(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1000);
    assert_non_null(arena_alloc(&arena, 1, 600));
    assert_null(arena_alloc(&arena, 1, 500));
    assert_non_null(arena_alloc(&arena, 1, 400));
    assert_null(arena_alloc(&arena, 1, 1));
    assert_null(arena_str(&arena, STR("")).data);
    assert_null(arena_alloc(&arena, SIZE_MAX / 2, 3));
    arena_done(&arena);
    assert_non_null(arena_alloc(&arena, 1, 1000)); /* used again from zero */
    arena_done(&arena);
}

static void test_arena_str_copies_with_a_nul(void **state)
{
    (void)state;
    struct arena arena = {0};
    char source[] = {'a', '\0', 'b'};
    struct str copy = arena_str(&arena, (struct str){source, 3});
    source[0] = 'x';
    assert_int_equal(copy.len, 3);
    assert_memory_equal(copy.data, "a\0b\0", 4);
    struct str empty = arena_str(&arena, (struct str){NULL, 0});
    assert_non_null(empty.data);
    assert_int_equal(empty.len, 0);
    arena_done(&arena);
}

static void test_arena_survives_a_failed_block(void **state)
{
    (void)state;
    struct arena arena = {0};
    mem_fail_at(1);
    assert_null(arena_alloc(&arena, 1, 10));
    mem_fail_at(0);
    assert_non_null(arena_alloc(&arena, 1, 10));
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calloc_zeroes_and_checks_the_product),
        cmocka_unit_test(test_nothing_is_still_a_block),
        cmocka_unit_test(test_only_the_nth_allocation_fails),
        cmocka_unit_test(test_failed_realloc_keeps_the_block),
        cmocka_unit_test(test_arena_pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(test_arena_big_pieces_leave_room_for_small_ones),
        cmocka_unit_test(test_arena_limit),
        cmocka_unit_test(test_arena_str_copies_with_a_nul),
        cmocka_unit_test(test_arena_survives_a_failed_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
