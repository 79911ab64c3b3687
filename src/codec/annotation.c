/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/annotation.h"

#include <errno.h>

#include "codec/amount.h"
#include "codec/reader.h"
#include "codec/reader_index.h"
#include "core/quantity.h"

/* Levels of a device-allocated annotation that anybody is known to write: 6, with extensions. */
enum { NESTING_MAX = 16 };

#define EXTENSION_CONTAINERS "deviceshare.io/containers"

/* Go sorts the keys of a map, so types and resource names stand in byte order. */
static const enum device_kind kinds_by_name[] = {DEVICE_FPGA, DEVICE_GPU, DEVICE_RDMA};
static const enum dimension dimensions_by_name[] = {DIM_PERCENT, DIM_BYTES, DIM_RATIO};

/* ---- reading ---- */

struct share_list {
    struct share shares[CARDS_PER_POD_MAX]; /* sorted by kind and minor */
    uint32_t count;
};

static bool within_bounds(const struct amount *amount)
{
    return amount->percent <= CARD_PERCENT_MAX && amount->ratio <= CARD_PERCENT_MAX &&
           amount->bytes <= CARD_BYTES_MAX;
}

/* Insert the share, or add it to the one of the same card. */
static int add_share(struct share_list *list, const struct share *share, struct error *err)
{
    uint32_t at = 0;
    while (at < list->count &&
           (list->shares[at].kind < share->kind ||
            (list->shares[at].kind == share->kind && list->shares[at].minor < share->minor)))
        at++;

    struct share *place = &list->shares[at];
    if (at < list->count && place->kind == share->kind && place->minor == share->minor) {
        struct amount sum = place->amount;
        sum.percent += share->amount.percent;
        sum.ratio += share->amount.ratio;
        sum.bytes += share->amount.bytes;
        if (!within_bounds(&sum))
            return reader_bad(err, "more than a card can have");
        place->amount = sum;
        place->beside = place->beside > share->beside ? place->beside : share->beside;
        return 0;
    }

    if (list->count == CARDS_PER_POD_MAX)
        return error_set(err, -EINVAL, ": more than %d cards", CARDS_PER_POD_MAX);
    memmove(place + 1, place, (list->count - at) * sizeof(*place));
    *place = *share;
    list->count++;
    return 0;
}

/* Ours, in an object where Koordinator has members of its own: containers that share the card. */
static int read_containers(const struct reader_field *extension, uint32_t *ret_beside,
                           struct error *err)
{
    struct reader_field containers = {.name = EXTENSION_CONTAINERS};
    int64_t count = 1;
    if (extension->value.data == NULL || reader_type(extension->value) != READER_OBJECT ||
        !reader_find(extension->value, containers.name, &containers.value))
        return 0;
    int rc = reader_field_int(&containers, 1, CARDS_PER_POD_MAX, &count, err);
    *ret_beside = (uint32_t)(count - 1);
    return rc < 0 ? reader_at(err, "%s", extension->name) : 0;
}

static int read_entry(enum device_kind kind, struct str value, struct share_list *list,
                      struct error *err)
{
    enum { MINOR, RESOURCES, EXTENSION };
    struct reader_field fields[] = {[MINOR] = {.name = "minor"},
                                    [RESOURCES] = {.name = "resources"},
                                    [EXTENSION] = {.name = "extension"}};
    struct share share = {.kind = kind};
    int64_t minor = -1;
    int rc = reader_object(value, READER_FIELDS(fields), err);
    if (rc == 0)
        rc = reader_field_int(&fields[MINOR], 0, INT32_MAX, &minor, err);
    if (rc == 0 && minor < 0) {
        reader_bad(err, "must be given");
        rc = reader_at(err, "%s", fields[MINOR].name);
    }
    if (rc == 0)
        rc = amount_decode(kind, &fields[RESOURCES], &share.amount, err);
    if (rc == 0)
        rc = read_containers(&fields[EXTENSION], &share.beside, err);
    if (rc < 0)
        return rc;
    share.minor = (int32_t)minor;
    return add_share(list, &share, err);
}

/* The cards of one kind; other types in the map are nobody's that we know. */
static int read_kind(enum device_kind kind, struct str types, struct share_list *list,
                     struct error *err)
{
    struct reader_field entries = {.name = device_kind_name(kind)};
    uint32_t count = 0;
    if (!reader_find(types, entries.name, &entries.value))
        return 0;
    int rc = reader_field_array(&entries, &count, err);
    if (rc < 0)
        return rc;

    struct reader_iter iter = reader_iterate(entries.value);
    struct str value;
    for (uint32_t i = 0; reader_next_item(&iter, &value); i++) {
        if (read_entry(kind, value, list, err) < 0)
            return reader_at(err, "%s[%u]", entries.name, i);
    }
    return 0;
}

