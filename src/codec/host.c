/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/host.h"

#include <errno.h>

#include "core/quantity.h"

/* The text of a quantity that is a string or a number; data NULL if it is neither. */
static struct str quantity_text(struct str value, char buffer[READER_KEY_MAX])
{
    switch (reader_type(value)) {
    case READER_STRING:
        return reader_key(value, buffer);
    case READER_NUMBER:
        return value;
    default:
        return (struct str){NULL, 0};
    }
}

/* What `value` comes to goes to *ret, unless it is missing, null or something else. */
static void take_amount(struct str value, int (*parse)(struct str, int64_t *, struct error *),
                        int64_t *ret)
{
    UNSET char buffer[READER_KEY_MAX];
    if (value.data == NULL)
        return;
    struct str text = quantity_text(value, buffer);
    if (text.data == NULL)
        return;
    struct error why;
    int64_t amount = 0;
    int rc = parse(text, &amount, &why);
    if (rc == -ERANGE)
        amount = INT64_MAX;
    *ret = amount > 0 && (rc == 0 || rc == -ERANGE) ? amount : 0;
}

void host_amount_override(const struct reader_field *map, struct host_amount *amount)
{
    UNSET char buffer[READER_KEY_MAX];
    struct str name, value, cpu = {NULL, 0}, memory = {NULL, 0};
    if (map->value.data == NULL || reader_type(map->value) != READER_OBJECT)
        return;
    struct reader_iter iter = reader_iterate(map->value);
    while (reader_next_named(&iter, buffer, &name, &value)) { /* the last one of a name counts */
        if (str_is(name, "cpu"))
            cpu = value;
        else if (str_is(name, "memory"))
            memory = value;
    }
    take_amount(cpu, quantity_parse_milli, &amount->cpu_milli);
    take_amount(memory, quantity_parse, &amount->memory_bytes);
}

struct host_amount host_amount_decode(const struct reader_field *map)
{
    struct host_amount amount = {0};
    host_amount_override(map, &amount);
    return amount;
}
