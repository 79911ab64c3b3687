/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "rng.h"
#include "state/pod_slots.h"

enum { MOST = 3 * POD_SLOTS_CHUNK };

/* Only the address of a record counts here. */
static char records[MOST];

static struct pod_record *record(uint32_t i)
{
    return (struct pod_record *)(void *)&records[i];
}

static void test_against_an_array(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(9);
    struct pod_slots slots = {0};
    uint32_t number[MOST];
    bool there[MOST] = {false};
    uint32_t used = 0, most = 0;
    for (unsigned step = 0; step < 50000; step++) {
        uint32_t i = rng_below(&rng, MOST);
        if (there[i]) {
            assert_ptr_equal(pod_slots_at(&slots, number[i]), record(i));
            pod_slots_clear(&slots, number[i]);
            assert_null(pod_slots_at(&slots, number[i]));
            used--;
        } else {
            assert_true(pod_slots_reserve(&slots));
            number[i] = pod_slots_put(&slots, record(i));
            used++;
        }
        there[i] = !there[i];
        most = used > most ? used : most;
        assert_int_equal(slots.count, most); /* free ones are used first */
    }
    for (uint32_t i = 0; i < MOST; i++)
        if (there[i])
            assert_ptr_equal(pod_slots_at(&slots, number[i]), record(i));
    assert_true(slots.chunk_count > 1);
    pod_slots_done(&slots);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct pod_slots slots = {0};
    for (long fail = 1; fail <= 2; fail++) {
        mem_fail_at(fail);
        assert_false(pod_slots_reserve(&slots));
    }
    mem_fail_at(0);
    assert_int_equal(slots.count, 0);
    assert_true(pod_slots_reserve(&slots));
    assert_int_equal(pod_slots_put(&slots, record(0)), 0);
    pod_slots_done(&slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_an_array),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
