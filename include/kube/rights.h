/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_RIGHTS_H
#define KUBE_RIGHTS_H

#include "base/strbuf.h"
#include "kube/client.h"

/* Ask by SelfSubjectAccessReview for each right that the daemon needs (one table row each: list and
 * watch of nodes, devices and pods, get pods, create pods/binding, patch pods if waking is on,
 * leases in our namespace if electing, list and patch of our own pods). Missing ones are appended
 * to `missing`, "verb resource.group" joined by ", ". 0, or negative when the API server could not
 * be asked: -EPERM when it does not even let us ask. */
struct rights_wanted {
    const char *ns; /* our own namespace */
    bool wake, elect, label_own_pod, namespaces;
};
int rights_check(struct kube_client *client, const struct rights_wanted *wanted,
                 struct strbuf *missing, struct error *err);

#endif
