/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A borrowed slice of bytes: pointer and length, passed by value. It may hold NUL bytes and is not
 * NUL-terminated. Who lends it must outlive it; each structure says who lends its slices. */
struct str {
    const char *data;
    size_t len;
};

/* A slice over a string literal. */
#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})

/* printf: "%.*s" with STR_ARG(s). */
#define STR_ARG(s) (int)(s).len, (s).data != NULL ? (s).data : ""

/* A slice over a NUL-terminated string; NULL gives the empty slice. */
static inline struct str str_from(const char *text)
{
    return (struct str){text, text != NULL ? strlen(text) : 0};
}

/* Same bytes, same length. */
static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Same bytes as a NUL-terminated string. */
static inline bool str_is(struct str a, const char *text)
{
    if (a.len > 0 && text != NULL && a.data[0] != text[0]) /* as nearly all that are compared */
        return false;
    return str_eq(a, str_from(text));
}

/* Copy the bytes to `to`, which has room for them; *ret is the copy. Returns where the next may
 * begin. */
static inline char *str_copy(char *to, struct str text, struct str *ret)
{
    if (text.len > 0)
        memcpy(to, text.data, text.len);
    *ret = (struct str){to, text.len};
    return to + text.len;
}

#endif
