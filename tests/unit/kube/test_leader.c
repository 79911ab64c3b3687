/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/leader.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/log.h"
#include "kube/client.h"
#include "script_server.h"

#define T_MS 60
#define D_MS 40
#define MS   INT64_C(1000000)

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* The system's clock, which can be put forward. */
static atomic_int_least64_t forward_ns;

static int64_t read_clock(void *self)
{
    (void)self;
    struct clock clock = clock_system();
    return clock_now_ns(&clock) + atomic_load(&forward_ns);
}

/* ---- an API server with Pods of ours, and a Lease that is always granted ---- */

static struct {
    atomic_int label_status; /* of every call about labels; 0 = fine */
    atomic_int lease_status; /* of every call about the Lease; 0 = fine */
    atomic_bool labels_hang;
    atomic_bool other_leader; /* another Pod has the label */
    atomic_bool alone;        /* our own has it, and no other */
    atomic_bool released;     /* the Lease was released with a mark */
    atomic_int lists, cleared, labelled, unlabelled;
    char lease[2048];
} api;

static struct script_act lease_act(const struct script_request *request)
{
    static const char released[] = "{\"kind\":\"Lease\",\"metadata\":{\"annotations\":{"
                                   "\"deviceshare.io/clean-stop\":\"before\"}},"
                                   "\"spec\":{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1}}";
    if (atomic_load(&api.lease_status) != 0)
        return (struct script_act){.status = atomic_load(&api.lease_status)};
    if (strcmp(request->method, "GET") == 0)
        return atomic_load(&api.released) ? (struct script_act){.body = released}
                                          : (struct script_act){.status = 404};
    snprintf(api.lease, sizeof api.lease, "%s", request->body);
    return (struct script_act){.status = 200, .body = api.lease};
}

static struct script_act act(void *self, const struct script_request *request)
{
    (void)self;
    if (strstr(request->path, "/leases") != NULL)
        return lease_act(request);
    struct script_act act = {.status = atomic_load(&api.label_status), .body = "{\"items\":[]}"};
    if (atomic_load(&api.labels_hang))
        act.how = SCRIPT_SILENT;
    if (strcmp(request->method, "GET") == 0) {
        atomic_fetch_add(&api.lists, 1);
        if (atomic_load(&api.alone))
            act.body = "{\"items\":[{\"metadata\":{\"name\":\"own\",\"uid\":\"2\"}}]}";
        if (atomic_load(&api.other_leader))
            act.body = "{\"items\":[{\"metadata\":{\"name\":\"other\",\"uid\":\"1\"}}]}";
    } else if (strstr(request->path, "/pods/other") != NULL) {
        atomic_fetch_add(&api.cleared, 1);
    } else if (strstr(request->body, "\"true\"") != NULL) {
        atomic_fetch_add(&api.labelled, 1);
    } else {
        atomic_fetch_add(&api.unlabelled, 1);
    }
    return act;
}

/* ---- reading all pods ---- */

static struct {
    atomic_int reads;
    atomic_int fail;  /* so many reads fail */
    atomic_bool hang; /* until cancelled */
    atomic_bool deaf; /* and do not listen to that, but to `hang` alone */
    atomic_bool cancelled;
    atomic_int_least64_t began_ns; /* of the last one */
    atomic_bool labelled_before, open_before;
} reads;

static struct fence fence;

static int consistent_pods(void *self, int64_t timeout_ms, struct error *err)
{
    (void)self;
    assert_true(timeout_ms > 0);
    atomic_store(&reads.began_ns, read_clock(NULL));
    atomic_store(&reads.labelled_before, atomic_load(&api.labelled) > 0);
    if (fence_may_send(&fence))
        atomic_store(&reads.open_before, true);
    atomic_fetch_add(&reads.reads, 1);
    while (atomic_load(&reads.hang) && (atomic_load(&reads.deaf) || !atomic_load(&reads.cancelled)))
        pause_ms(1);
    if (atomic_exchange(&reads.cancelled, false) && !atomic_load(&reads.deaf))
        return error_set(err, -ECANCELED, "cancelled");
    if (atomic_load(&reads.fail) > 0) {
        atomic_fetch_sub(&reads.fail, 1);
        return error_set(err, -ETIMEDOUT, "the list does not end");
    }
    return 0;
}

static void cancel(void *self)
{
    (void)self;
    atomic_store(&reads.cancelled, true);
}

/* ---- a process ---- */

static struct script_server *server;
static struct api_access access;
static struct cache *cache;
static struct sched sched;
static struct leader *leader;
static int64_t started_ns;
static struct lease_options lease_options;
static struct leader_options options;

