/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_MODEL_RULE_H
#define CODEC_MODEL_RULE_H

#include "base/arena.h"
#include "base/error.h"
#include "codec/reader.h"
#include "core/models.h"

/* Labels that name the model of a node's cards. */
#define LABEL_GPU_MODEL   "node.koordinator.sh/gpu-model"
#define LABEL_GPU_PRODUCT "nvidia.com/gpu.product"

/* What a pod's nodeSelector and required node affinity (spec.affinity) demand of these labels. Other keys,
 * fields and operators, what is not of the type that it should be, and rules with more than
 * MODEL_NAMES_MAX names or terms say nothing. 0, or -ENOMEM. */
int model_rule_decode(const struct reader_field *selector, const struct reader_field *affinity,
                      struct arena *mem, struct model_rule *ret, struct error *err);

#endif
