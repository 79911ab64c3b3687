/* SPDX-License-Identifier: Apache-2.0 */
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

bool read_amount(struct vector *v, const char *where, json_object *map, enum device_kind kind,
                 struct amount *ret)
{
    struct amount amount = {0};
    if (map != NULL && !json_object_is_type(map, json_type_object)) {
        vector_unsupported(v, "%s is no map of amounts", where);
        return false;
    }
    if (map != NULL) {
        json_object_object_foreach(map, name, value) {
            int64_t number = 0;
            enum dimension dim = device_dimension_find(kind, str_from(name));
            if (dim == DIM_MAX) {
                vector_unsupported(v, "unknown resource %s in %s", name, where);
                return false;
            }
            if (value != NULL && !json_number(value, &number)) {
                vector_unsupported(v, "%s of %s is no amount", name, where);
                return false;
            }
            if (number < 0 || number > (dim == DIM_BYTES ? CARD_BYTES_MAX : CARD_PERCENT_MAX)) {
                vector_unsupported(v, "%s of %s is past our bounds", name, where);
                return false;
            }
            if (number != 0)
                amount_set(&amount, dim, number);
        }
    }
    *ret = amount;
    return true;
}

json_object *amount_map(enum device_kind kind, const struct amount *amount)
{
    json_object *map = json_new_object();
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        if (amount_get(amount, dim) != 0)
            json_put_int(map, device_dimension_name(kind, dim), amount_get(amount, dim));
    return map;
}

static bool place(struct vector *v, const char *where, enum device_kind kind, int64_t minor,
                  json_object *resources, const char *id, struct placement *ret)
{
    if (ret->count == CARDS_PER_POD_MAX || minor < INT32_MIN || minor > INT32_MAX ||
        strlen(id) > DEVICE_ID_MAX) {
        vector_unsupported(v, "%s is past our bounds", where);
        return false;
    }
    struct placed_card *card = &ret->cards[ret->count++];
    *card = (struct placed_card){.share = {.kind = kind, .minor = (int32_t)minor}};
    (void)snprintf(card->id, sizeof(card->id), "%s", id);
    return read_amount(v, where, resources, kind, &card->share.amount);
}

static bool place_list(struct vector *v, const char *where, enum device_kind kind,
                       json_object *list, struct placement *ret)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *entry = json_object_array_get_idx(list, i);
        int64_t minor = 0;
        if (!fields_known(v, where, entry, "minor resources id ?vfs ?template ?extension"))
            return false;
        if (!json_number(json_get(entry, "minor"), &minor)) {
            vector_unsupported(v, "%s has an entry without minor", where);
            return false;
        }
        if (!place(v, where, kind, minor, json_get(entry, "resources"), json_text(entry, "id", ""),
                   ret))
            return false;
    }
    return true;
}

static bool place_map(struct vector *v, const char *where, enum device_kind kind, json_object *map,
                      struct placement *ret)
{
    json_object_object_foreach(map, key, resources) {
        int64_t minor;
        if (!parse_int64(str_from(key), &minor)) {
            vector_unsupported(v, "%s: %s is no minor", where, key);
            return false;
        }
        if (!place(v, where, kind, minor, resources, "", ret))
            return false;
    }
    return true;
}

static int by_kind_and_minor(const void *a, const void *b)
{
    const struct share *left = &((const struct placed_card *)a)->share;
    const struct share *right = &((const struct placed_card *)b)->share;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    return (left->minor > right->minor) - (left->minor < right->minor);
}

bool read_placement(struct vector *v, const char *where, json_object *types, struct placement *ret)
{
    struct placement placement = {0};
    if (types != NULL && !json_object_is_type(types, json_type_object)) {
        vector_unsupported(v, "%s is no map of device types", where);
        return false;
    }
    if (types != NULL) {
        json_object_object_foreach(types, name, cards) {
            enum device_kind kind = device_kind_find(str_from(name));
            bool good = true;
            if (kind == DEVICE_KIND_MAX) {
                vector_unsupported(v, "unknown device type %s in %s", name, where);
                return false;
            }
            if (json_object_is_type(cards, json_type_array))
                good = place_list(v, where, kind, cards, &placement);
            else if (json_object_is_type(cards, json_type_object))
                good = place_map(v, where, kind, cards, &placement);
            else if (cards != NULL)
                vector_unsupported(v, "%s of %s is neither list nor map", name, where);
            if (!good || !vector_supported(v))
                return false;
        }
    }
    qsort(placement.cards, placement.count, sizeof(placement.cards[0]), by_kind_and_minor);
    *ret = placement;
    return true;
}

json_object *placement_lists(const struct placement *placement)
{
    json_object *types = json_new_object();
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct placed_card *card = &placement->cards[i];
        const char *type = device_kind_name(card->share.kind);
        if (!json_has(types, type))
            json_put(types, type, json_new_array());
        json_object *entry = json_new_object();
        json_put_int(entry, "minor", card->share.minor);
        json_put(entry, "resources", amount_map(card->share.kind, &card->share.amount));
        if (card->id[0] != '\0')
            json_put_text(entry, "id", card->id);
        json_push(json_get(types, type), entry);
    }
    return types;
}

json_object *placement_maps(const struct placement *placement)
{
    json_object *types = json_new_object();
    for (uint32_t i = 0; i < placement->count; i++) {
        const struct share *share = &placement->cards[i].share;
        char minor[16];
        (void)snprintf(minor, sizeof(minor), "%d", (int)share->minor);
        json_put(json_sub(types, device_kind_name(share->kind)), minor,
                 amount_map(share->kind, &share->amount));
    }
    return types;
}
