/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include "config/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_same(const struct config *a, const struct config *b)
{
    for (uint32_t i = 0; i < config_key_count; i++) {
        if (!config_key_equal(&config_keys[i], a, b))
            fail_msg("%s differs", config_keys[i].path);
    }
}

static void print_and_read(const struct config *config)
{
    struct strbuf text, problems;
    struct config back;

    strbuf_init(&text);
    strbuf_init(&problems);
    config_print(config, &text);
    if (config_parse((struct str){text.data, text.len}, "printed", &back, &problems) != 0)
        fail_msg("%s", problems.data);
    assert_same(config, &back);
    strbuf_done(&text);
}

static void defaults_read_back(void **state)
{
    struct config config;

    (void)state;
    config_defaults(&config);
    print_and_read(&config);
}

/* Every key away from its default, by values that are hard to print. */
static void other_values_read_back(void **state)
{
    static const char *const values[][2] = {
        {"server.address", "::"},
        {"server.port", "0"},
        {"server.urlPrefix", "/a.b/~c"},
        {"server.maxBodyBytes", "65536"},
        {"server.maxBodiesBytes", "65537"},
        {"server.maxNesting", "16"},
        {"server.maxNodes", "1"},
        {"server.maxConnections", "9999"},
        {"server.maxConnectionsPerClient", "9998"},
        {"server.idleTimeout", "95001ms"},
        {"server.requestTimeout", "1m"},
        {"server.drainTimeout", "0s"},
        {"server.allowPlainHTTP", "true"},
        {"server.tls.certFile", "tls.crt"},
        {"server.tls.keyFile", "/etc/tls key"},
        {"server.tls.clientCAFile", "null"},
        {"server.tls.allowedClients", "kube-scheduler,spiffe://x/y: z,true,\"[1]\""},
        {"health.address", "127.0.0.2"},
        {"health.port", "65535"},
        {"policy.device", "binpack"},
        {"policy.node", "none"},
        {"policy.nodeStrength", "require"},
        {"policy.maxCandidates", "0"},
        {"policy.inFlightWait", "1s"},
        {"policy.tentative", "false"},
        {"policy.namespaceLabels", "true"},
        {"unknownPods", "ignore"},
        {"devicePluginNodes", "allow"},
        {"annotations", "koordinator,hami"},
        {"hami.defaultMemoryMiB", "512"},
        {"hami.defaultCores", "30"},
        {"hami.memoryFactor", "1024"},
        {"hami.turnWait", "0s"},
        {"hami.turnWaiters", "0"},
        {"metrics.perCard", "on"},
        {"metrics.perCardMaxNodes", "0"},
        {"debug.remote", "true"},
        {"log.verbosity", "10"},
        {"kubernetes.kubeconfig", "~"},
        {"kubernetes.context", "yes: no"},
        {"reflector.pageSize", "1"},
        {"reflector.watchTimeout", "10s"},
        {"reflector.idleTimeout", "1s"},
        {"bind.timeout", "100ms"},
        {"bind.delivery", "101ms"},
        {"bind.clients", "256"},
        {"leaderElection.enabled", "false"},
        {"leaderElection.namespace", "true"},
        {"leaderElection.name", "1.5"},
        {"leaderElection.leaseDuration", "1h"},
        {"leaderElection.renewDeadline", "59m"},
        {"leaderElection.retryPeriod", "100ms"},
        {"wake.enabled", "false"},
        {"wake.pause", "1h"},
        {"wake.burst", "10000"},
        {"embedded.manifests", "- x: \"q\" \\ # \xc3\xa4 \xf0\x9f\x98\x80 'z' "},
    };
    static const char *const texts[] = {"1",   "true", "null", "~",   "0x10", "no",
                                        "a b", "",     " ",    "...", "---",  "*a"};
    struct config config, defaults;
    struct error err;

    (void)state;
    config_defaults(&defaults);
    config = defaults;
    assert_int_equal(sizeof values / sizeof values[0], config_key_count);
    for (size_t i = 0; i < config_key_count; i++) {
        if (config_set(&config, values[i][0], values[i][1], &err) != 0)
            fail_msg("%s", err.text);
        assert_string_equal(values[i][0], config_keys[i].path);
        assert_false(config_key_equal(&config_keys[i], &config, &defaults));
    }
    print_and_read(&config);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(config_set(&config, "embedded.manifests", texts[i], &err), 0);
        print_and_read(&config);
    }
}

