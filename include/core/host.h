/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_HOST_H
#define CORE_HOST_H

#include <stdint.h>

/*
 * CPU and memory, of a node or of a pod. kube-scheduler decides about them; here they only tell a
 * policy what a node has left beside its cards. Never negative.
 */
struct host_amount {
    int64_t cpu_milli;
    int64_t memory_bytes;
};

#define HOST_CPU_MILLI_MAX    (INT64_C(1) << 40) /* of one pod or node; larger amounts count as this */
#define HOST_MEMORY_BYTES_MAX (INT64_C(1) << 45)

struct container;

/* What a pod asks for in all, by the rule of request_effective (core/request.h). Sums that leave
 * int64 stay at its end. */
struct host_amount host_effective(const struct container *containers, uint32_t count,
                                  const struct host_amount *overhead);

/* Bring an amount within the bounds above. */
void host_bound(struct host_amount *amount);

/* Add (sign 1) or take away (sign -1); stays at the ends of what is allowed. */
void host_add(struct host_amount *sum, const struct host_amount *amount, int sign);

#endif
