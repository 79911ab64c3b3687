/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client.h"

#include <errno.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/client_internal.h"

#define ANSWER_BYTES_MAX       ((size_t)64 * 1024 * 1024)
#define ERROR_ANSWER_BYTES_MAX ((size_t)64 * 1024)
#define CONNECT_TIMEOUT_MS     5000
#define POLL_MS_MAX            60000
#define RETRY_AFTER_S_MAX      (24 * 60 * 60)

/* One exchange under way. */
struct transfer {
    struct kube_client *client;
    const struct kube_request *request;
    struct kube_response *response;
    int (*take)(struct transfer *transfer, const char *data, size_t len); /* the answer's body */
    struct strbuf *body;
    size_t body_start;
    int64_t idle_ms; /* 0 = no bound */
    /* of kube_client_stream */
    int (*piece)(void *self, const char *data, size_t len);
    void *piece_self;

    int64_t heard_ns; /* the last byte came, or the exchange began */
    bool header_complete;
    bool refused;    /* may_send said no */
    int code;        /* 0, or what ended it from our side; */
    const char *why; /* then its sentence */
};

static int64_t now_ns(void)
{
    struct clock clock = clock_system();
    return clock_now_ns(&clock);
}

void kube_global_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- life ---- */

static int open_handles(struct kube_client *client, const struct api_access *access,
                        struct error *err)
{
    client->easy = curl_easy_init();
    client->multi = curl_multi_init();
    if (client->easy == NULL || client->multi == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    return client_setup(client, access, err);
}

struct kube_client *kube_client_open(const struct api_access *access, int64_t timeout_ms,
                                     struct error *err)
{
    struct kube_client *client = mem_calloc(1, sizeof *client);
    if (client == NULL) {
        error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    client->timeout_ms = timeout_ms;
    for (unsigned i = 0; i < CLIENT_PEM_MAX; i++)
        client->pem_fd[i] = -1;
    if (open_handles(client, access, err) < 0) {
        kube_client_free(client);
        return NULL;
    }
    return client;
}

struct kube_client *kube_client_new(const char *base_url, int64_t timeout_ms)
{
    struct api_access access = {.server = base_url};
    return kube_client_open(&access, timeout_ms, NULL);
}

void kube_client_free(struct kube_client *client)
{
    if (client == NULL)
        return;
    curl_easy_cleanup(client->easy);
    curl_multi_cleanup(client->multi);
    curl_slist_free_all(client->connect_to);
    token_done(&client->token);
    strbuf_done(&client->url);
    strbuf_done(&client->host_header);
    for (unsigned i = 0; i < CLIENT_PEM_MAX; i++)
        if (client->pem_fd[i] >= 0)
            close(client->pem_fd[i]);
    mem_free(client);
}

void kube_client_interrupt(struct kube_client *client)
{
    atomic_store(&client->interrupted, true);
    curl_multi_wakeup(client->multi);
}

void kube_client_resume(struct kube_client *client)
{
    atomic_store(&client->interrupted, false);
}

/* ---- callbacks of libcurl ---- */

/* A connection stands and the request goes out next. libcurl asks again when it repeats a request
 * because a reused connection turned out dead. */
static int before_send(void *self, char *to, char *from, int to_port, int from_port)
{
    (void)to, (void)from, (void)to_port, (void)from_port;
    struct transfer *transfer = self;
    const struct kube_request *request = transfer->request;
    if (request->may_send != NULL && !request->may_send(request->may_send_self)) {
        transfer->refused = true;
        return CURL_PREREQFUNC_ABORT;
    }
    transfer->response->sent = true;
    return CURL_PREREQFUNC_OK;
}

/* One line of a header. A provisional answer (1xx) has a header of its own before, and a chunked
 * one may have further fields behind its body. */
static size_t take_header(char *line, size_t size, size_t count, void *self)
{
    struct transfer *transfer = self;
    transfer->heard_ns = now_ns();
    if (size * count > 5 && memcmp(line, "HTTP/", 5) == 0)
        transfer->header_complete = false;
    if ((line[0] != '\r' && line[0] != '\n') || transfer->header_complete)
        return size * count;
    transfer->header_complete = true;
    long status = 0;
    curl_easy_getinfo(transfer->client->easy, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->piece != NULL && status == 200)
        transfer->code = transfer->take(transfer, line, 0); /* its first event may be hours away */
    return transfer->code == 0 ? size * count : 0;
}

static size_t take_body(char *data, size_t size, size_t count, void *self)
{
    struct transfer *transfer = self;
    transfer->code = transfer->take(transfer, data, size * count);
    transfer->heard_ns = now_ns();
    return transfer->code == 0 ? size * count : 0;
}

static int stop_with(struct transfer *transfer, int code, const char *why)
{
    transfer->why = why;
    return code;
}

static int take_all(struct transfer *transfer, const char *data, size_t len)
{
    struct strbuf *body = transfer->body;
    if (len > ANSWER_BYTES_MAX - (body->len - transfer->body_start))
        return stop_with(transfer, -EIO, "the answer is larger than 64 MiB");
    strbuf_add(body, data, len);
    return body->failed ? stop_with(transfer, -ENOMEM, "out of memory") : 0;
}

/* The text of a refusal; what is beyond any reasonable length is left out. */
static int take_error_text(struct transfer *transfer, const char *data, size_t len)
{
    size_t room = ERROR_ANSWER_BYTES_MAX - (transfer->body->len - transfer->body_start);
    strbuf_add(transfer->body, data, len < room ? len : room);
    return transfer->body->failed ? stop_with(transfer, -ENOMEM, "out of memory") : 0;
}

static int take_piece(struct transfer *transfer, const char *data, size_t len)
{
    return stop_with(transfer, transfer->piece(transfer->piece_self, data, len),
                     "its reader ended it");
}

/* The first bytes of a streamed answer: where do they go? */
static int take_first(struct transfer *transfer, const char *data, size_t len)
{
    CURL *easy = transfer->client->easy;
    long status = 0;
    char *type = NULL;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
    if (status == 200 && type != NULL && strncasecmp(type, "application/json", 16) != 0)
        return stop_with(transfer, -EIO, "the answer is not JSON by its Content-Type");
    transfer->take = status == 200 ? take_piece : take_error_text;
    return transfer->take(transfer, data, len);
}

/* ---- one exchange ---- */

static bool add_header(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);
    if (longer == NULL)
        return false;
    *headers = longer;
    return true;
}

static bool add_field(struct curl_slist **headers, const char *name, const char *value)
{
    struct strbuf line = {0};
    strbuf_puts(&line, name);
    strbuf_puts(&line, value);
    bool added = !line.failed && add_header(headers, line.data);
    strbuf_done(&line);
    return added;
}

static bool add_headers(const struct kube_client *client, const struct kube_request *request,
                        struct curl_slist **headers)
{
    const char *type = request->content_type != NULL ? request->content_type : "application/json";
    /* Waiting for "100 Continue" would cost a round trip, and a second where it never comes. */
    return add_header(headers, "Expect:") && add_header(headers, "Accept: application/json") &&
           (request->body.data == NULL || add_field(headers, "Content-Type: ", type)) &&
           (client->host_header.len == 0 || add_header(headers, client->host_header.data)) &&
           (client->token.text.len == 0 ||
            add_field(headers, "Authorization: Bearer ", client->token.text.data));
}

static bool set_url(struct kube_client *client, const char *path)
{
    client->url.len = client->base_len;
    client->url.failed = false; /* of an earlier call */
    strbuf_puts(&client->url, path);
    return !client->url.failed &&
           curl_easy_setopt(client->easy, CURLOPT_URL, client->url.data) == CURLE_OK;
}

static bool set_body(CURL *easy, struct str body)
{
    if (curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) != CURLE_OK) /* undoes a POST before */
        return false;
    return body.data == NULL ||
           (curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len) == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data) == CURLE_OK);
}

