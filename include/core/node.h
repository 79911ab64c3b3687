/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_NODE_H
#define CORE_NODE_H

#include <stdbool.h>

#include "base/str.h"
#include "core/device.h"
#include "core/host.h"

/* What the Node's annotation of HAMi's device plugin came to. */
enum registration { REGISTRATION_ABSENT, REGISTRATION_READ, REGISTRATION_UNREADABLE };

/* The few facts of a Node that matter here. Slices are borrowed from whoever decoded it. */
struct node_facts {
    struct str name;
    bool device_plugin; /* its status counts whole cards (nvidia.com/gpu): kubelet picks them there */
    struct host_amount allocatable; /* 0 of what it does not say */
    struct str gpu_model;           /* by its label; empty if none */
    enum registration registration;
    struct inventory registered;     /* with REGISTRATION_READ */
    struct str registration_problem; /* with REGISTRATION_UNREADABLE: a sentence */
};

#endif
