/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/pack.h"

/*
 * A cluster and a list of pods: what an experiment is made on. They come from two files, each in the
 * CSV of the public openb traces (sim/trace_csv.h) or in a format that the caller brings along: the
 * simulator knows cards and their thousandths, and nothing of how a format says so.
 */
#define TRACE_CARDS_MAX 64 /* of one node, so that a set of cards is one word */

struct trace_node {
    struct str name;
    int64_t cpu_milli, memory_mib;
    uint32_t cards, model;
};

/* A pod as it is read. */
struct trace_pod {
    struct str name;
    struct str list;     /* the models that it is bound to, as a text by which specs are ordered; empty: none */
    struct pack_pod pod; /* without its list */
};

/* The memory of one card of a model, in bytes: the smallest and the largest that came. */
struct trace_memory {
    int64_t least, most; /* 0: not told */
};

struct trace {
    struct arena memory; /* holds all of it */
    struct str models[PACK_MODELS_MAX];
    struct trace_memory card_bytes[PACK_MODELS_MAX];
    uint32_t model_count;
    struct trace_node *nodes; /* sorted by name */
    uint32_t node_count;
    struct pack_demand *specs; /* distinct pods by first appearance, weight = how many there are */
    uint32_t spec_count;
    uint32_t *pods; /* the spec of each pod, in the order of their names */
    uint32_t pod_count;
    int64_t capacity_milli; /* of all cards */
};

/*
 * A format: reads a text, which lies in the trace's memory, into the trace by the functions below.
 * Nodes are read first. 0, or a negative code with "PATH:LINE: " or "PATH: " and a sentence.
 */
struct trace_format {
    int (*read_nodes)(struct trace *trace, struct str text, const char *path, struct error *err);
    int (*read_pods)(struct trace *trace, struct str text, const char *path, struct error *err);
};

/* Read both files, at most 64 MiB each. One whose text begins as YAML or JSON, and not as a header
 * line of CSV, is `other`'s; NULL: all are CSV. 0, or a negative code with the file, the line and a
 * sentence; then there is nothing to free. */
int trace_read(const char *nodes_path, const char *pods_path, const struct trace_format *other,
               struct trace *ret, struct error *err);

/* Free a trace; a zeroed one is fine. */
void trace_done(struct trace *trace);

/* The number of a model, a new one if it is the first of its name, which is copied. -EINVAL when there
 * are PACK_MODELS_MAX others, -ENOMEM. */
int trace_model(struct trace *trace, struct str name, struct error *err);

/* The number of a model that is there, or -1. */
int trace_find_model(const struct trace *trace, struct str name);

/* Take over the nodes, which lie with their names in the trace's memory, and sort them. -EINVAL when
 * they have no card. */
int trace_set_nodes(struct trace *trace, struct trace_node *nodes, uint32_t count,
                    struct error *err);

/* The same with pods, sorted and counted by what they ask for. -EINVAL when there are none, -ENOMEM. */
int trace_set_pods(struct trace *trace, struct trace_pod *pods, uint32_t count, struct error *err);

/* GPU milli that a pod asks for on all its cards. */
static inline int64_t trace_demand(const struct pack_pod *pod)
{
    return (int64_t)pod->cards * pod->milli;
}

#endif
