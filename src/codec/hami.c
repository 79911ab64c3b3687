/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/hami.h"

#include <errno.h>
#include <string.h>

#include "codec/reader.h"
#include "core/allocate.h"
#include "core/hami.h"

/* Levels of a register annotation that anybody is known to write: list, card, profiles, placements.
 */
enum { NESTING_MAX = 8 };

#define MIB_MAX (CARD_BYTES_MAX / MIB)

/* ---- fields between separators ---- */

/* The text up to the next `separator`; *rest is what is behind it. False when there is none. */
static bool cut(struct str *rest, char separator, struct str *ret_piece)
{
    const char *at = rest->len > 0 ? memchr(rest->data, separator, rest->len) : NULL;
    if (at == NULL)
        return false;
    size_t len = (size_t)(at - rest->data);
    *ret_piece = (struct str){rest->data, len};
    *rest = (struct str){at + 1, rest->len - len - 1};
    return true;
}

/* The pieces between commas. Returns how many there are; those past `max` are counted only. */
static uint32_t split(struct str text, struct str *pieces, uint32_t max)
{
    uint32_t count = 0;
    struct str piece;
    while (cut(&text, ',', &piece)) {
        if (count < max)
            pieces[count] = piece;
        count++;
    }
    if (count < max)
        pieces[count] = text;
    return count + 1;
}

/* A decimal number without sign in 0..max. */
static int parse_number(const char *name, struct str text, int64_t max, int64_t *ret,
                        struct error *err)
{
    int64_t value = 0;
    bool good = text.len > 0;
    for (size_t i = 0; i < text.len && good; i++) {
        good = text.data[i] >= '0' && text.data[i] <= '9' && value <= max;
        value = good ? value * 10 + (text.data[i] - '0') : value;
    }
    if (!good || value > max)
        return error_set(err, -EINVAL, "%s: \"%.*s\" is no number up to %lld", name, STR_ARG(text),
                         (long long)max);
    *ret = value;
    return 0;
}

/* ---- what a pod has ---- */

/* Parts as they stand in the text; `minor` counts the different ids. */
struct allocated {
    struct part parts[CARDS_PER_POD_MAX];
    uint32_t part_count;
    struct str ids[CARDS_PER_POD_MAX];
    uint32_t id_count;
};

static int read_card(struct str text, uint32_t container, struct allocated *found,
                     struct error *err)
{
    enum { ID, TYPE, MEMORY, CORES, FIELDS };
    struct str fields[FIELDS];
    int64_t mib, percent;
    if (split(text, fields, FIELDS) != FIELDS || fields[ID].len == 0)
        return error_set(err, -EINVAL, "container %u: \"%.*s\" is not UUID,TYPE,MEMORY,CORES",
                         container, STR_ARG(text));
    int rc = parse_number("memory", fields[MEMORY], MIB_MAX, &mib, err);
    if (rc == 0)
        rc = parse_number("cores", fields[CORES], CARD_PERCENT_MAX, &percent, err);
    if (rc < 0 || fields[TYPE].len == 0 || !str_is(fields[TYPE], "NVIDIA"))
        return rc;
    if (fields[ID].len > DEVICE_ID_MAX || found->part_count == CARDS_PER_POD_MAX)
        return error_set(err, -EINVAL, "container %u: a longer id or more cards than known",
                         container);
    uint32_t id = 0;
    while (id < found->id_count && !str_eq(found->ids[id], fields[ID]))
        id++;
    if (id == found->id_count)
        found->ids[found->id_count++] = fields[ID];
    found->parts[found->part_count++] = (struct part){
        .container = container,
        .minor = (int32_t)id,
        .amount = {.percent = percent, .bytes = mib},
    };
    return 0;
}

static int read_containers(struct str text, struct allocated *found, uint32_t *ret_containers,
                           struct error *err)
{
    struct str container, card;
    uint32_t count = 0;
    for (; cut(&text, ';', &container); count++) {
        while (cut(&container, ':', &card)) {
            int rc = read_card(card, count, found, err);
            if (rc < 0)
                return rc;
        }
        if (container.len > 0)
            return error_set(err, -EINVAL, "container %u: text behind the last \":\"", count);
    }
    if (text.len > 0)
        return error_set(err, -EINVAL, "text behind the last \";\"");
    *ret_containers = count;
    return 0;
}

