/* SPDX-License-Identifier: Apache-2.0 */
#include "http/handlers.h"

#include "base/mem.h"
#include "base/metrics.h"
#include "http/query.h"
#include "refusing_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The handlers called as the server calls them, over a cache with one node of two GPUs and a port
 * that knows no pod. */

static struct http_app app;
static struct sched sched;
static struct http_app_paths paths;
static struct http_route routes[HTTP_APP_ROUTES_MAX];
static uint32_t route_count;

static int setup(void **state)
{
    (void)state;
    static const struct device devices[] = {
        {.kind = DEVICE_GPU,
         .minor = 0,
         .healthy = true,
         .total = {100, 100, 8000},
         .id = STR("G0")},
        {.kind = DEVICE_GPU, .minor = 1, .healthy = false, .total = {100, 100, 8000}},
        {.kind = DEVICE_RDMA, .minor = 0, .healthy = true, .total = {.percent = 100}},
    };
    struct inventory inventory = {.devices = devices, .count = 3};
    struct error err = {0};
    struct cache *cache = cache_new(UNKNOWN_PODS_CLOSE);
    assert_non_null(cache);
    assert_int_equal(cache_node_set(cache, &(struct node_facts){.name = STR("n1")}), 0);
    assert_int_equal(cache_devices_set(cache, STR("n1"), &inventory, &err), 0);
    sched_init(&sched, cache, clock_system(), refusing_port(), device_policy_find(STR("default")),
               node_policy_find(STR("spread")));
    sched_set_synced(&sched, true);
    app = (struct http_app){
        .sched = &sched, .limits = codec_default_limits, .per_card_max_nodes = 500};
    route_count = http_app_routes(&app, "/v1", &paths, routes);
    route_count += http_app_health_routes(&app, routes + route_count);
    metrics_reset();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cache_free(sched.cache);
    return 0;
}

/* A reply, freed by release(). */
struct exchange {
    struct arena mem;
    struct http_reply reply;
};

static struct exchange send_from(bool loopback, const char *path, const char *query,
                                 const char *body)
{
    struct exchange exchange = {.reply = {.status = 200, .content_type = "application/json"}};
    const struct http_route *route = NULL;
    for (uint32_t i = 0; i < route_count; i++) {
        if (strcmp(routes[i].path, path) == 0)
            route = &routes[i];
    }
    assert_non_null(route);
    arena_init(&exchange.mem, 0);
    struct http_request request = {.method = route->method,
                                   .path = str_from(path),
                                   .query = str_from(query),
                                   .body = str_from(body),
                                   .loopback_peer = loopback,
                                   .mem = &exchange.mem};
    route->handle(route->self, &request, &exchange.reply);
    return exchange;
}

static struct exchange ask(const char *path, const char *query, const char *body)
{
    return send_from(true, path, query, body);
}

static void release(struct exchange *exchange)
{
    strbuf_done(&exchange->reply.body);
    arena_done(&exchange->mem);
}

static void expect(const char *path, const char *query, const char *body, unsigned status,
                   const char *text)
{
    struct exchange exchange = ask(path, query, body);
    assert_string_equal(exchange.reply.body.data, text);
    assert_int_equal(exchange.reply.status, status);
    release(&exchange);
}

static bool contains(const struct exchange *exchange, const char *text)
{
    return exchange->reply.body.data != NULL && strstr(exchange->reply.body.data, text) != NULL;
}

#define POD                                                                                        \
    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"d\",\"uid\":\"u1\"},\"spec\":{\"containers\":[" \
    "{\"name\":\"c\",\"resources\":{\"requests\":{\"koordinator.sh/gpu-core\":\"50\","             \
    "\"koordinator.sh/gpu-memory-ratio\":\"50\"}}}]}}"
#define CANDIDATES "{\"Pod\":" POD ",\"Nodes\":null,\"NodeNames\":[\"n1\",\"n2\"]}"
#define PREEMPT                                                                                    \
    "{\"Pod\":" POD ",\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[{\"UID\":\"v\"}],"              \
    "\"NumPDBViolations\":2}}}"
#define BIND "{\"PodName\":\"p\",\"PodNamespace\":\"d\",\"PodUID\":\"u1\",\"Node\":\"n1\"}"

/* ---- verbs ---- */

