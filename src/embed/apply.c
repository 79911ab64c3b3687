/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/apply.h"

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "codec/extender.h"
#include "codec/reader.h"
#include "embed/manifest.h"
#include "embed/yaml.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* ---- reading ---- */

int apply_at(const struct apply *apply, const struct change *change, struct error *err)
{
    if (change->title.len == 0 && change->item >= 0)
        return error_wrap(err, "%s:%u: items[%" PRId64 "]", apply->source, change->line,
                          change->item);
    if (change->title.len == 0)
        return error_wrap(err, "%s:%u", apply->source, change->line);
    return error_wrap(err, "%s:%u: %.*s", apply->source, change->line, STR_ARG(change->title));
}

/* Name and namespace as the kind wants them. */
static int check_names(enum object_kind kind, const struct object_head *head, struct error *err)
{
    if (!name_is_subdomain(head->name))
        return error_set(err, -EINVAL, "metadata.name: \"%.*s\" is not a DNS-1123 subdomain",
                         STR_ARG(head->name));
    if (kind != KIND_POD && head->ns.len > 0)
        return error_set(err, -EINVAL, "metadata.namespace: a %s has none", store_kind_name(kind));
    if (head->ns.len > 0 && !name_is_label(head->ns))
        return error_set(err, -EINVAL, "metadata.namespace: \"%.*s\" is not a DNS-1123 label",
                         STR_ARG(head->ns));
    if (head->uid.len > 0 && !name_is_uid(head->uid))
        return error_set(err, -EINVAL, "metadata.uid: \"%.*s\" is not a UID", STR_ARG(head->uid));
    return 0;
}

/* What the errors call it: "Pod default/train". */
static int set_title(struct apply *apply, struct change *change, struct error *err)
{
    char text[STORE_KEY_MAX + 1];
    int len = snprintf(text, sizeof text, "%s %.*s%s%.*s", store_kind_name(change->kind),
                       STR_ARG(change->ns), change->ns.len > 0 ? "/" : "", STR_ARG(change->name));
    struct str title = arena_str(&apply->mem, (struct str){text, (size_t)len});

    if (title.data == NULL)
        return no_memory(err);
    change->title = title;
    return 0;
}

/* An object is read again as an item of the list of all objects, two levels further down. */
static int check_depth(const struct change *change, struct error *err)
{
    struct str value;

    if (reader_check(change->manifest, codec_default_limits.nesting - 2, &value, err) < 0)
        return reader_at(err, "object");
    return 0;
}

static int identify(struct apply *apply, struct change *change, struct error *err)
{
    struct object_head head;
    int result = check_depth(change, err);

    if (result == 0)
        result = object_head(change->manifest, &apply->mem, &head, err);
    if (result < 0)
        return result;
    if (head.kind == KIND_LIST || head.kind == KIND_OTHER)
        return error_set(err, -EINVAL,
                         "apiVersion and kind: \"%.*s %.*s\" is none of v1 Namespace, v1 Node, v1 Pod "
                         "and scheduling.koordinator.sh/v1alpha1 Device",
                         STR_ARG(head.api_version), STR_ARG(head.kind_name));
    result = check_names(head.kind, &head, err);
    if (result < 0)
        return result;
    change->kind = head.kind;
    change->name = head.name;
    change->ns = head.kind == KIND_POD && head.ns.len == 0 ? STR("default") : head.ns;
    change->uid = head.uid;
    return set_title(apply, change, err);
}

static int read_change(struct apply *apply, struct change *change, struct error *err)
{
    int result = identify(apply, change, err);

    if (result == 0)
        result = manifest_check_annotations(change->manifest, &apply->mem, err);
    return result < 0 ? apply_at(apply, change, err) : 0;
}

/* The objects of a document: itself, or the items of a list. */
static int open_document(struct apply *apply, const struct yaml_document *document,
                         const struct str **ret_items, uint32_t *ret_count, struct error *err)
{
    struct object_head head;
    int result = object_head(document->json, &apply->mem, &head, err);

    if (result == 0 && head.kind == KIND_LIST)
        result = object_list_items(document->json, &apply->mem, ret_items, ret_count, err);
    else if (result == 0) {
        *ret_items = &document->json;
        *ret_count = 1;
    }
    return result < 0 ? error_wrap(err, "%s:%u", apply->source, document->line) : 0;
}

static int read_document(struct apply *apply, const struct yaml_document *document,
                         uint32_t *capacity, struct error *err)
{
    const struct str *items;
    uint32_t count;
    int result = open_document(apply, document, &items, &count, err);

    if (result == 0 && apply->count + count > *capacity) {
        uint32_t wanted = (apply->count + count) * 2;
        struct change *changes = mem_realloc(apply->changes, wanted, sizeof *changes);

        if (changes == NULL)
            return no_memory(err);
        apply->changes = changes;
        *capacity = wanted;
    }
    for (uint32_t i = 0; result == 0 && i < count; i++) {
        struct change *change = &apply->changes[apply->count];

        *change = (struct change){.manifest = items[i],
                                  .line = document->line,
                                  .item = items == &document->json ? -1 : (int64_t)i};
        result = read_change(apply, change, err);
        if (result == 0)
            apply->count++;
    }
    return result;
}

