/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/stream.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "codec/reader.h"

/* ---- lists ---- */

/* What a list came to: its items, each on a line, then version and continue token. */
struct result {
    int rc;
    bool items_valid;
    struct strbuf text;
};

static int note_item(void *self, struct str json)
{
    struct result *result = self;
    struct str value;
    struct error err;
    result->items_valid &= reader_check(json, 64, &value, &err) == 0;
    strbuf_add_str(&result->text, json);
    strbuf_putc(&result->text, '\n');
    return 0;
}

/* Each piece is fed from a block of its own size, so that a sanitizer sees a step beyond it. */
static int feed_copy(struct list_cutter *cutter, const char *data, size_t len,
                     struct result *result)
{
    struct error err;
    char *copy = malloc(len + (len == 0));
    memcpy(copy, data, len);
    int rc = list_cutter_feed(cutter, copy, len, note_item, result, &err);
    free(copy);
    return rc;
}

static struct result cut_with(struct str text, size_t first, size_t rest, uint32_t limit)
{
    struct result result = {.items_valid = true};
    struct list_cutter cutter;
    struct error err;
    list_cutter_init(&cutter, limit);
    for (size_t at = 0; at < text.len && result.rc == 0;) {
        size_t len = at == 0 ? first : rest;
        len = len < text.len - at ? len : text.len - at;
        result.rc = feed_copy(&cutter, text.data + at, len, &result);
        at += len;
    }
    if (result.rc == 0)
        result.rc = list_cutter_end(&cutter, &err);
    strbuf_printf(&result.text, "version %.*s continue %.*s count %llu",
                  (int)cutter.resource_version.len,
                  cutter.resource_version.data != NULL ? cutter.resource_version.data : "",
                  (int)cutter.next.len, cutter.next.data != NULL ? cutter.next.data : "",
                  (unsigned long long)cutter.items);
    list_cutter_done(&cutter);
    assert_false(result.text.failed);
    return result;
}

static struct result cut(struct str text)
{
    return cut_with(text, text.len, text.len, 1 << 20);
}

static void expect_cut(const char *list, const char *expected)
{
    struct result result = cut(str_from(list));
    assert_int_equal(result.rc, 0);
    assert_string_equal(result.text.data, expected);
    strbuf_done(&result.text);
}

/* Typed lists put metadata before the items, lists of custom resources behind them. */
#define PODS                                                                                       \
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"10245\","     \
    "\"continue\":\"eyJ2IjoibWV0YS5rOHMuaW8vdjEi\",\"remainingItemCount\":12},\"items\":["         \
    "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"x\":\"{\\\"gpu\\\":[{}]}\"}}},"              \
    "{\"metadata\":{\"name\":\"\\\\\"},\"s\":\"\xc3\xa4\\u00e4]}{[\",\"n\":-1.5e3,\"t\":true},{}]" \
    "}\n"
#define PODS_CUT                                                                                   \
    "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"x\":\"{\\\"gpu\\\":[{}]}\"}}}\n"             \
    "{\"metadata\":{\"name\":\"\\\\\"},\"s\":\"\xc3\xa4\\u00e4]}{[\",\"n\":-1.5e3,\"t\":true}\n{}" \
    "\n"                                                                                           \
    "version 10245 continue eyJ2IjoibWV0YS5rOHMuaW8vdjEi count 3"
#define DEVICES                                                                                    \
    " { \"apiVersion\" : \"scheduling.koordinator.sh/v1alpha1\" , \"items\" : [ { \"a\" : [ ] } "  \
    ",\n"                                                                                          \
    "\t{ \"items\" : [ 1 ] } ] , \"kind\" : \"DeviceList\" , \"more\" : [ 1 , { } ] , \"n\" : "    \
    "-12 ,"                                                                                        \
    " \"metadata\" : { \"continue\" : \"\" , \"resourceVersion\" : \"7\" } } "

static void lists_of_both_orders(void **state)
{
    (void)state;
    expect_cut(PODS, PODS_CUT);
    expect_cut(DEVICES, "{ \"a\" : [ ] }\n{ \"items\" : [ 1 ] }\nversion 7 continue  count 2");
}

static void empty_lists(void **state)
{
    (void)state;
    expect_cut("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}",
               "version 1 continue  count 0");
    expect_cut("{\"items\":null,\"metadata\":null}", "version  continue  count 0");
}

