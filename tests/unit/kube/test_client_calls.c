/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "script_server.h"

/* Acts in the order of the requests; the last one goes on. */
static struct script_act acts[8];
static struct script_server *server;
static struct api_access where;
static struct kube_client *client;
static struct strbuf body;
static struct kube_response response;
static struct error err;

static struct script_act act(void *self, const struct script_request *request)
{
    (void)self;
    unsigned last = sizeof acts / sizeof acts[0] - 1;
    return acts[request->number < last ? request->number : last];
}

static int setup(void **state)
{
    (void)state;
    memset(acts, 0, sizeof acts);
    memset(&err, 0, sizeof err);
    server = script_start(act, NULL);
    where = (struct api_access){.server = script_url(server)};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_client_free(client);
    client = NULL;
    strbuf_done(&body);
    script_stop(server);
    return 0;
}

static void open_client(void)
{
    client = kube_client_open(&where, 5000, &err);
    if (client == NULL)
        fail_msg("%s", err.text);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What takes "no time" takes less than this on a busy machine, and no call here would be given up so soon. */
#define PATIENCE_MS 4000

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int send_request(const struct kube_request *request)
{
    return kube_client_send(client, request, &body, &response, &err);
}

static int get(void)
{
    return send_request(&(struct kube_request){.method = "GET", .path = "/x"});
}

static bool got(unsigned number, const char *part)
{
    return strstr(script_text(server, number), part) != NULL;
}

/* ---- the fence ---- */

/* Says yes so many times, then no. */
struct permission {
    unsigned left, asked;
};

static bool may_send(void *self)
{
    struct permission *permission = self;
    permission->asked++;
    if (permission->left == 0)
        return false;
    permission->left--;
    return true;
}

static int post(struct permission *permission)
{
    return send_request(&(struct kube_request){.method = "POST",
                                               .path = "/bind",
                                               .body = STR("{\"a\":1}"),
                                               .may_send = may_send,
                                               .may_send_self = permission});
}

static void a_no_sends_nothing(void **state)
{
    (void)state;
    open_client();
    struct permission none = {.left = 0};
    assert_int_equal(post(&none), -ECANCELED);
    assert_false(response.sent);
    assert_int_equal(none.asked, 1);
    struct permission once = {.left = 1}; /* the connection that was opened for it can be used */
    assert_int_equal(post(&once), 0);
    assert_true(response.sent);
    assert_int_equal(script_count(server), 1);
    none.asked = 0;
    assert_int_equal(post(&none), -ECANCELED); /* the same on a kept-alive connection */
    assert_false(response.sent);
    struct kube_request without_body = {
        .method = "DELETE", .path = "/x", .may_send = may_send, .may_send_self = &none};
    assert_int_equal(send_request(&without_body), -ECANCELED);
    assert_int_equal(script_count(server), 1);
}

static void each_transmission_is_asked_for(void **state)
{
    (void)state;
    acts[1].how = SCRIPT_DROP; /* of a reused connection: libcurl sends the request again */
    acts[3].how = SCRIPT_DROP;
    open_client();
    struct permission permission = {.left = 10};
    assert_int_equal(post(&permission), 0);
    assert_int_equal(permission.asked, 1);
    assert_int_equal(post(&permission), 0);
    assert_int_equal(permission.asked, 3);
    assert_int_equal(script_count(server), 3);
    assert_true(got(2, "{\"a\":1}"));

    struct permission once = {.left = 1};
    assert_int_equal(post(&once), -EIO); /* it went out once, and who knows what became of it */
    assert_true(response.sent);
    assert_int_equal(once.asked, 2);
    assert_int_equal(script_count(server), 4);
    assert_non_null(strstr(err.text, "may not be sent again"));
}

static void sent_is_true_once_a_byte_may_have_left(void **state)
{
    (void)state;
    acts[0].how = SCRIPT_SILENT;
    acts[1].how = SCRIPT_HALF;
    acts[2].how = SCRIPT_RESET;
    acts[3].status = 500;
    open_client();
    struct kube_request quick = {
        .method = "POST", .path = "/", .body = STR("{}"), .timeout_ms = 200};
    assert_int_equal(send_request(&quick), -ETIMEDOUT);
    assert_true(response.sent);
    assert_int_equal(send_request(&quick), -EIO);
    assert_true(response.sent);
    assert_int_equal(send_request(&quick), -EIO);
    assert_true(response.sent);
    assert_int_equal(send_request(&quick), 0);
    assert_true(response.sent && response.status == 500);

    /* A connection that is reset before anything is read of it has still taken what was written. */
    script_reset_next(server, 1);
    kube_client_free(client);
    open_client();
    int rc = send_request(&quick);
    assert_true(rc == -EIO || (rc == -ECONNREFUSED && !response.sent));

    kube_client_free(client);
    where.server = "http://127.0.0.1:1";
    open_client();
    assert_int_equal(send_request(&quick), -ECONNREFUSED);
    assert_false(response.sent);
}

/* ---- what goes out ---- */

static void methods_and_headers(void **state)
{
    (void)state;
    open_client();
    struct kube_request patch = {.method = "PATCH",
                                 .path = "/p",
                                 .body = STR("[]"),
                                 .content_type = "application/merge-patch+json"};
    assert_int_equal(send_request(&patch), 0);
    assert_int_equal(get(), 0);
    struct kube_request empty = {.method = "POST", .path = "/e", .body = STR("")};
    assert_int_equal(send_request(&empty), 0);
    assert_true(got(0, "PATCH /p HTTP/1.1\r\n"));
    assert_true(got(0, "\r\nContent-Type: application/merge-patch+json\r\n"));
    assert_true(got(0, "\r\nContent-Length: 2\r\n"));
    assert_true(got(1, "GET /x HTTP/1.1\r\n"));
    assert_true(got(1, "\r\nAccept: application/json\r\n"));
    assert_true(got(1, "\r\nUser-Agent: deviceshare-extender\r\n"));
    assert_false(got(1, "Content-"));
    assert_true(got(2, "\r\nContent-Length: 0\r\n"));
    for (unsigned i = 0; i < 3; i++)
        assert_false(got(i, "Expect") || got(i, "Authorization"));
}

static void a_large_body_goes_out_whole(void **state)
{
    (void)state;
    static char large[200000];
    memset(large, 'z', sizeof large);
    open_client();
    struct permission permission = {.left = 1};
    struct kube_request put = {.method = "PUT",
                               .path = "/l",
                               .body = {large, sizeof large},
                               .may_send = may_send,
                               .may_send_self = &permission};
    assert_int_equal(send_request(&put), 0);
    assert_int_equal(permission.asked, 1);
    assert_int_equal(strlen(strstr(script_text(server, 0), "\r\n\r\n") + 4), sizeof large);
}

static void retry_after(void **state)
{
    (void)state;
    acts[0] = (struct script_act){.status = 429, .headers = "Retry-After: 7\r\n", .body = "no"};
    acts[1] = (struct script_act){.status = 503, .headers = "Retry-After: 99999999999\r\n"};
    open_client();
    assert_int_equal(get(), 0);
    assert_int_equal(response.status, 429);
    assert_int_equal(response.retry_after_ms, 7000);
    assert_string_equal(body.data, "no");
    assert_int_equal(get(), 0);
    assert_in_range(response.retry_after_ms, 7000, INT64_C(24) * 3600 * 1000);
    assert_int_equal(get(), 0);
    assert_int_equal(response.status, 200);
    assert_int_equal(response.retry_after_ms, -1);
}

/* ---- tokens ---- */

static char token_path[] = "/tmp/deviceshare-token-XXXXXX";

static void write_token(const char *text)
{
    int fd = open(token_path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static int setup_token(void **state)
{
    strcpy(token_path + sizeof token_path - 7, "XXXXXX");
    close(mkstemp(token_path));
    return setup(state);
}

static int teardown_token(void **state)
{
    unlink(token_path);
    return teardown(state);
}

static void a_token_is_sent_and_not_told(void **state)
{
    (void)state;
    acts[1].how = SCRIPT_RESET;
    acts[2].how = SCRIPT_RESET;
    where.token = "s3cret.token-~+/=";
    open_client();
    assert_int_equal(get(), 0);
    assert_true(got(0, "\r\nAuthorization: Bearer s3cret.token-~+/=\r\n"));
    assert_int_equal(get(), -EIO);
    assert_null(strstr(err.text, "s3cret"));
}

static void a_token_file_is_read_again_when_refused(void **state)
{
    (void)state;
    acts[0].status = 401;
    acts[0].body = "refused";
    acts[2].status = 401;
    write_token("one\n");
    where.token = "unused";
    where.token_file = token_path;
    open_client();
    write_token("two\r\n");
    assert_int_equal(get(), 0);
    assert_int_equal(response.status, 200);
    assert_int_equal(body.len, 0); /* nothing of the refusal */
    assert_true(got(0, "\r\nAuthorization: Bearer one\r\n"));
    assert_true(got(1, "\r\nAuthorization: Bearer two\r\n"));

    assert_int_equal(get(), 0); /* the same token would be refused again */
    assert_int_equal(response.status, 401);
    assert_int_equal(script_count(server), 3);
}

static void an_unreadable_token_file_leaves_the_old_token(void **state)
{
    (void)state;
    acts[0].status = 401;
    write_token("one");
    where.token_file = token_path;
    open_client();
    write_token("");
    assert_int_equal(get(), 0);
    assert_int_equal(response.status, 401);
    assert_int_equal(get(), 0);
    assert_true(got(1, "\r\nAuthorization: Bearer one\r\n"));
}

static void a_fence_is_asked_again_after_a_401(void **state)
{
    (void)state;
    acts[0].status = 401;
    write_token("one");
    where.token_file = token_path;
    open_client();
    write_token("two");
    struct permission once = {.left = 1};
    assert_int_equal(post(&once),
                     -ECANCELED); /* the first try was refused, and the second never sent */
    assert_false(response.sent);
    assert_int_equal(script_count(server), 1);
}

static void tokens_that_cannot_be_header_lines(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "\n", "a b", "a\nX-Evil: 1", "a\x01", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        where.token = NULL;
        where.token_file = token_path;
        write_token(bad[i]);
        assert_null(kube_client_open(&where, 1000, &err));
        assert_int_equal(err.code, -EINVAL);
        where.token_file = NULL;
        where.token = bad[i];
        assert_null(kube_client_open(&where, 1000, &err));
        assert_int_equal(err.code, -EINVAL);
    }
}

static void files_that_are_not_there(void **state)
{
    (void)state;
    struct api_access missing[] = {
        {.ca_file = "/nonexistent/ca"},
        {.client_cert_file = "/nonexistent/crt"},
        {.client_key_file = "/nonexistent/key"},
        {.token_file = "/nonexistent/token"},
    };
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        missing[i].server = "https://127.0.0.1:1";
        assert_null(kube_client_open(&missing[i], 1000, &err));
        assert_int_equal(err.code, -ENOENT);
        assert_non_null(strstr(err.text, "/nonexistent/"));
    }
    where.server = "no url";
    assert_null(kube_client_open(&where, 1000, &err));
    assert_int_equal(err.code, -EINVAL);
}

/* ---- where it goes ---- */

static void a_server_with_a_path(void **state)
{
    (void)state;
    char url[128];
    snprintf(url, sizeof url, "%s/k8s/clusters/c-1/", script_url(server));
    where.server = url;
    open_client();
    assert_int_equal(get(), 0);
    assert_true(got(0, "GET /k8s/clusters/c-1/x HTTP/1.1\r\n"));
}

static void another_name_for_the_certificate(void **state)
{
    (void)state;
    where.tls_server_name = "kubernetes.default.svc";
    open_client();
    assert_int_equal(get(), 0);
    char host[128];
    snprintf(host, sizeof host, "\r\nHost: %s\r\n", script_url(server) + strlen("http://"));
    assert_true(got(0, host)); /* only the certificate is judged by the other name */
    assert_int_equal(get(), 0);
    assert_int_equal(script_connections(server), 1);
}

/* ---- streams ---- */

struct reader {
    struct strbuf text;
    unsigned pieces;
    int stop_at; /* bytes after which it says stop */
};

static int take(void *self, const char *data, size_t len)
{
    struct reader *reader = self;
    if (reader->pieces++ == 0)
        assert_int_equal(len, 0);
    strbuf_add(&reader->text, data, len);
    return reader->stop_at > 0 && reader->text.len >= (size_t)reader->stop_at ? -EXDEV : 0;
}

static int stream(struct reader *reader, int64_t timeout_ms, int64_t idle_ms)
{
    return kube_client_stream(client, "/w", timeout_ms, idle_ms, take, reader, &body, &response,
                              &err);
}

static void a_stream_comes_in_pieces(void **state)
{
    (void)state;
    static char text[300001];
    memset(text, 'a', sizeof text - 1);
    acts[0].body = text;
    open_client();
    struct reader reader = {0};
    assert_int_equal(stream(&reader, 5000, 5000), 0);
    assert_int_equal(response.status, 200);
    assert_int_equal(reader.text.len, sizeof text - 1);
    assert_in_range(reader.pieces, 3, 1000);
    assert_int_equal(body.len, 0);
    strbuf_done(&reader.text);
}

static void its_reader_may_end_it(void **state)
{
    (void)state;
    static char text[300001];
    memset(text, 'a', sizeof text - 1);
    acts[0].body = text;
    open_client();
    struct reader reader = {.stop_at = 1};
    assert_int_equal(stream(&reader, 5000, 5000), -EXDEV);
    assert_in_range(reader.text.len, 1, sizeof text - 2);
    strbuf_done(&reader.text);
    assert_int_equal(get(), 0);
}

static void a_refused_stream_has_a_body(void **state)
{
    (void)state;
    static char text[100001];
    memset(text, 'b', sizeof text - 1);
    acts[0] = (struct script_act){.status = 500, .body = text};
    acts[1] = (struct script_act){.status = 410, .body = "gone"};
    open_client();
    struct reader reader = {0};
    assert_int_equal(stream(&reader, 5000, 5000), 0);
    assert_int_equal(response.status, 500);
    assert_int_equal(body.len, 65536);
    body.len = 0;
    assert_int_equal(stream(&reader, 5000, 5000), 0);
    assert_int_equal(response.status, 410);
    assert_string_equal(body.data, "gone");
    assert_int_equal(reader.pieces, 0);
}

static void silence_ends_a_stream(void **state)
{
    (void)state;
    acts[0].how = acts[1].how = SCRIPT_SILENT;
    open_client();
    struct reader reader = {0};
    int64_t begun = now_ms();
    assert_int_equal(stream(&reader, 60000, 100), -ETIMEDOUT);
    assert_in_range(now_ms() - begun, 90, PATIENCE_MS);
    begun = now_ms();
    assert_int_equal(stream(&reader, 100, 0), -ETIMEDOUT);
    assert_in_range(now_ms() - begun, 90, PATIENCE_MS);
}

/* ---- interruption ---- */

static void *interrupt_soon(void *self)
{
    pause_ms(50);
    kube_client_interrupt(self);
    return NULL;
}

static void an_interruption_ends_calls_at_once(void **state)
{
    (void)state;
    acts[0].how = acts[1].how = SCRIPT_SILENT;
    open_client();
    struct reader reader = {0};
    for (unsigned round = 0; round < 2; round++) {
        pthread_t thread;
        int64_t begun = now_ms();
        assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, client), 0);
        assert_int_equal(round == 0 ? get() : stream(&reader, 60000, 0), -ECANCELED);
        assert_in_range(now_ms() - begun, 40, PATIENCE_MS);
        assert_true(response.sent);
        pthread_join(thread, NULL);
        assert_int_equal(get(), -ECANCELED); /* and later ones are not begun */
        assert_false(response.sent);
        kube_client_resume(client);
    }
    assert_int_equal(get(), 0);
    assert_int_equal(script_count(server), 3);
}

