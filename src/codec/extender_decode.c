/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/extender.h"

#include <errno.h>

#include "base/map.h"
#include "codec/pod.h"
#include "codec/reader.h"
#include "codec/reader_index.h"
#include "core/names.h"

const struct codec_limits codec_default_limits = {
    .nesting = 64,
    .nodes = 100000,
    .name_bytes = NAME_SUBDOMAIN_MAX,
};

/* The known fields of a whole body. */
static int open_body(struct str body, const struct codec_limits *limits,
                     struct reader_field *fields, uint32_t count, struct error *err)
{
    struct str value;
    int rc = reader_check(body, limits->nesting, &value, err);
    if (rc == 0 && reader_type(value) != READER_OBJECT)
        rc = reader_bad(err, "must be an object");
    if (rc < 0)
        return reader_at(err, "body");
    return reader_object(value, fields, count, err);
}

static int check_not_empty(struct str text, const char *path, struct error *err)
{
    return text.len > 0 ? 0 : error_set(err, -EINVAL, "%s: must not be empty", path);
}

/* The pod that a call is about: pending, and known by name. */
static int decode_pending_pod(const struct reader_field *field, struct arena *mem, struct pod *ret,
                              struct error *err)
{
    if (field->value.data == NULL)
        return error_set(err, -EINVAL, "%s: must not be null", field->name);
    int rc = pod_decode(field->value, mem, ret, err);
    if (rc < 0)
        return reader_at(err, "%s", field->name);

    rc = check_not_empty(ret->id.uid, "Pod.metadata.uid", err);
    if (rc == 0)
        rc = check_not_empty(ret->id.name, "Pod.metadata.name", err);
    if (rc == 0)
        rc = check_not_empty(ret->id.ns, "Pod.metadata.namespace", err);
    if (rc == 0 && ret->node_name.len > 0)
        rc = error_set(err, -EINVAL, "Pod.spec.nodeName: pod is already assigned to node \"%.*s\"",
                       STR_ARG(ret->node_name));
    return rc;
}

static int check_node_name(struct str name, const struct codec_limits *limits, struct error *err)
{
    if (name.len > limits->name_bytes)
        return error_set(err, -E2BIG, ": longer than %u bytes", limits->name_bytes);
    return 0;
}

static int check_node_count(const struct reader_field *field, uint32_t count,
                            const struct codec_limits *limits, struct error *err)
{
    if (count > limits->nodes)
        return error_set(err, -E2BIG, "%s: more than %u nodes", field->name, limits->nodes);
    return 0;
}

/* ---- filter and prioritize ---- */

static int walk_node_names(const struct reader_field *field, const struct codec_limits *limits,
                           struct arena *mem, struct candidates_call *call, struct error *err)
{
    uint32_t room = 0, count = 0;
    int rc = reader_field_room(field, &room, err);
    if (rc == 0 && room > limits->nodes) {
        room = reader_count(field->value);
        rc = check_node_count(field, room, limits, err);
    }
    if (rc < 0)
        return rc;

    struct str *names = arena_alloc(mem, room, sizeof(*names));
    if (names == NULL) {
        reader_no_memory(err);
        return reader_at(err, "%s", field->name);
    }
    struct reader_iter iter = reader_iterate(field->value);
    struct str value;
    for (;; count++) {
        if (!reader_next_text(&iter, &names[count])) {
            if (!reader_next_item(&iter, &value))
                break;
            rc = reader_string(value, mem, &names[count], err);
        }
        if (rc == 0)
            rc = check_node_name(names[count], limits, err);
        if (rc < 0)
            return reader_at(err, "%s[%u]", field->name, count);
    }
    call->nodes = names;
    call->node_count = count;
    return 0;
}

/* Nearly always the names were found while the body was checked. */
static int decode_node_names(const struct reader_field *field, const struct codec_limits *limits,
                             const struct reader_texts *texts, struct arena *mem,
                             struct candidates_call *call, struct error *err)
{
    if (texts->no_memory)
        return reader_no_memory(err);
    if (texts->array != field->value.data || texts->longest > limits->name_bytes)
        return walk_node_names(field, limits, mem, call, err);
    call->nodes = texts->of;
    call->node_count = texts->count;
    call->quoted = true;
    call->notes = (struct roster_notes){
        .roster = texts->roster,
        .numbers = texts->numbers,
        .hashes = texts->hashes,
        .version = texts->roster != NULL ? texts->roster->version : 0,
        .strangers = texts->strangers,
        .pieces = texts->pieces,
    };
    return 0;
}

