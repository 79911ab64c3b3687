/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_SKIP_H
#define CODEC_SKIP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Where things end in text. Nearly all of an object is stepped over, most of it several times, so
 * this is what reading costs. Nothing at or behind `end` is read.
 */

/* Inside an array or object, between two pieces of it; starts as zero. */
struct skip {
    uint64_t depth;
    uint64_t in_string; /* all bits or none */
    bool escaped;       /* the piece before ended in a backslash that counts */
};

/* Go on to behind the closing bracket of an array or object, whose opening bracket is the first byte
 * of all. NULL: the piece ended before that. Any text will do, and any split of it gives the same
 * result; whether brackets match is found by who reads it. */
const char *skip_on(struct skip *skip, const char *at, const char *end);

/* Behind the closing bracket of the array or object that starts at `at`, in text that reader_check()
 * accepted. */
const char *skip_container(const char *at, const char *end);

/* Behind the closing quote of the string that starts at `at` (its opening quote), likewise. */
const char *skip_string(const char *at, const char *end);

#endif
