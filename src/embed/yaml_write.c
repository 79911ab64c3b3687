/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/yaml.h"

#include "codec/reader.h"
#include "embed/scalar.h"

#include <errno.h>

#define DEPTH_MAX 64
/* A key that is not introduced by "? " must be followed by its colon within 1024 characters. */
#define KEY_BYTES_MAX 1000

/* JSON on its way to block style, indented as kubectl does it: list items stand below their key. */
struct writer {
    struct strbuf *out;
    struct arena mem; /* decoded strings */
};

/* What stands in front of a value on its line. */
enum lead { LEAD_START, LEAD_KEY, LEAD_ITEM };

static void indent_line(struct writer *writer, uint32_t indent)
{
    strbuf_printf(writer->out, "%*s", (int)indent, "");
}

/* ---- strings ---- */

/* Code point of the well-formed sequence of `len` bytes at `at`. */
static uint32_t code_point(const char *at, size_t len)
{
    uint32_t point = len == 1 ? (unsigned char)at[0] : (unsigned char)at[0] & (0xffu >> (len + 1));

    for (size_t i = 1; i < len; i++)
        point = point << 6 | ((unsigned char)at[i] & 0x3f);
    return point;
}

/* May it stand in a YAML file as it is? Line breaks that only YAML knows may not. */
static bool is_printable(uint32_t point)
{
    return (point >= 0x20 && point < 0x7f) || (point >= 0xa0 && point < 0x2028) ||
           (point > 0x2029 && point < 0xfeff) || (point > 0xfeff && point < 0xfffe) ||
           point > 0xffff;
}

static void write_escaped(struct writer *writer, uint32_t point)
{
    static const char short_form[] = "\"\\\n\r\t\b\f";
    static const char letters[] = "\"\\nrtbf";
    const char *found = point > 0 && point < 0x80 ? strchr(short_form, (int)point) : NULL;

    if (found != NULL)
        strbuf_printf(writer->out, "\\%c", letters[found - short_form]);
    else
        strbuf_printf(writer->out, "\\u%04x", point);
}

static void write_quoted(struct writer *writer, struct str text)
{
    const char *at = text.data, *end = text.data + text.len;

    strbuf_putc(writer->out, '"');
    while (at < end) {
        size_t len = reader_utf8_length(at, end);
        uint32_t point = code_point(at, len);

        if (is_printable(point) && point != '"' && point != '\\')
            strbuf_add(writer->out, at, len);
        else
            write_escaped(writer, point);
        at += len;
    }
    strbuf_putc(writer->out, '"');
}

/* May a text be written as a literal block ("|")? Lines of printable characters, the first of them
 * not blank at its start, and at most one line break at the end. */
static bool is_block(struct str text)
{
    const char *at = text.data, *end = text.data + text.len;

    if (text.len < 2 || memchr(text.data, '\n', text.len) == NULL || text.data[0] == ' ' ||
        text.data[0] == '\n' || (end[-1] == '\n' && end[-2] == '\n'))
        return false;
    while (at < end) {
        size_t len = reader_utf8_length(at, end);
        uint32_t point = code_point(at, len);

        if (point != '\n' && !is_printable(point))
            return false;
        at += len;
    }
    return true;
}

static void write_block(struct writer *writer, struct str text, uint32_t indent)
{
    const char *at = text.data, *end = text.data + text.len;

    strbuf_puts(writer->out, end[-1] == '\n' ? "|" : "|-");
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line_end != NULL ? line_end : end) - at);

        strbuf_putc(writer->out, '\n');
        if (len > 0)
            indent_line(writer, indent);
        strbuf_add(writer->out, at, len);
        at += len + 1;
    }
}

static void write_string(struct writer *writer, struct str text, enum lead lead, uint32_t indent)
{
    if (scalar_is_plain(text))
        strbuf_add_str(writer->out, text);
    else if (lead != LEAD_START && is_block(text))
        write_block(writer, text, indent);
    else
        write_quoted(writer, text);
}

/* ---- values ---- */

static int write_value(struct writer *writer, struct str value, enum lead lead, uint32_t indent,
                       struct error *err);

