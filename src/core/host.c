/* SPDX-License-Identifier: Apache-2.0 */
#include "core/host.h"

#include "core/request.h"

static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t subtract(int64_t from, int64_t amount)
{
    return from > amount ? from - amount : 0;
}

void host_add(struct host_amount *sum, const struct host_amount *amount, int sign)
{
    sum->cpu_milli = sign > 0 ? add(sum->cpu_milli, amount->cpu_milli)
                              : subtract(sum->cpu_milli, amount->cpu_milli);
    sum->memory_bytes = sign > 0 ? add(sum->memory_bytes, amount->memory_bytes)
                                 : subtract(sum->memory_bytes, amount->memory_bytes);
}

void host_bound(struct host_amount *amount)
{
    if (amount->cpu_milli > HOST_CPU_MILLI_MAX)
        amount->cpu_milli = HOST_CPU_MILLI_MAX;
    if (amount->memory_bytes > HOST_MEMORY_BYTES_MAX)
        amount->memory_bytes = HOST_MEMORY_BYTES_MAX;
}

static void raise_to(struct host_amount *highest, const struct host_amount *candidate)
{
    if (candidate->cpu_milli > highest->cpu_milli)
        highest->cpu_milli = candidate->cpu_milli;
    if (candidate->memory_bytes > highest->memory_bytes)
        highest->memory_bytes = candidate->memory_bytes;
}

struct host_amount host_effective(const struct container *containers, uint32_t count,
                                  const struct host_amount *overhead)
{
    struct host_amount running = {0}, sidecars = {0}, start_up = {0};
    for (uint32_t i = 0; i < count; i++) {
        const struct container *container = &containers[i];
        if (container->role == CONTAINER_INIT) {
            struct host_amount need = sidecars;
            host_add(&need, &container->host, 1);
            raise_to(&start_up, &need);
            continue;
        }
        host_add(&running, &container->host, 1);
        if (container->role == CONTAINER_SIDECAR)
            host_add(&sidecars, &container->host, 1);
    }
    raise_to(&running, &start_up);
    host_add(&running, overhead, 1);
    return running;
}
