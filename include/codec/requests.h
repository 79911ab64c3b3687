/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_REQUESTS_H
#define CODEC_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "core/extender.h"
#include "core/pod.h"

/* Bodies that go to the API server, and what it says about them. Writers append; a failed strbuf
 * says that memory ended. */

/* All annotations of one object, keys and values added up, may be so long (apimachinery,
 * TotalAnnotationSizeLimitB). The binding does not check it; every later write of the pod would
 * fail. */
#define ANNOTATION_BYTES_MAX 262144

/* ---- pods/binding ---- */

/* The annotations of a placement, in the order in which they are written; none without cards. */
#define BINDING_ANNOTATIONS_MAX 8
struct binding_annotations {
    uint32_t count;
    const char *keys[BINDING_ANNOTATIONS_MAX];
    struct strbuf values[BINDING_ANNOTATIONS_MAX];
    bool failed; /* memory ended */
};

/* Format them: Koordinator's, the visible devices if there are GPUs, and where placement->hami says
 * so those that HAMi's scheduler writes for its device plugin, phase "allocating" included. */
void binding_annotations(const struct placement *placement, struct str node,
                         struct binding_annotations *ret);

/* Free the texts. */
void binding_annotations_done(struct binding_annotations *annotations);

/* A Binding of `pod` (its uid is the precondition) to `node`, with the annotations of the
 * placement, if it has cards. *ret_annotation_bytes = keys and values of these, added up. */
void request_binding(const struct pod_id *pod, struct str node, const struct placement *placement,
                     struct strbuf *out, uint32_t *ret_annotation_bytes);

/* ---- merge patches ---- */

/* Its change makes kube-scheduler look at a pod again; the time is for people. */
#define ANNOTATION_WOKEN_AT "deviceshare.io/woken-at"

enum patch_map { PATCH_LABEL, PATCH_ANNOTATION };

#define PATCH_CONTENT_TYPE "application/merge-patch+json"

/* Set one label or annotation; `value` with data NULL removes it. A `uid` that is not empty is a
 * precondition: it cannot be changed, so the patch of another object is refused. */
void request_patch(struct str uid, enum patch_map map, const char *key, struct str value,
                   struct strbuf *out);

/* ---- SelfSubjectAccessReview ---- */

struct access_question {
    const char *verb;
    const char *group; /* "" = core */
    const char *resource;
    const char *subresource; /* NULL = none */
    const char *ns;          /* NULL = all namespaces, or none */
};

/* May we do this? */
void request_access_review(const struct access_question *question, struct strbuf *out);

/* The answer: whether it is allowed. -EINVAL with a sentence. */
int access_review_decode(struct str body, bool *ret_allowed, struct error *err);

/* ---- Status ---- */

struct status {
    bool success;      /* status is "Success" */
    int32_t code;      /* 0 = not given */
    struct str reason; /* "Conflict" */
    struct str message;
    struct str details_kind; /* "pods", "pods/binding" */
    struct str cause;        /* reason of the first cause; empty if none */
};

/* Read a v1 Status. Texts live in `mem`. -EINVAL when it is not one. */
int status_decode(struct str body, struct arena *mem, struct status *ret, struct error *err);

#endif
