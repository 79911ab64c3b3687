/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device.h"

#include <assert.h>
#include <stddef.h>

struct dimension_row {
    const char *name;
    const char *old_name; /* deprecated */
};

/* One row a device kind; a dimension without a name is one that the kind does not have. */
static const struct {
    const char *name;
    struct dimension_row dimension[DIM_MAX];
} kinds[DEVICE_KIND_MAX] = {
    [DEVICE_GPU] = {"gpu",
                    {
                        [DIM_PERCENT] = {"koordinator.sh/gpu-core", "kubernetes.io/gpu-core"},
                        [DIM_RATIO] = {"koordinator.sh/gpu-memory-ratio",
                                       "kubernetes.io/gpu-memory-ratio"},
                        [DIM_BYTES] = {"koordinator.sh/gpu-memory", "kubernetes.io/gpu-memory"},
                    }},
    [DEVICE_RDMA] = {"rdma", {[DIM_PERCENT] = {"koordinator.sh/rdma", "kubernetes.io/rdma"}}},
    [DEVICE_FPGA] = {"fpga", {[DIM_PERCENT] = {"koordinator.sh/fpga", "kubernetes.io/fpga"}}},
};

const char *device_kind_name(enum device_kind kind)
{
    assert(kind < DEVICE_KIND_MAX);
    return kinds[kind].name;
}

enum device_kind device_kind_find(struct str name)
{
    enum device_kind kind = 0;
    while (kind < DEVICE_KIND_MAX && !str_is(name, kinds[kind].name))
        kind++;
    return kind;
}

const char *device_dimension_name(enum device_kind kind, enum dimension dim)
{
    assert(kind < DEVICE_KIND_MAX && dim < DIM_MAX);
    return kinds[kind].dimension[dim].name;
}

enum dimension device_dimension_find(enum device_kind kind, struct str resource)
{
    assert(kind < DEVICE_KIND_MAX);
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        const struct dimension_row *row = &kinds[kind].dimension[dim];
        if (row->name != NULL && (str_is(resource, row->name) || str_is(resource, row->old_name)))
            return dim;
    }
    return DIM_MAX;
}

uint32_t cards_begin(const struct cards *cards, enum device_kind kind)
{
    uint32_t row = cards->first;
    for (enum device_kind before = 0; before < kind; before++)
        row += cards->count[before];
    return row;
}

uint32_t cards_find(const struct cards *cards, enum device_kind kind, int32_t minor)
{
    uint32_t row = cards_begin(cards, kind);
    for (uint32_t end = row + cards->count[kind]; row < end; row++)
        if (cards->at->minor[row] == minor)
            return row;
    return UINT32_MAX;
}

static int64_t left_over(int64_t total, int64_t used)
{
    return total > used ? total - used : 0;
}

bool cards_given_twice(const struct card_columns *columns, uint32_t row)
{
    bool over = false;
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        int64_t total = amount_get(&columns->total[row], dim);
        over |= total > 0 && amount_get(&columns->used[row], dim) > total;
    }
    return over && columns->pods[row] > 1 && columns->registered[row];
}

bool cards_can_give(const struct card_columns *columns, uint32_t row)
{
    const struct amount *total = &columns->total[row];
    return columns->registered[row] && (total->percent > 0 || total->ratio > 0 || total->bytes > 0);
}

void cards_refresh(struct card_columns *columns, uint32_t row)
{
    const struct amount *total = &columns->total[row];
    const struct amount *used = &columns->used[row];
    bool usable = columns->registered[row] &&
                  (columns->slots[row] == 0 || columns->users[row] < columns->slots[row]);

    unsigned has = 0;
    for (enum dimension dim = 0; usable && dim < DIM_MAX; dim++)
        if (amount_get(total, dim) > 0)
            has |= DIM_BIT(dim);

    bool open = usable && !cards_given_twice(columns, row);
    columns->has[row] = (uint8_t)has;
    columns->free_percent[row] = open ? (int32_t)left_over(total->percent, used->percent) : 0;
    columns->free_ratio[row] = open ? (int32_t)left_over(total->ratio, used->ratio) : 0;
    columns->free_bytes[row] = open ? left_over(total->bytes, used->bytes) : 0;
    columns->total_bytes[row] = usable ? total->bytes : 0;
}

void cards_charge(struct card_columns *columns, uint32_t row, const struct amount *amount,
                  uint32_t users, int sign)
{
    assert(sign == 1 || sign == -1);
    struct amount *used = &columns->used[row];
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        int64_t value = amount_get(amount, dim);
        int64_t before = amount_get(used, dim);
        assert(value >= 0 && (sign > 0 ? before <= INT64_MAX - value : before >= value));
        amount_set(used, dim, sign > 0 ? before + value : before - value);
    }
    assert(sign > 0 || (columns->pods[row] > 0 && columns->users[row] >= users));
    columns->pods[row] += sign > 0 ? 1u : -1u;
    columns->users[row] += sign > 0 ? users : -users;
    cards_refresh(columns, row);
}

/* Copy one row to the scratch columns. */
static void copy_row(struct card_columns *to, uint32_t at, const struct card_columns *from,
                     uint32_t row)
{
    to->minor[at] = from->minor[row];
    to->has[at] = from->has[row];
    to->registered[at] = from->registered[row];
    to->pods[at] = from->pods[row];
    to->free_percent[at] = from->free_percent[row];
    to->free_ratio[at] = from->free_ratio[row];
    to->free_bytes[at] = from->free_bytes[row];
    to->total_bytes[at] = from->total_bytes[row];
    to->total[at] = from->total[row];
    to->used[at] = from->used[row];
    to->users[at] = from->users[row];
    to->slots[at] = from->slots[row];
    to->id[at] = from->id[row];
    to->model[at] = from->model[row];
}

void cards_copy(const struct cards *cards, struct card_copy *to)
{
    uint32_t rows = 0;
    for (unsigned kind = 0; kind < DEVICE_KIND_MAX; kind++)
        rows += cards->count[kind];
    to->columns = (struct card_columns){
        .minor = to->minor,
        .has = to->has,
        .registered = to->registered,
        .pods = to->pods,
        .free_percent = to->free_percent,
        .free_ratio = to->free_ratio,
        .free_bytes = to->free_bytes,
        .total_bytes = to->total_bytes,
        .total = to->total,
        .used = to->used,
        .users = to->users,
        .slots = to->slots,
        .id = to->id,
        .model = to->model,
    };
    for (uint32_t i = 0; i < rows; i++)
        copy_row(&to->columns, i, cards->at, cards->first + i);
    to->cards = *cards;
    to->cards.at = &to->columns;
    to->cards.first = 0;
}

int64_t memory_ratio_to_bytes(int64_t ratio, int64_t total_bytes)
{
    assert(ratio >= 0 && ratio <= CARD_PERCENT_MAX);
    assert(total_bytes >= 0 && total_bytes <= CARD_BYTES_MAX);
    return ratio * total_bytes / 100;
}

int64_t memory_bytes_to_ratio(int64_t bytes, int64_t total_bytes)
{
    assert(bytes >= 0 && bytes <= CARD_BYTES_MAX);
    assert(total_bytes >= 0 && total_bytes <= CARD_BYTES_MAX);
    return total_bytes > 0 ? bytes * 100 / total_bytes : 0;
}
