/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/links.h"

/*
 * The device model: what a card is and what can be taken from it.
 *
 * Kinds are the device types of Koordinator's Device object; the three dimensions are what a card
 * is measured in. rdma and fpga have only the first one. One table row per kind (device.c) says
 * which resource name each dimension has.
 */
enum device_kind { DEVICE_GPU, DEVICE_RDMA, DEVICE_FPGA, DEVICE_KIND_MAX };

enum dimension {
    DIM_PERCENT, /* gpu-core, rdma, fpga: percent of one card */
    DIM_RATIO,   /* gpu-memory-ratio: percent of one card's memory */
    DIM_BYTES,   /* gpu-memory: bytes */
    DIM_MAX
};

#define DIM_BIT(dim) (1u << (dim))

/* Bounds on what comes from outside. Past them a Device entry or an annotation is refused; together
 * they keep every sum and product below in int64. */
#define CARDS_PER_NODE_MAX 256
#define CARDS_PER_POD_MAX 64
#define CARD_BYTES_MAX (INT64_C(1) << 42) /* 4 TiB of memory on one card */
#define CARD_PERCENT_MAX INT64_C(100000)
#define PODS_PER_CARD_MAX 2000000 /* more than one etcd can store */
#define DEVICE_ID_MAX 95 /* bytes of a device id (UUID, PCI address) */
#define DEVICE_MODEL_MAX   127 /* bytes of a card's model */

/* An amount in all dimensions of one card; a dimension that does not apply is 0. */
struct amount {
    int64_t percent;
    int64_t ratio;
    int64_t bytes;
};

/* One entry of a Device object, as decoded. */
struct device {
    enum device_kind kind;
    int32_t minor;
    bool healthy;
    struct amount total;
    struct str id; /* borrowed; empty if none */
    struct str model; /* borrowed; empty if not told */
    uint32_t slots;   /* containers that may use it at a time; 0 = any number */
};

/* What a Device object lists: borrowed entries, any order, minors unique within a kind. */
struct inventory {
    const struct device *devices;
    uint32_t count;
    struct links links; /* of its GPUs, borrowed; empty if nothing is told */
};

/* A share of one card: what one pod takes from it. */
struct share {
    enum device_kind kind;
    int32_t minor;
    struct amount amount;
    uint32_t beside; /* containers of the pod that use the card beside the first one */
};

/*
 * Cards in columns, so that a scan over thousands of nodes reads little memory. One row a card; the
 * rows of a node are contiguous, grouped by kind in enum order, minors ascending inside a kind.
 * `has` tells which dimensions the card can give now: 0 for a card that must not be chosen
 * (unhealthy, not listed any more, nothing to give, all slots taken). `used` may exceed `total`
 * when a card shrank under its pods, or was given twice. Invariant, kept by cards_refresh(): free_*
 * = max(total - used, 0) where `has` says so and the card was not given twice, else 0.
 */
struct card_columns {
    int32_t *minor;
    uint8_t *has;          /* DIM_BIT()s */
    bool *registered;      /* listed in the Device object */
    uint32_t *pods;        /* pods that hold anything here, also a zero share */
    uint32_t *users;       /* their containers */
    uint32_t *slots;       /* containers that may; 0 = any number */
    int32_t *free_percent; /* hot copies for the scan */
    int32_t *free_ratio;
    int64_t *free_bytes;
    int64_t *total_bytes;
    struct amount *total; /* zero unless healthy and listed */
    struct amount *used;
    struct str *id; /* borrowed texts, empty where not told */
    struct str *model;
};

/* The largest request of each dimension that a card takes, whatever of the others it needs with it: the
 * figures derived from a request are in here, so that a request fits if and only if it is no larger in
 * any dimension that it names. -1: the card does not have the dimension. */
struct card_fit {
    int32_t percent, ratio;
    int64_t bytes;
};

/* What a node's cards of one kind come to: with it most nodes are decided without a look at their
 * cards. */
struct cards_sum {
    struct card_fit most, least; /* by dimension: the most and the least that any one takes now */
    struct card_fit empty;       /* uniform: what one takes that bears no pod */
    uint16_t count;              /* of cards */
    uint16_t idle;               /* cards that can give something and bear no pod */
    bool peak;                   /* one card takes `most` in all dimensions */
    bool uniform;                /* all are listed, can give something, and are of the same size */
    bool listed;                 /* there is a listed card */
    bool memory_known;           /* there is one that states its memory, or may do so once it recovers */
    struct amount total, left;   /* of the listed cards together */
};

/* One node's cards: a window on columns that somebody else owns and does not change meanwhile. */
struct cards {
    const struct card_columns *at;
    uint32_t first;
    uint16_t count[DEVICE_KIND_MAX];
    const struct cards_sum *sum; /* by kind, as cards_add_up() gives them; NULL: nobody keeps them */
    const struct links *links;   /* of the GPUs; NULL: nothing is told */
};