static void every_split_gives_the_same(void **state)
{
    (void)state;
    static const char *const lists[] = {PODS, DEVICES};
    for (size_t i = 0; i < 2; i++) {
        struct str text = str_from(lists[i]);
        struct result whole = cut(text);
        for (size_t first = 1; first < text.len; first++) {
            struct result parts = cut_with(text, first, text.len, 1 << 20);
            assert_int_equal(parts.rc, 0);
            assert_string_equal(parts.text.data, whole.text.data);
            strbuf_done(&parts.text);
        }
        for (size_t size = 1; size < 40; size++) {
            struct result parts = cut_with(text, size, size, 1 << 20);
            assert_int_equal(parts.rc, 0);
            assert_string_equal(parts.text.data, whole.text.data);
            strbuf_done(&parts.text);
        }
        strbuf_done(&whole.text);
    }
}

static void an_unfinished_list_is_no_list(void **state)
{
    (void)state;
    struct str text = STR(PODS);
    text.len--; /* the newline */
    for (size_t len = 0; len < text.len; len++) {
        struct result result = cut((struct str){text.data, len});
        assert_int_equal(result.rc, -EINVAL);
        strbuf_done(&result.text);
    }
}

static void other_things_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "<html></html>",
        "k8s\x00\x0a\x0b",
        "{}",
        "{\"kind\":\"Status\",\"code\":410}",
        "{\"items\":{}}",
        "{\"items\":[1]}",
        "{\"items\":[null]}",
        "{\"items\":[{},]}",
        "{\"items\":[,{}]}",
        "{\"items\":[{}{}]}",
        "{\"items\":[]}{}",
        "{\"items\":[],}",
        "{\"items\":[],\"items\":[]}",
        "{\"items\" []}",
        "{items:[]}",
        "{\"items\":[],\"metadata\":[]}",
        "{\"items\":[],\"metadata\":{\"resourceVersion\":1}}",
        "{\"items\":[],\"metadata\":{]}",
        "{\"items\":[],\"kind\":}",
        "{\"items\":[],\"kind\":nul}",
        "{\"items\":[],\"kind\":[}}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct result result = cut(str_from(bad[i]));
        if (result.rc != -EINVAL)
            fail_msg("%s: %d", bad[i], result.rc);
        strbuf_done(&result.text);
    }
}

/* Is the text one object with one "items" that is null or an array of objects, and a readable
 * "metadata"? By the reader that has the whole text. */
static bool is_list(struct str text)
{
    struct str value, key, member;
    struct error err;
    if (reader_check(text, 64, &value, &err) < 0 || reader_type(value) != READER_OBJECT)
        return false;
    unsigned items = 0;
    struct reader_iter iter = reader_iterate(value);
    while (reader_next_member(&iter, &key, &member)) {
        enum reader_type type = reader_type(member);
        if (str_is(key, "\"items\"")) {
            items++;
            if (type != READER_NULL && type != READER_ARRAY)
                return false;
            struct reader_iter each;
            struct str item;
            if (type == READER_ARRAY)
                for (each = reader_iterate(member); reader_next_item(&each, &item);)
                    if (reader_type(item) != READER_OBJECT)
                        return false;
        }
        if (str_is(key, "\"metadata\"") && type != READER_OBJECT && type != READER_NULL)
            return false;
    }
    return items == 1;
}

static void damage_is_found_as_by_the_whole_reader(void **state)
{
    (void)state;
    char text[] = PODS;
    struct str whole = STR(PODS);
    static const char bytes[] = "\"\\{}[],: x0\n\x80";
    unsigned accepted = 0;
    for (size_t at = 0; at < whole.len; at++) {
        for (size_t b = 0; b < sizeof(bytes) - 1; b++) {
            text[at] = bytes[b];
            struct result result = cut_with((struct str){text, whole.len}, 33, 33, 1 << 20);
            bool good = result.rc == 0 && result.items_valid;
            if (good != is_list((struct str){text, whole.len}))
                fail_msg("byte %zu as '%c': %s", at, bytes[b], good ? "accepted" : "refused");
            accepted += good;
            strbuf_done(&result.text);
        }
        text[at] = PODS[at];
    }
    assert_in_range(accepted, 100, whole.len * sizeof(bytes)); /* both sides occur */
}

static char *big_list(size_t item_bytes, struct str *ret)
{
    static const char head[] = "{\"items\":[{\"a\":\"", tail[] = "\"}]}";
    size_t fill = item_bytes - strlen("{\"a\":\"\"}");
    char *text = malloc(sizeof head + fill + sizeof tail);
    memcpy(text, head, sizeof head);
    memset(text + sizeof head - 1, 'x', fill);
    memcpy(text + sizeof head - 1 + fill, tail, sizeof tail);
    *ret = str_from(text);
    return text;
}

