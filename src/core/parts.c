/* SPDX-License-Identifier: Apache-2.0 */
/* What the containers of a pod come to on one card. */
#include <stddef.h>

#include "core/allocate.h"

/* What is taken at one time, and by how many containers. */
struct moment {
    struct amount amount;
    uint32_t users;
};

static void add(struct moment *moment, const struct amount *more)
{
    moment->amount.percent += more->percent;
    moment->amount.ratio += more->ratio;
    moment->amount.bytes += more->bytes;
    moment->users++;
}

static void raise_to(struct moment *most, const struct moment *moment)
{
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        if (amount_get(&moment->amount, dim) > amount_get(&most->amount, dim))
            amount_set(&most->amount, dim, amount_get(&moment->amount, dim));
    if (moment->users > most->users)
        most->users = moment->users;
}

bool parts_peak(const struct part *parts, uint32_t count, int32_t minor, struct share *ret)
{
    struct moment running = {0}, sidecars = {0}, start = {0}, most = {0};
    const struct part *starting = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct part *part = &parts[i];
        if (part->minor != minor)
            continue;
        if (part->role == CONTAINER_INIT) {
            if (starting == NULL || starting->container != part->container)
                start = sidecars;
            starting = part;
            add(&start, &part->amount);
            raise_to(&most, &start);
            continue;
        }
        add(&running, &part->amount);
        if (part->role == CONTAINER_SIDECAR)
            add(&sidecars, &part->amount);
    }
    raise_to(&most, &running);
    if (most.users == 0)
        return false;
    *ret = (struct share){
        .kind = DEVICE_GPU, .minor = minor, .amount = most.amount, .beside = most.users - 1};
    return true;
}
