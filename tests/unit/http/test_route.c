/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void nothing(void *self, const struct http_request *request, struct http_reply *reply)
{
    (void)self;
    (void)request;
    (void)reply;
}

static const struct http_route routes[] = {
    {"POST", "/v1/filter", nothing, NULL, HTTP_ACCESS_ALL},
    {"GET", "/things", nothing, NULL, HTTP_ACCESS_ALL},
    {"POST", "/things", nothing, NULL, HTTP_ACCESS_ALL},
    {"DELETE", "/things/*", nothing, NULL, HTTP_ACCESS_ALL},
    {"GET", "/things/all", nothing, NULL, HTTP_ACCESS_ALL},
};

static struct route_match find(const char *method, const char *path)
{
    struct route_match match;
    route_find(routes, sizeof(routes) / sizeof(routes[0]), method, str_from(path), &match);
    return match;
}

static void exact_paths(void **state)
{
    (void)state;
    struct route_match match = find("POST", "/v1/filter");
    assert_int_equal(match.status, 200);
    assert_ptr_equal(match.route, &routes[0]);
    assert_int_equal(match.rest.len, 0);

    const char *unknown[] = {"/",           "",           "/v1",        "/v1/filter/",
                             "/v1/filterx", "/V1/filter", "//v1/filter"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        assert_int_equal(find("POST", unknown[i]).status, 404);
}

static void methods(void **state)
{
    (void)state;
    assert_ptr_equal(find("POST", "/things").route, &routes[2]);
    assert_ptr_equal(find("HEAD", "/things").route, &routes[1]);
    assert_int_equal(find("HEAD", "/v1/filter").status, 405);
    assert_int_equal(find("post", "/things").status, 405);

    struct route_match match = find("PATCH", "/things");
    assert_int_equal(match.status, 405);
    assert_null(match.route);
    assert_string_equal(match.allow, "GET, HEAD, POST");
    assert_string_equal(find("GET", "/v1/filter").allow, "POST");
}

static void prefixes(void **state)
{
    (void)state;
    struct route_match match = find("DELETE", "/things/a/b");
    assert_ptr_equal(match.route, &routes[3]);
    assert_true(str_is(match.rest, "a/b"));
    assert_int_equal(find("DELETE", "/things/").status, 404);
    assert_int_equal(find("DELETE", "/things").status, 405);
    assert_ptr_equal(find("DELETE", "/things/all").route, &routes[3]);
    assert_ptr_equal(find("GET", "/things/all").route, &routes[4]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_paths),
        cmocka_unit_test(methods),
        cmocka_unit_test(prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
