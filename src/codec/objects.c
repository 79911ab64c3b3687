/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/objects.h"

#include <errno.h>

#include "codec/amount.h"
#include "codec/device_links.h"
#include "codec/extender.h"
#include "codec/hami.h"
#include "codec/host.h"
#include "codec/model_rule.h"
#include "codec/pod.h"
#include "codec/reader.h"
#include "codec/reader_index.h"

/* The value of a whole text, which must be an object. */
static int open_object(struct str json, struct str *ret, struct error *err)
{
    int rc = reader_check(json, codec_default_limits.nesting, ret, err);
    if (rc == 0 && reader_type(*ret) != READER_OBJECT)
        rc = reader_bad(err, "must be an object");
    return rc < 0 ? reader_at(err, "object") : 0;
}

static int open_fields(struct str json, struct reader_field *fields, uint32_t count,
                       struct error *err)
{
    struct str value;
    int rc = open_object(json, &value, err);
    return rc < 0 ? rc : reader_object(value, fields, count, err);
}

static enum object_kind kind_of(struct str api_version, struct str kind)
{
    static const struct {
        const char *api_version;
        const char *kind;
        enum object_kind is;
    } known[] = {
        {"v1", "Node", KIND_NODE},
        {"v1", "Pod", KIND_POD},
        {"v1", "Namespace", KIND_NAMESPACE},
        {"v1", "List", KIND_LIST},
        {"scheduling.koordinator.sh/v1alpha1", "Device", KIND_DEVICE},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (str_is(api_version, known[i].api_version) && str_is(kind, known[i].kind))
            return known[i].is;
    return KIND_OTHER;
}

static int decode_head_metadata(const struct reader_field *metadata, struct arena *mem,
                                struct object_head *head, struct error *err)
{
    enum { NAME, NAMESPACE, UID };
    struct reader_field fields[] = {
        [NAME] = {.name = "name"},
        [NAMESPACE] = {.name = "namespace"},
        [UID] = {.name = "uid"},
    };
    int rc = reader_field_object(metadata, READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[NAME], mem, &head->name, err);
    if (rc == 0)
        rc = reader_field_string(&fields[NAMESPACE], mem, &head->ns, err);
    if (rc == 0)
        rc = reader_field_string(&fields[UID], mem, &head->uid, err);
    return rc < 0 ? reader_at(err, "%s", metadata->name) : 0;
}

int object_head(struct str json, struct arena *mem, struct object_head *ret, struct error *err)
{
    enum { API_VERSION, KIND, METADATA };
    struct reader_field fields[] = {
        [API_VERSION] = {.name = "apiVersion"},
        [KIND] = {.name = "kind"},
        [METADATA] = {.name = "metadata"},
    };
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct object_head head = {0};
    int rc = open_fields(json, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(&fields[API_VERSION], mem, &head.api_version, err);
    if (rc == 0)
        rc = reader_field_string(&fields[KIND], mem, &head.kind_name, err);
    if (rc == 0)
        rc = decode_head_metadata(&fields[METADATA], mem, &head, err);
    if (rc < 0)
        return rc;

    head.kind = kind_of(head.api_version, head.kind_name);
    if (head.kind_name.len == 0)
        return error_set(err, -EINVAL, "kind: must not be empty");
    if (head.name.len == 0 && head.kind != KIND_LIST)
        return error_set(err, -EINVAL, "metadata.name: must not be empty");
    *ret = head;
    return 0;
}

int object_identity(struct str json, struct arena *mem, struct object_head *ret, struct error *err)
{
    struct reader_field metadata[] = {{.name = "metadata"}};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct object_head head = {.kind = KIND_OTHER};
    int rc = open_fields(json, READER_FIELDS(metadata), err);
    if (rc == 0)
        rc = decode_head_metadata(metadata, mem, &head, err);
    if (rc < 0)
        return rc;
    if (head.name.len == 0)
        return error_set(err, -EINVAL, "metadata.name: must not be empty");
    *ret = head;
    return 0;
}

int object_list_items(struct str json, struct arena *mem, const struct str **ret_items,
                      uint32_t *ret_count, struct error *err)
{
    struct reader_field list[] = {{.name = "items"}};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    uint32_t count = 0;
    int rc = open_fields(json, READER_FIELDS(list), err);
    if (rc == 0)
        rc = reader_field_array(list, &count, err);
    if (rc < 0)
        return rc;
    struct str *items = arena_alloc(mem, count, sizeof(*items));
    if (items == NULL)
        return error_set(err, -ENOMEM, "items: out of memory");
    if (count > 0) {
        struct reader_iter iter = reader_iterate(list->value);
        struct str value;
        for (uint32_t i = 0; reader_next_item(&iter, &value); i++) {
            items[i] = arena_str(mem, value);
            if (items[i].data == NULL)
                return error_set(err, -ENOMEM, "items: out of memory");
        }
    }
    *ret_items = items;
    *ret_count = count;
    return 0;
}

int object_decode_pod(struct str json, struct arena *mem, struct pod *ret, struct error *err)
{
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;
    AUTO_INDEX index;
    struct str value;
    reader_index_begin(&index, NULL);
    int rc = open_object(json, &value, err);
    return rc < 0 ? rc : pod_decode(value, mem, ret, err);
}

int object_decode_pod_place(struct str json, struct arena *mem, struct pod *ret, struct error *err)
{
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;
    AUTO_INDEX index;
    struct str value;
    reader_index_begin(&index, NULL);
    int rc = open_object(json, &value, err);
    return rc < 0 ? rc : pod_decode_place(value, mem, ret, err);
}

/* ---- Node ---- */

/* Whether a resource list counts whole cards under a vendor's name. */
static int decode_device_plugin(const struct reader_field *amounts, bool *ret, struct error *err)
{
    int rc = reader_field_object(amounts, NULL, 0, err);
    if (rc < 0 || amounts->value.data == NULL)
        return rc;
    struct reader_iter iter = reader_iterate(amounts->value);
    UNSET char buffer[READER_KEY_MAX];
    struct str name, value;
    while (reader_next_named(&iter, buffer, &name, &value)) {
        bool deprecated;
        enum resource resource = resource_find(name, &deprecated);
        int64_t cards = 0;
        if (resource == RESOURCE_MAX || !resource_is_vendors(resource))
            continue;
        if (reader_quantity(value, &cards, err) < 0) {
            reader_at(err, "[\"%.*s\"]", STR_ARG(name));
            return reader_at(err, "%s", amounts->name);
        }
        *ret |= cards > 0;
    }
    return 0;
}

/* The labels that name a node's model of cards, the first that is there counts: Koordinator's, and that of
 * NVIDIA's feature discovery. */
static int decode_gpu_model(const struct reader_field *labels, struct arena *mem, struct str *ret,
                            struct error *err)
{
    static const char *const names[] = {LABEL_GPU_MODEL, LABEL_GPU_PRODUCT};
    struct str value;
    int rc = reader_field_object(labels, NULL, 0, err);
    if (rc < 0 || labels->value.data == NULL)
        return rc;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!reader_find(labels->value, names[i], &value))
            continue;
        if (reader_string(value, mem, ret, err) < 0) {
            reader_at(err, "[\"%s\"]", names[i]);
            return reader_at(err, "%s", labels->name);
        }
        if (ret->len > 0)
            return 0;
    }
    return 0;
}

