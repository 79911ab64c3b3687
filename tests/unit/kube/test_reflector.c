/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/reflector.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "cache_text.h"
#include "fake_api.h"
#include "kube/client.h"

/* A busy machine is slow; nothing waits so long when all is well. */
#define WAIT_MS 30000

/* ---- objects ---- */

#define META(name, version)                                                                        \
    "\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}"
#define NODE(name, version) "{" META(name, version) "}"
#define CARD(minor, health)                                                                        \
    "{\"type\":\"gpu\",\"minor\":" minor ",\"health\":" health ",\"resources\":{"                  \
    "\"koordinator.sh/gpu-core\":\"100\",\"koordinator.sh/gpu-memory\":\"16Gi\","                  \
    "\"koordinator.sh/gpu-memory-ratio\":\"100\"}}"
#define DEVICE(name, version, cards) "{" META(name, version) ",\"spec\":{\"devices\":[" cards "]}}"
/* A pod that runs on a node and holds half of its card 0. */
#define POD_OF(name, version, node, core)                                                          \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"ns\",\"uid\":\"uid-" name                \
    "\",\"resourceVersion\":\"" version                                                            \
    "\",\"annotations\":{\"scheduling.koordinator.sh/device-allocated\":\"{\\\"gpu\\\":[{"         \
    "\\\"minor\\\":0,\\\"resources\\\":{\\\"koordinator.sh/gpu-core\\\":\\\"50\\\","               \
    "\\\"koordinator.sh/gpu-memory-ratio\\\":\\\"50\\\"}}]}\"}},\"spec\":{\"nodeName\":\"" node    \
    "\",\"containers\":[{\"name\":\"c\",\"resources\":{\"requests\":{\"koordinator.sh/gpu-core\":" \
    "\"" core "\",\"koordinator.sh/gpu-memory-ratio\":\"50\"}}}]},"                                \
    "\"status\":{\"phase\":\"Running\"}}"
#define POD(name, version, node) POD_OF(name, version, node, "50")
#define LIST(version, items)                                                                       \
    "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"
#define PAGE(version, next, items)                                                                 \
    "{\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" next                      \
    "\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
/* clang-format off */
#define BOOKMARK(version)                                                                          \
    EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" version "\"}}")
/* clang-format on */
#define STATUS(code, reason, message)                                                              \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","           \
    "\"message\":\"" message "\",\"reason\":\"" reason "\",\"code\":" code "}"

/* ---- the parts ---- */

static struct cache *cache;
static struct sched sched;
static struct reflectors *reflectors;
static struct api_access access_;
static struct reflector_options options;

static int setup(void **state)
{
    (void)state;
    metrics_reset();
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    sched_init(&sched, cache, clock_system(), (struct port){.self = NULL},
               device_policy_find(STR("default")), node_policy_find(STR("spread")));
    access_ = (struct api_access){.server = fake_api_start()};
    options = (struct reflector_options){.access = &access_,
                                         .page_size = 500,
                                         .watch_timeout_ms = 60000,
                                         .idle_timeout_ms = 10000,
                                         .backoff_min_ms = 5,
                                         .backoff_max_ms = 40};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    struct error err = {0};
    reflectors_stop(reflectors);
    reflectors = NULL;
    fake_api_stop();
    assert_int_equal(cache_check(cache, &err), 0);
    cache_free(cache);
    return 0;
}

