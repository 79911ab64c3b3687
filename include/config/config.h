/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

/*
 * The configuration file: apiVersion config.deviceshare.io/v1alpha1, kind
 * DeviceShareExtenderConfiguration. One table of keys (config/keys.h) gives parsing, bounds,
 * defaults, --print-config and the reference page. Unknown keys, wrong types, duplicates, anchors,
 * aliases, tags and values out of bounds are refused with file, line and column; all problems of a
 * file are reported.
 */
#define CONFIG_API_VERSION "config.deviceshare.io/v1alpha1"
#define CONFIG_KIND "DeviceShareExtenderConfiguration"
#define CONFIG_TEXT_MAX 1024

/* A list of short texts. */
#define CONFIG_LIST_MAX      32
#define CONFIG_LIST_TEXT_MAX 256
struct config_list {
    uint32_t count;
    char items[CONFIG_LIST_MAX][CONFIG_LIST_TEXT_MAX];
};

enum config_unknown_pods { CONFIG_UNKNOWN_PODS_CLOSE, CONFIG_UNKNOWN_PODS_IGNORE };
enum config_device_plugin_nodes {
    CONFIG_DEVICE_PLUGIN_NODES_REFUSE,
    CONFIG_DEVICE_PLUGIN_NODES_ALLOW
};
enum config_per_card { CONFIG_PER_CARD_AUTO, CONFIG_PER_CARD_ON, CONFIG_PER_CARD_OFF };

/* Plain values; strings inside. (R) = taken over by a reload (SIGHUP); the rest needs a restart. */
struct config {
    struct {
        char address[CONFIG_TEXT_MAX];      /* server.address, "127.0.0.1" */
        int64_t port;                       /* server.port, 9876; 0 = any free one */
        char url_prefix[CONFIG_TEXT_MAX];   /* server.urlPrefix, ""; "/v1": /v1/filter ... */
        int64_t max_body_bytes;             /* server.maxBodyBytes, 16 MiB */
        int64_t max_bodies_bytes;           /* server.maxBodiesBytes, 128 MiB */
        int64_t max_nesting;                /* server.maxNesting, 64 */
        int64_t max_nodes;                  /* server.maxNodes, 20000 */
        int64_t max_connections;            /* server.maxConnections, 256 */
        int64_t max_connections_per_client; /* server.maxConnectionsPerClient, 128 */
        int64_t idle_timeout_ms;            /* server.idleTimeout, 120s; Go's own is 90 s */
        int64_t request_timeout_ms;         /* server.requestTimeout, 10s: to the complete body */
        int64_t drain_timeout_ms;           /* server.drainTimeout, 20s */
        bool allow_plain_http;              /* server.allowPlainHTTP, false */
        struct {
            /* Files in PEM, relative to the configuration file; "" = none. */
            char cert_file[CONFIG_TEXT_MAX];      /* server.tls.certFile, "" = plain HTTP */
            char key_file[CONFIG_TEXT_MAX];       /* server.tls.keyFile */
            char client_ca_file[CONFIG_TEXT_MAX]; /* server.tls.clientCAFile */
            struct config_list allowed_clients;   /* server.tls.allowedClients; empty = any */
        } tls;
    } server;
    struct {
        char address[CONFIG_TEXT_MAX]; /* health.address, "" = server.address */
        int64_t port;                  /* health.port, 0 = together with the verbs */
    } health;
    struct {
        char device[64]; /* policy.device: default|binpack|spread|pack, "default" (R) */
        char node[64];   /* policy.node: binpack|spread|pack|none, "spread" (R) */
        char node_strength[64]; /* policy.nodeStrength: prefer|require, "prefer" (R) */
        int64_t max_candidates;    /* policy.maxCandidates, 100; 0 = all (R) */
        int64_t in_flight_wait_ms; /* policy.inFlightWait, 5ms; 0 = none (R) */
        bool tentative;            /* policy.tentative, true (R) */
        bool namespace_labels;     /* policy.namespaceLabels, false */
    } policy;
    enum config_unknown_pods unknown_pods; /* unknownPods: close|ignore, "close" (R) */
    /* devicePluginNodes: refuse|allow, "refuse" (R) */
    enum config_device_plugin_nodes device_plugin_nodes;
    struct config_list annotations; /* annotations: of koordinator, hami; empty = koordinator */
    struct {
        int64_t default_memory_mib; /* hami.defaultMemoryMiB, 0 */
        int64_t default_cores;      /* hami.defaultCores, 0 */
        int64_t memory_factor;      /* hami.memoryFactor, 1 */
        int64_t turn_wait_ms;       /* hami.turnWait, 1s */
        int64_t turn_waiters;       /* hami.turnWaiters, 32 */
    } hami;
    struct {
        enum config_per_card per_card; /* metrics.perCard: auto|on|off, "auto" (R) */
        int64_t per_card_max_nodes;    /* metrics.perCardMaxNodes, 500 (R) */
    } metrics;
    struct {
        bool remote; /* debug.remote, false: /debug only answers loopback peers (R) */
    } debug;
    struct {
        int64_t verbosity; /* log.verbosity, 2, 0..10 (R) */
    } log;
    struct {
        char kubeconfig[CONFIG_TEXT_MAX]; /* kubernetes.kubeconfig, "" = the pod's service account */
        char context[CONFIG_TEXT_MAX];    /* kubernetes.context, "" = current-context */
    } kubernetes;
    struct {
        int64_t page_size;        /* reflector.pageSize, 500 */
        int64_t watch_timeout_ms; /* reflector.watchTimeout, 5m */
        int64_t idle_timeout_ms;  /* reflector.idleTimeout, 150s */
    } reflector;
    struct {
        int64_t timeout_ms;  /* bind.timeout, 3s: T of docs/safety.md */
        int64_t delivery_ms; /* bind.delivery, 2s: D */
        int64_t clients;     /* bind.clients, 16 */
    } bind;
    struct {
        bool enabled;               /* leaderElection.enabled, true */
        char ns[CONFIG_TEXT_MAX];   /* leaderElection.namespace, "" = our own */
        char name[CONFIG_TEXT_MAX]; /* leaderElection.name, "deviceshare-extender" */
        int64_t lease_duration_ms;  /* leaderElection.leaseDuration, 15s */
        int64_t renew_deadline_ms;  /* leaderElection.renewDeadline, 10s */
        int64_t retry_period_ms;    /* leaderElection.retryPeriod, 2s */
    } leader_election;
    struct {
        bool enabled;     /* wake.enabled, true */
        int64_t pause_ms; /* wake.pause, 30s */
        int64_t burst;    /* wake.burst, 20 */
    } wake;
    struct {
        /* embedded.manifests: file or directory, relative to the configuration file;
         * "" = no embedded cluster */
        char manifests[CONFIG_TEXT_MAX];
    } embedded;
};

