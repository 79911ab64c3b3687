/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_CACHE_TEXT_H
#define SUPPORT_CACHE_TEXT_H

#include "base/strbuf.h"
#include "state/cache.h"

/* Append the whole state as text in an order that depends on names only: nodes by name, their cards, their
 * pods with charges, and the counters. Two caches in the same state give the same text. */
void cache_text(struct cache *cache, struct strbuf *out);

/* The same for one node; nothing when it is not known. */
void cache_text_node(struct cache *cache, struct str name, struct strbuf *out);

#endif
