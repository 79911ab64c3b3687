/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "codec/reader.h"
#include "codec/reader_index.h"
#include "rng.h"

#include <errno.h>
#include <stdio.h>

static void add_random(struct strbuf *text, struct rng *rng, unsigned depth)
{
    static const char *const atoms[] = {
        "1", "true", "\"{[\"", "\"a longer text than what a block of the text has room for, or nearly\""};
    uint32_t choice = rng_below(rng, depth == 0 ? 4 : 10);
    if (choice < 4) {
        strbuf_puts(text, atoms[choice]);
        return;
    }
    bool object = choice % 2 == 0;
    strbuf_putc(text, object ? '{' : '[');
    for (uint32_t i = 0, count = rng_below(rng, 5); i < count; i++) {
        strbuf_puts(text, i > 0 ? "," : "");
        strbuf_puts(text, object ? "\"k\": " : " ");
        add_random(text, rng, depth - 1);
    }
    strbuf_putc(text, object ? '}' : ']');
}

/* Every value of a text, as it is walked to: where it starts and ends. */
static void walk(struct str value, const char *base, struct strbuf *to)
{
    strbuf_printf(to, "%td+%zu ", value.data - base, value.len);
    enum reader_type type = reader_type(value);
    if (type != READER_OBJECT && type != READER_ARRAY)
        return;
    struct reader_iter iter = reader_iterate(value);
    struct str part;
    while (reader_next_item(&iter, &part))
        walk(part, base, to);
}

static void test_a_text_is_walked_in_the_same_way_with_an_index(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(30);
    for (int i = 0; i < 2000; i++) {
        struct strbuf text = {0}, with = {0}, without = {0};
        struct error err = {0};
        struct str value;
        strbuf_puts(&text, "  [");
        for (uint32_t parts = rng_below(&rng, 20); parts > 0; parts--) {
            add_random(&text, &rng, 6);
            strbuf_putc(&text, ',');
        }
        strbuf_puts(&text, "0] ");
        struct str whole = {text.data, text.len};
        {
            AUTO_INDEX index;
            reader_index_begin(&index, NULL);
            assert_int_equal(reader_check(whole, 64, &value, &err), 0);
            walk(value, text.data, &with);
        }
        assert_int_equal(reader_check(whole, 64, &value, &err), 0);
        walk(value, text.data, &without);
        assert_string_equal(with.data, without.data);
        strbuf_done(&text);
        strbuf_done(&with);
        strbuf_done(&without);
    }
}

/* More arrays than there is room for, deep and long. */
static void test_what_is_not_noted_is_found_all_the_same(void **state)
{
    (void)state;
    struct strbuf text = {0}, with = {0}, without = {0};
    struct error err = {0};
    struct str value;
    AUTO_INDEX index;
    strbuf_putc(&text, '[');
    for (unsigned i = 0; i < READER_INDEX_MAX + 100; i++)
        strbuf_printf(&text, "[\"%*u\",{\"%*u\":[1]}],", i % 90, i, i % 70, i);
    strbuf_puts(&text, "[]]");
    assert_int_equal(reader_check((struct str){text.data, text.len}, 64, &value, &err), 0);
    walk(value, text.data, &without);
    reader_index_begin(&index, NULL);
    assert_int_equal(reader_check((struct str){text.data, text.len}, 64, &value, &err), 0);
    assert_in_range(index.count, READER_INDEX_MAX - 2, READER_INDEX_MAX);
    walk(value, text.data, &with);
    assert_string_equal(with.data, without.data);
    strbuf_done(&text);
    strbuf_done(&with);
    strbuf_done(&without);
}

#define LONG "\"............................................................\""

static void test_a_part_of_a_text_is_not_checked_again(void **state)
{
    (void)state;
    char text[] = "{\"object\":{\"a\":" LONG "}}";
    struct str whole = {text, sizeof text - 1}, object = {text + 10, sizeof text - 12}, value;
    struct error err = {0};
    {
        AUTO_INDEX index;
        reader_index_begin(&index, NULL);
        assert_int_equal(reader_check(whole, 8, &value, &err), 0);
        assert_true(reader_index_accepted(object, 8));
        /* What was checked with more levels may have more. */
        assert_false(reader_index_accepted(object, 7));
        assert_false(reader_index_accepted((struct str){object.data, object.len - 1}, 8));
        assert_false(reader_index_accepted((struct str){object.data + 1, object.len - 1}, 8));
        text[12] = '\1'; /* nobody may do this; it shows that nobody looks */
        assert_int_equal(reader_check(object, 8, &value, &err), 0);
        assert_ptr_equal(value.data, object.data);
        assert_int_equal(value.len, object.len);
    }
    assert_int_equal(reader_check(object, 8, &value, &err), -EINVAL);
}