static int setup(void **state)
{
    (void)state;
    log_set_verbosity(-1);
    memset(&api, 0, sizeof api);
    memset(&reads, 0, sizeof reads);
    atomic_store(&forward_ns, 0);
    server = script_start(act, NULL);
    access = (struct api_access){.server = script_url(server)};
    struct clock clock = {.now_ns = read_clock};
    fence_init(&fence, clock, T_MS, D_MS);
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    sched_init(&sched, cache, clock, (struct port){0}, device_policy_find(STR("default")),
               node_policy_find(STR("spread")));
    sched_set_synced(&sched, true);
    lease_options = (struct lease_options){.access = &access,
                                           .ns = "gpu",
                                           .name = "extender",
                                           .identity = "us_1",
                                           .duration_ms = 15000,
                                           .renew_deadline_ms = 10000,
                                           .retry_period_ms = 5};
    options = (struct leader_options){.access = &access,
                                      .fence = &fence,
                                      .sched = &sched,
                                      .own = {.ns = "gpu", .name = "own"},
                                      .call_timeout_ms = 2000,
                                      .retry_ms = 5,
                                      .label_look_ms = 60000,
                                      .consistent_pods = consistent_pods,
                                      .cancel = cancel};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    leader_stop(leader, false);
    leader = NULL;
    assert_false(fence_may_send(&fence));
    assert_int_equal(sched_ready(&sched, NULL), -EPERM);
    assert_false(atomic_load(&reads.open_before));
    script_stop(server);
    cache_free(cache);
    fence_done(&fence);
    return 0;
}

static void start(bool election)
{
    struct error err = {0};
    options.lease = election ? &lease_options : NULL;
    started_ns = read_clock(NULL);
    if (leader_start(&options, &leader, &err) < 0)
        fail_msg("%s", err.text);
}

#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (int i_ = 0; i_ < 30000 && !(condition); i_++)                                          \
            pause_ms(1);                                                                           \
        assert_true(condition);                                                                    \
    } while (0)

static bool status_has(const char *words)
{
    char text[512];
    leader_status(leader, text, sizeof text);
    return strstr(text, words) != NULL;
}

static bool is_open(void)
{
    char text[512];
    bool open = leader_status(leader, text, sizeof text);
    assert_int_equal(open, strcmp(text, "leads") == 0);
    return open;
}

/* The Lease is not renewed any more, and time passes. */
static void lose_the_lease(void)
{
    atomic_store(&api.lease_status, 500);
    pause_ms(20);
    atomic_fetch_add(&forward_ns, 10000 * MS);
}

/* ---- taking up ---- */

static void without_election_it_waits_then_reads_then_opens(void **state)
{
    (void)state;
    atomic_store(&api.other_leader, true);
    start(false);
    assert_int_equal(sched_ready(&sched, NULL), 0); /* filter is answered from the start */
    assert_false(fence_may_send(&fence));
    WAIT_FOR(is_open());
    assert_true(fence_may_send(&fence));
    assert_int_equal(atomic_load(&reads.reads), 1);
    assert_true(atomic_load(&reads.began_ns) - started_ns >= (T_MS + D_MS) * MS);
    assert_true(atomic_load(&reads.labelled_before));
    assert_int_equal(atomic_load(&api.cleared), 1);
    assert_int_equal(atomic_load(&api.unlabelled), 0);
}

static void a_leader_waits_too(void **state)
{
    (void)state;
    start(true);
    WAIT_FOR(sched_ready(&sched, NULL) == 0);
    assert_false(fence_may_send(&fence));
    WAIT_FOR(is_open());
    assert_true(atomic_load(&reads.began_ns) - started_ns >= (T_MS + D_MS) * MS);
    assert_int_equal(atomic_load(&reads.reads), 1);
}

static void after_a_clean_stop_it_only_reads(void **state)
{
    (void)state;
    fence_done(&fence);
    fence_init(&fence, (struct clock){.now_ns = read_clock}, 5000, 2000);
    atomic_store(&api.released, true);
    start(true);
    WAIT_FOR(is_open());
    assert_true(read_clock(NULL) - started_ns < 3000 * MS);
    assert_int_equal(atomic_load(&reads.reads), 1);
}

static void steps_that_fail_are_tried_again(void **state)
{
    (void)state;
    atomic_store(&api.label_status, 500);
    atomic_store(&reads.fail, 3);
    start(false);
    WAIT_FOR(status_has("moves the label to its Pod: ") && status_has("HTTP 500"));
    pause_ms(T_MS + D_MS + 20);
    assert_int_equal(atomic_load(&reads.reads), 0);
    assert_false(fence_may_send(&fence)); /* not while another Pod may have the label */
    atomic_store(&api.label_status, 0);
    WAIT_FOR(is_open());
    assert_int_equal(atomic_load(&reads.reads), 4);
}

