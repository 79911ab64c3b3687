/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

/*
 * An error is a value: a negative errno-like code and one sentence for people.
 * Fallible functions return 0 or a count on success and a negative code on failure; they fill
 * `struct error` only on failure and write their `ret_*` outputs only on success.
 * Ignoring an error leaks nothing. "Does not fit" is a verdict (core/reason.h), not an error.
 */

#define ERROR_TEXT_MAX 512

struct error {
    int code; /* negative errno value; 0 in a zeroed, unused error */
    char text[ERROR_TEXT_MAX];
};

/* Fill `err` (may be NULL) with `code` (negative) and a printf sentence, cut at ERROR_TEXT_MAX - 1
 * bytes. Returns `code`, so that a failing function ends in one statement. */
int error_set(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Put a printf prefix and ": " before the sentence already in `err` (may be NULL), keeping its code.
 * Returns the code (or -EIO when err is NULL). */
int error_wrap(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
