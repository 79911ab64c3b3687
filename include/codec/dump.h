/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_DUMP_H
#define CODEC_DUMP_H

#include "base/strbuf.h"
#include "core/device.h"

/* Small JSON pieces for the debug endpoints. */

/* Append an amount of a card as {"koordinator.sh/gpu-core":100,...}: integers, zero dimensions left out. */
void dump_amount(enum device_kind kind, const struct amount *amount, struct strbuf *out);

#endif
