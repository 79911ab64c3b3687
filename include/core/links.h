/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LINKS_H
#define CORE_LINKS_H

#include <stdint.h>

/*
 * How a node's GPUs are connected: groups of cards that are near each other. Which cards fit is not
 * asked here; of those that a policy holds for equal, the best connected are taken.
 */

#define LINK_CARDS_MAX 64  /* cards with a lower minor may be in a group */
#define LINKS_MAX      256 /* groups of one node */

/* What the cards of a group share, the weakest first. */
enum link {
    LINK_NUMA,      /* the NUMA node */
    LINK_PCIE,      /* the PCIe root or switch */
    LINK_PARTITION, /* NVLink or the like: a set of cards that the node's agent names as one */
};

struct link_group {
    enum link link;
    uint64_t minors; /* as bits */
};

/* What is told of one node: a view. Groups may overlap. */
struct links {
    const struct link_group *groups;
    uint32_t count;
};

/* Take `count` more cards of `may`, beside those of `must`, which are taken in any case: minors as bits,
 * the two disjoint, `may` with `count` cards at least. Where a group holds all of them they are in one
 * group, the closest: the strongest link, of partitions the smallest, the one with fewest free cards
 * (in `may`), then the one that breaks fewest groups of free cards; the first of equals. Within it, and
 * where no group holds all, whole groups come first, the largest and closest, then the lowest minors.
 * Returns the cards taken, without `must`. */
uint64_t links_pick(const struct links *links, uint64_t must, uint64_t may, uint32_t count);

#endif