/* One Node of a full call: its name, and the item as it stands. */
static int decode_node(struct str value, const struct codec_limits *limits, struct arena *mem,
                       struct str *ret_name, struct str *ret_json, struct error *err)
{
    struct reader_field metadata[] = {{.name = "metadata"}};
    struct reader_field name[] = {{.name = "name"}};
    int rc = reader_object(value, READER_FIELDS(metadata), err);
    if (rc == 0)
        rc = reader_field_object(metadata, READER_FIELDS(name), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(name, mem, ret_name, err);
    if (rc == 0 && check_node_name(*ret_name, limits, err) < 0)
        rc = reader_at(err, "%s", name->name);
    if (rc < 0)
        return reader_at(err, "%s", metadata->name);

    *ret_json = arena_str(mem, value);
    return ret_json->data != NULL ? 0 : reader_no_memory(err);
}

static int decode_node_items(const struct reader_field *items, const struct codec_limits *limits,
                             struct arena *mem, struct candidates_call *call, struct error *err)
{
    uint32_t count = 0;
    int rc = reader_field_array(items, &count, err);
    if (rc == 0)
        rc = check_node_count(items, count, limits, err);
    if (rc < 0)
        return rc;
    call->full_nodes = true;
    if (count == 0)
        return 0;

    struct str *names = arena_alloc(mem, count, sizeof(*names));
    struct str *texts = arena_alloc(mem, count, sizeof(*texts));
    if (names == NULL || texts == NULL) {
        reader_no_memory(err);
        return reader_at(err, "%s", items->name);
    }
    struct reader_iter iter = reader_iterate(items->value);
    struct str value;
    for (uint32_t i = 0; reader_next_item(&iter, &value); i++) {
        if (decode_node(value, limits, mem, &names[i], &texts[i], err) < 0)
            return reader_at(err, "%s[%u]", items->name, i);
    }
    call->nodes = names;
    call->node_json = texts;
    call->node_count = count;
    return 0;
}

static int decode_node_list(const struct reader_field *field, const struct codec_limits *limits,
                            struct arena *mem, struct candidates_call *call, struct error *err)
{
    struct reader_field items[] = {{.name = "items"}};
    int rc = reader_field_object(field, READER_FIELDS(items), err);
    if (rc < 0)
        return rc;
    rc = decode_node_items(items, limits, mem, call, err);
    return rc < 0 ? reader_at(err, "%s", field->name) : 0;
}

int extender_decode_candidates(struct str body, const struct codec_limits *limits,
                               const struct roster *roster, struct arena *mem,
                               struct candidates_call *ret, struct error *err)
{
    enum { POD, NODES, NODE_NAMES };
    struct reader_field fields[] = {
        [POD] = {.name = "Pod"},
        [NODES] = {.name = "Nodes"},
        [NODE_NAMES] = {.name = "NodeNames"},
    };
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct reader_texts texts = {.mem = mem, .most = limits->nodes, .roster = roster};
    AUTO_INDEX index;
    reader_index_begin(&index, &texts);
    struct candidates_call call = {0};
    int rc = open_body(body, limits, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_pending_pod(&fields[POD], mem, &call.pod, err);
    if (rc < 0)
        return rc;

    if (fields[NODE_NAMES].value.data != NULL)
        rc = decode_node_names(&fields[NODE_NAMES], limits, &texts, mem, &call, err);
    else if (fields[NODES].value.data != NULL)
        rc = decode_node_list(&fields[NODES], limits, mem, &call, err);
    else
        rc = error_set(err, -EINVAL, "NodeNames: one of NodeNames and Nodes must be given");
    if (rc < 0)
        return rc;
    *ret = call;
    return 0;
}

/* ---- preempt ---- */

/* UID of a victim in either form; empty when it has none. */
static int decode_victim(struct str value, bool meta, struct arena *mem, struct str *ret_uid,
                         struct error *err)
{
    if (reader_type(value) == READER_NULL)
        return 0;
    struct reader_field uid[] = {{.name = meta ? "UID" : "uid"}};
    struct reader_field metadata[] = {{.name = "metadata"}};
    int rc;
    if (meta) {
        rc = reader_object(value, READER_FIELDS(uid), err);
        return rc < 0 ? rc : reader_field_string(uid, mem, ret_uid, err);
    }
    rc = reader_object(value, READER_FIELDS(metadata), err);
    if (rc == 0)
        rc = reader_field_object(metadata, READER_FIELDS(uid), err);
    if (rc == 0 && reader_field_string(uid, mem, ret_uid, err) < 0)
        rc = reader_at(err, "%s", metadata->name);
    return rc;
}

static int decode_victim_pods(const struct reader_field *pods, bool meta, struct arena *mem,
                              struct preempt_victims *victims, struct error *err)
{
    uint32_t count = 0;
    int rc = reader_field_array(pods, &count, err);
    if (rc < 0 || count == 0)
        return rc;
    struct str *uids = arena_alloc(mem, count, sizeof(*uids));
    if (uids == NULL) {
        reader_no_memory(err);
        return reader_at(err, "%s", pods->name);
    }

