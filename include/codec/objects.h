/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_OBJECTS_H
#define CODEC_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "core/device.h"
#include "core/extender.h"
#include "core/node.h"
#include "core/pod.h"

/*
 * API objects as JSON text: read into core structs, and the few changes that a cluster without an API
 * server must make to them. Errors name the field ("metadata.name: ..."). Results live in `mem`.
 */

enum object_kind { KIND_NODE, KIND_DEVICE, KIND_POD, KIND_NAMESPACE, KIND_LIST, KIND_OTHER };

struct object_head {
    enum object_kind kind;
    struct str api_version, kind_name, ns, name, uid;
};

/* apiVersion, kind and metadata of one object. -EINVAL when it is not an object, or has no kind or (lists
 * apart) no name. */
int object_head(struct str json, struct arena *mem, struct object_head *ret, struct error *err);

/* Metadata alone: items of typed lists have neither apiVersion nor kind. -EINVAL when there is no
 * name. */
int object_identity(struct str json, struct arena *mem, struct object_head *ret, struct error *err);

/* Items of a v1 List as JSON texts, in order. */
int object_list_items(struct str json, struct arena *mem, const struct str **ret_items,
                      uint32_t *ret_count, struct error *err);

/* A Pod. Device quantities that are not quantities are -EINVAL naming container and resource; one that
 * 64 bits do not hold is not an error but pod->request_problem, an unreadable annotation is
 * pod->annotation. Requests only are read, not limits. */
int object_decode_pod(struct str json, struct arena *mem, struct pod *ret, struct error *err);

/* A Pod whose request object_decode_pod could not read: who it is, where it runs and what its
 * annotation says. pod->request_problem is set. */
int object_decode_pod_place(struct str json, struct arena *mem, struct pod *ret, struct error *err);

/* A Node. What it can give of CPU and memory is allocatable, or capacity where that says nothing. A vendor's whole cards (core/request.h) above zero in status.capacity or status.allocatable mean
 * a device plugin; one whose cards are all sick has capacity only. -EINVAL for what is no quantity there. A
 * registration of HAMi's device plugin that cannot be read is not an error but ret->registration. */
int object_decode_node(struct str json, struct arena *mem, struct node_facts *ret, struct error *err);

/* The name of a Namespace, and its labels that are defaults of its pods' placement. */
int object_decode_namespace(struct str json, struct arena *mem, struct str *ret_name,
                            struct policy_words *ret, struct error *err);

/* A Device object (scheduling.koordinator.sh/v1alpha1). Entries without minor, of an unknown type, with an
 * id or amount past the bounds of core/device.h, or with a minor that came before are left out and counted
 * in *ret_skipped (`err` then holds the first one's sentence, the result is 0 all the same); so is a table of
 * partitions that cannot be read (codec/device_links.h). Deprecated resource names are understood. */
int object_decode_device(struct str json, struct arena *mem, struct str *ret_node,
                         struct inventory *ret, uint32_t *ret_skipped, struct error *err);

/* ---- changes, for the embedded cluster; each appends the whole changed object ---- */

/* A Pod as an API server stores it: metadata.uid set to `uid`, namespace "default" if missing,
 * creationTimestamp if missing, container requests filled from limits where a request is missing, extended resources' limits from
 * requests, status.phase "Pending" if missing. */
int object_default_pod(struct str json, struct str uid, struct str timestamp, struct strbuf *out,
                       struct error *err);

/* Any object with metadata.uid and creationTimestamp set where missing. */
int object_default_meta(struct str json, struct str uid, struct str timestamp, struct strbuf *out,
                        struct error *err);

/* A Pod bound as POST pods/binding does it: spec.nodeName set, annotations merged (values as given), and
 * status condition PodScheduled True. */
int object_bind_pod(struct str json, struct str node, const struct str *keys, const struct str *values,
                    uint32_t annotation_count, struct strbuf *out, struct error *err);

/* Value of an annotation; empty slice with data NULL when absent. */
int object_annotation(struct str json, const char *key, struct arena *mem, struct str *ret,
                      struct error *err);

#endif
