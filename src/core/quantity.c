/* SPDX-License-Identifier: Apache-2.0 */
#include "core/quantity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/* Longest piece of a refused text that its error quotes. */
#define QUOTE_MAX 40

/* A thousandth is ten to the power of minus this. */
#define MILLI_POWER 3

/* The magnitude of INT64_MIN, the largest there is. */
#define MAGNITUDE_MAX (UINT64_C(1) << 63)

/* A quantity taken apart: the number's digits around the point, times 10^exponent or 2^binary. */
struct parts {
    bool negative;
    struct str whole;
    struct str fraction;
    int64_t exponent;
    unsigned binary;
};

/* A magnitude that is being rounded away from zero. */
struct magnitude {
    uint64_t value;
    bool inexact;
    bool overflow;
};

static const struct {
    const char *text;
    int exponent;
    unsigned binary;
} suffixes[] = {
    {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"k", 3, 0},   {"M", 6, 0},
    {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

static struct str take_digits(struct str *rest)
{
    size_t n = 0;
    while (n < rest->len && rest->data[n] >= '0' && rest->data[n] <= '9')
        n++;
    struct str digits = {rest->data, n};
    *rest = (struct str){n > 0 ? rest->data + n : rest->data, rest->len - n};
    return digits;
}

static bool take_char(struct str *rest, char c)
{
    if (rest->len == 0 || rest->data[0] != c)
        return false;
    rest->data++;
    rest->len--;
    return true;
}

static bool take_sign(struct str *rest)
{
    bool negative = take_char(rest, '-');
    if (!negative)
        take_char(rest, '+');
    return negative;
}

/* e|E sign? digits. A lone "E" is no exponent but the suffix exa. -ERANGE past int32, where
 * Kubernetes lets the exponent wrap around. */
static int parse_exponent(struct str rest, int64_t *ret)
{
    if (!take_char(&rest, 'e') && !take_char(&rest, 'E'))
        return -EINVAL;
    bool negative = take_sign(&rest);
    struct str digits = take_digits(&rest);
    if (digits.len == 0 || rest.len > 0)
        return -EINVAL;

    int64_t value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        value = value * 10 + (digits.data[i] - '0');
        if (value > INT32_MAX)
            return -ERANGE;
    }
    *ret = negative ? -value : value;
    return 0;
}

static int parse_suffix(struct str rest, struct parts *parts)
{
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (str_is(rest, suffixes[i].text)) {
            parts->exponent = suffixes[i].exponent;
            parts->binary = suffixes[i].binary;
            return 0;
        }
    }
    return parse_exponent(rest, &parts->exponent);
}

static int split(struct str text, struct parts *parts)
{
    struct str rest = text;
    parts->negative = take_sign(&rest);
    parts->whole = take_digits(&rest);
    if (take_char(&rest, '.'))
        parts->fraction = take_digits(&rest);
    if (parts->whole.len + parts->fraction.len == 0)
        return -EINVAL;
    return parse_suffix(rest, parts);
}

static void push_digit(struct magnitude *m, unsigned digit)
{
    if (__builtin_mul_overflow(m->value, 10u, &m->value) ||
        __builtin_add_overflow(m->value, digit, &m->value))
        m->overflow = true;
}

static unsigned digit_at(const struct parts *parts, size_t i)
{
    char c =
        i < parts->whole.len ? parts->whole.data[i] : parts->fraction.data[i - parts->whole.len];
    return (unsigned)(c - '0');
}

/* The digits up to the moved decimal point are the value; any digit but 0 after it is rounded up.
 */
static struct magnitude scale_decimal(const struct parts *parts)
{
    struct magnitude m = {0};
    int64_t digits = (int64_t)(parts->whole.len + parts->fraction.len);
    int64_t point = (int64_t)parts->whole.len + parts->exponent;

    for (int64_t i = 0; i < digits; i++) {
        unsigned digit = digit_at(parts, (size_t)i);
        if (i < point)
            push_digit(&m, digit);
        else
            m.inexact |= digit != 0;
    }
    if (m.value > 0) /* else the point may be billions of zeros away */
        for (int64_t i = digits; i < point && !m.overflow; i++)
            push_digit(&m, 0);
    return m;
}