int hami_allocated_parse(struct str text, const struct container *containers, uint32_t count,
                         struct arena *mem, const struct named_share **ret_named,
                         uint32_t *ret_count, struct error *err)
{
    struct allocated found = {0};
    uint32_t written = 0;
    int rc = read_containers(text, &found, &written, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < found.part_count && written == count; i++)
        found.parts[i].role = containers[found.parts[i].container].role;
    struct named_share *named = arena_alloc(mem, found.id_count, sizeof *named);
    if (named == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < found.id_count; i++) {
        struct share share = {0};
        parts_peak(found.parts, found.part_count, (int32_t)i, &share);
        if (share.amount.bytes > MIB_MAX || share.amount.percent > CARD_PERCENT_MAX)
            return error_set(err, -EINVAL, "%.*s: more than a card can have",
                             STR_ARG(found.ids[i]));
        named[i] = (struct named_share){.id = found.ids[i],
                                        .mib = share.amount.bytes,
                                        .percent = share.amount.percent,
                                        .beside = share.beside};
    }
    *ret_named = named;
    *ret_count = found.id_count;
    return 0;
}

void hami_allocated_format(const struct placement *placement, struct strbuf *out)
{
    uint32_t part = 0;
    for (uint32_t container = 0; container < placement->container_count; container++) {
        for (; part < placement->part_count && placement->parts[part].container == container;
             part++) {
            const struct placed_part *has = &placement->parts[part];
            strbuf_puts(out, placement->cards[has->card].id);
            strbuf_puts(out, ",NVIDIA,");
            strbuf_int(out, has->amount.bytes / MIB);
            strbuf_putc(out, ',');
            strbuf_int(out, has->amount.percent);
            strbuf_putc(out, ':');
        }
        strbuf_putc(out, ';');
    }
}

/* ---- what a node registers ---- */

struct registered {
    struct device *devices;
    uint32_t count;
    bool any_index; /* does any card tell its index? */
};

/* What a card says of itself, before it is known to be good. */
struct said {
    struct str id, model, mode;
    int64_t index, slots, mib, percent;
    bool healthy;
};

static int add_card(const struct said *said, struct registered *list, struct error *err)
{
    if (said->id.len == 0 || said->id.len > DEVICE_ID_MAX ||
        memchr(said->id.data, '\0', said->id.len) != NULL)
        return error_set(err, -EINVAL, "id: must have 1 to %d bytes", DEVICE_ID_MAX);
    if (said->model.len > DEVICE_MODEL_MAX)
        return error_set(err, -EINVAL, "type: longer than %d bytes", DEVICE_MODEL_MAX);
    if (list->count == CARDS_PER_NODE_MAX)
        return error_set(err, -EINVAL, "more than %d cards", CARDS_PER_NODE_MAX);
    for (uint32_t i = 0; i < list->count; i++)
        if (str_eq(list->devices[i].id, said->id))
            return error_set(err, -EINVAL, "id: %.*s came before", STR_ARG(said->id));
    list->devices[list->count++] = (struct device){
        .kind = DEVICE_GPU,
        .minor = (int32_t)said->index,
        .healthy = said->healthy && said->slots > 0 && !str_is(said->mode, "mig"),
        .total = {.percent = said->percent, .ratio = 100, .bytes = said->mib * MIB},
        .id = said->id,
        .model = said->model,
        .slots = (uint32_t)said->slots,
    };
    return 0;
}

static int read_json_card(struct str value, struct arena *mem, struct registered *list,
                          struct error *err)
{
    enum { ID, INDEX, COUNT, MEMORY, CORE, TYPE, MODE, HEALTH };
    struct reader_field fields[] = {
        [ID] = {.name = "id"},         [INDEX] = {.name = "index"},   [COUNT] = {.name = "count"},
        [MEMORY] = {.name = "devmem"}, [CORE] = {.name = "devcore"},  [TYPE] = {.name = "type"},
        [MODE] = {.name = "mode"},     [HEALTH] = {.name = "health"},
    };
    struct said said = {0};
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_string(&fields[ID], mem, &said.id, err);
    if (rc == 0)
        rc = reader_field_int(&fields[INDEX], 0, INT32_MAX, &said.index, err);
    if (rc == 0)
        rc = reader_field_int(&fields[COUNT], 0, INT32_MAX, &said.slots, err);
    if (rc == 0)
        rc = reader_field_int(&fields[MEMORY], 0, MIB_MAX, &said.mib, err);
    if (rc == 0)
        rc = reader_field_int(&fields[CORE], 0, CARD_PERCENT_MAX, &said.percent, err);
    if (rc == 0)
        rc = reader_field_string(&fields[TYPE], mem, &said.model, err);
    if (rc == 0)
        rc = reader_field_string(&fields[MODE], mem, &said.mode, err);
    if (rc == 0)
        rc = reader_field_bool(&fields[HEALTH], &said.healthy, err);
    list->any_index |= fields[INDEX].value.data != NULL;
    return rc < 0 ? rc : add_card(&said, list, err);
}