static bool set_timeout(CURL *easy, int64_t timeout_ms)
{
    long connect_ms =
        timeout_ms > 0 && timeout_ms < CONNECT_TIMEOUT_MS ? (long)timeout_ms : CONNECT_TIMEOUT_MS;
    return curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms) == CURLE_OK;
}

static bool set_request(struct transfer *transfer, struct curl_slist *headers)
{
    struct kube_client *client = transfer->client;
    const struct kube_request *request = transfer->request;
    CURL *easy = client->easy;
    long no_body = strcmp(request->method, "HEAD") == 0;
    return set_url(client, request->path) && set_body(easy, request->body) &&
           set_timeout(easy, request->timeout_ms != 0 ? request->timeout_ms : client->timeout_ms) &&
           curl_easy_setopt(easy, CURLOPT_NOBODY, no_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_send) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) == CURLE_OK;
}

/* Drive the exchange to its end or until something on our side ends it, which sets transfer->code.
 */
static CURLMcode drive(struct transfer *transfer)
{
    struct kube_client *client = transfer->client;
    int running = 1;
    for (;;) {
        if (atomic_load(&client->interrupted)) {
            transfer->code = stop_with(transfer, -ECANCELED, "interrupted");
            return CURLM_OK;
        }
        CURLMcode code = curl_multi_perform(client->multi, &running);
        if (code != CURLM_OK || running == 0)
            return code;
        int64_t wait_ms = POLL_MS_MAX;
        if (transfer->idle_ms > 0)
            wait_ms = transfer->idle_ms - (now_ns() - transfer->heard_ns) / 1000000;
        if (wait_ms <= 0) {
            transfer->code = stop_with(transfer, -ETIMEDOUT, "no byte came for too long");
            return CURLM_OK;
        }
        code = curl_multi_poll(client->multi, NULL, 0,
                               wait_ms < POLL_MS_MAX ? (int)wait_ms : POLL_MS_MAX, NULL);
        if (code != CURLM_OK)
            return code;
    }
}

