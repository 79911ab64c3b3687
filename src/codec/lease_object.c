/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/lease_object.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "codec/reader.h"

#define NESTING_MAX 64

void microtime_format(int64_t unix_us, char out[MICROTIME_TEXT_MAX])
{
    int64_t seconds = unix_us / 1000000, us = unix_us % 1000000;
    if (us < 0) {
        us += 1000000;
        seconds--;
    }
    time_t when = (time_t)seconds;
    struct tm tm;
    struct tm *known = gmtime_r(&when, &tm);
    assert(known != NULL && tm.tm_year >= 1000 - 1900 && tm.tm_year <= 9999 - 1900);
    (void)known;
    size_t length = strftime(out, MICROTIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + length, MICROTIME_TEXT_MAX - length, ".%06dZ", (int)us);
}

/* ---- reading ---- */

/* The object's slice, once it is known to be one. */
static int open_lease(struct str body, struct str *ret_value, struct error *err)
{
    struct str kind;
    int rc = reader_check(body, NESTING_MAX, ret_value, err);
    if (rc == 0 && reader_type(*ret_value) != READER_OBJECT)
        rc = reader_bad(err, "must be an object");
    else if (rc == 0 && (!reader_find(*ret_value, "kind", &kind) || !str_is(kind, "\"Lease\"")))
        rc = reader_bad(err, "kind must be \"Lease\"");
    return rc < 0 ? reader_at(err, "Lease") : 0;
}

static int decode_metadata(const struct reader_field *metadata, struct arena *mem,
                           struct lease_record *record, struct error *err)
{
    struct reader_field annotations = {.name = "annotations"};
    struct str value;
    int rc = reader_field_object(metadata, &annotations, 1, err);
    if (rc < 0)
        return rc;
    rc = reader_field_object(&annotations, NULL, 0, err);
    if (rc == 0 && annotations.value.data != NULL &&
        reader_find(annotations.value, LEASE_CLEAN_STOP, &value)) {
        rc = reader_string(value, mem, &record->clean_stop, err);
        if (rc < 0) {
            reader_at(err, "[\"" LEASE_CLEAN_STOP "\"]");
            reader_at(err, "%s", annotations.name);
        }
    }
    return rc < 0 ? reader_at(err, "%s", metadata->name) : 0;
}

static int decode_spec(const struct reader_field *spec, struct arena *mem,
                       struct lease_record *record, struct error *err)
{
    enum { HOLDER, DURATION, ACQUIRED, RENEWED, TRANSITIONS };
    struct reader_field fields[] = {
        [HOLDER] = {.name = "holderIdentity"},        [DURATION] = {.name = "leaseDurationSeconds"},
        [ACQUIRED] = {.name = "acquireTime"},         [RENEWED] = {.name = "renewTime"},
        [TRANSITIONS] = {.name = "leaseTransitions"},
    };
    int rc = reader_field_object(spec, READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[HOLDER], mem, &record->holder, err);
    if (rc == 0)
        rc = reader_field_int(&fields[DURATION], INT32_MIN, INT32_MAX, &record->duration_s, err);
    if (rc == 0)
        rc = reader_field_string(&fields[ACQUIRED], mem, &record->acquired, err);
    if (rc == 0)
        rc = reader_field_string(&fields[RENEWED], mem, &record->renewed, err);
    if (rc == 0)
        rc =
            reader_field_int(&fields[TRANSITIONS], INT32_MIN, INT32_MAX, &record->transitions, err);
    return rc < 0 ? reader_at(err, "%s", spec->name) : 0;
}

int lease_object_decode(struct str body, struct arena *mem, struct lease_record *ret,
                        struct error *err)
{
    enum { METADATA, SPEC };
    struct reader_field fields[] = {[METADATA] = {.name = "metadata"}, [SPEC] = {.name = "spec"}};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct lease_record record = {0};
    struct str value;
    int rc = open_lease(body, &value, err);
    if (rc < 0)
        return rc;
    rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_metadata(&fields[METADATA], mem, &record, err);
    if (rc == 0)
        rc = decode_spec(&fields[SPEC], mem, &record, err);
    if (rc < 0)
        return reader_at(err, "Lease");
    *ret = record;
    return 0;
}

/* ---- writing ---- */

/* Members of an object, with their commas. */
struct writer {
    struct strbuf *out;
    bool some;
};

static struct strbuf *member(struct writer *writer, const char *name)
{
    if (writer->some)
        strbuf_putc(writer->out, ',');
    writer->some = true;
    strbuf_json_string(writer->out, str_from(name));
    strbuf_putc(writer->out, ':');
    return writer->out;
}

