/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/dump.h"

void dump_amount(enum device_kind kind, const struct amount *amount, struct strbuf *out)
{
    const char *separator = "";
    strbuf_putc(out, '{');
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        const char *name = device_dimension_name(kind, dim);
        int64_t value = amount_get(amount, dim);
        if (name == NULL || value == 0)
            continue;
        strbuf_printf(out, "%s\"%s\":", separator, name);
        strbuf_int(out, value);
        separator = ",";
    }
    strbuf_putc(out, '}');
}
