/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_LISTED_H
#define KUBE_LISTED_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/metrics.h"
#include "base/str.h"
#include "sched/sched.h"

/* What is listed and watched: one table row a resource, with how its objects are read and told to
 * sched. */
struct listed {
    const char *name;     /* "devices" */
    const char *resource; /* for people: "devices.scheduling.koordinator.sh" */
    const char *path;
    const char *selector; /* a query parameter with its "&", or "" */
    bool optional;        /* followed only if the options say so; the last rows of the table */
    bool installed_later; /* a custom resource: 404 means that it is not installed yet */
    enum cache_listed kind;
    enum metric_object metric;
    /* An object was listed, added or changed; or is gone, and `json` is its last state. 0, or
     * -ENOMEM with nothing told. What cannot be read is never fatal: what is known of the object
     * stays, and `complaint` (code 0 before) says what is wrong and with whom. */
    int (*changed)(struct sched *sched, struct str json, struct arena *mem,
                   struct error *complaint);
    int (*gone)(struct sched *sched, struct str json, struct arena *mem, struct error *complaint);
};

/* Indexed by enum cache_listed. */
#define LISTED_COUNT CACHE_LISTED_MAX
extern const struct listed listed_table[LISTED_COUNT];

#endif
