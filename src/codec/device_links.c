/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/device_links.h"

#include <errno.h>
#include <stdbool.h>

enum { NESTING_MAX = 8 }; /* of the table; it needs 4 */

int device_place_decode(const struct reader_field *topology, struct arena *mem,
                        struct device_place *ret, struct error *err)
{
    enum { NODE, PCIE };
    struct reader_field fields[] = {[NODE] = {.name = "nodeID"}, [PCIE] = {.name = "pcieID"}};
    int64_t numa = -1;
    ret->numa = -1;
    ret->pcie = STR("");
    if (topology->value.data == NULL || reader_field_object(topology, READER_FIELDS(fields), err) < 0)
        return 0;
    (void)reader_field_int(&fields[NODE], -1, INT32_MAX, &numa, err);
    ret->numa = (int32_t)numa;
    return reader_field_string(&fields[PCIE], mem, &ret->pcie, err) == -ENOMEM ? -ENOMEM : 0;
}

static void add_group(struct link_group *groups, struct links *links, enum link link,
                      uint64_t minors)
{
    if (__builtin_popcountll(minors) < 2 || links->count == LINKS_MAX)
        return;
    for (uint32_t i = 0; i < links->count; i++)
        if (groups[i].link == link && groups[i].minors == minors)
            return;
    groups[links->count++] = (struct link_group){link, minors};
}

static uint64_t bit_of(int32_t minor)
{
    return minor < LINK_CARDS_MAX ? UINT64_C(1) << minor : 0;
}

/* Each card with those that sit where it does. */
static void add_places(const struct device_place *places, uint32_t count,
                       struct link_group *groups, struct links *links)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t numa = 0, pcie = 0;
        for (uint32_t j = 0; j < count; j++) {
            if (places[i].numa >= 0 && places[j].numa == places[i].numa)
                numa |= bit_of(places[j].minor);
            if (places[i].pcie.len > 0 && str_eq(places[j].pcie, places[i].pcie))
                pcie |= bit_of(places[j].minor);
        }
        add_group(groups, links, LINK_NUMA, numa);
        add_group(groups, links, LINK_PCIE, pcie);
    }
}

/* ---- partitions ---- */

/* A set of which a minor has no bit is one that we cannot tell apart from others: left out. */
static int read_partition(struct str value, uint64_t *ret_minors, struct error *err)
{
    struct reader_field minors[] = {{.name = "minors"}};
    uint32_t count = 0;
    bool all = true;
    int rc = reader_object(value, READER_FIELDS(minors), err);
    if (rc == 0)
        rc = reader_field_array(minors, &count, err);
    if (rc < 0 || count == 0)
        return rc;
    struct reader_iter iter = reader_iterate(minors->value);
    struct str item;
    while (reader_next_item(&iter, &item)) {
        struct reader_field number = {.name = "minors", .value = item};
        int64_t minor = 0;
        rc = reader_field_int(&number, 0, INT32_MAX, &minor, err);
        if (rc < 0)
            return rc;
        all &= minor < LINK_CARDS_MAX;
        *ret_minors |= bit_of((int32_t)minor);
    }
    *ret_minors = all ? *ret_minors : 0;
    return 0;
}

/* The keys are numbers of cards, which the sets tell as well. */
static int add_partitions(struct str table, struct link_group *groups, struct links *links,
                          struct error *err)
{
    struct str value, key, list;
    int rc = reader_check(table, NESTING_MAX, &value, err);
    if (rc == 0)
        rc = reader_object(value, NULL, 0, err);
    if (rc < 0)
        return rc;
    struct reader_iter sizes = reader_iterate(value);
    while (reader_next_member(&sizes, &key, &list)) {
        struct reader_field field = {.name = "partitions", .value = list};
        uint32_t count = 0;
        rc = reader_field_array(&field, &count, err);
        if (rc < 0)
            return rc;
        struct reader_iter sets = reader_iterate(list);
        for (struct str set; reader_next_item(&sets, &set);) {
            uint64_t minors = 0;
            rc = read_partition(set, &minors, err);
            if (rc < 0)
                return rc;
            add_group(groups, links, LINK_PARTITION, minors);
        }
    }
    return 0;
}

int device_links_make(const struct device_place *places, uint32_t count, struct str table,
                      struct arena *mem, struct links *ret, struct error *err)
{
    struct link_group *groups = arena_alloc(mem, LINKS_MAX, sizeof *groups);
    if (groups == NULL)
        return reader_no_memory(err);
    struct links links = {.groups = groups};
    add_places(places, count, groups, &links);
    uint32_t told = links.count;
    int rc = table.data != NULL ? add_partitions(table, groups, &links, err) : 0;
    if (rc < 0) {
        links.count = told;
        rc = err->code = -EINVAL;
    }
    *ret = links;
    return rc;
}
