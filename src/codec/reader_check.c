/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/reader.h"

#include <errno.h>

#include "base/word.h"
#include "codec/reader_index.h"

/* A recursive descent over the grammar of RFC 8259; its depth is bounded by depth_left. Each function
 * goes on at `at` and returns behind what it took, or NULL. */
struct checker {
    const char *start, *end;
    uint32_t depth_left;
    struct reader_index *index; /* notes the ends of arrays and objects, or NULL */
    struct reader_texts *texts; /* notes the strings of arrays at texts_depth, or NULL */
    uint32_t texts_depth;       /* as depth_left inside them */
    const char *problem;        /* what is wrong, and where, once something is */
    const char *problem_at;
    bool too_deep;
};

static const char *fail(struct checker *c, const char *at, const char *problem)
{
    c->problem = problem;
    c->problem_at = at;
    return NULL;
}

static const char *fail_here(struct checker *c, const char *at)
{
    return fail(c, at, at == c->end ? "unexpected end" : "unexpected character");
}

static inline const char *skip_blanks(const struct checker *c, const char *at)
{
    while (at < c->end && *at <= ' ' && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

static inline bool is_at(const struct checker *c, const char *at, char wanted)
{
    return at < c->end && *at == wanted;
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

/* Behind a backslash. */
static const char *check_escape(struct checker *c, const char *at)
{
    if (at == c->end)
        return fail_here(c, at);
    switch (*at) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return at + 1;
    case 'u':
        break;
    default:
        return fail(c, at, "bad escape");
    }
    at++;
    for (int i = 0; i < 4; i++, at++) {
        if (at == c->end || !is_hex(*at))
            return fail(c, at, "bad escape");
    }
    return at;
}

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
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

/* A byte of a string that needs a closer look. */
static const char *check_special(struct checker *c, const char *at)
{
    if ((unsigned char)*at < 0x20)
        return fail(c, at, "control character in a string");
    if (*at == '\\')
        return check_escape(c, at + 1);
    size_t length = reader_utf8_length(at, c->end);
    return length > 0 ? at + length : fail(c, at, "bad UTF-8");
}

/* From anywhere between the quotes of a string. */
static const char *check_string_from(struct checker *c, const char *at)
{
    while ((at = skip_plain(at, c->end)) < c->end) {
        if (*at == '"')
            return at + 1;
        at = check_special(c, at);
        if (at == NULL)
            return NULL;
    }
    return fail_here(c, at);
}

/* Most strings are plain and short. */
static inline const char *check_string(struct checker *c, const char *at)
{
    at++;
    if (c->end - at >= LANE_BYTES) {
        uint32_t stops = lane_special(lane_load(at));
        at += stops != 0 ? __builtin_ctz(stops) : LANE_BYTES;
        if (stops != 0 && *at == '"')
            return at + 1;
    }
    return check_string_from(c, at);
}

/* At least one. */
static const char *check_digits(struct checker *c, const char *at)
{
    const char *start = at;
    while (at < c->end && *at >= '0' && *at <= '9')
        at++;
    return at > start ? at : fail_here(c, at);
}

static const char *check_number(struct checker *c, const char *at)
{
    at += is_at(c, at, '-');
    at = is_at(c, at, '0') ? at + 1 : check_digits(c, at);
    if (at != NULL && is_at(c, at, '.'))
        at = check_digits(c, at + 1);
    if (at != NULL && (is_at(c, at, 'e') || is_at(c, at, 'E'))) {
        at++;
        at += is_at(c, at, '+') || is_at(c, at, '-');
        at = check_digits(c, at);
    }
    return at;
}

static const char *check_word(struct checker *c, const char *at, struct str word)
{
    for (size_t i = 0; i < word.len; i++, at++)
        if (!is_at(c, at, word.data[i]))
            return fail_here(c, at);
    return at;
}

static const char *check_value(struct checker *c, const char *at);

static const char *check_container(struct checker *c, const char *at, char close);

/* From a key to behind the colon. Most keys are plain and short, with the colon next to them. */
static inline const char *check_key(struct checker *c, const char *at)
{
    if (c->end - at > LANE_BYTES + 2 && *at == '"') {
        uint32_t stops = lane_special(lane_load(at + 1));
        const char *stop = at + 1 + (stops != 0 ? __builtin_ctz(stops) : 0);
        if (stops != 0 && stop[0] == '"' && stop[1] == ':')
            return stop + 2;
    }
    if (!is_at(c, at, '"'))
        return fail_here(c, at);
    at = check_string(c, at);
    if (at == NULL)
        return NULL;
    at = skip_blanks(c, at);
    return is_at(c, at, ':') ? at + 1 : fail_here(c, at);
}

/* check_value() for what most values are. */
static inline const char *check_usual_value(struct checker *c, const char *at)
{
    if (is_at(c, at, '"'))
        return check_string(c, at);
    if (is_at(c, at, '{')) {
        if (is_at(c, at + 1, '}') && c->depth_left > 0)
            return at + 2;
        return check_container(c, at, '}');
    }
    return check_value(c, at);
}

/* From behind a part of an array or object to the next one, or behind the closing bracket. */
static inline const char *check_behind(struct checker *c, const char *at, char close, bool *ret_more)
{
    *ret_more = true;
    if (c->end - at >= 2 && *at == ',' && at[1] > ' ')
        return at + 1;
    at = skip_blanks(c, at);
    if (is_at(c, at, ','))
        return skip_blanks(c, at + 1);
    *ret_more = false;
    return is_at(c, at, close) ? at + 1 : fail_here(c, at);
}

/* From the start of a member to behind the end of its object. */
static inline const char *check_members_from(struct checker *c, const char *at)
{
    for (bool more = true; more;) {
        at = check_key(c, at);
        if (at == NULL || (at = check_usual_value(c, at)) == NULL)
            return NULL;
        at = check_behind(c, at, '}', &more);
    }
    return at;
}

/* From the start of an item to behind the end of its array. */
static const char *check_items_from(struct checker *c, const char *at)
{
    for (bool more = true; more;) {
        at = check_usual_value(c, at);
        if (at == NULL)
            return NULL;
        at = check_behind(c, at, ']', &more);
    }
    return at;
}

/* The parts of an array or object and its closing bracket. */
static inline const char *check_parts(struct checker *c, const char *at, char close)
{
    if (is_at(c, at, '"') && close == '}')
        return check_members_from(c, at);
    at = skip_blanks(c, at);
    if (is_at(c, at, close))
        return at + 1;
    return close == '}' ? check_members_from(c, at) : check_items_from(c, at);
}

/* Behind the plain string that starts at `at`, with its text; NULL if it is something else. */
static inline const char *plain_string(const struct checker *c, const char *at, struct str *ret_text)
{
    if (!is_at(c, at, '"'))
        return NULL;
    const char *start = at + 1, *stop = skip_plain(start, c->end);
    while (stop < c->end && is_plain(*stop))
        stop++;
    *ret_text = (struct str){start, (size_t)(stop - start)};
    return is_at(c, stop, '"') ? stop + 1 : NULL;
}

/* Note strings as nearly all names are: plain, of less than two lanes, with a comma next to them. Returns
 * the start of the first part that is none. */
static const char *note_short_texts(const struct checker *c, const char *at)
{
    struct reader_texts *texts = c->texts;
    uint32_t count = texts->count, room = texts->room;
    size_t longest = texts->longest;
    for (; c->end - at > 2 * LANE_BYTES + 2 && *at == '"' && count < room; count++) {
        const char *start = at + 1;
        uint32_t stops = lane_special(lane_load(start));
        size_t length = 0;
        if (stops == 0) {
            stops = lane_special(lane_load(start + LANE_BYTES));
            length = LANE_BYTES;
        }
        if (stops == 0)
            break;
        length += (size_t)__builtin_ctz(stops);
        if (start[length] != '"' || start[length + 1] != ',')
            break;
        texts->of[count] = (struct str){start, length};
        longest = length > longest ? length : longest;
        at = start + length + 2;
    }
    texts->count = count;
    texts->longest = longest;
    return at;
}

/* check_parts() of an array whose strings are wanted. The first part that is none, or finds no room,
 * ends that. */
static const char *check_texts(struct checker *c, const char *at)
{
    struct reader_texts *texts = c->texts;
    const char *array = at - 1;
    reader_index_texts_begin(texts);
    at = skip_blanks(c, at);
    bool more = !is_at(c, at, ']');
    if (!more)
        at++;
    while (more) {
        struct str text;
        at = skip_blanks(c, note_short_texts(c, at));
        const char *behind = plain_string(c, at, &text);
        if (behind == NULL || !reader_index_text(texts, text, (size_t)(c->end - at)))
            return check_items_from(c, at);
        at = check_behind(c, behind, ']', &more);
    }
    texts->array = at != NULL ? array : NULL;
    return at;
}

static const char *check_container(struct checker *c, const char *at, char close)
{
    if (c->depth_left == 0) {
        c->too_deep = true;
        return fail_here(c, at);
    }
    c->depth_left--;
    uint32_t number = 0;
    if (c->index != NULL)
        number = reader_index_open(c->index, (size_t)(at - c->start));
    bool texts = c->texts != NULL && close == ']' && c->depth_left == c->texts_depth;
    at = texts ? check_texts(c, at + 1) : check_parts(c, at + 1, close);
    if (at != NULL && c->index != NULL)
        reader_index_close(c->index, number, (size_t)(at - c->start));
    c->depth_left++;
    return at;
}

static const char *check_value(struct checker *c, const char *at)
{
    at = skip_blanks(c, at);
    switch (at < c->end ? *at : '\0') {
    case '{':
        return check_container(c, at, '}');
    case '[':
        return check_container(c, at, ']');
    case '"':
        return check_string(c, at);
    case 't':
        return check_word(c, at, STR("true"));
    case 'f':
        return check_word(c, at, STR("false"));
    case 'n':
        return check_word(c, at, STR("null"));
    default:
        return check_number(c, at);
    }
}

/* A text that is no part of one that was accepted. */
static int check_text(struct checker *c, uint32_t nesting, struct str *ret_value, struct error *err)
{
    const char *value = skip_blanks(c, c->start);
    if (value == c->end)
        return reader_bad(err, "empty");

    const char *behind = check_value(c, value);
    if (c->too_deep)
        return error_set(err, -E2BIG, ": nesting deeper than %u", nesting);
    if (behind == NULL)
        return error_set(err, -EINVAL, ": not valid JSON, %s at byte %zu", c->problem,
                         (size_t)(c->problem_at - c->start));
    const char *rest = skip_blanks(c, behind);
    if (rest < c->end)
        return error_set(err, -EINVAL, ": not valid JSON, more text after the value at byte %zu",
                         (size_t)(rest - c->start));
    *ret_value = (struct str){value, (size_t)(behind - value)};
    return 0;
}

int reader_check(struct str text, uint32_t nesting, struct str *ret_value, struct error *err)
{
    if (reader_index_accepted(text, nesting)) {
        *ret_value = text;
        return 0;
    }
    const char *start = text.data != NULL ? text.data : "";
    struct checker c = {.start = start,
                        .end = start + text.len,
                        .depth_left = nesting,
                        .index = reader_index_wanted(text)};
    if (c.index != NULL && c.index->texts != NULL && nesting >= 2) {
        c.texts = c.index->texts;
        c.texts_depth = nesting - 2;
    }
    int rc = check_text(&c, nesting, ret_value, err);
    if (c.index != NULL)
        reader_index_keep(c.index, rc == 0 ? text : (struct str){NULL, 0}, nesting);
    return rc;
}
