/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * Whom the client trusts and who it says it is, against `openssl s_server`. All certificates are
 * made by two CAs of the test's own: ca.pem signs server.pem (kubernetes.default.svc, 10.96.0.1),
 * local.pem (127.0.0.1) and client.pem; other-ca.pem signs nothing.
 */

static char folder[] = "/tmp/deviceshare-tls-XXXXXX";
static struct error err;
static struct kube_response response;

static const char *path(const char *name)
{
    static char paths[16][128];
    static unsigned next;
    char *text = paths[next++ % 16];
    snprintf(text, sizeof paths[0], "%s/%s", folder, name);
    return text;
}

static void shell(const char *command)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "cd %s && { %s; } >log 2>&1", folder, command);
    if (system(whole) != 0) {
        snprintf(whole, sizeof whole, "cat %s/log >&2", folder);
        (void)!system(whole);
        fail_msg("%s", command);
    }
}

static void make_ca(const char *name)
{
    char command[512];
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
             "-subj /CN=%s -keyout %s.key -out %s.pem",
             name, name, name);
    shell(command);
}

static void make_certificate(const char *name, const char *names)
{
    char command[1024];
    snprintf(command, sizeof command,
             "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=%s "
             "-keyout %s.key -out %s.csr && echo subjectAltName=%s >%s.ext && "
             "openssl x509 -req -days 2 -in %s.csr -CA ca.pem -CAkey ca.key -set_serial %u "
             "-extfile %s.ext -out %s.pem",
             name, name, name, names, name, name, (unsigned)name[0], name, name);
    shell(command);
}

static int make_certificates(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    make_ca("ca");
    make_ca("other-ca");
    make_certificate("server", "DNS:kubernetes.default.svc,IP:10.96.0.1");
    make_certificate("local", "IP:127.0.0.1");
    make_certificate("client", "DNS:client");
    return 0;
}

static int remove_certificates(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* ---- the server ---- */

static pid_t server_pid;
static char url[64];

static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static bool can_connect(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return connected;
}

/* Serve with this certificate; with `asks`, only those who show one of ca.pem. */
static void serve(const char *name, bool asks)
{
    unsigned port = free_port();
    char certificate[64], key[64], accept[32];
    snprintf(certificate, sizeof certificate, "%s.pem", name);
    snprintf(key, sizeof key, "%s.key", name);
    snprintf(accept, sizeof accept, "127.0.0.1:%u", port);
    server_pid = fork();
    assert_true(server_pid >= 0);
    if (server_pid == 0) {
        if (chdir(folder) != 0 || freopen("server.log", "w", stdout) == NULL ||
            freopen("server.log", "w", stderr) == NULL)
            _exit(126);
        char *arguments[] = {"openssl",
                             "s_server",
                             "-www",
                             "-quiet",
                             "-accept",
                             accept,
                             "-cert",
                             certificate,
                             "-key",
                             key,
                             "-CAfile",
                             "ca.pem",
                             asks ? "-Verify" : NULL,
                             "1",
                             "-verify_return_error",
                             NULL};
        execvp("openssl", arguments);
        _exit(127);
    }
    for (int i = 0; i < 500 && !can_connect(port); i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    snprintf(url, sizeof url, "https://127.0.0.1:%u", port);
}

static int stop_server(void **state)
{
    (void)state;
    if (server_pid > 0) {
        kill(server_pid, SIGKILL);
        waitpid(server_pid, NULL, 0);
    }
    server_pid = 0;
    return 0;
}

/* Status of a GET, or the negative code. */
static int call(struct api_access access)
{
    struct strbuf body = {0};
    struct kube_request request = {.method = "GET", .path = "/"};
    access.server = url;
    struct kube_client *client = kube_client_open(&access, 5000, &err);
    if (client == NULL)
        return err.code;
    int rc = kube_client_send(client, &request, &body, &response, &err);
    kube_client_free(client);
    strbuf_done(&body);
    return rc < 0 ? rc : response.status;
}

static const char *text_of(const char *name)
{
    static char texts[3][8192];
    static unsigned next;
    char *text = texts[next++ % 3];
    FILE *file = fopen(path(name), "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof texts[0] - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- trust ---- */

static void the_ca_that_is_given(void **state)
{
    (void)state;
    serve("local", false);
    assert_int_equal(call((struct api_access){.ca_file = path("ca.pem")}), 200);
    assert_int_equal(call((struct api_access){.ca_pem = text_of("ca.pem")}), 200);
    /* Data wins over a file, as in a kubeconfig. */
    assert_int_equal(
        call((struct api_access){.ca_file = path("other-ca.pem"), .ca_pem = text_of("ca.pem")}),
        200);
}

static void no_other_ca(void **state)
{
    (void)state;
    serve("local", false);
    struct api_access wrong[] = {
        {.ca_file = NULL},
        {.ca_file = path("other-ca.pem")},
        {.ca_pem = text_of("other-ca.pem")},
        {.ca_pem = "not PEM"},
        {.ca_pem = ""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(call(wrong[i]), -ECONNREFUSED); /* no byte of a request was sent */
        assert_false(response.sent);
    }
    assert_int_equal(call((struct api_access){.insecure = true}), 200);
}

static void the_name_must_be_right(void **state)
{
    (void)state;
    serve("server", false);
    const char *ca = path("ca.pem");
    assert_int_equal(call((struct api_access){.ca_file = ca}), -ECONNREFUSED);
    static const struct {
        const char *name;
        int status;
    } names[] = {
        {"kubernetes.default.svc", 200}, {"10.96.0.1", 200},
        {"kubernetes", -ECONNREFUSED},   {"10.96.0.2", -ECONNREFUSED},
        {"127.0.0.1", -ECONNREFUSED},    {"not a name", -EINVAL},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int rc = call((struct api_access){.ca_file = ca, .tls_server_name = names[i].name});
        if (rc != names[i].status)
            fail_msg("%s: %d", names[i].name, rc);
    }
}

/* ---- identity ---- */

static void who_we_are(void **state)
{
    (void)state;
    serve("local", true);
    struct api_access files = {.ca_file = path("ca.pem"),
                               .client_cert_file = path("client.pem"),
                               .client_key_file = path("client.key")};
    struct api_access texts = {.ca_pem = text_of("ca.pem"),
                               .client_cert_pem = text_of("client.pem"),
                               .client_key_pem = text_of("client.key")};
    struct api_access nobody = {.ca_file = path("ca.pem")};
    struct api_access stranger = {.ca_file = path("ca.pem"),
                                  .client_cert_file = path("other-ca.pem"),
                                  .client_key_file = path("other-ca.key")};
    assert_int_equal(call(files), 200);
    assert_int_equal(call(texts), 200);
    assert_in_range(-call(nobody), 1, 200);
    assert_in_range(-call(stranger), 1, 200);
}

int main(void)
{
    kube_global_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_ca_that_is_given, stop_server),
        cmocka_unit_test_teardown(no_other_ca, stop_server),
        cmocka_unit_test_teardown(the_name_must_be_right, stop_server),
        cmocka_unit_test_teardown(who_we_are, stop_server),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
