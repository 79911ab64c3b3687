/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

enum { KEYS = 2000 };

static char names[KEYS][24];

static int name_keys(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++)
        snprintf(names[i], sizeof(names[i]), "node-%d", i * 7919);
    return 0;
}

static struct str key(uint32_t i)
{
    return str_from(names[i]);
}

static void test_empty_map(void **state)
{
    (void)state;
    struct map map;
    map_init(&map);
    assert_int_equal(map_get(&map, STR("x")), MAP_NONE);
    assert_false(map_remove(&map, STR("x")));
    map_done(&map);
}

static void test_empty_key_and_nul_bytes_are_keys(void **state)
{
    (void)state;
    struct map map;
    map_init(&map);
    assert_int_equal(map_put(&map, (struct str){NULL, 0}, 1), 0);
    assert_int_equal(map_put(&map, STR("a\0b"), 2), 0);
    assert_int_equal(map_put(&map, STR("a\0c"), 3), 0);
    assert_int_equal(map_put(&map, STR("a"), 4), 0);
    assert_int_equal(map_get(&map, STR("")), 1);
    assert_int_equal(map_get(&map, STR("a\0b")), 2);
    assert_int_equal(map_get(&map, STR("a\0c")), 3);
    assert_int_equal(map_get(&map, STR("a")), 4);
    map_done(&map);
}

static void test_put_replaces_value_and_key_pointer(void **state)
{
    (void)state;
    struct map map;
    map_init(&map);
    char first[] = "gpu-node-01";
    char second[] = "gpu-node-01";
    assert_int_equal(map_put(&map, str_from(first), 1), 0);
    assert_int_equal(map_put(&map, str_from(second), 2), 0);
    memset(first, 'x', sizeof(first) - 1); /* the old owner may now change it */
    assert_int_equal(map_get(&map, STR("gpu-node-01")), 2);
    assert_int_equal(map.count, 1);
    map_done(&map);
}

/* Against the plainest model: an array of values, with every key asked after every change. */
static void test_any_order_of_changes_equals_an_array(void **state)
{
    (void)state;
    enum { FEW = 60, STEPS = 4000 };
    struct map map;
    map_init(&map);
    uint32_t model[FEW];
    memset(model, 0xff, sizeof(model));
    uint32_t count = 0;
    uint64_t random = 88172645463325252u;
    for (uint32_t step = 0; step < STEPS; step++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint32_t i = (uint32_t)(random >> 20) % FEW;
        if (random >> 60 < 8) {
            assert_int_equal(map_put(&map, key(i), step), 0);
            count += model[i] == MAP_NONE;
            model[i] = step;
        } else {
            assert_int_equal(map_remove(&map, key(i)), model[i] != MAP_NONE);
            count -= model[i] != MAP_NONE;
            model[i] = MAP_NONE;
        }
        assert_int_equal(map.count, count);
        for (uint32_t k = 0; k < FEW; k++)
            assert_int_equal(map_get(&map, key(k)), model[k]);
    }
    map_done(&map);
}

static void test_many_keys(void **state)
{
    (void)state;
    struct map map;
    map_init(&map);
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(map_put(&map, key(i), i), 0);
    assert_int_equal(map.count, KEYS);
    assert_true(map.capacity > KEYS && (map.capacity & (map.capacity - 1)) == 0);
    for (uint32_t i = 0; i < KEYS; i += 2)
        assert_true(map_remove(&map, key(i)));
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(map_get(&map, key(i)), i % 2 == 0 ? MAP_NONE : i);
    map_done(&map);
}

/* While it grows, a map is in two tables for a long time: many keys come and go, each in a block of its
 * own that is freed when the key has gone. */
