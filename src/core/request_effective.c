/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod asks for in all, from what its containers ask for. */
#include "core/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

/* Koordinator's, of a resource and its value. */
#define UNIT_SENTENCE "invalid resource unit %s: %" PRId64

static int add(struct resources *sum, const struct resources *more, struct error *err)
{
    for (enum resource r = 0; r < RESOURCE_MAX; r++) {
        int64_t before = sum->amount[r];
        if (__builtin_add_overflow(before, more->amount[r], &sum->amount[r]))
            return error_set(err, -ERANGE,
                             UNIT_SENTENCE ": %s %" PRId64 " and %" PRId64
                                           " more do not fit 64 bits",
                             resource_name(r), before, resource_name(r), before, more->amount[r]);
    }
    return 0;
}

static void raise_to(struct resources *highest, const struct resources *candidate)
{
    for (enum resource r = 0; r < RESOURCE_MAX; r++)
        if (candidate->amount[r] > highest->amount[r])
            highest->amount[r] = candidate->amount[r];
}

static int refuse_negative(struct str owner, const struct resources *amounts, struct error *err)
{
    for (enum resource r = 0; r < RESOURCE_MAX; r++)
        if (amounts->amount[r] < 0)
            return error_set(err, -EINVAL, UNIT_SENTENCE ": %s %" PRId64 " of %.*s is negative",
                             resource_name(r), amounts->amount[r], resource_name(r),
                             amounts->amount[r], STR_ARG(owner));
    return 0;
}

int request_effective(const struct container *containers, uint32_t count,
                      const struct resources *overhead, struct resources *ret, struct error *err)
{
    struct resources running = {0};  /* app containers and sidecars, side by side */
    struct resources sidecars = {0}; /* the sidecars started so far */
    struct resources start_up = {0}; /* the highest need of any init container */
    int r = 0;

    for (uint32_t i = 0; i < count && r == 0; i++) {
        const struct container *c = &containers[i];
        r = refuse_negative(c->name, &c->requests, err);
        if (r == 0 && c->role != CONTAINER_INIT)
            r = add(&running, &c->requests, err);
        if (r == 0 && c->role == CONTAINER_SIDECAR)
            r = add(&sidecars, &c->requests, err);
        if (r == 0 && c->role == CONTAINER_INIT) {
            struct resources need = sidecars;
            r = add(&need, &c->requests, err);
            raise_to(&start_up, &need);
        }
    }
    raise_to(&running, &start_up);
    if (r == 0 && overhead != NULL)
        r = refuse_negative(STR("overhead"), overhead, err);
    if (r == 0 && overhead != NULL)
        r = add(&running, overhead, err);
    if (r == 0)
        *ret = running;
    return r;
}

bool resources_any(const struct resources *amounts)
{
    for (enum resource r = 0; r < RESOURCE_MAX; r++)
        if (amounts->amount[r] != 0)
            return true;
    return false;
}
