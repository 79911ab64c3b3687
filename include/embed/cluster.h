/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMBED_CLUSTER_H
#define EMBED_CLUSTER_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "sched/port.h"
#include "sched/sched.h"

/*
 * The embedded cluster: the second implementation of the outward port, for trying, tests and
 * simulation. It holds Node, Device and Pod objects as JSON text, loaded from the same
 * multi-document YAML (or JSON) that kubectl takes, does what an API server does to them (UIDs,
 * defaults, bindings with the UID as precondition), and tells sched about every change. One mutex
 * orders changes and the events about them, so sched hears of each object's changes in their order;
 * sched calls in through the port only while it holds no lock.
 */
struct cluster;

/* A new, empty cluster; NULL when memory ends. */
struct cluster *cluster_new(void);

/* Free it, after every thread that used it. NULL is fine. */
void cluster_free(struct cluster *cluster);

/* The outward port onto this cluster (borrowed). */
struct port cluster_port(struct cluster *cluster);

/* Whom to tell about changes. Call once, before the first object. */
void cluster_attach(struct cluster *cluster, struct sched *sched);

/* Create or replace the objects of a text of one or more YAML documents or JSON (Lists are opened
 * up), like kubectl apply: an object with the same kind, namespace and name keeps its UID, and what
 * a Pod's manifest leaves out stays as it is (node, annotations, phase). All or nothing per text:
 * on an error nothing of it is applied. Order inside a text does not matter: sched hears of nodes,
 * then devices, then pods, and no object may come twice. Changing spec.nodeName, device requests or
 * a phase that was the last of a pod that exists is refused, as an API server or kubelet would.
 * *ret_count (may be NULL) = objects. -EINVAL with "SOURCE:LINE: KIND NAME: field: ..." or
 * "SOURCE:LINE:COLUMN: ..." in err; -ENOMEM also when all is stored but sched could not take it:
 * apply again. Other kinds are refused. */
int cluster_apply(struct cluster *cluster, struct str text, const char *source, uint32_t *ret_count,
                  struct error *err);

/* cluster_apply for a file, or for each *.yaml, *.yml and *.json of a directory in name order;
 * hidden files are left out. A file that fails leaves those before it applied. -ENOENT, -EIO, or as
 * cluster_apply. */
int cluster_load(struct cluster *cluster, const char *path, uint32_t *ret_count, struct error *err);

/* Delete an object by kind ("Node", "Device", "Pod"), namespace ("" for the first two) and name.
 * -ENOENT. */
int cluster_delete(struct cluster *cluster, struct str kind, struct str ns, struct str name,
                   struct error *err);

/* Everything it holds as one JSON v1 List, or as YAML documents; what cluster_apply reads back.
 * Order: Nodes, Devices, Pods, each in creation order. */
int cluster_dump_json(struct cluster *cluster, struct strbuf *out, struct error *err);
int cluster_dump_yaml(struct cluster *cluster, struct strbuf *out, struct error *err);

#endif
