/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/rights.h"

#include "codec/requests.h"

#include <errno.h>

#define REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

/* What a right is for; a row is asked about when rights_wanted says so. */
enum purpose { FOR_ALL, FOR_NAMESPACES, FOR_WAKING, FOR_ELECTION, FOR_OWN_POD };

static const struct {
    const char *verb, *group, *resource, *subresource;
    enum purpose purpose;
    bool own_namespace;
} rows[] = {
    {"list", "", "nodes", NULL, FOR_ALL, false},
    {"watch", "", "nodes", NULL, FOR_ALL, false},
    {"list", "scheduling.koordinator.sh", "devices", NULL, FOR_ALL, false},
    {"watch", "scheduling.koordinator.sh", "devices", NULL, FOR_ALL, false},
    {"list", "", "pods", NULL, FOR_ALL, false},
    {"watch", "", "pods", NULL, FOR_ALL, false},
    {"get", "", "pods", NULL, FOR_ALL, false},
    {"create", "", "pods", "binding", FOR_ALL, false},
    {"list", "", "namespaces", NULL, FOR_NAMESPACES, false},
    {"watch", "", "namespaces", NULL, FOR_NAMESPACES, false},
    {"patch", "", "pods", NULL, FOR_WAKING, false},
    {"get", "coordination.k8s.io", "leases", NULL, FOR_ELECTION, true},
    {"create", "coordination.k8s.io", "leases", NULL, FOR_ELECTION, true},
    {"update", "coordination.k8s.io", "leases", NULL, FOR_ELECTION, true},
    {"list", "", "pods", NULL, FOR_OWN_POD, true},
    {"patch", "", "pods", NULL, FOR_OWN_POD, true},
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

static bool is_wanted(enum purpose purpose, const struct rights_wanted *wanted)
{
    switch (purpose) {
    case FOR_ALL:
        return true;
    case FOR_NAMESPACES:
        return wanted->namespaces;
    case FOR_WAKING:
        return wanted->wake;
    case FOR_ELECTION:
        return wanted->elect;
    case FOR_OWN_POD:
        return wanted->label_own_pod;
    }
    return false;
}

static void write_right(size_t row, const char *ns, struct strbuf *out)
{
    strbuf_printf(out, "%s%s %s%s%s%s%s", out->len > 0 ? ", " : "", rows[row].verb,
                  rows[row].resource, rows[row].subresource != NULL ? "/" : "",
                  rows[row].subresource != NULL ? rows[row].subresource : "",
                  rows[row].group[0] != '\0' ? "." : "", rows[row].group);
    if (rows[row].own_namespace)
        strbuf_printf(out, " in namespace %s", ns);
}

static int ask(struct kube_client *client, size_t row, const char *ns, bool *ret_allowed,
               struct error *err)
{
    struct access_question question = {
        .verb = rows[row].verb,
        .group = rows[row].group,
        .resource = rows[row].resource,
        .subresource = rows[row].subresource,
        .ns = rows[row].own_namespace ? ns : NULL,
    };
    struct strbuf body = {0}, answer = {0};
    request_access_review(&question, &body);
    int rc = body.failed ? error_set(err, -ENOMEM, "out of memory")
                         : kube_client_call(client, "POST", REVIEWS,
                                            (struct str){body.data, body.len}, &answer, err);
    if (rc == 201 || rc == 200)
        rc = access_review_decode((struct str){answer.data, answer.len}, ret_allowed, err);
    else if (rc == 403)
        rc = error_set(err, -EPERM,
                       "the API server does not let us ask for our rights "
                       "(create selfsubjectaccessreviews.authorization.k8s.io): HTTP 403");
    else if (rc > 0)
        rc = error_set(err, rc == 401 ? -EACCES : -EIO, "POST " REVIEWS ": HTTP %d", rc);
    strbuf_done(&answer);
    strbuf_done(&body);
    return rc;
}

int rights_check(struct kube_client *client, const struct rights_wanted *wanted,
                 struct strbuf *missing, struct error *err)
{
    struct strbuf found = {0};
    int rc = 0;
    for (size_t row = 0; rc == 0 && row < ROW_COUNT; row++) {
        bool allowed = false;
        if (!is_wanted(rows[row].purpose, wanted))
            continue;
        rc = ask(client, row, wanted->ns, &allowed, err);
        if (rc == 0 && !allowed)
            write_right(row, wanted->ns, &found);
    }
    if (rc == 0) {
        if (missing->len > 0 && found.len > 0)
            strbuf_puts(missing, ", ");
        strbuf_add(missing, found.data, found.len);
        if (found.failed || missing->failed)
            rc = error_set(err, -ENOMEM, "out of memory");
    }
    strbuf_done(&found);
    return rc;
}
