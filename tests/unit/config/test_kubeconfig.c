/* SPDX-License-Identifier: Apache-2.0 */
#include "config/kubeconfig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"

/* base64 of what follows it */
#define CA_DATA   "LS0tLS1CRUdJTiBDQS0tLS0tCk1JSUJDQQotLS0tLUVORCBDQS0tLS0tCg=="
#define CA_PEM    "-----BEGIN CA-----\nMIIBCA\n-----END CA-----\n"
#define CERT_DATA "LS0tLS1CRUdJTiBDRVJULS0tLS0KTUlJQkNFUlQKLS0tLS1FTkQgQ0VSVC0tLS0tCg=="
#define CERT_PEM  "-----BEGIN CERT-----\nMIIBCERT\n-----END CERT-----\n"
#define KEY_DATA  "LS0tLS1CRUdJTiBLRVktLS0tLQpNSUlCS0VZCi0tLS0tRU5EIEtFWS0tLS0tCg=="
#define KEY_PEM   "-----BEGIN KEY-----\nMIIBKEY\n-----END KEY-----\n"

static char dir[] = "/tmp/deviceshare-kubeconfig-XXXXXX";
static char file[64];
static struct arena mem;
static struct api_access got;
static struct error err;

static int setup(void **state)
{
    (void)state;
    strcpy(dir + sizeof dir - 7, "XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(file, sizeof file, "%s/config", dir);
    arena_init(&mem, 0);
    memset(&got, 0, sizeof got);
    memset(&err, 0, sizeof err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    rmdir(dir);
    arena_done(&mem);
    return 0;
}

static void write_file(const char *text)
{
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void load(const char *text, const char *context)
{
    write_file(text);
    if (kubeconfig_load(file, context, &mem, &got, &err) != 0)
        fail_msg("%s", err.text);
}

static void assert_text(const char *text, const char *expected)
{
    assert_non_null(text);
    assert_string_equal(text, expected);
}

/* ---- files as tools write them ---- */

/* kubeadm's admin.conf, and what kind writes. */
static const char kubeadm[] = "apiVersion: v1\n"
                              "clusters:\n"
                              "- cluster:\n"
                              "    certificate-authority-data: " CA_DATA "\n"
                              "    server: https://10.0.0.5:6443\n"
                              "  name: kubernetes\n"
                              "contexts:\n"
                              "- context:\n"
                              "    cluster: kubernetes\n"
                              "    user: kubernetes-admin\n"
                              "  name: kubernetes-admin@kubernetes\n"
                              "current-context: kubernetes-admin@kubernetes\n"
                              "kind: Config\n"
                              "preferences: {}\n"
                              "users:\n"
                              "- name: kubernetes-admin\n"
                              "  user:\n"
                              "    client-certificate-data: " CERT_DATA "\n"
                              "    client-key-data: " KEY_DATA "\n";

static void one_of_kubeadm(void **state)
{
    (void)state;
    load(kubeadm, NULL);
    assert_text(got.server, "https://10.0.0.5:6443");
    assert_text(got.ca_pem, CA_PEM);
    assert_text(got.client_cert_pem, CERT_PEM);
    assert_text(got.client_key_pem, KEY_PEM);
    assert_null(got.ca_file);
    assert_null(got.client_cert_file);
    assert_null(got.client_key_file);
    assert_null(got.token);
    assert_null(got.token_file);
    assert_null(got.ns);
    assert_null(got.tls_server_name);
    assert_false(got.insecure);
}

/* Several clusters in one file, and unknown keys: kubectl config, minikube. */
static const char kubectl[] =
    "apiVersion: v1\n"
    "kind: Config\n"
    "current-context: mini\n"
    "clusters:\n"
    "- name: mini\n"
    "  cluster:\n"
    "    certificate-authority: /home/u/.minikube/ca.crt\n"
    "    extensions:\n"
    "    - extension: {last-update: \"Mon\", provider: minikube.sigs.k8s.io}\n"
    "      name: cluster_info\n"
    "    server: https://192.168.49.2:8443/\n"
    "- name: far\n"
    "  cluster:\n"
    "    server: 'https://[fd00::1]:6443/k8s/clusters/c-1//'\n"
    "    tls-server-name: kubernetes.default.svc\n"
    "    certificate-authority: pki/ca.crt\n"
    "    certificate-authority-data: \"\"\n"
    "    disable-compression: true\n"
    "- name: lab\n"
    "  cluster: {server: \"https://lab:6443\", insecure-skip-tls-verify: true}\n"
    "contexts:\n"
    "- name: mini\n"
    "  context: {cluster: mini, user: mini, namespace: gpu}\n"
    "- name: far\n"
    "  context:\n"
    "    cluster: far\n"
    "    user: robot\n"
    "- name: lab\n"
    "  context: {cluster: lab}\n"
    "users:\n"
    "- name: mini\n"
    "  user:\n"
    "    client-certificate: profiles/client.crt\n"
    "    client-key: /abs/client.key\n"
    "- name: robot\n"
    "  user:\n"
    "    token: abc.def\n"
    "    tokenFile: token\n"
    "    as: \"\"\n"
    "    username:\n"
    "- name: other\n"
    "  user:\n"
    "    exec: {command: aws}\n";

static void the_current_context_of_several(void **state)
{
    (void)state;
    load(kubectl, NULL);
    char expected[128];
    snprintf(expected, sizeof expected, "%s/profiles/client.crt", dir);
    assert_text(got.server, "https://192.168.49.2:8443");
    assert_text(got.ca_file, "/home/u/.minikube/ca.crt");
    assert_text(got.client_cert_file, expected);
    assert_text(got.client_key_file, "/abs/client.key");
    assert_text(got.ns, "gpu");
}

static void a_chosen_context(void **state)
{
    (void)state;
    load(kubectl, "far");
    char expected[128];
    assert_text(got.server, "https://[fd00::1]:6443/k8s/clusters/c-1");
    assert_text(got.tls_server_name, "kubernetes.default.svc");
    snprintf(expected, sizeof expected, "%s/pki/ca.crt", dir);
    assert_text(got.ca_file, expected);
    assert_text(got.token, "abc.def");
    snprintf(expected, sizeof expected, "%s/token", dir);
    assert_text(got.token_file, expected);
    assert_null(got.ns);

    load(kubectl, "lab");
    assert_true(got.insecure);
    assert_null(got.token);
}

static void json_is_yaml(void **state)
{
    (void)state;
    load(
        "{\"apiVersion\": \"v1\", \"kind\": \"Config\", \"current-context\": \"c\",\n"
        "\t\"clusters\": [{\"name\": \"c\", \"cluster\": {\"server\": \"https://h:1\"}}],\n"
        "\t\"contexts\": [{\"name\": \"c\", \"context\": {\"cluster\": \"c\", \"user\": \"u\"}}],\n"
        "\t\"users\": [{\"name\": \"u\", \"user\": {\"token\": \"t\"}}]}\n",
        NULL);
    assert_text(got.server, "https://h:1");
    assert_text(got.token, "t");
}

static void data_in_a_block_of_lines(void **state)
{
    (void)state;
    load("current-context: c\n"
         "clusters:\n"
         "- name: c\n"
         "  cluster:\n"
         "    server: https://h:1\n"
         "    certificate-authority-data: |\n"
         "      LS0tLS1CRUdJTiBDQS0tLS0tCk1JSUJDQQotLS0t\n"
         "      LUVORCBDQS0tLS0tCg==\n"
         "contexts: [{name: c, context: {cluster: c}}]\n",
         NULL);
    assert_text(got.ca_pem, CA_PEM);
}

static void nobody_is_named_in_clear_text(void **state)
{
    (void)state;
    load("current-context: c\n"
         "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:8001'}}]\n"
         "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
         "users: [{name: u, user: {token: t, client-certificate: a, client-key: b}}]\n",
         NULL);
    assert_text(got.server, "http://127.0.0.1:8001");
    assert_null(got.token);
    assert_null(got.client_cert_file);
    assert_null(got.client_key_file);
}

/* ---- problems ---- */

/* A file of one cluster with these members, and one user with those. */
static void write_with(const char *cluster, const char *user)
{
    char text[2048];
    snprintf(text, sizeof text,
             "current-context: c\n"
             "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
             "clusters:\n"
             "- name: c\n"
             "  cluster:\n"
             "    %s\n"
             "users:\n"
             "- name: u\n"
             "  user:\n"
             "    %s\n",
             cluster, user);
    write_file(text);
}

static void expect_problem(const char *place, const char *sentence)
{
    char expected[256];
    snprintf(expected, sizeof expected, "%s%s%s", file, place, sentence);
    struct api_access before = got;
    int rc = kubeconfig_load(file, NULL, &mem, &got, &err);
    if (rc != -EINVAL || strncmp(err.text, expected, strlen(expected)) != 0)
        fail_msg("%d \"%s\", not \"%s\"", rc, rc < 0 ? err.text : "", expected);
    assert_memory_equal(&got, &before, sizeof got);
}

static void what_is_not_supported_is_named(void **state)
{
    (void)state;
    static const char *const users[][2] = {
        {"exec: {command: aws, apiVersion: client.authentication.k8s.io/v1}", "exec: "},
        {"auth-provider: {name: gcp}", "auth-provider: "},
        {"username: admin", "username: "},
        {"password: p", "password: "},
        {"as: root", "as: "},
        {"as-uid: \"1\"", "as-uid: "},
        {"as-groups: [a]", "as-groups: "},
        {"as-user-extra: {a: [b]}", "as-user-extra: "},
    };
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
        char place[32];
        write_with("server: https://h:1", users[i][0]);
        snprintf(place, sizeof place, ":10:%zu: ", strlen(users[i][1]) + 5);
        expect_problem(place, users[i][1]);
    }
    write_with("{server: 'https://h:1', proxy-url: 'http://p:3128'}", "{}");
    expect_problem(":6:40: ", "proxy-url: ");
}

static void wrong_values_are_placed(void **state)
{
    (void)state;
    static const struct {
        const char *cluster, *user, *place, *sentence;
    } cases[] = {
        {"{}", "{}", ":6:5: ", "server: must be given"},
        {"server: ''", "{}", ":6:5: ", "server: must be given"},
        {"server: h:6443", "{}", ":6:13: ", "server: must begin with"},
        {"server: [a]", "{}", ":6:13: ", "server: must be a text"},
        {"text", "{}", ":6:5: ", "must be a mapping"},
        {"server: https://h\n    server: https://i", "{}", ":7:5: ", "server: is given twice"},
        {"server: https://h\n    insecure-skip-tls-verify: maybe", "{}",
         ":7:31: ", "insecure-skip-tls-verify: must be true or false"},
        {"server: https://h\n    certificate-authority: a\n    insecure-skip-tls-verify: true",
         "{}", ":8:31: ", "insecure-skip-tls-verify: not together with"},
        {"server: https://h\n    certificate-authority-data: '%%%'", "{}",
         ":7:33: ", "certificate-authority-data: is not base64"},
        {"server: https://h\n    certificate-authority-data: Zm9v", "{}",
         ":7:33: ", "certificate-authority-data: must be base64 of a PEM text"},
        {"server: https://h\n    certificate-authority-data: \"\\n\"", "{}",
         ":7:33: ", "certificate-authority-data: must be base64 of a PEM text"},
        {"server: https://h\n    certificate-authority: \"a\\0b\"", "{}",
         ":7:28: ", "certificate-authority: must not hold a NUL"},
        {"server: https://h", "client-certificate: a",
         ":10:5: ", "client-certificate and client-key"},
        {"server: https://h", "client-key-data: " KEY_DATA,
         ":10:5: ", "client-certificate and client-key"},
        {"server: https://h", "- a", ":10:5: ", "must be a mapping"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_with(cases[i].cluster, cases[i].user);
        expect_problem(cases[i].place, cases[i].sentence);
    }
}

static void names_that_lead_nowhere(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place, *sentence;
    } cases[] = {
        {"", ": ", "is empty"},
        {"kind: Pod\n", ":1:7: ", "kind: must be Config"},
        {"kind: Config\n", ":1:1: ", "current-context: must be given"},
        {"current-context: ''\n", ":1:1: ", "current-context: must be given"},
        {"current-context: c\n", ":1:18: ", "contexts: there is no \"c\""},
        {"current-context: c\ncontexts: {}\n", ":2:11: ", "contexts: must be a list"},
        {"current-context: c\ncontexts: [{name: d}]\n", ":1:18: ", "contexts: there is no \"c\""},
        {"current-context: c\ncontexts: [{name: c}]\n", ":1:18: ", "contexts: \"c\" says nothing"},
        {"current-context: c\ncontexts: [{name: c, context: {user: u}}]\n",
         ":2:31: ", "cluster: must be given"},
        {"current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n",
         ":2:31: ", "clusters: there is no \"k\""},
        {"current-context: c\ncontexts: [{name: c, context: {cluster: k}},\n  {name: c}]\n",
         ":3:3: ", "contexts: \"c\" is given twice"},
        {"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
         "clusters: [{name: k, cluster: {server: https://h}}]\nusers: []\n",
         ":2:31: ", "users: there is no \"u\""},
        {"- a\n", ":1:1: ", "must be a mapping"},
        {"a: [\n", ":2:1: ", "not YAML: "},
        {"\t", ":1:1: ", "not YAML: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(cases[i].text);
        expect_problem(cases[i].place, cases[i].sentence);
    }
    write_file(kubeadm);
    assert_int_equal(kubeconfig_load(file, "nowhere", &mem, &got, &err), -EINVAL);
    assert_non_null(strstr(err.text, "contexts: there is no \"nowhere\""));
}

static void secrets_stay_out_of_errors(void **state)
{
    (void)state;
    write_with("server: https://h", "token: hunter2\n    client-key-data: aHVudGVyMg==");
    assert_int_equal(kubeconfig_load(file, NULL, &mem, &got, &err), -EINVAL);
    assert_null(strstr(err.text, "hunter2"));
    assert_null(strstr(err.text, "aHVudGVyMg"));
}

static void a_file_that_is_not_there(void **state)
{
    (void)state;
    assert_int_equal(kubeconfig_load("/nonexistent/config", NULL, &mem, &got, &err), -ENOENT);
    assert_ptr_equal(strstr(err.text, "/nonexistent/config: "), err.text);
}

static void an_alias_of_itself_is_no_trap(void **state)
{
    (void)state;
    write_file("&a\ncurrent-context: c\ncontexts: [{name: c, context: *a}]\nclusters: *a\n");
    assert_int_equal(kubeconfig_load(file, NULL, &mem, &got, &err), -EINVAL);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    write_file(kubeadm);
    for (long n = 1;; n++) {
        mem_fail_at(n);
        int rc = kubeconfig_load(file, NULL, &mem, &got, &err);
        bool failed = mem_count() >= n;
        mem_fail_at(0);
        assert_int_equal(rc, failed ? -ENOMEM : 0);
        if (!failed)
            break;
        assert_null(got.server);
        arena_done(&mem);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_of_kubeadm),
        TEST(the_current_context_of_several),
        TEST(a_chosen_context),
        TEST(json_is_yaml),
        TEST(data_in_a_block_of_lines),
        TEST(nobody_is_named_in_clear_text),
        TEST(what_is_not_supported_is_named),
        TEST(wrong_values_are_placed),
        TEST(names_that_lead_nowhere),
        TEST(secrets_stay_out_of_errors),
        TEST(a_file_that_is_not_there),
        TEST(an_alias_of_itself_is_no_trap),
        TEST(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
