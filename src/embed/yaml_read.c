/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/yaml.h"

#include "base/map.h"
#include "base/mem.h"
#include "codec/reader.h"
#include "embed/scalar.h"

#include <yaml.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define DEPTH_MAX      64
#define TEXT_BYTES_MAX ((size_t)64 << 20)

/* A text on its way to JSON. */
struct conversion {
    yaml_parser_t parser;
    struct str text;
    const char *source;
    struct arena *mem;    /* the caller's: results */
    struct arena scratch; /* keys of open mappings */
    struct strbuf out;    /* the document at hand */
    uint32_t depth;
    struct error *err;
};

static int fail_at(struct conversion *conv, yaml_mark_t mark, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fail_at(struct conversion *conv, yaml_mark_t mark, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(conv->err, -EINVAL, "%s:%zu:%zu: %s", conv->source, mark.line + 1,
                     mark.column + 1, text);
}

static int fail_for_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* Line and column, in characters from 0, of a byte. */
static yaml_mark_t mark_of_byte(struct str text, size_t offset)
{
    yaml_mark_t mark = {0};

    for (size_t i = 0; i < offset && i < text.len; i++) {
        if (text.data[i] == '\n')
            mark = (yaml_mark_t){.line = mark.line + 1};
        else if (((unsigned char)text.data[i] & 0xc0) != 0x80)
            mark.column++;
    }
    return mark;
}

static int fail_for_syntax(struct conversion *conv)
{
    const yaml_parser_t *parser = &conv->parser;
    yaml_mark_t mark = parser->problem_mark;

    if (parser->error == YAML_MEMORY_ERROR)
        return fail_for_memory(conv->err);
    /* What decodes the characters runs ahead of the marks and knows its byte only. */
    if (parser->error == YAML_READER_ERROR)
        mark = mark_of_byte(conv->text, parser->problem_offset);
    return fail_at(conv, mark, "not YAML: %s%s%s", parser->problem,
                   parser->context != NULL ? " " : "",
                   parser->context != NULL ? parser->context : "");
}

/* ---- events ---- */

static bool event_anchored(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor != NULL;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor != NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor != NULL;
    default:
        return event->type == YAML_ALIAS_EVENT;
    }
}

/* libyaml hides the bare tag "!" of a scalar, but then calls a quoted scalar implicitly plain. */
static bool event_tagged(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.tag != NULL ||
               (event->data.scalar.plain_implicit &&
                event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE);
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag != NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag != NULL;
    default:
        return false;
    }
}

/* The next event. The caller deletes it, also after an error. */
static int next_event(struct conversion *conv, yaml_event_t *event)
{
    if (!yaml_parser_parse(&conv->parser, event))
        return fail_for_syntax(conv);
    if (event_anchored(event))
        return fail_at(conv, event->start_mark, "anchors and aliases are not read");
    if (event_tagged(event))
        return fail_at(conv, event->start_mark, "tags are not read");
    return 0;
}

static struct str scalar_text(const yaml_event_t *event)
{
    return (struct str){(const char *)event->data.scalar.value, event->data.scalar.length};
}

