/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_SKIP_H
#define CODEC_SKIP_H

/*
 * Where things end in text that reader_check() accepted. Nearly all of an object is stepped over,
 * most of it several times, so this is what reading costs. Nothing at or behind `end` is read.
 */

/* Behind the closing quote of the string that starts at `at` (its opening quote). */
const char *skip_string(const char *at, const char *end);

/* Behind the closing bracket of the array or object that starts at `at` (its opening bracket). */
const char *skip_container(const char *at, const char *end);

#endif
