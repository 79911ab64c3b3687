/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_HAMI_H
#define CODEC_HAMI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "core/device.h"
#include "core/extender.h"
#include "core/pod.h"

/*
 * The annotations by which HAMi's scheduler and device plugin talk to each other (HAMi 2.10,
 * pkg/util/types.go, pkg/device/devices.go): names and formats, and nothing else of HAMi.
 */

/* On the pod, written by us at bind or by HAMi's scheduler before the switch. */
#define ANNOTATION_HAMI_ALLOCATED   "hami.io/vgpu-devices-allocated"
#define ANNOTATION_HAMI_TO_ALLOCATE "hami.io/vgpu-devices-to-allocate"
#define ANNOTATION_HAMI_NODE        "hami.io/vgpu-node"
#define ANNOTATION_HAMI_TIME        "hami.io/vgpu-time"
#define ANNOTATION_HAMI_BIND_PHASE  "hami.io/bind-phase"
#define ANNOTATION_HAMI_BIND_TIME   "hami.io/bind-time"

/* On the pod, written by its owner. */
#define ANNOTATION_HAMI_USE_TYPE "nvidia.com/use-gputype"
#define ANNOTATION_HAMI_NO_TYPE  "nvidia.com/nouse-gputype"
#define ANNOTATION_HAMI_USE_ID   "nvidia.com/use-gpuuuid"
#define ANNOTATION_HAMI_NO_ID    "nvidia.com/nouse-gpuuuid"

/* On the node, written by HAMi's device plugin. */
#define ANNOTATION_HAMI_REGISTER "hami.io/node-nvidia-register"

/* Read what a pod has: per container "UUID,TYPE,MIB,CORES:" for each of its cards and ";" at its
 * end, init containers first. `containers` are the pod's; where the text has another number of them
 * than the pod (old versions lose empty ones) all run side by side. Cards of other types than
 * NVIDIA are left out. -EINVAL with a sentence for any other form, or past the bounds of
 * core/device.h; -ENOMEM. */
int hami_allocated_parse(struct str text, const struct container *containers, uint32_t count,
                         struct arena *mem, const struct named_share **ret_named,
                         uint32_t *ret_count, struct error *err);

/* Append the same for a placement with parts. Memory is in MiB, rounded down: what is not a
 * multiple is a percentage of a card. */
void hami_allocated_format(const struct placement *placement, struct strbuf *out);

/* Read a node's registration: a JSON list of cards with id, index, count, devmem (MiB), devcore,
 * type, health; or the form of old versions, "ID,COUNT,MIB,CORE,TYPE,NUMA,HEALTH[,INDEX,MODE]:" for
 * each. A card without index has its place in the list. -EINVAL with a sentence when it is neither,
 * when a value is of the wrong type or past the bounds of core/device.h, two cards have one index
 * or id, or none is listed; cards of mode "mig" are listed as unhealthy: their slices are not ours
 * to give. */
int hami_register_parse(struct str text, struct arena *mem, struct inventory *ret,
                        struct error *err);

#endif
