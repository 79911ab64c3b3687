/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_HOST_H
#define CODEC_HOST_H

#include <stdbool.h>

#include "codec/reader.h"
#include "core/host.h"

/* Read "cpu" and "memory" of a map of quantities; for the files of this layer only. They are nobody's
 * error here: what is missing, negative or no quantity is 0, what 64 bits do not hold is their end. */
struct host_amount host_amount_decode(const struct reader_field *map);

/* Replace what a map of quantities names: a pod's own amounts count instead of its containers'. */
void host_amount_override(const struct reader_field *map, struct host_amount *amount);

#endif
