/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include "base/mem.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD                                                                                       \
    "apiVersion: config.deviceshare.io/v1alpha1\n"                                                 \
    "kind: DeviceShareExtenderConfiguration\n"

static struct config parse_good(const char *text)
{
    struct config config;
    struct strbuf problems;
    int result;

    strbuf_init(&problems);
    result = config_parse(str_from(text), "f.yaml", &config, &problems);
    if (result != 0)
        print_message("%s", problems.data);
    assert_int_equal(result, 0);
    assert_int_equal(problems.len, 0);
    strbuf_done(&problems);
    return config;
}

/* The text is refused with exactly these problems, and the old value stays. */
static void check_bad(struct str text, const char *wanted)
{
    struct config config, before;
    struct strbuf problems;
    int result;

    memset(&config, 0x5a, sizeof config);
    before = config;
    strbuf_init(&problems);
    result = config_parse(text, "f.yaml", &config, &problems);
    assert_string_equal(problems.len > 0 ? problems.data : "", wanted);
    assert_int_equal(result, -EINVAL);
    assert_memory_equal(&config, &before, sizeof config);
    strbuf_done(&problems);
}

#define assert_bad(text, wanted) check_bad(STR(text), (wanted))

static void defaults_are_those_of_the_contract(void **state)
{
    struct config c;

    (void)state;
    config_defaults(&c);
    assert_string_equal(c.server.address, "127.0.0.1");
    assert_int_equal(c.server.port, 9876);
    assert_string_equal(c.server.url_prefix, "");
    assert_int_equal(c.server.max_body_bytes, 16 * 1024 * 1024);
    assert_int_equal(c.server.max_nesting, 64);
    assert_int_equal(c.server.max_nodes, 20000);
    assert_int_equal(c.server.max_connections, 256);
    assert_int_equal(c.server.max_connections_per_client, 128);
    assert_int_equal(c.server.idle_timeout_ms, 120000);
    assert_int_equal(c.server.request_timeout_ms, 10000);
    assert_int_equal(c.server.drain_timeout_ms, 20000);
    assert_string_equal(c.policy.device, "default");
    assert_string_equal(c.policy.node, "spread");
    assert_int_equal(c.unknown_pods, CONFIG_UNKNOWN_PODS_CLOSE);
    assert_int_equal(c.device_plugin_nodes, CONFIG_DEVICE_PLUGIN_NODES_REFUSE);
    assert_int_equal(c.metrics.per_card, CONFIG_PER_CARD_AUTO);
    assert_int_equal(c.metrics.per_card_max_nodes, 500);
    assert_false(c.debug.remote);
    assert_int_equal(c.log.verbosity, 2);
    assert_string_equal(c.embedded.manifests, "");
}

static void keys_are_read(void **state)
{
    struct config c = parse_good(HEAD "server:\n"
                                      "  address: \"::1\"\n"
                                      "  port: 0\n"
                                      "  urlPrefix: /gpu/v1\n"
                                      "  maxConnections: 10\n"
                                      "  maxConnectionsPerClient: 10\n"
                                      "  idleTimeout: 1m35s\n"
                                      "  requestTimeout: '250ms'\n"
                                      "policy: {device: binpack, node: none}\n"
                                      "unknownPods: ignore\n"
                                      "devicePluginNodes: allow\n"
                                      "metrics:\n"
                                      "  perCard: off\n"
                                      "debug:\n"
                                      "  remote: true\n"
                                      "log:\n"
                                      "embedded:\n"
                                      "  manifests: demo/cluster\n");

    (void)state;
    assert_string_equal(c.server.address, "::1");
    assert_int_equal(c.server.port, 0);
    assert_string_equal(c.server.url_prefix, "/gpu/v1");
    assert_int_equal(c.server.max_connections, 10);
    assert_int_equal(c.server.max_connections_per_client, 10);
    assert_int_equal(c.server.idle_timeout_ms, 95000);
    assert_int_equal(c.server.request_timeout_ms, 250);
    assert_string_equal(c.policy.device, "binpack");
    assert_string_equal(c.policy.node, "none");
    assert_int_equal(c.unknown_pods, CONFIG_UNKNOWN_PODS_IGNORE);
    assert_int_equal(c.device_plugin_nodes, CONFIG_DEVICE_PLUGIN_NODES_ALLOW);
    assert_int_equal(c.metrics.per_card, CONFIG_PER_CARD_OFF);
    assert_true(c.debug.remote);
    assert_int_equal(c.log.verbosity, 2);
    assert_string_equal(c.embedded.manifests, "demo/cluster");
}

