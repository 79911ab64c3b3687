/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/word.h"

enum { CAPACITY_FIRST = 64 };

void strbuf_init(struct strbuf *buf)
{
    *buf = (struct strbuf){0};
}

void strbuf_done(struct strbuf *buf)
{
    mem_free(buf->data);
    strbuf_init(buf);
}

bool strbuf_reserve(struct strbuf *buf, size_t more)
{
    if (buf->failed)
        return false;
    size_t needed; /* with the NUL behind the text */
    if (__builtin_add_overflow(buf->len + 1, more, &needed)) {
        buf->failed = true;
        return false;
    }
    if (needed <= buf->capacity)
        return true;

    size_t capacity = buf->capacity > 0 ? buf->capacity : CAPACITY_FIRST;
    while (capacity < needed) {
        if (__builtin_mul_overflow(capacity, (size_t)2, &capacity))
            capacity = needed;
    }
    char *data = mem_realloc(buf->data, capacity, 1);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    data[buf->len] = '\0';
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void strbuf_add(struct strbuf *buf, const void *data, size_t len)
{
    if (!strbuf_reserve(buf, len) || len == 0)
        return;
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void strbuf_add_str(struct strbuf *buf, struct str text)
{
    strbuf_add(buf, text.data, text.len);
}

void strbuf_puts(struct strbuf *buf, const char *text)
{
    strbuf_add(buf, text, strlen(text));
}

void strbuf_putc(struct strbuf *buf, char c)
{
    strbuf_add(buf, &c, 1);
}

void strbuf_cut(struct strbuf *buf, size_t len)
{
    if (buf->failed)
        return;
    assert(len <= buf->len);
    buf->len -= len;
    if (buf->data != NULL)
        buf->data[buf->len] = '\0';
}

void strbuf_int(struct strbuf *buf, int64_t value)
{
    char digits[20]; /* -9223372036854775808 */
    size_t start = sizeof(digits);
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do {
        digits[--start] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        digits[--start] = '-';
    strbuf_add(buf, digits + start, sizeof(digits) - start);
}

void strbuf_printf(struct strbuf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        buf->failed = true;
        return;
    }
    if (!strbuf_reserve(buf, (size_t)length))
        return;
    va_start(args, format);
    vsnprintf(buf->data + buf->len, (size_t)length + 1, format, args);
    va_end(args);
    buf->len += (size_t)length;
}

static void escape_json(struct strbuf *buf, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 0};
    size_t length = 2;

    switch (c) {
    case '"':
    case '\\':
        text[1] = (char)c;
        break;
    case '\n':
        text[1] = 'n';
        break;
    case '\r':
        text[1] = 'r';
        break;
    case '\t':
        text[1] = 't';
        break;
    default:
        memcpy(text + 1, "u00", 3);
        text[4] = hex[c >> 4];
        text[5] = hex[c & 15];
        length = 6;
        break;
    }
    strbuf_add(buf, text, length);
}

/* Is there nothing to escape? What is more than one byte of UTF-8 is not looked at closely. */
static bool is_plain(struct str text)
{
    const char *at = text.data, *end = text.data + text.len;
    for (; end - at >= LANE_BYTES; at += LANE_BYTES)
        if (lane_special(lane_load(at)) != 0)
            return false;
    for (; end - at >= WORD_BYTES; at += WORD_BYTES) {
        uint64_t word = word_load(at);
        if ((word_equal(word, '"') | word_equal(word, '\\') | word_not_plain(word)) != 0)
            return false;
    }
    for (; at < end; at++)
        if ((unsigned char)*at < 0x20 || *at == '"' || *at == '\\')
            return false;
    return true;
}

static void add_plain_string(struct strbuf *buf, struct str text)
{
    if (text.len > SIZE_MAX - 2) {
        buf->failed = true;
        return;
    }
    if (!strbuf_reserve(buf, text.len + 2))
        return;
    char *to = buf->data + buf->len;
    *to++ = '"';
    memcpy(to, text.data, text.len);
    to += text.len;
    *to++ = '"';
    *to = '\0';
    buf->len += text.len + 2;
}

void strbuf_json_string(struct strbuf *buf, struct str text)
{
    if (text.len > 0 && is_plain(text)) {
        add_plain_string(buf, text);
        return;
    }
    strbuf_putc(buf, '"');
    size_t start = 0; /* of the run of bytes that need no escape */
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        strbuf_add(buf, text.data + start, i - start);
        escape_json(buf, c);
        start = i + 1;
    }
    if (start < text.len)
        strbuf_add(buf, text.data + start, text.len - start);
    strbuf_putc(buf, '"');
}

char *strbuf_take(struct strbuf *buf, size_t *ret_len)
{
    if (!strbuf_reserve(buf, 0)) {
        strbuf_done(buf);
        return NULL;
    }
    char *data = buf->data;
    *ret_len = buf->len;
    strbuf_init(buf);
    return data;
}
