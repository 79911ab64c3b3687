/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* A server that plays a script: for each connection it accepts, the given number of requests are read to
 * their end and answered with the next text; NULL closes the connection, "" leaves it open and silent. */
struct script {
    const char *answers[8];
    unsigned per_connection;

    int listen_fd;
    unsigned port;
    pthread_t thread;
    unsigned connections;
    char requests[8][4096];
    unsigned request_count;
    int silent_fd;
};

static struct script script;

static bool is_complete(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    if (end == NULL)
        return false;
    const char *field = strstr(request, "Content-Length: ");
    size_t length = field != NULL ? strtoul(field + 16, NULL, 10) : 0;
    return strlen(end + 4) >= length;
}

static bool read_request(int fd, char *request, size_t size)
{
    size_t used = 0;
    while (!is_complete(request)) {
        ssize_t got = recv(fd, request + used, size - 1 - used, 0);
        if (got <= 0)
            return false;
        used += (size_t)got;
        request[used] = '\0';
    }
    return true;
}

static void *play(void *unused)
{
    (void)unused;
    unsigned next = 0;
    for (;;) {
        int fd = accept(script.listen_fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        script.connections++;
        for (unsigned i = 0; i < script.per_connection; i++) {
            if (!read_request(fd, script.requests[script.request_count], sizeof(script.requests[0])))
                break;
            script.request_count++;
            const char *answer = script.answers[next++];
            if (answer == NULL)
                break;
            if (answer[0] == '\0') {
                script.silent_fd = fd;
                fd = -1;
                break;
            }
            send(fd, answer, strlen(answer), MSG_NOSIGNAL);
        }
        if (fd >= 0)
            close(fd);
    }
}

static char base_url[64];

static int setup(void **state)
{
    (void)state;
    script = (struct script){.per_connection = 8, .silent_fd = -1};
    script.listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    assert_int_equal(bind(script.listen_fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(script.listen_fd, 8), 0);
    assert_int_equal(getsockname(script.listen_fd, (struct sockaddr *)&address, &size), 0);
    snprintf(base_url, sizeof(base_url), "http://127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&script.thread, NULL, play, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    shutdown(script.listen_fd, SHUT_RDWR);
    pthread_join(script.thread, NULL);
    close(script.listen_fd);
    if (script.silent_fd >= 0)
        close(script.silent_fd);
    return 0;
}

static int call(struct kube_client *client, const char *method, const char *path, const char *body,
                struct strbuf *ret_body, struct error *err)
{
    return kube_client_call(client, method, path, str_from(body), ret_body, err);
}

static void requests_and_answers(void **state)
{
    (void)state;
    script.answers[0] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    script.answers[1] = "HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n";
    script.answers[2] = "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n";
    script.answers[3] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    struct kube_client *client = kube_client_new(base_url, 10000);
    struct strbuf body = {0};
    struct error err = {0};
    assert_int_equal(call(client, "POST", "/a?b=c", "{\"x\":1}", &body, &err), 200);
    assert_string_equal(body.data, "body");
    assert_int_equal(call(client, "DELETE", "/a/../b", NULL, &body, &err), 409);
    assert_string_equal(body.data, "bodyno"); /* appended */
    assert_int_equal(call(client, "GET", "/c", NULL, &body, &err), 302);
    assert_int_equal(call(client, "PUT", "/d", "{}", &body, &err), 200);
    kube_client_free(client);
    strbuf_done(&body);

    assert_int_equal(script.connections, 1); /* kept alive */
    assert_ptr_equal(strstr(script.requests[0], "POST /a?b=c HTTP/1.1\r\n"), script.requests[0]);
    assert_non_null(strstr(script.requests[0], "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(script.requests[0], "\r\nContent-Length: 7\r\n"));
    assert_null(strstr(script.requests[0], "Expect"));
    assert_non_null(strstr(script.requests[0], "\r\n\r\n{\"x\":1}"));
    assert_ptr_equal(strstr(script.requests[1], "DELETE /a/../b HTTP/1.1\r\n"), script.requests[1]);
    assert_null(strstr(script.requests[1], "Content-Type"));
    assert_ptr_equal(strstr(script.requests[2], "GET /c HTTP/1.1\r\n"), script.requests[2]);
    assert_ptr_equal(strstr(script.requests[3], "PUT /d HTTP/1.1\r\n"), script.requests[3]);
}

static void refused_connection(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* bound and not listening: nobody else takes the port */
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(address.sin_port));

    struct kube_client *client = kube_client_new(url, 10000);
    struct strbuf body = {0};
    struct error err = {0};
    assert_int_equal(call(client, "POST", "/x", "{}", &body, &err), -ECONNREFUSED);
    assert_int_equal(err.code, -ECONNREFUSED);
    assert_non_null(strstr(err.text, "POST http://127.0.0.1:"));
    kube_client_free(client);
    strbuf_done(&body);
    close(fd);
}

static void silence_times_out(void **state)
{
    (void)state;
    script.answers[0] = "";
    struct kube_client *client = kube_client_new(base_url, 300);
    struct strbuf body = {0};
    struct error err = {0};
    assert_int_equal(call(client, "POST", "/x", "{}", &body, &err), -ETIMEDOUT);
    kube_client_free(client);
    strbuf_done(&body);
}

static void broken_answers_leave_no_body(void **state)
{
    (void)state;
    script.per_connection = 1;
    script.answers[0] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    script.answers[1] = NULL;
    script.answers[2] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    struct kube_client *client = kube_client_new(base_url, 10000);
    struct strbuf body = {0};
    struct error err = {0};
    assert_int_equal(call(client, "GET", "/x", NULL, &body, &err), -EIO);
    assert_int_equal(body.len, 0);
    assert_int_equal(call(client, "GET", "/x", NULL, &body, &err), -EIO);
    assert_int_equal(call(client, "GET", "/x", NULL, &body, &err), 200);
    assert_int_equal(body.len, 2);
    kube_client_free(client);
    strbuf_done(&body);
}

static void proxies_of_the_environment_are_not_used(void **state)
{
    (void)state;
    script.answers[0] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    struct kube_client *client = kube_client_new(base_url, 10000);
    struct strbuf body = {0};
    struct error err = {0};
    assert_int_equal(call(client, "GET", "/x", NULL, &body, &err), 200);
    unsetenv("http_proxy");
    kube_client_free(client);
    kube_client_free(NULL);
    strbuf_done(&body);
}

int main(void)
{
    kube_global_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_and_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(silence_times_out, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_answers_leave_no_body, setup, teardown),
        cmocka_unit_test_setup_teardown(proxies_of_the_environment_are_not_used, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