static void json_is_yaml_too(void **state)
{
    struct config c = parse_good("{\"apiVersion\": \"config.deviceshare.io/v1alpha1\", "
                                 "\"kind\": \"DeviceShareExtenderConfiguration\", "
                                 "\"server\": {\"port\": 1}}");

    (void)state;
    assert_int_equal(c.server.port, 1);
}

static void unknown_keys_are_refused(void **state)
{
    (void)state;
    assert_bad(HEAD "server:\n  prot: 1\n",
               "f.yaml:4:3: server.prot: unknown key; did you mean server.port?\n");
    assert_bad(HEAD "port: 1\n", "f.yaml:3:1: port: unknown key; did you mean server.port?\n");
    assert_bad(HEAD "sever:\n  port: x\n",
               "f.yaml:3:1: sever: unknown key; did you mean server?\n");
    assert_bad(HEAD "server: {maxconnections: 1}\n",
               "f.yaml:3:10: server.maxconnections: unknown key; did you mean "
               "server.maxConnections?\n");
    assert_bad(HEAD "zebra: [1, {a: b}]\nlog:\n  verbosity: 11\n",
               "f.yaml:3:1: zebra: unknown key\n"
               "f.yaml:5:14: log.verbosity: 11 is out of bounds (0 to 10)\n");
    assert_bad(HEAD "server.port: 1\n",
               "f.yaml:3:1: server.port: unknown key; a level of its own is written as a mapping, "
               "not with a dot\n");
    assert_bad(HEAD "server:\n  port:\n    tcp: 1\n",
               "f.yaml:5:5: server.port: a mapping where a number is wanted\n");
}

static void types_are_held(void **state)
{
    (void)state;
    assert_bad(HEAD "server:\n  port: \"9876\"\n",
               "f.yaml:4:9: server.port: a string where a number is wanted; write it without "
               "quotes\n");
    assert_bad(HEAD "server:\n  port: x\n",
               "f.yaml:4:9: server.port: a string where a number is wanted\n");
    assert_bad(HEAD "server:\n  port:\n",
               "f.yaml:4:8: server.port: nothing where a number is wanted\n");
    assert_bad(HEAD "server:\n  port: 1.5\n",
               "f.yaml:4:9: server.port: 1.5 is not a decimal integer\n");
    assert_bad(HEAD "server:\n  port: 0x10\n",
               "f.yaml:4:9: server.port: 0x10 is not a decimal integer\n");
    assert_bad(HEAD "server:\n  port: 9223372036854775808\n",
               "f.yaml:4:9: server.port: 9223372036854775808 is not a decimal integer\n");
    assert_bad(HEAD "server:\n  port: [1]\n",
               "f.yaml:4:9: server.port: a list where a number is wanted\n");
    assert_bad(HEAD "server:\n  address: 10\n",
               "f.yaml:4:12: server.address: a number where a string is wanted\n");
    assert_bad(HEAD "server:\n  urlPrefix: ~\n",
               "f.yaml:4:14: server.urlPrefix: nothing where a string is wanted\n");
    assert_bad(HEAD "server:\n  drainTimeout: 10\n",
               "f.yaml:4:17: server.drainTimeout: a number where a duration like 10s is wanted\n");
    assert_bad(HEAD "debug:\n  remote: yes\n",
               "f.yaml:4:11: debug.remote: a string where a boolean is wanted\n");
    assert_bad(HEAD "debug:\n  remote: 'true'\n",
               "f.yaml:4:11: debug.remote: a string where a boolean is wanted\n");
    assert_bad(HEAD "unknownPods: true\n",
               "f.yaml:3:14: unknownPods: a boolean where a string is wanted\n");
    assert_bad(HEAD "log: 3\n", "f.yaml:3:6: log: a number where a mapping is wanted\n");
    assert_bad(HEAD "log: ''\n", "f.yaml:3:6: log: a string where a mapping is wanted\n");
}