static void start(void)
{
    struct error err = {0};
    if (reflectors_start(&options, &sched, &reflectors, &err) != 0)
        fail_msg("%s", err.text);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_synced(void)
{
    return atomic_load(&sched.synced);
}

/* Wait until a condition holds. */
#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        int64_t until_ = now_ms() + WAIT_MS;                                                       \
        while (!(condition) && now_ms() < until_)                                                  \
            pause_ms(1);                                                                           \
        if (!(condition))                                                                          \
            fail_msg("never: %s", #condition);                                                     \
    } while (0)

static char *state_text(void)
{
    static char text[65536];
    struct strbuf out = {0};
    cache_text(cache, &out);
    snprintf(text, sizeof text, "%s", out.data);
    strbuf_done(&out);
    return text;
}

static bool shows(const char *part)
{
    return strstr(state_text(), part) != NULL;
}

static struct reflector_status status_of(enum fake_kind kind)
{
    struct reflector_status all[REFLECTOR_COUNT];
    reflectors_status(reflectors, all);
    return all[kind];
}

static bool asked(enum fake_kind kind, enum fake_verb verb, unsigned n, const char *part)
{
    const char *request = fake_api_request(kind, verb, n);
    return request != NULL && strstr(request, part) != NULL;
}

static void list(enum fake_kind kind, const char *body)
{
    fake_api_next(kind, FAKE_LIST, (struct fake_reply){.body = body});
}

static void list_status(enum fake_kind kind, int status, const char *header, const char *body)
{
    fake_api_next(kind, FAKE_LIST,
                  (struct fake_reply){.status = status, .header = header, .body = body});
}

static void watch(enum fake_kind kind, const char *body, enum fake_end end)
{
    fake_api_next(kind, FAKE_WATCH, (struct fake_reply){.body = body, .end = end});
}

/* ---- lists ---- */

static void first_lists_make_the_state(void **state)
{
    (void)state;
    list(FAKE_NODES, LIST("11", NODE("a", "2") "," NODE("b", "3")));
    list(FAKE_DEVICES, LIST("12", DEVICE("a", "4", CARD("0", "true") "," CARD("1", "true"))));
    list(FAKE_PODS, LIST("13", POD("p", "5", "a")));
    start();
    WAIT_FOR(is_synced());
    assert_true(shows("node a node devices\n"));
    assert_true(shows("node b node\n"));
    assert_true(shows("  gpu 0 id= pods=1 total 100/100/17179869184 used 50/50/8589934592\n"));
    assert_true(shows("pod ns/p uid-p bound trust=0"));

    WAIT_FOR(fake_api_requests(FAKE_PODS, FAKE_WATCH) == 1 &&
             fake_api_requests(FAKE_NODES, FAKE_WATCH) == 1 &&
             fake_api_requests(FAKE_DEVICES, FAKE_WATCH) == 1);
    /* A consistent read: no resourceVersion. */
    assert_true(asked(FAKE_NODES, FAKE_LIST, 0, "GET /api/v1/nodes?limit=500 HTTP/1.1"));
    assert_true(asked(FAKE_PODS, FAKE_LIST, 0,
                      "GET /api/v1/pods?limit=500&fieldSelector="
                      "status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed HTTP/1.1"));
    assert_true(
        asked(FAKE_NODES, FAKE_WATCH, 0, "watch=1&allowWatchBookmarks=true&timeoutSeconds="));
    assert_true(asked(FAKE_NODES, FAKE_WATCH, 0, "&resourceVersion=11 "));
    assert_true(asked(FAKE_DEVICES, FAKE_WATCH, 0, "&resourceVersion=12 "));
    assert_true(asked(FAKE_PODS, FAKE_WATCH, 0, "&fieldSelector=status.phase%21%3DSucceeded%2C"));
    assert_true(asked(FAKE_PODS, FAKE_WATCH, 0, "&resourceVersion=13 "));
    struct reflector_status pods = status_of(FAKE_PODS);
    assert_string_equal(pods.name, "pods");
    assert_true(pods.synced && pods.lists == 1 && pods.events == 0 && pods.last_event_ns > 0);
    assert_string_equal(pods.trouble, "");
    assert_int_equal(fake_api_connections(), 3); /* a connection each, kept alive */
}

static bool says(const char *node_policy)
{
    struct pod_policy policy = {0};
    cache_namespace_fill(cache, STR("ml"), &policy);
    return policy.node == (node_policy != NULL ? node_policy_find(str_from(node_policy)) : NULL);
}

#define NAMESPACE(policy)                                                                          \
    "{\"metadata\":{\"name\":\"ml\",\"resourceVersion\":\"2\",\"labels\":{\"deviceshare.io/node-policy\":" \
    "\"" policy "\"}}}"

/* Namespaces are followed if they are wanted, and waited for then. */
static void namespaces_are_followed_on_demand(void **state)
{
    (void)state;
    options.namespaces = true;
    list(FAKE_NAMESPACES, LIST("14", NAMESPACE("pack")));
    start();
    WAIT_FOR(is_synced());
    assert_true(says("pack"));
    assert_string_equal(status_of(FAKE_NAMESPACES).name, "namespaces");
    assert_true(fake_api_push(FAKE_NAMESPACES,
                              "{\"type\":\"MODIFIED\",\"object\":" NAMESPACE("spread") "}\n"));
    WAIT_FOR(says("spread"));
    assert_true(fake_api_push(FAKE_NAMESPACES,
                              "{\"type\":\"DELETED\",\"object\":" NAMESPACE("spread") "}\n"));
    WAIT_FOR(says(NULL));
    assert_int_equal(fake_api_requests(FAKE_NAMESPACES, FAKE_LIST), 1);
    options.namespaces = false;
}

static void lists_come_in_pages(void **state)
{
    (void)state;
    options.page_size = 2;
    list(FAKE_NODES, PAGE("9", "to/+=ken", NODE("a", "1") "," NODE("b", "2")));
    list(FAKE_NODES, PAGE("9", "second", NODE("c", "3") "," NODE("d", "4")));
    fake_api_next(FAKE_NODES, FAKE_LIST,
                  (struct fake_reply){.body = PAGE("9", "", NODE("e", "5")), .piece = 1});
    start();
    WAIT_FOR(is_synced());
    assert_true(shows("counts 5 "));
    assert_true(asked(FAKE_NODES, FAKE_LIST, 0, "nodes?limit=2 "));
    assert_true(asked(FAKE_NODES, FAKE_LIST, 1, "nodes?limit=2&continue=to%2F%2B%3Dken "));
    assert_true(asked(FAKE_NODES, FAKE_LIST, 2, "nodes?limit=2&continue=second "));
    WAIT_FOR(asked(FAKE_NODES, FAKE_WATCH, 0, "resourceVersion=9 "));
}

static void an_expired_page_begins_the_list_again(void **state)
{
    (void)state;
    list(FAKE_NODES, PAGE("9", "old", NODE("a", "1")));
    list_status(FAKE_NODES, 410, NULL,
                STATUS("410", "Expired", "The provided continue parameter is too old"));
    list(FAKE_NODES, LIST("20", NODE("b", "15")));
    start();
    WAIT_FOR(is_synced());
    assert_true(asked(FAKE_NODES, FAKE_LIST, 2, "nodes?limit=500 "));
    assert_true(shows("counts 1 ")); /* "a" went meanwhile */
    WAIT_FOR(asked(FAKE_NODES, FAKE_WATCH, 0, "resourceVersion=20 "));
}

static void half_an_answer_is_no_list(void **state)
{
    (void)state;
    list(FAKE_PODS, LIST("5", POD("p", "5", "a") "," POD("q", "4", "a")));
    watch(FAKE_PODS, EVENT("ERROR", STATUS("410", "Expired", "too old resource version")),
          FAKE_HOLD);
    static const enum fake_end ends[] = {FAKE_CUT, FAKE_RESET};
    for (unsigned i = 0; i < 2; i++)
        fake_api_next(
            FAKE_PODS, FAKE_LIST,
            (struct fake_reply){
                .body = "{\"metadata\":{\"resourceVersion\":\"8\"},\"items\":[" POD("p", "5", "a"),
                .end = ends[i]});
    /* The same in an HTTP message that is complete. */
    list(FAKE_PODS, "{\"metadata\":{\"resourceVersion\":\"8\"},\"items\":[" POD("p", "5", "a"));
    list_status(FAKE_PODS, 500, NULL, "");
    start();
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_LIST, 5));
    assert_true(
        shows("pod ns/q uid-q bound")); /* nothing is dropped before the new list is complete */
    WAIT_FOR(!shows("uid-q"));          /* the sixth is complete and empty */
    WAIT_FOR(status_of(FAKE_PODS).lists == 2);
}

