/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static atomic_int verbosity_now = 2;

static _Thread_local const struct log_field *context;
static _Thread_local unsigned context_count;

/* One line under construction. A pipe takes up to PIPE_BUF bytes in one piece, so lines of several
 * threads never mix; what does not fit is cut, and END_BYTES stay free for its end. */
enum { END_BYTES = 5 /* ..."\n */ };

struct log_line {
    char text[PIPE_BUF];
    size_t len;
    bool cut;
};

void log_set_verbosity(int verbosity)
{
    atomic_store_explicit(&verbosity_now, verbosity, memory_order_relaxed);
}

int log_verbosity(void)
{
    return atomic_load_explicit(&verbosity_now, memory_order_relaxed);
}

void log_set_context(const struct log_field *fields, unsigned count)
{
    context = fields;
    context_count = count;
}

static bool has_room(const struct log_line *line, size_t len)
{
    return !line->cut && line->len + len <= sizeof(line->text) - END_BYTES;
}

/* Append all of it or, when the line is full, nothing from now on. */
static void append(struct log_line *line, const char *text, size_t len)
{
    if (!has_room(line, len)) {
        line->cut = true;
        return;
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void append_text(struct log_line *line, const char *text)
{
    append(line, text, strlen(text));
}

/* Write one byte of a quoted text as Go's strconv does; everything beyond printable ASCII is
 * escaped, so that no terminal or line splitter can be fooled either. */
static void append_escaped(struct log_line *line, unsigned char c)
{
    char text[8];
    int length;
    if (c == '"' || c == '\\')
        length = snprintf(text, sizeof(text), "\\%c", c);
    else if (c == '\n')
        length = snprintf(text, sizeof(text), "\\n");
    else if (c == '\t')
        length = snprintf(text, sizeof(text), "\\t");
    else if (c < 0x20 || c > 0x7e)
        length = snprintf(text, sizeof(text), "\\x%02x", c);
    else
        length = snprintf(text, sizeof(text), "%c", c);
    append(line, text, (size_t)length);
}

static void append_quoted(struct log_line *line, struct str value)
{
    append_text(line, "\"");
    if (line->cut)
        return;
    for (size_t i = 0; i < value.len && !line->cut; i++)
        append_escaped(line, (unsigned char)value.data[i]);

    const char *end = line->cut ? "...\"" : "\""; /* END_BYTES kept room for it */
    memcpy(line->text + line->len, end, strlen(end));
    line->len += strlen(end);
}

/* A field whose value cannot even begin is left out whole. */
static void append_field(struct log_line *line, const struct log_field *field)
{
    char number[24] = "\"";
    if (field->type == LOG_FIELD_INT)
        snprintf(number, sizeof(number), "%lld", (long long)field->number);
    if (!has_room(line, strlen(" =") + strlen(field->key) + strlen(number))) {
        line->cut = true;
        return;
    }

    append_text(line, " ");
    append_text(line, field->key);
    append_text(line, "=");
    if (field->type == LOG_FIELD_INT)
        append_text(line, number);
    else
        append_quoted(line, field->text);
}

static void append_header(struct log_line *line, enum log_severity severity, const char *file,
                          int line_number)
{
    struct timespec now = {0};
    struct tm local = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);

    char text[128];
    snprintf(text, sizeof(text), "%c%02d%02d %02d:%02d:%02d.%06ld %ld %.40s:%d] ", "IWE"[severity],
             local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
             now.tv_nsec / 1000, (long)getpid(), file, line_number);
    append_text(line, text);
}

static void append_fields(struct log_line *line, const struct log_field *fields, unsigned count)
{
    for (unsigned i = 0; i < count && !line->cut; i++)
        append_field(line, &fields[i]);
}

static void write_line(const struct log_line *line)
{
    size_t done = 0;
    while (done < line->len) {
        ssize_t written = write(STDERR_FILENO, line->text + done, line->len - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nowhere to complain */
        done += (size_t)written;
    }
}

void log_write(enum log_severity severity, const char *file, int line, const char *message,
               const struct log_field *fields, unsigned count)
{
    int saved_errno = errno;
    struct log_line out;
    out.len = 0;
    out.cut = false;

    append_header(&out, severity, file, line);
    append_quoted(&out, str_from(message));
    append_fields(&out, context, context_count);
    append_fields(&out, fields, count);
    out.text[out.len++] = '\n'; /* END_BYTES kept room for it */

    write_line(&out);
    errno = saved_errno;
}