static void the_size_of_an_item_is_bounded(void **state)
{
    (void)state;
    enum { LIMIT = (1 << 20) + (1 << 18) };
    struct str text;
    char *block = big_list(LIMIT, &text);
    struct result result = cut_with(text, 16384, 16384, LIMIT);
    assert_int_equal(result.rc, 0);
    assert_in_range(result.text.len, LIMIT, LIMIT + 100);
    strbuf_done(&result.text);
    free(block);

    block = big_list(LIMIT + 1, &text);
    static const size_t sizes[] = {16384, 4 << 20}; /* in pieces, and in one */
    for (size_t i = 0; i < 2; i++) {
        result = cut_with(text, sizes[i], sizes[i], LIMIT);
        assert_int_equal(result.rc, -E2BIG);
        strbuf_done(&result.text);
    }
    free(block);
}

static int stop_at_second(void *self, struct str json)
{
    (void)json;
    return ++*(unsigned *)self == 2 ? -EXDEV : 0;
}

static void who_takes_the_items_may_stop(void **state)
{
    (void)state;
    struct list_cutter cutter;
    struct error err;
    unsigned seen = 0;
    list_cutter_init(&cutter, 1 << 20);
    assert_int_equal(list_cutter_feed(&cutter, PODS, strlen(PODS), stop_at_second, &seen, &err),
                     -EXDEV);
    assert_int_equal(seen, 2);
    list_cutter_done(&cutter);
}

static void no_memory_is_an_error_everywhere(void **state)
{
    (void)state;
    unsigned failures = 0;
    for (long n = 1;; n++) {
        struct list_cutter cutter;
        struct error err;
        unsigned seen = 5;
        list_cutter_init(&cutter, 1 << 20);
        mem_fail_at(n);
        int rc = 0;
        for (const char *at = PODS; *at != '\0' && rc == 0; at++)
            rc = list_cutter_feed(&cutter, at, 1, stop_at_second, &seen, &err);
        bool failed = mem_count() >= n;
        mem_fail_at(0);
        list_cutter_done(&cutter);
        assert_int_equal(rc, failed ? -ENOMEM : 0);
        failures += failed;
        if (!failed)
            break;
    }
    assert_in_range(failures, 2, 20);
}

/* ---- watches ---- */

static int note_line(void *self, struct str text)
{
    strbuf_add_str(self, text);
    strbuf_putc(self, '|');
    return 0;
}

static void lines_of_every_split(void **state)
{
    (void)state;
    struct str text = STR("{\"a\":1}\n\n{\"b\":\"\xe2\x82\xac\"}\r\n\r\nlast\nunfinished");
    for (size_t size = 1; size <= text.len; size++) {
        struct line_cutter cutter;
        struct strbuf lines = {0};
        struct error err;
        line_cutter_init(&cutter, 100);
        for (size_t at = 0; at < text.len; at += size) {
            size_t len = size < text.len - at ? size : text.len - at;
            assert_int_equal(
                line_cutter_feed(&cutter, text.data + at, len, note_line, &lines, &err), 0);
        }
        assert_string_equal(lines.data, "{\"a\":1}|{\"b\":\"\xe2\x82\xac\"}|last|");
        line_cutter_done(&cutter);
        strbuf_done(&lines);
    }
}

static void the_size_of_a_line_is_bounded(void **state)
{
    (void)state;
    struct line_cutter cutter;
    struct strbuf lines = {0};
    struct error err;
    line_cutter_init(&cutter, 5);
    assert_int_equal(line_cutter_feed(&cutter, "12345\n123", 9, note_line, &lines, &err), 0);
    assert_int_equal(line_cutter_feed(&cutter, "456", 3, note_line, &lines, &err), -E2BIG);
    assert_string_equal(lines.data, "12345|");
    line_cutter_done(&cutter);
    line_cutter_init(&cutter, 5);
    assert_int_equal(line_cutter_feed(&cutter, "123456\n", 7, note_line, &lines, &err), -E2BIG);
    line_cutter_done(&cutter);
    strbuf_done(&lines);
}

