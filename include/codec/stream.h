/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_STREAM_H
#define CODEC_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "codec/skip.h"

/*
 * Answers of list and watch, cut while they arrive: memory for one item, never for the whole. Any
 * split into pieces gives the same result.
 */

/* ---- a list: {"kind":"PodList","metadata":{"resourceVersion":..,"continue":..},"items":[..]} ----
 */

enum list_state {
    LIST_START,     /* the list's own '{' */
    LIST_FIRST_KEY, /* a key or '}' */
    LIST_KEY,
    LIST_COLON,
    LIST_VALUE,
    LIST_MEMBER_END, /* ',' or '}' */
    LIST_FIRST_ITEM, /* an item or ']' */
    LIST_ITEM,
    LIST_ITEM_END, /* ',' or ']' */
    LIST_END,      /* nothing but blanks */
};

enum list_member { LIST_OTHER, LIST_METADATA, LIST_ITEMS };

struct list_cutter {
    struct strbuf piece; /* the part of a key, member or item that came with earlier pieces */
    /* what was read besides the items; valid after list_cutter_end */
    struct strbuf resource_version, next; /* len 0 when absent */
    uint64_t items;
    uint32_t max_item_bytes;
    uint64_t offset; /* bytes before the piece being fed, for error sentences */
    enum list_state state;
    enum list_member member; /* whose value is read */
    bool has_items;
    /* inside a key or value: */
    bool in_value, in_string, escaped, in_container;
    struct skip skip;
};

/* Start; items above `max_item_bytes` are an error. */
void list_cutter_init(struct list_cutter *cutter, uint32_t max_item_bytes);
void list_cutter_done(struct list_cutter *cutter);

/* Feed a piece; `item` is called for each complete item (its JSON text, valid during the call, not
 * yet checked) and may end everything with a negative code. 0, -EINVAL not a list, -E2BIG, -ENOMEM.
 */
int list_cutter_feed(struct list_cutter *cutter, const char *data, size_t len,
                     int (*item)(void *self, struct str json), void *self, struct error *err);

/* No more pieces: 0 when the list was complete, else -EINVAL. */
int list_cutter_end(struct list_cutter *cutter, struct error *err);

/* ---- a watch: one JSON object a line ---- */

struct line_cutter {
    struct strbuf line;
    uint32_t max_line_bytes;
};

/* Start; lines above `max_line_bytes` are an error. */
void line_cutter_init(struct line_cutter *cutter, uint32_t max_line_bytes);
/* Free the bytes. */
void line_cutter_done(struct line_cutter *cutter);

/* Feed a piece; `line` is called for each complete line without its newline, empty ones left out.
 * Results as list_cutter_feed. */
int line_cutter_feed(struct line_cutter *cutter, const char *data, size_t len,
                     int (*line)(void *self, struct str text), void *self, struct error *err);

enum watch_type { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED, WATCH_BOOKMARK, WATCH_ERROR };

struct watch_event {
    enum watch_type type;
    struct str object;           /* its JSON text */
    struct str resource_version; /* object.metadata.resourceVersion; empty if none */
    int status_code;             /* of WATCH_ERROR: object.code, 0 if none */
    struct str status_text;      /* of WATCH_ERROR: reason and message */
};

/* Read one watch line. -EINVAL with a sentence, -E2BIG when nested too deep,
 * -ENOMEM. */
int watch_decode(struct str line, struct arena *mem, struct watch_event *ret, struct error *err);

#endif
