/* SPDX-License-Identifier: Apache-2.0 */
/* Filter and prioritize without HTTP: body in, answer out. */
#include "bench.h"

#include <stdio.h>

#include "codec/extender.h"

/* More kinds of requests than the state remembers verdicts of: each call is the first of its kind. */
#define KINDS 16u

struct verb_case {
    const char *name;
    uint32_t max_candidates;
    const char *limits;
    bool prioritize, first_of_its_kind, packs;
};

static const struct verb_case cases[] = {
    {.name = "filter ns, all"},
    {.name = "filter ns, best 100", .max_candidates = 100},
    {.name = "filter ns, none", .limits = LIMITS_WHOLE},
    {.name = "filter ns, first of its kind", .max_candidates = 100, .first_of_its_kind = true},
    {.name = "filter ns, packs", .max_candidates = 100, .packs = true},
    {.name = "prioritize ns", .prioritize = true},
};

static void answer(struct fleet *fleet, const struct verb_case *test, struct str body,
                   struct strbuf *out)
{
    struct arena mem;
    struct candidates_call call;
    struct error err = {0};
    arena_init(&mem, 0);
    const struct roster *roster = sched_roster_take(&fleet->sched);
    must(extender_decode_candidates(body, &codec_default_limits, roster, &mem, &call, &err) == 0,
         err.text);
    if (test->prioritize) {
        struct prioritize_answer prioritized;
        must(sched_prioritize(&fleet->sched, &call, &mem, &prioritized, &err) == 0, err.text);
        extender_encode_prioritize(&call, &prioritized, out);
    } else {
        struct filter_answer filtered;
        must(sched_filter(&fleet->sched, &call, &mem, &filtered, &err) == 0, err.text);
        extender_encode_filter(&call, &filtered, out);
    }
    sched_roster_leave(roster);
    arena_done(&mem);
}

/* How often a node is named. */
static uint32_t count_names(struct strbuf *out)
{
    uint32_t count = 0;
    for (const char *at = out->data; (at = strstr(at, "\"gpu-pool-a-")) != NULL; at++)
        count++;
    return count;
}

static uint32_t names_expected(const struct fleet *fleet, const struct verb_case *test)
{
    bool some = test->max_candidates > 0 && test->max_candidates < fleet->nodes;
    return some ? test->max_candidates : fleet->nodes;
}

/* The calls of a case: `kinds` bodies that differ in what the pod asks for, or one. */
static void write_calls(const struct fleet *fleet, const struct verb_case *test, uint32_t kinds,
                        struct strbuf *bodies)
{
    for (uint32_t kind = 0; kind < kinds; kind++) {
        char limits[96];
        snprintf(limits, sizeof limits,
                 "\"koordinator.sh/gpu-core\":\"%u\",\"koordinator.sh/gpu-memory-ratio\":\"%u\"",
                 kind + 1, kind + 1);
        call_write(9000000, fleet->nodes, kinds > 1 ? limits : test->limits, &bodies[kind]);
    }
}

static void check_answer(const struct fleet *fleet, const struct verb_case *test,
                         struct strbuf *out)
{
    must(!out->failed && count_names(out) == names_expected(fleet, test), test->name);
    bool refused = strstr(out->data, "Insufficient gpu devices") != NULL;
    must(refused == (test->limits != NULL), test->name);
}

static void set_policy(struct fleet *fleet, const struct verb_case *test)
{
    atomic_store(&fleet->sched.max_candidates, test->max_candidates);
    atomic_store(&fleet->sched.node_policy,
                 test->packs ? node_policy_find(STR("pack")) : &node_policy_binpack);
}

static void measure(struct fleet *fleet, const struct verb_case *test, const struct scale *scale)
{
    struct strbuf bodies[KINDS] = {{0}}, out = {0};
    uint32_t kinds = test->first_of_its_kind ? KINDS : 1;
    write_calls(fleet, test, kinds, bodies);
    set_policy(fleet, test);
    for (uint32_t kind = 0; kind < kinds; kind++) {
        answer(fleet, test, (struct str){bodies[kind].data, bodies[kind].len}, &out);
        check_answer(fleet, test, &out);
        strbuf_done(&out);
    }
    uint32_t next = 0; /* it goes on through the rounds, which may be shorter than it */
    for (uint32_t round = 0; round < scale->rounds; round++) {
        int64_t begun = thread_cpu_ns();
        for (uint32_t call = 0; call < scale->calls; call++) {
            const struct strbuf *body = &bodies[next++ % kinds];
            answer(fleet, test, (struct str){body->data, body->len}, &out);
            strbuf_done(&out);
        }
        sample(test->name, (double)(thread_cpu_ns() - begun) / scale->calls);
    }
    for (uint32_t kind = 0; kind < kinds; kind++)
        strbuf_done(&bodies[kind]);
}

void bench_verbs(const struct scale *scale)
{
    struct fleet fleet;
    fleet_fill(&fleet, scale, (struct port){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool every_card_taken = scale->pods >= scale->nodes * FLEET_CARDS;
        if (cases[i].limits == NULL || every_card_taken)
            measure(&fleet, &cases[i], scale);
    }
    fleet_done(&fleet);
}