static struct strbuf read_whole(const char *path)
{
    struct strbuf text;
    FILE *file = fopen(path, "r");
    char piece[1024];
    size_t got;

    strbuf_init(&text);
    if (file == NULL)
        fail_msg("%s cannot be opened; tests run in the top of the tree", path);
    while ((got = fread(piece, 1, sizeof piece, file)) > 0)
        strbuf_add(&text, piece, got);
    fclose(file);
    return text;
}

/* The shipped file is the manual, so it must say what the table says, to the letter. */
static void shipped_file_is_the_printed_one(void **state)
{
    struct config defaults;
    struct strbuf printed, shipped = read_whole("config/deviceshare-extender.yaml");

    (void)state;
    config_defaults(&defaults);
    strbuf_init(&printed);
    config_print(&defaults, &printed);
    assert_string_equal(printed.data, shipped.data);
    for (uint32_t i = 0; i < config_key_count; i++) {
        const char *path = config_keys[i].path, *dot = strrchr(path, '.');
        int dots = (dot != NULL) + (dot != NULL && strchr(path, '.') != dot);
        char line[64];

        snprintf(line, sizeof line, "\n%*s%s: ", 2 * dots, "", dot != NULL ? dot + 1 : path);
        assert_non_null(strstr(shipped.data, line));
    }
    strbuf_done(&printed);
    strbuf_done(&shipped);
}

static void shipped_minimal_file_is_all_defaults(void **state)
{
    struct config config, defaults;
    struct strbuf problems;

    (void)state;
    config_defaults(&defaults);
    strbuf_init(&problems);
    if (config_load("config/deviceshare-extender-minimal.yaml", &config, &problems) != 0)
        fail_msg("%s", problems.data);
    assert_same(&config, &defaults);
}

static void demo_file_is_valid(void **state)
{
    struct config config;
    struct strbuf problems;

    (void)state;
    strbuf_init(&problems);
    if (config_load("config/demo/extender.yaml", &config, &problems) != 0)
        fail_msg("%s", problems.data);
    assert_string_equal(config.embedded.manifests, "config/demo/cluster");
}

static void lines_are_short_and_reference_has_every_key(void **state)
{
    struct config defaults;
    struct strbuf out;
    size_t rows = 0;

    (void)state;
    config_defaults(&defaults);
    strbuf_init(&out);
    config_print(&defaults, &out);
    for (char *line = strtok(out.data, "\n"); line != NULL; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 100);
    strbuf_done(&out);

    config_print_reference(&out);
    for (const char *c = out.data; *c != '\0'; c++)
        rows += *c == '\n';
    assert_int_equal(rows, config_key_count + 2);
    assert_non_null(strstr(out.data, "| `server.port` | integer, 0 to 65535 | `9876` | no | "));
    assert_non_null(
        strstr(out.data, "| `policy.device` | default, binpack, spread or pack | `default` | yes | "));
    assert_non_null(
        strstr(out.data, "| `server.idleTimeout` | duration, 95s to 3600s | `120s` | no | "));
    assert_non_null(strstr(
        out.data, "| `server.tls.allowedClients` | list of text, up to 32 | `[]` | no | "));
    strbuf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_read_back),
        cmocka_unit_test(other_values_read_back),
        cmocka_unit_test(shipped_file_is_the_printed_one),
        cmocka_unit_test(shipped_minimal_file_is_all_defaults),
        cmocka_unit_test(demo_file_is_valid),
        cmocka_unit_test(lines_are_short_and_reference_has_every_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