    uint32_t kept = 0;
    struct reader_iter iter = reader_iterate(pods->value);
    struct str value;
    for (uint32_t i = 0; reader_next_item(&iter, &value); i++) {
        struct str uid = {0};
        if (decode_victim(value, meta, mem, &uid, err) < 0)
            return reader_at(err, "%s[%u]", pods->name, i);
        if (uid.len > 0)
            uids[kept++] = uid;
    }
    victims->uids = uids;
    victims->count = kept;
    return 0;
}

static int decode_victims(struct str value, bool meta, struct arena *mem,
                          struct preempt_victims *victims, struct error *err)
{
    enum { PODS, VIOLATIONS };
    struct reader_field fields[] = {
        [PODS] = {.name = "Pods"},
        [VIOLATIONS] = {.name = "NumPDBViolations"},
    };
    victims->uids = NULL;
    victims->count = 0;
    victims->pdb_violations = 0;
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_victim_pods(&fields[PODS], meta, mem, victims, err);
    if (rc == 0)
        rc = reader_field_int(&fields[VIOLATIONS], INT64_MIN, INT64_MAX, &victims->pdb_violations,
                              err);
    return rc;
}

/* Rows of the answer under construction, one a distinct node name. */
struct victim_rows {
    struct map by_name;
    struct preempt_victims *nodes;
    bool *null; /* the node came with null, so there is nothing to say about it */
    uint32_t count;
};

/* The row of node `name`: a name that comes again replaces what it said before, as in Go. MAP_NONE
 * when memory ends. */
static uint32_t row_of(struct victim_rows *rows, struct str name)
{
    uint32_t row = map_get(&rows->by_name, name);
    if (row != MAP_NONE || map_put(&rows->by_name, name, rows->count) < 0)
        return row;
    row = rows->count++;
    rows->nodes[row].node = name;
    return row;
}

static int decode_victim_node(struct str name, struct str value, bool meta, struct arena *mem,
                              struct victim_rows *rows, struct error *err)
{
    uint32_t row = row_of(rows, name);
    if (row == MAP_NONE)
        return reader_no_memory(err);
    rows->null[row] = reader_type(value) == READER_NULL;
    return rows->null[row] ? 0 : decode_victims(value, meta, mem, &rows->nodes[row], err);
}

static int decode_victim_rows(const struct reader_field *field, bool meta,
                              const struct codec_limits *limits, struct arena *mem,
                              struct victim_rows *rows, struct error *err)
{
    struct reader_iter iter = reader_iterate(field->value);
    struct str key, value, name;
    while (reader_next_member(&iter, &key, &value)) {
        if (reader_string(key, mem, &name, err) < 0)
            return reader_at(err, "%s", field->name);
        int rc = check_node_name(name, limits, err);
        if (rc == 0)
            rc = decode_victim_node(name, value, meta, mem, rows, err);
        if (rc < 0) {
            reader_at(err, "[\"%.*s\"]", STR_ARG(name));
            return reader_at(err, "%s", field->name);
        }
    }
    return 0;
}

static int decode_preempt_nodes(const struct reader_field *field, bool meta,
                                const struct codec_limits *limits, struct arena *mem,
                                struct preempt_call *call, struct error *err)
{
    int rc = reader_field_object(field, NULL, 0, err);
    if (rc < 0)
        return rc;
    uint32_t count = reader_count(field->value);
    rc = check_node_count(field, count, limits, err);
    if (rc < 0)
        return rc;

