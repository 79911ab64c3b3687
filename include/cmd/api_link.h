/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_API_LINK_H
#define CMD_API_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "config/config.h"
#include "sched/sched.h"

/*
 * Everything between the daemon and a real API server: credentials, the binding port, the reflectors, the
 * election and the housekeeping thread, built from the configuration and started in that order.
 */
struct api_link;

/* Read the credentials and open the outward port; nothing runs yet. `config` is borrowed. -EINVAL or what the
 * parts say. */
int api_link_new(const struct config *config, struct api_link **ret, struct error *err);

/* The outward port, for sched_init. */
struct port api_link_port(struct api_link *link);

/* Check the rights, begin to follow the cluster, stand for election, keep house. */
int api_link_start(struct api_link *link, struct sched *sched, struct error *err);

/* May this replica answer verbs once it leads: all lists are complete and no right is missing. If not, what it
 * waits for is written to `out`. */
bool api_link_synced(struct api_link *link, char *out, size_t size);

/* Who leads, and whether bindings may go out: one line for people. */
void api_link_leader(struct api_link *link, char *out, size_t size);

/* Stop following, give up the Lease (with the mark of a clean stop when no binding is under way or unknown),
 * join every thread. Call after the server has drained. NULL is fine. */
void api_link_stop(struct api_link *link);

/* Free what is left; after api_link_stop. NULL is fine. */
void api_link_free(struct api_link *link);

#endif
