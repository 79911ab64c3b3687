/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_OWN_POD_H
#define KUBE_OWN_POD_H

#include <stdbool.h>

#include "base/error.h"
#include "kube/client.h"

/*
 * The label by which the Service finds the one Pod of ours that leads. Only Pods of this component
 * in our own namespace are ever touched. Each call blocks for as long as the client's timeout at
 * most, a call each Pod.
 */
#define OWN_POD_LEADER_LABEL    "deviceshare.io/leader"
#define OWN_POD_COMPONENT_LABEL "app.kubernetes.io/name"
#define OWN_POD_COMPONENT       "deviceshare-extender"

struct own_pod {
    const char *ns;
    const char *name; /* of the Pod we run in */
};

/* Put the label on our own Pod, or take it off. 0 also when it was so before. -EPERM when the API
 * server forbids it, -ENOENT no such Pod, or another failure. */
int own_pod_set_leader(struct kube_client *client, const struct own_pod *own, bool leader,
                       struct error *err);

/* Take the label off every Pod of this component but our own. Pods that vanish meanwhile are fine.
 * Results as above. */
int own_pod_clear_others(struct kube_client *client, const struct own_pod *own, struct error *err);

/* Whether of all Pods of this component our own has the label, and no other. One call, which asks
 * only for those that have it. Results as above; *ret only on 0. */
int own_pod_leads_alone(struct kube_client *client, const struct own_pod *own, bool *ret,
                        struct error *err);

#endif