/* What HAMi's device plugin registers. A bad text is no error of the Node. */
static int decode_registration(const struct reader_field *annotations, struct arena *mem,
                               struct node_facts *facts, struct error *err)
{
    struct reader_field text[] = {{.name = ANNOTATION_HAMI_REGISTER}};
    struct str value = {0};
    struct error why;
    int rc = reader_field_object(annotations, READER_FIELDS(text), err);
    if (rc < 0 || text->value.data == NULL)
        return rc;
    rc = reader_field_string(text, mem, &value, err);
    if (rc < 0)
        return reader_at(err, "%s", annotations->name);
    rc = hami_register_parse(value, mem, &facts->registered, &why);
    facts->registration = rc == 0 ? REGISTRATION_READ : REGISTRATION_UNREADABLE;
    if (rc < 0)
        facts->registration_problem = arena_str(mem, str_from(why.text));
    bool full = rc == -ENOMEM || (rc < 0 && facts->registration_problem.data == NULL);
    return full ? reader_no_memory(err) : 0;
}

static int decode_node_metadata(const struct reader_field *metadata, struct arena *mem,
                                struct node_facts *facts, struct error *err)
{
    enum { NAME, LABELS, ANNOTATIONS };
    struct reader_field fields[] = {[NAME] = {.name = "name"},
                                    [LABELS] = {.name = "labels"},
                                    [ANNOTATIONS] = {.name = "annotations"}};
    int rc = reader_field_object(metadata, READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[NAME], mem, &facts->name, err);
    if (rc == 0)
        rc = decode_gpu_model(&fields[LABELS], mem, &facts->gpu_model, err);
    if (rc == 0)
        rc = decode_registration(&fields[ANNOTATIONS], mem, facts, err);
    if (rc < 0)
        return reader_at(err, "%s", metadata->name);
    return facts->name.len > 0 ? 0 : error_set(err, -EINVAL, "metadata.name: must not be empty");
}

