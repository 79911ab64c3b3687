/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A sentence being written into a caller's buffer, cut with "..." where the buffer ends. */
struct text {
    char *out;
    size_t size;
    size_t len;
    bool cut;
};

/* Begin in `out`; with size 0 nothing is ever written. */
struct text text_begin(char *out, size_t size);

/* Append a printf piece; nothing after the first cut. */
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
