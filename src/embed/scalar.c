/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/scalar.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>

static bool is_one_of(struct str text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (str_is(text, *words))
            return true;
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- numbers ---- */

/* The parts of a number's text. */
struct number {
    bool negative;
    unsigned base;       /* 8, 10 or 16 */
    struct str whole;    /* digits in front of the point, without leading zeros; may be empty */
    struct str fraction; /* digits behind it */
    struct str exponent; /* with its sign, without the e */
};

static struct str take_digits(struct str text, size_t *at)
{
    size_t start = *at;

    while (*at < text.len && is_digit(text.data[*at]))
        (*at)++;
    return (struct str){text.data + start, *at - start};
}

static bool digits_fit(struct str digits, unsigned base)
{
    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.data[i];
        bool hex = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');

        if (base == 8 ? c < '0' || c > '7' : !is_digit(c) && !hex)
            return false;
    }
    return digits.len > 0;
}

static struct str without_leading_zeros(struct str digits)
{
    while (digits.len > 0 && digits.data[0] == '0')
        digits = (struct str){digits.data + 1, digits.len - 1};
    return digits;
}

/* 0x1F and 0o17 */
static bool split_prefixed(struct str text, struct number *ret)
{
    struct str digits = {text.data + 2, text.len - 2};
    unsigned base = text.data[1] == 'x' ? 16 : text.data[1] == 'o' ? 8 : 0;

    if (text.data[0] != '0' || base == 0 || !digits_fit(digits, base))
        return false;
    *ret = (struct number){.base = base, .whole = without_leading_zeros(digits)};
    return true;
}

static bool split_number(struct str text, struct number *ret)
{
    struct number number = {.base = 10};
    struct str whole;
    size_t at = 0;

    if (text.len > 2 && split_prefixed(text, ret))
        return true;
    if (at < text.len && (text.data[at] == '-' || text.data[at] == '+'))
        number.negative = text.data[at++] == '-';
    whole = take_digits(text, &at);
    number.whole = without_leading_zeros(whole);
    if (at == text.len) {
        if (whole.len > 1 && whole.data[0] == '0' && digits_fit(whole, 8))
            number.base = 8;
        *ret = number;
        return whole.len > 0;
    }
    if (text.data[at] == '.') {
        at++;
        number.fraction = take_digits(text, &at);
    }
    if (whole.len + number.fraction.len == 0)
        return false;
    if (at < text.len && (text.data[at] == 'e' || text.data[at] == 'E')) {
        size_t start = ++at;

        if (at < text.len && (text.data[at] == '-' || text.data[at] == '+'))
            at++;
        if (take_digits(text, &at).len == 0)
            return false;
        number.exponent = (struct str){text.data + start, at - start};
    }
    *ret = number;
    return at == text.len;
}

static unsigned digit_value(char c)
{
    return (unsigned)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* The value of hexadecimal or octal digits; false when it takes more than 64 bits. */
static bool to_binary(struct str digits, unsigned base, uint64_t *ret)
{
    uint64_t value = 0;

    for (size_t i = 0; i < digits.len; i++) {
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit_value(digits.data[i]), &value))
            return false;
    }
    *ret = value;
    return true;
}

static void write_number(const struct number *number, struct strbuf *out)
{
    uint64_t value = 0;

    if (number->negative)
        strbuf_putc(out, '-');
    if (number->base != 10) {
        to_binary(number->whole, number->base, &value);
        strbuf_printf(out, "%" PRIu64, value);
        return;
    }
    if (number->whole.len > 0)
        strbuf_add_str(out, number->whole);
    else
        strbuf_putc(out, '0');
    if (number->fraction.len > 0) {
        strbuf_putc(out, '.');
        strbuf_add_str(out, number->fraction);
    }
    if (number->exponent.len > 0) {
        strbuf_putc(out, 'e');
        strbuf_add_str(out, number->exponent);
    }
}

/* ---- kinds ---- */

static bool is_infinite_or_nan(struct str text)
{
    static const char *const words[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", NULL};

    if (text.len > 0 && (text.data[0] == '-' || text.data[0] == '+'))
        text = (struct str){text.data + 1, text.len - 1};
    return is_one_of(text, words);
}

enum scalar scalar_kind(struct str text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE", NULL};
    struct number number;
    uint64_t value;

    if (is_one_of(text, nulls))
        return SCALAR_NULL;
    if (is_one_of(text, bools))
        return SCALAR_BOOL;
    if (is_infinite_or_nan(text))
        return SCALAR_NO_JSON;
    if (!split_number(text, &number))
        return SCALAR_STRING;
    if (number.base != 10 && !to_binary(number.whole, number.base, &value))
        return SCALAR_NO_JSON;
    return SCALAR_NUMBER;
}

void scalar_write_json(struct str text, struct strbuf *out)
{
    struct number number;

    switch (scalar_kind(text)) {
    case SCALAR_STRING:
        strbuf_json_string(out, text);
        break;
    case SCALAR_NULL:
        strbuf_puts(out, "null");
        break;
    case SCALAR_BOOL:
        strbuf_puts(out, text.data[0] == 't' || text.data[0] == 'T' ? "true" : "false");
        break;
    case SCALAR_NUMBER:
        if (split_number(text, &number))
            write_number(&number, out);
        break;
    case SCALAR_NO_JSON:
        assert(false);
    }
}

/* ---- writing ---- */

/* Numbers, times, dates, base 60 and version-like text, to any reader: only these characters. */
static bool looks_numeric(struct str text)
{
    if (!is_digit(text.data[0]) && text.data[0] != '.')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (!is_digit(c) && (c == '\0' || strchr("abcdefABCDEFxXoObBtTzZ_.:+- ", c) == NULL))
            return false;
    }
    return true;
}

bool scalar_is_plain(struct str text)
{
    /* Booleans of YAML 1.1, beside those of the core schema. */
    static const char *const old[] = {"y",  "Y",  "yes", "Yes", "YES", "n",   "N",   "no", "No",
                                      "NO", "on", "On",  "ON",  "off", "Off", "OFF", NULL};

    if (text.len == 0 || (!is_letter(text.data[0]) && !is_digit(text.data[0]) &&
                          text.data[0] != '/' && text.data[0] != '_'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        char next = i + 1 < text.len ? text.data[i + 1] : ' ';

        if (!is_letter(c) && !is_digit(c) && (c == '\0' || strchr("/_.-+=@:,()%;$ ", c) == NULL))
            return false;
        if ((c == ':' || c == ' ') && next == ' ')
            return false; /* "key: value", and blanks that would be lost */
    }
    return !looks_numeric(text) && !is_one_of(text, old) && scalar_kind(text) == SCALAR_STRING;
}
