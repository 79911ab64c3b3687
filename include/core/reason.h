/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REASON_H
#define CORE_REASON_H

/*
 * Verdicts on one pod and one node. kube-scheduler groups equal texts and wakes pods on changed
 * ones, so a text is constant: no numbers, names or times. Detail comes from allocate_explain().
 * One row each in reason.c.
 */
enum reason {
    REASON_FITS,
    /* may fit later: FailedNodes */
    REASON_INSUFFICIENT_GPU,
    REASON_INSUFFICIENT_RDMA,
    REASON_INSUFFICIENT_FPGA,
    REASON_NODE_CLOSED, /* a running device pod's cards are unknown */
    /* never here: FailedAndUnresolvableNodes */
    REASON_UNKNOWN_NODE,
    REASON_NO_DEVICE_OBJECT,
    REASON_DEVICE_PLUGIN, /* a vendor's device plugin hands the gpus out, unseen by us */
    REASON_NO_GPU,
    REASON_NO_RDMA,
    REASON_NO_FPGA,
    REASON_NOT_SELECTED,   /* no gpu of the models or ids that the pod's annotations ask for */
    REASON_TOO_BIG,        /* more than the node has when empty */
    REASON_MEMORY_UNKNOWN, /* bytes asked for, but no card of the node states its memory size */
    REASON_INVALID,        /* invalid request; the text is the pod's own */
    REASON_DUPLICATE,      /* named before in the same call: left out of the answer */
    REASON_LEFT_OUT, /* fits, but the policy ranks enough others before it: left out of the answer
                      */
    REASON_MAX
};

enum verdict { VERDICT_FITS, VERDICT_NOT_NOW, VERDICT_NEVER };

/* The class of a reason. REASON_DUPLICATE and REASON_LEFT_OUT have none and must not be asked
 * for (assert). */
enum verdict reason_verdict(enum reason reason);

/* Constant text for kube-scheduler; Koordinator's where it has one ("Insufficient gpu devices"). */
const char *reason_text(enum reason reason);

/* Short CamelCase word for tables and metrics ("InsufficientGPU"). */
const char *reason_word(enum reason reason);

#endif
