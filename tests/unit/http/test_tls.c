/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls.h"

#include "base/mem.h"
#include "http/server.h"
#include "http/tls_session.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Certificates made on the spot, in files of a folder of this test's own. */

#define DAY ((time_t)24 * 3600)

static char folder[] = "/tmp/tls-test-XXXXXX";
static char cert_path[64], key_path[64], ca_path[64];

struct identity {
    gnutls_x509_crt_t cert;
    gnutls_x509_privkey_t key;
};

static struct identity ca; /* of server and clients */

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Signed by `signer`, or by itself when that is NULL. */
static struct identity make(const struct identity *signer, const char *name, time_t expires)
{
    static _Atomic unsigned char serial;
    unsigned char number = ++serial;
    struct identity made;
    assert_int_equal(gnutls_x509_privkey_init(&made.key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(made.key, GNUTLS_PK_ECDSA,
                                                  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
                                                  0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&made.cert), 0);
    gnutls_x509_crt_set_version(made.cert, 3);
    gnutls_x509_crt_set_serial(made.cert, &number, 1);
    gnutls_x509_crt_set_activation_time(made.cert, time(NULL) - DAY);
    gnutls_x509_crt_set_expiration_time(made.cert, expires);
    gnutls_x509_crt_set_dn_by_oid(made.cert, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                  (unsigned)strlen(name));
    gnutls_x509_crt_set_ca_status(made.cert, signer == NULL);
    gnutls_x509_crt_set_key(made.cert, made.key);
    if (signer == NULL)
        gnutls_x509_crt_set_key_usage(made.cert,
                                      GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_DIGITAL_SIGNATURE);
    const struct identity *by = signer != NULL ? signer : &made;
    assert_int_equal(
        gnutls_x509_crt_sign2(made.cert, by->cert, by->key, GNUTLS_DIG_SHA256, 0), 0);
    return made;
}

static void drop(struct identity *identity)
{
    gnutls_x509_crt_deinit(identity->cert);
    gnutls_x509_privkey_deinit(identity->key);
}

/* As a whole: a reader finds the old text or the new one. */
static void write_file(const char *path, const void *text, size_t size)
{
    char fresh[80];
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    FILE *file = fopen(fresh, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

static void write_cert(const char *path, gnutls_x509_crt_t cert)
{
    gnutls_datum_t pem;
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem), 0);
    write_file(path, pem.data, pem.size);
    gnutls_free(pem.data);
}

static void write_key(const char *path, gnutls_x509_privkey_t key)
{
    gnutls_datum_t pem;
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
    write_file(path, pem.data, pem.size);
    gnutls_free(pem.data);
}

/* A new certificate for the server, written out. */
static void renew(time_t expires)
{
    struct identity server = make(&ca, "server", expires);
    write_cert(cert_path, server.cert);
    write_key(key_path, server.key);
    drop(&server);
}

static int setup(void **state)
{
    (void)state;
    ca = make(NULL, "ca", time(NULL) + DAY);
    write_cert(ca_path, ca.cert);
    renew(time(NULL) + DAY);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    drop(&ca);
    return 0;
}

static const char *const clients[] = {"kube-scheduler"};

static struct tls_options with_clients(void)
{
    return (struct tls_options){cert_path, key_path, ca_path, clients, 1};
}

static struct tls *open_tls(struct tls_options options)
{
    struct tls *tls;
    struct error err = {0};
    if (tls_open(&options, &tls, &err) != 0)
        fail_msg("%s", err.text);
    return tls;
}

/* Longer than changed files may go unnoticed. */
static void wait_for_look(void)
{
    sleep_ms(1050);
}

/* ---- files ---- */

static void check_refused(const char *path, const char *what)
{
    struct tls_options options = with_clients();
    struct tls *tls = NULL;
    struct error err = {0};
    assert_int_equal(tls_open(&options, &tls, &err), -EINVAL);
    assert_null(tls);
    assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
    if (strstr(err.text, what) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", err.text, what);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    struct identity other = make(&ca, "other", time(NULL) + DAY);
    write_key(key_path, other.key);
    check_refused(key_path, ": not the key of the certificate in ");
    write_file(key_path, "x", 1);
    check_refused(key_path, ": no private key in PEM: ");
    unlink(key_path);
    check_refused(key_path, ": No such file or directory");
    drop(&other);

    renew(time(NULL) - 1);
    check_refused(cert_path, ": the certificate has expired");
    write_file(cert_path, "", 0);
    check_refused(cert_path, ": no certificates in PEM");
    renew(time(NULL) + DAY);
    write_file(ca_path, "x", 1);
    check_refused(ca_path, ": no certificates in PEM");
    write_file(ca_path, "", 0);
    check_refused(ca_path, ": no certificates in PEM");
}

static void failed_allocations_are_survived(void **state)
{
    (void)state;
    struct tls_options options = with_clients();
    struct tls *tls;
    struct error err;
    mem_fail_at(0);
    tls_close(open_tls(options));
    long needed = mem_count();
    assert_true(needed > 5);
    for (long n = 1; n <= needed; n++) {
        mem_fail_at(n);
        int rc = tls_open(&options, &tls, &err);
        mem_fail_at(0);
        assert_int_equal(rc, -ENOMEM);
    }
}

static void readings_live_as_long_as_they_are_used(void **state)
{
    (void)state;
    struct tls *tls = open_tls(with_clients());
    struct tls_material *first = tls_current(tls);
    struct tls_material *again = tls_current(tls);
    assert_ptr_equal(first, again);
    renew(time(NULL) + DAY);
    wait_for_look();
    struct tls_material *second = tls_current(tls);
    assert_ptr_not_equal(first, second);
    assert_true(second->generation > first->generation);
    tls_close(tls);
    assert_int_equal(gnutls_privkey_get_pk_algorithm(first->key, NULL), GNUTLS_PK_ECDSA);
    tls_material_unref(first);
    tls_material_unref(again);
    tls_material_unref(second);
}

static void bad_files_leave_the_old_reading(void **state)
{
    (void)state;
    struct tls *tls = open_tls(with_clients());
    struct tls_material *first = tls_current(tls);
    assert_true(tls_healthy(tls));
    write_file(key_path, "x", 1);
    wait_for_look();
    assert_false(tls_healthy(tls));
    struct tls_material *second = tls_current(tls);
    assert_ptr_equal(first, second);
    renew(time(NULL) + DAY);
    wait_for_look();
    assert_true(tls_healthy(tls));
    tls_material_unref(first);
    tls_material_unref(second);
    tls_close(tls);
}

static void files_are_read_again_only_when_they_changed(void **state)
{
    (void)state;
    struct tls *tls = open_tls(with_clients());
    struct tls_material *first = tls_current(tls);
    wait_for_look();
    struct tls_material *second = tls_current(tls);
    assert_ptr_equal(first, second);
    tls_material_unref(first);
    tls_material_unref(second);
    tls_close(tls);
}

static void an_expired_certificate_is_not_healthy(void **state)
{
    (void)state;
    renew(time(NULL) + 2);
    struct tls *tls = open_tls(with_clients());
    assert_true(tls_healthy(tls));
    sleep_ms(3100);
    assert_false(tls_healthy(tls));
    tls_close(tls);
}

/* ---- a server ---- */

static void hello(void *self, const struct http_request *request, struct http_reply *reply)
{
    (void)self;
    strbuf_puts(&reply->body, request->known_client ? "known" : "unknown");
}

static const struct http_route routes[] = {
    {"GET", "/verb", hello, NULL, HTTP_ACCESS_CLIENTS},
    {"GET", "/health", hello, NULL, HTTP_ACCESS_ALL},
};

static struct http_server *start(struct tls *tls, const struct http_route *first, uint32_t count)
{
    struct http_options options = {.address = "127.0.0.1",
                                   .tls = tls,
                                   .max_body_bytes = 1000,
                                   .max_bodies_bytes = 100000,
                                   .max_connections = 80,
                                   .max_connections_per_client = 80,
                                   .idle_timeout_ms = 60000,
                                   .request_timeout_ms = 30000,
                                   .routes = first,
                                   .route_count = count};
    struct http_server *server;
    struct error err = {0};
    if (http_server_start(&options, &server, &err) != 0)
        fail_msg("%s", err.text);
    return server;
}

/* What came of one call on a connection of its own. Fails nothing: it runs in threads too. */
struct outcome {
    int status; /* 0 = no answer */
    bool was_asked;
    char body[128];
};

static int connect_to(const struct http_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(http_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void ask(gnutls_session_t session, const char *path, struct outcome *outcome)
{
    char text[1024];
    int length =
        snprintf(text, sizeof(text),
                 "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    if (gnutls_record_send(session, text, (size_t)length) != length)
        return;
    size_t len = 0;
    ssize_t got;
    while (len < sizeof(text) - 1 &&
           (got = gnutls_record_recv(session, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    const char *body = strstr(text, "\r\n\r\n");
    if (body != NULL && sscanf(text, "HTTP/1.1 %d", &outcome->status) == 1)
        snprintf(outcome->body, sizeof(outcome->body), "%.100s", body + 4);
}

/* `me` may be NULL. The server must be of the CA. */
static struct outcome call(const struct http_server *server, const struct identity *me,
                           const char *path)
{
    struct outcome outcome = {0};
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    int fd = connect_to(server);
    if (fd < 0)
        return outcome;
    gnutls_certificate_allocate_credentials(&credentials);
    gnutls_certificate_set_x509_trust(credentials, &ca.cert, 1);
    if (me != NULL) {
        gnutls_x509_crt_t cert = me->cert;
        gnutls_certificate_set_x509_key(credentials, &cert, 1, me->key);
    }
    gnutls_init(&session, GNUTLS_CLIENT);
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_session_set_verify_cert(session, NULL, 0);
    gnutls_transport_set_int(session, fd);
    gnutls_handshake_set_timeout(session, 20000);
    int code;
    while ((code = gnutls_handshake(session)) < 0 && !gnutls_error_is_fatal(code))
        ;
    if (code == 0) {
        outcome.was_asked = gnutls_certificate_client_get_request_status(session) != 0;
        ask(session, path, &outcome);
    }
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    close(fd);
    return outcome;
}

static void expect(const struct http_server *server, const struct identity *me, const char *path,
                   int status, const char *body)
{
    struct outcome outcome = call(server, me, path);
    assert_int_equal(outcome.status, status);
    assert_string_equal(outcome.body, body);
}

static void verbs_need_a_certificate(void **state)
{
    (void)state;
    struct tls *tls = open_tls(with_clients());
    struct http_server *server = start(tls, routes, 2);
    struct identity good = make(&ca, "kube-scheduler", time(NULL) + DAY);
    struct identity late = make(&ca, "kube-scheduler", time(NULL) - 1);
    struct identity named = make(&ca, "somebody", time(NULL) + DAY);
    struct identity self_made = make(NULL, "kube-scheduler", time(NULL) + DAY);

    expect(server, &good, "/verb", 200, "known");
    expect(server, NULL, "/verb", 403, "{\"error\":\"the client certificate is missing\"}");
    expect(server, &late, "/verb", 403, "{\"error\":\"the client certificate has expired\"}");
    expect(server, &named, "/verb", 403,
           "{\"error\":\"the client certificate has no name that is allowed here\"}");
    expect(server, &self_made, "/verb", 403,
           "{\"error\":\"the client certificate is of an unknown CA\"}");
    expect(server, NULL, "/health", 200, "unknown");
    expect(server, &named, "/health", 200, "unknown");
    expect(server, &good, "/health", 200, "known");

    assert_int_equal(http_server_stop(server, 5000), 0);
    tls_close(tls);
    drop(&good);
    drop(&late);
    drop(&named);
    drop(&self_made);
}

/* The library's own function ends names at a NUL, so this is written as DER: one DNS name. */
static void set_dns_name(struct identity *identity, const char *name, size_t size)
{
    unsigned char der[64] = {0x30, (unsigned char)(size + 2), 0x82, (unsigned char)size};
    assert_true(size + 4 <= sizeof(der));
    memcpy(der + 4, name, size);
    assert_int_equal(
        gnutls_x509_crt_set_extension_by_oid(identity->cert, "2.5.29.17", der, size + 4, 0), 0);
    assert_int_equal(
        gnutls_x509_crt_sign2(identity->cert, ca.cert, ca.key, GNUTLS_DIG_SHA256, 0), 0);
}

/* Names are compared by length: a NUL in one hides nothing behind it. */
static void names_with_a_nul_are_other_names(void **state)
{
    (void)state;
    static const char name[] = "kube-scheduler\0.example";
    struct tls *tls = open_tls(with_clients());
    struct http_server *server = start(tls, routes, 2);
    struct identity sly = make(&ca, "x", time(NULL) + DAY);
    set_dns_name(&sly, name, sizeof(name) - 1);
    expect(server, &sly, "/verb", 403,
           "{\"error\":\"the client certificate has no name that is allowed here\"}");
    set_dns_name(&sly, name, strlen(name));
    expect(server, &sly, "/verb", 200, "known");
    assert_int_equal(http_server_stop(server, 5000), 0);
    tls_close(tls);
    drop(&sly);
}

static void a_server_of_open_routes_asks_for_nothing(void **state)
{
    (void)state;
    struct tls *tls = open_tls(with_clients());
    struct http_server *verbs = start(tls, routes, 2), *health = start(tls, routes + 1, 1);
    assert_true(call(verbs, NULL, "/health").was_asked);
    struct outcome outcome = call(health, NULL, "/health");
    assert_false(outcome.was_asked);
    assert_int_equal(outcome.status, 200);
    assert_int_equal(http_server_stop(verbs, 5000), 0);
    assert_int_equal(http_server_stop(health, 5000), 0);
    tls_close(tls);
}

/* ---- rotation under load ---- */

struct load {
    struct http_server *server;
    struct identity *me;
    atomic_bool over;
    atomic_uint calls, failures;
};

static void *call_on(void *self)
{
    struct load *load = self;
    while (!atomic_load(&load->over)) {
        atomic_fetch_add(&load->calls, 1);
        if (call(load->server, load->me, "/verb").status != 200)
            atomic_fetch_add(&load->failures, 1);
    }
    return NULL;
}

static void rotation_loses_no_call(void **state)
{
    enum { THREADS = 4 };
    (void)state;
    struct identity me = make(&ca, "kube-scheduler", time(NULL) + DAY);
    struct tls *tls = open_tls(with_clients());
    struct load load = {.server = start(tls, routes, 2), .me = &me};
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_on, &load), 0);
    for (unsigned round = 0; round < 2; round++) {
        renew(time(NULL) + DAY);
        wait_for_look();
    }
    atomic_store(&load.over, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&load.calls) > THREADS);
    assert_int_equal(atomic_load(&load.failures), 0);
    struct tls_material *now = tls_current(tls);
    assert_true(now->generation >= 3);
    tls_material_unref(now);
    assert_int_equal(http_server_stop(load.server, 5000), 0);
    tls_close(tls);
    drop(&me);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_files_are_refused),
        TEST(failed_allocations_are_survived),
        TEST(readings_live_as_long_as_they_are_used),
        TEST(bad_files_leave_the_old_reading),
        TEST(files_are_read_again_only_when_they_changed),
        TEST(an_expired_certificate_is_not_healthy),
        TEST(verbs_need_a_certificate),
        TEST(names_with_a_nul_are_other_names),
        TEST(a_server_of_open_routes_asks_for_nothing),
        TEST(rotation_loses_no_call),
    };
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(cert_path, sizeof(cert_path), "%s/tls.crt", folder);
    snprintf(key_path, sizeof(key_path), "%s/tls.key", folder);
    snprintf(ca_path, sizeof(ca_path), "%s/client-ca.crt", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(cert_path);
    unlink(key_path);
    unlink(ca_path);
    rmdir(folder);
    return failed;
}
