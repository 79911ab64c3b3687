/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_DEVICE_LINKS_H
#define CODEC_DEVICE_LINKS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "codec/reader.h"
#include "core/links.h"

/*
 * What a Device object tells of the links between its GPUs: the topology of each entry, and the table of
 * partitions in an annotation. Nobody must lose a card over it: what cannot be read is not told.
 */

#define ANNOTATION_GPU_PARTITIONS "scheduling.koordinator.sh/gpu-partitions"

/* Where one GPU sits. */
struct device_place {
    int32_t minor;
    int32_t numa;    /* -1: not told */
    struct str pcie; /* empty: not told */
};

/* The `topology` of an entry; minor of *ret stays. A field of another type is one that is not there.
 * 0, or -ENOMEM. */
int device_place_decode(const struct reader_field *topology, struct arena *mem,
                        struct device_place *ret, struct error *err);

/* Groups by the places of `count` GPUs and by the table of partitions (data NULL: none). Cards with a
 * minor of LINK_CARDS_MAX or more are in no group; groups of one card, and those past LINKS_MAX, are left
 * out. -EINVAL with a sentence when the table cannot be read: *ret then holds the rest. -ENOMEM with *ret
 * untouched. */
int device_links_make(const struct device_place *places, uint32_t count, struct str table,
                      struct arena *mem, struct links *ret, struct error *err);

#endif
