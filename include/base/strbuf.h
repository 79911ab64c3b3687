/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * Growable bytes for building text. Errors are sticky: after the first failed growth `failed` is set
 * and every later call does nothing, so a builder checks once at its end.
 */
struct strbuf {
    char *data; /* NUL-terminated whenever not NULL */
    size_t len;
    size_t capacity;
    bool failed;
};

/* An empty buffer; allocates nothing. */
void strbuf_init(struct strbuf *buf);

/* Free the bytes; the buffer is empty again. A zeroed buffer is fine. */
void strbuf_done(struct strbuf *buf);

/* Make room for `more` bytes beyond len; false (and failed set) when memory ends. */
bool strbuf_reserve(struct strbuf *buf, size_t more);

/* Where at most `most` bytes may be written next, or NULL when memory ends; strbuf_written() must follow. For
 * loops that write many small pieces. */
static inline char *strbuf_room(struct strbuf *buf, size_t most)
{
    bool enough = !buf->failed && buf->capacity > buf->len && buf->capacity - buf->len > most;
    return enough || strbuf_reserve(buf, most) ? buf->data + buf->len : NULL;
}

/* Those bytes were written, up to `end`. */
static inline void strbuf_written(struct strbuf *buf, char *end)
{
    *end = '\0';
    buf->len = (size_t)(end - buf->data);
}

/* Append `len` bytes. */
void strbuf_add(struct strbuf *buf, const void *data, size_t len);

/* Append a slice. */
void strbuf_add_str(struct strbuf *buf, struct str text);

/* Append a NUL-terminated string. */
void strbuf_puts(struct strbuf *buf, const char *text);

/* Append one byte. */
void strbuf_putc(struct strbuf *buf, char c);

/* Take the last `len` bytes away again. */
void strbuf_cut(struct strbuf *buf, size_t len);

/* Append a decimal integer. */
void strbuf_int(struct strbuf *buf, int64_t value);

/* Append formatted text. */
void strbuf_printf(struct strbuf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append `text` as a JSON string with its quotes. Control characters, '"' and '\\' are escaped,
 * other bytes (UTF-8 is the caller's business) pass unchanged. */
void strbuf_json_string(struct strbuf *buf, struct str text);

/* Take the bytes out: returns them (free with mem_free) with the length in *ret_len, and leaves the
 * buffer empty. NULL when the buffer failed; an empty buffer gives an empty string. */
char *strbuf_take(struct strbuf *buf, size_t *ret_len);

#endif
