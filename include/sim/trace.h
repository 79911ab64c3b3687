/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/pack.h"

/*
 * A cluster and a list of pods, read from the CSV files of the public openb traces:
 * nodes: sn, cpu_milli, memory_mib, gpu, model; pods: name, cpu_milli, memory_mib, num_gpu,
 * gpu_milli and, if there, gpu_spec (models joined by a bar). Both are kept sorted by name.
 */
#define TRACE_CARDS_MAX 64 /* of one node, so that a set of cards is one word */

struct trace_node {
    struct str name;
    int64_t cpu_milli, memory_mib;
    uint32_t cards, model;
};

struct trace {
    struct arena memory; /* holds all of it */
    struct str models[PACK_MODELS_MAX];
    uint32_t model_count;
    struct trace_node *nodes;
    uint32_t node_count;
    struct pack_demand *specs; /* distinct pods by first appearance, weight = how many there are */
    uint32_t spec_count;
    uint32_t *pods; /* the spec of each pod */
    uint32_t pod_count;
    int64_t capacity_milli; /* of all cards */
};

/* Read both files. 0, or a negative code with FILE:LINE and a sentence; then there is nothing to
 * free. */
int trace_read(const char *nodes_path, const char *pods_path, struct trace *ret, struct error *err);

/* Free a trace; a zeroed one is fine. */
void trace_done(struct trace *trace);

/* GPU milli that a pod asks for on all its cards. */
static inline int64_t trace_demand(const struct pack_pod *pod)
{
    return (int64_t)pod->cards * pod->milli;
}

#endif