static void test_growing_in_pieces_equals_an_array(void **state)
{
    (void)state;
    enum { STEPS = 40000, MANY = 12000 };
    static char *texts[MANY];
    static uint32_t model[MANY];
    struct map map;
    uint32_t count = 0, in_pieces = 0;
    uint64_t random = 88172645463325252u;
    map_init(&map);
    memset(model, 0xff, sizeof(model));
    for (uint32_t step = 0; step < STEPS; step++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint32_t i = (uint32_t)(random >> 20) % MANY, other = (uint32_t)(random >> 40) % MANY;
        char name[24];
        struct str sought = {name, (size_t)snprintf(name, sizeof(name), "pod-%u", i)};
        if (random >> 60 < 12) {
            if (model[i] == MAP_NONE)
                texts[i] = strdup(name);
            assert_int_equal(map_put(&map, str_from(texts[i]), step), 0);
            count += model[i] == MAP_NONE;
            model[i] = step;
        } else {
            assert_int_equal(map_remove(&map, sought), model[i] != MAP_NONE);
            count -= model[i] != MAP_NONE;
            model[i] = MAP_NONE;
            free(texts[i]);
            texts[i] = NULL;
        }
        in_pieces += map.old != NULL;
        assert_int_equal(map.count, count);
        assert_int_equal(map_get(&map, sought), model[i]);
        sought.len = (size_t)snprintf(name, sizeof(name), "pod-%u", other);
        assert_int_equal(map_get(&map, sought), model[other]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        char name[24];
        struct str sought = {name, (size_t)snprintf(name, sizeof(name), "pod-%u", i)};
        assert_int_equal(map_get(&map, sought), model[i]);
        free(texts[i]);
        texts[i] = NULL;
    }
    assert_true(in_pieces > 500 && map.old == NULL);
    map_done(&map);
}

/* What a map grew out of is left to who asked for it, once it is empty. */
static void test_old_tables_are_left_to_the_owner(void **state)
{
    (void)state;
    struct map map;
    uint32_t taken = 0, grown = 0, capacity = 0;
    map_init(&map);
    map.keeps_old = true;
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(map_put(&map, key(i), i), 0);
        grown += capacity > 0 && map.capacity > capacity;
        capacity = map.capacity;
        void *old = map_take_old(&map);
        assert_null(map_take_old(&map));
        taken += old != NULL;
        mem_free(old);
        if (map.old != NULL)
            assert_int_equal(taken, grown - 1);
    }
    assert_true(grown > 4 && map.old == NULL);
    assert_int_equal(taken, grown);
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(map_get(&map, key(i)), i);
    map_done(&map);
    map.keeps_old = true; /* nobody takes any: the last one is freed with the map */
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(map_put(&map, key(i), i), 0);
    map_done(&map);
}

static void test_put_without_memory_changes_nothing(void **state)
{
    (void)state;
    struct map map;
    map_init(&map);
    uint32_t i = 0;
    mem_fail_at(1);
    assert_int_equal(map_put(&map, key(0), 0), -ENOMEM);
    mem_fail_at(0);
    while (i == 0 || map.count < map.capacity / 4 * 3) {
        assert_int_equal(map_put(&map, key(i), i), 0);
        i++;
    }
    mem_fail_at(1);
    assert_int_equal(map_put(&map, key(i), i), -ENOMEM);
    assert_int_equal(map_put(&map, key(0), 7), 0); /* replacing needs no room */
    mem_fail_at(0);
    assert_int_equal(map.count, i);
    assert_int_equal(map_get(&map, key(i)), MAP_NONE);
    assert_int_equal(map_get(&map, key(0)), 7);
    assert_int_equal(map_get(&map, key(i - 1)), i - 1);
    map_done(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_map),
        cmocka_unit_test(test_empty_key_and_nul_bytes_are_keys),
        cmocka_unit_test(test_put_replaces_value_and_key_pointer),
        cmocka_unit_test(test_any_order_of_changes_equals_an_array),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_growing_in_pieces_equals_an_array),
        cmocka_unit_test(test_old_tables_are_left_to_the_owner),
        cmocka_unit_test(test_put_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, name_keys, NULL);
}
