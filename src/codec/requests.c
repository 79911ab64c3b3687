/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/requests.h"

#include <errno.h>

#include "codec/annotation.h"
#include "codec/hami.h"
#include "codec/reader.h"

#define NESTING_MAX 32

static void write_member(const char *name, struct str value, struct strbuf *out)
{
    strbuf_json_string(out, str_from(name));
    strbuf_putc(out, ':');
    strbuf_json_string(out, value);
}

/* ---- pods/binding ---- */

static struct strbuf *add_annotation(struct binding_annotations *list, const char *key)
{
    list->keys[list->count] = key;
    return &list->values[list->count++];
}

static void add_hami(const struct placement *placement, struct str node,
                     struct binding_annotations *list)
{
    static const char *const times[] = {ANNOTATION_HAMI_TIME, ANNOTATION_HAMI_BIND_TIME};
    static const char *const devices[] = {ANNOTATION_HAMI_TO_ALLOCATE, ANNOTATION_HAMI_ALLOCATED};
    strbuf_add_str(add_annotation(list, ANNOTATION_HAMI_NODE), node);
    for (unsigned i = 0; i < 2; i++)
        strbuf_int(add_annotation(list, times[i]), placement->hami_time_s);
    for (unsigned i = 0; i < 2; i++)
        hami_allocated_format(placement, add_annotation(list, devices[i]));
    strbuf_puts(add_annotation(list, ANNOTATION_HAMI_BIND_PHASE), "allocating");
}

void binding_annotations(const struct placement *placement, struct str node,
                         struct binding_annotations *ret)
{
    struct binding_annotations list = {0};
    if (placement->count > 0) {
        annotation_format(placement, add_annotation(&list, ANNOTATION_DEVICE_ALLOCATED));
        annotation_format_visible(placement, add_annotation(&list, ANNOTATION_VISIBLE_DEVICES));
        if (list.values[1].len == 0 && !list.values[1].failed)
            list.count = 1;
        if (placement->hami)
            add_hami(placement, node, &list);
    }
    for (uint32_t i = 0; i < list.count; i++)
        list.failed |= list.values[i].failed;
    *ret = list;
}

void binding_annotations_done(struct binding_annotations *annotations)
{
    for (uint32_t i = 0; i < annotations->count; i++)
        strbuf_done(&annotations->values[i]);
}

