/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCHED_INTAKE_H
#define SCHED_INTAKE_H

#include "base/error.h"
#include "core/hami.h"
#include "core/pod.h"
#include "core/pod_policy.h"
#include "core/request.h"

/* A pod's device request in unified form, from what its containers ask for, HAMi's dialect by these
 * rules: 0, or -EINVAL/-ERANGE with the text for its owner in err (the same for every call). Its
 * detail is in pod->room. */
int intake_request(const struct pod *pod, const struct hami_rules *rules, struct pod_request *ret,
                   struct error *err);

/* What a pod's annotations say of where it wants to go, see pod_policy_read: 0, or -EINVAL with the text for
 * its owner in err and *ret invalid. Words of HAMi's that mean nothing here are counted. */
int intake_policy(const struct pod *pod, struct pod_policy *ret, struct error *err);

/* Set repeated[i] where names[i] came before; others stay as they are. 0 or -ENOMEM. */
int intake_repeated(const struct str *names, uint32_t count, bool *repeated);

#endif
