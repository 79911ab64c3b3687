/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/stream.h"

#include <errno.h>

#include "codec/extender.h"
#include "codec/reader.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---- where a value ends ---- */

/* Go on inside a string; behind its closing quote, or `end`. */
static const char *scan_string(struct list_cutter *c, const char *at, const char *end)
{
    while (at < end && c->in_string) {
        c->in_string = c->escaped || *at != '"';
        c->escaped = !c->escaped && *at == '\\';
        at++;
    }
    return at;
}

/* Go on inside an object or array; behind its closing bracket, or `end`. */
static const char *scan_container(struct list_cutter *c, const char *at, const char *end)
{
    const char *behind = skip_on(&c->skip, at, end);
    c->in_container = behind == NULL;
    return behind != NULL ? behind : end;
}

static bool ends_scalar(char c)
{
    return is_blank(c) || c == ',' || c == '}' || c == ']';
}

/* The value that starts or goes on at `at`: where it ends. Not `in_value` any more once it is
 * complete. */
static const char *scan_value(struct list_cutter *c, const char *at, const char *end)
{
    if (!c->in_value && *at == '"') {
        c->in_string = true;
        at++;
    } else if (!c->in_value && (*at == '{' || *at == '[')) {
        c->in_container = true;
        c->skip = (struct skip){0};
    } else if (!c->in_string && !c->in_container) {
        at += !c->in_value;
        while (at < end && !ends_scalar(*at))
            at++;
        c->in_value = at == end;
        return at;
    }
    at = c->in_container ? scan_container(c, at, end) : scan_string(c, at, end);
    c->in_value = c->in_container || c->in_string;
    return at;
}

/* ---- a list ---- */

void list_cutter_init(struct list_cutter *cutter, uint32_t max_item_bytes)
{
    *cutter = (struct list_cutter){.max_item_bytes = max_item_bytes};
}

void list_cutter_done(struct list_cutter *cutter)
{
    strbuf_done(&cutter->piece);
    strbuf_done(&cutter->resource_version);
    strbuf_done(&cutter->next);
}

/* A piece on its way through the cutter. */
struct feed {
    struct list_cutter *cutter;
    const char *start, *at, *end;
    int (*item)(void *self, struct str json);
    void *self;
    struct error *err;
};

static int not_a_list(const struct feed *feed, const char *problem)
{
    return error_set(
        feed->err, -EINVAL, "list: byte %llu: %s",
        (unsigned long long)(feed->cutter->offset + (uint64_t)(feed->at - feed->start)), problem);
}

/* Read on in a key or value. 1: it is complete and its text is in *ret, which is the arriving piece
 * itself when it began there. 0: the piece ended first. */
static int take_value(struct feed *feed, struct str *ret)
{
    struct list_cutter *c = feed->cutter;
    const char *from = feed->at;
    feed->at = scan_value(c, from, feed->end);
    struct str part = {from, (size_t)(feed->at - from)};
    if (part.len > c->max_item_bytes - c->piece.len)
        return error_set(feed->err, -E2BIG, "list: item %llu is larger than %u bytes",
                         (unsigned long long)c->items + 1, c->max_item_bytes);
    if (!c->in_value && c->piece.len == 0) {
        *ret = part;
        return 1;
    }
    strbuf_add_str(&c->piece, part);
    if (c->piece.failed)
        return error_set(feed->err, -ENOMEM, "list: out of memory");
    *ret = (struct str){c->piece.data, c->piece.len};
    return !c->in_value;
}

/* The text of take_value has been used. */
static void drop_value(struct list_cutter *c)
{
    c->piece.len = 0;
}

static int take_key(struct feed *feed)
{
    struct list_cutter *c = feed->cutter;
    if (!c->in_value && *feed->at != '"')
        return not_a_list(feed, "a key was expected");
    struct str text, key;
    int rc = take_value(feed, &text);
    if (rc <= 0)
        return rc;
    rc = reader_check(text, 0, &key, feed->err);
    if (rc < 0)
        return reader_at(feed->err, "list");
    c->member = str_is(key, "\"items\"")      ? LIST_ITEMS
                : str_is(key, "\"metadata\"") ? LIST_METADATA
                                              : LIST_OTHER;
    drop_value(c);
    c->state = LIST_COLON;
    return 0;
}

static void keep_text(struct strbuf *to, struct str text)
{
    to->len = 0;
    strbuf_add_str(to, text);
}

static int read_metadata(struct list_cutter *c, struct str value, struct error *err)
{
    enum { RESOURCE_VERSION, CONTINUE };
    struct reader_field fields[] = {
        [RESOURCE_VERSION] = {.name = "resourceVersion"},
        [CONTINUE] = {.name = "continue"},
    };
    struct arena mem;
    arena_init(&mem, 0);
    struct str version = {0}, next = {0};
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(&fields[RESOURCE_VERSION], &mem, &version, err);
    if (rc == 0)
        rc = reader_field_string(&fields[CONTINUE], &mem, &next, err);
    if (rc == 0) {
        keep_text(&c->resource_version, version);
        keep_text(&c->next, next);
        if (c->resource_version.failed || c->next.failed)
            rc = reader_no_memory(err);
    }
    arena_done(&mem);
    return rc;
}

