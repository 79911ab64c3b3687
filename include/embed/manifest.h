/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMBED_MANIFEST_H
#define EMBED_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

/* Looks into an object's JSON text that need no decoder of its kind. The texts are well-formed JSON
 * objects. */

/* What an API server allows for all annotations of an object together, keys and values. */
#define MANIFEST_ANNOTATIONS_MAX (256 * 1024)

/* The value (JSON) of "metadata" / `name`; false when it is missing or null. */
bool manifest_metadata(struct str json, const char *name, struct str *ret_value);

/* True when "spec" / "containers" has at least one item. */
bool manifest_has_containers(struct str json);

/* -EINVAL when the annotations are larger than MANIFEST_ANNOTATIONS_MAX or not a map of strings;
 * -ENOMEM. */
int manifest_check_annotations(struct str json, struct arena *mem, struct error *err);

/* Append `stored` with the fields of `manifest` laid over it: objects are merged member by member,
 * all else (lists too) is replaced, and what the manifest leaves out or sets to null stays. */
void manifest_merge(struct str stored, struct str manifest, struct strbuf *out);

#endif
