/* SPDX-License-Identifier: Apache-2.0 */
#include "state/guests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"

enum { IDS = 400 };

static struct str uid_of(unsigned id)
{
    static char text[40];
    /* Half of them are UUIDs that differ in few bits, so that they crowd in the table. */
    if (id % 2 == 0)
        snprintf(text, sizeof text, "%08x-0000-4000-8000-%012x", id / 16, id % 16);
    else
        snprintf(text, sizeof text, "uid-%u", id);
    return str_from(text);
}

/* Random puts and removes against an array. */
static void test_against_an_array(void **state)
{
    (void)state;
    struct guests guests = {0};
    int64_t model[IDS] = {0};
    uint32_t count = 0;
    srandom(1);
    for (unsigned step = 0; step < 20000; step++) {
        unsigned id = (unsigned)random() % IDS;
        struct guest *found = guests_find(&guests, uid_of(id));
        assert_int_equal(found != NULL, model[id] != 0);
        if (found != NULL)
            assert_int_equal(found->amount.cpu_milli, model[id]);
        if (found != NULL && random() % 2 == 0) {
            guests_remove(&guests, found);
            model[id] = 0;
            count--;
        } else {
            bool fresh;
            struct guest *guest = guests_put(&guests, uid_of(id), &fresh);
            assert_int_equal(fresh, model[id] == 0);
            count += fresh;
            guest->amount.cpu_milli = model[id] = step + 1;
        }
        assert_int_equal(guests.count, count);
    }
    uint32_t used = 0;
    for (uint32_t i = 0; i < guests_slots(&guests); i++)
        used += guests_at(&guests, i) != NULL;
    assert_int_equal(used, count);
    guests_done(&guests);
}

/* A table that grows is in two for a while: guests are found, counted and removed in either, and are put
 * into the larger one only. */
static void test_growing_in_pieces(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    static bool here[MANY];
    struct guests guests = {0};
    uint32_t in_two = 0, count = 0, tables = 0;
    uint64_t random_bits = 88172645463325252u;
    for (unsigned step = 0; step < 3 * MANY; step++) {
        random_bits ^= random_bits << 13;
        random_bits ^= random_bits >> 7;
        random_bits ^= random_bits << 17;
        unsigned id = (unsigned)(random_bits >> 20) % MANY;
        struct guest *found = guests_find(&guests, uid_of(id));
        bool fresh;
        assert_int_equal(found != NULL, here[id]);
        if (here[id] && random_bits >> 60 < 10) {
            guests_remove(&guests, found);
            count--;
        } else {
            found = guests_put(&guests, uid_of(id), &fresh);
            assert_int_equal(fresh, !here[id]);
            assert_true(!fresh || (found >= guests.slots && found < guests.slots + guests.capacity));
            count += fresh;
        }
        here[id] = guests_find(&guests, uid_of(id)) != NULL;
        in_two += guests.old != NULL;
        void *old = guests_take_old(&guests);
        tables += old != NULL;
        mem_free(old);
        uint32_t used = 0;
        for (uint32_t i = 0; step % 500 == 0 && i < guests_slots(&guests); i++)
            used += guests_at(&guests, i) != NULL;
        assert_true(step % 500 != 0 || used == count);
        assert_int_equal(guests.count, count);
    }
    assert_true(in_two > 1000 && tables > 6);
    for (unsigned id = 0; id < MANY; id++)
        assert_int_equal(guests_find(&guests, uid_of(id)) != NULL, here[id]);
    guests_done(&guests);
}

static void test_settling_at_once(void **state)
{
    (void)state;
    struct guests guests = {0};
    bool fresh;
    assert_true(guests_settle(&guests, 1));
    unsigned id = 0;
    while (guests.old == NULL)
        guests_put(&guests, uid_of(id++), &fresh);
    assert_false(guests_settle(&guests, 1));
    assert_true(guests_settle(&guests, guests.old_capacity));
    assert_int_equal(guests_slots(&guests), guests.capacity);
    for (unsigned i = 0; i < id; i++)
        assert_non_null(guests_find(&guests, uid_of(i)));
    guests_done(&guests);
}

/* UIDs that are nearly UUIDs are other guests. */
static void test_forms_of_uids(void **state)
{
    (void)state;
    static const char *const uids[] = {
        "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-00000000000A",
        "00000000-0000-0000-0000-00000000000a", "000000000000-0000-0000-0000-00000000",
        "00000000-0000-0000-0000-0000000000001", ""};
    enum { COUNT = sizeof uids / sizeof uids[0] };
    struct guests guests = {0};
    bool fresh;
    for (int i = 0; i < COUNT; i++)
        guests_put(&guests, str_from(uids[i]), &fresh)->amount.cpu_milli = i + 1;
    assert_int_equal(guests.count, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(guests_find(&guests, str_from(uids[i]))->amount.cpu_milli, i + 1);
    guests_done(&guests);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct guests guests = {0};
    bool fresh;
    assert_null(guests_find(&guests, STR("a")));
    mem_fail_at(1);
    assert_null(guests_put(&guests, STR("a"), &fresh));
    mem_fail_at(0);
    assert_int_equal(guests.count, 0);
    assert_non_null(guests_put(&guests, STR("a"), &fresh));
    guests_done(&guests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_an_array),
        cmocka_unit_test(test_growing_in_pieces),
        cmocka_unit_test(test_settling_at_once),
        cmocka_unit_test(test_forms_of_uids),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
