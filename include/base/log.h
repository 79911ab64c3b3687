/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * One line a fact, in klog's structured form, one write(2) to stderr:
 *   I1129 21:04:05.123456 4711 bind.c:88] "Pod bound" pod="ns/name" node="n1" latencyMs=3
 * Severity I, W, E; verbosity levels as in klog (0 always, 2 normal, 4 debug, 6 trace).
 * Values are quoted and escaped, so a line can neither be split nor forged. Secrets and whole bodies
 * are never logged. Only sched and the edges log; a failure is logged once, by who gives up.
 */

enum log_severity { LOG_INFO, LOG_WARNING, LOG_ERROR };

/* One key and value of a line; build with the LOG_* macros below. */
struct log_field {
    const char *key;
    enum { LOG_FIELD_STR, LOG_FIELD_INT } type;
    struct str text;
    int64_t number;
};

#define LOG_STR(k, v) ((struct log_field){.key = (k), .type = LOG_FIELD_STR, .text = (v)})
#define LOG_TEXT(k, v) LOG_STR(k, str_from(v))
#define LOG_INT(k, v) ((struct log_field){.key = (k), .type = LOG_FIELD_INT, .number = (int64_t)(v)})

/* Set the verbosity (0..10): info lines above it are dropped. Atomic; default 2. */
void log_set_verbosity(int verbosity);

/* The verbosity now. */
int log_verbosity(void);

/* Fields that every line of the calling thread bears from now on, before its own ones: what it works
 * on. Borrowed until they are changed; count 0 for none. */
void log_set_context(const struct log_field *fields, unsigned count);

/* Write one line. `file` and `line` name the call site; the macros below fill them in. */
void log_write(enum log_severity severity, const char *file, int line, const char *message,
               const struct log_field *fields, unsigned count);

#define LOG_FIELDS_(...)                                                                           \
    (const struct log_field[]){__VA_ARGS__},                                                       \
        (unsigned)(sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

/* log_info(level, "message", LOG_STR("pod", name), LOG_INT("cards", 2)): at least one field. */
#define log_info(level, message, ...)                                                              \
    do {                                                                                           \
        if ((level) <= log_verbosity())                                                            \
            log_write(LOG_INFO, __FILE_NAME__, __LINE__, (message), LOG_FIELDS_(__VA_ARGS__));     \
    } while (0)
#define log_warning(message, ...)                                                                  \
    log_write(LOG_WARNING, __FILE_NAME__, __LINE__, (message), LOG_FIELDS_(__VA_ARGS__))
#define log_error(message, ...)                                                                    \
    log_write(LOG_ERROR, __FILE_NAME__, __LINE__, (message), LOG_FIELDS_(__VA_ARGS__))

#endif