static void a_label_that_is_forbidden_is_given_up(void **state)
{
    (void)state;
    atomic_store(&api.label_status, 403);
    start(false);
    WAIT_FOR(is_open());
    assert_int_equal(atomic_load(&api.labelled), 1);
}

static void outside_of_a_pod_there_is_no_label(void **state)
{
    (void)state;
    options.own.name = NULL;
    start(false);
    WAIT_FOR(is_open());
    assert_int_equal(script_count(server), 0);
}

/* ---- leading ---- */

static void lead_and_look_at_the_label(void)
{
    options.label_look_ms = 20;
    lease_options.retry_period_ms = 100;
    atomic_store(&api.alone, true);
    start(true);
    WAIT_FOR(is_open());
}

/* A request of a process before that comes late, or somebody's hand. */
static void a_label_that_was_moved_comes_back(void **state)
{
    (void)state;
    lead_and_look_at_the_label();
    int labelled = atomic_load(&api.labelled), lists = atomic_load(&api.lists);
    WAIT_FOR(atomic_load(&api.lists) > lists + 3);
    assert_int_equal(atomic_load(&api.labelled), labelled);

    atomic_store(&api.label_status, 500);
    atomic_store(&api.alone, false);
    lists = atomic_load(&api.lists);
    WAIT_FOR(atomic_load(&api.lists) > lists + 3);
    atomic_store(&api.label_status, 0);
    WAIT_FOR(atomic_load(&api.labelled) > labelled);
    atomic_store(&api.alone, true);

    int cleared = atomic_load(&api.cleared);
    atomic_store(&api.other_leader, true);
    WAIT_FOR(atomic_load(&api.cleared) > cleared);
    assert_true(is_open());
}

/* Its successor has the label by now, and it has not noticed. */
static void who_may_have_lost_the_lease_moves_no_label(void **state)
{
    (void)state;
    lead_and_look_at_the_label();
    atomic_store(&api.lease_status, 500);
    pause_ms(120);
    fence_renewed(&fence, read_clock(NULL), T_MS * MS);
    int labelled = atomic_load(&api.labelled), lists = atomic_load(&api.lists);
    atomic_store(&api.other_leader, true);
    WAIT_FOR(atomic_load(&api.lists) > lists + 3);
    assert_int_equal(atomic_load(&api.cleared), 0);
    assert_int_equal(atomic_load(&api.labelled), labelled);
}

/* ---- standing by ---- */

static void who_stands_by_takes_its_label_off_and_does_not_answer(void **state)
{
    (void)state;
    atomic_store(&api.lease_status, 500);
    atomic_store(&api.label_status, 500);
    start(true);
    assert_int_equal(sched_ready(&sched, NULL), -EPERM);
    WAIT_FOR(atomic_load(&api.unlabelled) >= 3); /* until it works */
    atomic_store(&api.label_status, 0);
    pause_ms(30);
    int done = atomic_load(&api.unlabelled);
    pause_ms(30);
    assert_int_equal(atomic_load(&api.unlabelled), done);
    assert_true(status_has("stands by; nobody is known to lead"));
    assert_false(fence_may_send(&fence));
    assert_int_equal(atomic_load(&reads.reads), 0);
}

/* ---- losing it ---- */

static void losing_the_lease_ends_everything(void **state)
{
    (void)state;
    start(true);
    WAIT_FOR(is_open());
    int unlabelled = atomic_load(&api.unlabelled);
    lose_the_lease();
    WAIT_FOR(sched_ready(&sched, NULL) == -EPERM);
    assert_false(fence_may_send(&fence));
    WAIT_FOR(atomic_load(&api.unlabelled) == unlabelled + 1);

    /* A new term has to wait and to read again. */
    started_ns = read_clock(NULL);
    atomic_store(&api.lease_status, 0);
    WAIT_FOR(is_open());
    assert_true(atomic_load(&reads.began_ns) - started_ns >= (T_MS + D_MS) * MS);
    assert_int_equal(atomic_load(&reads.reads), 2);
}

static void losing_it_while_reading_cancels_the_read(void **state)
{
    (void)state;
    atomic_store(&reads.hang, true);
    start(true);
    WAIT_FOR(atomic_load(&reads.reads) == 1);
    assert_true(status_has("reads all pods"));
    int unlabelled = atomic_load(&api.unlabelled);
    lose_the_lease();
    WAIT_FOR(atomic_load(&api.unlabelled) == unlabelled + 1); /* the thread is free again */
    assert_false(fence_may_send(&fence));
    atomic_store(&reads.hang, false);
    atomic_store(&api.lease_status, 0);
    WAIT_FOR(is_open());
    assert_int_equal(atomic_load(&reads.reads), 2);
}

