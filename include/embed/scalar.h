/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMBED_SCALAR_H
#define EMBED_SCALAR_H

#include <stdbool.h>

#include "base/str.h"
#include "base/strbuf.h"

/*
 * What an unquoted YAML scalar is. The YAML 1.2 core schema, except that an integer with a leading
 * zero is octal as long as its digits allow: kubectl reads defaultMode: 0644 so, and files are
 * written for kubectl. yes, no, on and off are strings.
 */
enum scalar {
    SCALAR_STRING,
    SCALAR_NULL,
    SCALAR_BOOL,
    SCALAR_NUMBER,
    SCALAR_NO_JSON, /* a number that JSON cannot say: infinite, not a number, or past 64 bits in hex
                       or octal */
};

/* What the text of a plain scalar is. */
enum scalar scalar_kind(struct str text);

/* Append a plain scalar as JSON. Decimal digits are kept as they are written, however many. Not for
 * SCALAR_NO_JSON. */
void scalar_write_json(struct str text, struct strbuf *out);

/* May the string be written without quotes and still be a string to every YAML reader, old ones
 * included? Cautious: a string that only might be misread is not plain. */
bool scalar_is_plain(struct str text);

#endif