static void bounds_are_held(void **state)
{
    (void)state;
    assert_bad(HEAD "server:\n  port: 65536\n",
               "f.yaml:4:9: server.port: 65536 is out of bounds (0 to 65535)\n");
    assert_bad(HEAD "server:\n  port: -1\n",
               "f.yaml:4:9: server.port: -1 is out of bounds (0 to 65535)\n");
    assert_bad(HEAD "server:\n  idleTimeout: 94999ms\n",
               "f.yaml:4:16: server.idleTimeout: 94999ms is out of bounds (95s to 3600s)\n");
    assert_bad(HEAD "server:\n  idleTimeout: 2 min\n",
               "f.yaml:4:16: server.idleTimeout: 2 min is not a duration like 10s, 250ms or "
               "1m30s\n");
    assert_bad(
        HEAD "server:\n  address: localhost\n",
        "f.yaml:4:12: server.address: \"localhost\" is not a numeric IPv4 or IPv6 address\n");
    assert_bad(HEAD "server:\n  urlPrefix: v1\n",
               "f.yaml:4:14: server.urlPrefix: \"v1\" must be empty, or begin with '/' and not end "
               "with it\n");
    assert_bad(HEAD "server:\n  urlPrefix: /a//b\n",
               "f.yaml:4:14: server.urlPrefix: \"/a//b\" has an empty part\n");
    assert_bad(HEAD "server:\n  urlPrefix: /a?b\n",
               "f.yaml:4:14: server.urlPrefix: \"/a?b\" may hold letters, digits and / - . _ ~ "
               "only\n");
    assert_bad(HEAD "policy:\n  device: none\n",
               "f.yaml:4:11: policy.device: none is not a device policy "
               "(default|binpack|spread|pack)\n");
    assert_bad(HEAD "policy:\n  node: default\n",
               "f.yaml:4:9: policy.node: default is not a node policy (binpack|spread|pack|none)\n");
    assert_bad(HEAD "unknownPods: open\n",
               "f.yaml:3:14: unknownPods: open is not one of close|ignore\n");
    assert_bad(HEAD "embedded:\n  manifests: \"a\\nf.yaml:1:1: forged\"\n",
               "f.yaml:4:14: embedded.manifests: holds bytes that are not printable UTF-8 text\n");
    assert_bad(HEAD "unknownPods: \"a\\nf.yaml:1:1: forged\"\n",
               "f.yaml:3:14: unknownPods: a?f.yaml:1:1: forged is not one of close|ignore\n");
}

static void rules_between_keys_are_held(void **state)
{
    (void)state;
    assert_bad(HEAD "server:\n  maxConnectionsPerClient: 20\n  port: 1\n  maxConnections: 10\n",
               "f.yaml:6:19: server.maxConnectionsPerClient: 20 is more than "
               "server.maxConnections (10)\n");
    assert_bad(HEAD "server:\n  maxConnections: 100\n",
               "f.yaml:4:19: server.maxConnectionsPerClient: 128 is more than "
               "server.maxConnections (100)\n");
    assert_bad(HEAD "server:\n  tls: {certFile: c}\n",
               "f.yaml:4:19: server.tls.keyFile: missing; server.tls.certFile and "
               "server.tls.keyFile go together\n");
    assert_bad(HEAD "server:\n  tls: {keyFile: k}\n",
               "f.yaml:4:18: server.tls.certFile: missing; server.tls.certFile and "
               "server.tls.keyFile go together\n");
    assert_bad(HEAD "server:\n  tls:\n    clientCAFile: ca\n",
               "f.yaml:5:19: server.tls.clientCAFile: clients show their certificates to a server "
               "with server.tls.certFile only\n");
    assert_bad(HEAD "server:\n  tls:\n    certFile: c\n    keyFile: k\n    allowedClients: [a]\n",
               "f.yaml:7:21: server.tls.allowedClients: without server.tls.clientCAFile nobody's "
               "name is known\n");
}

