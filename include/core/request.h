/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "core/device.h"
#include "core/host.h"

/*
 * From what a pod's containers ask for to one unified form: for each device kind a number of cards
 * and an amount on each. Rules: docs/requests.md.
 */

/* Device resources a pod may name; one table row each (request.c). */
enum resource {
    RESOURCE_NVIDIA_GPU,       /* nvidia.com/gpu, whole cards */
    RESOURCE_AMD_GPU,          /* amd.com/gpu */
    RESOURCE_DCU_GPU,          /* dcu.com/gpu */
    RESOURCE_GPU,              /* koordinator.sh/gpu, percent */
    RESOURCE_GPU_SHARED,       /* koordinator.sh/gpu.shared, number of cards to share */
    RESOURCE_GPU_CORE,         /* koordinator.sh/gpu-core, percent */
    RESOURCE_GPU_MEMORY,       /* koordinator.sh/gpu-memory, bytes */
    RESOURCE_GPU_MEMORY_RATIO, /* koordinator.sh/gpu-memory-ratio, percent */
    RESOURCE_HAMI_MEMORY,      /* nvidia.com/gpumem, MiB on each card; these three: core/hami.h */
    RESOURCE_HAMI_PERCENTAGE,  /* nvidia.com/gpumem-percentage, of the memory of each card */
    RESOURCE_HAMI_CORES,       /* nvidia.com/gpucores, percent of each card */
    RESOURCE_RDMA,             /* koordinator.sh/rdma, percent */
    RESOURCE_FPGA,             /* koordinator.sh/fpga, percent */
    RESOURCE_MAX
};

/* Amounts by resource; absent and zero mean the same. */
struct resources {
    int64_t amount[RESOURCE_MAX];
};

enum container_role { CONTAINER_APP, CONTAINER_INIT, CONTAINER_SIDECAR /* restartable init */ };

/* A container's device request, in pod order (init containers and sidecars first, in their
 * order). */
struct container {
    struct str name; /* borrowed */
    enum container_role role;
    struct resources requests;
    struct host_amount host; /* CPU and memory */
};

/* One device kind of a pod request in unified form. */
struct device_request {
    int64_t count;      /* cards; 0 = this kind is not requested */
    struct amount each; /* per card, in the dimensions named */
    uint8_t named;      /* DIM_BIT()s the user named (after conversion); the others are derived */
    bool whole;         /* a whole card: only one on which nothing at all is booked */
    bool some_core;     /* names no core, but takes only a card of which some is left (HAMi) */
};

/* What one container asks of the GPUs. */
struct container_request {
    uint32_t container; /* its place in pod order */
    enum container_role role;
    struct device_request gpu;
};

/* Which GPUs a pod may have: comma-separated lists as they stand in its annotations, empty = no
 * matter. Models: core/hami.h. */
struct card_selection {
    struct str use_model, no_model;
    struct str use_id, no_id;
};

/* What few pods ask for beside numbers of cards and amounts on them. */
struct gpu_detail {
    struct card_selection select;
    bool apart;               /* each container is given cards of its own, by its own rule */
    bool by_kubelet;          /* kubelet is asked for nvidia.com/gpu, and asks a device plugin */
    uint32_t container_count; /* of the pod, also those without a GPU */
    uint32_t count;           /* of those below */
    const struct container_request
        *containers; /* that ask for GPUs by nvidia.com names, in pod order */
};

/* A pod's device request in unified form; zeroed = asks for no device. `detail` is borrowed from
 * whoever parsed or copied it; NULL when there is none. With detail->apart, of[DEVICE_GPU] is the
 * request of the container that asks for most: all must fit, this one at least. */
struct pod_request {
    struct device_request of[DEVICE_KIND_MAX];
    const struct gpu_detail *detail;
};

/* Longest text of an invalid request, with its NUL. */
#define REQUEST_TEXT_MAX 384

/* Full name of a resource. */
const char *resource_name(enum resource resource);

