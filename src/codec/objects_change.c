/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/objects.h"

#include <errno.h>

#include <json-c/json.h>

#include "base/parse.h"
#include "codec/extender.h"
#include "codec/reader.h"

/*
 * Changing an object is the one place where a tree is handier than slices. json-c builds it from
 * text that reader_check() and check_survives() accepted, so its own leniency never shows, and the
 * tree is written out and freed before the call returns.
 */

static void put_tree(struct json_object **tree)
{
    json_object_put(*tree);
}

#define AUTO_TREE __attribute__((cleanup(put_tree))) struct json_object *

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "object: out of memory");
}

/* ---- in and out ---- */

static bool is_wide_integer(struct str number)
{
    int64_t ignored;
    for (size_t i = 0; i < number.len; i++)
        if (strchr(".eE", number.data[i]) != NULL)
            return false; /* json-c keeps the text of these */
    return !parse_int64(number, &ignored);
}

static int check_key_survives(struct str key, struct error *err)
{
    char buffer[READER_KEY_MAX];
    struct str name = reader_key(key, buffer);
    if (name.data == NULL || (name.len > 0 && memchr(name.data, '\0', name.len) != NULL))
        return error_set(err, -EINVAL, "object: a key holds a NUL or is too long");
    return 0;
}

/* json-c cuts a key at a NUL and clamps integers: such texts are refused rather than altered. */
static int check_survives(struct str value, struct error *err)
{
    enum reader_type type = reader_type(value);
    if (type == READER_NUMBER && is_wide_integer(value))
        return error_set(err, -EINVAL, "object: integer too large: %.*s", STR_ARG(value));
    if (type != READER_OBJECT && type != READER_ARRAY)
        return 0;

    struct reader_iter iter = reader_iterate(value);
    struct str key, item;
    int rc = 0;
    while (rc == 0 && (type == READER_OBJECT ? reader_next_member(&iter, &key, &item)
                                             : reader_next_item(&iter, &item))) {
        if (type == READER_OBJECT)
            rc = check_key_survives(key, err);
        if (rc == 0)
            rc = check_survives(item, err);
    }
    return rc;
}

static int parse_tree(struct str json, struct json_object **ret, struct error *err)
{
    struct str value;
    uint32_t nesting = codec_default_limits.nesting;
    int rc = reader_check(json, nesting, &value, err);
    if (rc == 0 && reader_type(value) != READER_OBJECT)
        rc = reader_bad(err, "must be an object");
    if (rc < 0)
        return reader_at(err, "object");
    rc = check_survives(value, err);
    if (rc < 0)
        return rc;
    if (value.len > INT32_MAX)
        return error_set(err, -E2BIG, "object: longer than 2 GiB");

    struct json_tokener *tokener = json_tokener_new_ex((int)nesting + 1);
    if (tokener == NULL)
        return no_memory(err);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *tree = json_tokener_parse_ex(tokener, value.data, (int)value.len);
    json_tokener_free(tokener);
    if (tree == NULL) /* the text is good, so memory ended */
        return no_memory(err);
    *ret = tree;
    return 0;
}

static int write_tree(struct json_object *tree, struct strbuf *out, struct error *err)
{
    size_t length;
    const char *text = json_object_to_json_string_length(
        tree, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &length);
    if (text == NULL)
        return no_memory(err);
    strbuf_add(out, text, length);
    return out->failed ? no_memory(err) : 0;
}

/* ---- steps on a tree ---- */

static struct json_object *member(struct json_object *object, const char *key)
{
    struct json_object *value;
    return json_object_object_get_ex(object, key, &value) ? value : NULL;
}

/* Put `value` under `key`; it is taken over, also on failure, and NULL means that memory ended. */
static int set_member(struct json_object *object, const char *key, struct json_object *value,
                      struct error *err)
{
    if (value == NULL)
        return no_memory(err);
    if (json_object_object_add(object, key, value) == 0)
        return 0;
    json_object_put(value);
    return no_memory(err);
}

static int set_text(struct json_object *object, const char *key, struct str text, struct error *err)
{
    const char *data = text.data != NULL ? text.data : "";
    return set_member(object, key, json_object_new_string_len(data, (int)text.len), err);
}

