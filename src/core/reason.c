/* SPDX-License-Identifier: Apache-2.0 */
#include "core/reason.h"

#include <assert.h>
#include <stddef.h>

/* kube-scheduler prints "3 TEXT" for three nodes with one text, hence the form of Kubernetes' own
 * ("node(s) ..."). The no-device texts begin as Koordinator's one text for short and none. */
static const struct {
    const char *word;
    const char *text;
    enum verdict verdict;
} reasons[REASON_MAX] = {
    [REASON_FITS] = {"Fits", "fits", VERDICT_FITS},

    [REASON_INSUFFICIENT_GPU] = {"InsufficientGPU", "Insufficient gpu devices", VERDICT_NOT_NOW},
    [REASON_INSUFFICIENT_RDMA] = {"InsufficientRDMA", "Insufficient rdma devices", VERDICT_NOT_NOW},
    [REASON_INSUFFICIENT_FPGA] = {"InsufficientFPGA", "Insufficient fpga devices", VERDICT_NOT_NOW},
    [REASON_NODE_CLOSED] = {"NodeClosed", "node(s) ran device pods on unknown cards",
                            VERDICT_NOT_NOW},

    [REASON_UNKNOWN_NODE] = {"UnknownNode", "node(s) were unknown to the device scheduler",
                             VERDICT_NEVER},
    [REASON_NO_DEVICE_OBJECT] = {"NoDeviceObject", "node(s) had no Device object", VERDICT_NEVER},
    /* Never: no pod that goes makes it fit, so preemption would be in vain. */
    [REASON_DEVICE_PLUGIN] = {"DevicePlugin", "node(s) had gpus that a device plugin hands out",
                              VERDICT_NEVER},
    [REASON_NO_GPU] = {"NoGPU", "Insufficient gpu devices: node(s) had none", VERDICT_NEVER},
    [REASON_NO_RDMA] = {"NoRDMA", "Insufficient rdma devices: node(s) had none", VERDICT_NEVER},
    [REASON_NO_FPGA] = {"NoFPGA", "Insufficient fpga devices: node(s) had none", VERDICT_NEVER},
    [REASON_NOT_SELECTED] = {"NotSelected", "node(s) had no gpu of the requested type or id",
                             VERDICT_NEVER},
    [REASON_TOO_BIG] = {"TooBig", "node(s) were too small for the requested devices even if empty",
                        VERDICT_NEVER},
    [REASON_MEMORY_UNKNOWN] = {"MemoryUnknown", "node(s) did not state the memory of their gpus",
                               VERDICT_NEVER},
    [REASON_INVALID] = {"InvalidRequest", "invalid device request", VERDICT_NEVER},
    [REASON_DUPLICATE] = {"Duplicate", "node was named before in the same call", VERDICT_NEVER},
    [REASON_LEFT_OUT] = {"LeftOut", "node(s) were ranked behind others that fit", VERDICT_NEVER},
};

enum verdict reason_verdict(enum reason reason)
{
    assert(reason < REASON_MAX && reason != REASON_DUPLICATE && reason != REASON_LEFT_OUT);
    return reasons[reason].verdict;
}

const char *reason_text(enum reason reason)
{
    assert(reason < REASON_MAX);
    return reasons[reason].text;
}

const char *reason_word(enum reason reason)
{
    assert(reason < REASON_MAX);
    return reasons[reason].word;
}
