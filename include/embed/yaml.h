/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMBED_YAML_H
#define EMBED_YAML_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

/* YAML as Kubernetes uses it (the JSON subset: sigs.k8s.io/yaml) to JSON text and back. */

/* One document of a stream as JSON text (in the arena) with the line it began on. */
struct yaml_document {
    struct str json;
    uint32_t line;
};

/* Convert each document of `text`; empty documents are left out. Plain scalars become null,
 * booleans (true and false only, not yes or on), numbers or strings by the YAML 1.2 core schema,
 * but a leading zero means octal, as in kubectl (embed/scalar.h); quoted ones are strings. Text
 * that is JSON is read as such. Duplicate keys, non-scalar keys, aliases (and so cycles and
 * expansion bombs), merge keys, tags, depth over 64 and more than 64 MiB are refused: -EINVAL with
 * "SOURCE:LINE:COLUMN: sentence". */
int yaml_to_json(struct str text, const char *source, struct arena *mem,
                 struct yaml_document **ret_documents, uint32_t *ret_count, struct error *err);

/* Append one JSON text as a block-style YAML document, beginning with "---\n". Strings that would
 * read back as something else, here or in an older YAML, are quoted. -EINVAL when it is not JSON;
 * nothing is appended on failure. */
int yaml_from_json(struct str json, struct strbuf *out, struct error *err);

#endif