/* No object twice in one text, or the order would decide. */
static int check_distinct(const struct apply *apply, struct error *err)
{
    struct map titles, uids;
    int result = 0;

    map_init(&titles);
    map_init(&uids);
    for (uint32_t i = 0; result == 0 && i < apply->count; i++) {
        const struct change *change = &apply->changes[i];
        uint32_t before = map_get(&titles, change->title);

        if (before != MAP_NONE) {
            error_set(err, -EINVAL, "metadata.name: already in this text, line %u",
                      apply->changes[before].line);
            result = apply_at(apply, change, err);
        } else if (change->uid.len > 0 && map_get(&uids, change->uid) != MAP_NONE) {
            error_set(err, -EINVAL, "metadata.uid: already in this text");
            result = apply_at(apply, change, err);
        } else if (map_put(&titles, change->title, i) < 0 ||
                   (change->uid.len > 0 && map_put(&uids, change->uid, i) < 0)) {
            result = no_memory(err);
        }
    }
    map_done(&titles);
    map_done(&uids);
    return result;
}

int apply_read(struct apply *apply, struct str text, const char *source, struct error *err)
{
    struct yaml_document *documents;
    uint32_t count, capacity = 0;
    int result;

    *apply = (struct apply){.source = source};
    arena_init(&apply->mem, 0);
    result = yaml_to_json(text, source, &apply->mem, &documents, &count, err);
    for (uint32_t i = 0; result == 0 && i < count; i++)
        result = read_document(apply, &documents[i], &capacity, err);
    return result == 0 ? check_distinct(apply, err) : result;
}

/* ---- checking ---- */

struct uid_text {
    char text[37];
};

