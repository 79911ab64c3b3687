/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_EXTENDER_H
#define CODEC_EXTENDER_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "core/extender.h"

/*
 * Bodies of the four verbs (k8s.io/kube-scheduler/extender/v1). Keys match case-insensitively, the last
 * one wins, null is missing, unknown keys are ignored, as Go decodes them; text after the first JSON value
 * is refused (rule 3 of the wire contract). Strict JSON, valid UTF-8. Errors are -EINVAL with a sentence
 * that begins with the path of the field ("Pod.metadata.uid: ..."), -E2BIG for a limit.
 */
struct codec_limits {
    uint32_t nesting;   /* JSON depth */
    uint32_t nodes;     /* candidates in one call */
    uint32_t name_bytes; /* longest node name accepted; 253 is Kubernetes' own limit */
};

/* Sensible limits for tests and tools: 64 levels, 100,000 nodes, 253 bytes. */
extern const struct codec_limits codec_default_limits;

/* filter and prioritize. Required: Pod with metadata.uid, name and namespace and no spec.nodeName (an
 * assigned pod is -EINVAL naming Pod.spec.nodeName), and one of NodeNames and Nodes not null (both:
 * NodeNames counts). Nodes.items null = no candidates. Names are slices of `body` where they can be;
 * everything else in *ret lives in `mem`. What `roster` (may be NULL) says of the names is noted; it must stay as
 * long as the call. */
int extender_decode_candidates(struct str body, const struct codec_limits *limits,
                               const struct roster *roster, struct arena *mem,
                               struct candidates_call *ret, struct error *err);

/* preempt: NodeNameToVictims or NodeNameToMetaVictims, whichever is not null (both: the meta form). Null
 * nodes and null pods are dropped. */
int extender_decode_preempt(struct str body, const struct codec_limits *limits, struct arena *mem,
                            struct preempt_call *ret, struct error *err);

/* bind: all four fields required, names checked for Kubernetes syntax (nothing that could change a URL
 * passes). */
int extender_decode_bind(struct str body, const struct codec_limits *limits, struct arena *mem,
                         struct bind_call *ret, struct error *err);

/* Append the ExtenderFilterResult. All five fields always. Candidates that fit go to NodeNames (or, for a
 * Nodes call, as received to Nodes with NodeNames null); when none fits every candidate is named once in
 * FailedNodes or FailedAndUnresolvableNodes; when one fits the others are left out. */
void extender_encode_filter(const struct candidates_call *call, const struct filter_answer *answer,
                            struct strbuf *out);

/* Append an ExtenderFilterResult that holds only Error. */
void extender_encode_filter_error(const char *text, struct strbuf *out);

/* Append the HostPriorityList: [{"Host":..,"Score":..}], one entry a distinct candidate. */
void extender_encode_prioritize(const struct candidates_call *call,
                                const struct prioritize_answer *answer, struct strbuf *out);

/* Append the ExtenderPreemptionResult in meta form: only nodes that are kept and have victims. */
void extender_encode_preempt(const struct preempt_call *call, const struct preempt_answer *answer,
                             struct strbuf *out);

/* Append the ExtenderBindingResult; NULL or "" is success. */
void extender_encode_bind(const char *error_text, struct strbuf *out);

/* Append {"error":"..."}: the body of a 4xx answer. */
void extender_encode_problem(const char *text, struct strbuf *out);

/* ---- the other side, for programs that play kube-scheduler ---- */

/* Append ExtenderArgs for a Pod (JSON text, as kube-scheduler would send it) and node names. */
void extender_encode_args(struct str pod_json, const struct str *nodes, uint32_t count,
                          struct strbuf *out);

/* Append ExtenderBindingArgs. */
void extender_encode_bind_args(const struct pod_id *pod, struct str node, struct strbuf *out);

struct filter_result {
    const struct str *nodes;
    uint32_t node_count;
    struct str error;      /* empty: none */
    struct str first_failure; /* text of one failed node, when nothing fits */
};

/* Read an ExtenderFilterResult in NodeNames form. */
int extender_decode_filter_result(struct str body, struct arena *mem, struct filter_result *ret,
                                  struct error *err);

/* Read a HostPriorityList: name and score arrays of *ret_count entries. */
int extender_decode_priorities(struct str body, struct arena *mem, const struct str **ret_hosts,
                               const int64_t **ret_scores, uint32_t *ret_count, struct error *err);

/* Read an ExtenderBindingResult; *ret_error is empty on success. */
int extender_decode_bind_result(struct str body, struct arena *mem, struct str *ret_error,
                                struct error *err);

#endif
