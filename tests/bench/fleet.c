/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include "kube/listed.h"

void fleet_tell(struct fleet *fleet, enum cache_listed kind, struct str json)
{
    struct arena mem;
    struct error complaint = {0};
    arena_init(&mem, 0);
    int rc = listed_table[kind].changed(&fleet->sched, json, &mem, &complaint);
    must(rc == 0 && complaint.text[0] == '\0', complaint.text);
    arena_done(&mem);
}

static void tell_many(struct fleet *fleet, enum cache_listed kind, enum object_file file,
                      uint32_t count)
{
    struct strbuf json = {0};
    for (uint32_t i = 0; i < count; i++) {
        json.len = 0;
        object_write(file, i, fleet->nodes, &json);
        fleet_tell(fleet, kind, (struct str){json.data, json.len});
    }
    strbuf_done(&json);
}

void fleet_fill(struct fleet *fleet, const struct scale *scale, struct port port)
{
    *fleet = (struct fleet){.cache = cache_new(UNKNOWN_PODS_CLOSE),
                            .nodes = scale->nodes,
                            .pods = scale->pods};
    must(fleet->cache != NULL, "out of memory");
    sched_init(&fleet->sched, fleet->cache, clock_system(), port, &device_policy_default,
               &node_policy_binpack);
    tell_many(fleet, CACHE_NODES, OBJECT_FILE_NODE, scale->nodes);
    tell_many(fleet, CACHE_DEVICES, OBJECT_FILE_DEVICE, scale->nodes);
    tell_many(fleet, CACHE_PODS, OBJECT_FILE_RUNNING, scale->pods);
    sched_set_synced(&fleet->sched, true);

    struct cache_counts counts;
    cache_count(fleet->cache, &counts);
    must(counts.nodes == scale->nodes && counts.cards == scale->nodes * FLEET_CARDS &&
             counts.bound == scale->pods && counts.unknown_pods == 0 &&
             counts.inconsistent_pods == 0,
         "the fleet is not what it should be");
}

void fleet_done(struct fleet *fleet)
{
    struct error err = {0};
    must(cache_check(fleet->cache, &err) == 0, err.text);
    cache_free(fleet->cache);
}
