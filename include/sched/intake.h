/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCHED_INTAKE_H
#define SCHED_INTAKE_H

#include "base/error.h"
#include "core/pod.h"
#include "core/request.h"

/* A pod's device request in unified form, from what its containers ask for: 0, or -EINVAL/-ERANGE with the
 * text for its owner in err (the same for every call). */
int intake_request(const struct pod *pod, struct pod_request *ret, struct error *err);

#endif