int object_decode_node(struct str json, struct arena *mem, struct node_facts *ret, struct error *err)
{
    enum { METADATA, STATUS };
    enum { CAPACITY, ALLOCATABLE };
    struct reader_field fields[] = {[METADATA] = {.name = "metadata"}, [STATUS] = {.name = "status"}};
    struct reader_field amounts[] = {[CAPACITY] = {.name = "capacity"},
                                     [ALLOCATABLE] = {.name = "allocatable"}};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    AUTO_INDEX index;
    reader_index_begin(&index, NULL);
    struct node_facts facts = {0};
    int rc = open_fields(json, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = decode_node_metadata(&fields[METADATA], mem, &facts, err);
    if (rc == 0)
        rc = reader_field_object(&fields[STATUS], READER_FIELDS(amounts), err);
    for (int i = CAPACITY; rc == 0 && i <= ALLOCATABLE; i++) {
        if (decode_device_plugin(&amounts[i], &facts.device_plugin, err) < 0)
            rc = reader_at(err, "%s", fields[STATUS].name);
    }
    if (rc < 0)
        return rc;
    facts.allocatable = host_amount_decode(&amounts[CAPACITY]);
    host_amount_override(&amounts[ALLOCATABLE], &facts.allocatable);
    host_bound(&facts.allocatable);
    *ret = facts;
    return 0;
}

/* ---- Namespace ---- */

static int decode_labels(const struct reader_field *labels, struct arena *mem,
                         struct policy_words *ret, struct error *err)
{
    const struct {
        const char *key;
        struct str *value;
    } words[] = {
        {ANNOTATION_NODE_POLICY, &ret->node},
        {ANNOTATION_DEVICE_POLICY, &ret->device},
        {ANNOTATION_NODE_POLICY_STRENGTH, &ret->strength},
    };
    int rc = reader_field_object(labels, NULL, 0, err);
    if (rc < 0 || labels->value.data == NULL)
        return rc;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct str value;
        if (!reader_find(labels->value, words[i].key, &value))
            continue;
        if (reader_string(value, mem, words[i].value, err) < 0) {
            reader_at(err, "[\"%s\"]", words[i].key);
            return reader_at(err, "%s", labels->name);
        }
    }
    return 0;
}

int object_decode_namespace(struct str json, struct arena *mem, struct str *ret_name,
                            struct policy_words *ret, struct error *err)
{
    enum { NAME, LABELS };
    struct reader_field metadata[] = {{.name = "metadata"}};
    struct reader_field fields[] = {[NAME] = {.name = "name"}, [LABELS] = {.name = "labels"}};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    struct str name = {0};
    struct policy_words words = {0};
    int rc = open_fields(json, READER_FIELDS(metadata), err);
    if (rc == 0)
        rc = reader_field_object(metadata, READER_FIELDS(fields), err);
    if (rc < 0)
        return rc;
    rc = reader_field_string(&fields[NAME], mem, &name, err);
    if (rc == 0)
        rc = decode_labels(&fields[LABELS], mem, &words, err);
    if (rc < 0)
        return reader_at(err, "%s", metadata->name);
    if (name.len == 0)
        return error_set(err, -EINVAL, "metadata.name: must not be empty");
    *ret_name = name;
    *ret = words;
    return 0;
}

/* ---- Device ---- */

/* An id ends up in a C string and in texts. */
static int check_id(struct str id, struct error *err)
{
    if (id.len > DEVICE_ID_MAX)
        return error_set(err, -EINVAL, "id: longer than %d bytes", DEVICE_ID_MAX);
    if (id.len > 0 && memchr(id.data, '\0', id.len) != NULL)
        return error_set(err, -EINVAL, "id: must not hold a NUL");
    return 0;
}

