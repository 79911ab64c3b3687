/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/reader.h"

#include <errno.h>

#include "base/word.h"

/* A recursive descent over the grammar of RFC 8259; its depth is bounded by depth_left. */
struct checker {
    const char *at;
    const char *end;
    uint32_t depth_left;
    const char *problem; /* what is wrong at `at`, once something is */
    bool too_deep;
};

static bool fail(struct checker *c, const char *problem)
{
    c->problem = problem;
    return false;
}

static bool fail_here(struct checker *c)
{
    return fail(c, c->at == c->end ? "unexpected end" : "unexpected character");
}

static void skip_blanks(struct checker *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool take(struct checker *c, char wanted)
{
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool is_continuation(const char *at)
{
    return ((unsigned char)*at & 0xc0) == 0x80;
}

size_t reader_utf8_length(const char *at, const char *end)
{
    size_t left = (size_t)(end - at);
    unsigned char first = (unsigned char)at[0];
    unsigned char second = left > 1 ? (unsigned char)at[1] : 0;

    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4) /* continuation bytes, overlong C0 and C1, past U+10FFFF */
        return 0;
    if (first < 0xe0)
        return left > 1 && is_continuation(at + 1) ? 2 : 0;

    /* The second byte also rules out overlong forms, surrogates and code points past U+10FFFF. */
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (second < low || second > high)
        return 0;
    size_t length = first < 0xf0 ? 3 : 4;
    if (left < length || !is_continuation(at + 2) || (length == 4 && !is_continuation(at + 3)))
        return 0;
    return length;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool check_escape(struct checker *c)
{
    if (c->at == c->end)
        return fail_here(c);
    if (*c->at != 'u') {
        if (*c->at == '\0' || strchr("\"\\/bfnrt", *c->at) == NULL)
            return fail(c, "bad escape");
        c->at++;
        return true;
    }
    c->at++;
    for (int i = 0; i < 4; i++, c->at++) {
        if (c->at == c->end || !is_hex(*c->at))
            return fail(c, "bad escape");
    }
    return true;
}

/* Over bytes of a string that mean themselves, nearly all of a body: to the first that does not, or
 * near the end. */
static const char *skip_plain(const char *at, const char *end)
{
    while (end - at >= LANE_BYTES) {
        uint32_t stops = lane_special(lane_load(at));
        if (stops != 0)
            return at + __builtin_ctz(stops);
        at += LANE_BYTES;
    }
    return at;
}

static bool check_string(struct checker *c)
{
    if (!take(c, '"'))
        return fail_here(c);
    while ((c->at = skip_plain(c->at, c->end)) < c->end) {
        unsigned char byte = (unsigned char)*c->at;
        if (byte == '"') {
            c->at++;
            return true;
        }
        if (byte < 0x20)
            return fail(c, "control character in a string");
        if (byte == '\\') {
            c->at++;
            if (!check_escape(c))
                return false;
            continue;
        }
        size_t length = reader_utf8_length(c->at, c->end);
        if (length == 0)
            return fail(c, "bad UTF-8");
        c->at += length;
    }
    return fail_here(c);
}

static bool take_digits(struct checker *c)
{
    const char *start = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return c->at > start;
}

static bool check_number(struct checker *c)
{
    take(c, '-');
    if (!take(c, '0') && !take_digits(c))
        return fail_here(c);
    if (take(c, '.') && !take_digits(c))
        return fail_here(c);
    if (take(c, 'e') || take(c, 'E')) {
        if (!take(c, '+'))
            take(c, '-');
        if (!take_digits(c))
            return fail_here(c);
    }
    return true;
}

static bool check_word(struct checker *c, struct str word)
{
    for (size_t i = 0; i < word.len; i++)
        if (!take(c, word.data[i]))
            return fail_here(c);
    return true;
}

static bool check_value(struct checker *c);

static bool check_member(struct checker *c)
{
    skip_blanks(c);
    if (!check_string(c))
        return false;
    skip_blanks(c);
    return take(c, ':') ? check_value(c) : fail_here(c);
}

static bool check_container(struct checker *c, char close, bool (*check_part)(struct checker *c))
{
    if (c->depth_left == 0) {
        c->too_deep = true;
        return fail_here(c);
    }
    c->depth_left--;
    c->at++;
    skip_blanks(c);
    if (!take(c, close)) {
        do {
            if (!check_part(c))
                return false;
            skip_blanks(c);
        } while (take(c, ','));
        if (!take(c, close))
            return fail_here(c);
    }
    c->depth_left++;
    return true;
}

static bool check_value(struct checker *c)
{
    skip_blanks(c);
    switch (c->at < c->end ? *c->at : '\0') {
    case '{':
        return check_container(c, '}', check_member);
    case '[':
        return check_container(c, ']', check_value);
    case '"':
        return check_string(c);
    case 't':
        return check_word(c, STR("true"));
    case 'f':
        return check_word(c, STR("false"));
    case 'n':
        return check_word(c, STR("null"));
    default:
        return check_number(c);
    }
}

int reader_check(struct str text, uint32_t nesting, struct str *ret_value, struct error *err)
{
    const char *start = text.data != NULL ? text.data : "";
    struct checker c = {.at = start, .end = start + text.len, .depth_left = nesting};

    skip_blanks(&c);
    if (c.at == c.end)
        return reader_bad(err, "empty");

    const char *value = c.at;
    bool good = check_value(&c);
    if (c.too_deep)
        return error_set(err, -E2BIG, ": nesting deeper than %u", nesting);
    if (!good)
        return error_set(err, -EINVAL, ": not valid JSON, %s at byte %zu", c.problem,
                         (size_t)(c.at - start));

    const char *value_end = c.at;
    skip_blanks(&c);
    if (c.at < c.end)
        return error_set(err, -EINVAL, ": not valid JSON, more text after the value at byte %zu",
                         (size_t)(c.at - start));
    *ret_value = (struct str){value, (size_t)(value_end - value)};
    return 0;
}
