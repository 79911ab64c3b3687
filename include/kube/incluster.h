/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_INCLUSTER_H
#define KUBE_INCLUSTER_H

#include "base/api_access.h"
#include "base/arena.h"
#include "base/error.h"

/* Access of the service account of the pod we run in: KUBERNETES_SERVICE_HOST and _PORT (IPv6 hosts
 * get brackets) and the files token, ca.crt, namespace below `dir` (NULL =
 * /var/run/secrets/kubernetes.io/serviceaccount). -ENOENT with a sentence when we run in no pod. */
int incluster_access(const char *dir, struct arena *mem, struct api_access *ret, struct error *err);

#endif
