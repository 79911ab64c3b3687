/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/manifest.h"

#include "base/map.h"
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

/* The members of an object by key. */
struct members {
    struct str object;
    struct map place;   /* bytes from the object's start to the value */
    struct arena texts; /* of keys that had to be unescaped */
};

/* Users choose how many members there are: searching one by one would take hours for a large text.
 */
static int members_index(struct members *members, struct str object)
{
    struct reader_iter iter = reader_iterate(object);
    char buffer[READER_KEY_MAX];
    struct str member, value;
    int result = 0;

    members->object = object;
    map_init(&members->place);
    arena_init(&members->texts, 0);
    while (result == 0 && reader_next_member(&iter, &member, &value)) {
        struct str key = reader_key(member, buffer);

        if (key.data == NULL)
            continue; /* too long: such keys are refused later, here they equal none */
        if (key.data == buffer)
            key = arena_str(&members->texts, key);
        if (key.data == NULL)
            return -ENOMEM;
        result = map_put(&members->place, key, (uint32_t)(value.data - object.data));
    }
    return result;
}

static void members_done(struct members *members)
{
    map_done(&members->place);
    arena_done(&members->texts);
}

/* The member with this key, which is JSON too. */
static bool members_find(const struct members *members, struct str key, struct str *ret_value)
{
    char buffer[READER_KEY_MAX];
    struct str wanted = reader_key(key, buffer);
    uint32_t place = wanted.data != NULL ? map_get(&members->place, wanted) : MAP_NONE;

    if (place == MAP_NONE)
        return false;
    struct reader_iter iter = {.at = members->object.data + place,
                               .end = members->object.data + members->object.len - 1};
    return reader_next_item(&iter, ret_value);
}

static void put_key(struct strbuf *out, struct str key, uint32_t *count)
{
    if ((*count)++ > 0)
        strbuf_putc(out, ',');
    strbuf_add_str(out, key);
    strbuf_putc(out, ':');
}

static void merge_value(struct str stored, struct str manifest, struct strbuf *out);

static void merge_members(const struct members *stored, const struct members *manifest,
                          struct strbuf *out)
{
    struct reader_iter iter = reader_iterate(stored->object);
    struct str key, value, other;
    uint32_t count = 0;

    while (reader_next_member(&iter, &key, &value)) {
        put_key(out, key, &count);
        if (members_find(manifest, key, &other) && reader_type(other) != READER_NULL)
            merge_value(value, other, out);
        else
            strbuf_add_str(out, value);
    }
    iter = reader_iterate(manifest->object);
    while (reader_next_member(&iter, &key, &value)) {
        if (reader_type(value) == READER_NULL || members_find(stored, key, &other))
            continue;
        put_key(out, key, &count);
        strbuf_add_str(out, value);
    }
}

static void merge_objects(struct str stored, struct str manifest, struct strbuf *out)
{
    struct members old, new;
    int result = members_index(&old, stored);

    if (members_index(&new, manifest) < 0 || result < 0)
        out->failed = true;
    strbuf_putc(out, '{');
    if (!out->failed)
        merge_members(&old, &new, out);
    strbuf_putc(out, '}');
    members_done(&old);
    members_done(&new);
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