static int decode_entry(struct str value, struct arena *mem, struct device *ret,
                        struct device_place *ret_place, struct error *err)
{
    enum { TYPE, ID, MINOR, HEALTH, RESOURCES, TOPOLOGY };
    struct reader_field fields[] = {
        [TYPE] = {.name = "type"},           [ID] = {.name = "id"},
        [MINOR] = {.name = "minor"},         [HEALTH] = {.name = "health"},
        [RESOURCES] = {.name = "resources"}, [TOPOLOGY] = {.name = "topology"},
    };
    struct device device = {0};
    struct str type = {0};
    int64_t minor = -1;
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(&fields[TYPE], mem, &type, err);
    device.kind = device_kind_find(type);
    if (rc == 0 && device.kind == DEVICE_KIND_MAX)
        rc = error_set(err, -EINVAL, "type: \"%.*s\" is no device type", STR_ARG(type));
    if (rc == 0)
        rc = reader_field_int(&fields[MINOR], 0, INT32_MAX, &minor, err);
    if (rc == 0 && minor < 0)
        rc = error_set(err, -EINVAL, "minor: must be given");
    if (rc == 0)
        rc = reader_field_string(&fields[ID], mem, &device.id, err);
    if (rc == 0)
        rc = check_id(device.id, err);
    if (rc == 0)
        rc = reader_field_bool(&fields[HEALTH], &device.healthy, err);
    if (rc == 0)
        rc = amount_decode(device.kind, &fields[RESOURCES], &device.total, err);
    if (rc == 0)
        rc = device_place_decode(&fields[TOPOLOGY], mem, ret_place, err);
    if (rc < 0)
        return rc;
    device.minor = ret_place->minor = (int32_t)minor;
    *ret = device;
    return 0;
}

static int check_place(const struct device *devices, uint32_t count, const struct device *device,
                       struct error *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (devices[i].kind == device->kind && devices[i].minor == device->minor)
            return error_set(err, -EINVAL, "minor: %d came before", device->minor);
    if (count == CARDS_PER_NODE_MAX)
        return reader_bad(err, "more cards than a node can have");
    return 0;
}

/* The model of the node's GPUs, where they are all alike: Koordinator's label. */
static int decode_model(const struct reader_field *labels, struct arena *mem, struct str *ret,
                        struct error *err)
{
    struct reader_field model[] = {{.name = LABEL_GPU_MODEL}};
    int rc = reader_field_object(labels, READER_FIELDS(model), err);
    if (rc == 0 && (rc = reader_field_string(model, mem, ret, err)) < 0)
        rc = reader_at(err, "%s", labels->name);
    if (rc == 0 && ret->len > DEVICE_MODEL_MAX)
        *ret = (struct str){0}; /* no label value is so long */
    return rc;
}

/* The cards of a Device object while it is read. */
struct entries {
    struct device *devices;
    uint32_t count;
    struct device_place *gpus; /* where they sit */
    uint32_t gpu_count;
};

/* Entries that cannot be used are left out; `err` keeps the sentence about the first one. */
static int decode_entries(const struct reader_field *list, struct str model, struct arena *mem,
                          struct entries *entries, uint32_t *skipped, struct error *err)
{
    uint32_t listed = 0;
    int rc = reader_field_array(list, &listed, err);
    if (rc < 0 || listed == 0)
        return rc;
    uint32_t room = listed < CARDS_PER_NODE_MAX ? listed : CARDS_PER_NODE_MAX;
    entries->devices = arena_alloc(mem, room, sizeof(*entries->devices));
    entries->gpus = arena_alloc(mem, room, sizeof(*entries->gpus));
    if (entries->devices == NULL || entries->gpus == NULL) {
        reader_no_memory(err);
        return reader_at(err, "%s", list->name);
    }

    struct reader_iter iter = reader_iterate(list->value);
    struct str value;
    for (uint32_t i = 0; reader_next_item(&iter, &value); i++) {
        struct error why;
        struct device device;
        struct device_place place;
        rc = decode_entry(value, mem, &device, &place, &why);
        if (rc == 0)
            rc = check_place(entries->devices, entries->count, &device, &why);
        if (rc == 0) {
            device.model = device.kind == DEVICE_GPU ? model : (struct str){0};
            entries->devices[entries->count++] = device;
            if (device.kind == DEVICE_GPU)
                entries->gpus[entries->gpu_count++] = place;
            continue;
        }
        if ((*skipped)++ == 0 || rc == -ENOMEM) {
            *err = why;
            reader_at(err, "[%u]", i);
            reader_at(err, "%s", list->name);
        }
        if (rc == -ENOMEM)
            return rc;
    }
    return 0;
}