static int read_kinds(struct str types, struct share_list *list, struct error *err)
{
    int rc = reader_object(types, NULL, 0, err);
    for (enum device_kind kind = 0; rc == 0 && kind < DEVICE_KIND_MAX; kind++)
        rc = read_kind(kind, types, list, err);
    return rc;
}

int annotation_parse(struct str text, struct arena *mem, const struct share **ret_shares,
                     uint32_t *ret_count, struct error *err)
{
    struct error unwanted;
    if (err == NULL)
        err = &unwanted;
    UNSET struct share_list list;
    list.count = 0;

    AUTO_INDEX index;
    reader_index_begin_inner(&index);
    struct str value;
    int rc = reader_check(text, NESTING_MAX, &value, err);
    if (rc == 0)
        rc = read_kinds(value, &list, err);
    if (rc < 0) {
        reader_at(err, "device-allocated");
        return err->code = rc == -ENOMEM ? -ENOMEM : -EINVAL;
    }
    struct share *shares = arena_alloc(mem, list.count, sizeof *shares);
    if (shares == NULL)
        return error_set(err, -ENOMEM, "device-allocated: out of memory");
    if (list.count > 0)
        memcpy(shares, list.shares, list.count * sizeof *shares);
    *ret_shares = shares;
    *ret_count = list.count;
    return 0;
}

/* ---- writing ---- */

/* Koordinator fills in the memory figure of a GPU that the pod did not name, also when it is 0. */
static bool is_written(const struct amount *amount, enum dimension dim)
{
    bool has_memory = amount->bytes != 0 || amount->ratio != 0;
    return amount_get(amount, dim) != 0 || (has_memory && dim != DIM_PERCENT);
}

static void write_resources(const struct share *share, struct strbuf *out)
{
    bool first = true;
    strbuf_putc(out, '{');
    for (unsigned i = 0; i < DIM_MAX; i++) {
        enum dimension dim = dimensions_by_name[i];
        const char *name = device_dimension_name(share->kind, dim);
        int64_t value = amount_get(&share->amount, dim);
        if (name == NULL || !is_written(&share->amount, dim))
            continue;
        char quantity[QUANTITY_TEXT_MAX];
        if (dim == DIM_BYTES)
            quantity_format_binary(value, quantity);
        else
            quantity_format_decimal(value, quantity);
        strbuf_printf(out, "%s\"%s\":\"%s\"", first ? "" : ",", name, quantity);
        first = false;
    }
    strbuf_putc(out, '}');
}

static void write_card(const struct placed_card *card, struct strbuf *out)
{
    strbuf_puts(out, "{\"minor\":");
    strbuf_int(out, card->share.minor);
    strbuf_puts(out, ",\"resources\":");
    write_resources(&card->share, out);
    if (card->id[0] != '\0') {
        strbuf_puts(out, ",\"id\":");
        strbuf_json_string(out, str_from(card->id));
    }
    if (card->share.beside > 0)
        strbuf_printf(out, ",\"extension\":{\"" EXTENSION_CONTAINERS "\":%u}",
                      card->share.beside + 1);
    strbuf_putc(out, '}');
}

void annotation_format(const struct placement *placement, struct strbuf *out)
{
    const char *type_separator = "";
    strbuf_putc(out, '{');
    for (unsigned k = 0; k < DEVICE_KIND_MAX; k++) {
        enum device_kind kind = kinds_by_name[k];
        uint32_t written = 0;
        for (uint32_t i = 0; i < placement->count; i++) {
            const struct placed_card *card = &placement->cards[i];
            if (card->share.kind != kind)
                continue;
            if (written++ == 0)
                strbuf_printf(out, "%s\"%s\":[", type_separator, device_kind_name(kind));
            else
                strbuf_putc(out, ',');
            write_card(card, out);
        }
        if (written > 0) {
            strbuf_putc(out, ']');
            type_separator = ",";
        }
    }
    strbuf_putc(out, '}');
}

void annotation_format_visible(const struct placement *placement, struct strbuf *out)
{
    bool all_have_ids = true;
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct placed_card *card = &placement->cards[i];
        if (card->share.kind == DEVICE_GPU && card->id[0] == '\0')
            all_have_ids = false;
    }

    const char *separator = "";
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct placed_card *card = &placement->cards[i];
        if (card->share.kind != DEVICE_GPU)
            continue;
        strbuf_puts(out, separator);
        if (all_have_ids)
            strbuf_puts(out, card->id);
        else
            strbuf_int(out, card->share.minor);
        separator = ",";
    }
}
