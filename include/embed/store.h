/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMBED_STORE_H
#define EMBED_STORE_H

#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "base/str.h"
#include "codec/objects.h"
#include "core/names.h"

/*
 * The objects of an embedded cluster as JSON text, found by kind, namespace and name or by UID, and
 * kept in creation order. Not thread safe, and no opinion about what the texts say.
 */

/* The kinds it holds: KIND_NAMESPACE, KIND_NODE, KIND_DEVICE, KIND_POD. */
#define STORE_KINDS 4

/* "Namespace//" or "Pod/", a namespace and "/", a name. */
#define STORE_KEY_MAX (11 + NAME_LABEL_MAX + 1 + NAME_SUBDOMAIN_MAX)

struct object {
    enum object_kind kind;
    char key[STORE_KEY_MAX + 1]; /* "Pod/default/train" */
    char uid[NAME_UID_MAX + 1];
    struct str ns, name;            /* inside key */
    struct str json;                /* owned */
    struct object *previous, *next; /* of the same kind, in creation order */
    uint32_t slot;
};

struct store {
    struct store_slot *slots;
    uint32_t slot_count, slot_capacity;
    uint32_t free_slot; /* first of those that an object left, or MAP_NONE */
    struct map by_key, by_uid;
    struct object *first[STORE_KINDS], *last[STORE_KINDS]; /* by kind */
};

/* Where a kind stands in `first` and `last`, and in the order of everything: namespaces,
 * nodes, devices, pods.
 */
uint32_t store_rank(enum object_kind kind);

/* "Namespace", "Node", "Device" or "Pod". */
const char *store_kind_name(enum object_kind kind);

/* The kind called so, or KIND_OTHER. */
enum object_kind store_kind_find(struct str name);

/* An empty store; allocates nothing. */
void store_init(struct store *store);

/* Free all objects. */
void store_done(struct store *store);

/* A new object outside of any store, without text; NULL when memory ends. Names and UID are copied
 * and must be legal. */
struct object *object_new(enum object_kind kind, struct str ns, struct str name, struct str uid);

/* Free an object that is in no store. NULL is fine. */
void object_free(struct object *object);

/* Free a text of strbuf_take, whatever the slice says. */
void text_free(struct str text);

/* Take the text (of strbuf_take) over, instead of the old one. */
void object_set_json(struct object *object, struct str json);

/* The object, or NULL. */
struct object *store_find(const struct store *store, enum object_kind kind, struct str ns,
                          struct str name);

/* The object with this UID, or NULL. */
struct object *store_find_uid(const struct store *store, struct str uid);

/* Take an object over, as the newest of its kind. Neither its name nor its UID may be there. 0, or
 * -ENOMEM with the store unchanged and the object still the caller's. */
int store_add(struct store *store, struct object *object);

/* Take an object out; it is the caller's again. */
void store_remove(struct store *store, struct object *object);

#endif
