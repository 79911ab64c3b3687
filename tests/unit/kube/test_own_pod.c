/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/own_pod.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "script_server.h"

static struct script_act acts[8];

static struct script_act act(void *self, const struct script_request *request)
{
    (void)self;
    assert_true(request->number < 8);
    return acts[request->number];
}

static struct script_server *server;
static struct kube_client *client;
static const struct own_pod own = {.ns = "gpu", .name = "extender-b"};
static struct error err;

static int setup(void **state)
{
    (void)state;
    memset(acts, 0, sizeof acts);
    server = script_start(act, NULL);
    client = kube_client_new(script_url(server), 2000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_client_free(client);
    script_stop(server);
    return 0;
}

static bool starts(unsigned request, const char *line)
{
    const char *text = script_text(server, request);
    return strncmp(text, line, strlen(line)) == 0;
}

static bool ends(unsigned request, const char *body)
{
    return strcmp(strstr(script_text(server, request), "\r\n\r\n") + 4, body) == 0;
}

static void puts_the_label_on_and_takes_it_off(void **state)
{
    (void)state;
    assert_int_equal(own_pod_set_leader(client, &own, true, &err), 0);
    assert_int_equal(own_pod_set_leader(client, &own, false, &err), 0);
    assert_true(starts(0, "PATCH /api/v1/namespaces/gpu/pods/extender-b HTTP/1.1\r\n"));
    assert_non_null(
        strstr(script_text(server, 0), "Content-Type: application/merge-patch+json\r\n"));
    assert_true(ends(0, "{\"metadata\":{\"labels\":{\"deviceshare.io/leader\":\"true\"}}}"));
    assert_true(ends(1, "{\"metadata\":{\"labels\":{\"deviceshare.io/leader\":null}}}"));
}

#define POD(name, uid)                                                                             \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"gpu\",\"uid\":\"" uid "\"}}"

static void takes_it_off_all_others(void **state)
{
    (void)state;
    acts[0].body = "{\"kind\":\"PodList\",\"items\":[" POD("extender-a", "1-a") "," POD(
        "extender-b", "2-b") "," POD("extender-c", "3-c") "]}";
    acts[1].status = 404; /* it vanished meanwhile */
    assert_int_equal(own_pod_clear_others(client, &own, &err), 0);
    assert_int_equal(script_count(server), 3);
    assert_true(starts(0,
                       "GET /api/v1/namespaces/gpu/pods?labelSelector=app.kubernetes.io%2Fname%3D"
                       "deviceshare-extender%2Cdeviceshare.io%2Fleader%3Dtrue HTTP/1.1\r\n"));
    assert_true(starts(1, "PATCH /api/v1/namespaces/gpu/pods/extender-a "));
    assert_true(
        ends(1, "{\"metadata\":{\"uid\":\"1-a\",\"labels\":{\"deviceshare.io/leader\":null}}}"));
    assert_true(starts(2, "PATCH /api/v1/namespaces/gpu/pods/extender-c "));
}

static void knows_whether_it_leads_alone(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool alone;
    } cases[] = {
        {"{\"items\":[" POD("extender-b", "2-b") "]}", true},
        {"{\"items\":[]}", false},
        {"{\"items\":[" POD("extender-a", "1-a") "]}", false},
        {"{\"items\":[" POD("extender-a", "1-a") "," POD("extender-b", "2-b") "]}", false},
    };
    for (unsigned i = 0; i < 4; i++) {
        bool alone = !cases[i].alone;
        acts[i].body = cases[i].body;
        assert_int_equal(own_pod_leads_alone(client, &own, &alone, &err), 0);
        assert_int_equal(alone, cases[i].alone);
    }
    bool untouched = true;
    acts[4].status = 403;
    assert_int_equal(own_pod_leads_alone(client, &own, &untouched, &err), -EPERM);
    acts[5].body = "{\"items\":[7]}";
    assert_true(own_pod_leads_alone(client, &own, &untouched, &err) < 0);
    assert_true(untouched);
    assert_int_equal(script_count(server), 6);
}

static void failures_are_told_apart(void **state)
{
    (void)state;
    acts[0].status = 403;
    acts[1].status = 404;
    acts[2].status = 500;
    acts[3].status = 403;
    acts[4].body = "<html>";
    acts[5].body = "{\"items\":[" POD("extender-a", "1-a") "," POD("extender-c", "3-c") "]}";
    acts[6].status = 500;
    assert_int_equal(own_pod_set_leader(client, &own, true, &err), -EPERM);
    assert_int_equal(own_pod_set_leader(client, &own, true, &err), -ENOENT);
    assert_int_equal(own_pod_set_leader(client, &own, true, &err), -EIO);
    assert_int_equal(own_pod_clear_others(client, &own, &err), -EPERM);
    assert_int_equal(own_pod_clear_others(client, &own, &err), -EINVAL);
    assert_int_equal(own_pod_clear_others(client, &own, &err), -EIO);
    assert_int_equal(script_count(server), 7);
}

static void names_are_checked(void **state)
{
    (void)state;
    struct own_pod wrong = {.ns = "gpu/x", .name = "extender-b"};
    assert_int_equal(own_pod_set_leader(client, &wrong, true, &err), -EINVAL);
    assert_int_equal(own_pod_clear_others(client, &wrong, &err), -EINVAL);
    wrong = (struct own_pod){.ns = "gpu", .name = "../x"};
    assert_int_equal(own_pod_set_leader(client, &wrong, true, &err), -EINVAL);
    acts[0].body = "{\"items\":[" POD("../x", "1-a") "]}";
    assert_int_equal(own_pod_clear_others(client, &own, &err), -EINVAL);
    assert_int_equal(script_count(server), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    kube_global_init();
    const struct CMUnitTest tests[] = {
        TEST(puts_the_label_on_and_takes_it_off),
        TEST(takes_it_off_all_others),
        TEST(knows_whether_it_leads_alone),
        TEST(failures_are_told_apart),
        TEST(names_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