/* A member other than the items is complete. */
static int read_member(struct list_cutter *c, struct str text, struct error *err)
{
    struct str value;
    int rc = reader_check(text, codec_default_limits.nesting, &value, err);
    if (rc == 0 && c->member == LIST_ITEMS && reader_type(value) != READER_NULL)
        rc = reader_bad(err, "items: must be an array");
    if (rc == 0 && c->member == LIST_METADATA && reader_type(value) != READER_NULL)
        rc = read_metadata(c, value, err);
    return rc < 0 ? reader_at(err, "list") : 0;
}

static int take_member(struct feed *feed)
{
    struct list_cutter *c = feed->cutter;
    if (c->member == LIST_ITEMS && !c->in_value) {
        if (c->has_items)
            return not_a_list(feed, "items came before");
        c->has_items = true;
        if (*feed->at == '[') {
            feed->at++;
            c->state = LIST_FIRST_ITEM;
            return 0;
        }
    }
    struct str text;
    int rc = take_value(feed, &text);
    if (rc <= 0)
        return rc;
    rc = read_member(c, text, feed->err);
    drop_value(c);
    c->state = LIST_MEMBER_END;
    return rc;
}

static int take_item(struct feed *feed)
{
    struct list_cutter *c = feed->cutter;
    if (!c->in_value && *feed->at != '{')
        return not_a_list(feed, "an item must be an object");
    struct str json;
    int rc = take_value(feed, &json);
    if (rc <= 0)
        return rc;
    c->items++;
    rc = feed->item(feed->self, json);
    drop_value(c);
    c->state = LIST_ITEM_END;
    return rc;
}

/* One character of the frame: `a` leads to state `to_a`, `b` to `to_b`. */
static int take_frame(struct feed *feed, char a, enum list_state to_a, char b, enum list_state to_b)
{
    char c = *feed->at;
    if (c != a && c != b)
        return not_a_list(feed, "unexpected character");
    feed->cutter->state = c == a ? to_a : to_b;
    feed->at++;
    return 0;
}

static int take_next(struct feed *feed)
{
    struct list_cutter *c = feed->cutter;
    switch (c->state) {
    case LIST_START:
        return take_frame(feed, '{', LIST_FIRST_KEY, '{', LIST_FIRST_KEY);
    case LIST_FIRST_KEY:
        if (!c->in_value && *feed->at == '}')
            return take_frame(feed, '}', LIST_END, '}', LIST_END);
        c->state = LIST_KEY;
        return take_key(feed);
    case LIST_KEY:
        return take_key(feed);
    case LIST_COLON:
        return take_frame(feed, ':', LIST_VALUE, ':', LIST_VALUE);
    case LIST_VALUE:
        return take_member(feed);
    case LIST_MEMBER_END:
        return take_frame(feed, ',', LIST_KEY, '}', LIST_END);
    case LIST_FIRST_ITEM:
        if (*feed->at == ']')
            return take_frame(feed, ']', LIST_MEMBER_END, ']', LIST_MEMBER_END);
        c->state = LIST_ITEM;
        return take_item(feed);
    case LIST_ITEM:
        return take_item(feed);
    case LIST_ITEM_END:
        return take_frame(feed, ',', LIST_ITEM, ']', LIST_MEMBER_END);
    case LIST_END:
        break;
    }
    return not_a_list(feed, "something after its end");
}

int list_cutter_feed(struct list_cutter *cutter, const char *data, size_t len,
                     int (*item)(void *self, struct str json), void *self, struct error *err)
{
    struct error unwanted;
    struct feed feed = {.cutter = cutter,
                        .start = data,
                        .at = data,
                        .end = data + len,
                        .item = item,
                        .self = self,
                        .err = err != NULL ? err : &unwanted};
    for (;;) {
        while (!cutter->in_value && feed.at < feed.end && is_blank(*feed.at))
            feed.at++;
        if (feed.at == feed.end)
            break;
        int rc = take_next(&feed);
        if (rc < 0)
            return rc;
    }
    cutter->offset += len;
    return 0;
}

int list_cutter_end(struct list_cutter *cutter, struct error *err)
{
    if (cutter->state != LIST_END)
        return error_set(err, -EINVAL, "list: ends after %llu bytes and %llu items",
                         (unsigned long long)cutter->offset, (unsigned long long)cutter->items);
    if (!cutter->has_items)
        return error_set(err, -EINVAL, "list: has no items");
    return 0;
}

/* ---- a watch ---- */

void line_cutter_init(struct line_cutter *cutter, uint32_t max_line_bytes)
{
    *cutter = (struct line_cutter){.max_line_bytes = max_line_bytes};
}

void line_cutter_done(struct line_cutter *cutter)
{
    strbuf_done(&cutter->line);
}

