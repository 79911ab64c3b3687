/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_AMOUNT_H
#define CODEC_AMOUNT_H

#include "base/error.h"
#include "codec/reader.h"
#include "core/device.h"

/* Read a map of resource names to quantities as an amount of a card of `kind`; for the files of
 * this layer only. Unknown names are skipped, a current name wins over its deprecated one, a
 * missing map is zero. -EINVAL for what is no quantity, negative, or past the bounds of
 * core/device.h; the path begins with the field's name. */
int amount_decode(enum device_kind kind, const struct reader_field *resources, struct amount *ret,
                  struct error *err);

#endif