static void verbs_answer(void **state)
{
    (void)state;
    expect("/v1/filter", "", CANDIDATES, 200,
           "{\"Nodes\":null,\"NodeNames\":[\"n1\"],\"FailedNodes\":{},"
           "\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}");
    expect("/v1/prioritize", "", "{\"Pod\":" POD ",\"NodeNames\":[\"n1\"]}", 200,
           "[{\"Host\":\"n1\",\"Score\":10}]");
    expect("/v1/preempt", "", PREEMPT, 200,
           "{\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[{\"UID\":\"v\"}],"
           "\"NumPDBViolations\":2}}}");
    struct exchange exchange = ask("/v1/bind", "", BIND);
    assert_int_equal(exchange.reply.status, 200);
    assert_true(contains(&exchange, "{\"Error\":\"PodUID: "));
    release(&exchange);
    for (unsigned verb = 0; verb < VERB_MAX; verb++) {
        assert_int_equal(metrics_get(METRIC_REQUESTS, verb), 1);
        assert_int_equal(metrics_get(METRIC_REQUEST_ERRORS, verb), verb == VERB_BIND);
    }
}

static void bad_bodies(void **state)
{
    (void)state;
    struct exchange exchange = ask("/v1/filter", "", "{");
    assert_int_equal(exchange.reply.status, 200);
    assert_true(contains(&exchange, "\"Error\":\""));
    assert_false(contains(&exchange, "\"Error\":\"\""));
    release(&exchange);
    exchange = ask("/v1/bind", "", "{");
    assert_int_equal(exchange.reply.status, 200);
    assert_false(contains(&exchange, "\"Error\":\"\""));
    release(&exchange);
    const char *const strict[] = {"/v1/prioritize", "/v1/preempt"};
    for (unsigned i = 0; i < 2; i++) {
        exchange = ask(strict[i], "", "{");
        assert_int_equal(exchange.reply.status, 400);
        assert_true(contains(&exchange, "{\"error\":\""));
        release(&exchange);
    }
    for (unsigned verb = 0; verb < VERB_MAX; verb++)
        assert_int_equal(metrics_get(METRIC_REQUEST_ERRORS, verb), 1);
}

/* Every verb answers, decides nothing, and lets the client's connection go. */
static void assert_neutral(const char *sentence)
{
    static const struct {
        const char *path, *body, *answer;
    } calls[] = {
        {"/v1/filter", CANDIDATES, "\"NodeNames\":null"},
        {"/v1/filter", CANDIDATES, NULL},
        {"/v1/bind", BIND, NULL},
        {"/v1/prioritize", CANDIDATES, "[]"},
        {"/v1/preempt", PREEMPT, "{\"NodeNameToMetaVictims\":{}}"},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct exchange exchange = ask(calls[i].path, "", calls[i].body);
        assert_int_equal(exchange.reply.status, 200);
        assert_true(contains(&exchange, calls[i].answer != NULL ? calls[i].answer : sentence));
        assert_true(exchange.reply.close);
        release(&exchange);
    }
}

static void verbs_before_the_first_lists(void **state)
{
    (void)state;
    sched_set_synced(&sched, false);
    assert_neutral("not listed yet");
}

static void verbs_of_a_replica_that_does_not_lead(void **state)
{
    (void)state;
    sched_set_leading(&sched, false);
    assert_neutral("does not lead");
}

static bool is_same_answer(const struct exchange *a, const struct exchange *b)
{
    const struct strbuf *x = &a->reply.body, *y = &b->reply.body;
    return a->reply.status == b->reply.status && !x->failed && x->len == y->len &&
           memcmp(x->data, y->data, x->len) == 0;
}

/* The n-th allocation fails, for every n: filter and bind say so in Error, the other two with 500
 * or, if it was the answer itself that found no room, with a failed body that the server turns into
 * 500. One that is only for calls to come, or is not needed any more, changes nothing. */
static void end_of_memory(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body;
        unsigned status;
    } calls[] = {
        {"/v1/filter", CANDIDATES, 200},
        {"/v1/prioritize", CANDIDATES, 500},
        {"/v1/preempt", PREEMPT, 500},
        {"/v1/bind", BIND, 200},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct exchange exchange = ask(calls[i].path, "", calls[i].body);
        release(&exchange); /* the cache remembers now what it found of nodes */
        mem_fail_at(0);
        exchange = ask(calls[i].path, "", calls[i].body);
        long allocations = mem_count(), missed = 0;
        struct exchange whole = exchange;
        assert_true(allocations > 0);
        for (long n = 1; n <= allocations; n++) {
            mem_fail_at(n);
            exchange = ask(calls[i].path, "", calls[i].body);
            mem_fail_at(0);
            bool same = is_same_answer(&exchange, &whole);
            missed += !same;
            assert_true(same || exchange.reply.body.failed ||
                        (exchange.reply.status == calls[i].status &&
                         contains(&exchange, "out of memory")));
            release(&exchange);
        }
        assert_true(missed >= allocations - 1);
        release(&whole);
    }
}