/* Add a part of a line; *ret is the line up to now, which is `part` itself when nothing came
 * before. */
static int join(struct line_cutter *cutter, struct str part, bool complete, struct str *ret,
                struct error *err)
{
    if (part.len > cutter->max_line_bytes - cutter->line.len)
        return error_set(err, -E2BIG, "watch: a line is larger than %u bytes",
                         cutter->max_line_bytes);
    if (complete && cutter->line.len == 0) {
        *ret = part;
        return 0;
    }
    strbuf_add_str(&cutter->line, part);
    if (cutter->line.failed)
        return error_set(err, -ENOMEM, "watch: out of memory");
    *ret = (struct str){cutter->line.data, cutter->line.len};
    return 0;
}

int line_cutter_feed(struct line_cutter *cutter, const char *data, size_t len,
                     int (*line)(void *self, struct str text), void *self, struct error *err)
{
    while (len > 0) {
        const char *newline = memchr(data, '\n', len);
        size_t part = newline != NULL ? (size_t)(newline - data) : len;
        struct str text;
        int rc = join(cutter, (struct str){data, part}, newline != NULL, &text, err);
        if (rc < 0 || newline == NULL)
            return rc;
        if (text.len > 0 && text.data[text.len - 1] == '\r')
            text.len--;
        if (text.len > 0)
            rc = line(self, text);
        if (rc < 0)
            return rc;
        cutter->line.len = 0;
        data += part + 1;
        len -= part + 1;
    }
    return 0;
}

static int find_type(struct str name, enum watch_type *ret)
{
    static const char *const names[] = {
        [WATCH_ADDED] = "ADDED",       [WATCH_MODIFIED] = "MODIFIED", [WATCH_DELETED] = "DELETED",
        [WATCH_BOOKMARK] = "BOOKMARK", [WATCH_ERROR] = "ERROR",
    };
    for (enum watch_type type = WATCH_ADDED; type <= WATCH_ERROR; type++) {
        if (str_is(name, names[type])) {
            *ret = type;
            return 0;
        }
    }
    return -EINVAL;
}

/* The Status object of an ERROR. */
static int decode_status(const struct reader_field *object, struct arena *mem,
                         struct watch_event *event, struct error *err)
{
    enum { CODE, REASON, MESSAGE };
    struct reader_field fields[] = {
        [CODE] = {.name = "code"},
        [REASON] = {.name = "reason"},
        [MESSAGE] = {.name = "message"},
    };
    int64_t code = 0;
    struct str reason = {0}, message = {0};
    int rc = reader_field_object(object, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_int(&fields[CODE], 0, 999, &code, err);
    if (rc == 0)
        rc = reader_field_string(&fields[REASON], mem, &reason, err);
    if (rc == 0)
        rc = reader_field_string(&fields[MESSAGE], mem, &message, err);
    if (rc < 0)
        return rc;
    struct strbuf text = {0};
    strbuf_printf(&text, "%.*s: %.*s", STR_ARG(reason), STR_ARG(message));
    event->status_code = (int)code;
    event->status_text = arena_str(mem, (struct str){text.data, text.len});
    bool failed = text.failed || event->status_text.data == NULL;
    strbuf_done(&text);
    return failed ? reader_no_memory(err) : 0;
}

static int decode_version(const struct reader_field *object, struct arena *mem, struct str *ret,
                          struct error *err)
{
    struct reader_field metadata[] = {{.name = "metadata"}};
    struct reader_field version[] = {{.name = "resourceVersion"}};
    int rc = reader_field_object(object, READER_FIELDS(metadata), err);
    if (rc == 0)
        rc = reader_field_object(metadata, READER_FIELDS(version), err);
    return rc == 0 ? reader_field_string(version, mem, ret, err) : rc;
}

static int decode_event(struct str value, struct arena *mem, struct watch_event *event,
                        struct error *err)
{
    enum { TYPE, OBJECT };
    struct reader_field fields[] = {[TYPE] = {.name = "type"}, [OBJECT] = {.name = "object"}};
    struct str type = {0};
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(&fields[TYPE], mem, &type, err);
    if (rc == 0 && find_type(type, &event->type) < 0)
        rc = error_set(err, -EINVAL, "type: \"%.*s\" is no event", STR_ARG(type));
    if (rc == 0 && fields[OBJECT].value.data == NULL)
        rc = reader_bad(err, "object: must be given");
    if (rc < 0)
        return rc;
    event->object = fields[OBJECT].value;
    return event->type == WATCH_ERROR
               ? decode_status(&fields[OBJECT], mem, event, err)
               : decode_version(&fields[OBJECT], mem, &event->resource_version, err);
}

int watch_decode(struct str line, struct arena *mem, struct watch_event *ret, struct error *err)
{
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;
    struct watch_event event = {0};
    struct str value;
    int rc = reader_check(line, codec_default_limits.nesting, &value, err);
    if (rc == 0)
        rc = decode_event(value, mem, &event, err);
    if (rc < 0)
        return reader_at(err, "watch");
    *ret = event;
    return 0;
}
