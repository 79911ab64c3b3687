/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <stdint.h>

#define SYMBOL_NONE 64u

static uint32_t symbol_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (uint32_t)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (uint32_t)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : SYMBOL_NONE;
}

/* Four symbols under way. */
struct quad {
    uint32_t bits;
    unsigned count, padding;
};

static bool take(struct quad *quad, char c)
{
    uint32_t value = symbol_value(c);
    if (c == '=' && quad->count >= 2) {
        quad->padding++;
        value = 0;
    } else if (value == SYMBOL_NONE || quad->padding > 0) {
        return false;
    }
    quad->bits = quad->bits << 6 | value;
    quad->count++;
    return true;
}

/* False when bits are set that stand for no byte. */
static bool put(const struct quad *quad, struct strbuf *out)
{
    if (quad->bits & ((UINT32_C(1) << 8 * quad->padding) - 1))
        return false;
    for (unsigned i = 0; i < 3 - quad->padding; i++)
        strbuf_putc(out, (char)(quad->bits >> (16 - 8 * i) & 0xff));
    return true;
}

static bool decode(struct str text, struct strbuf *out)
{
    struct quad quad = {0};
    bool ended = false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '\r' || text.data[i] == '\n')
            continue;
        if (ended || !take(&quad, text.data[i]))
            return false;
        if (quad.count < 4)
            continue;
        if (!put(&quad, out))
            return false;
        ended = quad.padding > 0;
        quad = (struct quad){0};
    }
    return quad.count == 0;
}

bool base64_decode(struct str text, struct strbuf *out)
{
    size_t start = out->len;
    if (decode(text, out))
        return true;
    out->len = start;
    if (out->data != NULL)
        out->data[start] = '\0';
    return false;
}