static void test_the_first_text_that_is_accepted_is_noted_and_no_other(void **state)
{
    (void)state;
    static const char bad[] = "{\"object\":{\"a\":" LONG "}]", good[] = "[[" LONG "]]";
    static const char other[] = "[{\"" "b\":" LONG "}]";
    struct str value;
    struct error err = {0};
    AUTO_INDEX index;
    reader_index_begin(&index, NULL);
    assert_int_equal(reader_check(str_from(bad), 8, &value, &err), -EINVAL);
    assert_null(reader_index_behind(bad + 10));
    assert_int_equal(reader_check(str_from(good), 8, &value, &err), 0);
    assert_ptr_equal(reader_index_behind(good), good + sizeof good - 1);
    assert_ptr_equal(reader_index_behind(good + 1), good + sizeof good - 2);
    assert_ptr_equal(reader_index_behind(good + 2), good + sizeof good - 3);
    assert_null(reader_index_behind(good + 3));
    assert_int_equal(reader_check(str_from(other), 8, &value, &err), 0);
    assert_null(reader_index_behind(other));
    {
        AUTO_INDEX inner;
        reader_index_begin(&inner, NULL);
        assert_int_equal(reader_check(str_from(other), 8, &value, &err), 0);
    }
    assert_null(reader_index_behind(other));
    assert_ptr_equal(reader_index_behind(good), good + sizeof good - 1);
    {
        AUTO_INDEX inner;
        reader_index_begin_inner(&inner);
        assert_null(reader_index_behind(good));
        assert_int_equal(reader_check(str_from(other), 8, &value, &err), 0);
        assert_ptr_equal(reader_index_behind(other), other + sizeof other - 1);
    }
    assert_null(reader_index_behind(other));
    assert_ptr_equal(reader_index_behind(good), good + sizeof good - 1);
    reader_index_end(&index);
    assert_null(reader_index_behind(good));
}

/* The strings that were noted while `json` was checked, with commas between; "-": none. */
static void assert_noted(const char *json, uint32_t most, const char *wanted)
{
    char noted[256] = "-";
    size_t length = 0;
    struct arena mem;
    struct str value;
    struct error err = {0};
    arena_init(&mem, 0);
    struct reader_texts texts = {.mem = &mem, .most = most};
    AUTO_INDEX index;
    reader_index_begin(&index, &texts);
    assert_int_equal(reader_check(str_from(json), 8, &value, &err), 0);
    if (texts.array != NULL) {
        size_t longest = 0;
        for (uint32_t i = 0; i < texts.count; i++) {
            assert_true(texts.of[i].data > texts.array && texts.of[i].data[-1] == '"');
            longest = texts.of[i].len > longest ? texts.of[i].len : longest;
            length += (size_t)snprintf(noted + length, sizeof noted - length, "%s%.*s",
                                       i > 0 ? "," : "", STR_ARG(texts.of[i]));
        }
        noted[length] = '\0';
        assert_int_equal(texts.longest, longest);
        assert_int_equal(*texts.array, '[');
    }
    assert_string_equal(noted, wanted);
    arena_done(&mem);
}

static void test_the_plain_strings_of_an_array_are_noted(void **state)
{
    (void)state;
    assert_noted("{\"a\":[\"x\",\"a-name-of-more-than-a-lane\",\"\",\"z\"]}", 9,
                 "x,a-name-of-more-than-a-lane,,z");
    assert_noted(" { \"a\" : [ \"x\" , \"y\"\n] } ", 9, "x,y");
    assert_noted("{\"a\":[]}", 9, "");
    /* The last one, and members of the outer object only. */
    assert_noted("{\"a\":[\"x\"],\"b\":[\"y\"],\"c\":{\"d\":[\"z\"]}}", 9, "y");
    assert_noted("{\"a\":[\"x\"],\"b\":[1]}", 9, "-");
    assert_noted("{\"a\":[[\"x\"]]}", 9, "-");
    assert_noted("[\"x\"]", 9, "-");
    /* All of them are plain strings, or none is noted. */
    assert_noted("{\"a\":[\"x\",\"a\\u0062\",\"y\"]}", 9, "-");
    assert_noted("{\"a\":[\"x\",\"\xc3\xa9\",\"y\"]}", 9, "-");
    assert_noted("{\"a\":[\"x\",null,\"y\"]}", 9, "-");
    assert_noted("{\"a\":[\"x\",{},[\"y\"]]}", 9, "-");
    assert_noted("{\"a\":[\"x\",\"y\",\"z\"]}", 3, "x,y,z");
    assert_noted("{\"a\":[\"x\",\"y\",\"z\"]}", 2, "-");
    /* Far from the end of the text. */
#define FAR ",\"z\":\"............................................................\"}"
    assert_noted("{\"a\":[\"x\",\"a-name-of-sixteen\",\"a-name-of-31-letters-and-figures\",\"\"]" FAR, 9,
                 "x,a-name-of-sixteen,a-name-of-31-letters-and-figures,");
    assert_noted("{\"a\":[\"a-name-of-thirty-two-letters-xxx\",\"a-name-of-thirty-three-letters-x\","
                 "\"one-that-is-much-longer-than-what-two-lanes-have-room-for\",\"y\"]" FAR, 9,
                 "a-name-of-thirty-two-letters-xxx,a-name-of-thirty-three-letters-x,"
                 "one-that-is-much-longer-than-what-two-lanes-have-room-for,y");
    assert_noted("{\"a\":[\"x\" ,\"y\", \"z\",\"u\"\n]" FAR, 9, "x,y,z,u");
    assert_noted("{\"a\":[\"x\",\"y\\\"\",\"z\"]" FAR, 9, "-");
    assert_noted("{\"a\":[\"x\",\"\xc3\xa9\",\"z\"]" FAR, 9, "-");
    assert_noted("{\"a\":[\"x\",1,\"z\"]" FAR, 9, "-");
    assert_noted("{\"a\":[\"x\",\"y\",\"z\"]" FAR, 2, "-");
    /* One that is longer than the rest was expected to be. */
    assert_noted("{\"a\":[\"a-long-name-to-begin-with\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]}", 99,
                 "a-long-name-to-begin-with,,,,,,,,");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_is_walked_in_the_same_way_with_an_index),
        cmocka_unit_test(test_what_is_not_noted_is_found_all_the_same),
        cmocka_unit_test(test_a_part_of_a_text_is_not_checked_again),
        cmocka_unit_test(test_the_first_text_that_is_accepted_is_noted_and_no_other),
        cmocka_unit_test(test_the_plain_strings_of_an_array_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
