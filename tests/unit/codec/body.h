/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_CODEC_BODY_H
#define TESTS_UNIT_CODEC_BODY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* Test bodies under tests/data/extender, read into blocks of exactly their size, so that
 * AddressSanitizer sees the first byte read too far. Tests run from the top of the tree. */
#define BODY(path) body_read("tests/data/extender/" path)

/* A copy in a block of exactly its size; free with body_free. */
static inline struct str body_copy(struct str text)
{
    char *data = malloc(text.len > 0 ? text.len : 1);
    if (data == NULL)
        abort();
    if (text.len > 0)
        memcpy(data, text.data, text.len);
    return (struct str){data, text.len};
}

/* A copy of `text` in which each `from` is replaced by `to`; aborts when there is none. */
static inline struct str body_replace(struct str text, const char *from, const char *to)
{
    size_t from_len = strlen(from), to_len = strlen(to), len = 0, found = 0;
    char *data = malloc(text.len * (to_len + 1) + 1);
    if (data == NULL)
        abort();
    for (size_t i = 0; i < text.len;) {
        if (text.len - i >= from_len && memcmp(text.data + i, from, from_len) == 0) {
            memcpy(data + len, to, to_len);
            len += to_len;
            i += from_len;
            found++;
        } else {
            data[len++] = text.data[i++];
        }
    }
    if (found == 0) {
        fprintf(stderr, "not found: %s\n", from);
        abort();
    }
    struct str copy = body_copy((struct str){data, len});
    free(data);
    return copy;
}

/* Where `needle` first stands in `text`, or NULL. */
static inline const char *body_find(struct str text, const char *needle)
{
    size_t length = strlen(needle);
    for (size_t i = 0; i + length <= text.len; i++)
        if (memcmp(text.data + i, needle, length) == 0)
            return text.data + i;
    return NULL;
}

static inline void body_free(struct str body)
{
    union {
        const char *in;
        char *out;
    } data = {.in = body.data};
    free(data.out);
}

/* The whole file; aborts when it cannot be read. */
static inline struct str body_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        abort();
    }
    static char buffer[1 << 20];
    size_t length = fread(buffer, 1, sizeof(buffer), file);
    fclose(file);
    return body_copy((struct str){buffer, length});
}

#endif
