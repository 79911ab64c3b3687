/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>

#include "core/quantity.h"

/*
 * Quantities against schoolbook arithmetic: the number is a row of decimal digits, and multiplying and dividing
 * are done digit by digit, so that no figure is ever too large.
 */

enum { DIGITS = 1024, LONGEST = 64, EXPONENT_MAX = 400 };

struct number {
    unsigned char digit[DIGITS]; /* lowest first */
    unsigned len;
    bool inexact; /* something was cut off behind the point */
};

static void times(struct number *n, unsigned factor)
{
    unsigned carry = 0;
    for (unsigned i = 0; i < n->len || carry > 0; i++) {
        MUST(i < DIGITS);
        carry += (i < n->len ? n->digit[i] : 0) * factor;
        n->digit[i] = (unsigned char)(carry % 10);
        carry /= 10;
        if (i >= n->len)
            n->len = i + 1;
    }
}

static void cut_lowest(struct number *n)
{
    if (n->len == 0)
        return;
    n->inexact |= n->digit[0] != 0;
    memmove(n->digit, n->digit + 1, --n->len);
}

/* Away from zero. False when it is past `limit`. */
static bool value_of(const struct number *n, uint64_t limit, uint64_t *ret)
{
    unsigned __int128 value = 0;
    for (unsigned i = n->len; i-- > 0;) {
        value = value * 10 + n->digit[i];
        if (value > limit)
            return false;
    }
    value += n->inexact;
    *ret = (uint64_t)value;
    return value <= limit;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Powers of ten and of 1024 that a suffix means; false when there is no such suffix. */
static bool suffix(const char *text, int *ret_tens, unsigned *ret_kibi)
{
    static const char decimal[][2] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    static const char binary[][3] = {"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    *ret_tens = 0;
    *ret_kibi = 0;
    for (int i = 0; i < 10; i++) {
        if (strcmp(text, decimal[i]) == 0) {
            *ret_tens = (i - 3) * 3;
            return true;
        }
    }
    for (unsigned i = 0; i < 6; i++) {
        if (strcmp(text, binary[i]) == 0) {
            *ret_kibi = i + 1;
            return true;
        }
    }
    if (*text != 'e' && *text != 'E')
        return false;
    bool negative = *++text == '-';
    text += negative || *text == '+';
    if (!is_digit(*text))
        return false;
    for (; is_digit(*text); text++)
        *ret_tens = *ret_tens > EXPONENT_MAX ? *ret_tens : *ret_tens * 10 + (*text - '0');
    *ret_tens = negative ? -*ret_tens : *ret_tens;
    return *text == '\0';
}

/* 0, -EINVAL or -ERANGE, or 1 for an exponent too large for this oracle. */
static int naive_parse(const char *text, int64_t *ret)
{
    struct number n = {.len = 0};
    char digits[LONGEST + 1];
    unsigned count = 0, behind = 0, kibi;
    bool point = false, negative = *text == '-';
    int tens;
    text += negative || *text == '+';
    for (; is_digit(*text) || (*text == '.' && !point); text++) {
        point |= *text == '.';
        if (*text == '.')
            continue;
        digits[count++] = *text;
        behind += point;
    }
    if (count == 0 || !suffix(text, &tens, &kibi))
        return -EINVAL;
    if (tens > EXPONENT_MAX || tens < -EXPONENT_MAX)
        return 1;
    for (n.len = 0; n.len < count; n.len++)
        n.digit[n.len] = (unsigned char)(digits[count - 1 - n.len] - '0');
    for (; kibi > 0; kibi--)
        times(&n, 1024);
    int shift = tens - (int)behind;
    for (; shift > 0; shift--)
        times(&n, 10);
    for (; shift < 0; shift++)
        cut_lowest(&n);
    uint64_t value, limit = (uint64_t)INT64_MAX + negative;
    if (!value_of(&n, limit, &value))
        return -ERANGE;
    *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
    return 0;
}

static void must_read_back(int64_t value)
{
    char text[QUANTITY_TEXT_MAX];
    int64_t again;
    struct error err;
    MUST(quantity_format_binary(value, text) == strlen(text));
    MUST(quantity_parse(str_from(text), &again, &err) == 0 && again == value);
    MUST(quantity_format_decimal(value, text) == strlen(text));
    MUST(quantity_parse(str_from(text), &again, &err) == 0 && again == value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[LONGEST + 1];
    int64_t value = 0, expected = 0;
    struct error err = {0};
    int rc = quantity_parse((struct str){(const char *)data, size}, &value, &err);
    MUST(rc == 0 || ((rc == -EINVAL || rc == -ERANGE) && err.text[0] != '\0'));
    if (rc == 0)
        must_read_back(value);
    if (size > LONGEST || (size > 0 && memchr(data, '\0', size) != NULL))
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    int naive = naive_parse(text, &expected);
    if (naive <= 0)
        MUST(naive == rc && (rc < 0 || value == expected));
    return 0;
}