#define UNPROTECTED                                                                                \
    " can be reached from other hosts, and plain HTTP protects nothing on the way there; set "     \
    "server.tls, or server.allowPlainHTTP: true\n"

static void plain_http_stays_on_this_host(void **state)
{
    static const char *const own[] = {"127.0.0.1", "127.200.3.4", "\"::1\"",
                                      "\"::ffff:127.0.0.1\""};
    char text[256];

    (void)state;
    assert_bad(HEAD "server:\n  address: 0.0.0.0\n",
               "f.yaml:4:12: server.address: 0.0.0.0" UNPROTECTED);
    assert_bad(HEAD "server: {address: '::'}\n", "f.yaml:3:19: server.address: ::" UNPROTECTED);
    assert_bad(HEAD "server: {address: '::ffff:10.0.0.1'}\n",
               "f.yaml:3:19: server.address: ::ffff:10.0.0.1" UNPROTECTED);
    parse_good(HEAD "health: {address: 10.1.2.3, port: 1}\n"); /* no verbs there */
    parse_good(HEAD "server: {address: 0.0.0.0, allowPlainHTTP: true}\n");
    parse_good(HEAD "server: {address: 0.0.0.0, tls: {certFile: c, keyFile: k}}\n"
                    "health: {address: '::', port: 1}\n");
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        snprintf(text, sizeof text, HEAD "server: {address: %s}\nhealth: {port: 1}\n", own[i]);
        parse_good(text);
    }
}

static void lists_are_read(void **state)
{
    struct config c = parse_good(HEAD "server:\n  tls:\n    certFile: c\n    keyFile: k\n"
                                      "    clientCAFile: ca\n    allowedClients:\n"
                                      "      - kube-scheduler\n      - \"a,b\"\n  port: 7\n");

    (void)state;
    assert_int_equal(c.server.tls.allowed_clients.count, 2);
    assert_string_equal(c.server.tls.allowed_clients.items[0], "kube-scheduler");
    assert_string_equal(c.server.tls.allowed_clients.items[1], "a,b");
    assert_int_equal(c.server.port, 7);
    parse_good(HEAD "server: {tls: {allowedClients: []}}\n");
    assert_bad(HEAD "server: {tls: {allowedClients: x}}\n",
               "f.yaml:3:32: server.tls.allowedClients: a string where a list is wanted\n");
    assert_bad(HEAD "server:\n  tls:\n    certFile: c\n    keyFile: k\n    clientCAFile: a\n"
                    "    allowedClients: [1, a, [b, [c]], {d: e}, '', *f, \"x\\ny\"]\n"
                    "    nothing: 1\n",
               "f.yaml:8:22: server.tls.allowedClients: a number where a string is wanted\n"
               "f.yaml:8:28: server.tls.allowedClients: a list where a string is wanted\n"
               "f.yaml:8:38: server.tls.allowedClients: a mapping where a string is wanted\n"
               "f.yaml:8:46: server.tls.allowedClients: an item is empty\n"
               "f.yaml:8:50: aliases are not used here; write the value again\n"
               "f.yaml:8:54: server.tls.allowedClients: holds bytes that are not printable UTF-8 "
               "text\n"
               "f.yaml:9:5: server.tls.nothing: unknown key\n");
}