void request_binding(const struct pod_id *pod, struct str node, const struct placement *placement,
                     struct strbuf *out, uint32_t *ret_annotation_bytes)
{
    struct binding_annotations list;
    uint32_t total_bytes = 0;
    binding_annotations(placement, node, &list);
    strbuf_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{");
    write_member("name", pod->name, out);
    strbuf_putc(out, ',');
    write_member("namespace", pod->ns, out);
    strbuf_putc(out, ',');
    write_member("uid", pod->uid, out);
    if (list.count > 0) {
        strbuf_puts(out, ",\"annotations\":{");
        for (uint32_t i = 0; i < list.count; i++) {
            if (i > 0)
                strbuf_putc(out, ',');
            write_member(list.keys[i], (struct str){list.values[i].data, list.values[i].len}, out);
            total_bytes += (uint32_t)(strlen(list.keys[i]) + list.values[i].len);
        }
        strbuf_putc(out, '}');
    }
    strbuf_puts(out, "},\"target\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",");
    write_member("name", node, out);
    strbuf_puts(out, "}}");
    out->failed |= list.failed;
    binding_annotations_done(&list);
    *ret_annotation_bytes = total_bytes;
}

/* ---- merge patches ---- */

void request_patch(struct str uid, enum patch_map map, const char *key, struct str value,
                   struct strbuf *out)
{
    strbuf_puts(out, "{\"metadata\":{");
    if (uid.len > 0) {
        write_member("uid", uid, out);
        strbuf_putc(out, ',');
    }
    strbuf_puts(out, map == PATCH_LABEL ? "\"labels\":{" : "\"annotations\":{");
    if (value.data != NULL) {
        write_member(key, value, out);
    } else {
        strbuf_json_string(out, str_from(key));
        strbuf_puts(out, ":null");
    }
    strbuf_puts(out, "}}}");
}

/* ---- SelfSubjectAccessReview ---- */

static void write_optional(const char *name, const char *value, struct strbuf *out)
{
    if (value == NULL)
        return;
    strbuf_putc(out, ',');
    write_member(name, str_from(value), out);
}

void request_access_review(const struct access_question *question, struct strbuf *out)
{
    strbuf_puts(out,
                "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
                "\"spec\":{\"resourceAttributes\":{");
    write_member("verb", str_from(question->verb), out);
    write_optional("group", question->group, out);
    write_optional("resource", question->resource, out);
    write_optional("subresource", question->subresource, out);
    write_optional("namespace", question->ns, out);
    strbuf_puts(out, "}}}");
}

/* The known fields of a whole body. */
static int open_body(struct str body, const char *kind, struct reader_field *fields, uint32_t count,
                     struct error *err)
{
    struct str value;
    int rc = reader_check(body, NESTING_MAX, &value, err);
    if (rc == 0 && reader_type(value) != READER_OBJECT)
        rc = reader_bad(err, "must be an object");
    if (rc == 0)
        rc = reader_object(value, fields, count, err);
    return rc < 0 ? reader_at(err, "%s", kind) : 0;
}

int access_review_decode(struct str body, bool *ret_allowed, struct error *err)
{
    struct reader_field review[] = {{.name = "status"}};
    struct reader_field answer[] = {{.name = "allowed"}};
    bool allowed = false;
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    int rc = open_body(body, "SelfSubjectAccessReview", READER_FIELDS(review), err);
    if (rc < 0)
        return rc;
    if (review->value.data == NULL)
        rc = reader_bad(err, "must be given");
    if (rc == 0)
        rc = reader_object(review->value, READER_FIELDS(answer), err);
    if (rc == 0)
        rc = reader_field_bool(answer, &allowed, err);
    if (rc < 0) {
        reader_at(err, "%s", review->name);
        return reader_at(err, "SelfSubjectAccessReview");
    }
    *ret_allowed = allowed;
    return 0;
}

/* ---- Status ---- */

static int decode_cause(const struct reader_field *causes, struct arena *mem, struct str *ret,
                        struct error *err)
{
    struct reader_field fields[] = {{.name = "reason"}};
    uint32_t count = 0;
    int rc = reader_field_array(causes, &count, err);
    if (rc < 0 || count == 0)
        return rc;
    struct reader_iter iter = reader_iterate(causes->value);
    struct str first;
    reader_next_item(&iter, &first);
    rc = reader_object(first, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(fields, mem, ret, err);
    return rc < 0 ? reader_at(err, "%s[0]", causes->name) : 0;
}

static int decode_details(const struct reader_field *details, struct arena *mem,
                          struct status *status, struct error *err)
{
    enum { KIND, CAUSES };
    struct reader_field fields[] = {[KIND] = {.name = "kind"}, [CAUSES] = {.name = "causes"}};
    int rc = reader_field_object(details, READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[KIND], mem, &status->details_kind, err);
    if (rc == 0)
        rc = decode_cause(&fields[CAUSES], mem, &status->cause, err);
    return rc < 0 ? reader_at(err, "%s", details->name) : 0;
}

int status_decode(struct str body, struct arena *mem, struct status *ret, struct error *err)
{
    enum { KIND, STATUS, CODE, REASON, MESSAGE, DETAILS };
    struct reader_field fields[] = {
        [KIND] = {.name = "kind"},       [STATUS] = {.name = "status"},
        [CODE] = {.name = "code"},       [REASON] = {.name = "reason"},
        [MESSAGE] = {.name = "message"}, [DETAILS] = {.name = "details"},
    };
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct status status = {0};
    struct str kind = {0}, outcome = {0};
    int64_t code = 0;
    int rc = open_body(body, "Status", READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[KIND], mem, &kind, err);
    if (rc == 0 && !str_is(kind, "Status")) {
        reader_bad(err, "must be \"Status\"");
        rc = reader_at(err, "%s", fields[KIND].name);
    }
    if (rc == 0)
        rc = reader_field_string(&fields[STATUS], mem, &outcome, err);
    if (rc == 0)
        rc = reader_field_int(&fields[CODE], 0, INT32_MAX, &code, err);
    if (rc == 0)
        rc = reader_field_string(&fields[REASON], mem, &status.reason, err);
    if (rc == 0)
        rc = reader_field_string(&fields[MESSAGE], mem, &status.message, err);
    if (rc == 0)
        rc = decode_details(&fields[DETAILS], mem, &status, err);
    if (rc < 0)
        return reader_at(err, "Status");
    status.success = str_is(outcome, "Success");
    status.code = (int32_t)code;
    *ret = status;
    return 0;
}