static int set_text_if_missing(struct json_object *object, const char *key, struct str text,
                               struct error *err)
{
    struct json_object *value = member(object, key);
    bool empty = value == NULL || (json_object_is_type(value, json_type_string) &&
                                   json_object_get_string_len(value) == 0);
    return empty ? set_text(object, key, text, err) : 0;
}

/* The object under `key`, made when it is missing. */
static int open_member(struct json_object *object, const char *key, struct json_object **ret,
                       struct error *err)
{
    struct json_object *value = member(object, key);
    if (value == NULL) {
        value = json_object_new_object();
        int rc = set_member(object, key, value, err);
        if (rc < 0)
            return rc;
    }
    if (!json_object_is_type(value, json_type_object))
        return error_set(err, -EINVAL, "%s: must be an object", key);
    *ret = value;
    return 0;
}

/* ---- defaults ---- */

static int default_meta(struct json_object *tree, struct str timestamp, struct json_object **ret,
                        struct error *err)
{
    struct json_object *metadata;
    int rc = open_member(tree, "metadata", &metadata, err);
    if (rc == 0)
        rc = set_text_if_missing(metadata, "creationTimestamp", timestamp, err);
    if (rc == 0)
        *ret = metadata;
    return rc;
}

/* Native resources have no domain or Kubernetes' own; all others are extended
 * (pkg/apis/core/v1/helper, IsExtendedResourceName). */
static bool is_extended(const char *resource)
{
    return strchr(resource, '/') != NULL && strstr(resource, "kubernetes.io/") == NULL &&
           strncmp(resource, "requests.", strlen("requests.")) != 0;
}

