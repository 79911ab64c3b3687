/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon: build the parts, start them, wait for signals, stop. */
#include "base/log.h"
#include "base/metrics.h"
#include "cmd/api_link.h"
#include "cmd/embedded_routes.h"
#include "cmd/flags.h"
#include "cmd/version.h"
#include "config/config.h"
#include "embed/cluster.h"
#include "http/handlers.h"
#include "http/server.h"
#include "http/tls.h"
#include "sched/sched.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Exit status; documented in --help. */
enum { EXIT_CLEAN = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Probes and metrics take no longer. */
#define PROBE_DRAIN_MS 1000

/* Of watches, the Lease, files, connections that are being cut. */
#define DESCRIPTORS_BESIDE 256

struct extender {
    struct flags flags;
    struct config config; /* in effect */
    struct cache *cache;
    struct cluster *cluster; /* the embedded one, or NULL */
    struct api_link *link;   /* to a real one, or NULL */
    struct sched sched;
    struct http_app app;
    struct http_app_paths paths;
    struct http_route routes[HTTP_APP_ROUTES_MAX + EMBEDDED_ROUTES_MAX];
    struct http_route health_routes[HTTP_APP_ROUTES_MAX];
    struct tls *tls;            /* NULL = plain HTTP */
    struct http_server *server; /* of the verbs */
    struct http_server *health; /* NULL = the same */
};

/* ---- settings ---- */

static enum unknown_pods unknown_pods(const struct config *config)
{
    return config->unknown_pods == CONFIG_UNKNOWN_PODS_IGNORE ? UNKNOWN_PODS_IGNORE
                                                              : UNKNOWN_PODS_CLOSE;
}

static enum device_plugin_nodes device_plugin_nodes(const struct config *config)
{
    return config->device_plugin_nodes == CONFIG_DEVICE_PLUGIN_NODES_ALLOW
               ? DEVICE_PLUGIN_NODES_ALLOW
               : DEVICE_PLUGIN_NODES_REFUSE;
}

static enum http_per_card per_card(const struct config *config)
{
    switch (config->metrics.per_card) {
    case CONFIG_PER_CARD_ON:
        return HTTP_PER_CARD_ON;
    case CONFIG_PER_CARD_OFF:
        return HTTP_PER_CARD_OFF;
    case CONFIG_PER_CARD_AUTO:
        break;
    }
    return HTTP_PER_CARD_AUTO;
}

/* What stays as it is until a restart. */
static void set_up_sched(struct extender *extender)
{
    const struct config *config = &extender->config;
    extender->sched.hami_rules = (struct hami_rules){
        .default_memory_mib = config->hami.default_memory_mib,
        .default_cores = config->hami.default_cores,
        .memory_factor = config->hami.memory_factor,
    };
    extender->sched.turn_wait_ns = config->hami.turn_wait_ms * 1000000;
    extender->sched.turn_waiters_max = (uint32_t)config->hami.turn_waiters;
    cache_set_hami_plugin(extender->cache, config_list_has(&config->annotations, "hami"));
}

/* Take over what may change while running. The names of policies were checked with the
 * configuration. */
static void apply_settings(struct extender *extender, const struct config *config)
{
    log_set_verbosity((int)config->log.verbosity);
    cache_set_unknown_pods(extender->cache, unknown_pods(config));
    cache_set_device_plugin_nodes(extender->cache, device_plugin_nodes(config));
    atomic_store(&extender->sched.device_policy,
                 device_policy_find(str_from(config->policy.device)));
    atomic_store(&extender->sched.node_policy, node_policy_find(str_from(config->policy.node)));
    atomic_store(&extender->sched.node_strength,
                 policy_strength_find(str_from(config->policy.node_strength)));
    atomic_store(&extender->sched.max_candidates, (uint32_t)config->policy.max_candidates);
    atomic_store(&extender->sched.in_flight_wait_ns, config->policy.in_flight_wait_ms * 1000000);
    atomic_store(&extender->sched.tentative, config->policy.tentative);
    atomic_store(&extender->app.debug_remote, config->debug.remote);
    atomic_store(&extender->app.per_card, (int)per_card(config));
    atomic_store(&extender->app.per_card_max_nodes, (uint32_t)config->metrics.per_card_max_nodes);

    extender->config.policy = config->policy;
    extender->config.unknown_pods = config->unknown_pods;
    extender->config.device_plugin_nodes = config->device_plugin_nodes;
    extender->config.metrics = config->metrics;
    extender->config.debug = config->debug;
    extender->config.log = config->log;
}

/* One log line for each line of `lines`. */
static void log_lines(enum log_severity severity, const char *message, const char *key,
                      const struct strbuf *lines)
{
    const char *line = lines->data;
    const char *end = lines->len > 0 ? line + lines->len : line;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        struct str text = {line, (size_t)((newline != NULL ? newline : end) - line)};
        log_write(severity, __FILE_NAME__, __LINE__, message, &LOG_STR(key, text), 1);
        line += text.len + 1;
    }
}