/* Text of a JSON string. */
static int decode(struct writer *writer, struct str value, struct str *ret, struct error *err)
{
    return reader_string(value, &writer->mem, ret, err) < 0
               ? error_set(err, -ENOMEM, "out of memory")
               : 0;
}

/* "key:", or "? key" and a line that begins with the colon. */
static int write_key(struct writer *writer, struct str key, uint32_t indent, struct error *err)
{
    size_t start = writer->out->len;
    struct strbuf *out = writer->out;
    struct str text;
    int result = decode(writer, key, &text, err);

    if (result < 0)
        return result;
    write_string(writer, text, LEAD_START, 0);
    if (!out->failed && out->len - start > KEY_BYTES_MAX) {
        out->len = start;
        strbuf_puts(out, "? ");
        write_quoted(writer, text);
        strbuf_putc(out, '\n');
        indent_line(writer, indent);
    }
    strbuf_putc(out, ':');
    return 0;
}

static int write_members(struct writer *writer, struct str object, enum lead lead, uint32_t indent,
                         struct error *err)
{
    struct reader_iter iter = reader_iterate(object);
    struct str key, value;
    int result = 0;

    if (lead == LEAD_ITEM)
        strbuf_putc(writer->out, ' ');
    for (uint32_t i = 0; result == 0 && reader_next_member(&iter, &key, &value); i++) {
        if (i > 0 || lead == LEAD_KEY) {
            strbuf_putc(writer->out, '\n');
            indent_line(writer, indent);
        }
        result = write_key(writer, key, indent, err);
        if (result == 0)
            result = write_value(writer, value, LEAD_KEY, indent + 2, err);
    }
    return result;
}

static int write_items(struct writer *writer, struct str array, enum lead lead, uint32_t indent,
                       struct error *err)
{
    struct reader_iter iter = reader_iterate(array);
    struct str value;
    int result = 0;

    if (lead == LEAD_KEY)
        indent -= 2;
    if (lead == LEAD_ITEM)
        strbuf_putc(writer->out, ' ');
    for (uint32_t i = 0; result == 0 && reader_next_item(&iter, &value); i++) {
        if (i > 0 || lead == LEAD_KEY) {
            strbuf_putc(writer->out, '\n');
            indent_line(writer, indent);
        }
        strbuf_putc(writer->out, '-');
        result = write_value(writer, value, LEAD_ITEM, indent + 2, err);
    }
    return result;
}

/* A value behind what `lead` says; `indent` is where its own lines begin. Depth was bounded by
 * reader_check(). */
static int write_value(struct writer *writer, struct str value, enum lead lead, uint32_t indent,
                       struct error *err)
{
    enum reader_type type = reader_type(value);
    struct str text;

    if (type == READER_OBJECT && reader_count(value) > 0)
        return write_members(writer, value, lead, indent, err);
    if (type == READER_ARRAY && reader_count(value) > 0)
        return write_items(writer, value, lead, indent, err);
    if (lead != LEAD_START)
        strbuf_putc(writer->out, ' ');
    if (type == READER_STRING) {
        int result = decode(writer, value, &text, err);

        if (result < 0)
            return result;
        write_string(writer, text, lead, indent);
    } else if (type == READER_OBJECT || type == READER_ARRAY) {
        strbuf_puts(writer->out, type == READER_OBJECT ? "{}" : "[]");
    } else {
        strbuf_add_str(writer->out, value);
    }
    return 0;
}

int yaml_from_json(struct str json, struct strbuf *out, struct error *err)
{
    struct writer writer = {.out = out};
    struct error unread;
    size_t start = out->len;
    struct str value;
    int result;

    if (err == NULL)
        err = &unread;
    if (reader_check(json, DEPTH_MAX, &value, err) < 0)
        return error_set(err, -EINVAL, "JSON%s", err->text);
    arena_init(&writer.mem, 0);
    strbuf_puts(out, "---\n");
    result = write_value(&writer, value, LEAD_START, 0, err);
    strbuf_putc(out, '\n');
    arena_done(&writer.mem);
    if (result == 0 && out->failed)
        result = error_set(err, -ENOMEM, "out of memory");
    if (result < 0 && out->data != NULL) {
        out->len = start;
        out->data[start] = '\0';
    }
    return result;
}
