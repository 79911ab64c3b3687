/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_QUANTITY_H
#define CORE_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/*
 * Kubernetes resource quantities, exact, without floating point. Grammar (apimachinery
 * pkg/api/resource/quantity.go): sign? digits ("." digits?)? | sign? "." digits, then nothing, a
 * binary suffix Ki Mi Gi Ti Pi Ei, a decimal suffix n u m k M G T P E, or an exponent e|E sign?
 * digits.
 */

/* Longest canonical text of an int64 quantity with its NUL. */
#define QUANTITY_TEXT_MAX 24

/* The value of `text` as a whole number, fractions rounded away from zero as Kubernetes' Value()
 * does ("0.5" and "500m" are 1). A value outside int64 and text outside the grammar are refused
 * with -ERANGE or -EINVAL and a sentence that quotes the text. */
int quantity_parse(struct str text, int64_t *ret_value, struct error *err);

/* The same in thousandths, as Kubernetes' MilliValue() has it: "0.5" and "500m" are 500. With a binary
 * suffix it is rounded to a whole number first. */
int quantity_parse_milli(struct str text, int64_t *ret_value, struct error *err);

/* Write the canonical binary-suffix text of bytes (Kubernetes BinarySI: 8589934592 is "8Gi",
 * 1536 is "1536", because 1.5Ki is not whole) with a NUL. Returns the length. */
size_t quantity_format_binary(int64_t value, char out[QUANTITY_TEXT_MAX]);

/* Write the canonical decimal-suffix text (Kubernetes DecimalSI: 100 is "100", 1000 is "1k", 0
 * is "0") with a NUL. Returns the length. */
size_t quantity_format_decimal(int64_t value, char out[QUANTITY_TEXT_MAX]);

#endif