static void reload(struct extender *extender)
{
    struct config wanted;
    struct strbuf lines = {0};
    bool valid = flags_load_config(&extender->flags, &wanted, &lines) == 0;
    metrics_add(METRIC_CONFIG_RELOADS, valid ? 0 : 1, 1);
    if (!valid) {
        log_lines(LOG_ERROR, "Configuration invalid, the old one stays", "problem", &lines);
        strbuf_done(&lines);
        return;
    }
    strbuf_done(&lines);
    config_restart_keys(&extender->config, &wanted, &lines);
    log_lines(LOG_WARNING, "Changed key needs a restart", "key", &lines);
    strbuf_done(&lines);
    apply_settings(extender, &wanted);
    log_info(0, "Configuration reloaded", LOG_TEXT("devicePolicy", wanted.policy.device),
             LOG_TEXT("nodePolicy", wanted.policy.node), LOG_INT("verbosity", log_verbosity()));
}

/* ---- signals ---- */

/* Signals that end the daemon, and HUP. One that was ignored when we were started stays ignored, as
 * for a background job of a shell. */
static sigset_t blocked_signals(void)
{
    static const int wanted[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        struct sigaction action;
        if (sigaction(wanted[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, wanted[i]);
    }
    return set;
}

/* Returns the signal that asks to stop. Meanwhile the house of an embedded cluster is kept here: it knows of
 * every binding what came of it, and wakes nobody, so no round waits for anything. */
static int wait_for_stop(struct extender *extender, const sigset_t *signals)
{
    static const struct timespec round = {.tv_sec = 1};
    struct janitor janitor;
    janitor_init(&janitor, 0, 0, 0);
    for (;;) {
        int number = sigtimedwait(signals, NULL, extender->cluster != NULL ? &round : NULL);
        if (number == SIGHUP)
            reload(extender);
        else if (number > 0)
            return number;
        else if (errno == EAGAIN)
            janitor_round(&janitor, &extender->sched);
    }
}

static void exit_at_once(int number)
{
    (void)number;
    _exit(EXIT_FAILED);
}

/* From now on a signal does not wait for the drain. */
static void arm_second_signal(const sigset_t *signals)
{
    static const int ending[] = {SIGTERM, SIGINT};
    sigset_t unblock;
    sigemptyset(&unblock);
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        if (sigismember(signals, ending[i]) != 1)
            continue;
        struct sigaction action = {.sa_handler = exit_at_once};
        sigaction(ending[i], &action, NULL);
        sigaddset(&unblock, ending[i]);
    }
    pthread_sigmask(SIG_UNBLOCK, &unblock, NULL);
}

/* ---- start and stop ---- */

/* The outward port: onto the cluster in memory, or onto an API server. */
static int open_cluster(struct extender *extender, struct port *ret, struct error *err)
{
    const struct config *config = &extender->config;
    if (config->embedded.manifests[0] != '\0') {
        extender->cluster = cluster_new();
        if (extender->cluster == NULL)
            return error_set(err, -ENOMEM, "out of memory");
        *ret = cluster_port(extender->cluster);
        return 0;
    }
    int result = api_link_new(config, &extender->link, err);
    if (result == -ENOENT && config->kubernetes.kubeconfig[0] == '\0')
        return error_wrap(err, "there is no cluster to serve: set kubernetes.kubeconfig "
                               "(--kubeconfig) or embedded.manifests (--embedded-manifests), or "
                               "run in a pod");
    if (result == 0)
        *ret = api_link_port(extender->link);
    return result;
}

static int build(struct extender *extender, struct error *err)
{
    const struct config *config = &extender->config;
    struct port port;
    extender->cache = cache_new(unknown_pods(config));
    if (extender->cache == NULL)
        return error_set(err, -ENOMEM, "out of memory");
    int result = open_cluster(extender, &port, err);
    if (result < 0)
        return result;
    sched_init(&extender->sched, extender->cache, clock_system(), port,
               device_policy_find(str_from(config->policy.device)),
               node_policy_find(str_from(config->policy.node)));
    set_up_sched(extender);
    extender->app.sched = &extender->sched;
    extender->app.limits = codec_default_limits;
    extender->app.limits.nesting = (uint32_t)config->server.max_nesting;
    extender->app.limits.nodes = (uint32_t)config->server.max_nodes;
    apply_settings(extender, config);
    return 0;
}

static int load_embedded(struct extender *extender, struct error *err)
{
    uint32_t objects;
    const char *path = extender->config.embedded.manifests;
    cluster_attach(extender->cluster, &extender->sched);
    int result = cluster_load(extender->cluster, path, &objects, err);
    if (result < 0)
        return error_wrap(err, "embedded.manifests");
    log_info(0, "Embedded cluster loaded", LOG_TEXT("path", path), LOG_INT("objects", objects));
    sched_set_synced(&extender->sched, true);
    return 0;
}

static bool link_ready(void *self, char *out, size_t size)
{
    return api_link_synced(self, out, size);
}

static void link_leader(void *self, char *out, size_t size)
{
    api_link_leader(self, out, size);
}

static int follow_cluster(struct extender *extender, struct error *err)
{
    if (extender->cluster != NULL)
        return load_embedded(extender, err);
    atomic_store(&extender->sched.watching, true);
    int result = api_link_start(extender->link, &extender->sched, err);
    extender->app.cluster_ready = link_ready;
    extender->app.cluster_leader = link_leader;
    extender->app.cluster = extender->link;
    return result;
}

static int load_tls(struct extender *extender, struct error *err)
{
    const struct config *config = &extender->config;
    const struct config_list *allowed = &config->server.tls.allowed_clients;
    const char *names[CONFIG_LIST_MAX];
    for (uint32_t i = 0; i < allowed->count; i++)
        names[i] = allowed->items[i];
    struct tls_options options = {
        .cert_file = config->server.tls.cert_file,
        .key_file = config->server.tls.key_file,
        .client_ca_file = config->server.tls.client_ca_file,
        .allowed = names,
        .allowed_count = allowed->count,
    };
    if (options.cert_file[0] == '\0')
        return 0;
    if (tls_open(&options, &extender->tls, err) < 0)
        return error_wrap(err, "server.tls");
    extender->app.tls = extender->tls;
    return 0;
}

static struct http_options server_options(const struct extender *extender)
{
    const struct config *config = &extender->config;
    return (struct http_options){
        .address = config->server.address,
        .port = (uint16_t)config->server.port,
        .tls = extender->tls,
        .max_body_bytes = (uint64_t)config->server.max_body_bytes,
        .max_bodies_bytes = (uint64_t)config->server.max_bodies_bytes,
        .max_connections = (uint32_t)config->server.max_connections,
        .max_connections_per_client = (uint32_t)config->server.max_connections_per_client,
        .idle_timeout_ms = (uint32_t)config->server.idle_timeout_ms,
        .request_timeout_ms = (uint32_t)config->server.request_timeout_ms,
    };
}

static int serve_health(struct extender *extender, struct error *err)
{
    const struct config *config = &extender->config;
    struct http_options options = server_options(extender);
    if (config->health.address[0] != '\0')
        options.address = config->health.address;
    options.port = (uint16_t)config->health.port;
    options.tls = NULL;
    options.routes = extender->health_routes;
    options.route_count = http_app_health_routes(&extender->app, extender->health_routes);
    int result = http_server_start(&options, &extender->health, err);
    if (result < 0)
        return error_wrap(err, "health");
    log_info(0, "Listening for probes", LOG_TEXT("address", options.address),
             LOG_INT("port", http_server_port(extender->health)));
    return 0;
}

static int serve(struct extender *extender, struct error *err)
{
    const struct config *config = &extender->config;
    if (config->health.port != 0 && serve_health(extender, err) < 0)
        return err->code;
    struct http_route *routes = extender->routes;
    uint32_t count =
        http_app_routes(&extender->app, config->server.url_prefix, &extender->paths, routes);
    if (config->health.port == 0)
        count += http_app_health_routes(&extender->app, routes + count);
    if (extender->cluster != NULL)
        count += embedded_routes(extender->cluster, routes + count);
    struct http_options options = server_options(extender);
    options.routes = routes;
    options.route_count = count;
    int result = http_server_start(&options, &extender->server, err);
    if (result == 0)
        log_info(0, "Listening", LOG_TEXT("address", options.address),
                 LOG_INT("port", http_server_port(extender->server)),
                 LOG_TEXT("protocol", extender->tls != NULL ? "https" : "http"));
    return result;
}

/* Let the process have as many descriptors as its connections may take: a call may need one of its own
 * and one to the API server, and probes have a port with the same limits. libmicrohttpd polls without a
 * pause while it cannot accept for lack of one. */
static int reserve_descriptors(const struct config *config, struct error *err)
{
    rlim_t need = (rlim_t)config->server.max_connections * 3 + DESCRIPTORS_BESIDE;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
        return 0;
    if (limit.rlim_max < need)
        return error_set(err, -EMFILE,
                         "server.maxConnections: %" PRId64
                         " connections may take %ju descriptors, and the process may have %ju "
                         "(ulimit -Hn)",
                         config->server.max_connections, (uintmax_t)need,
                         (uintmax_t)limit.rlim_max);
    limit.rlim_cur = need;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return error_set(err, -errno, "cannot raise the limit of descriptors: %s", strerror(errno));
    return 0;
}

static int start(struct extender *extender, struct error *err)
{
    log_info(0, "Starting", LOG_TEXT("version", version_number()),
             LOG_TEXT("commit", version_commit()),
             LOG_TEXT("devicePolicy", extender->config.policy.device),
             LOG_TEXT("nodePolicy", extender->config.policy.node));
    int result = reserve_descriptors(&extender->config, err);
    if (result == 0)
        result = build(extender, err);
    if (result == 0)
        result = follow_cluster(extender, err);
    if (result == 0)
        result = load_tls(extender, err);
    if (result == 0)
        result = serve(extender, err);
    return result;
}

/* Stop to serve; probes are answered to the end. The number of requests without an answer: then
 * their threads may still use every part. */
static unsigned stop_serving(struct extender *extender, int64_t drain_ms)
{
    unsigned left = http_server_stop(extender->server, drain_ms);
    return left + http_server_stop(extender->health, PROBE_DRAIN_MS);
}

static void free_parts(struct extender *extender)
{
    tls_close(extender->tls);
    api_link_stop(extender->link);
    api_link_free(extender->link);
    cluster_free(extender->cluster);
    cache_free(extender->cache);
}

static int stop(struct extender *extender)
{
    atomic_store(&extender->app.draining, true);
    unsigned left = stop_serving(extender, extender->config.server.drain_timeout_ms);
    if (left > 0) {
        log_error("Stopped with requests unanswered", LOG_INT("requests", left));
        _exit(EXIT_FAILED);
    }
    free_parts(extender);
    log_info(0, "Stopped", LOG_INT("exitStatus", EXIT_CLEAN));
    return EXIT_CLEAN;
}

static int run(struct extender *extender)
{
    sigset_t signals = blocked_signals();
    struct error err = {0};
    /* Every thread inherits the mask: signals come to wait_for_stop() alone. */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    log_set_verbosity((int)extender->config.log.verbosity);
    if (start(extender, &err) < 0) {
        log_error("Cannot start", LOG_TEXT("err", err.text));
        if (stop_serving(extender, 0) > 0)
            _exit(EXIT_FAILED);
        free_parts(extender);
        return EXIT_FAILED;
    }
    int number = wait_for_stop(extender, &signals);
    arm_second_signal(&signals);
    log_info(0, "Stopping", LOG_TEXT("signal", number == SIGINT ? "INT" : "TERM"),
             LOG_INT("drainTimeoutMs", extender->config.server.drain_timeout_ms));
    return stop(extender);
}

/* ---- the other actions ---- */

static int print(struct strbuf *text)
{
    bool written = !text->failed && fwrite(text->data, 1, text->len, stdout) == text->len &&
                   fflush(stdout) == 0;
    strbuf_done(text);
    return written ? EXIT_CLEAN : EXIT_FAILED;
}

static int print_version(void)
{
    const char *commit = version_commit();
    printf("deviceshare-extender %s%s%s%s\n", version_number(), commit[0] != '\0' ? " (" : "",
           commit, commit[0] != '\0' ? ")" : "");
    return EXIT_CLEAN;
}

static int act_on_config(struct extender *extender)
{
    struct strbuf text = {0};
    if (flags_load_config(&extender->flags, &extender->config, &text) < 0) {
        fputs(text.data != NULL ? text.data : "out of memory\n", stderr);
        strbuf_done(&text);
        return EXIT_USAGE;
    }
    strbuf_done(&text);
    switch (extender->flags.action) {
    case FLAGS_VALIDATE_CONFIG:
        puts("the configuration is valid");
        return EXIT_CLEAN;
    case FLAGS_PRINT_CONFIG:
        config_print(&extender->config, &text);
        return print(&text);
    default:
        return run(extender);
    }
}

int main(int argc, char **argv)
{
    static struct extender extender;
    struct strbuf text = {0};
    if (flags_parse(argc, argv, &extender.flags) < 0)
        return EXIT_USAGE;
    switch (extender.flags.action) {
    case FLAGS_HELP:
        flags_print_help();
        return EXIT_CLEAN;
    case FLAGS_VERSION:
        return print_version();
    case FLAGS_PRINT_CONFIG_REFERENCE:
        config_print_reference(&text);
        return print(&text);
    default:
        return act_on_config(&extender);
    }
}
