/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/query.h"

#include <stdbool.h>

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void query_escape(struct strbuf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (is_unreserved(text.data[i]))
            strbuf_putc(out, text.data[i]);
        else
            strbuf_printf(out, "%%%02X", (unsigned)(unsigned char)text.data[i]);
    }
}