static int read_json(struct str text, struct arena *mem, struct registered *list, struct error *err)
{
    struct str value, item;
    int rc = reader_check(text, NESTING_MAX, &value, err);
    if (rc == 0 && reader_type(value) != READER_ARRAY)
        rc = reader_bad(err, "must be a list");
    if (rc < 0)
        return rc;
    struct reader_iter iter = reader_iterate(value);
    for (uint32_t i = 0; reader_next_item(&iter, &item); i++) {
        rc = read_json_card(item, mem, list, err);
        if (rc < 0)
            return reader_at(err, "[%u]", i);
    }
    return 0;
}

static int read_csv_card(struct str text, struct registered *list, struct error *err)
{
    enum { ID, COUNT, MEMORY, CORE, TYPE, NUMA, HEALTH, INDEX, MODE, FIELDS };
    struct str fields[FIELDS] = {{0}};
    uint32_t count = split(text, fields, FIELDS);
    struct said said = {0};
    if (count != HEALTH + 1 && count != FIELDS)
        return error_set(err, -EINVAL, "malformed segment \"%.*s\": unexpected field count %u",
                         STR_ARG(text), count);
    said.id = fields[ID];
    said.model = fields[TYPE];
    said.mode = fields[MODE];
    int rc = parse_number("count", fields[COUNT], INT32_MAX, &said.slots, err);
    if (rc == 0)
        rc = parse_number("devmem", fields[MEMORY], MIB_MAX, &said.mib, err);
    if (rc == 0)
        rc = parse_number("devcore", fields[CORE], CARD_PERCENT_MAX, &said.percent, err);
    if (rc == 0)
        rc = parse_number("numa", fields[NUMA], INT32_MAX, &said.index, err);
    said.index = 0;
    if (rc == 0 && count == FIELDS)
        rc = parse_number("index", fields[INDEX], INT32_MAX, &said.index, err);
    said.healthy = str_is(fields[HEALTH], "true");
    if (rc == 0 && !said.healthy && !str_is(fields[HEALTH], "false"))
        rc = error_set(err, -EINVAL, "health: \"%.*s\" is neither true nor false",
                       STR_ARG(fields[HEALTH]));
    list->any_index |= count == FIELDS;
    return rc < 0 ? rc : add_card(&said, list, err);
}

static int read_csv(struct str text, struct registered *list, struct error *err)
{
    struct str card;
    if (memchr(text.data, ':', text.len) == NULL)
        return error_set(err, -EINVAL, "missing device separator \":\"");
    while (cut(&text, ':', &card)) {
        if (card.len == 0)
            continue;
        uint32_t place = list->count;
        int rc = read_csv_card(card, list, err);
        if (rc < 0)
            return error_set(err, rc, "[%u].%s", place, err->text);
    }
    return text.len == 0 ? 0 : error_set(err, -EINVAL, "text behind the last \":\"");
}

/* Zero is left out of JSON, so no index is 0, unless nobody tells any. */
static int check_indexes(struct registered *list, struct error *err)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (!list->any_index)
            list->devices[i].minor = (int32_t)i;
        for (uint32_t j = 0; j < i; j++)
            if (list->devices[j].minor == list->devices[i].minor)
                return error_set(err, -EINVAL, "[%u].index: %d came before", i,
                                 list->devices[i].minor);
    }
    return list->count > 0 ? 0 : error_set(err, -EINVAL, "no gpu found on node");
}

int hami_register_parse(struct str text, struct arena *mem, struct inventory *ret,
                        struct error *err)
{
    struct error unwanted;
    struct registered list = {.devices =
                                  arena_alloc(mem, CARDS_PER_NODE_MAX, sizeof(struct device))};
    if (err == NULL)
        err = &unwanted;
    if (list.devices == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    size_t blanks = 0;
    while (blanks < text.len && memchr(" \t\r\n", text.data[blanks], 4) != NULL)
        blanks++;
    bool json = blanks < text.len && text.data[blanks] == '[';
    if (text.len == 0)
        return error_set(err, -EINVAL, "missing device separator: the text is empty");
    int rc = json ? read_json(text, mem, &list, err) : read_csv(text, &list, err);
    if (rc == 0)
        rc = check_indexes(&list, err);
    if (rc < 0)
        return rc == -ENOMEM ? rc : (err->code = -EINVAL);
    *ret = (struct inventory){.devices = list.devices, .count = list.count};
    return 0;
}
