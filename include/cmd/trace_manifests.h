/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_TRACE_MANIFESTS_H
#define CMD_TRACE_MANIFESTS_H

#include "sim/trace.h"

/*
 * Manifests as a format of the simulator's: Nodes with their Device objects in one file, Pods in the
 * other, as YAML or JSON that kubectl takes or prints. Here and not in sim, because embed reads
 * manifests and neither of the two edges knows the other.
 *
 * A request is converted as the daemon does it, and becomes a part of a card as its packing counts
 * it (core/pack_site.h); docs/simulator.md says what that leaves out. What the simulator cannot play
 * of devices is -EINVAL with "PATH:LINE: KIND NAME: field: ..."; what of it is kube-scheduler's
 * business is named on stderr, one line a field. `err` must not be NULL.
 */
extern const struct trace_format trace_manifests;

#endif
