/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_READER_INDEX_H
#define CODEC_READER_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/*
 * Where the larger arrays and objects of a text end. Reading walks an object level by level and would
 * step over its parts at each; reader_check() has seen all the ends already. Between begin and end
 * it notes those of the first text that it accepts on this thread, stepping over one of them becomes
 * a look-up, and a part of the text need not be checked again. That text must stay as it is until
 * the end. Nothing else changes: what is not noted, because there is no room or no index, is found
 * as before.
 */
#define READER_INDEX_MAX 512u

/* The strings of an array that have no escapes and no bytes but plain ASCII, as nearly every name:
 * they are found while they are checked, and need not be looked for again. */
struct reader_texts {
    struct arena *mem; /* where they are noted */
    uint32_t most;     /* a longer array is not noted */
    const char *array; /* whose strings these are, all of them; NULL: none is noted */
    struct str *of;    /* slices of the text */
    uint32_t count, room;
    size_t longest; /* bytes */
    bool no_memory; /* for one of those arrays, which was not noted then */
};

struct reader_index {
    struct reader_texts *texts; /* of the last array that is a member of the text's own object; NULL:
                                   they are not wanted */
    const char *text;           /* NULL: nothing is noted yet */
    size_t length;
    uint32_t nesting; /* that was allowed */
    uint32_t count;
    struct {
        uint32_t start, end;
    } of[READER_INDEX_MAX]; /* by start, ascending */
};

/* Begin to note, also `texts` (with mem and most set; NULL: no texts); inside another one this does
 * nothing, since that goes on. */
void reader_index_begin(struct reader_index *index, struct reader_texts *texts);

/* Forget it. */
void reader_index_end(struct reader_index *index);

/* One that ends with the block it is declared in; reader_index_begin() must follow. */
#define AUTO_INDEX __attribute__((cleanup(reader_index_end))) READER_UNSET struct reader_index

/* What is noted is written before it is read: the compiler need not clear all that room first. */
#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define READER_UNSET __attribute__((uninitialized))
#endif
#endif
#ifndef READER_UNSET
#define READER_UNSET
#endif

/* For reader_check(): the index if it is to note the ends in a text that is checked now, or NULL. */
struct reader_index *reader_index_wanted(struct str text);

/* For reader_check(): an array or object opens; and it ends. The number of the first call goes to the
 * second. */
static inline uint32_t reader_index_open(struct reader_index *index, size_t start)
{
    if (index->count == READER_INDEX_MAX)
        return READER_INDEX_MAX;
    index->of[index->count].start = (uint32_t)start;
    return index->count++;
}

/* Short ones are not worth a look-up. */
static inline void reader_index_close(struct reader_index *index, uint32_t number, size_t end)
{
    if (number == READER_INDEX_MAX)
        return;
    index->of[number].end = (uint32_t)end;
    if (number + 1 == index->count && end - index->of[number].start < 64)
        index->count--;
}

/* For reader_check(): an array begins; nothing is noted of the one before. */
static inline void reader_index_texts_begin(struct reader_texts *texts)
{
    texts->array = NULL;
    texts->count = 0;
    texts->longest = 0;
}

/* Make room for more of them, of which the next is `text` and `left` bytes of text are there; false when
 * there are too many, or memory ends. */
bool reader_index_more_texts(struct reader_texts *texts, struct str text, size_t left);

/* For reader_check(): one more string of the array, with `left` bytes of text from there on. False: there
 * is no room, and the array cannot be noted. */
static inline bool reader_index_text(struct reader_texts *texts, struct str text, size_t left)
{
    if (texts->count == texts->room && !reader_index_more_texts(texts, text, left))
        return false;
    texts->of[texts->count++] = text;
    texts->longest = text.len > texts->longest ? text.len : texts->longest;
    return true;
}

/* For reader_check(): the text was accepted, and what was noted holds; or data NULL, and it does not. */
void reader_index_keep(struct reader_index *index, struct str text, uint32_t nesting);

/* Has this text been accepted already, as a part of another, with this nesting allowed? */
bool reader_index_accepted(struct str text, uint32_t nesting);

/* Behind the array or object that starts at `at`, or NULL if that is not noted. */
const char *reader_index_behind(const char *at);

#endif