/* A random UUID of RFC 4122, version 4. */
static int new_uid(struct uid_text *ret, struct error *err)
{
    unsigned char b[16];

    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return error_set(err, -EIO, "metadata.uid: the system gives no random bytes");
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(ret->text, sizeof ret->text,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
    return 0;
}

struct time_text {
    char text[sizeof "2026-01-02T03:04:05Z"];
};

/* Now, as RFC 3339 in UTC. */
static struct time_text now(void)
{
    struct time_text ret = {""};
    time_t seconds = time(NULL);
    struct tm parts;

    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(ret.text, sizeof ret.text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return ret;
}

/* Find the object, or make a new one outside of the store. */
static int find_object(struct change *change, const struct store *store, struct error *err)
{
    struct object *object = store_find(store, change->kind, change->ns, change->name);
    struct uid_text uid;
    int result = 0;

    if (object != NULL && change->uid.len > 0 && !str_is(change->uid, object->uid))
        return error_set(err, -EINVAL, "metadata.uid: cannot be changed (it is %s)", object->uid);
    if (object == NULL && change->uid.len > 0 && store_find_uid(store, change->uid) != NULL)
        return error_set(err, -EINVAL, "metadata.uid: another object has it");
    if (object == NULL) {
        if (change->uid.len == 0)
            result = new_uid(&uid, err);
        if (result < 0)
            return result;
        object = object_new(change->kind, change->ns, change->name,
                            change->uid.len > 0 ? change->uid : str_from(uid.text));
        if (object == NULL)
            return no_memory(err);
        change->is_new = true;
    }
    change->object = object;
    return 0;
}

/* When the object came to be, in `mem`: now, or as stored if it is replaced. */
static int created(const struct object *object, struct arena *mem, struct str *ret,
                   struct error *err)
{
    struct time_text text = now();
    struct str value, time_created;
    struct error unused;

    if (object->json.data != NULL && manifest_metadata(object->json, "creationTimestamp", &value) &&
        reader_type(value) == READER_STRING)
        return reader_string(value, mem, ret, &unused) < 0 ? no_memory(err) : 0;
    time_created = arena_str(mem, str_from(text.text));
    if (time_created.data == NULL)
        return no_memory(err);
    *ret = time_created;
    return 0;
}

/* The text as an API server would store it. */
static int set_defaults(struct apply *apply, struct change *change, struct error *err)
{
    const struct object *object = change->object;
    struct str uid = str_from(object->uid), manifest = change->manifest, time_created;
    struct strbuf merged, out;
    int result = created(object, &apply->mem, &time_created, err);

    if (result < 0)
        return result;
    strbuf_init(&merged);
    strbuf_init(&out);
    if (change->kind == KIND_POD && !change->is_new) {
        manifest_merge(object->json, manifest, &merged);
        manifest = (struct str){merged.data, merged.len};
    }
    if (merged.failed)
        result = no_memory(err);
    else if (change->kind == KIND_POD)
        result = object_default_pod(manifest, uid, time_created, &out, err);
    else
        result = object_default_meta(manifest, uid, time_created, &out, err);
    if (result == 0) {
        change->json.data = strbuf_take(&out, &change->json.len);
        if (change->json.data == NULL)
            result = no_memory(err);
    }
    strbuf_done(&merged);
    strbuf_done(&out);
    return result;
}

static bool same_requests(const struct pod *a, const struct pod *b)
{
    if (a->container_count != b->container_count ||
        memcmp(&a->overhead, &b->overhead, sizeof a->overhead) != 0)
        return false;
    for (uint32_t i = 0; i < a->container_count; i++) {
        const struct container *one = &a->containers[i], *other = &b->containers[i];

        if (!str_eq(one->name, other->name) || one->role != other->role ||
            memcmp(&one->requests, &other->requests, sizeof one->requests) != 0)
            return false;
    }
    return true;
}

/* What an API server lets nobody change, and what a kubelet does not do. */
static int check_unchanged(struct apply *apply, const struct change *change, struct error *err)
{
    const struct pod *wanted = &change->pod;
    struct pod stored;
    int result = object_decode_pod(change->object->json, &apply->mem, &stored, err);

    if (result < 0)
        return result;
    if (!str_eq(stored.node_name, wanted->node_name))
        return error_set(err, -EINVAL, "spec.nodeName: cannot be changed (it is \"%.*s\")",
                         STR_ARG(stored.node_name));
    if (!same_requests(&stored, wanted))
        return error_set(err, -EINVAL,
                         "spec.containers: requests of a pod that exists cannot be changed");
    if (stored.finished && !wanted->finished)
        return error_set(err, -EINVAL, "status.phase: a pod that has ended does not begin again");
    return 0;
}

static int check_pod(struct apply *apply, struct change *change, struct error *err)
{
    struct pod *pod = &change->pod;
    int result = object_decode_pod(change->json, &apply->mem, pod, err);

    if (result < 0)
        return result;
    if (!manifest_has_containers(change->json))
        return error_set(err, -EINVAL, "spec.containers: must hold at least one");
    if (pod->node_name.len > 0 && !name_is_subdomain(pod->node_name))
        return error_set(err, -EINVAL, "spec.nodeName: \"%.*s\" is not a node's name",
                         STR_ARG(pod->node_name));
    /* Keys are found whatever their case, but written in one: they may not come twice. */
    if (!str_eq(pod->id.ns, change->ns) || !str_eq(pod->id.name, change->name) ||
        !str_is(pod->id.uid, change->object->uid))
        return error_set(err, -EINVAL, "metadata: given twice, in different letters");
    return change->is_new ? 0 : check_unchanged(apply, change, err);
}

static int check_node(struct apply *apply, struct change *change, struct error *err)
{
    int result = object_decode_node(change->json, &apply->mem, &change->node, err);

    if (result == 0 && !str_eq(change->node.name, change->name))
        return error_set(err, -EINVAL, "metadata: given twice, in different letters");
    return result;
}

static int check_device(struct apply *apply, struct change *change, struct error *err)
{
    struct error why = {0};
    struct str node;
    int result = object_decode_device(change->json, &apply->mem, &node, &change->inventory,
                                      &change->skipped, &why);

    if (result < 0)
        return error_set(err, result, "%s", why.text);
    if (change->skipped > 0)
        log_warning("Entries of a Device object left out", LOG_STR("device", change->name),
                    LOG_INT("entries", change->skipped), LOG_TEXT("first", why.text));
    return 0;
}

static int check_change(struct apply *apply, struct change *change, const struct store *store,
                        struct error *err)
{
    int result = find_object(change, store, err);

    if (result == 0)
        result = set_defaults(apply, change, err);
    if (result == 0)
        result = manifest_check_annotations(change->json, &apply->mem, err);
    if (result == 0 && change->kind == KIND_NODE)
        result = check_node(apply, change, err);
    if (result == 0 && change->kind == KIND_NAMESPACE)
        result = object_decode_namespace(change->json, &apply->mem, &change->name, &change->labels,
                                         err);
    if (result == 0 && change->kind == KIND_POD)
        result = check_pod(apply, change, err);
    if (result == 0 && change->kind == KIND_DEVICE)
        result = check_device(apply, change, err);
    return result < 0 ? apply_at(apply, change, err) : 0;
}

int apply_check(struct apply *apply, const struct store *store, struct error *err)
{
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < apply->count; i++)
        result = check_change(apply, &apply->changes[i], store, err);
    return result;
}

/* ---- committing ---- */

int apply_commit(struct apply *apply, struct store *store, struct error *err)
{
    for (uint32_t i = 0; i < apply->count; i++) {
        if (!apply->changes[i].is_new || store_add(store, apply->changes[i].object) == 0)
            continue;
        while (i-- > 0) {
            if (apply->changes[i].is_new)
                store_remove(store, apply->changes[i].object);
        }
        return no_memory(err);
    }
    /* From here on nothing fails. */
    for (uint32_t i = 0; i < apply->count; i++) {
        struct change *change = &apply->changes[i];

        object_set_json(change->object, change->json);
        change->json = (struct str){NULL, 0};
        change->is_new = false;
    }
    return 0;
}

void apply_done(struct apply *apply)
{
    for (uint32_t i = 0; i < apply->count; i++) {
        struct change *change = &apply->changes[i];

        text_free(change->json);
        if (change->is_new)
            object_free(change->object);
    }
    mem_free(apply->changes);
    arena_done(&apply->mem);
    *apply = (struct apply){0};
}
