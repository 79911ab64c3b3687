/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/amount.h"

static int decode_one(enum dimension dim, struct str value, int64_t *ret, struct error *err)
{
    int64_t number;
    int rc = reader_quantity(value, &number, err);
    if (rc < 0)
        return rc;
    if (number < 0 || number > (dim == DIM_BYTES ? CARD_BYTES_MAX : CARD_PERCENT_MAX))
        return reader_bad(err, "negative, or more than a card can have");
    *ret = number;
    return 0;
}

int amount_decode(enum device_kind kind, const struct reader_field *resources, struct amount *ret,
                  struct error *err)
{
    int rc = reader_field_object(resources, NULL, 0, err);
    if (rc < 0 || resources->value.data == NULL)
        return rc;

    struct amount amount = {0};
    bool has_current[DIM_MAX] = {false};
    struct reader_iter iter = reader_iterate(resources->value);
    UNSET char buffer[READER_KEY_MAX];
    struct str name, value;
    while (reader_next_named(&iter, buffer, &name, &value)) {
        enum dimension dim = device_dimension_find(kind, name);
        if (dim == DIM_MAX)
            continue;
        int64_t number = 0;
        if (decode_one(dim, value, &number, err) < 0) {
            reader_at(err, "[\"%.*s\"]", STR_ARG(name));
            return reader_at(err, "%s", resources->name);
        }
        bool current = str_is(name, device_dimension_name(kind, dim));
        if (current || !has_current[dim])
            amount_set(&amount, dim, number);
        has_current[dim] |= current;
    }
    *ret = amount;
    return 0;
}
