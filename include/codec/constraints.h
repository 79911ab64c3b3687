/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_CONSTRAINTS_H
#define CODEC_CONSTRAINTS_H

#include <stdint.h>

#include "base/str.h"

/*
 * What Pods and Nodes say of who may run where, beside devices, CPU, memory and the models of cards. It is
 * kube-scheduler's business, so nobody decodes it; a program that plays without kube-scheduler can say at least
 * that it is there.
 */
enum constraint {
    CONSTRAINT_SELECTOR,      /* nodeSelector, by other labels than those of models */
    CONSTRAINT_NODE_AFFINITY, /* required node affinity, by the like */
    CONSTRAINT_POD_AFFINITY,  /* required affinity to pods */
    CONSTRAINT_POD_ANTI_AFFINITY,
    CONSTRAINT_SPREAD, /* topology spread that is required */
    CONSTRAINT_UNSCHEDULABLE,
    CONSTRAINT_TAINTS, /* that keep pods away */
    CONSTRAINT_MAX
};

/* Those of a Pod or a Node, as bits (1 << enum constraint). What is no JSON, or of another type
 * than it should be, says nothing. */
uint32_t constraints_of_pod(struct str json);
uint32_t constraints_of_node(struct str json);

/* Where it stands: "spec.nodeSelector". */
const char *constraint_field(enum constraint constraint);

#endif