static bool is_plain(const yaml_event_t *event)
{
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* ---- nodes ---- */

static int read_node(struct conversion *conv, const yaml_event_t *event);

static int read_scalar(struct conversion *conv, const yaml_event_t *event)
{
    struct str text = scalar_text(event);

    if (!is_plain(event))
        strbuf_json_string(&conv->out, text);
    else if (scalar_kind(text) == SCALAR_NO_JSON)
        return fail_at(conv, event->start_mark, "%.*s is a number that JSON cannot hold",
                       (int)(text.len < 64 ? text.len : 64), text.data);
    else
        scalar_write_json(text, &conv->out);
    return 0;
}

static int read_items(struct conversion *conv)
{
    for (uint32_t count = 0;; count++) {
        yaml_event_t event = {0};
        int result = next_event(conv, &event);
        bool end = result == 0 && event.type == YAML_SEQUENCE_END_EVENT;

        if (result == 0 && !end) {
            if (count > 0)
                strbuf_putc(&conv->out, ',');
            result = read_node(conv, &event);
        }
        yaml_event_delete(&event);
        if (result < 0 || end)
            return result;
    }
}

/* Write a key, and remember its line in `seen`. */
static int read_key(struct conversion *conv, const yaml_event_t *event, struct map *seen)
{
    struct str key;
    uint32_t line;

    if (event->type != YAML_SCALAR_EVENT)
        return fail_at(conv, event->start_mark, "a key must be a scalar");
    key = scalar_text(event);
    if (is_plain(event) && scalar_kind(key) == SCALAR_NULL)
        return fail_at(conv, event->start_mark, "a key is missing");
    if (is_plain(event) && str_is(key, "<<"))
        return fail_at(conv, event->start_mark, "merge keys are not read");
    line = map_get(seen, key);
    if (line != MAP_NONE)
        return fail_at(conv, event->start_mark, "key \"%.*s\" was already given on line %u",
                       (int)(key.len < 128 ? key.len : 128), key.data, line);
    key = arena_str(&conv->scratch, key);
    if (key.data == NULL || map_put(seen, key, (uint32_t)event->start_mark.line + 1) < 0)
        return fail_for_memory(conv->err);
    strbuf_json_string(&conv->out, key);
    strbuf_putc(&conv->out, ':');
    return 0;
}

static int read_value(struct conversion *conv)
{
    yaml_event_t event = {0};
    int result = next_event(conv, &event);

    if (result == 0)
        result = read_node(conv, &event);
    yaml_event_delete(&event);
    return result;
}

static int read_members(struct conversion *conv)
{
    struct map seen;
    bool end = false;
    int result = 0;

    map_init(&seen);
    for (uint32_t count = 0; result == 0 && !end; count++) {
        yaml_event_t event = {0};

        result = next_event(conv, &event);
        end = result == 0 && event.type == YAML_MAPPING_END_EVENT;
        if (result == 0 && !end) {
            if (count > 0)
                strbuf_putc(&conv->out, ',');
            result = read_key(conv, &event, &seen);
        }
        yaml_event_delete(&event);
        if (result == 0 && !end)
            result = read_value(conv);
    }
    map_done(&seen);
    return result;
}

/* The node that begins with `event`, to its end. Recursion is bounded by DEPTH_MAX. */
static int read_node(struct conversion *conv, const yaml_event_t *event)
{
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    int result;

    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(conv, event);
    if (conv->depth == DEPTH_MAX)
        return fail_at(conv, event->start_mark, "nested more than %d levels deep", DEPTH_MAX);
    conv->depth++;
    strbuf_putc(&conv->out, list ? '[' : '{');
    result = list ? read_items(conv) : read_members(conv);
    strbuf_putc(&conv->out, list ? ']' : '}');
    conv->depth--;
    return result;
}

/* ---- documents ---- */

struct documents {
    struct yaml_document *items;
    uint32_t count, capacity;
};

static int add_document(struct conversion *conv, struct documents *documents, uint32_t line)
{
    struct yaml_document document = {.line = line};

    if (conv->out.failed)
        return fail_for_memory(conv->err);
    if (documents->count == documents->capacity) {
        uint32_t capacity = documents->capacity == 0 ? 16 : documents->capacity * 2;
        struct yaml_document *items = mem_realloc(documents->items, capacity, sizeof *items);

        if (items == NULL)
            return fail_for_memory(conv->err);
        documents->items = items;
        documents->capacity = capacity;
    }
    document.json = arena_str(conv->mem, (struct str){conv->out.data, conv->out.len});
    if (document.json.data == NULL)
        return fail_for_memory(conv->err);
    documents->items[documents->count++] = document;
    return 0;
}

static bool is_empty_document(const yaml_event_t *event)
{
    return event->type == YAML_SCALAR_EVENT && is_plain(event) &&
           scalar_kind(scalar_text(event)) == SCALAR_NULL;
}

static int read_documents(struct conversion *conv, struct documents *documents)
{
    bool end = false;
    int result = 0;

    while (result == 0 && !end) {
        yaml_event_t event = {0};

        result = next_event(conv, &event);
        end = result == 0 && event.type == YAML_STREAM_END_EVENT;
        if (result == 0 &&
            (event.type == YAML_SCALAR_EVENT || event.type == YAML_SEQUENCE_START_EVENT ||
             event.type == YAML_MAPPING_START_EVENT) &&
            !is_empty_document(&event)) {
            conv->out.len = 0;
            result = read_node(conv, &event);
            if (result == 0)
                result = add_document(conv, documents, (uint32_t)event.start_mark.line + 1);
        }
        yaml_event_delete(&event);
    }
    return result;
}

/* ---- JSON ---- */

/*
 * JSON is read by JSON's own rules: libyaml would refuse surrogate pairs of escapes, keys of more
 * than 1024 characters and a raw DEL, all of which JSON allows. Text that begins like JSON and is
 * not may still be YAML in flow style.
 */
static bool is_json(struct str text, struct str *ret_value)
{
    size_t start = 0;
    struct error unused;

    while (start < text.len && memchr(" \t\r\n", text.data[start], 4) != NULL)
        start++;
    return start < text.len && (text.data[start] == '{' || text.data[start] == '[') &&
           reader_check(text, DEPTH_MAX, ret_value, &unused) == 0;
}

static int copy_json(struct conversion *conv, struct str value);

static yaml_mark_t mark_of(const struct conversion *conv, struct str part)
{
    return mark_of_byte(conv->text, (size_t)(part.data - conv->text.data));
}

/* Write a key, and remember its byte in `seen`. */
static int copy_key(struct conversion *conv, struct str key, struct map *seen)
{
    struct str name;
    uint32_t before;

    if (reader_string(key, &conv->scratch, &name, conv->err) < 0)
        return fail_for_memory(conv->err); /* a key is a string, so it can be nothing else */
    before = map_get(seen, name);
    if (before != MAP_NONE)
        return fail_at(conv, mark_of(conv, key), "key \"%.*s\" was already given on line %zu",
                       (int)(name.len < 128 ? name.len : 128), name.data,
                       mark_of_byte(conv->text, before).line + 1);
    if (map_put(seen, name, (uint32_t)(key.data - conv->text.data)) < 0)
        return fail_for_memory(conv->err);
    strbuf_json_string(&conv->out, name);
    strbuf_putc(&conv->out, ':');
    return 0;
}

static int copy_members(struct conversion *conv, struct str object)
{
    struct reader_iter iter = reader_iterate(object);
    struct str key, value;
    struct map seen;
    int result = 0;

    map_init(&seen);
    for (uint32_t i = 0; result == 0 && reader_next_member(&iter, &key, &value); i++) {
        if (i > 0)
            strbuf_putc(&conv->out, ',');
        result = copy_key(conv, key, &seen);
        if (result == 0)
            result = copy_json(conv, value);
    }
    map_done(&seen);
    return result;
}

/* A value without its blanks and with each key once. Depth was bounded by reader_check(). */
static int copy_json(struct conversion *conv, struct str value)
{
    struct reader_iter iter;
    struct str item;
    int result = 0;

    switch (reader_type(value)) {
    case READER_OBJECT:
        strbuf_putc(&conv->out, '{');
        result = copy_members(conv, value);
        strbuf_putc(&conv->out, '}');
        return result;
    case READER_ARRAY:
        strbuf_putc(&conv->out, '[');
        iter = reader_iterate(value);
        for (uint32_t i = 0; result == 0 && reader_next_item(&iter, &item); i++) {
            if (i > 0)
                strbuf_putc(&conv->out, ',');
            result = copy_json(conv, item);
        }
        strbuf_putc(&conv->out, ']');
        return result;
    default:
        strbuf_add_str(&conv->out, value);
        return 0;
    }
}

/* ---- the whole ---- */

/* The first %TAG directive, or NULL. The library compares each with all before it, so that a long
 * list of them takes hours, and no tag is read anyway. */
static const char *find_tag_directive(struct str text)
{
    static const char directive[] = "%TAG";
    /* Last bytes of what ends a line (LF, CR, NEL, LS, PS), and of a byte order mark. */
    static const char before[] = "\n\r\x85\xa8\xa9\xbf";
    const char *end = text.data + text.len, *at = text.data;

    while ((at = memchr(at, '%', (size_t)(end - at))) != NULL) {
        if ((size_t)(end - at) >= strlen(directive) &&
            memcmp(at, directive, strlen(directive)) == 0 &&
            (at == text.data || memchr(before, at[-1], strlen(before)) != NULL))
            return at;
        at++;
    }
    return NULL;
}

static int read_text(struct conversion *conv, struct documents *documents)
{
    struct str value;
    const char *tag;
    int result;

    if (conv->text.len > TEXT_BYTES_MAX)
        return fail_at(conv, (yaml_mark_t){0}, "larger than %zu MiB", TEXT_BYTES_MAX >> 20);
    if (is_json(conv->text, &value)) {
        result = copy_json(conv, value);
        return result < 0 ? result
                          : add_document(conv, documents, (uint32_t)mark_of(conv, value).line + 1);
    }
    tag = find_tag_directive(conv->text);
    if (tag != NULL)
        return fail_at(conv, mark_of_byte(conv->text, (size_t)(tag - conv->text.data)),
                       "tags are not read");
    if (!yaml_parser_initialize(&conv->parser))
        return fail_for_memory(conv->err);
    yaml_parser_set_encoding(&conv->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&conv->parser, (const unsigned char *)conv->text.data,
                                 conv->text.len);
    result = read_documents(conv, documents);
    yaml_parser_delete(&conv->parser);
    return result;
}

int yaml_to_json(struct str text, const char *source, struct arena *mem,
                 struct yaml_document **ret_documents, uint32_t *ret_count, struct error *err)
{
    struct error unread;
    struct conversion conv = {.text = text.data != NULL ? text : STR(""),
                              .source = source,
                              .mem = mem,
                              .err = err != NULL ? err : &unread};
    struct documents documents = {0};
    struct yaml_document *copy;
    int result;

    arena_init(&conv.scratch, 0);
    strbuf_init(&conv.out);
    result = read_text(&conv, &documents);
    if (result == 0) {
        copy = arena_alloc(mem, documents.count, sizeof *copy);
        if (copy != NULL) {
            if (documents.count > 0)
                memcpy(copy, documents.items, documents.count * sizeof *copy);
            *ret_documents = copy;
            *ret_count = documents.count;
        } else {
            result = fail_for_memory(err);
        }
    }
    mem_free(documents.items);
    strbuf_done(&conv.out);
    arena_done(&conv.scratch);
    return result;
}