/* Is it in the list? */
bool config_list_has(const struct config_list *list, const char *item);

/* Every key at its default. */
void config_defaults(struct config *ret);

/* Read a file's text. 0, or -EINVAL with every problem on its own line "FILE:LINE:COLUMN: sentence"
 * in `problems` and *ret untouched; -ENOMEM. `file` is only for messages. */
int config_parse(struct str text, const char *file, struct config *ret, struct strbuf *problems);

/* Read a file (at most 1 MiB), resolving the paths in it against its directory. As config_parse; a
 * file that cannot be read is a problem too. */
int config_load(const char *path, struct config *ret, struct strbuf *problems);

/* Set one key from text, as for flags; a list's items are separated by commas. -EINVAL with a
 * sentence naming the key. */
int config_set(struct config *config, const char *key, const char *value, struct error *err);

/* The rules between keys, which config_parse applies too: for the end of a series of config_set.
 * -EINVAL with a sentence naming the key. */
int config_check(const struct config *config, struct error *err);

/* Append the configuration as a complete, commented YAML file that config_parse reads back to the
 * same values. */
void config_print(const struct config *config, struct strbuf *out);

/* Append the reference page's table (Markdown): key, type and bounds, default, reload, meaning. */
void config_print_reference(struct strbuf *out);

/* Append, one a line, the keys on which the two differ but that only a restart takes over. */
void config_restart_keys(const struct config *running, const struct config *wanted,
                         struct strbuf *out);

#endif
