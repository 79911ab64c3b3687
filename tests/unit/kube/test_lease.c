/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/lease.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "kube/client.h"
#include "script_server.h"

#define SECOND INT64_C(1000000000)
#define US     "us_1"

/* ---- a clock of our own ---- */

static atomic_int_least64_t now_ns;

static int64_t read_clock(void *self)
{
    (void)self;
    return atomic_load(&now_ns);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* ---- an API server with one Lease ---- */

static struct {
    pthread_mutex_t mutex;
    char *stored; /* NULL: there is none */
    unsigned version;
    struct script_act trouble; /* instead of the true answer, when status or how is set */
    bool takes_it;             /* with trouble: a write is stored all the same */
    bool reads_well;           /* with trouble: reads have none */
    int64_t write_takes_ns;    /* our clock moves so far while a write is handled */
    unsigned gets, writes;
    char answer[4096];
} api = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void store(const char *text)
{
    free(api.stored);
    api.stored = strdup(text);
    api.version++;
}

/* The stored object with its version, which texts name as "resourceVersion":"*". */
static const char *shown(void)
{
    const char *star = strstr(api.stored, "\"*\"");
    assert_non_null(star);
    snprintf(api.answer, sizeof api.answer, "%.*s\"%u\"%s", (int)(star - api.stored), api.stored,
             api.version, star + 3);
    return api.answer;
}

static struct script_act put(const char *body)
{
    static char text[4096];
    char expected[64];
    snprintf(expected, sizeof expected, "\"resourceVersion\":\"%u\"", api.version);
    const char *at = strstr(body, expected);
    if (api.stored == NULL)
        return (struct script_act){.status = 404};
    if (at == NULL)
        return (struct script_act){.status = 409};
    snprintf(text, sizeof text, "%.*s\"resourceVersion\":\"*\"%s", (int)(at - body), body,
             at + strlen(expected));
    store(text);
    return (struct script_act){.body = shown()};
}

static struct script_act post(const char *body)
{
    static char text[4096];
    static const char head[] = "\"metadata\":{";
    if (api.stored != NULL)
        return (struct script_act){.status = 409};
    const char *at = strstr(body, head) + strlen(head);
    snprintf(text, sizeof text, "%.*s\"resourceVersion\":\"*\",%s", (int)(at - body), body, at);
    store(text);
    return (struct script_act){.status = 201, .body = shown()};
}

static struct script_act handle(const struct script_request *request)
{
    static const char collection[] = "/apis/coordination.k8s.io/v1/namespaces/gpu/leases";
    bool is_get = strcmp(request->method, "GET") == 0;
    bool is_post = strcmp(request->method, "POST") == 0;
    assert_memory_equal(request->path, collection, strlen(collection));
    assert_string_equal(request->path + strlen(collection), is_post ? "" : "/extender");
    if (is_get)
        api.gets++;
    else
        api.writes++;
    bool troubled =
        api.trouble.status != 0 || api.trouble.how != SCRIPT_ANSWER || api.trouble.body != NULL;
    if (troubled && (is_get ? !api.reads_well : !api.takes_it))
        return api.trouble;
    if (is_get && api.stored == NULL)
        return (struct script_act){.status = 404};
    if (is_get)
        return (struct script_act){.body = shown()};
    atomic_fetch_add(&now_ns, api.write_takes_ns);
    struct script_act act = is_post ? post(request->body) : put(request->body);
    return troubled ? api.trouble : act;
}

static struct script_act act(void *self, const struct script_request *request)
{
    (void)self;
    pthread_mutex_lock(&api.mutex);
    struct script_act act = handle(request);
    pthread_mutex_unlock(&api.mutex);
    return act;
}

/* What is stored by somebody else. */
static void store_lease(const char *holder, int transitions, const char *renewed, const char *mark)
{
    char text[2048];
    snprintf(
        text, sizeof text,
        "{\"kind\":\"Lease\",\"metadata\":{\"name\":\"extender\",\"resourceVersion\":\"*\","
        "\"labels\":{\"team\":\"gpu\"},\"annotations\":{\"deviceshare.io/clean-stop\":\"%s\"}},"
        "\"spec\":{\"holderIdentity\":\"%s\",\"leaseDurationSeconds\":15,\"acquireTime\":"
        "\"2001-01-01T00:00:00.000000Z\",\"renewTime\":\"%s\",\"leaseTransitions\":%d}}",
        mark, holder, renewed, transitions);
    pthread_mutex_lock(&api.mutex);
    store(text);
    pthread_mutex_unlock(&api.mutex);
}

#define LONG_AGO "2001-01-01T00:00:00.000000Z"
#define LATER    "2001-01-01T00:00:02.000000Z"

static bool stored_has(const char *words)
{
    pthread_mutex_lock(&api.mutex);
    bool has = api.stored != NULL && strstr(api.stored, words) != NULL;
    pthread_mutex_unlock(&api.mutex);
    return has;
}

static void set_trouble(struct script_act trouble, bool takes_it)
{
    pthread_mutex_lock(&api.mutex);
    api.trouble = trouble;
    api.takes_it = takes_it;
    pthread_mutex_unlock(&api.mutex);
}

static unsigned counted(const unsigned *counter)
{
    pthread_mutex_lock(&api.mutex);
    unsigned count = *counter;
    pthread_mutex_unlock(&api.mutex);
    return count;
}

/* Until so many more requests of a kind were begun, that is, at least all but one were finished. */
static void let_pass(const unsigned *counter, unsigned more)
{
    unsigned until = counted(counter) + more;
    for (int i = 0; i < 30000 && counted(counter) < until; i++)
        pause_ms(1);
    assert_true(counted(counter) >= until);
}

/* ---- one who stands for election ---- */

static struct fence fence;
static struct lease *lease;
static struct script_server *server;
static struct api_access access;
static atomic_int begun, begun_clean, ended;
static atomic_bool open_at_end; /* the fence let something pass when `ended` was called */

static void on_begin(void *self, bool clean)
{
    (void)self;
    atomic_fetch_add(&begun_clean, clean);
    fence_open(&fence);
    atomic_fetch_add(&begun, 1);
}

static void on_end(void *self)
{
    (void)self;
    if (fence_may_send(&fence))
        atomic_store(&open_at_end, true);
    atomic_fetch_add(&ended, 1);
}

static struct lease_options options_for(const char *identity)
{
    return (struct lease_options){.access = &access,
                                  .ns = "gpu",
                                  .name = "extender",
                                  .identity = identity,
                                  .duration_ms = 15000,
                                  .renew_deadline_ms = 10000,
                                  .retry_period_ms = 5,
                                  .fence = &fence,
                                  .began = on_begin,
                                  .ended = on_end};
}

static void start(void)
{
    struct lease_options options = options_for(US);
    struct error err = {0};
    if (lease_start(&options, &lease, &err) < 0)
        fail_msg("%s", err.text);
}

static void stop(bool clean)
{
    lease_stop(lease, clean);
    lease = NULL;
}

static void wait_for(atomic_int *counter, int value)
{
    for (int i = 0; i < 30000 && atomic_load(counter) < value; i++)
        pause_ms(1);
    assert_int_equal(atomic_load(counter), value);
}

static int setup(void **state)
{
    (void)state;
    log_set_verbosity(-1);
    atomic_store(&now_ns, 1000 * SECOND);
    free(api.stored);
    api.stored = NULL;
    api.version = 0;
    api.trouble = (struct script_act){0};
    api.takes_it = false;
    api.reads_well = false;
    api.write_takes_ns = 0;
    api.gets = api.writes = 0;
    atomic_store(&begun, 0);
    atomic_store(&begun_clean, 0);
    atomic_store(&ended, 0);
    atomic_store(&open_at_end, false);
    server = script_start(act, NULL);
    access = (struct api_access){.server = script_url(server)};
    fence_init(&fence, (struct clock){.now_ns = read_clock}, 3000, 1000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_false(atomic_load(&open_at_end));
    lease_stop(lease, false);
    lease = NULL;
    script_stop(server);
    fence_done(&fence);
    free(api.stored);
    api.stored = NULL;
    return 0;
}

static int64_t lease_until(void)
{
    pthread_mutex_lock(&fence.mutex);
    int64_t until_ns = fence.lease_until_ns;
    pthread_mutex_unlock(&fence.mutex);
    return until_ns;
}

/* ---- acquiring ---- */

static void creates_a_lease_that_is_missing(void **state)
{
    (void)state;
    start();
    wait_for(&begun, 1);
    assert_int_equal(atomic_load(&begun_clean), 0);
    assert_true(stored_has("\"holderIdentity\":\"" US
                           "\",\"leaseDurationSeconds\":15,\"acquireTime\":\"20"));
    assert_true(stored_has("\"leaseTransitions\":0"));
    assert_true(fence_may_send(&fence));
    char holder[32];
    assert_true(lease_holder(lease, holder, sizeof holder));
    assert_string_equal(holder, US);
}

/* The record's own times are for people: only what we saw ourselves counts. */
static void waits_from_the_moment_of_the_last_change(void **state)
{
    (void)state;
    store_lease("other_1", 7, LONG_AGO, "");
    start();
    let_pass(&api.gets, 3);
    atomic_fetch_add(&now_ns, 14 * SECOND);
    let_pass(&api.gets, 3);
    store_lease("other_1", 7, LATER, ""); /* it was renewed */
    let_pass(&api.gets, 3);
    atomic_fetch_add(&now_ns, 15 * SECOND - 1);
    let_pass(&api.gets, 3);
    assert_int_equal(counted(&api.writes), 0);
    char holder[32];
    assert_false(lease_holder(lease, holder, sizeof holder));
    assert_string_equal(holder, "other_1");

    atomic_fetch_add(&now_ns, 1);
    wait_for(&begun, 1);
    assert_int_equal(atomic_load(&begun_clean), 0);
    assert_true(stored_has("\"holderIdentity\":\"" US "\""));
    assert_true(stored_has("\"leaseTransitions\":8"));
    assert_false(stored_has("\"acquireTime\":\"2001"));
    assert_true(stored_has("\"labels\":{\"team\":\"gpu\"}"));
}

/* A change of anything but the record is no sign of life. */
static void a_label_is_no_renewal(void **state)
{
    (void)state;
    store_lease("other_1", 7, LONG_AGO, "");
    start();
    let_pass(&api.gets, 3);
    atomic_fetch_add(&now_ns, 10 * SECOND);
    store_lease("other_1", 7, LONG_AGO, "x");
    let_pass(&api.gets, 3);
    atomic_fetch_add(&now_ns, 5 * SECOND);
    wait_for(&begun, 1);
}

static void takes_its_own_lease_at_once_after_a_crash(void **state)
{
    (void)state;
    store_lease(US, 7, LONG_AGO, "");
    start();
    wait_for(&begun, 1);
    assert_int_equal(atomic_load(&begun_clean), 0); /* what the crashed one sent may still arrive */
    assert_true(stored_has("\"leaseTransitions\":7"));
    assert_true(stored_has("\"acquireTime\":\"2001"));
    assert_false(stored_has("\"renewTime\":\"2001"));
}

static void only_one_of_many_leads(void **state)
{
    (void)state;
    struct lease *leases[4];
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        struct lease_options options = options_for(names[i]);
        assert_int_equal(lease_start(&options, &leases[i], NULL), 0);
    }
    wait_for(&begun, 1);
    let_pass(&api.gets, 20);
    assert_int_equal(atomic_load(&begun), 1);
    int leading = 0;
    char holder[32];
    for (int i = 0; i < 4; i++)
        leading += lease_holder(leases[i], holder, sizeof holder);
    assert_int_equal(leading, 1);
    for (int i = 0; i < 4; i++)
        lease_stop(leases[i], false);
    assert_int_equal(atomic_load(&ended), 1);
}

static void answers_that_are_no_lease_are_not_believed(void **state)
{
    (void)state;
    set_trouble((struct script_act){.body = "{}"}, true);
    start();
    let_pass(&api.gets, 3);
    set_trouble((struct script_act){.body = "<html>"}, true);
    let_pass(&api.gets, 3);
    pthread_mutex_lock(&api.mutex); /* a write that is answered with somebody else's record */
    api.reads_well = true;
    pthread_mutex_unlock(&api.mutex);
    set_trouble(
        (struct script_act){.status = 201,
                            .body = "{\"kind\":\"Lease\",\"spec\":{\"holderIdentity\":\"x\"}}"},
        false);
    let_pass(&api.writes, 2);
    assert_int_equal(atomic_load(&begun), 0);
    set_trouble((struct script_act){0}, false);
    wait_for(&begun, 1);
}

/* ---- holding ---- */

static void the_fence_counts_from_before_the_request(void **state)
{
    (void)state;
    struct lease_options options = options_for(US);
    options.retry_period_ms = 5000; /* one write only */
    api.write_takes_ns = 2 * SECOND;
    assert_int_equal(lease_start(&options, &lease, NULL), 0);
    wait_for(&begun, 1);
    assert_true(atomic_load(&now_ns) == 1002 * SECOND);
    assert_true(lease_until() == 1015 * SECOND);
    stop(false);
    assert_true(lease_until() == INT64_MIN);
}

static void a_renewal_keeps_the_term(void **state)
{
    (void)state;
    store_lease("", 7, LONG_AGO, "");
    start();
    wait_for(&begun, 1);
    pthread_mutex_lock(&api.mutex);
    char *first = strdup(strstr(api.stored, "acquireTime"));
    pthread_mutex_unlock(&api.mutex);
    let_pass(&api.writes, 3);
    first[strlen("acquireTime\":\"2001-01-01T00:00:00.000000Z")] = '\0';
    assert_true(stored_has(first));
    assert_true(stored_has("\"leaseTransitions\":8"));
    assert_int_equal(atomic_load(&begun), 1);
    free(first);
}

static void a_conflict_about_a_label_costs_nothing(void **state)
{
    (void)state;
    start();
    wait_for(&begun, 1);
    pthread_mutex_lock(&api.mutex);
    char *spec = strdup(strstr(api.stored, "\"spec\":"));
    char text[2048];
    snprintf(
        text, sizeof text,
        "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"*\",\"labels\":{\"a\":\"b\"}},%s",
        spec);
    store(text);
    pthread_mutex_unlock(&api.mutex);
    free(spec);
    let_pass(&api.writes, 4);
    assert_int_equal(atomic_load(&ended), 0);
    assert_true(stored_has("\"labels\":{\"a\":\"b\"}"));
}

/* ---- losing ---- */

static void somebody_else_ends_it_at_once(void **state)
{
    (void)state;
    start();
    wait_for(&begun, 1);
    store_lease("other_1", 7, LATER, "");
    wait_for(&ended, 1);
    assert_false(fence_may_send(&fence));
    let_pass(&api.gets, 3);
    assert_int_equal(atomic_load(&begun), 1);
    assert_true(stored_has("other_1"));
}

static void a_lease_that_was_deleted_is_lost(void **state)
{
    (void)state;
    start();
    wait_for(&begun, 1);
    pthread_mutex_lock(&api.mutex);
    free(api.stored);
    api.stored = NULL;
    pthread_mutex_unlock(&api.mutex);
    wait_for(&ended, 1);
    wait_for(&begun, 2); /* a new term, with all that belongs to it */
    assert_int_equal(atomic_load(&begun_clean), 0);
}

static void without_answers_it_ends_at_the_deadline(void **state)
{
    (void)state;
    start();
    wait_for(&begun, 1);
    set_trouble((struct script_act){.status = 500}, false);
    let_pass(&api.writes, 3);
    atomic_fetch_add(&now_ns, 9 * SECOND);
    let_pass(&api.writes, 3);
    assert_int_equal(atomic_load(&ended), 0);
    atomic_fetch_add(&now_ns, 1 * SECOND);
    wait_for(&ended, 1);
    set_trouble((struct script_act){0}, false);
    wait_for(&begun, 2);
}

/* The answers are lost, the writes are not: then it is ours, and it is only we who do not know. */
static void lost_answers_do_not_lengthen_the_lease(void **state)
{
    (void)state;
    start();
    wait_for(&begun, 1);
    let_pass(&api.writes, 2);
    set_trouble((struct script_act){.how = SCRIPT_DROP}, true);
    let_pass(&api.writes, 2);
    int64_t until_ns = lease_until();
    atomic_fetch_add(&now_ns, 5 * SECOND);
    let_pass(&api.writes, 3);
    assert_true(lease_until() == until_ns);
    set_trouble((struct script_act){0}, false);
    let_pass(&api.writes, 4);
    assert_true(lease_until() == until_ns + 5 * SECOND);
    assert_int_equal(atomic_load(&ended), 0);
}

/* ---- stopping ---- */

static void a_clean_stop_hands_over_at_once(void **state)
{
    (void)state;
    start();
    wait_for(&begun, 1);
    stop(true);
    assert_int_equal(atomic_load(&ended), 1);
    assert_true(stored_has("\"holderIdentity\":\"\",\"leaseDurationSeconds\":1,"));
    assert_true(stored_has("\"deviceshare.io/clean-stop\":\"" US "\""));

    struct lease_options options = options_for("next_1");
    assert_int_equal(lease_start(&options, &lease, NULL), 0);
    wait_for(&begun, 2);
    assert_int_equal(atomic_load(&begun_clean), 1);
    assert_true(stored_has("\"holderIdentity\":\"next_1\""));
    assert_true(stored_has("\"leaseTransitions\":1"));
    assert_false(stored_has("clean-stop"));
}

static void another_stop_leaves_it_to_expire(void **state)
{
    (void)state;
    start();
    wait_for(&begun, 1);
    stop(false);
    assert_int_equal(atomic_load(&ended), 1);
    assert_true(stored_has("\"holderIdentity\":\"" US "\""));
    assert_false(stored_has("clean-stop"));
}

static void who_does_not_lead_releases_nothing(void **state)
{
    (void)state;
    store_lease("other_1", 7, LONG_AGO, "");
    start();
    let_pass(&api.gets, 2);
    stop(true);
    assert_int_equal(counted(&api.writes), 0);
    assert_int_equal(atomic_load(&ended), 0);
}

static void released_without_a_mark_is_not_clean(void **state)
{
    (void)state;
    store_lease("", 7, LONG_AGO, "");
    start();
    wait_for(&begun, 1);
    assert_int_equal(atomic_load(&begun_clean), 0);
}

static void a_mark_of_somebody_before_is_not_clean(void **state)
{
    (void)state;
    store_lease("other_1", 7, LONG_AGO, "");
    start();
    let_pass(&api.gets, 3);
    store_lease("", 8, LATER, "other_0");
    wait_for(&begun, 1);
    assert_int_equal(atomic_load(&begun_clean), 0);
}

static void a_mark_of_the_last_holder_is_clean(void **state)
{
    (void)state;
    store_lease("other_1", 7, LONG_AGO, "");
    start();
    let_pass(&api.gets, 3);
    store_lease("", 7, LATER, "other_1");
    wait_for(&begun, 1);
    assert_int_equal(atomic_load(&begun_clean), 1);
}

/* Killed after its release was followed: the mark must not speak for the next one. */
static void a_mark_on_a_held_lease_says_nothing(void **state)
{
    (void)state;
    store_lease("other_1", 7, LONG_AGO, "other_1");
    start();
    let_pass(&api.gets, 3);
    atomic_fetch_add(&now_ns, 15 * SECOND);
    wait_for(&begun, 1);
    assert_int_equal(atomic_load(&begun_clean), 0);
    assert_false(stored_has("clean-stop"));
}

static int64_t real_ms(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock) / 1000000;
}

