/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/csv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/parse.h"

int csv_error(const struct csv *csv, struct error *err, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(err, -EINVAL, "%s:%u: %s", csv->path, csv->line, text);
}

/* Take the text up to `end` or to the end of all; the end itself is dropped. */
static struct str take_until(struct str *text, char end)
{
    const char *at = text->len > 0 ? memchr(text->data, end, text->len) : NULL;
    struct str taken = {text->data, at != NULL ? (size_t)(at - text->data) : text->len};
    size_t used = taken.len + (at != NULL);
    text->data += used;
    text->len -= used;
    return taken;
}

/* The next line that is not empty; false at the end. */
static bool take_line(struct csv *csv, struct str *ret)
{
    while (csv->rest.len > 0) {
        *ret = take_until(&csv->rest, '\n');
        csv->line++;
        if (ret->len > 0 && ret->data[ret->len - 1] == '\r')
            ret->len--;
        if (ret->len > 0)
            return true;
    }
    return false;
}

/* Cut a line into fields; returns how many there are, at most CSV_FIELDS_MAX are kept. */
static uint32_t split(struct str line, struct str fields[CSV_FIELDS_MAX])
{
    uint32_t count = 0;
    for (bool more = true; more; count++) {
        more = memchr(line.data, ',', line.len) != NULL;
        struct str field = take_until(&line, ',');
        if (count < CSV_FIELDS_MAX)
            fields[count] = field;
    }
    return count;
}

int csv_init(struct csv *csv, const char *path, struct str text, struct error *err)
{
    struct str line;
    *csv = (struct csv){.path = path, .rest = text};
    if (!take_line(csv, &line)) {
        csv->line = 1;
        return csv_error(csv, err, "no header line");
    }
    csv->columns = split(line, csv->names);
    if (csv->columns > CSV_FIELDS_MAX)
        return csv_error(csv, err, "more than %d columns", CSV_FIELDS_MAX);
    return 0;
}

int csv_column(const struct csv *csv, const char *name, struct error *err)
{
    for (uint32_t i = 0; i < csv->columns; i++)
        if (str_is(csv->names[i], name))
            return (int)i;
    return csv_error(csv, err, "no column \"%s\"", name);
}

int csv_next(struct csv *csv, struct error *err)
{
    struct str line;
    if (!take_line(csv, &line))
        return 0;
    uint32_t count = split(line, csv->fields);
    if (count != csv->columns)
        return csv_error(csv, err, "%u fields, the header has %u", count, csv->columns);
    return 1;
}

int csv_number(const struct csv *csv, int column, int64_t min, int64_t max, int64_t *ret,
               struct error *err)
{
    int64_t number;
    struct str field = csv->fields[column];
    if (!parse_int64(field, &number) || number < min || number > max)
        return csv_error(csv, err, "%.*s is \"%.*s\", want a number of %lld..%lld",
                         STR_ARG(csv->names[column]), (int)(field.len < 40 ? field.len : 40),
                         field.data, (long long)min, (long long)max);
    *ret = number;
    return 0;
}
