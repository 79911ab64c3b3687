/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/rights.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "script_server.h"

/* An API server that allows all but what a part of the question names. */
static struct {
    const char *denied;
    int status; /* instead of an answer */
    const char *body;
} api;

static struct script_act act(void *self, const struct script_request *request)
{
    (void)self;
    assert_string_equal(request->method, "POST");
    assert_string_equal(request->path, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    if (api.status != 0)
        return (struct script_act){.status = api.status, .body = api.body};
    bool denied = api.denied != NULL && strstr(request->body, api.denied) != NULL;
    return (struct script_act){
        .status = 201,
        .body = denied ? "{\"kind\":\"SelfSubjectAccessReview\",\"status\":{\"allowed\":false}}"
                       : "{\"kind\":\"SelfSubjectAccessReview\",\"status\":{\"allowed\":true}}"};
}

static struct script_server *server;
static struct kube_client *client;
static struct strbuf missing;
static struct error err;
static const struct rights_wanted everything = {
    .ns = "gpu", .wake = true, .elect = true, .label_own_pod = true, .namespaces = true};

static int setup(void **state)
{
    (void)state;
    api.denied = NULL;
    api.status = 0;
    server = script_start(act, NULL);
    client = kube_client_new(script_url(server), 5000);
    missing = (struct strbuf){0};
    err = (struct error){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_client_free(client);
    script_stop(server);
    strbuf_done(&missing);
    return 0;
}

static bool was_asked(const char *attributes)
{
    for (unsigned i = 0; i < script_count(server); i++)
        if (strstr(script_text(server, i), attributes) != NULL)
            return true;
    return false;
}

static void each_right_is_asked_for(void **state)
{
    (void)state;
    static const char *const questions[] = {
        "\"verb\":\"list\",\"group\":\"\",\"resource\":\"nodes\"}",
        "\"verb\":\"watch\",\"group\":\"\",\"resource\":\"nodes\"}",
        "\"verb\":\"list\",\"group\":\"scheduling.koordinator.sh\",\"resource\":\"devices\"}",
        "\"verb\":\"watch\",\"group\":\"scheduling.koordinator.sh\",\"resource\":\"devices\"}",
        "\"verb\":\"list\",\"group\":\"\",\"resource\":\"pods\"}",
        "\"verb\":\"watch\",\"group\":\"\",\"resource\":\"pods\"}",
        "\"verb\":\"get\",\"group\":\"\",\"resource\":\"pods\"}",
        "\"verb\":\"create\",\"group\":\"\",\"resource\":\"pods\",\"subresource\":\"binding\"}",
        "\"verb\":\"patch\",\"group\":\"\",\"resource\":\"pods\"}",
        "\"verb\":\"get\",\"group\":\"coordination.k8s.io\",\"resource\":\"leases\",\"namespace\":"
        "\"gpu\"}",
        "\"verb\":\"create\",\"group\":\"coordination.k8s.io\",\"resource\":\"leases\","
        "\"namespace\":\"gpu\"}",
        "\"verb\":\"update\",\"group\":\"coordination.k8s.io\",\"resource\":\"leases\","
        "\"namespace\":\"gpu\"}",
        "\"verb\":\"patch\",\"group\":\"\",\"resource\":\"pods\",\"namespace\":\"gpu\"}",
    };
    assert_int_equal(rights_check(client, &everything, &missing, &err), 0);
    assert_int_equal(missing.len, 0);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (!was_asked(questions[i]))
            fail_msg("not asked: %s", questions[i]);
}

static void only_what_is_used_is_asked_for(void **state)
{
    (void)state;
    struct rights_wanted least = {.ns = "gpu"};
    assert_int_equal(rights_check(client, &least, &missing, &err), 0);
    assert_int_equal(script_count(server), 8);
    assert_false(was_asked("leases"));
    assert_false(was_asked("patch"));
}

static void missing_rights_are_named(void **state)
{
    (void)state;
    api.denied = "\"resource\":\"leases\"";
    assert_int_equal(rights_check(client, &everything, &missing, &err), 0);
    assert_string_equal(missing.data, "get leases.coordination.k8s.io in namespace gpu, "
                                      "create leases.coordination.k8s.io in namespace gpu, "
                                      "update leases.coordination.k8s.io in namespace gpu");
    api.denied = "binding";
    assert_int_equal(rights_check(client, &everything, &missing, &err), 0);
    assert_non_null(strstr(missing.data, " in namespace gpu, create pods/binding"));
    missing.len = 0;
    api.denied = "\"watch\",\"group\":\"scheduling";
    assert_int_equal(rights_check(client, &everything, &missing, &err), 0);
    assert_string_equal(missing.data, "watch devices.scheduling.koordinator.sh");
}

static void who_may_not_even_ask_is_told_so(void **state)
{
    (void)state;
    api.status = 403;
    assert_int_equal(rights_check(client, &everything, &missing, &err), -EPERM);
    assert_non_null(strstr(err.text, "selfsubjectaccessreviews"));
    api.status = 401;
    assert_int_equal(rights_check(client, &everything, &missing, &err), -EACCES);
    api.status = 500;
    assert_int_equal(rights_check(client, &everything, &missing, &err), -EIO);
    api.status = 201;
    api.body = "<html>";
    assert_int_equal(rights_check(client, &everything, &missing, &err), -EINVAL);
    assert_int_equal(missing.len, 0);
}

static void nobody_there(void **state)
{
    (void)state;
    script_stop(server);
    server = NULL;
    assert_int_equal(rights_check(client, &everything, &missing, &err), -ECONNREFUSED);
}

static void without_memory(void **state)
{
    (void)state;
    api.denied = "binding";
    mem_fail_at(1);
    int rc = rights_check(client, &everything, &missing, &err);
    mem_fail_at(0);
    assert_int_equal(rc, -ENOMEM);
    assert_int_equal(missing.len, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    kube_global_init();
    const struct CMUnitTest tests[] = {
        TEST(each_right_is_asked_for),
        TEST(only_what_is_used_is_asked_for),
        TEST(missing_rights_are_named),
        TEST(who_may_not_even_ask_is_told_so),
        TEST(nobody_there),
        TEST(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