static void stop_does_not_wait(void **state)
{
    (void)state;
    set_trouble((struct script_act){.how = SCRIPT_SILENT}, false);
    start();
    let_pass(&api.gets, 1);
    int64_t start_ms = real_ms();
    stop(true);
    assert_true(real_ms() - start_ms < 4000);

    struct lease_options options = options_for(US); /* in the pause between two tries */
    options.retry_period_ms = 5000;
    set_trouble((struct script_act){.status = 500}, false);
    unsigned gets = counted(&api.gets);
    assert_int_equal(lease_start(&options, &lease, NULL), 0);
    while (counted(&api.gets) == gets)
        pause_ms(1);
    pause_ms(20);
    start_ms = real_ms();
    stop(true);
    assert_true(real_ms() - start_ms < 4000);
}

/* ---- starting ---- */

static int start_with(struct lease_options options)
{
    struct lease *made = NULL;
    struct error err = {0};
    int rc = lease_start(&options, &made, &err);
    assert_true(rc == 0 || (made == NULL && err.code == rc));
    lease_stop(made, false);
    return rc;
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    struct lease_options options = options_for(US);
    options.ns = "a/b";
    assert_int_equal(start_with(options), -EINVAL);
    options = options_for(US);
    options.name = "../x";
    assert_int_equal(start_with(options), -EINVAL);
    assert_int_equal(start_with(options_for("")), -EINVAL);
    options = options_for(US);
    options.renew_deadline_ms = options.duration_ms;
    assert_int_equal(start_with(options), -EINVAL);
    options = options_for(US);
    options.retry_period_ms = 0;
    assert_int_equal(start_with(options), -EINVAL);
    lease_stop(NULL, true);
}