static void lists_are_bounded(void **state)
{
    struct config config, before;
    struct error err;
    struct strbuf text;

    (void)state;
    strbuf_init(&text);
    config_defaults(&config);
    for (int i = 0; i < CONFIG_LIST_MAX; i++)
        strbuf_puts(&text, i > 0 ? ",x" : "x");
    assert_int_equal(config_set(&config, "server.tls.allowedClients", text.data, &err), 0);
    assert_int_equal(config.server.tls.allowed_clients.count, CONFIG_LIST_MAX);
    before = config;
    strbuf_puts(&text, ",y");
    assert_int_equal(config_set(&config, "server.tls.allowedClients", text.data, &err), -EINVAL);
    assert_string_equal(err.text, "server.tls.allowedClients: more than 32 items");
    strbuf_done(&text);
    for (int i = 0; i < CONFIG_LIST_TEXT_MAX; i++)
        strbuf_putc(&text, 'x');
    assert_int_equal(config_set(&config, "server.tls.allowedClients", text.data, &err), -EINVAL);
    assert_string_equal(err.text, "server.tls.allowedClients: an item is longer than 255 bytes");
    assert_memory_equal(&config, &before, sizeof config);
    assert_int_equal(config_set(&config, "server.tls.allowedClients", text.data + 1, &err), 0);
    strbuf_done(&text);
}

static void head_is_required(void **state)
{
    (void)state;
    assert_bad("", "f.yaml:1:1: apiVersion: missing; it must be config.deviceshare.io/v1alpha1\n"
                   "f.yaml:1:1: kind: missing; it must be DeviceShareExtenderConfiguration\n");
    check_bad((struct str){NULL, 0},
              "f.yaml:1:1: apiVersion: missing; it must be config.deviceshare.io/v1alpha1\n"
              "f.yaml:1:1: kind: missing; it must be DeviceShareExtenderConfiguration\n");
    assert_bad("# nothing\n---\n",
               "f.yaml:1:1: apiVersion: missing; it must be config.deviceshare.io/v1alpha1\n"
               "f.yaml:1:1: kind: missing; it must be DeviceShareExtenderConfiguration\n");
    assert_bad("kind: KubeSchedulerConfiguration\n"
               "apiVersion: [kubescheduler.config.k8s.io/v1]\n",
               "f.yaml:1:7: kind: KubeSchedulerConfiguration is not known here; it must be "
               "DeviceShareExtenderConfiguration\n"
               "f.yaml:2:13: apiVersion: a list where a string is wanted\n");
}

static void all_problems_are_reported_in_order(void **state)
{
    (void)state;
    assert_bad("kind: DeviceShareExtenderConfiguration\n"
               "server:\n"
               "  port: 70000\n"
               "  address: x\n"
               "  port: 1\n"
               "lgo: {}\n"
               "log:\n"
               "  verbosity: \"2\"\n",
               "f.yaml:3:9: server.port: 70000 is out of bounds (0 to 65535)\n"
               "f.yaml:4:12: server.address: \"x\" is not a numeric IPv4 or IPv6 address\n"
               "f.yaml:5:3: server.port: already given on line 3\n"
               "f.yaml:6:1: lgo: unknown key; did you mean log?\n"
               "f.yaml:8:14: log.verbosity: a string where a number is wanted; write it without "
               "quotes\n"
               "f.yaml:1:1: apiVersion: missing; it must be config.deviceshare.io/v1alpha1\n");
    /* Duplicate sections too; what stands in the second one is not judged. */
    assert_bad(HEAD "log: {verbosity: 1}\nlog: {verbosity: 99}\n",
               "f.yaml:4:1: log: already given on line 3\n");
}

static void yaml_features_are_refused(void **state)
{
    (void)state;
    assert_bad(HEAD "log: &a {verbosity: 1}\n", "f.yaml:3:6: anchors are not used here\n");
    assert_bad(HEAD "unknownPods: &a close\n", "f.yaml:3:14: anchors are not used here\n");
    assert_bad(HEAD "log: &a {verbosity: 1}\ndebug: *a\n",
               "f.yaml:3:6: anchors are not used here\n"
               "f.yaml:4:8: aliases are not used here; write the value again\n");
    assert_bad(HEAD "server:\n  port: !!int 1\n", "f.yaml:4:9: tags are not used here\n");
    assert_bad(HEAD "unknownPods: ! 'close'\n", "f.yaml:3:14: tags are not used here\n");
    assert_bad(HEAD "log: !!map {verbosity: 1}\n", "f.yaml:3:6: tags are not used here\n");
    assert_bad(HEAD "? [a]\n: 1\n", "f.yaml:3:3: a key must be a plain word\n");
    assert_bad(HEAD "\"\": 1\n", "f.yaml:3:1: a key is empty\n");
    assert_bad(HEAD "---\n" HEAD,
               "f.yaml:3:1: a second document begins here; a configuration is one document\n");
    assert_bad("- a\n- b\n", "f.yaml:1:1: a configuration is a mapping of keys to values\n"
                             "f.yaml:1:1: apiVersion: missing; it must be "
                             "config.deviceshare.io/v1alpha1\n"
                             "f.yaml:1:1: kind: missing; it must be "
                             "DeviceShareExtenderConfiguration\n");
}

