/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client.h"

#include "base/mem.h"

#include <curl/curl.h>

#include <errno.h>

#define ANSWER_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define CONNECT_TIMEOUT_MS 5000

struct kube_client {
    CURL *curl;
    struct curl_slist *json_headers;
    struct strbuf url;   /* base_url, then the path of the call */
    size_t base_len;
    char error[CURL_ERROR_SIZE];
};

/* Where an answer goes. */
struct sink {
    struct strbuf *body;
    size_t start;
    bool too_large;
};

void kube_global_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take(char *data, size_t size, size_t count, void *self)
{
    struct sink *sink = self;
    size_t bytes = size * count;
    if (sink->body->len - sink->start + bytes > ANSWER_BYTES_MAX) {
        sink->too_large = true;
        return 0;
    }
    strbuf_add(sink->body, data, bytes);
    return sink->body->failed ? 0 : bytes;
}

static bool set_constant_options(struct kube_client *client, int64_t timeout_ms)
{
    CURL *curl = client->curl;
    long connect_ms = timeout_ms < CONNECT_TIMEOUT_MS ? (long)timeout_ms : CONNECT_TIMEOUT_MS;
    return curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->error) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take) == CURLE_OK;
}

static bool add_header(struct kube_client *client, const char *line)
{
    struct curl_slist *longer = curl_slist_append(client->json_headers, line);
    if (longer == NULL)
        return false;
    client->json_headers = longer;
    return true;
}

struct kube_client *kube_client_new(const char *base_url, int64_t timeout_ms)
{
    struct kube_client *client = mem_calloc(1, sizeof(*client));
    if (client == NULL)
        return NULL;
    client->curl = curl_easy_init();
    strbuf_puts(&client->url, base_url);
    client->base_len = client->url.len;
    /* Waiting for "100 Continue" would cost a round trip, and a second where it never comes. */
    if (client->curl == NULL || client->url.failed || !set_constant_options(client, timeout_ms) ||
        !add_header(client, "Content-Type: application/json") || !add_header(client, "Expect:")) {
        kube_client_free(client);
        return NULL;
    }
    return client;
}

void kube_client_free(struct kube_client *client)
{
    if (client == NULL)
        return;
    curl_easy_cleanup(client->curl);
    curl_slist_free_all(client->json_headers);
    strbuf_done(&client->url);
    mem_free(client);
}

static bool set_url(struct kube_client *client, const char *path)
{
    client->url.len = client->base_len;
    strbuf_puts(&client->url, path);
    return !client->url.failed &&
           curl_easy_setopt(client->curl, CURLOPT_URL, client->url.data) == CURLE_OK;
}

static bool set_request(struct kube_client *client, const char *method, struct str body)
{
    CURL *curl = client->curl;
    if (curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L) != CURLE_OK) /* undoes a POST before */
        return false;
    if (body.data != NULL &&
        (curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len) != CURLE_OK ||
         curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data) != CURLE_OK))
        return false;
    return curl_easy_setopt(curl, CURLOPT_NOBODY, strcmp(method, "HEAD") == 0 ? 1L : 0L) ==
               CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_HTTPHEADER,
                            body.data != NULL ? client->json_headers : NULL) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
}

/* The code for a call that brought no complete answer. */
static int failure_code(struct kube_client *client, CURLcode result)
{
    long sent_bytes = 0;
    curl_easy_getinfo(client->curl, CURLINFO_REQUEST_SIZE, &sent_bytes);
    if (result == CURLE_OUT_OF_MEMORY)
        return -ENOMEM;
    if (sent_bytes == 0)
        return -ECONNREFUSED;
    return result == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT : -EIO;
}

int kube_client_call(struct kube_client *client, const char *method, const char *path,
                     struct str body, struct strbuf *ret_body, struct error *err)
{
    struct sink sink = {.body = ret_body, .start = ret_body->len};
    if (!set_url(client, path) || !set_request(client, method, body) ||
        curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, &sink) != CURLE_OK)
        return error_set(err, -ENOMEM, "%s %s: out of memory", method, path);

    client->error[0] = '\0';
    CURLcode result = curl_easy_perform(client->curl);
    if (result == CURLE_OK) {
        long status = 0;
        curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
        return (int)status;
    }

    if (ret_body->failed)
        return error_set(err, -ENOMEM, "%s %s: out of memory", method, path);
    ret_body->len = sink.start; /* no half answers */
    if (sink.too_large)
        return error_set(err, -EIO, "%s %s: the answer is larger than %zu MiB", method,
                         client->url.data, ANSWER_BYTES_MAX >> 20);
    return error_set(err, failure_code(client, result), "%s %s: %s", method, client->url.data,
                     client->error[0] != '\0' ? client->error : curl_easy_strerror(result));
}
