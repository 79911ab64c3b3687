/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_POD_H
#define CODEC_POD_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/pod.h"

/* Read a Pod from a value that reader_check() accepted; for the files of this layer only. Errors
 * begin with the path inside the Pod, or with ": " when it is no object. An unreadable
 * device-allocated annotation is no error but pod->annotation, and a device quantity that 64 bits do
 * not hold is none but pod->request_problem. `err` must not be NULL. */
int pod_decode(struct str value, struct arena *mem, struct pod *ret, struct error *err);

/* The same without what it asks for. */
int pod_decode_place(struct str value, struct arena *mem, struct pod *ret, struct error *err);

#endif