static void syntax_errors_have_a_place(void **state)
{
    (void)state;
    assert_bad(HEAD "server:\n  port: 99999\n x: [\n",
               "f.yaml:4:9: server.port: 99999 is out of bounds (0 to 65535)\n"
               "f.yaml:5:2: not YAML: did not find expected key while parsing a block mapping\n");
    assert_bad(HEAD "log:\n\tverbosity: 1\n",
               "f.yaml:4:1: not YAML: found character that cannot start any token while scanning "
               "for the next token\n");
    assert_bad(HEAD "unknownPods: \x01\n", "f.yaml:3:14: not YAML: control characters are not "
                                           "allowed\n");
    assert_bad(HEAD "# \xc3\xa4\nunknownPods: \xc3\xa4 \xff\n",
               "f.yaml:4:16: not YAML: invalid leading UTF-8 octet\n");
    check_bad((struct str){HEAD "log: {}\n\0x: 1\n", sizeof(HEAD "log: {}\n\0x: 1\n") - 1},
              "f.yaml:4:1: not YAML: control characters are not allowed\n");
}

static void depth_and_size_are_bounded(void **state)
{
    struct strbuf text, problems;
    struct config config;

    (void)state;
    strbuf_init(&text);
    strbuf_init(&problems);
    strbuf_puts(&text, HEAD "x: ");
    for (int i = 0; i < 500000; i++)
        strbuf_putc(&text, '[');
    assert_int_equal(config_parse((struct str){text.data, text.len}, "f.yaml", &config, &problems),
                     -EINVAL);
    assert_string_equal(problems.data, "f.yaml:3:1: x: unknown key\n"
                                       "f.yaml:3:19: nested more than 16 levels deep\n");
    strbuf_done(&problems);

    text.len = 0;
    strbuf_puts(&text, HEAD "server: ");
    for (int i = 0; i < 1000; i++)
        strbuf_puts(&text, "{port: ");
    assert_int_equal(config_parse((struct str){text.data, text.len}, "f.yaml", &config, &problems),
                     -EINVAL);
    assert_non_null(strstr(problems.data, "nested more than 16 levels deep"));
    strbuf_done(&problems);

    text.len = 0;
    strbuf_puts(&text, HEAD "#");
    while (text.len < 1 << 20)
        strbuf_putc(&text, '#');
    assert_int_equal(config_parse((struct str){text.data, text.len}, "f.yaml", &config, &problems),
                     0);
    strbuf_putc(&text, '#');
    assert_int_equal(config_parse((struct str){text.data, text.len}, "f.yaml", &config, &problems),
                     -EINVAL);
    assert_string_equal(problems.data, "f.yaml:1:1: larger than 1 MiB\n");
    strbuf_done(&problems);
    strbuf_done(&text);
}