static void a_connection_that_is_not_accepted_is_interrupted_too(void **state)
{
    (void)state;
    where.server = "http://192.0.2.1:81"; /* TEST-NET-1: nobody answers, or there is no route */
    open_client();
    pthread_t thread;
    int64_t begun = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, client), 0);
    int rc = get();
    assert_true(rc == -ECANCELED || rc == -ECONNREFUSED);
    assert_false(response.sent);
    assert_in_range(now_ms() - begun, 0, PATIENCE_MS);
    pthread_join(thread, NULL);
}

int main(void)
{
    kube_global_init();
    log_set_verbosity(0);
#define TEST(name)       cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TOKEN_TEST(name) cmocka_unit_test_setup_teardown(name, setup_token, teardown_token)
    const struct CMUnitTest tests[] = {
        TEST(a_no_sends_nothing),
        TEST(each_transmission_is_asked_for),
        TEST(sent_is_true_once_a_byte_may_have_left),
        TEST(methods_and_headers),
        TEST(a_large_body_goes_out_whole),
        TEST(retry_after),
        TOKEN_TEST(a_token_is_sent_and_not_told),
        TOKEN_TEST(a_token_file_is_read_again_when_refused),
        TOKEN_TEST(an_unreadable_token_file_leaves_the_old_token),
        TOKEN_TEST(a_fence_is_asked_again_after_a_401),
        TOKEN_TEST(tokens_that_cannot_be_header_lines),
        TEST(files_that_are_not_there),
        TEST(a_server_with_a_path),
        TEST(another_name_for_the_certificate),
        TEST(a_stream_comes_in_pieces),
        TEST(its_reader_may_end_it),
        TEST(a_refused_stream_has_a_body),
        TEST(silence_ends_a_stream),
        TEST(an_interruption_ends_calls_at_once),
        TEST(a_connection_that_is_not_accepted_is_interrupted_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
