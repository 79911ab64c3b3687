/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pod.h"

/* FNV-1a by words, stirred so that high bits count as well. */
static uint64_t print_add(uint64_t print, uint64_t word)
{
    print = (print ^ word) * UINT64_C(0x100000001b3);
    return print ^ print >> 32;
}

static uint64_t print_resources(uint64_t print, const struct resources *resources)
{
    for (enum resource resource = 0; resource < RESOURCE_MAX; resource++)
        print = print_add(print, (uint64_t)resources->amount[resource]);
    return print;
}

uint64_t pod_request_print(const struct pod *pod)
{
    uint64_t print = print_add(UINT64_C(0xcbf29ce484222325), pod->container_count);
    for (uint32_t i = 0; i < pod->container_count; i++) {
        print = print_add(print, pod->containers[i].role);
        print = print_resources(print, &pod->containers[i].requests);
    }
    print = print_resources(print, &pod->overhead);
    for (uint32_t i = 0; i < pod->request_problem.len; i++)
        print = print_add(print, (unsigned char)pod->request_problem.data[i]);
    return print;
}