static void flags_set_single_keys(void **state)
{
    struct config config;
    struct error err;

    (void)state;
    config_defaults(&config);
    assert_int_equal(config_set(&config, "server.port", "1234", &err), 0);
    assert_int_equal(config.server.port, 1234);
    assert_int_equal(config_set(&config, "server.port", "x", &err), -EINVAL);
    assert_string_equal(err.text, "server.port: x is not a decimal integer");
    assert_int_equal(config.server.port, 1234);
    assert_int_equal(config_set(&config, "embedded.manifests", "", &err), 0);
    assert_int_equal(config_set(&config, "embedded.manifests", "a\xff", &err), -EINVAL);
    assert_int_equal(config_set(&config, "embedded.manifests", "a\xe2\x80\xa8", &err), -EINVAL);
    assert_int_equal(config_set(&config, "embedded.manifests", "a\xc0\xaf", &err), -EINVAL);
    assert_int_equal(config_set(&config, "embedded.manifests", "a\xf0\x9f\x98", &err), -EINVAL);
    assert_int_equal(config_set(&config, "policy.node", "binpack", &err), 0);
    assert_string_equal(config.policy.node, "binpack");
    assert_int_equal(config_set(&config, "server", "1", &err), -EINVAL);
    assert_string_equal(err.text, "server: unknown key");

    assert_int_equal(config_set(&config, "server.maxConnections", "100", &err), 0);
    assert_int_equal(config_check(&config, &err), -EINVAL);
    assert_string_equal(err.text, "server.maxConnectionsPerClient: 128 is more than "
                                  "server.maxConnections (100)");
    assert_int_equal(config_set(&config, "server.maxConnectionsPerClient", "100", &err), 0);
    assert_int_equal(config_check(&config, &err), 0);
}

static void text_fields_end_before_their_size(void **state)
{
    struct config config;
    struct error err;
    char text[CONFIG_TEXT_MAX + 1];

    (void)state;
    config_defaults(&config);
    memset(text, 'a', sizeof text);
    text[CONFIG_TEXT_MAX] = '\0';
    assert_int_equal(config_set(&config, "embedded.manifests", text, &err), -EINVAL);
    assert_string_equal(err.text, "embedded.manifests: longer than 1023 bytes");
    text[CONFIG_TEXT_MAX - 1] = '\0';
    assert_int_equal(config_set(&config, "embedded.manifests", text, &err), 0);
    assert_string_equal(config.embedded.manifests, text);
    assert_int_equal(config_set(&config, "embedded.manifests", "b", &err), 0);
    assert_string_equal(config.embedded.manifests, "b");
}

static void restart_keys_are_named(void **state)
{
    struct config running, wanted;
    struct strbuf out;

    (void)state;
    config_defaults(&running);
    wanted = running;
    strbuf_init(&out);
    config_restart_keys(&running, &wanted, &out);
    assert_int_equal(out.len, 0);

    wanted.log.verbosity = 4; /* these a reload takes over */
    wanted.unknown_pods = CONFIG_UNKNOWN_PODS_IGNORE;
    wanted.device_plugin_nodes = CONFIG_DEVICE_PLUGIN_NODES_ALLOW;
    wanted.metrics.per_card = CONFIG_PER_CARD_ON;
    wanted.metrics.per_card_max_nodes = 1;
    wanted.debug.remote = true;
    strcpy(wanted.policy.device, "binpack");
    strcpy(wanted.policy.node, "binpack");
    config_restart_keys(&running, &wanted, &out);
    assert_int_equal(out.len, 0);

    wanted.server.port = 1;
    strcpy(wanted.embedded.manifests, "x");
    config_restart_keys(&running, &wanted, &out);
    assert_string_equal(out.data, "server.port\nembedded.manifests\n");
    strbuf_done(&out);
}