static void answers_that_are_no_lists(void **state)
{
    (void)state;
    fake_api_next(FAKE_NODES, FAKE_LIST,
                  (struct fake_reply){.type = "text/html", .body = LIST("1", NODE("x", "1"))});
    fake_api_next(
        FAKE_NODES, FAKE_LIST,
        (struct fake_reply){.type = "application/vnd.kubernetes.protobuf", .body = "k8s"});
    list(FAKE_NODES, "<html>login</html>");
    list(FAKE_NODES, STATUS("200", "", "not a list"));
    list(FAKE_NODES, "{\"items\":[]}"); /* no version to watch from */
    list(FAKE_NODES, LIST("2", NODE("a", "1")));
    start();
    WAIT_FOR(is_synced());
    assert_int_equal(fake_api_requests(FAKE_NODES, FAKE_LIST), 6);
    assert_true(shows("counts 1 "));
    assert_false(shows("node x"));
}

/* ---- watches ---- */

static void events_change_the_state(void **state)
{
    (void)state;
    list(FAKE_NODES, LIST("1", NODE("a", "1")));
    list(FAKE_DEVICES, LIST("1", DEVICE("a", "1", CARD("0", "true"))));
    start();
    WAIT_FOR(is_synced());
    assert_true(fake_api_push(FAKE_PODS, EVENT("ADDED", POD("p", "2", "a"))));
    WAIT_FOR(shows("gpu 0 id= pods=1"));
    assert_true(fake_api_push(
        FAKE_DEVICES,
        EVENT("MODIFIED", DEVICE("a", "3", CARD("0", "true") "," CARD("1", "false")))));
    WAIT_FOR(shows("gpu 1 unusable"));
    assert_true(fake_api_push(FAKE_PODS, EVENT("DELETED", POD("p", "4", "a"))));
    WAIT_FOR(shows("gpu 0 id= pods=0"));
    assert_true(
        fake_api_push(FAKE_NODES, EVENT("ADDED", NODE("b", "5")) EVENT("DELETED", NODE("a", "6"))));
    WAIT_FOR(shows("node a devices\n") && shows("node b node\n"));
    assert_true(fake_api_push(FAKE_DEVICES, EVENT("DELETED", DEVICE("a", "7", CARD("0", "true")))));
    WAIT_FOR(!shows("node a"));
    assert_int_equal(status_of(FAKE_PODS).events, 2);
}

static void a_pod_that_finishes_gives_its_cards_back(void **state)
{
    (void)state;
    list(FAKE_PODS, LIST("1", POD("p", "1", "a")));
    start();
    WAIT_FOR(shows("uid-p bound"));
    /* It leaves the selection: DELETED with the state before. */
    assert_true(fake_api_push(FAKE_PODS, EVENT("DELETED", POD("p", "2", "a"))));
    WAIT_FOR(!shows("uid-p"));
}

static void a_reset_in_a_line_resumes_from_the_last_version(void **state)
{
    (void)state;
    list(FAKE_PODS, LIST("10", ""));
    watch(FAKE_PODS, EVENT("ADDED", POD("p", "11", "a")) "{\"type\":\"ADDED\",\"object\":{\"meta",
          FAKE_RESET);
    watch(FAKE_PODS, EVENT("ADDED", POD("q", "12", "a")), FAKE_CUT);
    start();
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_WATCH, 3));
    assert_true(asked(FAKE_PODS, FAKE_WATCH, 0, "resourceVersion=10 "));
    assert_true(asked(FAKE_PODS, FAKE_WATCH, 1, "resourceVersion=11 "));
    assert_true(asked(FAKE_PODS, FAKE_WATCH, 2, "resourceVersion=12 "));
    assert_true(shows("uid-p bound") && shows("uid-q bound"));
    assert_int_equal(fake_api_requests(FAKE_PODS, FAKE_LIST), 1);
    assert_int_equal(status_of(FAKE_PODS).restarts, 2);
}

