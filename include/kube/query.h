/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_QUERY_H
#define KUBE_QUERY_H

#include "base/str.h"
#include "base/strbuf.h"

/* Append a text as a value in a URL's query: all but RFC 3986's unreserved characters as %XX. */
void query_escape(struct strbuf *out, struct str text);

#endif