static void files_are_loaded(void **state)
{
    char directory[] = "/tmp/config-test-XXXXXX";
    char path[64], wanted[128];
    struct config config, before;
    struct strbuf problems;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/x.yaml", directory);
    strbuf_init(&problems);

    memset(&config, 0x5a, sizeof config);
    before = config;
    assert_int_equal(config_load(path, &config, &problems), -EINVAL);
    snprintf(wanted, sizeof wanted, "%s:1:1: No such file or directory\n", path);
    assert_string_equal(problems.data, wanted);
    strbuf_done(&problems);
    assert_int_equal(config_load(directory, &config, &problems), -EINVAL);
    snprintf(wanted, sizeof wanted, "%s:1:1: Is a directory\n", directory);
    assert_string_equal(problems.data, wanted);
    assert_memory_equal(&config, &before, sizeof config);
    strbuf_done(&problems);

    file = fopen(path, "w");
    assert_non_null(file);
    fputs(HEAD "embedded:\n  manifests: cluster\n", file);
    fclose(file);
    assert_int_equal(config_load(path, &config, &problems), 0);
    snprintf(wanted, sizeof wanted, "%s/cluster", directory);
    assert_string_equal(config.embedded.manifests, wanted);

    file = fopen(path, "w");
    assert_non_null(file);
    fputs(HEAD "embedded:\n  manifests: /abs\n", file);
    fclose(file);
    assert_int_equal(config_load(path, &config, &problems), 0);
    assert_string_equal(config.embedded.manifests, "/abs");

    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, HEAD "embedded:\n  manifests: x%01010d\n", 0);
    fclose(file);
    assert_int_equal(config_load(path, &config, &problems), -EINVAL);
    assert_non_null(strstr(problems.data, ":4:14: embedded.manifests: with the file's directory "
                                          "longer than 1023 bytes\n"));
    strbuf_done(&problems);
    remove(path);
    rmdir(directory);
}

/* Every allocation that fails gives -ENOMEM, leaks nothing (ASan watches) and leaves *ret. */
static void memory_may_end_anywhere(void **state)
{
    static const char text[] = HEAD "server:\n  prot: 1\n  port: 99999\n";
    struct config config, before;
    struct strbuf problems;
    long needed;

    (void)state;
    strbuf_init(&problems);
    mem_fail_at(0);
    assert_int_equal(config_parse(STR(text), "f.yaml", &config, &problems), -EINVAL);
    needed = mem_count();
    assert_true(needed > 3);
    strbuf_done(&problems);

    memset(&config, 0x5a, sizeof config);
    before = config;
    for (long n = 1; n <= needed; n++) {
        mem_fail_at(n);
        assert_int_equal(config_parse(STR(text), "f.yaml", &config, &problems), -ENOMEM);
        mem_fail_at(0);
        strbuf_done(&problems);
    }
    assert_memory_equal(&config, &before, sizeof config);
}

static void annotations_and_turns(void **state)
{
    (void)state;
    struct config c = parse_good(HEAD "annotations: [koordinator, hami]\n");
    assert_true(config_list_has(&c.annotations, "hami"));
    c = parse_good(HEAD "server: {maxConnections: 9, maxConnectionsPerClient: 9}\n");
    assert_false(config_list_has(&c.annotations, "hami"));
    assert_bad(HEAD "annotations: [koordinator, volcano]\n",
               "f.yaml:3:14: annotations: \"volcano\" is none of koordinator|hami\n");
    assert_bad(HEAD "annotations: [hami]\n",
               "f.yaml:3:14: annotations: koordinator must be among them: bookings are read from "
               "there after a restart\n");
    assert_bad(HEAD "annotations: [koordinator, hami]\nhami: {turnWaiters: 128}\n",
               "f.yaml:4:21: hami.turnWaiters: must be less than server.maxConnectionsPerClient\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(keys_are_read),
        cmocka_unit_test(json_is_yaml_too),
        cmocka_unit_test(unknown_keys_are_refused),
        cmocka_unit_test(types_are_held),
        cmocka_unit_test(bounds_are_held),
        cmocka_unit_test(rules_between_keys_are_held),
        cmocka_unit_test(plain_http_stays_on_this_host),
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(head_is_required),
        cmocka_unit_test(all_problems_are_reported_in_order),
        cmocka_unit_test(yaml_features_are_refused),
        cmocka_unit_test(syntax_errors_have_a_place),
        cmocka_unit_test(depth_and_size_are_bounded),
        cmocka_unit_test(flags_set_single_keys),
        cmocka_unit_test(text_fields_end_before_their_size),
        cmocka_unit_test(restart_keys_are_named),
        cmocka_unit_test(files_are_loaded),
        cmocka_unit_test(memory_may_end_anywhere),
        cmocka_unit_test(annotations_and_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