static void bookmarks_move_the_version(void **state)
{
    (void)state;
    list(FAKE_NODES, LIST("10", NODE("a", "1")));
    watch(FAKE_NODES, BOOKMARK("50") BOOKMARK("not a number"), FAKE_COMPLETE);
    start();
    WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_WATCH, 2));
    assert_true(asked(FAKE_NODES, FAKE_WATCH, 1, "resourceVersion=not%20a%20number "));
    assert_true(shows("counts 1 "));
    assert_int_equal(status_of(FAKE_NODES).events, 0); /* a bookmark is no event */
    assert_int_equal(status_of(FAKE_NODES).restarts, 0);
}

static void an_expired_version_lists_again(void **state)
{
    (void)state;
    list(FAKE_PODS, LIST("10", POD("p", "1", "a") "," POD("q", "2", "a")));
    watch(FAKE_PODS, EVENT("ERROR", STATUS("410", "Expired", "too old resource version: 10 (99)")),
          FAKE_HOLD);
    list(FAKE_PODS, LIST("99", POD("q", "2", "a") "," POD("r", "98", "a")));
    fake_api_next(FAKE_PODS, FAKE_WATCH,
                  (struct fake_reply){.status = 410, .body = STATUS("410", "Gone", "too old")});
    list(FAKE_PODS, LIST("120", POD("r", "98", "a")));
    start();
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_WATCH, 2));
    /* The deletion of p and the creation of r fell into the gap. */
    assert_true(asked(FAKE_PODS, FAKE_WATCH, 1, "resourceVersion=99 "));
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_WATCH, 3));
    assert_true(asked(FAKE_PODS, FAKE_WATCH, 2, "resourceVersion=120 "));
    assert_true(shows("uid-r bound"));
    assert_false(shows("uid-p") || shows("uid-q"));
    assert_int_equal(status_of(FAKE_PODS).lists, 3);
}

/* The same version is the same pod: what it says is not even read. */
static void a_list_is_read_where_something_is_new(void **state)
{
    (void)state;
    list(FAKE_PODS, LIST("10", POD("p", "1", "a") "," POD("q", "2", "a") "," POD("r", "3", "a")));
    watch(FAKE_PODS, EVENT("MODIFIED", POD("r", "12", "a")), FAKE_COMPLETE);
    watch(FAKE_PODS, EVENT("ERROR", STATUS("410", "Expired", "too old")), FAKE_HOLD);
    list(FAKE_PODS, LIST("99", POD("p", "1", "b") "," POD("q", "4", "c") "," POD("r", "12", "d")));
    start();
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_WATCH, 3));
    assert_true(shows("node a") && shows("node c"));
    assert_false(shows("node b") || shows("node d"));
    assert_true(shows("uid-p bound") && shows("uid-q bound") && shows("uid-r bound"));
}

static void other_errors_keep_the_version(void **state)
{
    (void)state;
    list(FAKE_NODES, LIST("10", ""));
    watch(FAKE_NODES, BOOKMARK("30") EVENT("ERROR", STATUS("500", "InternalError", "etcd")),
          FAKE_HOLD);
    fake_api_next(
        FAKE_NODES, FAKE_WATCH,
        (struct fake_reply){.status = 504,
                            .body = STATUS("504", "Timeout", "Too large resource version: 30")});
    fake_api_next(FAKE_NODES, FAKE_WATCH, (struct fake_reply){.status = 500, .body = "oops"});
    start();
    WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_WATCH, 4));
    for (unsigned n = 1; n < 4; n++)
        assert_true(asked(FAKE_NODES, FAKE_WATCH, n, "resourceVersion=30 "));
    assert_int_equal(fake_api_requests(FAKE_NODES, FAKE_LIST), 1);
}

static void a_line_that_is_no_event_lists_again(void **state)
{
    (void)state;
    list(FAKE_NODES, LIST("10", NODE("a", "1")));
    watch(FAKE_NODES, EVENT("ADDED", NODE("b", "11")) "}{\n" EVENT("ADDED", NODE("c", "12")),
          FAKE_HOLD);
    list(FAKE_NODES, LIST("20", NODE("a", "1")));
    start();
    WAIT_FOR(asked(FAKE_NODES, FAKE_WATCH, 1, "resourceVersion=20 "));
    assert_false(shows("node b") || shows("node c"));
}

static void a_silent_watch_is_found(void **state)
{
    (void)state;
    options.idle_timeout_ms = 600;
    list(FAKE_NODES, LIST("10", ""));
    start();
    WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_WATCH, 1));
    int64_t begun = now_ms();
    for (unsigned i = 0; i < 4; i++) { /* it lives as long as something comes */
        pause_ms(200);
        assert_true(fake_api_push(FAKE_NODES, BOOKMARK("11")));
    }
    WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_WATCH, 2));
    assert_true(now_ms() - begun >= 4 * 200 + 580);
    assert_true(asked(FAKE_NODES, FAKE_WATCH, 1, "resourceVersion=11 "));
    assert_int_equal(fake_api_requests(FAKE_NODES, FAKE_LIST), 1);
}

