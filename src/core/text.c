/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CUT_MARK "..."

struct text text_begin(char *out, size_t size)
{
    if (size > 0)
        out[0] = '\0';
    return (struct text){.out = out, .size = size, .cut = size == 0};
}

void text_add(struct text *text, const char *format, ...)
{
    if (text->cut)
        return;

    size_t room = text->size - text->len;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text->out + text->len, room, format, args);
    va_end(args);

    text->cut = length < 0 || (size_t)length >= room;
    if (!text->cut) {
        text->len += (size_t)length;
        return;
    }
    size_t mark = sizeof(CUT_MARK) - 1;
    text->len = text->size - 1;
    if (text->len >= mark)
        memcpy(text->out + text->len - mark, CUT_MARK, mark);
    text->out[text->len] = '\0';
}
