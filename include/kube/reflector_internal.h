/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_REFLECTOR_INTERNAL_H
#define KUBE_REFLECTOR_INTERNAL_H

#include <pthread.h>

#include "base/map.h"
#include "kube/backoff.h"
#include "kube/client.h"
#include "kube/listed.h"
#include "kube/reflector.h"

/*
 * For src/kube/reflector*.c only. A reflector's thread takes one step after the other, a list or a
 * watch, and each step says what comes next:
 *
 *         +---- failed, expired ----+       +-- ended, broken --+
 *         v                         |       v                   |
 *   --> list ---- complete ------> watch ---+-------------------+
 *         ^                         |
 *         +--- 410, unreadable -----+
 */

/* Bound on one object; etcd stores none above 1.5 MiB. */
#define OBJECT_BYTES_MAX ((uint32_t)16 * 1024 * 1024)

enum step_kind { STEP_LIST, STEP_WATCH };

/* What to do next, and when. */
struct step {
    enum step_kind kind;
    int64_t pause_ms;
    bool told; /* by the server (Retry-After): nobody shortens the pause */
};

struct reflector {
    struct reflectors *all;
    const struct listed *listed;
    struct kube_client *client;
    pthread_t thread;

    /* the thread's own */
    struct backoff backoff; /* the server cannot be reached, or refuses */
    struct backoff relist;  /* it answers, but our version is of no use */
    struct strbuf version;  /* the state that we have: resume from here */
    struct map said;        /* complaints that were logged; the keys are in said_mem */
    struct arena said_mem;

    /* under all->mutex */
    pthread_cond_t wake;
    bool hurry;                        /* a new list is wanted now */
    uint64_t lists_wanted, lists_done; /* tickets of reflectors_consistent_pods */
    struct reflector_status status;
};

struct reflectors {
    struct reflector_options options;
    struct sched *sched;
    pthread_mutex_t mutex;
    pthread_cond_t listed; /* a list is complete, or all stops */
    bool stopping;
    bool cancelled;   /* by reflectors_cancel_wait */
    unsigned waiters; /* in reflectors_consistent_pods */
    unsigned count; /* of the first rows of listed_table */
    struct reflector of[LISTED_COUNT];
};

/* One complete list, from the first page to the last. */
struct step reflector_list(struct reflector *reflector);

/* One watch from the version that we have, until it ends. */
struct step reflector_watch(struct reflector *reflector);

/* ---- what both need ---- */

/* How one exchange with the server came out. */
struct exchange {
    int rc;
    struct kube_response response;
    struct strbuf body; /* of an answer that is not 200 */
    bool stale;         /* our version is of no use: list anew */
    struct error err;
};

/* Tell one object to sched: 0, or -ENOMEM. What cannot be read is counted, and logged once. */
int reflector_tell(struct reflector *reflector, struct str json, bool gone);

/* Bytes came, perhaps the first of an answer. */
void reflector_heard(struct reflector *reflector);

/* An exchange of this step failed or was refused: report it, and say how long to wait before the
 * step is tried again, or a list if the version is of no use. */
struct step reflector_failed(struct reflector *reflector, enum step_kind kind,
                             struct exchange *exchange);

/* What readyz shows, and a log line if it is new: a printf sentence. */
void reflector_trouble(struct reflector *reflector, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Milliseconds of the monotonic clock. */
int64_t reflector_now_ms(void);

#endif