/* A node's cards, copied: to be changed at will, or read while the original changes. The texts of
 * id and model, and the links, stay the original's. */
struct card_copy {
    struct cards cards; /* window on `columns` below */
    struct card_columns columns;
    int32_t minor[CARDS_PER_NODE_MAX];
    uint8_t has[CARDS_PER_NODE_MAX];
    bool registered[CARDS_PER_NODE_MAX];
    uint32_t pods[CARDS_PER_NODE_MAX];
    uint32_t users[CARDS_PER_NODE_MAX];
    uint32_t slots[CARDS_PER_NODE_MAX];
    int32_t free_percent[CARDS_PER_NODE_MAX];
    int32_t free_ratio[CARDS_PER_NODE_MAX];
    int64_t free_bytes[CARDS_PER_NODE_MAX];
    int64_t total_bytes[CARDS_PER_NODE_MAX];
    struct amount total[CARDS_PER_NODE_MAX];
    struct amount used[CARDS_PER_NODE_MAX];
    struct str id[CARDS_PER_NODE_MAX];
    struct str model[CARDS_PER_NODE_MAX];
};

/* Copy a node's cards; `to` must not move afterwards. */
void cards_copy(const struct cards *cards, struct card_copy *to);

/* "gpu", "rdma", "fpga". */
const char *device_kind_name(enum device_kind kind);

/* The kind called `name`, or DEVICE_KIND_MAX. */
enum device_kind device_kind_find(struct str name);

/* Full resource name of a dimension of a kind ("koordinator.sh/gpu-memory"), NULL if the kind
 * has no such dimension. */
const char *device_dimension_name(enum device_kind kind, enum dimension dim);

/* The dimension of `kind` called by this resource name; Koordinator's deprecated kubernetes.io/
 * names are known too. DIM_MAX if none. */
enum dimension device_dimension_find(enum device_kind kind, struct str resource);

/* Row number of the first card of `kind`. */
uint32_t cards_begin(const struct cards *cards, enum device_kind kind);

/* Row of the card with this minor, or UINT32_MAX. */
uint32_t cards_find(const struct cards *cards, enum device_kind kind, int32_t minor);

/* Have the pods of the card in `row`, more than one, more of a dimension than it has? Such a card is closed:
 * it gives nothing of any dimension. Never so of a card that has nothing now. */
bool cards_given_twice(const struct card_columns *columns, uint32_t row);

/* Is the card in `row` listed, healthy and with something to give, be it taken or not? */
bool cards_can_give(const struct card_columns *columns, uint32_t row);

/* Recompute the free_* and has columns of `row` from total, used and registered. */
void cards_refresh(struct card_columns *columns, uint32_t row);

/* Add one pod's share to (sign 1) or take it from (sign -1) the card in `row`: its used amounts,
 * its number of pods and that of their containers, of which the pod has `users` there; refreshes
 * the row. Taking more than is there is a programming error (assert). */
void cards_charge(struct card_columns *columns, uint32_t row, const struct amount *amount,
                  uint32_t users, int sign);

/* Add the cards of `kind` up; cards->sum is not looked at. Every bit of *ret is set, so that two sums can
 * be compared as memory. */
void cards_add_up(const struct cards *cards, enum device_kind kind, struct cards_sum *ret);

/* The sum of `kind`: the one that is kept, or *space with a new one. */
const struct cards_sum *cards_sum_of(const struct cards *cards, enum device_kind kind,
                                     struct cards_sum *space);

/* Listed, but unhealthy or with nothing to give: such a card may recover. */
static inline bool cards_may_recover(const struct card_columns *columns, uint32_t row)
{
    return columns->registered[row] && columns->has[row] == 0;
}

/* One dimension of an amount. */
static inline int64_t amount_get(const struct amount *amount, enum dimension dim)
{
    return dim == DIM_PERCENT ? amount->percent : dim == DIM_RATIO ? amount->ratio : amount->bytes;
}

/* Set one dimension of an amount. */
static inline void amount_set(struct amount *amount, enum dimension dim, int64_t value)
{
    *(dim == DIM_PERCENT ? &amount->percent : dim == DIM_RATIO ? &amount->ratio : &amount->bytes) =
        value;
}

/* Bytes that `ratio` percent of a card of `total_bytes` is, rounded down; exact.
 * Preconditions: 0 <= ratio <= CARD_PERCENT_MAX, 0 <= total_bytes <= CARD_BYTES_MAX. */
int64_t memory_ratio_to_bytes(int64_t ratio, int64_t total_bytes);

/* Percent of a card of `total_bytes` that `bytes` is, rounded down; exact. 0 when total_bytes is
 * 0. Preconditions: 0 <= bytes, total_bytes <= CARD_BYTES_MAX. Koordinator computes this in
 * doubles and is sometimes one lower (docs/behaviour.md). */
int64_t memory_bytes_to_ratio(int64_t bytes, int64_t total_bytes);

#endif
