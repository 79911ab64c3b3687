/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool parse_int64(struct str text, int64_t *ret)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == text.len)
        return false;

    int64_t value = 0;
    for (; i < text.len; i++) {
        if (!is_digit(text.data[i]))
            return false;
        int digit = text.data[i] - '0';
        /* Built with its sign, because the most negative number has no positive twin. */
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *ret = value;
    return true;
}

bool parse_bool(struct str text, bool *ret)
{
    if (!str_is(text, "true") && !str_is(text, "false"))
        return false;
    *ret = str_is(text, "true");
    return true;
}

static struct str digits_at(struct str text, size_t *at)
{
    size_t start = *at;
    while (*at < text.len && is_digit(text.data[*at]))
        (*at)++;
    return (struct str){text.data + start, *at - start};
}

/* Nanoseconds of the unit that starts at *at, which moves behind it; 0 when there is none. */
static int64_t unit_at(struct str text, size_t *at)
{
    static const struct {
        struct str name;
        int64_t ns;
    } units[] = {
        {STR("ns"), 1},
        {STR("us"), 1000},
        {STR("\xc2\xb5s"), 1000}, /* micro sign */
        {STR("\xce\xbcs"), 1000}, /* Greek mu */
        {STR("ms"), 1000000},
        {STR("s"), 1000000000},
        {STR("m"), 60000000000},
        {STR("h"), 3600000000000},
    };
    size_t start = *at;
    while (*at < text.len && !is_digit(text.data[*at]) && text.data[*at] != '.')
        (*at)++;
    struct str name = {text.data + start, *at - start};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (str_eq(units[i].name, name))
            return units[i].ns;
    return 0;
}

/* One "1.5h" of a duration, in nanoseconds; *at moves behind it. */
static bool duration_part(struct str text, size_t *at, int64_t *ret_ns)
{
    struct str whole = digits_at(text, at);
    struct str fraction = {0};
    if (*at < text.len && text.data[*at] == '.') {
        (*at)++;
        fraction = digits_at(text, at);
    }
    int64_t unit_ns = unit_at(text, at);
    if (whole.len + fraction.len == 0 || unit_ns == 0)
        return false;

    int64_t ns = 0;
    if (whole.len > 0 && (!parse_int64(whole, &ns) || __builtin_mul_overflow(ns, unit_ns, &ns)))
        return false;
    /* From the last digit to the first: every division rounds down, and so does the whole. */
    int64_t fraction_ns = 0;
    for (size_t i = fraction.len; i > 0; i--)
        fraction_ns = (fraction_ns + (fraction.data[i - 1] - '0') * unit_ns) / 10;
    return !__builtin_add_overflow(ns, fraction_ns, ret_ns);
}

bool parse_duration_ms(struct str text, int64_t *ret)
{
    if (str_is(text, "0")) {
        *ret = 0;
        return true;
    }
    if (text.len == 0)
        return false;

    int64_t total_ns = 0;
    size_t at = 0;
    while (at < text.len) {
        int64_t part_ns;
        if (!duration_part(text, &at, &part_ns) ||
            __builtin_add_overflow(total_ns, part_ns, &total_ns))
            return false;
    }
    *ret = total_ns / 1000000;
    return true;
}
