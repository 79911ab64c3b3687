/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_READER_INDEX_H
#define CODEC_READER_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "codec/reader.h"
#include "core/roster.h"

/*
 * Where the keys and values of a text stand. Reading walks an object level by level and would step over
 * its parts at each; reader_check() has seen where they end already. Between begin and end it notes
 * those of the first text that it accepts on this thread: walking then is going from one to the
 * next, and a part of the text need not be checked again. That text must stay as it is until the
 * end. Nothing else changes: what is not noted, because there is no room or no index, is found as
 * before.
 */
#define READER_INDEX_MAX 2048u

/* A key or value; those of its parts follow it. */
struct reader_token {
    const char *start;
    uint32_t length;
    uint16_t count;      /* it and its parts */
    bool parts_missing;  /* not all of them are noted */
    bool plain;          /* a string without escapes; some that are, are not called so */
};

/* The strings of an array that have no escapes and no bytes but plain ASCII, as nearly every name:
 * they are found while they are checked, and need not be looked for again. */
struct reader_texts {
    struct arena *mem; /* where they are noted */
    uint32_t most;     /* a longer array is not noted */
    const struct roster *roster; /* names that may be among them, or NULL */
    const char *array; /* whose strings these are, all of them; NULL: none is noted */
    struct str *of;    /* slices of the text */
    uint32_t *numbers, *hashes; /* of each, see struct roster_notes */
    uint32_t count, room;
    uint32_t pieces, strangers;
    uint32_t place; /* in the roster, where the next one is expected */
    size_t longest; /* bytes, or more */
    bool no_memory; /* for one of those arrays, which was not noted then */
};

struct reader_index {
    struct reader_index *outer; /* that goes on after the end of this one */
    struct reader_texts *texts; /* of the last array that is a member of the text's own object; NULL:
                                   they are not wanted */
    const char *text;           /* NULL: nothing is noted yet */
    size_t length;
    uint32_t nesting; /* that was allowed */
    uint32_t count;
    struct reader_token of[READER_INDEX_MAX]; /* as they stand in the text */
};

/* Begin to note, also `texts` (with mem and most set; NULL: no texts); inside another one this does
 * nothing, since that goes on. */
void reader_index_begin(struct reader_index *index, struct reader_texts *texts);

/* Begin to note in any case, for a text that is not a part of another. The one before goes on after
 * the end; what is asked of its text in between is found without it. */
void reader_index_begin_inner(struct reader_index *index);

/* Forget it. */
void reader_index_end(struct reader_index *index);

/* One that ends with the block it is declared in; reader_index_begin() must follow. */
#define AUTO_INDEX __attribute__((cleanup(reader_index_end))) UNSET struct reader_index

/* For reader_check(): the index if it is to note what is in a text that is checked now, or NULL. */
struct reader_index *reader_index_wanted(struct str text);

/* For reader_check(): an array begins; nothing is noted of the one before. */
static inline void reader_index_texts_begin(struct reader_texts *texts)
{
    texts->array = NULL;
    texts->count = texts->pieces = texts->strangers = texts->place = 0;
    texts->longest = 0;
}

/* Make room for more of them, of which the next is `text` and `left` bytes of text are there; false when
 * there are too many, or memory ends, and the array cannot be noted. */
bool reader_index_more_texts(struct reader_texts *texts, struct str text, size_t left);

/* For reader_check(): one more string of the array, for which there is room. */
static inline void reader_index_text(struct reader_texts *texts, struct str text, uint32_t hash)
{
    uint32_t i = texts->count++;
    texts->of[i] = text;
    texts->numbers[i] = ROSTER_NONE;
    texts->hashes[i] = hash;
    texts->strangers++;
    texts->longest = text.len > texts->longest ? text.len : texts->longest;
}

/* For reader_check(): the piece of the roster that stands at `at`, as much of it as finds room. Returns its
 * bytes, 0: there is none. `left` bytes of text are there. */
size_t reader_index_piece(struct reader_texts *texts, uint32_t place, const char *at, size_t left);

/* For reader_check(): the text was accepted, and `count` tokens are noted; or data NULL, and none is. */
void reader_index_keep(struct reader_index *index, struct str text, uint32_t nesting, uint32_t count);

/* Has this text been accepted already, as a part of another, with this nesting allowed? */
bool reader_index_accepted(struct str text, uint32_t nesting);

/* The array or object that starts at `at`, or NULL if that is not noted. */
const struct reader_token *reader_index_find(const char *at);

/* Behind it, or NULL. */
const char *reader_index_behind(const char *at);

#endif
