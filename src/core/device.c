/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

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
    to->cards.sum = NULL; /* they are to change */
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What a card takes of which so much is free. The fit rule of allocate.c, solved for the request:
 *   ratio * total < (bytes + 1) * 100     and     bytes * 100 < (ratio + 1) * total   */
static struct card_fit fit_of(unsigned has, const struct amount *left, int64_t total_bytes)
{
    struct card_fit fit = {-1, -1, -1};
    if (has & DIM_BIT(DIM_PERCENT))
        fit.percent = (int32_t)left->percent;
    if (has & DIM_BIT(DIM_RATIO))
        fit.ratio = (int32_t)(total_bytes > 0
                                  ? smaller(left->ratio, ((left->bytes + 1) * 100 - 1) / total_bytes)
                                  : left->ratio);
    if (has & DIM_BIT(DIM_BYTES))
        fit.bytes = has & DIM_BIT(DIM_RATIO)
                        ? smaller(left->bytes, ((left->ratio + 1) * total_bytes - 1) / 100)
                        : left->bytes;
    return fit;
}

static struct card_fit fit_now(const struct card_columns *at, uint32_t row)
{
    struct amount left = {at->free_percent[row], at->free_ratio[row], at->free_bytes[row]};
    return fit_of(at->has[row], &left, at->total_bytes[row]);
}

/* The smaller of each dimension, or the larger. */
static struct card_fit join(struct card_fit a, struct card_fit b, bool least)
{
    return (struct card_fit){
        .percent = (a.percent < b.percent) == least ? a.percent : b.percent,
        .ratio = (a.ratio < b.ratio) == least ? a.ratio : b.ratio,
        .bytes = (a.bytes < b.bytes) == least ? a.bytes : b.bytes,
    };
}

static bool same_fit(struct card_fit a, struct card_fit b)
{
    return a.percent == b.percent && a.ratio == b.ratio && a.bytes == b.bytes;
}

static bool same_size(const struct card_columns *at, uint32_t a, uint32_t b)
{
    return at->has[a] == at->has[b] && at->total[a].percent == at->total[b].percent &&
           at->total[a].ratio == at->total[b].ratio && at->total[a].bytes == at->total[b].bytes;
}

/* The parts of a sum that tell what fits. */
static void add_up_fits(const struct card_columns *at, uint32_t begin, uint32_t end,
                        struct cards_sum *sum)
{
    sum->uniform = end > begin;
    for (uint32_t row = begin; row < end; row++) {
        struct card_fit fit = fit_now(at, row);
        sum->most = row == begin ? fit : join(sum->most, fit, false);
        sum->least = row == begin ? fit : join(sum->least, fit, true);
        sum->uniform &= at->has[row] != 0 && same_size(at, begin, row);
        if (at->has[row] != 0 && at->pods[row] == 0)
            sum->idle++;
    }
    for (uint32_t row = begin; row < end && !sum->peak; row++)
        sum->peak = same_fit(fit_now(at, row), sum->most);
    if (sum->uniform)
        sum->empty = fit_of(at->has[begin], &at->total[begin], at->total[begin].bytes);
}

static void add_amounts(struct amount *to, int64_t percent, int64_t ratio, int64_t bytes)
{
    to->percent += percent;
    to->ratio += ratio;
    to->bytes += bytes;
}

void cards_add_up(const struct cards *cards, enum device_kind kind, struct cards_sum *ret)
{
    const struct card_columns *at = cards->at;
    uint32_t begin = cards_begin(cards, kind), end = begin + cards->count[kind];
    memset(ret, 0, sizeof *ret);
    ret->count = cards->count[kind];
    add_up_fits(at, begin, end, ret);
    for (uint32_t row = begin; row < end; row++) {
        if (!at->registered[row])
            continue;
        ret->listed = true;
        ret->memory_known |= at->has[row] & DIM_BIT(DIM_BYTES) || cards_may_recover(at, row);
        add_amounts(&ret->total, at->total[row].percent, at->total[row].ratio, at->total[row].bytes);
        add_amounts(&ret->left, at->free_percent[row], at->free_ratio[row], at->free_bytes[row]);
    }
}

const struct cards_sum *cards_sum_of(const struct cards *cards, enum device_kind kind,
                                     struct cards_sum *space)
{
    if (cards->sum != NULL)
        return &cards->sum[kind];
    cards_add_up(cards, kind, space);
    return space;
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
