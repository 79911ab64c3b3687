/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/embedded_routes.h"

#include "base/log.h"
#include "http/query.h"

#include <errno.h>

static bool refuse_remote(const struct http_request *request, struct http_reply *reply)
{
    if (request->loopback_peer)
        return false;
    http_reply_problem(reply, 403, "/embedded answers only peers on this machine");
    return true;
}

static void reply_error(struct http_reply *reply, int code, const struct error *err)
{
    unsigned status = code == -ENOENT ? 404 : code == -ENOMEM || code == -EIO ? 500 : 400;
    http_reply_problem(reply, status, err->text);
}

static void get_manifests(void *self, const struct http_request *request, struct http_reply *reply)
{
    if (refuse_remote(request, reply))
        return;
    struct error err = {0};
    struct str format = STR("yaml");
    query_find(request->query, "format", &format);
    int result;
    if (str_is(format, "json")) {
        result = cluster_dump_json(self, &reply->body, &err);
    } else if (str_is(format, "yaml")) {
        reply->content_type = "application/yaml";
        result = cluster_dump_yaml(self, &reply->body, &err);
    } else {
        result = error_set(&err, -EINVAL, "format: must be yaml or json");
    }
    if (result < 0)
        reply_error(reply, result, &err);
}

static void apply_manifests(void *self, const struct http_request *request,
                            struct http_reply *reply)
{
    if (refuse_remote(request, reply))
        return;
    struct error err = {0};
    uint32_t count;
    int result = cluster_apply(self, request->body, "body", &count, &err);
    if (result < 0) {
        reply_error(reply, result, &err);
        return;
    }
    log_info(2, "Manifests applied", LOG_INT("objects", count));
    strbuf_printf(&reply->body, "{\"applied\":%u}", count);
}

static void delete_object(struct cluster *cluster, const char *kind, struct str ns, struct str name,
                          struct http_reply *reply)
{
    struct error err = {0};
    int result = cluster_delete(cluster, str_from(kind), ns, name, &err);
    if (result < 0) {
        reply_error(reply, result, &err);
        return;
    }
    log_info(2, "Object deleted", LOG_TEXT("kind", kind), LOG_STR("namespace", ns),
             LOG_STR("name", name));
    strbuf_puts(&reply->body, "{\"deleted\":1}");
}

static void delete_node(void *self, const struct http_request *request, struct http_reply *reply)
{
    if (!refuse_remote(request, reply))
        delete_object(self, "Node", STR(""), request->rest, reply);
}

static void delete_namespace(void *self, const struct http_request *request,
                             struct http_reply *reply)
{
    if (!refuse_remote(request, reply))
        delete_object(self, "Namespace", STR(""), request->rest, reply);
}

static void delete_device(void *self, const struct http_request *request, struct http_reply *reply)
{
    if (!refuse_remote(request, reply))
        delete_object(self, "Device", STR(""), request->rest, reply);
}

static void delete_pod(void *self, const struct http_request *request, struct http_reply *reply)
{
    if (refuse_remote(request, reply))
        return;
    struct str rest = request->rest;
    const char *slash = memchr(rest.data, '/', rest.len);
    if (slash == NULL) {
        http_reply_problem(reply, 404, "the path of a pod is /embedded/pods/NAMESPACE/NAME");
        return;
    }
    size_t ns_len = (size_t)(slash - rest.data);
    delete_object(self, "Pod", (struct str){rest.data, ns_len},
                  (struct str){slash + 1, rest.len - ns_len - 1}, reply);
}

uint32_t embedded_routes(struct cluster *cluster, struct http_route *routes)
{
    static const struct http_route table[] = {
        {"GET", "/embedded/manifests", get_manifests, NULL, HTTP_ACCESS_CLIENTS},
        {"POST", "/embedded/manifests", apply_manifests, NULL, HTTP_ACCESS_CLIENTS},
        {"DELETE", "/embedded/namespaces/*", delete_namespace, NULL, HTTP_ACCESS_CLIENTS},
        {"DELETE", "/embedded/nodes/*", delete_node, NULL, HTTP_ACCESS_CLIENTS},
        {"DELETE", "/embedded/devices/*", delete_device, NULL, HTTP_ACCESS_CLIENTS},
        {"DELETE", "/embedded/pods/*", delete_pod, NULL, HTTP_ACCESS_CLIENTS},
    };
    uint32_t count = sizeof(table) / sizeof(table[0]);
    for (uint32_t i = 0; i < count; i++) {
        routes[i] = table[i];
        routes[i].self = cluster;
    }
    return count;
}