static void a_list_that_hangs_is_found(void **state)
{
    (void)state;
    options.idle_timeout_ms = 100;
    fake_api_next(FAKE_NODES, FAKE_LIST,
                  (struct fake_reply){.body = "{\"items\":[", .end = FAKE_HOLD});
    start();
    WAIT_FOR(is_synced());
    assert_int_equal(fake_api_requests(FAKE_NODES, FAKE_LIST), 2);
}

static void watches_end_in_order_without_a_pause(void **state)
{
    (void)state;
    options.backoff_min_ms = options.backoff_max_ms = 60000;
    for (unsigned i = 0; i < 5; i++)
        watch(FAKE_NODES, BOOKMARK("2"), FAKE_COMPLETE);
    start();
    WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_WATCH, 6));
    assert_int_equal(status_of(FAKE_NODES).restarts, 0);
}

static void a_watch_that_ends_at_once_is_paused(void **state)
{
    (void)state;
    options.backoff_min_ms = options.backoff_max_ms = 60000;
    watch(FAKE_NODES, "", FAKE_COMPLETE);
    start();
    WAIT_FOR(strstr(status_of(FAKE_NODES).trouble, "ends each watch at once") != NULL);
    pause_ms(30);
    assert_int_equal(fake_api_requests(FAKE_NODES, FAKE_WATCH), 1);
}

static void events_come_twice_and_out_of_order(void **state)
{
    (void)state;
    start();
    WAIT_FOR(is_synced());
    assert_true(fake_api_push(FAKE_PODS,
                              EVENT("ADDED", POD("p", "2", "a")) EVENT("ADDED", POD("p", "2", "a"))
                                  EVENT("MODIFIED", POD("p", "2", "a"))));
    assert_true(fake_api_push(FAKE_DEVICES, EVENT("ADDED", DEVICE("a", "3", CARD("0", "true")))));
    assert_true(fake_api_push(FAKE_NODES, EVENT("ADDED", NODE("a", "1"))));
    WAIT_FOR(shows("node a node devices\n  gpu 0 id= pods=1 total 100/100/17179869184 "
                   "used 50/50/8589934592\n  pod ns/p uid-p bound trust=0"));
    assert_true(fake_api_push(FAKE_PODS, EVENT("DELETED", POD("p", "4", "a"))
                                             EVENT("DELETED", POD("p", "4", "a"))));
    WAIT_FOR(shows("gpu 0 id= pods=0 total 100/100/17179869184 used 0/0/0\n"));
}

static void a_huge_annotation(void **state)
{
    (void)state;
    enum { SIZE = 300 * 1024 };
    static char event[SIZE + 2000];
    int at = snprintf(event, sizeof event, "{\"type\":\"ADDED\",\"object\":{\"spec\":{\"x\":\"");
    memset(event + at, 'y', SIZE);
    snprintf(event + at + SIZE, sizeof event - (size_t)at - SIZE, "\"},%s}\n",
             &POD("p", "2", "a")[1]);
    list(FAKE_PODS, LIST("1", ""));
    fake_api_next(FAKE_PODS, FAKE_WATCH,
                  (struct fake_reply){.body = event, .piece = 1000, .end = FAKE_HOLD});
    start();
    WAIT_FOR(shows("uid-p"));
}

/* ---- refusals ---- */

static void a_missing_definition_is_waited_for(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        list_status(FAKE_DEVICES, 404, NULL, "404 page not found\n");
    list(FAKE_DEVICES, LIST("7", DEVICE("a", "6", CARD("0", "true"))));
    list(FAKE_NODES, LIST("1", NODE("a", "1")));
    options.backoff_max_ms = 100;
    start();
    WAIT_FOR(status_of(FAKE_NODES).synced && status_of(FAKE_PODS).synced &&
             fake_api_requests(FAKE_DEVICES, FAKE_LIST) >= 1);
    WAIT_FOR(strcmp(status_of(FAKE_DEVICES).trouble,
                    "devices.scheduling.koordinator.sh is not installed") == 0);
    assert_false(is_synced());
    assert_false(status_of(FAKE_DEVICES).synced);
    WAIT_FOR(is_synced());
    assert_string_equal(status_of(FAKE_DEVICES).trouble, "");
    assert_true(shows("node a node devices\n"));
}

static void a_removed_definition_keeps_what_is_known(void **state)
{
    (void)state;
    list(FAKE_DEVICES, LIST("7", DEVICE("a", "6", CARD("0", "true"))));
    watch(FAKE_DEVICES, BOOKMARK("8"), FAKE_CUT);
    fake_api_next(FAKE_DEVICES, FAKE_WATCH, (struct fake_reply){.status = 404});
    list_status(FAKE_DEVICES, 404, NULL, "404 page not found\n");
    start();
    WAIT_FOR(fake_api_wait(FAKE_DEVICES, FAKE_LIST, 2));
    assert_true(shows("node a devices\n"));
    WAIT_FOR(!shows("node a")); /* the next list is empty */
}