static void start_without_memory(void **state)
{
    (void)state;
    for (long n = 1; n <= 4; n++) {
        mem_fail_at(n);
        int rc = start_with(options_for(US));
        mem_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    kube_global_init();
    const struct CMUnitTest tests[] = {
        TEST(creates_a_lease_that_is_missing),
        TEST(waits_from_the_moment_of_the_last_change),
        TEST(a_label_is_no_renewal),
        TEST(takes_its_own_lease_at_once_after_a_crash),
        TEST(only_one_of_many_leads),
        TEST(answers_that_are_no_lease_are_not_believed),
        TEST(the_fence_counts_from_before_the_request),
        TEST(a_renewal_keeps_the_term),
        TEST(a_conflict_about_a_label_costs_nothing),
        TEST(somebody_else_ends_it_at_once),
        TEST(a_lease_that_was_deleted_is_lost),
        TEST(without_answers_it_ends_at_the_deadline),
        TEST(lost_answers_do_not_lengthen_the_lease),
        TEST(a_clean_stop_hands_over_at_once),
        TEST(another_stop_leaves_it_to_expire),
        TEST(who_does_not_lead_releases_nothing),
        TEST(released_without_a_mark_is_not_clean),
        TEST(a_mark_of_somebody_before_is_not_clean),
        TEST(a_mark_of_the_last_holder_is_clean),
        TEST(a_mark_on_a_held_lease_says_nothing),
        TEST(stop_does_not_wait),
        TEST(wrong_options_are_refused),
        TEST(start_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
