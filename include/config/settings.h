/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/strbuf.h"

/*
 * A YAML file as a sequence of settings: each key with its whole path and the place where it
 * stands. Knows YAML, not what the keys mean. What a configuration file may not have (anchors,
 * aliases, tags, duplicate keys, a second document, deep nesting) is reported here, the rest is up
 * to the caller:
 *
 *   settings_open(&text, "x.yaml", &problems)
 *   while (settings_next(reader, &setting)) ...
 *   settings_close(reader)
 */
struct settings;

/* A place in the file, both from 1. */
struct place {
    uint32_t line, column;
};

enum setting_shape { SETTING_SCALAR, SETTING_MAPPING, SETTING_LIST };

/* One "key: value". A mapping's own keys follow as settings of their own; a list's items are given
 * out by settings_item, or passed over. */
struct setting {
    struct str path; /* "server.port"; lives until settings_close */
    enum setting_shape shape;
    struct str value; /* of a scalar; lives until settings_close */
    bool quoted;      /* so that "9876" can be told from 9876; block scalars count as quoted */
    struct place key_at, value_at;
};

/* Begin to read `text` (borrowed until settings_close). Problems are appended to `problems`, each a
 * line "FILE:LINE:COLUMN: sentence". NULL when memory ends. */
struct settings *settings_open(struct str text, const char *file, struct strbuf *problems);

/* The next setting in the file's order; false at the end or where the file stops being readable. */
bool settings_next(struct settings *settings, struct setting *ret);

/* The next item of the list that settings_next returned last; false at its end. Of *ret the path is
 * that of the list. */
bool settings_item(struct settings *settings, struct setting *ret);

/* Pass over what is inside the mapping that settings_next returned last. */
void settings_skip(struct settings *settings);

/* Report a problem at a place. */
void settings_problem(struct settings *settings, struct place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Number of problems so far, reported here or by the caller. */
uint32_t settings_problem_count(const struct settings *settings);

/* The whole file was read: no syntax error or depth ended it early. */
bool settings_complete(const struct settings *settings);

/* Memory ended on the way: what was read is not the whole file. */
bool settings_failed(const struct settings *settings);

/* Free it. NULL is fine. */
void settings_close(struct settings *settings);

#endif