static void missing_rights_are_named(void **state)
{
    (void)state;
    list_status(FAKE_PODS, 403, NULL,
                STATUS("403", "Forbidden",
                       "pods is forbidden: User \\\"x\\\" cannot list resource \\\"pods\\\""));
    list_status(FAKE_NODES, 401, NULL, STATUS("401", "Unauthorized", "Unauthorized"));
    options.backoff_max_ms = 300;
    start();
    WAIT_FOR(
        strcmp(status_of(FAKE_PODS).trouble,
               "cannot list pods: HTTP 403: pods is forbidden: User \"x\" cannot list resource "
               "\"pods\"") == 0);
    WAIT_FOR(strcmp(status_of(FAKE_NODES).trouble, "cannot list nodes: HTTP 401: Unauthorized") ==
             0);
    WAIT_FOR(is_synced());
}

static void retry_after_is_obeyed(void **state)
{
    (void)state;
    list_status(FAKE_NODES, 429, "Retry-After: 1\r\n",
                STATUS("429", "TooManyRequests", "slow down"));
    start();
    WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_LIST, 1));
    int64_t begun = now_ms();
    WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_LIST, 2));
    assert_true(now_ms() - begun >= 950);
    WAIT_FOR(is_synced());
}

static void nobody_listens(void **state)
{
    (void)state;
    access_.server = "http://127.0.0.1:1";
    start();
    WAIT_FOR(status_of(FAKE_NODES).restarts >= 3);
    assert_non_null(
        strstr(status_of(FAKE_NODES).trouble, "cannot list nodes: GET http://127.0.0.1:1/"));
    assert_false(is_synced());
}

/* ---- objects that cannot be read ---- */

#define BAD_DEVICE(name) "{" META(name, "4") ",\"spec\":{\"devices\":{}}}"

static void a_bad_device_keeps_its_inventory(void **state)
{
    (void)state;
    list(FAKE_DEVICES,
         LIST("1", DEVICE("a", "1", CARD("0", "true")) "," DEVICE("b", "1", CARD("0", "true"))));
    watch(FAKE_DEVICES,
          EVENT("MODIFIED", BAD_DEVICE("b")) EVENT("ERROR", STATUS("410", "Expired", "")),
          FAKE_HOLD);
    list(FAKE_DEVICES, LIST("9", BAD_DEVICE("a") "," BAD_DEVICE("c")));
    start();
    WAIT_FOR(status_of(FAKE_DEVICES).lists == 2);
    assert_true(shows("node a devices\n  gpu 0 id= "));
    assert_false(shows("node b") || shows("node c"));
    assert_int_equal(metrics_get(METRIC_BAD_OBJECTS, OBJECT_DEVICE), 3);
}

#define PLUGIN(name, version, cards)                                                               \
    "{" META(name, version) ",\"status\":{\"allocatable\":{\"nvidia.com/gpu\":" cards "}}}"

/* What cannot be read of a Node changes nothing that is known of it, in lists as in watches. */
static void a_bad_node_keeps_what_it_said(void **state)
{
    (void)state;
    list(FAKE_NODES, LIST("5", PLUGIN("a", "1", "\"4\"") "," NODE("b", "2")));
    watch(FAKE_NODES,
          EVENT("MODIFIED", PLUGIN("a", "6", "[]")) EVENT("MODIFIED", PLUGIN("b", "7", "1"))
              EVENT("ERROR", STATUS("410", "Expired", "too old resource version")),
          FAKE_HOLD);
    list(FAKE_NODES, LIST("9", PLUGIN("a", "8", "[]") "," PLUGIN("c", "8", "\"0\"")));
    start();
    WAIT_FOR(status_of(FAKE_NODES).lists == 2);
    assert_true(shows("node a node plugin\n"));
    assert_true(shows("node c node\n"));
    assert_false(shows("node b"));
    assert_int_equal(metrics_get(METRIC_BAD_OBJECTS, OBJECT_NODE), 2);
}

static void bad_entries_of_a_device_are_left_out(void **state)
{
    (void)state;
    list(FAKE_DEVICES,
         LIST("1", DEVICE("a", "1", CARD("0", "true") ",{\"type\":\"tpu\",\"minor\":1}")));
    start();
    WAIT_FOR(is_synced());
    assert_true(shows("node a devices\n  gpu 0 id= "));
    assert_int_equal(metrics_get(METRIC_BAD_OBJECTS, OBJECT_DEVICE), 1);
}

static void a_bad_pod_is_not_forgotten(void **state)
{
    (void)state;
    list(FAKE_NODES, LIST("1", NODE("a", "1")));
    list(FAKE_DEVICES, LIST("1", DEVICE("a", "1", CARD("0", "true"))));
    list(FAKE_PODS, LIST("1", POD_OF("p", "1", "a", "half")));
    start();
    WAIT_FOR(is_synced());
    /* What its annotation says is charged, and not trusted. */
    assert_true(shows("gpu 0 id= pods=1 total 100/100/17179869184 used 50/50/"));
    assert_true(shows("pod ns/p uid-p bound trust=1"));
    assert_int_equal(metrics_get(METRIC_BAD_OBJECTS, OBJECT_POD), 1);
}

