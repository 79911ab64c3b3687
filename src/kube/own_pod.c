/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/own_pod.h"

#include "base/arena.h"
#include "codec/objects.h"
#include "codec/requests.h"
#include "core/names.h"

#include <errno.h>

/* "app.kubernetes.io/name=deviceshare-extender,deviceshare.io/leader=true" as part of a query */
#define SELECTOR "app.kubernetes.io%2Fname%3D" OWN_POD_COMPONENT "%2Cdeviceshare.io%2Fleader%3Dtrue"

static int http_error(const char *what, int status, struct error *err)
{
    int code = status == 403 || status == 401 ? -EPERM : status == 404 ? -ENOENT : -EIO;
    return error_set(err, code, "%s: HTTP %d", what, status);
}

static int patch_label(struct kube_client *client, const char *ns, struct str name, struct str uid,
                       bool leader, struct error *err)
{
    if (!name_is_label(str_from(ns)) || !name_is_subdomain(name))
        return error_set(err, -EINVAL, "not the name of a Pod: \"%s/%.*s\"", ns, STR_ARG(name));
    struct strbuf path = {0}, body = {0}, answer = {0};
    struct kube_response response;
    strbuf_printf(&path, "/api/v1/namespaces/%s/pods/%.*s", ns, STR_ARG(name));
    request_patch(uid, PATCH_LABEL, OWN_POD_LEADER_LABEL, leader ? STR("true") : (struct str){0},
                  &body);
    int rc = 0;
    if (path.failed || body.failed) {
        rc = error_set(err, -ENOMEM, "out of memory");
    } else {
        struct kube_request request = {.method = "PATCH",
                                       .path = path.data,
                                       .body = {body.data, body.len},
                                       .content_type = PATCH_CONTENT_TYPE};
        rc = kube_client_send(client, &request, &answer, &response, err);
    }
    if (rc == 0 && response.status != 200)
        rc = http_error(path.data, response.status, err);
    strbuf_done(&answer);
    strbuf_done(&body);
    strbuf_done(&path);
    return rc;
}

int own_pod_set_leader(struct kube_client *client, const struct own_pod *own, bool leader,
                       struct error *err)
{
    return patch_label(client, own->ns, str_from(own->name), (struct str){0}, leader, err);
}

/* The labelled Pods of this component, as a list's JSON. */
static int list_leaders(struct kube_client *client, const char *ns, struct strbuf *ret_json,
                        struct error *err)
{
    if (!name_is_label(str_from(ns)))
        return error_set(err, -EINVAL, "not the name of a namespace: \"%s\"", ns);
    struct strbuf path = {0};
    strbuf_printf(&path, "/api/v1/namespaces/%s/pods?labelSelector=%s", ns, SELECTOR);
    int rc = path.failed
                 ? error_set(err, -ENOMEM, "out of memory")
                 : kube_client_call(client, "GET", path.data, (struct str){0}, ret_json, err);
    if (rc > 0)
        rc = rc == 200 ? 0 : http_error(path.data, rc, err);
    strbuf_done(&path);
    return rc;
}

/* The labelled Pods, as slices of `json`. */
struct leaders {
    struct strbuf json;
    struct arena mem;
    const struct str *items;
    uint32_t count;
};

static void leaders_done(struct leaders *leaders)
{
    arena_done(&leaders->mem);
    strbuf_done(&leaders->json);
}

static int find_leaders(struct kube_client *client, const struct own_pod *own,
                        struct leaders *ret, struct error *err)
{
    *ret = (struct leaders){0};
    arena_init(&ret->mem, 0);
    int rc = list_leaders(client, own->ns, &ret->json, err);
    if (rc == 0)
        rc = object_list_items((struct str){ret->json.data, ret->json.len}, &ret->mem, &ret->items,
                               &ret->count, err);
    return rc;
}

static int clear_one(struct kube_client *client, const struct own_pod *own, struct str json,
                     struct arena *mem, struct error *err)
{
    struct pod pod;
    int rc = object_decode_pod(json, mem, &pod, err);
    if (rc < 0 || str_is(pod.id.name, own->name))
        return rc;
    rc = patch_label(client, own->ns, pod.id.name, pod.id.uid, false, err);
    return rc == -ENOENT ? 0 : rc;
}

int own_pod_clear_others(struct kube_client *client, const struct own_pod *own, struct error *err)
{
    struct leaders leaders;
    int rc = find_leaders(client, own, &leaders, err);
    for (uint32_t i = 0; rc == 0 && i < leaders.count; i++)
        rc = clear_one(client, own, leaders.items[i], &leaders.mem, err);
    leaders_done(&leaders);
    return rc;
}

int own_pod_leads_alone(struct kube_client *client, const struct own_pod *own, bool *ret,
                        struct error *err)
{
    struct leaders leaders;
    struct pod pod = {0};
    int rc = find_leaders(client, own, &leaders, err);
    if (rc == 0 && leaders.count == 1)
        rc = object_decode_pod(leaders.items[0], &leaders.mem, &pod, err);
    if (rc == 0)
        *ret = leaders.count == 1 && str_is(pod.id.name, own->name);
    leaders_done(&leaders);
    return rc;
}
