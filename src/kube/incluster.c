/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/incluster.h"

#include <errno.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/strbuf.h"

#define ACCOUNT_DIR         "/var/run/secrets/kubernetes.io/serviceaccount"
#define NAMESPACE_BYTES_MAX 253

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* Move the text into the arena and free it; NULL when memory ended on the way. */
static const char *keep(struct strbuf *text, struct arena *mem)
{
    struct str kept = {0};
    if (!text->failed)
        kept = arena_str(mem, (struct str){text->data != NULL ? text->data : "", text->len});
    strbuf_done(text);
    return kept.data;
}

static const char *join(const char *dir, const char *name, struct arena *mem)
{
    struct strbuf path = {0};
    strbuf_printf(&path, "%s/%s", dir, name);
    return keep(&path, mem);
}

static int server_url(struct arena *mem, const char **ret, struct error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    int64_t number;
    if (host == NULL || host[0] == '\0' || port == NULL || port[0] == '\0')
        return error_set(err, -ENOENT,
                         "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are "
                         "not set; give a kubeconfig");
    if (!parse_int64(str_from(port), &number) || number < 1 || number > 65535)
        return error_set(err, -EINVAL, "KUBERNETES_SERVICE_PORT: \"%s\" is no port", port);
    bool ipv6 = strchr(host, ':') != NULL;
    struct strbuf url = {0};
    strbuf_printf(&url, ipv6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
    *ret = keep(&url, mem);
    return *ret != NULL ? 0 : no_memory(err);
}

static int read_namespace(const char *dir, struct arena *mem, const char **ret, struct error *err)
{
    struct strbuf text = {0};
    const char *path = join(dir, "namespace", mem);
    if (path == NULL)
        return no_memory(err);
    int rc = file_read(path, NAMESPACE_BYTES_MAX + 1, &text, err);
    if (rc < 0)
        return rc;
    while (text.len > 0 && (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == '\r'))
        text.len--;
    if (text.len == 0) {
        strbuf_done(&text);
        return error_set(err, -EINVAL, "%s: is empty", path);
    }
    *ret = keep(&text, mem);
    return *ret != NULL ? 0 : no_memory(err);
}

int incluster_access(const char *dir, struct arena *mem, struct api_access *ret, struct error *err)
{
    if (dir == NULL)
        dir = ACCOUNT_DIR;
    struct api_access access = {0};
    int rc = server_url(mem, &access.server, err);
    if (rc == 0)
        rc = read_namespace(dir, mem, &access.ns, err);
    if (rc < 0)
        return rc;
    access.ca_file = join(dir, "ca.crt", mem);
    access.token_file = join(dir, "token", mem);
    if (access.ca_file == NULL || access.token_file == NULL)
        return no_memory(err);
    *ret = access;
    return 0;
}
