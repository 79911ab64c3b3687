/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_NODE_H
#define CORE_NODE_H

#include <stdbool.h>

#include "base/str.h"
#include "core/host.h"

/* The few facts of a Node that matter here. Slices are borrowed from whoever decoded it. */
struct node_facts {
    struct str name;
    bool device_plugin; /* its status counts whole cards (nvidia.com/gpu): kubelet picks them there */
    struct host_amount allocatable; /* 0 of what it does not say */
    struct str gpu_model;           /* by its label; empty if none */
};

#endif
