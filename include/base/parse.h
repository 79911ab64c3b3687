/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Strict readers of short texts: the whole slice must match, no blanks, no locale. Each returns true
 * and writes *ret, or returns false and leaves it. */

/* Decimal integer with optional '-', within int64. */
bool parse_int64(struct str text, int64_t *ret);

/* "true" or "false". */
bool parse_bool(struct str text, bool *ret);

/* Duration in Go's notation ("1h30m", "5s", "250ms", "1.5s"; "0" alone is allowed), to milliseconds
 * rounded down; negative or overflowing durations are refused. */
bool parse_duration_ms(struct str text, int64_t *ret);

#endif
