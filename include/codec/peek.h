/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_PEEK_H
#define CODEC_PEEK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * A glance at who an object is, at a small part of the price of reading it. A resourceVersion is opaque
 * but for one thing: the same object with the same version is the same. It is kept as a number
 * because it is one everywhere.
 */

/* The number that this is the only way to write; 0 if it is none, or does not fit. */
uint64_t peek_version(struct str text);

/* metadata.uid and metadata.resourceVersion of an object's text that begins as API servers write items
 * of a list. False: that is not so, and the object must be read. The text need not have been checked,
 * and what is behind these two is not looked at. */
bool peek_object(struct str json, struct str *ret_uid, uint64_t *ret_version);

#endif