/* The read of a term that ended comes back well when the next term has begun: that one takes all
 * its own steps. */
static void a_read_of_the_last_term_is_worth_nothing(void **state)
{
    (void)state;
    atomic_store(&reads.hang, true);
    atomic_store(&reads.deaf, true);
    start(true);
    WAIT_FOR(atomic_load(&reads.reads) == 1);
    lose_the_lease();
    WAIT_FOR(sched_ready(&sched, NULL) == -EPERM);
    started_ns = read_clock(NULL);
    atomic_store(&api.lease_status, 0);
    WAIT_FOR(sched_ready(&sched, NULL) == 0);
    atomic_store(&reads.hang, false);
    WAIT_FOR(is_open());
    assert_int_equal(atomic_load(&reads.reads), 2);
    assert_int_equal(atomic_load(&api.labelled), 2);
    assert_true(atomic_load(&reads.began_ns) - started_ns >= (T_MS + D_MS) * MS);
}

static void a_lease_about_to_end_shows(void **state)
{
    (void)state;
    start(true);
    WAIT_FOR(is_open());
    char text[512];
    atomic_store(&api.lease_status, 500);
    pause_ms(20);
    fence_renewed(&fence, read_clock(NULL), T_MS * MS);
    assert_false(leader_status(leader, text, sizeof text));
    assert_string_equal(text, "leads; no binding now: the lease may end before the binding does");
}

/* ---- stopping ---- */

static void stop_quickly(void)
{
    int64_t start_ns = read_clock(NULL);
    leader_stop(leader, false);
    leader = NULL;
    assert_true(read_clock(NULL) - start_ns < 100 * MS);
}

static void it_stops_at_once_in_every_step(void **state)
{
    (void)state;
    atomic_store(&api.labels_hang, true);
    start(false);
    WAIT_FOR(atomic_load(&api.lists) == 1);
    stop_quickly();
    atomic_store(&api.labels_hang, false);

    atomic_store(&reads.cancelled, false);
    atomic_store(&reads.hang, true);
    start(false);
    WAIT_FOR(atomic_load(&reads.reads) == 1);
    stop_quickly();
    atomic_store(&reads.hang, false);

    fence_done(&fence);
    fence_init(&fence, (struct clock){.now_ns = read_clock}, 50000, 20000);
    start(true);
    WAIT_FOR(status_has("waits for those of its predecessor"));
    stop_quickly();
    assert_int_equal(sched_ready(&sched, NULL), -EPERM);
    leader_stop(NULL, true);
}

static void a_clean_stop_releases_the_lease(void **state)
{
    (void)state;
    start(true);
    WAIT_FOR(is_open());
    leader_stop(leader, true);
    leader = NULL;
    assert_non_null(strstr(api.lease, "\"deviceshare.io/clean-stop\":\"us_1\""));
}

/* Its predecessor was killed: until T + D are over, its own mark would promise too much. */
static void a_stop_while_it_waits_is_not_clean(void **state)
{
    (void)state;
    fence_done(&fence);
    fence_init(&fence, (struct clock){.now_ns = read_clock}, 50000, 20000);
    start(true);
    WAIT_FOR(status_has("waits for those of its predecessor"));
    leader_stop(leader, true);
    leader = NULL;
    assert_null(strstr(api.lease, "clean-stop"));

    /* After a clean stop there is nothing to wait for, and nothing to be found out. */
    atomic_store(&api.released, true);
    atomic_store(&reads.hang, true);
    start(true);
    WAIT_FOR(atomic_load(&reads.reads) == 1);
    leader_stop(leader, true);
    leader = NULL;
    assert_non_null(strstr(api.lease, "\"deviceshare.io/clean-stop\":\"us_1\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    kube_global_init();
    const struct CMUnitTest tests[] = {
        TEST(without_election_it_waits_then_reads_then_opens),
        TEST(a_leader_waits_too),
        TEST(after_a_clean_stop_it_only_reads),
        TEST(steps_that_fail_are_tried_again),
        TEST(a_label_that_is_forbidden_is_given_up),
        TEST(outside_of_a_pod_there_is_no_label),
        TEST(a_label_that_was_moved_comes_back),
        TEST(who_may_have_lost_the_lease_moves_no_label),
        TEST(who_stands_by_takes_its_label_off_and_does_not_answer),
        TEST(losing_the_lease_ends_everything),
        TEST(losing_it_while_reading_cancels_the_read),
        TEST(a_read_of_the_last_term_is_worth_nothing),
        TEST(a_lease_about_to_end_shows),
        TEST(it_stops_at_once_in_every_step),
        TEST(a_clean_stop_releases_the_lease),
        TEST(a_stop_while_it_waits_is_not_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