static void a_long_line_in_small_pieces(void **state)
{
    (void)state;
    enum { LENGTH = 3 << 20 };
    struct line_cutter cutter;
    struct strbuf lines = {0};
    struct error err;
    char piece[1000];
    memset(piece, 'y', sizeof piece);
    line_cutter_init(&cutter, 4 << 20);
    for (size_t sent = 0; sent < LENGTH; sent += sizeof piece)
        assert_int_equal(line_cutter_feed(&cutter, piece, sizeof piece, note_line, &lines, &err),
                         0);
    assert_int_equal(lines.len, 0);
    assert_int_equal(line_cutter_feed(&cutter, "\n", 1, note_line, &lines, &err), 0);
    assert_in_range(lines.len, LENGTH, LENGTH + sizeof piece);
    line_cutter_done(&cutter);
    strbuf_done(&lines);
}

static void events(void **state)
{
    (void)state;
    struct arena mem;
    struct watch_event event;
    struct error err;
    arena_init(&mem, 0);
    assert_int_equal(watch_decode(STR("{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Pod\","
                                      "\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"12\"}}}"),
                                  &mem, &event, &err),
                     0);
    assert_int_equal(event.type, WATCH_MODIFIED);
    assert_true(str_is(event.resource_version, "12"));
    assert_true(str_is(event.object, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\","
                                     "\"resourceVersion\":\"12\"}}"));
    static const struct {
        const char *name;
        enum watch_type type;
    } types[] = {{"ADDED", WATCH_ADDED}, {"DELETED", WATCH_DELETED}, {"BOOKMARK", WATCH_BOOKMARK}};
    for (size_t i = 0; i < 3; i++) {
        char line[64];
        snprintf(line, sizeof line, "{\"object\":{},\"type\":\"%s\"}", types[i].name);
        assert_int_equal(watch_decode(str_from(line), &mem, &event, &err), 0);
        assert_int_equal(event.type, types[i].type);
        assert_int_equal(event.resource_version.len, 0);
    }
    arena_done(&mem);
}

static void errors_of_the_server(void **state)
{
    (void)state;
    struct arena mem;
    struct watch_event event;
    struct error err;
    arena_init(&mem, 0);
    assert_int_equal(
        watch_decode(
            STR("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\","
                "\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource "
                "version: 1 (2)\",\"reason\":\"Expired\",\"code\":410}}"),
            &mem, &event, &err),
        0);
    assert_int_equal(event.type, WATCH_ERROR);
    assert_int_equal(event.status_code, 410);
    assert_true(str_is(event.status_text, "Expired: too old resource version: 1 (2)"));
    assert_int_equal(watch_decode(STR("{\"type\":\"ERROR\",\"object\":{}}"), &mem, &event, &err),
                     0);
    assert_int_equal(event.status_code, 0);
    arena_done(&mem);
}

static void lines_that_are_no_events(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "x",
        "[]",
        "{}",
        "{\"type\":\"ADDED\"}",
        "{\"type\":\"ADDED\",\"object\":null}",
        "{\"type\":\"ADDED\",\"object\":[]}",
        "{\"type\":\"SYNC\",\"object\":{}}",
        "{\"type\":1,\"object\":{}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":1}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":12}}}",
        "{\"type\":\"ERROR\",\"object\":{\"code\":\"410\"}}",
        "{\"type\":\"ADDED\",\"object\":{}}}",
    };
    struct arena mem;
    arena_init(&mem, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct watch_event event;
        struct error err = {0};
        if (watch_decode(str_from(bad[i]), &mem, &event, &err) != -EINVAL)
            fail_msg("%s", bad[i]);
        assert_ptr_equal(strstr(err.text, "watch"), err.text);
    }
    arena_done(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_both_orders),
        cmocka_unit_test(empty_lists),
        cmocka_unit_test(every_split_gives_the_same),
        cmocka_unit_test(an_unfinished_list_is_no_list),
        cmocka_unit_test(other_things_are_refused),
        cmocka_unit_test(damage_is_found_as_by_the_whole_reader),
        cmocka_unit_test(the_size_of_an_item_is_bounded),
        cmocka_unit_test(who_takes_the_items_may_stop),
        cmocka_unit_test(no_memory_is_an_error_everywhere),
        cmocka_unit_test(lines_of_every_split),
        cmocka_unit_test(the_size_of_a_line_is_bounded),
        cmocka_unit_test(a_long_line_in_small_pieces),
        cmocka_unit_test(events),
        cmocka_unit_test(errors_of_the_server),
        cmocka_unit_test(lines_that_are_no_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