/* The resource called `name`, or RESOURCE_MAX. Deprecated kubernetes.io/ names (gpu, gpu-core,
 * gpu-memory, gpu-memory-ratio, rdma, fpga) are found too, with *ret_deprecated true: a value
 * under the current name wins over one under the old name. */
enum resource resource_find(struct str name, bool *ret_deprecated);

/* A vendor's name for its whole cards, which kubelet knows from the vendor's device plugin. */
bool resource_is_vendors(enum resource resource);

/* The device kind a resource belongs to. */
enum device_kind resource_kind(enum resource resource);

/* Effective pod request, as kube-scheduler computes it (k8s.io/component-helpers resource
 * PodRequests): max(sum of app containers and sidecars, for each init container its own plus the
 * sidecars before it) plus overhead, per resource. `overhead` may be NULL. Returns 0, or -ERANGE
 * when a sum leaves int64, or -EINVAL for a negative amount; the text is as request_validate's. */
int request_effective(const struct container *containers, uint32_t count,
                      const struct resources *overhead, struct resources *ret, struct error *err);

/* True when any amount is not zero. */
bool resources_any(const struct resources *resources);

/* Bytes of a block for a copy of `detail` (not NULL), and the copy in such a block. */
size_t gpu_detail_size(const struct gpu_detail *detail);
const struct gpu_detail *gpu_detail_copy(const struct gpu_detail *detail, void *block);

/* Does it restrict the cards at all? */
bool card_selection_any(const struct card_selection *select);

/* Names of HAMi's dialect in it and of no other for GPUs: its amounts are per container, and
 * request_validate says nothing of them. */
bool request_speaks_hami(const struct resources *effective);

/* Check the combination and values of one pod's effective request. Valid: 0. Invalid: -EINVAL
 * and in err Koordinator's sentence ("invalid resource unit NAME: VALUE" for koordinator.sh/gpu,
 * rdma and fpga values that are above 100 and no multiple of 100; else "invalid resource device
 * requests: [NAMES]", names sorted), then ": ", the resource, its value and the rule it breaks.
 * The text is the same for every call with the same amounts and fits REQUEST_TEXT_MAX. No device
 * resource at all is valid here. */
int request_validate(const struct resources *effective, struct error *err);

/* Names of one valid combination of GPU resources, as a bit set of (1 << enum resource), for the
 * resources of one kind in `effective`; 0 when the kind's set is not allowed or empty. */
uint32_t request_combination(const struct resources *effective, enum device_kind kind);

/* Conversion of names only, before the split per card: vendor counts x 100 and
 * koordinator.sh/gpu become percent and ratio, the rest stays. `combination` as from
 * request_combination. Returns false (and writes nothing) when a name of the combination is not
 * in `effective` or the product leaves int64. Amounts are those of all cards together. */
bool request_convert(const struct resources *effective, enum device_kind kind, uint32_t combination,
                     struct amount *ret_total, int64_t *ret_shared);

/* Validate, convert and split: the whole way for all kinds, without a detail. GPUs in HAMi's
 * dialect are left out, see hami_parse. Same results as request_validate. Division by the number of
 * cards truncates as in Koordinator; a per-card amount that would become 0 is refused. */
int request_parse(const struct resources *effective, struct pod_request *ret, struct error *err);

/* True when the pod asks for at least one device. */
bool request_any(const struct pod_request *request);

/* The same devices for the same containers, whatever is said of which: a pod's resources never
 * change, its annotations may. */
bool request_same_devices(const struct pod_request *a, const struct pod_request *b);

/* Same request in every field, details included. */
bool request_eq(const struct pod_request *a, const struct pod_request *b);

/* What the request takes from a card with this total: the named dimensions as they are, memory
 * bytes and ratio derived from each other where the card has the missing one. */
struct amount request_on_card(const struct device_request *request,
                              const struct amount *card_total);

/* One line for people: "1 gpu x 50% core, 8Gi", "2 whole gpu, 1 rdma x 100%"; "no devices". Cut at
 * `size`; returns the length written. */
size_t request_format(const struct pod_request *request, char *out, size_t size);

#endif
