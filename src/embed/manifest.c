/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/manifest.h"

#include "codec/extender.h"
#include "codec/reader.h"

#include <assert.h>
#include <errno.h>

static bool is_object(struct str value)
{
    return reader_type(value) == READER_OBJECT;
}

/* The object that a whole text is. */
static struct str root(struct str json)
{
    struct error unused;
    struct str value;
    int good = reader_check(json, codec_default_limits.nesting, &value, &unused);

    assert(good == 0 && is_object(value));
    return value;
}

bool manifest_metadata(struct str json, const char *name, struct str *ret_value)
{
    struct str metadata;

    return reader_find(root(json), "metadata", &metadata) && is_object(metadata) &&
           reader_find(metadata, name, ret_value);
}

bool manifest_has_containers(struct str json)
{
    struct str spec, containers;

    return reader_find(root(json), "spec", &spec) && is_object(spec) &&
           reader_find(spec, "containers", &containers) &&
           reader_type(containers) == READER_ARRAY && reader_count(containers) > 0;
}

int manifest_check_annotations(struct str json, struct arena *mem, struct error *err)
{
    struct str annotations, key, value, text;
    struct reader_iter iter;
    size_t total = 0;

    if (!manifest_metadata(json, "annotations", &annotations))
        return 0;
    if (!is_object(annotations))
        return error_set(err, -EINVAL, "metadata.annotations: must be an object");
    iter = reader_iterate(annotations);
    while (reader_next_member(&iter, &key, &value)) {
        struct error why;

        if (reader_type(value) != READER_STRING)
            return error_set(err, -EINVAL, "metadata.annotations: %.*s must be a string",
                             STR_ARG(key));
        if (reader_string(key, mem, &text, &why) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        total += text.len;
        if (reader_string(value, mem, &text, &why) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        total += text.len;
    }
    if (total > MANIFEST_ANNOTATIONS_MAX)
        return error_set(err, -EINVAL, "metadata.annotations: %zu bytes, more than %d", total,
                         MANIFEST_ANNOTATIONS_MAX);
    return 0;
}

/* ---- merge ---- */

/* The member with this key, which is JSON too. */
static bool find_member(struct str object, struct str key, struct str *ret_value)
{
    char wanted_buffer[READER_KEY_MAX], buffer[READER_KEY_MAX];
    struct str wanted = reader_key(key, wanted_buffer);
    struct reader_iter iter = reader_iterate(object);
    struct str member, value;

    while (reader_next_member(&iter, &member, &value)) {
        if (wanted.data != NULL && str_eq(reader_key(member, buffer), wanted)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static void put_key(struct strbuf *out, struct str key, uint32_t *count)
{
    if ((*count)++ > 0)
        strbuf_putc(out, ',');
    strbuf_add_str(out, key);
    strbuf_putc(out, ':');
}

static void merge_value(struct str stored, struct str manifest, struct strbuf *out);

static void merge_objects(struct str stored, struct str manifest, struct strbuf *out)
{
    struct reader_iter iter = reader_iterate(stored);
    struct str key, value, other;
    uint32_t count = 0;

    strbuf_putc(out, '{');
    while (reader_next_member(&iter, &key, &value)) {
        put_key(out, key, &count);
        if (find_member(manifest, key, &other) && reader_type(other) != READER_NULL)
            merge_value(value, other, out);
        else
            strbuf_add_str(out, value);
    }
    iter = reader_iterate(manifest);
    while (reader_next_member(&iter, &key, &value)) {
        if (reader_type(value) == READER_NULL || find_member(stored, key, &other))
            continue;
        put_key(out, key, &count);
        strbuf_add_str(out, value);
    }
    strbuf_putc(out, '}');
}

/* Recursion is bounded by the nesting that root() accepted. */
static void merge_value(struct str stored, struct str manifest, struct strbuf *out)
{
    if (is_object(stored) && is_object(manifest))
        merge_objects(stored, manifest, out);
    else
        strbuf_add_str(out, manifest);
}

void manifest_merge(struct str stored, struct str manifest, struct strbuf *out)
{
    merge_objects(root(stored), root(manifest), out);
}