static CURLcode perform(struct transfer *transfer)
{
    struct kube_client *client = transfer->client;
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    CURLMcode code = curl_multi_add_handle(client->multi, client->easy);
    if (code == CURLM_OK)
        code = drive(transfer);
    if (code != CURLM_OK)
        result = code == CURLM_OUT_OF_MEMORY ? CURLE_OUT_OF_MEMORY : CURLE_FAILED_INIT;
    int left;
    const CURLMsg *message = curl_multi_info_read(client->multi, &left);
    if (message != NULL)
        result = message->data.result;
    curl_multi_remove_handle(client->multi, client->easy);
    return result;
}

/* The code and sentence of an exchange without a complete answer. */
static int failure(const struct transfer *transfer, CURLcode result, const char **ret_why)
{
    const char *error = transfer->client->error;
    bool sent = transfer->response->sent;
    *ret_why = error[0] != '\0' ? error : curl_easy_strerror(result);
    if (transfer->code != 0) {
        *ret_why = transfer->why;
        return transfer->code;
    }
    if (transfer->refused) {
        *ret_why =
            sent ? "the connection broke, and it may not be sent again" : "it may not be sent now";
        return sent ? -EIO : -ECANCELED;
    }
    if (result == CURLE_OUT_OF_MEMORY)
        return -ENOMEM;
    if (!sent)
        return -ECONNREFUSED;
    return result == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT : -EIO;
}

static void read_response(const struct transfer *transfer)
{
    long status = 0;
    curl_off_t retry_after_s = 0;
    curl_easy_getinfo(transfer->client->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->client->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    transfer->response->status = (int)status;
    if (retry_after_s > RETRY_AFTER_S_MAX)
        retry_after_s = RETRY_AFTER_S_MAX;
    if (retry_after_s > 0)
        transfer->response->retry_after_ms = retry_after_s * 1000;
}

static void cut_body(const struct transfer *transfer)
{
    struct strbuf *body = transfer->body;
    if (body->data == NULL)
        return;
    body->len = transfer->body_start;
    body->data[body->len] = '\0';
}

static int exchange_once(struct transfer *transfer, struct error *err)
{
    struct kube_client *client = transfer->client;
    const struct kube_request *request = transfer->request;
    struct curl_slist *headers = NULL;
    *transfer->response = (struct kube_response){.retry_after_ms = -1};
    transfer->heard_ns = now_ns();
    transfer->header_complete = false;
    client->error[0] = '\0';
    CURLcode result = CURLE_OUT_OF_MEMORY;
    if (add_headers(client, request, &headers) && set_request(transfer, headers))
        result = perform(transfer);
    curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    if (result == CURLE_OK && !transfer->header_complete) /* libcurl takes a cut header for one */
        result = CURLE_PARTIAL_FILE;
    if (result == CURLE_OK) {
        read_response(transfer);
        return 0;
    }
    const char *why;
    int code = failure(transfer, result, &why);
    cut_body(transfer); /* no half answers */
    const char *url = client->url.data != NULL ? client->url.data : request->path;
    return error_set(err, code, "%s %.*s: %s", request->method, (int)strcspn(url, "?"), url, why);
}

static int exchange(struct transfer *transfer, struct error *err)
{
    struct token *token = &transfer->client->token;
    int (*take)(struct transfer *, const char *, size_t) = transfer->take;
    transfer->body_start = transfer->body->len;
    token_refresh(token);
    int rc = exchange_once(transfer, err);
    if (rc < 0 || transfer->response->status != 401 || !token_reread(token))
        return rc;
    cut_body(transfer);
    transfer->take = take;
    return exchange_once(transfer, err);
}

/* ---- calls ---- */

int kube_client_send(struct kube_client *client, const struct kube_request *request,
                     struct strbuf *ret_body, struct kube_response *ret_response, struct error *err)
{
    struct transfer transfer = {.client = client,
                                .request = request,
                                .response = ret_response,
                                .take = take_all,
                                .body = ret_body};
    return exchange(&transfer, err);
}

int kube_client_call(struct kube_client *client, const char *method, const char *path,
                     struct str body, struct strbuf *ret_body, struct error *err)
{
    struct kube_request request = {.method = method, .path = path, .body = body};
    struct kube_response response;
    int rc = kube_client_send(client, &request, ret_body, &response, err);
    return rc < 0 ? rc : response.status;
}

int kube_client_stream(struct kube_client *client, const char *path, int64_t timeout_ms,
                       int64_t idle_ms, int (*take)(void *self, const char *data, size_t len),
                       void *self, struct strbuf *ret_body, struct kube_response *ret_response,
                       struct error *err)
{
    struct kube_request request = {.method = "GET", .path = path, .timeout_ms = timeout_ms};
    struct transfer transfer = {.client = client,
                                .request = &request,
                                .response = ret_response,
                                .take = take_first,
                                .body = ret_body,
                                .idle_ms = idle_ms,
                                .piece = take,
                                .piece_self = self};
    return exchange(&transfer, err);
}