static void text_member(struct writer *writer, const char *name, struct str value)
{
    strbuf_json_string(member(writer, name), value);
}

static bool listed(struct str name, const char *const *names)
{
    for (; *names != NULL; names++)
        if (str_is(name, *names))
            return true;
    return false;
}

/* Every member of an object (data NULL: none) but those named. */
static void copy_members(struct writer *writer, struct str object, const char *const *except)
{
    if (object.data == NULL)
        return;
    struct reader_iter iter = reader_iterate(object);
    char buffer[READER_KEY_MAX];
    struct str key, value;
    while (reader_next_member(&iter, &key, &value)) {
        if (listed(reader_key(key, buffer), except))
            continue;
        if (writer->some)
            strbuf_putc(writer->out, ',');
        writer->some = true;
        strbuf_add_str(writer->out, key);
        strbuf_putc(writer->out, ':');
        strbuf_add_str(writer->out, value);
    }
}

static void write_annotations(struct writer *metadata, struct str original,
                              const struct lease_record *record)
{
    static const char *const ours[] = {LEASE_CLEAN_STOP, NULL};
    struct writer writer = {.out = member(metadata, "annotations")};
    strbuf_putc(writer.out, '{');
    copy_members(&writer, original, ours);
    if (record->clean_stop.len > 0)
        text_member(&writer, LEASE_CLEAN_STOP, record->clean_stop);
    strbuf_putc(writer.out, '}');
}

static void write_spec(struct writer *lease, struct str original, const struct lease_record *record)
{
    static const char *const ours[] = {"holderIdentity", "leaseDurationSeconds", "acquireTime",
                                       "renewTime",      "leaseTransitions",     NULL};
    struct writer writer = {.out = member(lease, "spec")};
    strbuf_putc(writer.out, '{');
    copy_members(&writer, original, ours);
    text_member(&writer, "holderIdentity", record->holder);
    strbuf_int(member(&writer, "leaseDurationSeconds"), record->duration_s);
    if (record->acquired.len > 0)
        text_member(&writer, "acquireTime", record->acquired);
    if (record->renewed.len > 0)
        text_member(&writer, "renewTime", record->renewed);
    strbuf_int(member(&writer, "leaseTransitions"), record->transitions);
    strbuf_putc(writer.out, '}');
}

void lease_object_new(struct str ns, struct str name, const struct lease_record *record,
                      struct strbuf *out)
{
    struct writer lease = {.out = out};
    strbuf_putc(out, '{');
    text_member(&lease, "apiVersion", STR("coordination.k8s.io/v1"));
    text_member(&lease, "kind", STR("Lease"));
    struct writer metadata = {.out = member(&lease, "metadata")};
    strbuf_putc(out, '{');
    text_member(&metadata, "namespace", ns);
    text_member(&metadata, "name", name);
    if (record->clean_stop.len > 0)
        write_annotations(&metadata, (struct str){0}, record);
    strbuf_putc(out, '}');
    write_spec(&lease, (struct str){0}, record);
    strbuf_putc(out, '}');
}

/* The object called `name` in `object`; data NULL when it is not there. */
static int find_object(struct str object, const char *name, struct str *ret, struct error *err)
{
    *ret = (struct str){0};
    if (object.data == NULL || !reader_find(object, name, ret) ||
        reader_type(*ret) == READER_OBJECT)
        return 0;
    reader_bad(err, "must be an object");
    reader_at(err, "%s", name);
    return reader_at(err, "Lease");
}

int lease_object_change(struct str original, const struct lease_record *record, struct strbuf *out,
                        struct error *err)
{
    static const char *const parts[] = {"metadata", "spec", NULL};
    static const char *const annotations_only[] = {"annotations", NULL};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;
    struct str value, metadata, annotations, spec;
    int rc = open_lease(original, &value, err);
    if (rc == 0)
        rc = find_object(value, "metadata", &metadata, err);
    if (rc == 0)
        rc = find_object(metadata, "annotations", &annotations, err);
    if (rc == 0)
        rc = find_object(value, "spec", &spec, err);
    if (rc < 0)
        return rc;

    struct writer lease = {.out = out};
    strbuf_putc(out, '{');
    copy_members(&lease, value, parts);
    struct writer metadata_writer = {.out = member(&lease, "metadata")};
    strbuf_putc(out, '{');
    copy_members(&metadata_writer, metadata, annotations_only);
    write_annotations(&metadata_writer, annotations, record);
    strbuf_putc(out, '}');
    write_spec(&lease, spec, record);
    strbuf_putc(out, '}');
    return out->failed ? error_set(err, -ENOMEM, "Lease: out of memory") : 0;
}