/* A table of partitions that cannot be read is left out like an entry. */
static int decode_links(const struct reader_field *annotations, const struct entries *entries,
                        struct arena *mem, struct links *ret, struct error *err)
{
    struct reader_field table[] = {{.name = ANNOTATION_GPU_PARTITIONS}};
    struct str text = {NULL, 0}, value;
    int rc = 0;
    if (annotations->value.data != NULL && reader_type(annotations->value) == READER_OBJECT &&
        reader_find(annotations->value, table->name, &value))
        rc = reader_string(value, mem, &text, err);
    struct error why = {0};
    int links = rc == -ENOMEM ? rc : device_links_make(entries->gpus, entries->gpu_count, text, mem,
                                                      ret, &why);
    if (links < 0) {
        *err = why;
        rc = links;
    }
    if (rc < 0) {
        reader_at(err, "[\"%s\"]", table->name);
        reader_at(err, "%s", annotations->name);
    }
    return rc;
}

int object_decode_device(struct str json, struct arena *mem, struct str *ret_node,
                         struct inventory *ret, uint32_t *ret_skipped, struct error *err)
{
    enum { METADATA, SPEC };
    struct reader_field fields[] = {[METADATA] = {.name = "metadata"}, [SPEC] = {.name = "spec"}};
    struct reader_field name[] = {{.name = "name"}, {.name = "labels"}, {.name = "annotations"}};
    struct reader_field devices[] = {{.name = "devices"}};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    AUTO_INDEX index;
    reader_index_begin(&index, NULL);
    struct str node = {0};
    struct entries entries = {0};
    struct links links = {0};
    uint32_t skipped = 0;
    int rc = open_fields(json, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_object(&fields[METADATA], READER_FIELDS(name), err);
    if (rc == 0 && reader_field_string(name, mem, &node, err) < 0)
        rc = reader_at(err, "%s", fields[METADATA].name);
    if (rc == 0 && node.len == 0)
        rc = error_set(err, -EINVAL, "metadata.name: must not be empty");
    if (rc == 0)
        rc = reader_field_object(&fields[SPEC], READER_FIELDS(devices), err);
    struct str model = {0};
    if (rc == 0 && decode_model(&name[1], mem, &model, err) < 0)
        rc = reader_at(err, "%s", fields[METADATA].name);
    if (rc == 0 && decode_entries(devices, model, mem, &entries, &skipped, err) < 0)
        rc = reader_at(err, "%s", fields[SPEC].name);
    if (rc < 0)
        return rc;
    if (skipped > 0)
        reader_at(err, "%s", fields[SPEC].name);
    struct error why = {0};
    rc = decode_links(&name[2], &entries, mem, &links, &why);
    if (rc < 0) {
        reader_at(&why, "%s", fields[METADATA].name);
        if (skipped++ == 0 || rc == -ENOMEM)
            *err = why;
    }
    if (rc == -ENOMEM)
        return rc;
    *ret_node = node;
    *ret = (struct inventory){.devices = entries.devices, .count = entries.count, .links = links};
    *ret_skipped = skipped;
    return 0;
}

int object_annotation(struct str json, const char *key, struct arena *mem, struct str *ret,
                      struct error *err)
{
    struct reader_field metadata[] = {{.name = "metadata"}};
    struct reader_field annotations[] = {{.name = "annotations"}};
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;

    int rc = open_fields(json, READER_FIELDS(metadata), err);
    if (rc == 0)
        rc = reader_field_object(metadata, READER_FIELDS(annotations), err);
    if (rc == 0 && reader_field_object(annotations, NULL, 0, err) < 0)
        rc = reader_at(err, "%s", metadata->name);
    if (rc < 0)
        return rc;

    struct str value;
    struct str text = {NULL, 0};
    if (annotations->value.data != NULL && reader_find(annotations->value, key, &value) &&
        reader_string(value, mem, &text, err) < 0) {
        reader_at(err, "[\"%s\"]", key);
        reader_at(err, "%s", annotations->name);
        return reader_at(err, "%s", metadata->name);
    }
    *ret = text;
    return 0;
}