/* Copy to `to` what only `from` has. */
static int fill_missing(struct json_object *to, struct json_object *from, bool extended_only,
                        struct error *err)
{
    json_object_object_foreach(from, resource, quantity)
    {
        if (quantity == NULL || member(to, resource) != NULL ||
            (extended_only && !is_extended(resource)))
            continue;
        int rc = set_member(to, resource, json_object_get(quantity), err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int default_container(struct json_object *container, struct error *err)
{
    if (!json_object_is_type(container, json_type_object))
        return error_set(err, -EINVAL, "spec.containers: must hold objects");
    if (member(container, "resources") == NULL)
        return 0;
    struct json_object *resources, *requests, *limits;
    int rc = open_member(container, "resources", &resources, err);
    if (rc == 0)
        rc = open_member(resources, "limits", &limits, err);
    if (rc == 0)
        rc = open_member(resources, "requests", &requests, err);
    if (rc == 0)
        rc = fill_missing(requests, limits, false, err);
    if (rc == 0)
        rc = fill_missing(limits, requests, true, err);
    if (rc < 0)
        return rc;

    if (json_object_object_length(limits) == 0)
        json_object_object_del(resources, "limits");
    if (json_object_object_length(requests) == 0)
        json_object_object_del(resources, "requests");
    return 0;
}

static int default_containers(struct json_object *spec, const char *key, struct error *err)
{
    struct json_object *list = member(spec, key);
    if (list == NULL)
        return 0;
    if (!json_object_is_type(list, json_type_array))
        return error_set(err, -EINVAL, "spec.%s: must be an array", key);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < json_object_array_length(list); i++)
        rc = default_container(json_object_array_get_idx(list, i), err);
    return rc;
}

int object_default_meta(struct str json, struct str uid, struct str timestamp, struct strbuf *out,
                        struct error *err)
{
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;
    AUTO_TREE tree = NULL;
    struct json_object *metadata;
    int rc = parse_tree(json, &tree, err);
    if (rc == 0)
        rc = default_meta(tree, timestamp, &metadata, err);
    if (rc == 0)
        rc = set_text_if_missing(metadata, "uid", uid, err);
    return rc < 0 ? rc : write_tree(tree, out, err);
}

int object_default_pod(struct str json, struct str uid, struct str timestamp, struct strbuf *out,
                       struct error *err)
{
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;
    AUTO_TREE tree = NULL;
    struct json_object *metadata, *spec, *status;
    int rc = parse_tree(json, &tree, err);
    if (rc == 0)
        rc = default_meta(tree, timestamp, &metadata, err);
    if (rc == 0)
        rc = set_text(metadata, "uid", uid, err);
    if (rc == 0)
        rc = set_text_if_missing(metadata, "namespace", STR("default"), err);
    if (rc == 0)
        rc = open_member(tree, "spec", &spec, err);
    if (rc == 0)
        rc = default_containers(spec, "initContainers", err);
    if (rc == 0)
        rc = default_containers(spec, "containers", err);
    if (rc == 0)
        rc = open_member(tree, "status", &status, err);
    if (rc == 0)
        rc = set_text_if_missing(status, "phase", STR("Pending"), err);
    return rc < 0 ? rc : write_tree(tree, out, err);
}

/* ---- bind ---- */

/* Conditions without the one of this type, as a new array. */
static int copy_other_conditions(struct json_object *conditions, const char *type,
                                 struct json_object *to, struct error *err)
{
    for (size_t i = 0; i < json_object_array_length(conditions); i++) {
        struct json_object *condition = json_object_array_get_idx(conditions, i);
        struct json_object *its_type =
            json_object_is_type(condition, json_type_object) ? member(condition, "type") : NULL;
        if (its_type != NULL && str_is(str_from(json_object_get_string(its_type)), type))
            continue;
        if (json_object_array_add(to, json_object_get(condition)) < 0) {
            json_object_put(condition);
            return no_memory(err);
        }
    }
    return 0;
}

static int set_condition_true(struct json_object *status, const char *type, struct error *err)
{
    AUTO_TREE conditions = json_object_new_array();
    if (conditions == NULL)
        return no_memory(err);
    struct json_object *old = member(status, "conditions");
    if (old != NULL && !json_object_is_type(old, json_type_array))
        return error_set(err, -EINVAL, "status.conditions: must be an array");
    int rc = old != NULL ? copy_other_conditions(old, type, conditions, err) : 0;
    if (rc < 0)
        return rc;

    AUTO_TREE condition = json_object_new_object();
    if (condition == NULL)
        return no_memory(err);
    rc = set_text(condition, "type", str_from(type), err);
    if (rc == 0)
        rc = set_text(condition, "status", STR("True"), err);
    if (rc < 0)
        return rc;
    if (json_object_array_add(conditions, json_object_get(condition)) < 0) {
        json_object_put(condition);
        return no_memory(err);
    }
    return set_member(status, "conditions", json_object_get(conditions), err);
}

static int set_annotations(struct json_object *metadata, const struct str *keys,
                           const struct str *values, uint32_t count, struct error *err)
{
    if (count == 0)
        return 0;
    struct json_object *annotations;
    int rc = open_member(metadata, "annotations", &annotations, err);
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        char key[READER_KEY_MAX];
        if (keys[i].len == 0 || keys[i].len >= sizeof(key) ||
            memchr(keys[i].data, '\0', keys[i].len) != NULL)
            return error_set(err, -EINVAL, "metadata.annotations: bad key");
        memcpy(key, keys[i].data, keys[i].len);
        key[keys[i].len] = '\0';
        rc = set_text(annotations, key, values[i], err);
    }
    return rc;
}

int object_bind_pod(struct str json, struct str node, const struct str *keys,
                    const struct str *values, uint32_t annotation_count, struct strbuf *out,
                    struct error *err)
{
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;
    AUTO_TREE tree = NULL;
    struct json_object *metadata, *spec, *status;
    int rc = parse_tree(json, &tree, err);
    if (rc == 0)
        rc = open_member(tree, "metadata", &metadata, err);
    if (rc == 0)
        rc = set_annotations(metadata, keys, values, annotation_count, err);
    if (rc == 0)
        rc = open_member(tree, "spec", &spec, err);
    if (rc == 0)
        rc = set_text(spec, "nodeName", node, err);
    if (rc == 0)
        rc = open_member(tree, "status", &status, err);
    if (rc == 0)
        rc = set_condition_true(status, "PodScheduled", err);
    return rc < 0 ? rc : write_tree(tree, out, err);
}
