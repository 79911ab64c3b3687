/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "codec/peek.h"
#include "codec/reader.h"
#include "codec/stream.h"

/* A list: four bytes decide how it comes in pieces. Any split gives the same items and the same end; and if
 * the whole is JSON, the items are those that the reader finds in it. */

enum { ITEM_MAX_BYTES = 4096, NESTING = 64 };

static int keep_item(void *self, struct str json)
{
    struct str uid;
    uint64_t version;
    MUST(json.len > 0 && json.len <= ITEM_MAX_BYTES);
    MUST(!peek_object(json, &uid, &version) || (uid.len > 0 && version > 0));
    strbuf_add_str(self, json);
    strbuf_putc(self, '\n');
    return 0;
}

struct result {
    int rc;
    struct strbuf items, resource_version, next;
    uint64_t count;
};

static void finish(struct list_cutter *cutter, struct result *result)
{
    struct error err;
    if (result->rc == 0)
        result->rc = list_cutter_end(cutter, &err);
    if (result->rc == 0) {
        strbuf_add(&result->resource_version, cutter->resource_version.data,
                   cutter->resource_version.len);
        strbuf_add(&result->next, cutter->next.data, cutter->next.len);
        result->count = cutter->items;
    }
    list_cutter_done(cutter);
}

static struct str text_of(const struct strbuf *buf)
{
    return (struct str){buf->data, buf->len};
}

static void result_done(struct result *result)
{
    strbuf_done(&result->items);
    strbuf_done(&result->resource_version);
    strbuf_done(&result->next);
}

/* The list as the reader sees it: its only member called items. */
static bool find_items(struct str whole, struct str *ret_items)
{
    struct str value, key, member;
    struct error err;
    if (reader_check(whole, NESTING, &value, &err) != 0 || reader_type(value) != READER_OBJECT)
        return false;
    struct reader_iter iter = reader_iterate(value);
    unsigned found = 0;
    char buffer[READER_KEY_MAX];
    while (reader_next_member(&iter, &key, &member)) {
        struct str name = reader_key(key, buffer);
        if (name.len != 5 || strncasecmp(name.data, "items", 5) != 0)
            continue;
        *ret_items = member;
        found++;
    }
    return found == 1 && reader_type(*ret_items) == READER_ARRAY;
}

static void compare_with_reader(struct str items, const struct result *result)
{
    struct reader_iter iter = reader_iterate(items);
    struct strbuf expected = {0};
    struct str item;
    uint64_t count = 0;
    for (; reader_next_item(&iter, &item); count++) {
        strbuf_add_str(&expected, item);
        strbuf_putc(&expected, '\n');
    }
    MUST(count == result->count);
    MUST(str_eq(text_of(&expected), text_of(&result->items)));
    strbuf_done(&expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct splitter splitter = splitter_init(data, size);
    struct str whole = splitter.rest, piece, items;
    struct result at_once = {0}, in_pieces = {0};
    struct list_cutter cutter;
    struct error err;

    list_cutter_init(&cutter, ITEM_MAX_BYTES);
    at_once.rc = list_cutter_feed(&cutter, whole.data, whole.len, keep_item, &at_once.items, &err);
    finish(&cutter, &at_once);

    list_cutter_init(&cutter, ITEM_MAX_BYTES);
    while (in_pieces.rc == 0 && splitter_next(&splitter, &piece))
        in_pieces.rc =
            list_cutter_feed(&cutter, piece.data, piece.len, keep_item, &in_pieces.items, &err);
    finish(&cutter, &in_pieces);

    MUST(at_once.rc == in_pieces.rc && at_once.count == in_pieces.count);
    MUST(str_eq(text_of(&at_once.items), text_of(&in_pieces.items)));
    MUST(str_eq(text_of(&at_once.resource_version), text_of(&in_pieces.resource_version)));
    MUST(str_eq(text_of(&at_once.next), text_of(&in_pieces.next)));
    if (at_once.rc == 0 && find_items(whole, &items))
        compare_with_reader(items, &at_once);
    result_done(&at_once);
    result_done(&in_pieces);
    return 0;
}