/* ---- probes ---- */

static void say_who_leads(void *self, char *out, size_t size)
{
    (void)self;
    snprintf(out, size, "stands by; the Lease names other");
}

/* Whoever leads is told, and decides nothing: all replicas are ready. */
static void readiness_names_the_leader(void **state)
{
    (void)state;
    app.cluster_leader = say_who_leads;
    expect("/readyz", "", "", 200, "ok");
    expect("/readyz", "verbose", "", 200,
           "[+]ping ok\n[+]synced ok\n[+]shutdown ok\n"
           "[ ]leader stands by; the Lease names other\nreadyz check passed\n");
    expect("/livez", "verbose", "", 200, "[+]ping ok\nlivez check passed\n");
}

static void probes(void **state)
{
    (void)state;
    expect("/livez", "", "", 200, "ok");
    expect("/healthz", "", "", 200, "ok");
    expect("/readyz", "", "", 200, "ok");
    expect("/livez", "verbose", "", 200, "[+]ping ok\nlivez check passed\n");
    expect("/readyz", "a=b&verbose=1", "", 200,
           "[+]ping ok\n[+]synced ok\n[+]shutdown ok\nreadyz check passed\n");

    sched_set_synced(&sched, false);
    expect("/livez", "", "", 200, "ok");
    expect("/readyz", "", "", 503,
           "[+]ping ok\n[-]synced failed: nodes, devices and pods are not listed yet\n"
           "[+]shutdown ok\nreadyz check failed\n");
    sched_set_synced(&sched, true);
    atomic_store(&app.draining, true);
    expect("/healthz", "", "", 200, "ok");
    expect("/readyz", "verbose", "", 503,
           "[+]ping ok\n[+]synced ok\n[-]shutdown failed: the process is shutting down\n"
           "readyz check failed\n");
}

/* ---- views ---- */

static void cache_view(void **state)
{
    (void)state;
    const struct node_facts facts = {
        .name = STR("a\"node"), .allocatable = {.cpu_milli = 4000}, .gpu_model = STR("T4")};
    assert_int_equal(cache_node_set(sched.cache, &facts), 0);
    struct exchange exchange = ask("/debug/cache", "", "");
    assert_int_equal(exchange.reply.status, 200);
    assert_true(contains(
        &exchange,
        "{\"name\":\"a\\\"node\",\"hasNode\":true,\"hasDevices\":false,\"registered\":false,"
        "\"devicePlugin\":false,\"closed\":false,"
        "\"cards\":[],\"pods\":[],\"otherPods\":0,\"allocatable\":{\"cpuMilli\":4000,"
        "\"memoryBytes\":0},\"used\":{\"cpuMilli\":0,\"memoryBytes\":0},\"gpuModel\":\"T4\"},\n{\"name\":\"n1\",\"hasNode\":true,\"hasDevices\":true,"
        "\"registered\":false,\"devicePlugin\":false,\"closed\":false,\"cards\":[{"
        "\"type\":\"gpu\",\"minor\":0,\"id\":\"G0\","
        "\"registered\":true,\"usable\":true,\"pods\":0,"
        "\"total\":{\"koordinator.sh/gpu-core\":100,"));
    assert_true(
        contains(&exchange, "\"minor\":1,\"id\":\"\",\"registered\":true,\"usable\":false"));
    assert_true(contains(&exchange, "{\"type\":\"rdma\",\"minor\":0"));
    release(&exchange);

    exchange = ask("/debug/cache", "node=n1", "");
    assert_true(contains(&exchange, "\"name\":\"n1\""));
    assert_false(contains(&exchange, "a\\\"node"));
    release(&exchange);
}

static void cache_view_is_for_this_machine(void **state)
{
    (void)state;
    struct exchange exchange = send_from(false, "/debug/cache", "", "");
    assert_int_equal(exchange.reply.status, 403);
    assert_true(contains(&exchange, "{\"error\":\""));
    assert_false(contains(&exchange, "n1"));
    release(&exchange);
    atomic_store(&app.debug_remote, true);
    exchange = send_from(false, "/debug/cache", "", "");
    assert_int_equal(exchange.reply.status, 200);
    release(&exchange);
}

