/* SPDX-License-Identifier: Apache-2.0 */
#include "refusing_port.h"

#include <errno.h>

static int get_no_pod(void *self, const struct pod_id *id, struct arena *mem, struct pod *ret,
                      struct error *err)
{
    (void)self, (void)id, (void)mem, (void)ret;
    return error_set(err, -ENOENT, "not found");
}

static enum bind_outcome bind_nothing(void *self, const struct binding *binding, struct error *err)
{
    (void)self, (void)binding;
    error_set(err, -EIO, "refused");
    return BIND_REFUSED;
}

struct port refusing_port(void)
{
    return (struct port){.get_pod = get_no_pod, .bind_pod = bind_nothing};
}
