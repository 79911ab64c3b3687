/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/extender.h"

#include "codec/reader.h"

/* kube-scheduler's side of the wire: questions written, answers read. */

void extender_encode_args(struct str pod_json, const struct str *nodes, uint32_t count,
                          struct strbuf *out)
{
    const char *separator = "";
    strbuf_puts(out, "{\"Pod\":");
    strbuf_add_str(out, pod_json);
    strbuf_puts(out, ",\"Nodes\":null,\"NodeNames\":[");
    for (uint32_t i = 0; i < count; i++) {
        strbuf_puts(out, separator);
        strbuf_json_string(out, nodes[i]);
        separator = ",";
    }
    strbuf_puts(out, "]}");
}

void extender_encode_bind_args(const struct pod_id *pod, struct str node, struct strbuf *out)
{
    strbuf_puts(out, "{\"PodName\":");
    strbuf_json_string(out, pod->name);
    strbuf_puts(out, ",\"PodNamespace\":");
    strbuf_json_string(out, pod->ns);
    strbuf_puts(out, ",\"PodUID\":");
    strbuf_json_string(out, pod->uid);
    strbuf_puts(out, ",\"Node\":");
    strbuf_json_string(out, node);
    strbuf_putc(out, '}');
}

static int open_answer(struct str body, struct reader_field *fields, uint32_t count,
                       struct error *err)
{
    struct str value;
    int rc = reader_check(body, codec_default_limits.nesting, &value, err);
    if (rc == 0)
        rc = reader_object(value, fields, count, err);
    return rc < 0 ? reader_at(err, "body") : 0;
}

static int decode_names(const struct reader_field *field, struct arena *mem,
                        struct filter_result *result, struct error *err)
{
    uint32_t count = 0;
    int rc = reader_field_array(field, &count, err);
    if (rc < 0 || count == 0)
        return rc;
    struct str *names = arena_alloc(mem, count, sizeof(*names));
    if (names == NULL) {
        reader_no_memory(err);
        return reader_at(err, "%s", field->name);
    }
    struct reader_iter iter = reader_iterate(field->value);
    struct str value;
    for (uint32_t i = 0; reader_next_item(&iter, &value); i++) {
        if (reader_string(value, mem, &names[i], err) < 0)
            return reader_at(err, "%s[%u]", field->name, i);
    }
    result->nodes = names;
    result->node_count = count;
    return 0;
}

/* The text of the first node in a map of failures, unless *ret has one already. */
static int decode_first_failure(const struct reader_field *field, struct arena *mem,
                                struct str *ret, struct error *err)
{
    int rc = reader_field_object(field, NULL, 0, err);
    if (rc < 0 || field->value.data == NULL || ret->data != NULL)
        return rc;
    struct reader_iter iter = reader_iterate(field->value);
    struct str node, text;
    if (!reader_next_member(&iter, &node, &text))
        return 0;
    rc = reader_string(text, mem, ret, err);
    return rc < 0 ? reader_at(err, "%s", field->name) : 0;
}

int extender_decode_filter_result(struct str body, struct arena *mem, struct filter_result *ret,
                                  struct error *err)
{
    enum { NODE_NAMES, FAILED, UNRESOLVABLE, ERROR };
    struct reader_field fields[] = {
        [NODE_NAMES] = {.name = "NodeNames"},
        [FAILED] = {.name = "FailedNodes"},
        [UNRESOLVABLE] = {.name = "FailedAndUnresolvableNodes"},
        [ERROR] = {.name = "Error"},
    };
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct filter_result result = {0};
    int rc = open_answer(body, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_names(&fields[NODE_NAMES], mem, &result, err);
    if (rc == 0)
        rc = decode_first_failure(&fields[FAILED], mem, &result.first_failure, err);
    if (rc == 0)
        rc = decode_first_failure(&fields[UNRESOLVABLE], mem, &result.first_failure, err);
    if (rc == 0)
        rc = reader_field_string(&fields[ERROR], mem, &result.error, err);
    if (rc < 0)
        return rc;
    *ret = result;
    return 0;
}

static int decode_priority(struct str value, struct arena *mem, struct str *ret_host,
                           int64_t *ret_score, struct error *err)
{
    enum { HOST, SCORE };
    struct reader_field fields[] = {[HOST] = {.name = "Host"}, [SCORE] = {.name = "Score"}};
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(&fields[HOST], mem, ret_host, err);
    if (rc == 0)
        rc = reader_field_int(&fields[SCORE], INT64_MIN, INT64_MAX, ret_score, err);
    return rc;
}

int extender_decode_priorities(struct str body, struct arena *mem, const struct str **ret_hosts,
                               const int64_t **ret_scores, uint32_t *ret_count, struct error *err)
{
    struct reader_field list = {.name = "body"};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    if (reader_check(body, codec_default_limits.nesting, &list.value, err) < 0)
        return reader_at(err, "%s", list.name);
    uint32_t count = 0;
    int rc = reader_field_array(&list, &count, err);
    if (rc < 0)
        return rc;
    struct str *hosts = arena_alloc(mem, count, sizeof(*hosts));
    int64_t *scores = arena_alloc(mem, count, sizeof(*scores));
    if (hosts == NULL || scores == NULL) {
        reader_no_memory(err);
        return reader_at(err, "%s", list.name);
    }
    struct reader_iter iter = reader_iterate(list.value);
    struct str value;
    for (uint32_t i = 0; reader_next_item(&iter, &value); i++) {
        if (decode_priority(value, mem, &hosts[i], &scores[i], err) < 0)
            return reader_at(err, "%s[%u]", list.name, i);
    }
    *ret_hosts = hosts;
    *ret_scores = scores;
    *ret_count = count;
    return 0;
}

int extender_decode_bind_result(struct str body, struct arena *mem, struct str *ret_error,
                                struct error *err)
{
    struct reader_field fields[] = {{.name = "Error"}};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct str text = {0};
    int rc = open_answer(body, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(&fields[0], mem, &text, err);
    if (rc < 0)
        return rc;
    *ret_error = text;
    return 0;
}
