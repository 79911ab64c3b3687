/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include <stdio.h>
#include <string.h>

static bool is_prefix_route(struct str pattern)
{
    return pattern.len >= 2 && memcmp(pattern.data + pattern.len - 2, "/*", 2) == 0;
}

static bool path_matches(const struct http_route *route, struct str path, struct str *ret_rest)
{
    struct str pattern = str_from(route->path);
    if (!is_prefix_route(pattern)) {
        *ret_rest = (struct str){path.data + path.len, 0};
        return str_eq(path, pattern);
    }
    size_t own = pattern.len - 1; /* with the slash */
    if (path.len <= own || memcmp(path.data, pattern.data, own) != 0)
        return false;
    *ret_rest = (struct str){path.data + own, path.len - own};
    return true;
}

static bool method_matches(const struct http_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static void add_allowed(char *allow, size_t size, const char *method)
{
    size_t length = strlen(allow);
    const char *head = strcmp(method, "GET") == 0 ? ", HEAD" : "";
    snprintf(allow + length, size - length, "%s%s%s", length > 0 ? ", " : "", method, head);
}

void route_find(const struct http_route *routes, uint32_t count, const char *method,
                struct str path, struct route_match *ret)
{
    *ret = (struct route_match){.status = 404};
    for (uint32_t i = 0; i < count; i++) {
        struct str rest;
        if (!path_matches(&routes[i], path, &rest))
            continue;
        bool exact = rest.len == 0;
        if (method_matches(&routes[i], method) &&
            (ret->route == NULL || (exact && ret->rest.len > 0))) {
            ret->status = 200;
            ret->route = &routes[i];
            ret->rest = rest;
        } else if (ret->route == NULL) {
            ret->status = 405;
            add_allowed(ret->allow, sizeof(ret->allow), routes[i].method);
        }
    }
}
