/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_QUERY_H
#define HTTP_QUERY_H

#include <stdbool.h>

#include "base/str.h"

/* Find a parameter in the part of a URL behind '?' ("a=1&b"). True when it is there; *ret_value
 * (may be NULL) is its raw value, empty when it has none. Escapes are not decoded. */
bool query_find(struct str query, const char *name, struct str *ret_value);

#endif