static void a_pod_that_turns_unreadable_keeps_its_booking(void **state)
{
    (void)state;
    list(FAKE_PODS, LIST("1", POD("p", "1", "a")));
    watch(FAKE_PODS, EVENT("ERROR", STATUS("410", "Expired", "")), FAKE_HOLD);
    list(FAKE_PODS,
         LIST("9", "{\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"uid-p\"},"
                   "\"spec\":[]},{\"metadata\":{\"name\":\"q\",\"annotations\":3}},"
                   "{\"metadata\":7},{\"a\":}"));
    start();
    WAIT_FOR(status_of(FAKE_PODS).lists == 2);
    assert_true(shows("uid-p bound"));
    assert_int_equal(metrics_get(METRIC_BAD_OBJECTS, OBJECT_POD), 4);
}

/* ---- when memory ends ---- */

static void a_list_that_memory_was_short_for_is_tried_again(void **state)
{
    (void)state;
    unsigned failures = 0;
    for (long n = 1; n <= 40; n++) {
        list(FAKE_PODS, LIST("3", POD("p", "2", "a")));
        list(FAKE_PODS, LIST("3", POD("p", "2", "a")));
        struct error why = {0};
        mem_fail_at(n);
        int rc = reflectors_start(&options, &sched, &reflectors, &why);
        if (rc == 0)
            WAIT_FOR(status_of(FAKE_PODS).synced);
        failures += mem_count() >= n;
        mem_fail_at(0);
        assert_int_equal(rc, rc == 0 ? 0 : -ENOMEM);
        assert_true(rc < 0 || shows("uid-p bound"));
        reflectors_stop(reflectors);
        reflectors = NULL;
        teardown(state);
        setup(state);
    }
    assert_in_range(failures, 20, 40);
}

static void an_event_that_memory_was_short_for_is_asked_for_again(void **state)
{
    (void)state;
    for (long n = 1; n <= 12; n++) {
        static const char event[] = EVENT("ADDED", POD("p", "5", "a"));
        start();
        WAIT_FOR(is_synced() && fake_api_wait(FAKE_PODS, FAKE_WATCH, 1));
        watch(FAKE_PODS, event, FAKE_HOLD);
        mem_fail_at(n);
        assert_true(fake_api_push(FAKE_PODS, event));
        WAIT_FOR(status_of(FAKE_PODS).events == 1);
        bool failed = mem_count() >= n;
        mem_fail_at(0);
        assert_true(shows("uid-p bound"));
        if (failed && fake_api_requests(FAKE_PODS, FAKE_WATCH) > 1)
            assert_true(asked(FAKE_PODS, FAKE_WATCH, 1, "resourceVersion=1 "));
        reflectors_stop(reflectors);
        reflectors = NULL;
        teardown(state);
        setup(state);
    }
}

/* ---- a list that is wanted now ---- */

struct waiter {
    pthread_t thread;
    int64_t timeout_ms;
    int rc;
    struct error err;
};

static void *wait_for_pods(void *self)
{
    struct waiter *waiter = self;
    waiter->rc = reflectors_consistent_pods(reflectors, waiter->timeout_ms, &waiter->err);
    return NULL;
}

static void a_consistent_list_begins_after_the_question(void **state)
{
    (void)state;
    start();
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_WATCH, 1));
    WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_LIST, 1));
    for (unsigned i = 0; i < 20; i++) {
        list(FAKE_PODS, LIST("10", POD("p", "5", "a")));
        struct error err;
        assert_int_equal(reflectors_consistent_pods(reflectors, WAIT_MS, &err), 0);
        assert_true(shows("uid-p bound"));
    }
    assert_int_equal(fake_api_requests(FAKE_PODS, FAKE_LIST), 21);
    assert_int_equal(fake_api_requests(FAKE_NODES, FAKE_LIST), 1);
    WAIT_FOR(asked(FAKE_PODS, FAKE_WATCH, fake_api_requests(FAKE_PODS, FAKE_WATCH) - 1,
                   "resourceVersion=10 "));
}

static void a_consistent_list_waits_for_one_that_is_complete(void **state)
{
    (void)state;
    struct error err = {0};
    start();
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_WATCH, 1));
    list_status(FAKE_PODS, 500, NULL, "");
    fake_api_next(FAKE_PODS, FAKE_LIST, (struct fake_reply){.body = "{", .end = FAKE_CUT});
    assert_int_equal(reflectors_consistent_pods(reflectors, WAIT_MS, &err), 0);
    assert_int_equal(fake_api_requests(FAKE_PODS, FAKE_LIST), 4);

    fake_api_next(FAKE_PODS, FAKE_LIST, (struct fake_reply){.body = "{", .end = FAKE_HOLD});
    assert_int_equal(reflectors_consistent_pods(reflectors, 50, &err), -ETIMEDOUT);
    assert_int_equal(err.code, -ETIMEDOUT);
    /* The hanging list began before this question: it is not waited for. */
    assert_int_equal(reflectors_consistent_pods(reflectors, WAIT_MS, &err), 0);
}

