/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of operation on a full state, for the build that measures the lock. */
#include "bench.h"

#include "codec/extender.h"
#include "kube/listed.h"
#include "lock_time.h"

#include <stdio.h>
#include <stdlib.h>

static enum bind_outcome outcome;

static enum bind_outcome bind_pod(void *self, const struct binding *binding, struct error *err)
{
    (void)self, (void)binding;
    if (outcome != BIND_DONE)
        error_set(err, -1, "as told");
    return outcome;
}

static int get_pod(void *self, const struct pod_id *id, struct arena *mem, struct pod *ret,
                   struct error *err)
{
    (void)self, (void)id, (void)mem, (void)ret;
    return error_set(err, -5, "not now");
}

static void ask(struct fleet *fleet, struct str body, bool prioritize)
{
    struct arena mem;
    struct candidates_call call;
    struct filter_answer filtered;
    struct prioritize_answer prioritized;
    struct error err = {0};
    arena_init(&mem, 0);
    const struct roster *roster = sched_roster_take(&fleet->sched);
    must(extender_decode_candidates(body, &codec_default_limits, roster, &mem, &call, &err) == 0,
         err.text);
    int rc = prioritize ? sched_prioritize(&fleet->sched, &call, &mem, &prioritized, &err)
                        : sched_filter(&fleet->sched, &call, &mem, &filtered, &err);
    must(rc == 0, err.text);
    sched_roster_leave(roster);
    arena_done(&mem);
}

static void tell(struct fleet *fleet, enum cache_listed kind, enum object_file file, uint32_t number)
{
    struct strbuf json = {0};
    object_write(file, number, fleet->nodes, &json);
    fleet_tell(fleet, kind, (struct str){json.data, json.len});
    strbuf_done(&json);
}

static void run_filters(struct fleet *fleet, const struct scale *scale)
{
    static const char *const limits[] = {NULL, LIMITS_WHOLE, LIMITS_EIGHT};
    static const uint32_t most[] = {0, 100, 1};
    for (size_t kind = 0; kind < 3; kind++) {
        struct strbuf body = {0};
        uint32_t number = 9000000 + (uint32_t)kind;
        if (limits[kind] == NULL)
            tell(fleet, CACHE_PODS, OBJECT_FILE_PENDING, number);
        call_write(number, fleet->nodes, limits[kind], &body);
        for (uint32_t i = 0; i < scale->calls; i++) {
            atomic_store(&fleet->sched.max_candidates, most[i % 3]);
            atomic_store(&fleet->sched.tentative, most[i % 3] == 1);
            ask(fleet, (struct str){body.data, body.len}, false);
            ask(fleet, (struct str){body.data, body.len}, true);
        }
        strbuf_done(&body);
    }
}

static void bind_one(struct fleet *fleet, uint32_t number)
{
    struct strbuf uid = {0}, node = {0};
    struct arena mem;
    struct error err = {0};
    char name[32];
    tell(fleet, CACHE_PODS, OBJECT_FILE_PENDING, number);
    pod_uid_write(number, &uid);
    node_name_write(number % fleet->nodes, &node);
    snprintf(name, sizeof name, "worker-%07u", number);
    struct bind_call call = {{STR("team-a"), str_from(name), {uid.data, uid.len}},
                             {node.data, node.len}};
    arena_init(&mem, 0);
    outcome = number % 4 == 0 ? BIND_REFUSED : number % 4 == 1 ? BIND_UNKNOWN : BIND_DONE;
    int rc = sched_bind(&fleet->sched, &call, &mem, &err);
    must((rc == 0) == (outcome == BIND_DONE), err.text);
    arena_done(&mem);
    strbuf_done(&uid);
    strbuf_done(&node);
}

static void run_binds_and_events(struct fleet *fleet, const struct scale *scale)
{
    struct janitor janitor;
    janitor_init(&janitor, 0, 0, 10);
    for (uint32_t i = 0; i < scale->calls * 10; i++) {
        bind_one(fleet, 8000000 + i);
        tell(fleet, CACHE_PODS, OBJECT_FILE_RUNNING, 8000000 + i);
        tell(fleet, CACHE_NODES, OBJECT_FILE_NODE, i % fleet->nodes);
        tell(fleet, CACHE_DEVICES, OBJECT_FILE_DEVICE, i % fleet->nodes);
        if (i % 100 == 0)
            janitor_round(&janitor, &fleet->sched);
    }
    for (uint32_t i = 0; i < scale->calls * 10; i++) {
        struct strbuf uid = {0};
        pod_uid_write(8000000 + i, &uid);
        sched_pod_gone(&fleet->sched, (struct str){uid.data, uid.len});
        strbuf_done(&uid);
    }
}

static void run_dump(struct fleet *fleet)
{
    struct arena mem;
    struct node_view view;
    struct cache_counts counts;
    arena_init(&mem, 0);
    for (uint32_t i = 0; i < cache_node_slots(fleet->cache); i++)
        must(cache_node_at(fleet->cache, i, &mem, &view) == 1, "a node is missing");
    cache_count(fleet->cache, &counts);
    arena_done(&mem);
}

/* Everything is listed again, and then nothing of it is there any more. */
static void run_relists(struct fleet *fleet)
{
    static const enum object_file files[] = {OBJECT_FILE_NODE, OBJECT_FILE_DEVICE,
                                             OBJECT_FILE_RUNNING};
    for (enum cache_listed kind = CACHE_NODES; kind <= CACHE_PODS; kind++) {
        uint32_t count = kind == CACHE_PODS ? fleet->pods : fleet->nodes;
        uint32_t mark = sched_list_begin(&fleet->sched, kind);
        for (uint32_t i = 0; i < count; i++)
            tell(fleet, kind, files[kind], i);
        sched_list_end(&fleet->sched, kind, mark);
    }
    struct cache_counts counts;
    cache_count(fleet->cache, &counts);
    must(counts.nodes == fleet->nodes && counts.bound == fleet->pods, "the relist changed nothing");
    for (enum cache_listed kind = CACHE_NODES; kind <= CACHE_PODS; kind++)
        sched_list_end(&fleet->sched, kind, sched_list_begin(&fleet->sched, kind));
    cache_count(fleet->cache, &counts);
    must(counts.nodes == 0 && counts.cards == 0 && counts.pods == 0, "the empty list emptied all");
}

static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

static void print(const char *who, const unsigned *ns, unsigned long count)
{
    char name[96];
    unsigned *sorted = malloc(count * sizeof *sorted);
    must(sorted != NULL, "out of memory");
    memcpy(sorted, ns, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    const struct {
        const char *what;
        double value;
    } figures[] = {{"count", (double)count},
                   {"p50 ns", sorted[count / 2]},
                   {"p99.9 ns", sorted[count - 1 - count / 1000]},
                   {"max ns", sorted[count - 1]}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        snprintf(name, sizeof name, "lock %s %s", who, figures[i].what);
        sample(name, figures[i].value);
    }
    free(sorted);
}

void bench_locks(const struct scale *scale)
{
    struct fleet fleet;
    fleet_fill(&fleet, scale, (struct port){.bind_pod = bind_pod, .get_pod = get_pod});
    for (uint32_t round = 0; round < scale->rounds; round++) {
        run_filters(&fleet, scale);
        run_binds_and_events(&fleet, scale);
        run_dump(&fleet);
    }
    run_relists(&fleet);
    fleet_done(&fleet);
    must(lock_time_report(print) > 0, "not built with LOCKTIME=1");
}
