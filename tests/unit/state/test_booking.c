/* SPDX-License-Identifier: Apache-2.0 */
#include "state/booking.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What must hold for every pair, whatever the table says. */
static void test_every_pair(void **state)
{
    (void)state;
    for (unsigned s = 0; s < BOOKING_STATE_MAX; s++) {
        for (unsigned e = 0; e < BOOKING_EVENT_MAX; e++) {
            struct booking_step step = booking_next(s, e);
            bool held = s != BOOKING_NONE, holds = step.next != BOOKING_NONE;
            assert_true(step.next < BOOKING_STATE_MAX);
            /* A place is taken exactly when a booking begins, given back exactly when it ends. */
            if (step.action == BOOKING_CHARGE)
                assert_true(!held && holds);
            else if (step.action == BOOKING_RELEASE)
                assert_true(held && !holds);
            else
                assert_int_equal(held, holds);
            /* Only what was promised to nobody comes from filter, and only that lapses. */
            if (step.next == BOOKING_TENTATIVE)
                assert_true(s == BOOKING_TENTATIVE || e == BOOKING_HOLD);
            if (e == BOOKING_LAPSE)
                assert_int_equal(step.next, s == BOOKING_TENTATIVE ? BOOKING_NONE : s);
            if (step.action == BOOKING_MOVE)
                assert_true(held);
            if (step.action == BOOKING_REFUSE)
                assert_int_equal(step.next, s);
        }
    }
}

static void test_what_each_event_leads_to(void **state)
{
    (void)state;
    for (unsigned s = 0; s < BOOKING_STATE_MAX; s++) {
        assert_int_equal(booking_next(s, BOOKING_GONE).next, BOOKING_NONE);
        assert_int_equal(booking_next(s, BOOKING_SEEN_HERE).next, BOOKING_BOUND);
        assert_int_equal(booking_next(s, BOOKING_SEEN_ELSEWHERE).next, BOOKING_BOUND);
        /* Events are idempotent: twice is once. */
        for (unsigned e = 0; e < BOOKING_EVENT_MAX; e++) {
            enum booking_state once = booking_next(s, e).next;
            assert_int_equal(booking_next(once, e).next, once);
        }
    }
}

static void test_our_own_calls(void **state)
{
    (void)state;
    assert_int_equal(booking_next(BOOKING_NONE, BOOKING_BOOK).next, BOOKING_BOOKED);
    assert_int_equal(booking_next(BOOKING_BOOKED, BOOKING_BOOK).action, BOOKING_REFUSE);
    assert_int_equal(booking_next(BOOKING_BOUND, BOOKING_BOOK).action, BOOKING_REFUSE);
    assert_int_equal(booking_next(BOOKING_BOOKED, BOOKING_FORGET).action, BOOKING_RELEASE);
    /* What the watch has shown is newer than a refusal of one call. */
    assert_int_equal(booking_next(BOOKING_BOUND, BOOKING_FORGET).action, BOOKING_KEEP);
    /* An event that is older than our binding must not free the cards. */
    assert_int_equal(booking_next(BOOKING_BOOKED, BOOKING_SEEN_PENDING).action, BOOKING_KEEP);
    assert_int_equal(booking_next(BOOKING_BOOKED, BOOKING_CONFIRM).next, BOOKING_BOOKED);
}

static void test_tentative(void **state)
{
    (void)state;
    assert_int_equal(booking_next(BOOKING_NONE, BOOKING_HOLD).next, BOOKING_TENTATIVE);
    assert_int_equal(booking_next(BOOKING_TENTATIVE, BOOKING_BOOK).next, BOOKING_BOOKED);
    assert_int_equal(booking_next(BOOKING_TENTATIVE, BOOKING_BOOK).action, BOOKING_MOVE);
    assert_int_equal(booking_next(BOOKING_TENTATIVE, BOOKING_GONE).action, BOOKING_RELEASE);
    assert_int_equal(booking_next(BOOKING_TENTATIVE, BOOKING_FORGET).next, BOOKING_TENTATIVE);
    assert_int_equal(booking_next(BOOKING_TENTATIVE, BOOKING_SEEN_PENDING).next, BOOKING_TENTATIVE);
    assert_false(booking_next(BOOKING_TENTATIVE, BOOKING_SEEN_ELSEWHERE).odd);
    /* A filter takes nothing from a pod that is placed. */
    assert_int_equal(booking_next(BOOKING_BOOKED, BOOKING_HOLD).action, BOOKING_KEEP);
    assert_int_equal(booking_next(BOOKING_BOUND, BOOKING_HOLD).action, BOOKING_KEEP);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(booking_state_name(BOOKING_NONE), "none");
    assert_string_equal(booking_state_name(BOOKING_TENTATIVE), "tentative");
    assert_string_equal(booking_state_name(BOOKING_BOOKED), "booked");
    assert_string_equal(booking_state_name(BOOKING_BOUND), "bound");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_what_each_event_leads_to),
        cmocka_unit_test(test_our_own_calls),
        cmocka_unit_test(test_tentative),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
