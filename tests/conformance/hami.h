/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFORMANCE_HAMI_H
#define CONFORMANCE_HAMI_H

#include "core/hami.h"
#include "core/pod.h"
#include "runner.h"

/* What the operations on HAMi's vectors share: from HAMi's notation to the project's structures. */

/* A node's devices in columns, and what the vector says of each. */
struct hami_cards {
    struct card_copy *cards; /* in the vector's memory */
    json_object *devices;
};

/* Read a list of devices: one card each, the minor is the place in the list. False: not supported.
 */
bool hami_read_cards(struct vector *v, json_object *devices, struct hami_cards *ret);

/* A pod whose containers ask for what parsed requests ask for ("gpus", "mem", "mem_pct", "cores"),
 * through a Pod object and its decoder. `init` and `app` are lists or NULL. False: not supported,
 * or failed. */
bool hami_ask(struct vector *v, json_object *annotations, json_object *init, json_object *app,
              struct pod *ret_pod, struct pod_request *ret);

/* The same for one container as its owner writes it ("limits", "requests"). */
bool hami_ask_written(struct vector *v, json_object *container, struct pod *ret);

/* A member as a whole number, 0 if absent. */
int64_t hami_number(json_object *object, const char *key);

extern const struct op hami_value_ops[], hami_place_ops[];

/* The vectors of the file that runs, for records that refer to others. */
extern json_object *hami_vectors;

/* Why a vector is not in scope, or NULL: a feature of HAMi that is not here, or another scheduler.
 */
const char *hami_out_of_scope(json_object *vector);

#endif