/* Before anybody packs there is a mix and nothing else; then the tables of the shipped guess. */
static void policy_view(void **state)
{
    (void)state;
    struct exchange exchange = ask("/debug/policy", "", "");
    assert_int_equal(exchange.reply.status, 200);
    assert_true(contains(&exchange, "{\"pack\":\n{\"on\":false,\"podsSeen\":0,"));
    assert_true(contains(&exchange, "\"learned\":null,\n\"mix\":[],\n\"valueOfPercent\":[],\n"
                                    "\"models\":[],\n\"severalCards\":[]}}\n"));
    release(&exchange);
    assert_int_equal(cache_pack_prepare(sched.cache, clock_now_ns(&sched.clock)), 0);
    exchange = ask("/debug/policy", "", "");
    assert_true(contains(&exchange, "{\"on\":true,"));
    assert_true(contains(&exchange, "\"learned\":{\"times\":1,\"podsSeen\":0,"));
    assert_true(contains(&exchange, "\"valueOfPercent\":[0.000000,"));
    assert_true(contains(&exchange, ",1.000000],\n\"models\":[\n{\"name\":\"\",\"freeValue\":"));
    assert_true(contains(&exchange, "\"cards\":8,\"milli\":1000,\"copies\":0,\"price\":"));
    release(&exchange);
    exchange = send_from(false, "/debug/policy", "", "");
    assert_int_equal(exchange.reply.status, 403);
    assert_false(contains(&exchange, "mix"));
    release(&exchange);
}

static void views_at_the_end_of_memory(void **state)
{
    (void)state;
    const char *const views[] = {"/debug/cache", "/metrics", "/debug/policy"};
    for (unsigned i = 0; i < 3; i++) {
        mem_fail_at(0);
        struct exchange exchange = ask(views[i], "", "");
        long allocations = mem_count();
        release(&exchange);
        for (long n = 1; n <= allocations; n++) {
            mem_fail_at(n);
            exchange = ask(views[i], "", "");
            mem_fail_at(0);
            assert_true(exchange.reply.body.failed || exchange.reply.status == 500);
            release(&exchange);
        }
    }
}

static void card_gauges(void **state)
{
    (void)state;
    assert_int_equal(cache_node_set(sched.cache, &(struct node_facts){.name = STR("a\"\\\nb")}), 0);
    struct device device = {
        .kind = DEVICE_GPU, .minor = 7, .healthy = true, .total = {100, 100, 0}};
    struct inventory inventory = {.devices = &device, .count = 1};
    struct error err = {0};
    assert_int_equal(cache_devices_set(sched.cache, STR("a\"\\\nb"), &inventory, &err), 0);

    struct exchange exchange = ask("/metrics", "", "");
    assert_true(contains(&exchange, "\ndevice_gpu_total_core{node=\"n1\",minor=\"0\"} 100\n"));
    assert_true(contains(&exchange, "\ndevice_gpu_free_core{node=\"n1\",minor=\"1\"} 0\n"));
    assert_true(
        contains(&exchange, "\ndevice_gpu_total_memory_bytes{node=\"n1\",minor=\"0\"} 8000\n"));
    assert_true(contains(&exchange, "{node=\"a\\\"\\\\\\nb\",minor=\"7\"} 100\n"));
    assert_true(contains(&exchange, "\ndeviceshare_cache_nodes 2\n"));
    assert_true(contains(&exchange, "\ndeviceshare_cache_cards 4\n"));
    release(&exchange);

    atomic_store(&app.per_card_max_nodes, 1);
    exchange = ask("/metrics", "", "");
    assert_false(contains(&exchange, "device_gpu_"));
    release(&exchange);
    atomic_store(&app.per_card, HTTP_PER_CARD_ON);
    exchange = ask("/metrics", "", "");
    assert_true(contains(&exchange, "device_gpu_"));
    release(&exchange);
}

static void query_parameters(void **state)
{
    (void)state;
    struct str value = STR("untouched");
    assert_false(query_find((struct str){0}, "a", &value));
    assert_false(query_find(STR("aa=1&b&=2&"), "a", &value));
    assert_true(str_is(value, "untouched"));
    assert_true(query_find(STR("aa=1&b&a=x=y&a=z"), "a", &value));
    assert_true(str_is(value, "x=y"));
    assert_true(query_find(STR("aa=1&b"), "b", &value));
    assert_int_equal(value.len, 0);
    assert_true(query_find(STR("aa=1&b"), "aa", NULL));
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(verbs_answer),
        TEST(bad_bodies),
        TEST(verbs_before_the_first_lists),
        TEST(verbs_of_a_replica_that_does_not_lead),
        TEST(end_of_memory),
        TEST(probes),
        TEST(readiness_names_the_leader),
        TEST(cache_view),
        TEST(cache_view_is_for_this_machine),
        TEST(policy_view),
        TEST(views_at_the_end_of_memory),
        TEST(card_gauges),
        cmocka_unit_test(query_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
