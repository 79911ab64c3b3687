/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include "base/arena.h"
#include "sim/trace.h"

/* The simulated cluster: what each node has left, nodes in the order that breaks ties. */
struct cluster {
    struct pack_node *nodes; /* views on free_milli */
    uint32_t count;
    int32_t *free_milli;       /* of all cards, a node's together */
    struct cluster_load *load; /* what runs on each node */
    uint64_t *changed;         /* number of the last change of each node, from 1 */
    uint64_t changes;
    int64_t used_milli, capacity_milli;
};

/* A node's size and the GPU pods on it by class: 0 shares a card, k > 0 has k whole ones. */
struct cluster_load {
    int64_t cpu_milli; /* of the empty node */
    uint32_t running[TRACE_CARDS_MAX + 1];
    uint32_t classes; /* how many of them are not 0 */
};

/* Where a pod is. */
struct place {
    uint32_t node;
    uint64_t cards; /* bits */
};

/* An empty cluster with node i of the trace at position ranks[i]. Memory is arena's. 0 or -ENOMEM.
 */
int cluster_init(struct cluster *cluster, const struct trace *trace, const uint32_t *ranks,
                 struct arena *arena);

/* The class of a GPU pod. */
uint32_t cluster_class(const struct pack_pod *pod);

/* Put a pod that fits on a node, on `card` if it shares one, else on the lowest untouched ones. */
struct place cluster_add(struct cluster *cluster, const struct pack_pod *pod, uint32_t node,
                         int32_t card);

/* Take it away again. */
void cluster_remove(struct cluster *cluster, const struct pack_pod *pod, struct place place);

#endif
