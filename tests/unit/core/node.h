/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_CORE_NODE_H
#define TESTS_UNIT_CORE_NODE_H

#include <assert.h>
#include <string.h>

#include "core/device.h"
#include "core/request.h"

/* One node's cards for tests: columns with room for the largest node, on the stack or static. */

#define GIB (INT64_C(1) << 30)

struct node {
    struct cards cards;
    struct card_columns columns;
    uint32_t rows;
    int32_t minor[CARDS_PER_NODE_MAX];
    uint8_t has[CARDS_PER_NODE_MAX];
    bool registered[CARDS_PER_NODE_MAX];
    uint32_t pods[CARDS_PER_NODE_MAX];
    int32_t free_percent[CARDS_PER_NODE_MAX];
    int32_t free_ratio[CARDS_PER_NODE_MAX];
    int64_t free_bytes[CARDS_PER_NODE_MAX];
    int64_t total_bytes[CARDS_PER_NODE_MAX];
    struct amount total[CARDS_PER_NODE_MAX];
    struct amount used[CARDS_PER_NODE_MAX];
    uint32_t users[CARDS_PER_NODE_MAX];
    uint32_t slots[CARDS_PER_NODE_MAX];
    struct str id[CARDS_PER_NODE_MAX];
    struct str model[CARDS_PER_NODE_MAX];
};

/* An empty node; it must not move afterwards. */
static inline void node_init(struct node *node)
{
    memset(node, 0, sizeof(*node));
    node->columns = (struct card_columns){
        .minor = node->minor,
        .has = node->has,
        .registered = node->registered,
        .pods = node->pods,
        .free_percent = node->free_percent,
        .free_ratio = node->free_ratio,
        .free_bytes = node->free_bytes,
        .total_bytes = node->total_bytes,
        .total = node->total,
        .used = node->used,
        .users = node->users,
        .slots = node->slots,
        .id = node->id,
        .model = node->model,
    };
    node->cards.at = &node->columns;
}

/* Add a listed card, in the order of kinds; its minor is the number of cards of the kind before it.
 * Returns its row. */
static inline uint32_t node_add(struct node *node, enum device_kind kind, struct amount total)
{
    uint32_t row = node->rows++;
    assert(row < CARDS_PER_NODE_MAX);
    for (enum device_kind later = kind + 1; later < DEVICE_KIND_MAX; later++)
        assert(node->cards.count[later] == 0);
    node->minor[row] = node->cards.count[kind]++;
    node->registered[row] = true;
    node->total[row] = total;
    cards_refresh(&node->columns, row);
    return row;
}

/* Book something on a card. */
static inline void node_use(struct node *node, uint32_t row, struct amount used)
{
    cards_charge(&node->columns, row, &used, 1, 1);
}

/* An ordinary GPU with this much memory. */
static inline struct amount gpu_of(int64_t bytes)
{
    return (struct amount){.percent = 100, .ratio = 100, .bytes = bytes};
}

/* The request of a pod with one container that asks for one resource, or two (the second may be
 * RESOURCE_MAX). It must be valid. */
static inline struct pod_request ask(enum resource first, int64_t amount, enum resource second,
                                     int64_t second_amount)
{
    struct resources effective = {0};
    struct pod_request request;
    struct error err;
    effective.amount[first] = amount;
    if (second != RESOURCE_MAX)
        effective.amount[second] = second_amount;
    int r = request_parse(&effective, &request, &err);
    assert(r == 0);
    (void)r;
    return request;
}

#endif
