/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CSV_H
#define SIM_CSV_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/*
 * Comma-separated lines with a header line, no quotes: what the traces are. Columns are found by
 * name. Errors name file and line.
 */
#define CSV_FIELDS_MAX 32

struct csv {
    const char *path; /* for errors */
    struct str rest;  /* what is not read yet; fields lie in the same text */
    uint32_t line;    /* of the fields, from 1 */
    uint32_t columns;
    struct str names[CSV_FIELDS_MAX];
    struct str fields[CSV_FIELDS_MAX];
};

/* Begin with the header line. `text` is borrowed. 0, or -EINVAL. */
int csv_init(struct csv *csv, const char *path, struct str text, struct error *err);

/* The index of a column, -EINVAL if there is none. */
int csv_column(const struct csv *csv, const char *name, struct error *err);

/* Read the next line that is not empty: 1, 0 at the end, or -EINVAL when it has another number of
 * fields than the header. */
int csv_next(struct csv *csv, struct error *err);

/* The number in a column of the line, within min..max; else -EINVAL. */
int csv_number(const struct csv *csv, int column, int64_t min, int64_t max, int64_t *ret,
               struct error *err);

/* Fill err with "PATH:LINE: " and a sentence; returns -EINVAL. */
int csv_error(const struct csv *csv, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
