/* SPDX-License-Identifier: Apache-2.0 */
#include "http/connections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Whose connection ends for a newcomer when there may be no more than four. */
enum { MAX = 4, ME = 1, CROWD = 2, OTHER = 3 };

static struct connections table;
static struct connection *open_now[MAX];
static int ends[MAX][2];

static void add(unsigned at, uint32_t peer)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[at]), 0);
    open_now[at] = connections_add(&table, ends[at][0], false, peer);
    assert_non_null(open_now[at]);
}

static bool is_cut(unsigned at)
{
    return open_now[at]->phase == CONNECTION_CUT;
}

static int setup(void **state)
{
    (void)state;
    return connections_start(&table, 10000, 10000);
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned at = 0; at < MAX; at++) {
        connections_remove(&table, open_now[at]);
        close(ends[at][0]);
        close(ends[at][1]);
    }
    connections_stop(&table);
    return 0;
}

static void who_has_more_makes_room(void **state)
{
    (void)state;
    add(0, ME);
    for (unsigned at = 1; at < MAX; at++)
        add(at, CROWD);
    assert_true(connections_make_room(&table, ME, MAX + 1));
    assert_false(is_cut(0) || is_cut(1) || is_cut(2) || is_cut(3));
    assert_true(connections_make_room(&table, ME, MAX));
    assert_true(is_cut(1));
    assert_false(is_cut(0) || is_cut(2) || is_cut(3));
}

/* The newcomer's own old connection may be on its way to be closed. */
static void where_nobody_has_more_it_is_one_of_his_own(void **state)
{
    (void)state;
    add(0, ME);
    add(1, CROWD);
    add(2, OTHER);
    add(3, CROWD + 2);
    assert_true(connections_make_room(&table, ME, MAX));
    assert_true(is_cut(0));
    assert_false(is_cut(1) || is_cut(2) || is_cut(3));
}

static void nobody_is_cut_who_waits_for_an_answer(void **state)
{
    (void)state;
    for (unsigned at = 0; at < MAX; at++) {
        add(at, at < 2 ? ME : CROWD);
        assert_true(connections_enter(&table, open_now[at], CONNECTION_HANDLING));
    }
    assert_false(connections_make_room(&table, ME, MAX));
    assert_false(connections_make_room(&table, OTHER, MAX));
}

/* Of a crowd that came before it and has no more each, none ever asked. */
static void a_new_connection_of_who_has_asked_is_not_pushed_out(void **state)
{
    (void)state;
    add(0, ME);
    assert_true(connections_enter(&table, open_now[0], CONNECTION_ANSWERING));
    assert_true(connections_enter(&table, open_now[0], CONNECTION_IDLE));
    add(1, ME);
    add(2, CROWD);
    add(3, OTHER);
    assert_true(connections_make_room(&table, CROWD + 2, MAX));
    assert_true(is_cut(2));
    assert_true(connections_make_room(&table, CROWD + 2, MAX - 1));
    assert_true(is_cut(3));
    assert_false(is_cut(0) || is_cut(1));
}

/* His last answer is sent, but its thread has not yet said so; nobody else has more. */
static void who_has_asked_gets_the_place_of_one_who_never_did(void **state)
{
    (void)state;
    add(0, ME);
    assert_true(connections_enter(&table, open_now[0], CONNECTION_ANSWERING));
    for (unsigned at = 1; at < MAX; at++)
        add(at, CROWD + at);
    assert_true(connections_make_room(&table, ME, MAX));
    assert_true(is_cut(1));
    assert_false(is_cut(0) || is_cut(2) || is_cut(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_has_more_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(where_nobody_has_more_it_is_one_of_his_own, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_connection_of_who_has_asked_is_not_pushed_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_has_asked_gets_the_place_of_one_who_never_did, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nobody_is_cut_who_waits_for_an_answer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
