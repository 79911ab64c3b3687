/* SPDX-License-Identifier: Apache-2.0 */
/* Filter and prioritize without HTTP: body in, answer out. */
#include "bench.h"

#include "codec/extender.h"

struct verb_case {
    const char *name;
    uint32_t max_candidates;
    const char *limits;
    bool prioritize;
};

static const struct verb_case cases[] = {
    {"filter ns, all", 0, NULL, false},
    {"filter ns, best 100", 100, NULL, false},
    {"filter ns, none", 0, LIMITS_WHOLE, false},
    {"prioritize ns", 0, NULL, true},
};

static void answer(struct fleet *fleet, const struct verb_case *test, struct str body,
                   struct strbuf *out)
{
    struct arena mem;
    struct candidates_call call;
    struct error err = {0};
    arena_init(&mem, 0);
    must(extender_decode_candidates(body, &codec_default_limits, &mem, &call, &err) == 0, err.text);
    if (test->prioritize) {
        struct prioritize_answer prioritized;
        must(sched_prioritize(&fleet->sched, &call, &mem, &prioritized, &err) == 0, err.text);
        extender_encode_prioritize(&call, &prioritized, out);
    } else {
        struct filter_answer filtered;
        must(sched_filter(&fleet->sched, &call, &mem, &filtered, &err) == 0, err.text);
        extender_encode_filter(&call, &filtered, out);
    }
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

static void measure(struct fleet *fleet, const struct verb_case *test, const struct scale *scale)
{
    struct strbuf body = {0}, out = {0};
    call_write(9000000, fleet->nodes, test->limits, &body);
    atomic_store(&fleet->sched.max_candidates, test->max_candidates);
    answer(fleet, test, (struct str){body.data, body.len}, &out);
    must(!out.failed && count_names(&out) == names_expected(fleet, test), test->name);
    bool refused = strstr(out.data, "Insufficient gpu devices") != NULL;
    must(refused == (test->limits != NULL), test->name);

    for (uint32_t round = 0; round < scale->rounds; round++) {
        int64_t begun = thread_cpu_ns();
        for (uint32_t call = 0; call < scale->calls; call++) {
            strbuf_done(&out);
            answer(fleet, test, (struct str){body.data, body.len}, &out);
        }
        sample(test->name, (double)(thread_cpu_ns() - begun) / scale->calls);
    }
    strbuf_done(&body);
    strbuf_done(&out);
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
