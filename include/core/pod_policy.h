/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_POD_POLICY_H
#define CORE_POD_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "core/policy.h"

/* What a pod itself says of where it wants to go. */

#define ANNOTATION_NODE_POLICY          "deviceshare.io/node-policy"
#define ANNOTATION_DEVICE_POLICY        "deviceshare.io/device-policy"
#define ANNOTATION_NODE_POLICY_STRENGTH "deviceshare.io/node-policy-strength"
#define ANNOTATION_HAMI_NODE_POLICY     "hami.io/node-scheduler-policy"
#define ANNOTATION_HAMI_DEVICE_POLICY   "hami.io/gpu-scheduler-policy"

/* How much the node policy weighs: by its scores, or by leaving out the nodes that it does not rank
 * first. */
enum policy_strength { STRENGTH_UNSAID, STRENGTH_PREFER, STRENGTH_REQUIRE };

/* The values of these annotations; data NULL where there is none. */
struct policy_words {
    struct str node, device, strength;
    struct str hami_node, hami_device;
};

/* The same understood. NULL and STRENGTH_UNSAID leave it to the configuration. */
struct pod_policy {
    const struct node_policy *node;
    const struct device_policy *device;
    enum policy_strength strength;
    bool invalid; /* the words are no policy: their owner must mend them */
};

/* Understand the words. -EINVAL when one of our own annotations has an unknown value, or says another
 * thing than HAMi's beside it: err names them, and *ret is then `invalid` and says nothing else. HAMi's
 * annotations have more words than ours; those mean nothing here: *ret_ignored counts them. */
int pod_policy_read(const struct policy_words *words, struct pod_policy *ret, uint32_t *ret_ignored,
                    struct error *err);

/* What the pod does not say is as `more` has it; nothing of a policy that is invalid. */
void pod_policy_fill(struct pod_policy *policy, const struct pod_policy *more);

/* The strength called `name` (prefer, require), or STRENGTH_UNSAID. */
enum policy_strength policy_strength_find(struct str name);

/* "prefer|require", for error texts and docs. */
const char *policy_strength_names(void);

#endif
