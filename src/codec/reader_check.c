/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/reader.h"

#include <assert.h>
#include <errno.h>

#include "base/word.h"
#include "codec/reader_index.h"

/* What comes next; before each of these the checker could stop, and go on with more text. */
enum check_next {
    CHECK_VALUE,
    CHECK_FIRST_ITEM, /* or ']' */
    CHECK_FIRST_KEY,  /* or '}' */
    CHECK_KEY,
    CHECK_BEHIND, /* a value: ',' or the closing bracket */
    CHECK_END,
};

/* As many tokens find room before somebody looks whether there is any. */
#define SPARE 2

/* An array or object that is not closed yet. */
struct opened {
    struct reader_token *token;
    char close; /* its closing bracket */
};

/* The grammar of RFC 8259. Each function goes on at `at` and returns behind what it took, or NULL. */
struct checker {
    const char *start, *end;
    enum check_next next;
    uint32_t nesting, depth;
    struct opened *opened; /* `depth` of them, the innermost last */
    /* Where the next token is noted, and from where on there is no room. */
    struct reader_token *free, *limit;
    struct reader_token *noted; /* behind the last one that found room; NULL: all have */
    struct reader_token unwanted[1 + SPARE]; /* where the others are put */
    struct reader_texts *texts; /* notes the strings of arrays at depth 2, or NULL */
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

/* ---- what is noted ---- */

_Static_assert(READER_INDEX_MAX <= UINT16_MAX, "a token counts all its parts");

static inline void fill_token(struct reader_token *token, const char *start, const char *behind,
                              bool plain)
{
    token->start = start;
    token->length = (uint32_t)(behind - start);
    token->count = 1;
    token->parts_missing = false;
    token->plain = plain;
}

/* There is room for SPARE tokens at the result, wanted or not. */
static inline struct reader_token *token_room(struct checker *c, struct reader_token *at)
{
    if (at < c->limit)
        return at;
    if (c->noted == NULL)
        c->noted = at;
    c->limit = c->unwanted + 1;
    return c->unwanted;
}

static void note(struct checker *c, const char *start, const char *behind)
{
    c->free = token_room(c, c->free);
    fill_token(c->free++, start, behind, false);
}

/* The array or object that starts at `at`, with room left in c->opened. */
static void open_container(struct checker *c, const char *at, char close)
{
    c->free = token_room(c, c->free);
    c->opened[c->depth++] = (struct opened){c->free, close};
    note(c, at, at);
}

/* The innermost one ends before `behind`, and its tokens before `free`. */
static inline void close_container(struct checker *c, const char *behind,
                                   const struct reader_token *free)
{
    struct reader_token *token = c->opened[--c->depth].token;
    token->length = (uint32_t)(behind - token->start);
    token->count = (uint16_t)(free - token);
    token->parts_missing |= c->noted != NULL;
}

/* ---- step by step ---- */

/* A string, number or word is complete, or an array or object. */
static const char *have_value(struct checker *c, const char *behind)
{
    c->next = c->depth > 0 ? CHECK_BEHIND : CHECK_END;
    return behind;
}

/* The closing bracket is at `at`. */
static const char *have_container(struct checker *c, const char *at)
{
    close_container(c, at + 1, c->free);
    return have_value(c, at + 1);
}

static const char *check_key(struct checker *c, const char *at)
{
    if (!is_at(c, at, '"'))
        return fail_here(c, at);
    const char *behind = check_string(c, at);
    if (behind == NULL)
        return NULL;
    const char *colon = skip_blanks(c, behind);
    if (!is_at(c, colon, ':'))
        return fail_here(c, colon);
    note(c, at, behind);
    c->next = CHECK_VALUE;
    return colon + 1;
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

/* Note the string at `at` by itself, or the piece of the roster that begins with it. Returns behind it, or
 * NULL if it is something else, or cannot be noted. */
static const char *note_text(const struct checker *c, const char *at)
{
    struct reader_texts *texts = c->texts;
    struct str text;
    size_t left = (size_t)(c->end - at);
    const char *behind = plain_string(c, at, &text);
    if (behind == NULL ||
        (texts->count == texts->room && !reader_index_more_texts(texts, text, left)))
        return NULL;
    uint32_t hash = roster_hash(text);
    uint32_t place = texts->roster != NULL ? roster_find(texts->roster, hash) : ROSTER_NONE;
    size_t piece = place != ROSTER_NONE ? reader_index_piece(texts, place, at, left) : 0;
    if (piece > 0)
        return at + piece;
    reader_index_text(texts, text, hash);
    return behind;
}

/* The array at `at` was opened and its strings are wanted. The first part that is none, or finds no
 * room, ends that. */
static const char *check_texts(struct checker *c, const char *at)
{
    struct reader_texts *texts = c->texts;
    const char *array = at++;
    reader_index_texts_begin(texts);
    c->opened[c->depth - 1].token->parts_missing = true;
    at = skip_blanks(c, at);
    while (!is_at(c, at, ']') || texts->count > 0) {
        size_t piece = reader_index_piece(texts, texts->place, at, (size_t)(c->end - at));
        const char *behind = piece > 0 ? at + piece : note_text(c, at);
        c->next = CHECK_VALUE;
        if (behind == NULL)
            return at;
        at = skip_blanks(c, behind);
        if (!is_at(c, at, ','))
            break;
        at = skip_blanks(c, at + 1);
    }
    if (!is_at(c, at, ']'))
        return fail_here(c, at);
    texts->array = array;
    return have_container(c, at);
}

static const char *check_container(struct checker *c, const char *at, char close)
{
    if (c->depth == c->nesting) {
        c->too_deep = true;
        return fail_here(c, at);
    }
    open_container(c, at, close);
    c->next = close == '}' ? CHECK_FIRST_KEY : CHECK_FIRST_ITEM;
    if (c->texts != NULL && close == ']' && c->depth == 2)
        return check_texts(c, at);
    return at + 1;
}

static const char *check_scalar(struct checker *c, const char *at)
{
    switch (at < c->end ? *at : '\0') {
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

static const char *check_value(struct checker *c, const char *at)
{
    if (is_at(c, at, '{'))
        return check_container(c, at, '}');
    if (is_at(c, at, '['))
        return check_container(c, at, ']');
    const char *behind = check_scalar(c, at);
    if (behind == NULL)
        return NULL;
    note(c, at, behind);
    return have_value(c, behind);
}

static const char *check_behind(struct checker *c, const char *at)
{
    char close = c->opened[c->depth - 1].close;
    if (is_at(c, at, ',')) {
        c->next = close == '}' ? CHECK_KEY : CHECK_VALUE;
        return at + 1;
    }
    return is_at(c, at, close) ? have_container(c, at) : fail_here(c, at);
}

static const char *check_step(struct checker *c, const char *at)
{
    at = skip_blanks(c, at);
    switch (c->next) {
    case CHECK_FIRST_KEY:
    case CHECK_FIRST_ITEM:
        if (is_at(c, at, c->opened[c->depth - 1].close))
            return have_container(c, at);
        return c->next == CHECK_FIRST_KEY ? check_key(c, at) : check_value(c, at);
    case CHECK_KEY:
        return check_key(c, at);
    case CHECK_VALUE:
        return check_value(c, at);
    case CHECK_BEHIND:
        return check_behind(c, at);
    case CHECK_END:
        break;
    }
    return at;
}

/* ---- what nearly all of a text is ---- */

/* A round of check_usual() looks no further ahead, but for what looks at the end itself; it notes no
 * more than SPARE tokens. */
#define USUAL_BYTES (4 * LANE_BYTES + 8)

/* Where the rounds are: in registers, not in the checker. */
struct usual {
    const char *at;
    struct reader_token *free;
    enum check_next next;
    char close; /* of the innermost array or object */
};

/* The closing quote of a plain string, of which the text begins at `at`; or what is in its way, or
 * where it was not found. */
static inline const char *near_quote(const char *at)
{
    uint32_t stops = lane_special(lane_load(at));
    if (stops == 0) {
        at += LANE_BYTES;
        stops = lane_special(lane_load(at));
        if (stops == 0)
            return at + LANE_BYTES - 1;
    }
    return at + (unsigned)__builtin_ctz(stops);
}

static inline void usual_note(struct usual *u, const char *behind, bool plain)
{
    fill_token(u->free++, u->at, behind, plain);
}

/* A key is at u->at. False: it is none that is plain, with the colon next to it. */
static inline bool usual_key(struct usual *u)
{
    const char *quote = near_quote(u->at + 1);
    if (*u->at != '"' || quote[0] != '"' || quote[1] != ':')
        return false;
    usual_note(u, quote + 1, true);
    u->at = quote + 2;
    return true;
}

/* The same with a closer look at the key. */
static bool unusual_key(struct checker *c, struct usual *u)
{
    const char *behind = *u->at == '"' ? check_string_from(c, u->at + 1) : NULL;
    if (behind == NULL || !is_at(c, behind, ':'))
        return false;
    usual_note(u, behind, false);
    u->at = behind + 1;
    return true;
}

/* A value that is no array or object is at u->at. False: it is bad. */
static inline bool usual_scalar(struct checker *c, struct usual *u)
{
    if (*u->at == '"') {
        const char *quote = near_quote(u->at + 1);
        if (*quote == '"') {
            usual_note(u, quote + 1, true);
            u->at = quote + 1;
            return true;
        }
    }
    const char *behind = check_scalar(c, u->at);
    if (behind == NULL)
        return false;
    usual_note(u, behind, false);
    u->at = behind;
    return true;
}

static inline void usual_open(struct checker *c, struct usual *u, bool object)
{
    c->opened[c->depth].token = u->free;
    c->opened[c->depth++].close = u->close = object ? '}' : ']';
    usual_note(u, u->at, false);
    u->at++;
    if (object)
        u->next = *u->at == '"' ? CHECK_KEY : CHECK_FIRST_KEY;
    else
        u->next = *u->at > ' ' && *u->at != ']' ? CHECK_VALUE : CHECK_FIRST_ITEM;
}

/* An array or object is at u->at. False: a closer look is needed. */
static inline bool usual_container(struct checker *c, struct usual *u)
{
    bool object = *u->at == '{';
    if (c->depth == c->nesting || (!object && c->texts != NULL))
        return false;
    if (u->at[1] != (object ? '}' : ']')) {
        usual_open(c, u, object);
        return true;
    }
    usual_note(u, u->at + 2, false);
    u->at += 2;
    u->next = CHECK_BEHIND;
    return true;
}

/* The innermost array or object closes at u->at. False: it was the outermost. */
static inline bool usual_close(struct checker *c, struct usual *u)
{
    close_container(c, ++u->at, u->free);
    if (c->depth == 0)
        return false;
    u->close = c->opened[c->depth - 1].close;
    return true;
}

/* One value, with what is before it. False: the next step needs a closer look, or is bad. */
static inline bool usual_round(struct checker *c, struct usual *u)
{
    if (u->next == CHECK_BEHIND) {
        while (*u->at == u->close)
            if (c->end - u->at <= USUAL_BYTES || !usual_close(c, u))
                return false;
        if (*u->at != ',')
            return false;
        u->at++;
        u->next = u->close == '}' ? CHECK_KEY : CHECK_VALUE;
    }
    if (u->next == CHECK_KEY) {
        bool usual = usual_key(u);
        if (!usual && !unusual_key(c, u))
            return false;
        u->next = CHECK_VALUE;
        if (!usual) /* the end may be near */
            return true;
    }
    if (u->next != CHECK_VALUE || *u->at <= ' ')
        return false;
    if ((*u->at & ~0x20) == '[') /* or '{' */
        return usual_container(c, u);
    if (!usual_scalar(c, u))
        return false;
    u->next = CHECK_BEHIND;
    return true;
}

/* Steps of the kind that nearly all are: no blanks, keys that are not long. Returns where another one
 * is needed, which may find that there is something wrong, or the text nears its end. */
static const char *check_usual(struct checker *c, const char *at)
{
    struct usual u = {at, c->free, c->next, c->opened[c->depth - 1].close};
    bool usual = true;
    while (usual && c->end - u.at > USUAL_BYTES) {
        u.free = token_room(c, u.free);
        usual = usual_round(c, &u);
    }
    c->free = u.free;
    c->next = c->depth > 0 ? u.next : CHECK_END;
    return u.at;
}

/* ---- all of it ---- */

/* A text that is no part of one that was accepted. */
static int check_text(struct checker *c, struct str *ret_value, struct error *err)
{
    const char *value = skip_blanks(c, c->start), *at = value;
    if (value == c->end)
        return reader_bad(err, "empty");

    while (at != NULL && c->next != CHECK_END) {
        at = check_step(c, at);
        if (at != NULL && c->depth > 0)
            at = check_usual(c, at);
    }
    if (c->too_deep)
        return error_set(err, -E2BIG, ": nesting deeper than %u", c->nesting);
    if (at == NULL)
        return error_set(err, -EINVAL, ": not valid JSON, %s at byte %zu", c->problem,
                         (size_t)(c->problem_at - c->start));
    const char *rest = skip_blanks(c, at);
    if (rest < c->end)
        return error_set(err, -EINVAL, ": not valid JSON, more text after the value at byte %zu",
                         (size_t)(rest - c->start));
    *ret_value = (struct str){value, (size_t)(at - value)};
    return 0;
}

int reader_check(struct str text, uint32_t nesting, struct str *ret_value, struct error *err)
{
    if (reader_index_accepted(text, nesting)) {
        *ret_value = text;
        return 0;
    }
    assert(nesting <= READER_NESTING_MAX);
    UNSET struct opened opened[READER_NESTING_MAX];
    const char *start = text.data != NULL ? text.data : "";
    struct reader_index *index = reader_index_wanted(text);
    struct checker c = {.start = start,
                        .end = start + text.len,
                        .next = CHECK_VALUE,
                        .nesting = nesting,
                        .opened = opened,
                        .texts = index != NULL ? index->texts : NULL};
    c.free = index != NULL ? index->of : c.unwanted;
    c.limit = index != NULL ? index->of + READER_INDEX_MAX - SPARE : c.unwanted + 1;
    int rc = check_text(&c, ret_value, err);
    if (index != NULL)
        reader_index_keep(index, rc == 0 ? text : (struct str){NULL, 0}, nesting,
                          (uint32_t)((c.noted != NULL ? c.noted : c.free) - index->of));
    return rc;
}
