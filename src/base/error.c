/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, const char *format, ...)
{
    assert(code < 0);
    if (err == NULL)
        return code;

    /* Built aside: the arguments may point into err->text. */
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length < 0)
        text[0] = '\0';

    err->code = code;
    memcpy(err->text, text, sizeof(text));
    return code;
}

int error_wrap(struct error *err, const char *format, ...)
{
    if (err == NULL)
        return -EIO;

    char prefix[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(prefix, sizeof(prefix), format, args);
    va_end(args);
    return error_set(err, err->code, "%s: %s", length < 0 ? "?" : prefix, err->text);
}
