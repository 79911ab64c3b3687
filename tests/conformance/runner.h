/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFORMANCE_RUNNER_H
#define CONFORMANCE_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "json.h"

/*
 * The conformance runner: one record of a vector file at a time is translated into the project's
 * own structs, put to the real code, and what that answers is written as JSON in the shape of the
 * record's `expect`. compare.c then compares the two. No rule of the scheduler is written here.
 */

/* A record while it runs. */
struct vector {
    const char *file, *id, *op;
    json_object *given, *expect;
    struct arena mem;
    char unsupported[200]; /* why it cannot be run; empty while it can */
    unsigned failures;     /* lines printed */
};

/* Say that the record cannot be run. The first reason is kept; the result is never "passed". */
void vector_unsupported(struct vector *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* True until vector_unsupported() was called. */
bool vector_supported(const struct vector *v);

/* Print the line of a failure. */
void vector_fail(struct vector *v, const char *field, const char *expected, const char *got);

/* Check that `object` (found at `where`) has only members in `known`, a list of names with blanks
 * between them. A name with '?' before it is known only while it says nothing: it belongs to a
 * feature that is not there yet. Otherwise the record is not supported. */
bool fields_known(struct vector *v, const char *where, json_object *object, const char *known);

/* How a field of `expect` is compared with the field of the same name in what the code answered. */
enum compare_how {
    COMPARE_EXACT,    /* same JSON value; quantity strings count as their number */
    COMPARE_AMOUNTS,  /* zero amounts and empty maps dropped, quantities as numbers, lists by minor
                       */
    COMPARE_SET,      /* a list of texts in any order */
    COMPARE_PREFIX,   /* the expected text begins ours */
    COMPARE_CONTAINS, /* the expected text is in ours */
    COMPARE_NESTED,   /* an object with fields of its own */
    COMPARE_FEATURE,  /* may only say that a feature is not used */
    COMPARE_IGNORED,  /* information for people */
};

struct expectation {
    const char *field; /* NULL ends a list */
    enum compare_how how;
    const char *answer; /* name in the answer, where it differs */
    const struct expectation *nested;
};

/* An operation: what it reads, what it answers, and how. */
struct op {
    const char *name; /* NULL ends a list */
    const char *given;
    const struct expectation *expect;
    void (*run)(struct vector *v, json_object *answer);
};

extern const struct op request_ops[];
extern const struct op node_ops[];
extern const struct op state_ops[];
extern const struct op annotation_ops[];

/* Compare every field of v->expect; a field that `expect` does not list makes the record
 * unsupported, and so does one that compares nothing at all. */
void compare_answer(struct vector *v, const struct expectation *expect, json_object *answer);

/* The texts of two values when they differ as amounts (see COMPARE_AMOUNTS): false and a printed
 * failure. For questions that an operation asks beside `expect`. */
bool compare_amounts(struct vector *v, const char *field, json_object *expected, json_object *got);

/* The device inventory called `name` in the fixtures.json beside `file`, else in the project's own;
 * NULL when neither has it. */
json_object *fixture_find(const char *file, const char *name);

/* Forget the loaded fixtures. */
void fixtures_free(void);

/* Path of a file of this tree, whether started from its top or not: looked for under the current
 * directory, then upwards from the program. False when it is nowhere. */
bool tree_path(const char *relative, char *out, size_t size);

/* Our answers to records that describe a hazard, from decisions.json. */
bool decisions_load(const char *path);
json_object *decision_find(const char *id);
void decisions_free(void);

#endif