    struct victim_rows rows = {
        .nodes = arena_alloc(mem, count, sizeof(*rows.nodes)),
        .null = arena_alloc(mem, count, sizeof(*rows.null)),
    };
    if (rows.nodes == NULL || rows.null == NULL) {
        reader_no_memory(err);
        return reader_at(err, "%s", field->name);
    }
    map_init(&rows.by_name);
    rc = decode_victim_rows(field, meta, limits, mem, &rows, err);
    map_done(&rows.by_name);
    if (rc < 0)
        return rc;

    for (uint32_t i = 0; i < rows.count; i++)
        if (!rows.null[i])
            rows.nodes[call->node_count++] = rows.nodes[i];
    call->nodes = rows.nodes;
    return 0;
}

int extender_decode_preempt(struct str body, const struct codec_limits *limits, struct arena *mem,
                            struct preempt_call *ret, struct error *err)
{
    enum { POD, VICTIMS, META_VICTIMS };
    struct reader_field fields[] = {
        [POD] = {.name = "Pod"},
        [VICTIMS] = {.name = "NodeNameToVictims"},
        [META_VICTIMS] = {.name = "NodeNameToMetaVictims"},
    };
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    AUTO_INDEX index;
    reader_index_begin(&index, NULL);
    struct preempt_call call = {0};
    int rc = open_body(body, limits, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_pending_pod(&fields[POD], mem, &call.pod, err);
    if (rc < 0)
        return rc;

    if (fields[META_VICTIMS].value.data != NULL)
        rc = decode_preempt_nodes(&fields[META_VICTIMS], true, limits, mem, &call, err);
    else if (fields[VICTIMS].value.data != NULL)
        rc = decode_preempt_nodes(&fields[VICTIMS], false, limits, mem, &call, err);
    else
        rc = error_set(err, -EINVAL,
                       "NodeNameToMetaVictims: one of NodeNameToVictims and "
                       "NodeNameToMetaVictims must be given");
    if (rc < 0)
        return rc;
    *ret = call;
    return 0;
}

/* ---- bind ---- */

/* A required name that passes `is_valid`. */
static int decode_name(const struct reader_field *field, bool (*is_valid)(struct str name),
                       const char *what, struct arena *mem, struct str *ret, struct error *err)
{
    int rc = reader_field_string(field, mem, ret, err);
    if (rc == 0)
        rc = check_not_empty(*ret, field->name, err);
    if (rc == 0 && !is_valid(*ret))
        rc = error_set(err, -EINVAL, "%s: must be %s", field->name, what);
    return rc;
}

int extender_decode_bind(struct str body, const struct codec_limits *limits, struct arena *mem,
                         struct bind_call *ret, struct error *err)
{
    enum { POD_NAME, POD_NAMESPACE, POD_UID, NODE };
    struct reader_field fields[] = {
        [POD_NAME] = {.name = "PodName"},
        [POD_NAMESPACE] = {.name = "PodNamespace"},
        [POD_UID] = {.name = "PodUID"},
        [NODE] = {.name = "Node"},
    };
    static const char subdomain[] = "a DNS-1123 subdomain";
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct bind_call call = {0};
    struct pod_id *pod = &call.pod;
    int rc = open_body(body, limits, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_name(&fields[POD_NAME], name_is_subdomain, subdomain, mem, &pod->name, err);
    if (rc == 0)
        rc = decode_name(&fields[POD_NAMESPACE], name_is_label, "a DNS-1123 label", mem, &pod->ns,
                         err);
    if (rc == 0)
        rc = decode_name(&fields[POD_UID], name_is_uid, "a UID", mem, &pod->uid, err);
    if (rc == 0)
        rc = decode_name(&fields[NODE], name_is_subdomain, subdomain, mem, &call.node, err);
    if (rc < 0)
        return rc;
    *ret = call;
    return 0;
}
