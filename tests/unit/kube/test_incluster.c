/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/incluster.h"

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

static char dir[] = "/tmp/deviceshare-account-XXXXXX";
static struct arena mem;
static struct api_access access_;
static struct error err;

static void write_namespace(const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/namespace", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int setup(void **state)
{
    (void)state;
    strcpy(dir + sizeof dir - 7, "XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    arena_init(&mem, 0);
    memset(&access_, 0, sizeof access_);
    write_namespace("gpu-system\n");
    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/namespace", dir);
    unlink(path);
    rmdir(dir);
    arena_done(&mem);
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    return 0;
}

static void a_pod_of_ours(void **state)
{
    (void)state;
    assert_int_equal(incluster_access(dir, &mem, &access_, &err), 0);
    char token[64], ca[64];
    snprintf(token, sizeof token, "%s/token", dir);
    snprintf(ca, sizeof ca, "%s/ca.crt", dir);
    assert_string_equal(access_.server, "https://10.96.0.1:443");
    assert_string_equal(access_.token_file, token);
    assert_string_equal(access_.ca_file, ca);
    assert_string_equal(access_.ns, "gpu-system");
    assert_false(access_.insecure);
}

static void a_cluster_of_ipv6(void **state)
{
    (void)state;
    setenv("KUBERNETES_SERVICE_HOST", "fd00:10:96::1", 1);
    assert_int_equal(incluster_access(dir, &mem, &access_, &err), 0);
    assert_string_equal(access_.server, "https://[fd00:10:96::1]:443");
}

static void elsewhere(void **state)
{
    (void)state;
    setenv("KUBERNETES_SERVICE_HOST", "", 1);
    assert_int_equal(incluster_access(dir, &mem, &access_, &err), -ENOENT);
    unsetenv("KUBERNETES_SERVICE_HOST");
    assert_int_equal(incluster_access(dir, &mem, &access_, &err), -ENOENT);
    assert_non_null(strstr(err.text, "not in a pod"));
    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
    unsetenv("KUBERNETES_SERVICE_PORT");
    assert_int_equal(incluster_access(dir, &mem, &access_, &err), -ENOENT);
    setenv("KUBERNETES_SERVICE_PORT", "https", 1);
    assert_int_equal(incluster_access(dir, &mem, &access_, &err), -EINVAL);
    assert_null(access_.server);
}

static void the_account_is_not_mounted(void **state)
{
    (void)state;
    assert_int_equal(incluster_access("/nonexistent", &mem, &access_, &err), -ENOENT);
    assert_ptr_equal(strstr(err.text, "/nonexistent/namespace: "), err.text);
    write_namespace("\n");
    assert_int_equal(incluster_access(dir, &mem, &access_, &err), -EINVAL);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        mem_fail_at(n);
        int rc = incluster_access(dir, &mem, &access_, &err);
        bool failed = mem_count() >= n;
        mem_fail_at(0);
        assert_int_equal(rc, failed ? -ENOMEM : 0);
        if (!failed)
            break;
        assert_null(access_.server);
        arena_done(&mem);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_pod_of_ours),
        TEST(a_cluster_of_ipv6),
        TEST(elsewhere),
        TEST(the_account_is_not_mounted),
        TEST(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
