/* SPDX-License-Identifier: Apache-2.0 */
/* The scan alone: the verdict on every node, names already looked up. */
#include "bench.h"

#include "state/cache_internal.h"

struct scan_case {
    const char *name;
    enum device_kind kind;
    struct device_request request;
    enum reason expected;
};

/* Where every card has a tenth or two taken. */
static const struct scan_case cases[] = {
    {"scan ns, fits everywhere", DEVICE_GPU,
     {.count = 1, .named = DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO), .each = {10, 10, 0}},
     REASON_FITS},
    {"scan ns, fits nowhere", DEVICE_GPU,
     {.count = 1, .named = DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO), .each = {100, 100, 0},
      .whole = true},
     REASON_INSUFFICIENT_GPU},
    {"scan ns, eight cards at 85 %", DEVICE_GPU,
     {.count = 8, .named = DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO), .each = {85, 85, 0}},
     REASON_INSUFFICIENT_GPU},
    {"scan ns, by bytes", DEVICE_GPU,
     {.count = 1, .named = DIM_BIT(DIM_BYTES), .each = {0, 0, INT64_C(60) << 30}},
     REASON_FITS},
};

static void scan_once(const struct cache *cache, uint32_t slots, const struct pod_request *request,
                      enum reason *reasons)
{
    struct question question;
    cache_question_locked(cache, request, NULL, &question);
    for (uint32_t slot = 0; slot < slots; slot++)
        reasons[slot] = cache_glance_locked(cache, slot, &question);
}

static void scan_case(struct fleet *fleet, const struct scan_case *test, const struct scale *scale)
{
    struct arena mem;
    arena_init(&mem, 0);
    enum reason *reasons = arena_alloc(&mem, fleet->nodes, sizeof *reasons);
    struct pod_request request = {0};
    request.of[test->kind] = test->request;
    must(reasons != NULL, "out of memory");

    scan_once(fleet->cache, fleet->nodes, &request, reasons);
    for (uint32_t i = 0; i < fleet->nodes; i++)
        must(reasons[i] == test->expected, test->name);
    for (uint32_t round = 0; round < scale->rounds; round++) {
        int64_t begun = thread_cpu_ns();
        for (uint32_t call = 0; call < scale->calls; call++)
            scan_once(fleet->cache, fleet->nodes, &request, reasons);
        sample(test->name, (double)(thread_cpu_ns() - begun) / scale->calls);
    }
    arena_done(&mem);
}

void bench_scan(const struct scale *scale)
{
    struct fleet fleet;
    fleet_fill(&fleet, scale, (struct port){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        scan_case(&fleet, &cases[i], scale);
    fleet_done(&fleet);
}
