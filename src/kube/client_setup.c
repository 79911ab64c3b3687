/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memfd_create */
#include "kube/client_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEEPALIVE_IDLE_S      15L
#define KEEPALIVE_INTERVAL_S  5L
#define UNACKNOWLEDGED_MS_MAX 30000u
/* kube-apiserver closes a connection that was idle for 90 s; do not race with it. */
#define IDLE_CONNECTION_S_MAX 75L
/* So long a changed CA file may go unnoticed; libcurl's own limit is a day. */
#define CA_CACHE_S 60L

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* What is still on its way when a call is given up, or when this process is killed, must not arrive
 * much later: the kernel would go on sending it for minutes. */
static int set_socket_options(void *self, curl_socket_t fd, curlsocktype purpose)
{
    const struct kube_client *client = self;
    (void)purpose;
    unsigned int ms = UNACKNOWLEDGED_MS_MAX;
    if (client->timeout_ms > 0 && client->timeout_ms < ms)
        ms = (unsigned int)client->timeout_ms;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    return CURL_SOCKOPT_OK;
}

static bool set_connection(struct kube_client *client)
{
    CURL *easy = client->easy;
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT,
                     CA_CACHE_S);                   /* not every TLS library has a cache */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* do not wait for a name server */
#endif
    return curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "deviceshare-extender") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, IDLE_CONNECTION_S_MAX) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, set_socket_options) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->error) == CURLE_OK;
}

/* ---- trust and identity ---- */

/* libcurl takes PEM texts from memory only with some TLS libraries, but all of them read files. */
static int memory_file(struct str text, int *ret_fd, struct error *err)
{
    int fd = memfd_create("pem", MFD_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "memfd_create: %s", strerror(errno));
    for (size_t done = 0; done < text.len;) {
        ssize_t wrote = write(fd, text.data + done, text.len - done);
        if (wrote < 0) {
            int code = -errno;
            close(fd);
            return error_set(err, code, "writing a file in memory: %s", strerror(-code));
        }
        done += (size_t)wrote;
    }
    *ret_fd = fd;
    return 0;
}

/* Give `option` the file, or the text as one. A text wins, as in a kubeconfig. */
static int set_pem(struct kube_client *client, enum client_pem which, CURLoption option,
                   const char *file, const char *text, struct error *err)
{
    char path[64];
    if (text != NULL) {
        int rc = memory_file(str_from(text), &client->pem_fd[which], err);
        if (rc < 0)
            return rc;
        snprintf(path, sizeof path, "/proc/self/fd/%d", client->pem_fd[which]);
        file = path;
    }
    if (file == NULL)
        return 0;
    if (text == NULL && access(file, R_OK) < 0)
        return error_set(err, -errno, "%s: %s", file, strerror(errno));
    return curl_easy_setopt(client->easy, option, file) == CURLE_OK ? 0 : no_memory(err);
}

static int set_trust(struct kube_client *client, const struct api_access *access, struct error *err)
{
    CURL *easy = client->easy;
    if (access->insecure)
        return curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L) == CURLE_OK &&
                       curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L) == CURLE_OK
                   ? 0
                   : no_memory(err);
    if (access->ca_file == NULL && access->ca_pem == NULL) /* what the system trusts */
        return 0;
    int rc = set_pem(client, CLIENT_PEM_CA, CURLOPT_CAINFO, access->ca_file, access->ca_pem, err);
    if (rc < 0)
        return rc;
    /* Distributions compile a folder of CAs in, which would be trusted besides. */
    return curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK ? 0 : no_memory(err);
}

static int set_identity(struct kube_client *client, const struct api_access *access,
                        struct error *err)
{
    int rc = set_pem(client, CLIENT_PEM_CERT, CURLOPT_SSLCERT, access->client_cert_file,
                     access->client_cert_pem, err);
    if (rc == 0)
        rc = set_pem(client, CLIENT_PEM_KEY, CURLOPT_SSLKEY, access->client_key_file,
                     access->client_key_pem, err);
    if (rc == 0)
        rc = token_init(&client->token, access, err);
    return rc;
}

/* ---- where ---- */

static void free_part(char **part)
{
    curl_free(*part);
}

#define AUTO_PART __attribute__((cleanup(free_part))) char *

static void free_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

/* A certificate is verified for the host of the URL. So the URL names the one that the certificate
 * should be for, and the connection is led to the real place. */
static int set_server_name(struct kube_client *client, CURLU *url, const char *name,
                           struct error *err)
{
    AUTO_PART host = NULL;
    AUTO_PART port = NULL;
    AUTO_PART given_port = NULL;
    AUTO_PART text = NULL;
    if (curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
        return no_memory(err);
    curl_url_get(url, CURLUPART_PORT, &given_port, 0);
    if (curl_url_set(url, CURLUPART_HOST, name, 0) != CURLUE_OK)
        return error_set(err, -EINVAL, "tls-server-name: \"%s\" is no host name", name);
    if (curl_url_get(url, CURLUPART_URL, &text, 0) != CURLUE_OK)
        return no_memory(err);

    struct strbuf target = {0};
    strbuf_printf(&target, "::%s:%s", host, port);
    client->connect_to = target.failed ? NULL : curl_slist_append(NULL, target.data);
    strbuf_done(&target);
    strbuf_printf(&client->host_header, "Host: %s%s%s", host, given_port != NULL ? ":" : "",
                  given_port != NULL ? given_port : "");
    strbuf_puts(&client->url, text);
    if (client->connect_to == NULL || client->host_header.failed ||
        curl_easy_setopt(client->easy, CURLOPT_CONNECT_TO, client->connect_to) != CURLE_OK)
        return no_memory(err);
    return 0;
}

static int set_server(struct kube_client *client, const struct api_access *access,
                      struct error *err)
{
    __attribute__((cleanup(free_url))) CURLU *url = curl_url();
    if (url == NULL)
        return no_memory(err);
    CURLUcode code = curl_url_set(url, CURLUPART_URL, access->server, 0);
    if (code != CURLUE_OK)
        return error_set(err, code == CURLUE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL, "server \"%s\": %s",
                         access->server, curl_url_strerror(code));
    if (access->tls_server_name != NULL) {
        int rc = set_server_name(client, url, access->tls_server_name, err);
        if (rc < 0)
            return rc;
    } else {
        strbuf_puts(&client->url, access->server);
    }
    while (client->url.len > 0 && client->url.data[client->url.len - 1] == '/')
        client->url.len--; /* libcurl puts one behind a bare host */
    client->base_len = client->url.len;
    return client->url.failed ? no_memory(err) : 0;
}

int client_setup(struct kube_client *client, const struct api_access *access, struct error *err)
{
    if (!set_connection(client))
        return no_memory(err);
    int rc = set_server(client, access, err);
    if (rc == 0)
        rc = set_trust(client, access, err);
    if (rc == 0)
        rc = set_identity(client, access, err);
    return rc;
}
