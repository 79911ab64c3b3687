/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/strbuf.h"
#include "core/extender.h"
#include "sched/sched.h"

/*
 * What the benchmarks from inside share. Each prints samples, one a line: a name, a tab, a number;
 * bench.py makes the table. A benchmark looks at its answers before it measures and ends the program
 * when one is wrong.
 */

#define FLEET_CARDS 8 /* a node, of 80 GiB */

/* How much is measured. */
struct scale {
    uint32_t nodes;
    uint32_t pods;   /* booked, a tenth of a card each */
    uint32_t rounds; /* samples */
    uint32_t calls;  /* a sample */
};

/* Nanoseconds of processor time of this thread, or of this process. */
int64_t thread_cpu_ns(void);
int64_t process_cpu_ns(void);

/* Print one sample. */
void sample(const char *name, double value);

/* End the program with a sentence if `right` is false. */
void must(bool right, const char *sentence);

/* ---- objects: tests/bench/objects, with their marks filled in ---- */

enum object_file { OBJECT_FILE_NODE, OBJECT_FILE_DEVICE, OBJECT_FILE_RUNNING, OBJECT_FILE_PENDING };

/* Read the files; `directory` is tests/bench/objects. */
void objects_open(const char *directory);

/* Append object `number` of this kind. A running pod is on node number % nodes. */
void object_write(enum object_file file, uint32_t number, uint32_t nodes, struct strbuf *out);

/* Append "gpu-pool-a-node-00042", or the uid of pod `number`. */
void node_name_write(uint32_t number, struct strbuf *out);
void pod_uid_write(uint32_t number, struct strbuf *out);

/* ---- a fleet in memory ---- */

struct fleet {
    struct cache *cache;
    struct sched sched;
    uint32_t nodes, pods;
};

/* Nodes, their cards and running pods, told as a reflector tells them: as JSON. The port may be zero. */
void fleet_fill(struct fleet *fleet, const struct scale *scale, struct port port);

/* Free it. */
void fleet_done(struct fleet *fleet);

/* The JSON of one object, as listed_table knows it, arrives. */
void fleet_tell(struct fleet *fleet, enum cache_listed kind, struct str json);

/* Make kube-scheduler's call about pending pod `number` with these candidates; `limits` are resources
 * ("\"koordinator.sh/gpu-core\":\"10\"..."), NULL = those of the object file. */
void call_write(uint32_t number, uint32_t nodes, const char *limits, struct strbuf *out);

/* What a request may be, as resources: fits on every node; a whole card, which no node has where every
 * card has a pod; eight cards nearly whole. */
#define LIMITS_WHOLE "\"nvidia.com/gpu\":\"1\""
#define LIMITS_EIGHT "\"koordinator.sh/gpu-core\":\"680\",\"koordinator.sh/gpu-memory-ratio\":\"680\"," \
                     "\"koordinator.sh/gpu.shared\":\"8\""

/* ---- the benchmarks ---- */

void bench_scan(const struct scale *scale);
void bench_verbs(const struct scale *scale);
void bench_bind(const struct scale *scale);
void bench_events(const struct scale *scale);
void bench_cycles(const struct scale *scale);
void bench_locks(const struct scale *scale);

/* Receive the lists of an API server page by page and throw them away. */
void bench_drain(const char *kubeconfig, uint32_t rounds);

#endif
