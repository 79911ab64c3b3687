/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_EMBEDDED_ROUTES_H
#define CMD_EMBEDDED_ROUTES_H

#include <stdint.h>

#include "embed/cluster.h"
#include "http/server.h"

/*
 * The embedded cluster over HTTP, for peers on this machine only (403 for others):
 *
 *   GET    /embedded/manifests             all objects as YAML; ?format=json: as a v1 List
 *   POST   /embedded/manifests             apply YAML or JSON: {"applied":N}
 *   DELETE /embedded/nodes/NAME   /embedded/devices/NAME   /embedded/pods/NAMESPACE/NAME
 */
#define EMBEDDED_ROUTES_MAX 8

/* Fill `routes` (room for EMBEDDED_ROUTES_MAX); returns their number. */
uint32_t embedded_routes(struct cluster *cluster, struct http_route *routes);

#endif
