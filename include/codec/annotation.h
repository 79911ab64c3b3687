/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_ANNOTATION_H
#define CODEC_ANNOTATION_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "core/device.h"
#include "core/extender.h"

/*
 * The annotation scheduling.koordinator.sh/device-allocated, byte for byte as Koordinator marshals it
 * (apis/extension/device_share.go): types sorted, per entry minor, resources (names sorted, canonical
 * quantities, always quoted), id; no blanks.
 */
#define ANNOTATION_DEVICE_ALLOCATED "scheduling.koordinator.sh/device-allocated"
#define ANNOTATION_VISIBLE_DEVICES "deviceshare.io/visible-devices"

/* Read an annotation. Amounts may be quoted or numbers; unknown types, unknown resources and
 * extensions but for ours are skipped; deprecated resource names are understood; entries of one
 * card are added up. On success *ret_shares (in `mem`) are sorted by kind and minor. -EINVAL with a
 * sentence when it is not of the right shape, an amount is negative or past the bounds of
 * core/device.h, or more than CARDS_PER_POD_MAX cards are named. ids are not needed and not
 * returned. */
int annotation_parse(struct str text, struct arena *mem, const struct share **ret_shares,
                     uint32_t *ret_count, struct error *err);

/* Append the annotation's value for a placement. Zero amounts are left out, but for a GPU's second
 * memory figure: a ratio that rounded down to 0 stands there as "0". Where more than one container
 * of the pod uses the card, "extension" tells how many, as deviceshare.io/containers. */
void annotation_format(const struct placement *placement, struct strbuf *out);

/* Append the value of deviceshare.io/visible-devices: ids of the GPUs joined by commas, or their minors if
 * any of them has no id. Nothing when the placement has no GPU. */
void annotation_format_visible(const struct placement *placement, struct strbuf *out);

#endif
