/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMBED_APPLY_H
#define EMBED_APPLY_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "codec/objects.h"
#include "core/pod.h"
#include "embed/store.h"

/*
 * One text of manifests on its way into a store: read, then checked against the store, then put
 * into it, all or nothing.
 *
 *   apply_read      the text alone: no store needed
 *   apply_check     against the store: what each object will be
 *   apply_commit    put them in; from here on the changes may be told
 *   apply_done      always
 */
struct change {
    struct str manifest; /* JSON */
    uint32_t line;       /* of its document in the text */
    int64_t item;        /* its place in a list; -1 if it is none's */
    enum object_kind kind;
    struct str ns, name;
    struct str title;      /* "Pod default/train" */
    struct str uid;        /* as the manifest says, may be empty */
    struct object *object; /* in the store, or new and not in it yet */
    bool is_new;
    struct str json; /* what it will be; owned until the commit */
    /* What it says, decoded for the event. */
    struct node_facts node;
    struct pod pod;
    struct inventory inventory;
    uint32_t skipped; /* entries of a Device that are left out of it; a line in the log says why */
    struct policy_words labels; /* of a Namespace */
};

struct apply {
    struct arena mem;
    const char *source;
    struct change *changes;
    uint32_t count;
};

/* Read a text. Errors begin with "SOURCE:LINE". Call apply_done in any case. */
int apply_read(struct apply *apply, struct str text, const char *source, struct error *err);

/* Put "SOURCE:LINE" and the object, as far as it is known, before the sentence in `err` (not NULL):
 * "pods.yaml:7: Pod default/train: ". Returns its code. */
int apply_at(const struct apply *apply, const struct change *change, struct error *err);

/* Find out what each object will be: UID, defaults, and what may not change about an object that
 * exists. The store stays as it is, and must do so until the commit. */
int apply_check(struct apply *apply, const struct store *store, struct error *err);

/* Put the objects into the store. -ENOMEM with the store unchanged. */
int apply_commit(struct apply *apply, struct store *store, struct error *err);

/* Free what was not committed. */
void apply_done(struct apply *apply);

#endif
