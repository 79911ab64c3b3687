/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "state/card_store.h"

/* With a spare made in time no take needs memory but for its list of free ranges. */
static void test_rows_come_from_what_was_made_before(void **state)
{
    (void)state;
    struct card_store store;
    struct card_range range;
    card_store_init(&store);
    long made = 0;
    for (unsigned node = 0; node < 1000; node++) {
        if (card_store_wants(&store)) {
            assert_null(card_store_add(&store, card_store_spare()));
            assert_false(card_store_wants(&store));
            made++;
        }
        struct card_chunk *before = store.chunks;
        long count = mem_count();
        assert_int_equal(card_store_take(&store, 8, &range), 0);
        if (store.chunks != before)
            assert_true(mem_count() - count <= 1); /* a longer list */
        struct card_columns *columns = card_range_columns(range);
        for (uint32_t row = range.first; row < range.first + 8; row++)
            assert_true(columns->pods[row] == 0 && columns->id[row].len == 0);
        columns->pods[range.first] = 1;
    }
    assert_in_range(made, 8, 9); /* of 1,024 rows each */
    card_store_done(&store);
}

static void test_without_a_spare(void **state)
{
    (void)state;
    struct card_store store;
    struct card_range range;
    card_store_init(&store);
    assert_int_equal(card_store_take(&store, 8, &range), 0);
    assert_false(card_store_wants(&store)); /* there is plenty of room */
    struct card_chunk *spare = card_store_spare(), *other = card_store_spare();
    assert_null(card_store_add(&store, spare));
    assert_ptr_equal(card_store_add(&store, other), other);
    mem_free(other);
    mem_fail_at(1);
    assert_null(card_store_spare());
    mem_fail_at(0);
    card_store_done(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_from_what_was_made_before),
        cmocka_unit_test(test_without_a_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