/* However much it is wanted. */
static void a_consistent_list_begins_no_sooner_than_told(void **state)
{
    (void)state;
    struct error err = {0};
    list_status(FAKE_PODS, 429, "Retry-After: 1\r\n",
                STATUS("429", "TooManyRequests", "slow down"));
    int64_t begun = now_ms();
    start();
    WAIT_FOR(strstr(status_of(FAKE_PODS).trouble, "slow down") != NULL);
    assert_int_equal(reflectors_consistent_pods(reflectors, 1, &err), -ETIMEDOUT);
    assert_int_equal(reflectors_consistent_pods(reflectors, WAIT_MS, &err), 0);
    assert_true(now_ms() - begun >= 950);
    assert_int_equal(fake_api_requests(FAKE_PODS, FAKE_LIST), 2);
}

static void stopping_ends_a_wait(void **state)
{
    (void)state;
    start();
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_WATCH, 1));
    fake_api_next(FAKE_PODS, FAKE_LIST, (struct fake_reply){.body = "{", .end = FAKE_HOLD});
    struct waiter waiter = {.timeout_ms = 60000};
    pthread_create(&waiter.thread, NULL, wait_for_pods, &waiter);
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_LIST, 2));
    reflectors_stop(reflectors);
    reflectors = NULL;
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.rc, -ECANCELED);
}

static void a_wait_can_be_cancelled(void **state)
{
    (void)state;
    start();
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_WATCH, 1));
    fake_api_next(FAKE_PODS, FAKE_LIST, (struct fake_reply){.body = "{", .end = FAKE_HOLD});
    struct waiter waiter = {.timeout_ms = 60000};
    pthread_create(&waiter.thread, NULL, wait_for_pods, &waiter);
    WAIT_FOR(fake_api_wait(FAKE_PODS, FAKE_LIST, 2));
    reflectors_cancel_wait(reflectors);
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.rc, -ECANCELED);
    reflectors_cancel_wait(reflectors); /* before the wait begins: then that one, and no other */
    struct error err;
    assert_int_equal(reflectors_consistent_pods(reflectors, WAIT_MS, &err), -ECANCELED);
    assert_int_equal(reflectors_consistent_pods(reflectors, WAIT_MS, &err), 0);
}

/* ---- the end ---- */

static void stopping_takes_no_time(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        if (round == 1) /* in a pause */
            list_status(FAKE_NODES, 403, NULL, "");
        if (round == 2) /* in a list */
            fake_api_next(FAKE_NODES, FAKE_LIST,
                          (struct fake_reply){.body = "{", .end = FAKE_HOLD});
        options.backoff_max_ms = 60000;
        unsigned lists = fake_api_requests(FAKE_NODES, FAKE_LIST);
        start();
        WAIT_FOR(fake_api_wait(FAKE_NODES, FAKE_LIST, lists + 1));
        pause_ms(20);
        int64_t begun = now_ms();
        reflectors_stop(reflectors);
        reflectors = NULL;
        assert_in_range(now_ms() - begun, 0, 4000);
    }
    reflectors_stop(NULL);
}

static void bad_credentials_are_an_error_at_start(void **state)
{
    (void)state;
    struct error err = {0};
    access_.token_file = "/nonexistent/token";
    assert_int_equal(reflectors_start(&options, &sched, &reflectors, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/token"));
}

int main(void)
{
    kube_global_init();
    log_set_verbosity(0);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(first_lists_make_the_state),
        TEST(lists_come_in_pages),
        TEST(namespaces_are_followed_on_demand),
        TEST(an_expired_page_begins_the_list_again),
        TEST(half_an_answer_is_no_list),
        TEST(answers_that_are_no_lists),
        TEST(events_change_the_state),
        TEST(a_pod_that_finishes_gives_its_cards_back),
        TEST(a_reset_in_a_line_resumes_from_the_last_version),
        TEST(bookmarks_move_the_version),
        TEST(an_expired_version_lists_again),
        TEST(a_list_is_read_where_something_is_new),
        TEST(other_errors_keep_the_version),
        TEST(a_line_that_is_no_event_lists_again),
        TEST(a_silent_watch_is_found),
        TEST(a_list_that_hangs_is_found),
        TEST(watches_end_in_order_without_a_pause),
        TEST(a_watch_that_ends_at_once_is_paused),
        TEST(events_come_twice_and_out_of_order),
        TEST(a_huge_annotation),
        TEST(a_missing_definition_is_waited_for),
        TEST(a_removed_definition_keeps_what_is_known),
        TEST(missing_rights_are_named),
        TEST(retry_after_is_obeyed),
        TEST(nobody_listens),
        TEST(a_bad_device_keeps_its_inventory),
        TEST(a_bad_node_keeps_what_it_said),
        TEST(bad_entries_of_a_device_are_left_out),
        TEST(a_bad_pod_is_not_forgotten),
        TEST(a_pod_that_turns_unreadable_keeps_its_booking),
        TEST(a_list_that_memory_was_short_for_is_tried_again),
        TEST(an_event_that_memory_was_short_for_is_asked_for_again),
        TEST(a_consistent_list_begins_after_the_question),
        TEST(a_consistent_list_waits_for_one_that_is_complete),
        TEST(a_consistent_list_begins_no_sooner_than_told),
        TEST(a_wait_can_be_cancelled),
        TEST(stopping_ends_a_wait),
        TEST(stopping_takes_no_time),
        TEST(bad_credentials_are_an_error_at_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