/* whole * 2^binary + fraction * 2^binary. The second term comes digit by digit from the right: with
 * x the product of the digits after it, a digit's product is (digit * 2^binary + x) / 10, and it is
 * an integer only if every step leaves no remainder. 10 * 2^60 fits uint64. */
static struct magnitude scale_binary(const struct parts *parts)
{
    struct magnitude m = {0};
    for (size_t i = 0; i < parts->whole.len; i++)
        push_digit(&m, digit_at(parts, i));
    m.overflow |= m.value > UINT64_MAX >> parts->binary;
    m.value <<= parts->binary;

    uint64_t product = 0;
    for (size_t i = parts->fraction.len; i > 0; i--) {
        uint64_t digit = digit_at(parts, parts->whole.len + i - 1);
        product += digit << parts->binary;
        m.inexact |= product % 10 != 0;
        product /= 10;
    }
    m.overflow |= __builtin_add_overflow(m.value, product, &m.value);
    return m;
}

/* Quote `text` in an error sentence: cut if long, bytes that are not printable ASCII as '?'. */
static int refuse(struct error *err, int code, struct str text, const char *why)
{
    char quote[QUOTE_MAX + 1];
    size_t n = text.len < QUOTE_MAX ? text.len : QUOTE_MAX;
    for (size_t i = 0; i < n; i++)
        quote[i] = text.data[i] >= ' ' && text.data[i] <= '~' ? text.data[i] : '?';
    quote[n] = '\0';
    return error_set(err, code, "quantity \"%s%s\" %s", quote, n < text.len ? "..." : "", why);
}

/* `power`: of ten, by which the value is multiplied before it is rounded. */
static int parse(struct str text, int power, int64_t *ret_value, struct error *err)
{
    struct parts parts = {0};
    int r = split(text, &parts);
    if (r == -EINVAL)
        return refuse(err, r, text, "is not a Kubernetes quantity");
    if (r < 0)
        return refuse(err, r, text, "has an exponent out of range");

    parts.exponent += power;
    struct magnitude m = parts.binary > 0 ? scale_binary(&parts) : scale_decimal(&parts);
    for (int i = 0; parts.binary > 0 && i < power; i++)
        push_digit(&m, 0);
    m.overflow |= __builtin_add_overflow(m.value, (uint64_t)m.inexact, &m.value);
    if (m.overflow || m.value > (parts.negative ? MAGNITUDE_MAX : MAGNITUDE_MAX - 1))
        return refuse(err, -ERANGE, text, "does not fit 64 bits");

    *ret_value = (int64_t)(parts.negative ? -m.value : m.value);
    return 0;
}

int quantity_parse(struct str text, int64_t *ret_value, struct error *err)
{
    return parse(text, 0, ret_value, err);
}

int quantity_parse_milli(struct str text, int64_t *ret_value, struct error *err)
{
    return parse(text, MILLI_POWER, ret_value, err);
}

/* Write `value` in the largest unit of unit^1, unit^2, ... that divides it. */
static size_t format(int64_t value, uint64_t unit, const char *const *names, char *out)
{
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    unsigned power = 0;
    while (magnitude > 0 && magnitude % unit == 0) {
        magnitude /= unit;
        power++;
    }
    int length = snprintf(out, QUANTITY_TEXT_MAX, "%s%" PRIu64 "%s", value < 0 ? "-" : "",
                          magnitude, names[power]);
    return (size_t)length;
}

size_t quantity_format_binary(int64_t value, char out[QUANTITY_TEXT_MAX])
{
    static const char *const names[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    /* Kubernetes writes what is below one Ki in decimal suffixes: 1000 is "1k" in either form. */
    if (value > -1024 && value < 1024)
        return quantity_format_decimal(value, out);
    return format(value, 1024, names, out);
}

size_t quantity_format_decimal(int64_t value, char out[QUANTITY_TEXT_MAX])
{
    static const char *const names[] = {"", "k", "M", "G", "T", "P", "E"};
    return format(value, 1000, names, out);
}
