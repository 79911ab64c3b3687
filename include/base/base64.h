/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stdbool.h>

#include "base/str.h"
#include "base/strbuf.h"

/* Append the bytes that `text` stands for: RFC 4648's standard alphabet with padding; line ends
 * (\r, \n) anywhere are passed over, all else is strict. False when it is not that, with `out` as
 * it was. When memory ends the result is true and out->failed is set. */
bool base64_decode(struct str text, struct strbuf *out);

#endif
