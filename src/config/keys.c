/* SPDX-License-Identifier: Apache-2.0 */
#include "config/keys.h"

#include "base/parse.h"
#include "core/names.h"
#include "core/pod_policy.h"
#include "core/policy.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KIB    INT64_C(1024)
#define MIB    (1024 * KIB)
#define GIB    (1024 * MIB)
#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

/* Of a value that is shown in a sentence. */
#define SHOWN_BYTES 80
#define SHOW(s)                                                                                    \
    (int)((s).len < SHOWN_BYTES ? (s).len : SHOWN_BYTES), (s).data != NULL ? (s).data : ""

/* ---- checks of single values ---- */

static const char *check_address(struct str value)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char address[sizeof(struct in6_addr)];

    if (value.len < sizeof text) {
        memcpy(text, value.data, value.len);
        text[value.len] = '\0';
        if (inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1)
            return NULL;
    }
    return "is not a numeric IPv4 or IPv6 address";
}

static const char *check_address_or_none(struct str value)
{
    return value.len == 0 ? NULL : check_address(value);
}

static bool path_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("/-._~", c) != NULL);
}

static const char *check_url_prefix(struct str value)
{
    if (value.len == 0)
        return NULL;
    if (value.len > 64)
        return "is longer than 64 bytes";
    if (value.data[0] != '/' || value.data[value.len - 1] == '/')
        return "must be empty, or begin with '/' and not end with it";
    for (size_t i = 0; i < value.len; i++) {
        if (!path_char(value.data[i]))
            return "may hold letters, digits and / - . _ ~ only";
        if (i > 0 && value.data[i] == '/' && value.data[i - 1] == '/')
            return "has an empty part";
    }
    return NULL;
}

static const char *check_namespace(struct str value)
{
    return value.len == 0 || name_is_label(value) ? NULL : "is not the name of a namespace";
}

static const char *check_object_name(struct str value)
{
    return name_is_subdomain(value) ? NULL : "is not the name of an object";
}

static const char *check_device_policy(struct str value)
{
    return device_policy_find(value) != NULL ? NULL : "is not a device policy";
}

static const char *check_node_policy(struct str value)
{
    return node_policy_find(value) != NULL ? NULL : "is not a node policy";
}

static const char *check_node_strength(struct str value)
{
    return policy_strength_find(value) != STRENGTH_UNSAID ? NULL : "is not a strength";
}

/* ---- the table ---- */

#define FIELD(member) .offset = offsetof(struct config, member)
#define TEXT(member)                                                                               \
    .type = KEY_TEXT, FIELD(member), .size = sizeof(((const struct config *)NULL)->member)
#define PATH(member)                TEXT(member), .is_path = true
#define LIST(member)                .type = KEY_LIST, FIELD(member)
#define WORD(member, list)          .type = KEY_WORD, FIELD(member), .words = (list)
#define BOOL(member)                .type = KEY_BOOL, FIELD(member)
#define INTEGER(member, low, high)  .type = KEY_INTEGER, FIELD(member), .min = (low), .max = (high)
#define DURATION(member, low, high) .type = KEY_DURATION, FIELD(member), .min = (low), .max = (high)
#define RELOADABLE                  .reloadable = true

/* clang-format off */
const struct config_section config_sections[] = {
    {"server",
     "The HTTP server that kube-scheduler, probes and Prometheus talk to."},
    {"server.tls",
     "HTTPS, from TLS 1.2 on. The files are in PEM; when they change they are read again within "
     "a second, without a restart. A relative path counts from the directory of the "
     "configuration file."},
    {"health",
     "Where /livez, /readyz, /healthz and /metrics are answered."},
    {"policy",
     "Where a pod goes, when it fits in several places. Whether it fits is decided before and "
     "does not depend on policies. device, node and nodeStrength are those of pods whose "
     "annotations name none; docs/policies.md tells of them."},
    {"hami",
     "What requests by HAMi's names mean, and how its device plugin is served; docs/hami.md."},
    {"metrics",
     "What /metrics shows beside counters and durations."},
    {"debug",
     "The read-only views under /debug."},
    {"log",
     "Log lines go to standard error, one a line, in klog's structured form."},
    {"kubernetes",
     "The API server, when there is no embedded cluster."},
    {"reflector",
     "How the API server's Nodes, Devices and Pods are followed."},
    {"bind",
     "The one write of a bind. Its two time bounds keep two processes from giving one card away "
     "twice; docs/safety.md says how."},
    {"leaderElection",
     "Which replica decides, by a Lease, as other components of Kubernetes do it."},
    {"wake",
     "A card that recovers is no event for kube-scheduler, so a pod that was rejected would sleep "
     "for minutes. A pod that would fit now is woken by a change of its annotation "
     "deviceshare.io/woken-at."},
    {"embedded",
     "A cluster in memory instead of an API server: to try things out, and for tests."},
};
const uint32_t config_section_count = sizeof config_sections / sizeof config_sections[0];

const struct config_key config_keys[] = {
    {.path = "server.address", TEXT(server.address), .standard = "127.0.0.1",
     .check = check_address,
     .help = "Numeric IPv4 or IPv6 address to listen on. The default serves a kube-scheduler on "
             "the same host; 0.0.0.0 or :: serve all interfaces, and then server.tls says who may "
             "ask for a bind."},
    {.path = "server.port", INTEGER(server.port, 0, 65535), .standard = "9876",
     .help = "TCP port to listen on. 0 takes any free port and prints it at start."},
    {.path = "server.urlPrefix", TEXT(server.url_prefix), .standard = "",
     .check = check_url_prefix,
     .help = "Path in front of the verbs: with /v1 they are /v1/filter, /v1/prioritize, "
             "/v1/preempt and /v1/bind. It belongs to urlPrefix in kube-scheduler's own "
             "configuration. Probes, /metrics and /debug have no prefix."},
    {.path = "server.maxBodyBytes", INTEGER(server.max_body_bytes, 64 * KIB, GIB),
     .standard = "16777216",
     .help = "Longest request body; a longer one is answered 413 before it is read. 5,000 node "
             "names take about 120 KiB. Whole Node objects (nodeCacheCapable: false) take about "
             "11 KiB a node and need more than the default beyond 1,400 nodes."},
    {.path = "server.maxBodiesBytes",
     INTEGER(server.max_bodies_bytes, 64 * KIB, 64 * GIB), .standard = "134217728",
     .help = "Most bytes of bodies that all requests together may hold, so that clients cannot "
             "exhaust the memory; a request beyond them is answered 503. Not less than "
             "server.maxBodyBytes."},
    {.path = "server.maxNesting", INTEGER(server.max_nesting, 16, 512), .standard = "64",
     .help = "Deepest nesting of JSON in a request. A Pod needs about 12 levels."},
    {.path = "server.maxNodes", INTEGER(server.max_nodes, 1, 100000), .standard = "20000",
     .help = "Most candidate nodes in one request; more is an error of that call."},
    {.path = "server.maxConnections", INTEGER(server.max_connections, 1, 10000), .standard = "256",
     .help = "Most open connections, each with a thread of its own. For one more, another address's "
             "idle one is closed, or it is closed itself if no address has more or less claim "
             "(docs/security.md). Three times as "
             "many descriptors and 256 more must be allowed (ulimit -Hn)."},
    {.path = "server.maxConnectionsPerClient",
     INTEGER(server.max_connections_per_client, 1, 10000), .standard = "128",
     .help = "Most open connections from one address, so that one client cannot shut out the "
             "others. Not more than server.maxConnections."},
    {.path = "server.idleTimeout", DURATION(server.idle_timeout_ms, 95 * SECOND, HOUR),
     .standard = "120s",
     .help = "How long an idle connection is kept. kube-scheduler drops its own after 90 "
             "seconds; closing first would make its next call fail now and then, hence the lower "
             "bound."},
    {.path = "server.requestTimeout", DURATION(server.request_timeout_ms, 100, 10 * MINUTE),
     .standard = "10s",
     .help = "Time from a request's first byte to its complete body. A client that is slower "
             "gets 408 and loses its connection."},
    {.path = "server.drainTimeout", DURATION(server.drain_timeout_ms, 0, 10 * MINUTE),
     .standard = "20s",
     .help = "How long a stop (SIGTERM, SIGINT) waits for requests that are being answered. Keep "
             "it below terminationGracePeriodSeconds of the pod this runs in."},
    {.path = "server.allowPlainHTTP", BOOL(server.allow_plain_http), .standard = "false",
     .help = "Serve other hosts without server.tls. false = without certificate no address but "
             "the host's own is listened on; with true whoever can connect can read and change "
             "every call on its way, and ask for a bind."},
    {.path = "server.tls.certFile", PATH(server.tls.cert_file), .standard = "",
     .help = "The server's certificate, followed by those between it and its CA. Empty = plain "
             "HTTP. Needs server.tls.keyFile."},
    {.path = "server.tls.keyFile", PATH(server.tls.key_file), .standard = "",
     .help = "The private key of server.tls.certFile, not encrypted."},
    {.path = "server.tls.clientCAFile", PATH(server.tls.client_ca_file), .standard = "",
     .help = "The CAs of the clients. If set, verbs are answered 403 to callers without a valid "
             "client certificate of one of them; probes and /metrics need none."},
    {.path = "server.tls.allowedClients", LIST(server.tls.allowed_clients), .standard = "",
     .help = "Names of which a client certificate must bear one, as common name or as DNS or URI "
             "in its subject alternative names. Empty = every certificate of "
             "server.tls.clientCAFile will do."},

    {.path = "health.address", TEXT(health.address), .standard = "",
     .check = check_address_or_none,
     .help = "Numeric IPv4 or IPv6 address that health.port listens on. Empty = that of "
             "server.address."},
    {.path = "health.port", INTEGER(health.port, 0, 65535), .standard = "0",
     .help = "A TCP port of their own for probes and metrics, always of plain HTTP: kubelet and "
             "Prometheus need nothing more, and nothing can be changed there. 0 = on "
             "server.port."},

    {.path = "policy.device", TEXT(policy.device), .standard = "default",
     .check = check_device_policy, .choices = device_policy_names, RELOADABLE,
     .help = "Which card of a node a pod gets: default = the lowest minor that fits, binpack = "
             "the fullest that fits, spread = the emptiest, pack = the one that leaves most room for "
             "pods to come. Koordinator's MostAllocated and "
             "LeastAllocated are understood as binpack and spread."},
    {.path = "policy.node", TEXT(policy.node), .standard = "spread", .check = check_node_policy,
     .choices = node_policy_names, RELOADABLE,
     .help = "Which node is preferred, as scores of 0 to 10: binpack = the fullest, spread = the "
             "emptiest, pack = the one on which most room is left for pods to come, none = all "
             "alike. How much it weighs against kube-scheduler's own scores "
             "is the extender's weight in kube-scheduler's configuration."},
    {.path = "policy.nodeStrength", TEXT(policy.node_strength), .standard = "prefer",
     .check = check_node_strength, .choices = policy_strength_names, RELOADABLE,
     .help = "prefer = the node policy counts by its scores, beside kube-scheduler's own; require "
             "= filter leaves only the nodes that it ranks first."},

    {.path = "policy.maxCandidates", INTEGER(policy.max_candidates, 0, 100000),
     .standard = "100", RELOADABLE,
     .help = "Most nodes that filter returns, the best by the pod's node policy; 0 = all that fit. "
             "Every name costs kube-scheduler more than it costs us, and it chooses among these "
             "with its own scores. 100 is the least that it looks at by itself."},
    {.path = "policy.inFlightWait", DURATION(policy.in_flight_wait_ms, 0, SECOND),
     .standard = "5ms", RELOADABLE,
     .help = "kube-scheduler asks for the next pod while the bind of the last one is on its way. "
             "So long a filter waits for it at most, and for the event of its own pod, so that pods "
             "of a burst see each other; 0 = not at all."},
    {.path = "policy.tentative", BOOL(policy.tentative), .standard = "true", RELOADABLE,
     .help = "Where filter leaves one node, hold the pod's cards there until its bind comes, at "
             "most 2 seconds, instead of letting the next filter wait."},
    {.path = "policy.namespaceLabels", BOOL(policy.namespace_labels), .standard = "false",
     .help = "Read the labels deviceshare.io/node-policy, device-policy and node-policy-strength "
             "of Namespaces as defaults of their pods, before policy.node and its like. Needs the "
             "right to list and watch namespaces (deploy/components/namespace-labels)."},

    {.path = "unknownPods", WORD(unknown_pods, "close|ignore"), .standard = "close", RELOADABLE,
     .help = "What to do about a running pod that requests devices but does not say which cards "
             "it has (placed by someone else, or its annotation is damaged). close = its node "
             "takes no new device pods until it ends; ignore = its cards may be given away a "
             "second time."},
    {.path = "devicePluginNodes", WORD(device_plugin_nodes, "refuse|allow"), .standard = "refuse",
     RELOADABLE,
     .help = "What to do about GPU requests on a node whose status counts whole cards "
             "(nvidia.com/gpu, amd.com/gpu, dcu.com/gpu), as a vendor's device plugin does it. "
             "refuse = none comes there, since the plugin hands out cards unseen and kubelet picks "
             "others than were chosen; allow = as on every other node, for plugins that follow "
             "the pod's annotation. Nodes that HAMi's device plugin has registered are served all "
             "the same when annotations names hami."},
    {.path = "annotations", LIST(annotations), .standard = "",
     .help = "Whose annotations a bind writes beside deviceshare.io/visible-devices: koordinator, "
             "or koordinator and hami; empty = koordinator. With hami, pods that ask by nvidia.com "
             "names get those of HAMi's device plugin on nodes that it has registered, one pod a "
             "node at a time; docs/hami.md tells of it."},

    {.path = "hami.defaultMemoryMiB", INTEGER(hami.default_memory_mib, 0, 4 * MIB),
     .standard = "0",
     .help = "Memory in MiB of a container that names none, defaultMem of HAMi. 0 = all of the "
             "card; otherwise nvidia.com/gpu alone is no whole card any more."},
    {.path = "hami.defaultCores", INTEGER(hami.default_cores, 0, 100), .standard = "0",
     .help = "Percent of core of a container that names none, defaultCores of HAMi. Not 0: "
             "nvidia.com/gpu alone is no whole card any more."},
    {.path = "hami.memoryFactor", INTEGER(hami.memory_factor, 1, 1048576), .standard = "1",
     .help = "MiB in one nvidia.com/gpumem, memoryFactor of HAMi."},
    {.path = "hami.turnWait", DURATION(hami.turn_wait_ms, 0, MINUTE), .standard = "1s",
     .help = "How long a bind waits while HAMi's device plugin sets up the pod before on the same "
             "node. Together with bind.timeout it must stay below httpTimeout of kube-scheduler. "
             "When the time is up the bind fails, and kube-scheduler tries again later."},
    {.path = "hami.turnWaiters", INTEGER(hami.turn_waiters, 0, 10000), .standard = "32",
     .help = "Binds that wait so at the same time, each with its connection; further ones fail at "
             "once. Less than server.maxConnectionsPerClient, so that filter finds a connection."},

    {.path = "metrics.perCard", WORD(metrics.per_card, "auto|on|off"), .standard = "auto",
     RELOADABLE,
     .help = "Whether every card has series of its own (device_gpu_total_core, "
             "device_gpu_used_core, device_gpu_free_core by node and minor). auto = while there "
             "are not more device nodes than metrics.perCardMaxNodes."},
    {.path = "metrics.perCardMaxNodes", INTEGER(metrics.per_card_max_nodes, 0, 100000),
     .standard = "500", RELOADABLE,
     .help = "Device nodes up to which metrics.perCard: auto means on. A node with 8 GPUs has 48 "
             "series."},

    {.path = "debug.remote", BOOL(debug.remote), .standard = "false", RELOADABLE,
     .help = "Answer /debug to every peer. false = to this host and to callers with a valid "
             "client certificate; the views name all pods and nodes."},

    {.path = "log.verbosity", INTEGER(log.verbosity, 0, 10), .standard = "2", RELOADABLE,
     .help = "As klog's -v: 0 always shown, 2 what happened to each pod, 4 why (each decision), "
             "6 trace. Warnings and errors are always shown."},

    {.path = "kubernetes.kubeconfig", PATH(kubernetes.kubeconfig), .standard = "",
     .help = "A kubeconfig file. Empty = the service account of the pod this runs in. A relative "
             "path counts from the directory of the configuration file."},
    {.path = "kubernetes.context", TEXT(kubernetes.context), .standard = "",
     .help = "Which context of the kubeconfig; empty = its current one."},

    {.path = "reflector.pageSize", INTEGER(reflector.page_size, 1, 10000), .standard = "500",
     .help = "Objects in one page of a list."},
    {.path = "reflector.watchTimeout",
     DURATION(reflector.watch_timeout_ms, 10 * SECOND, HOUR), .standard = "5m",
     .help = "After this long, up to twice as long, the API server ends a watch and it is begun "
             "anew where it was."},
    {.path = "reflector.idleTimeout",
     DURATION(reflector.idle_timeout_ms, SECOND, HOUR), .standard = "150s",
     .help = "A watch on which nothing came for so long is taken for dead. The API server sends a "
             "bookmark about once a minute."},

    {.path = "bind.timeout", DURATION(bind.timeout_ms, 100, MINUTE), .standard = "3s",
     .help = "How long the API server may work on a binding, counted from its reception; it is "
             "told so with the request."},
    {.path = "bind.delivery", DURATION(bind.delivery_ms, 100, MINUTE), .standard = "2s",
     .help = "Bound on the way of a binding to the API server, and on a commit that is already "
             "under way when the time is up."},
    {.path = "bind.clients", INTEGER(bind.clients, 1, 256), .standard = "16",
     .help = "Bindings that are written at the same time; further ones wait their turn."},

    {.path = "leaderElection.enabled", BOOL(leader_election.enabled), .standard = "true",
     .help = "Stand for election before deciding anything. Without it there must never be two "
             "processes, not even during a rollout."},
    {.path = "leaderElection.namespace", TEXT(leader_election.ns), .standard = "",
     .check = check_namespace,
     .help = "Namespace of the Lease; empty = that of the pod, else of the kubeconfig's context."},
    {.path = "leaderElection.name", TEXT(leader_election.name),
     .standard = "deviceshare-extender", .check = check_object_name,
     .help = "Name of the Lease."},
    {.path = "leaderElection.leaseDuration",
     DURATION(leader_election.lease_duration_ms, SECOND, HOUR), .standard = "15s",
     .help = "How long the others wait after the last renewal that they saw. More than "
             "leaderElection.renewDeadline, and more than bind.timeout, bind.delivery and two "
             "leaderElection.retryPeriod together: a binding is sent only while the Lease is sure "
             "to outlast it."},
    {.path = "leaderElection.renewDeadline",
     DURATION(leader_election.renew_deadline_ms, SECOND, HOUR), .standard = "10s",
     .help = "How long a leader tries to renew before it gives up. More than 1.2 times "
             "leaderElection.retryPeriod."},
    {.path = "leaderElection.retryPeriod",
     DURATION(leader_election.retry_period_ms, 100, HOUR), .standard = "2s",
     .help = "Between two tries to get or renew the Lease."},

    {.path = "wake.enabled", BOOL(wake.enabled), .standard = "true",
     .help = "Wake pods. It needs the right to patch pods."},
    {.path = "wake.pause", DURATION(wake.pause_ms, SECOND, HOUR), .standard = "30s",
     .help = "Between two wakes of one pod."},
    {.path = "wake.burst", INTEGER(wake.burst, 1, 10000), .standard = "20",
     .help = "Most pods woken in one second."},

    {.path = "embedded.manifests", PATH(embedded.manifests), .standard = "",
     .help = "A file, or a directory of *.yaml, *.yml and *.json files, with Nodes, Devices and "
             "Pods. If set, the cluster in memory is used and no API server is asked. A relative "
             "path counts from the directory of the configuration file."},
};
const uint32_t config_key_count = sizeof config_keys / sizeof config_keys[0];
/* clang-format on */

/* ---- finding ---- */

const struct config_key *config_key_find(struct str path)
{
    for (uint32_t i = 0; i < config_key_count; i++) {
        if (str_is(path, config_keys[i].path))
            return &config_keys[i];
    }
    return NULL;
}

const struct config_section *config_section_find(struct str name)
{
    for (uint32_t i = 0; i < config_section_count; i++) {
        if (str_is(name, config_sections[i].name))
            return &config_sections[i];
    }
    return NULL;
}

static struct str leaf(struct str path)
{
    size_t begin = path.len;

    while (begin > 0 && path.data[begin - 1] != '.')
        begin--;
    return (struct str){path.data + begin, path.len - begin};
}

#define NEAREST_LENGTH_MAX 64

static uint32_t lower(char c)
{
    return (uint32_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Number of characters to insert, delete or replace to make one of the other; case does not count.
 */
static uint32_t edit_distance(struct str a, struct str b)
{
    uint32_t row[NEAREST_LENGTH_MAX + 1];

    if (a.len > NEAREST_LENGTH_MAX || b.len > NEAREST_LENGTH_MAX)
        return UINT32_MAX;
    for (uint32_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= a.len; i++) {
        uint32_t diagonal = row[0];

        row[0] = i;
        for (uint32_t j = 1; j <= b.len; j++) {
            uint32_t replaced = diagonal + (lower(a.data[i - 1]) != lower(b.data[j - 1]));
            uint32_t shorter = row[j - 1] < row[j] ? row[j - 1] : row[j];

            diagonal = row[j];
            row[j] = replaced < shorter + 1 ? replaced : shorter + 1;
        }
    }
    return row[b.len];
}

static void consider(struct str path, const char *known, struct str *best, uint32_t *best_distance)
{
    struct str candidate = str_from(known);
    uint32_t distance = edit_distance(path, candidate);

    /* The right word in the wrong section. */
    if (distance > 1 && str_eq(leaf(path), leaf(candidate)))
        distance = 1;
    if (distance < *best_distance) {
        *best = candidate;
        *best_distance = distance;
    }
}

struct str config_key_nearest(struct str path)
{
    struct str best = {NULL, 0};
    uint32_t distance = leaf(path).len < 6 ? 3 : 4; /* as far as this is not near any more */

    consider(path, "apiVersion", &best, &distance);
    consider(path, "kind", &best, &distance);
    for (uint32_t i = 0; i < config_section_count; i++)
        consider(path, config_sections[i].name, &best, &distance);
    for (uint32_t i = 0; i < config_key_count; i++)
        consider(path, config_keys[i].path, &best, &distance);
    return best;
}

/* ---- fields ---- */

_Static_assert(sizeof(enum config_unknown_pods) == sizeof(unsigned) &&
                   sizeof(enum config_device_plugin_nodes) == sizeof(unsigned) &&
                   sizeof(enum config_per_card) == sizeof(unsigned),
               "KEY_WORD fields are read and written as unsigned");

static void *field(const struct config_key *key, struct config *config)
{
    return (char *)config + key->offset;
}

static const void *const_field(const struct config_key *key, const struct config *config)
{
    return (const char *)config + key->offset;
}

char *config_key_text(const struct config_key *key, struct config *config)
{
    assert(key->type == KEY_TEXT);
    return field(key, config);
}

/* Cut the first word off a list "a|b|c". */
static bool next_word(const char **list, struct str *ret)
{
    if (**list == '\0')
        return false;
    ret->data = *list;
    ret->len = strcspn(*list, "|");
    *list += ret->len + ((*list)[ret->len] == '|');
    return true;
}

/* Printable UTF-8 without line breaks: what fits on one line of a file and reads back from there.
 */
static bool printable(struct str text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t i = 0;

    while (i < text.len) {
        unsigned char first = (unsigned char)text.data[i];
        size_t len = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : 4;
        uint32_t c = len == 1 ? first : len == 4 ? first & 7u : first & (0x3fu >> (len - 1));

        if ((len == 4 && first >> 3 != 30) || len > text.len - i)
            return false;
        for (size_t k = 1; k < len; k++) {
            if (((unsigned char)text.data[i + k] & 0xc0) != 0x80)
                return false;
            c = c << 6 | ((unsigned char)text.data[i + k] & 0x3f);
        }
        if (c < least[len] || c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
            (c >= 0xd800 && c < 0xe000) || c == 0xfeff || c == 0xfffe || c == 0xffff ||
            c > 0x10ffff)
            return false;
        i += len;
    }
    return true;
}

static int set_text(const struct config_key *key, void *to, struct str value, struct error *err)
{
    const char *wrong;

    if (value.len >= key->size)
        return error_set(err, -EINVAL, "%s: longer than %zu bytes", key->path, key->size - 1);
    if (!printable(value))
        return error_set(err, -EINVAL, "%s: holds bytes that are not printable UTF-8 text",
                         key->path);
    wrong = key->check != NULL ? key->check(value) : NULL;
    if (wrong != NULL && key->choices != NULL)
        return error_set(err, -EINVAL, "%s: %.*s %s (%s)", key->path, SHOW(value), wrong,
                         key->choices());
    if (wrong != NULL)
        return error_set(err, -EINVAL, "%s: \"%.*s\" %s", key->path, SHOW(value), wrong);
    memset(to, 0, key->size);
    if (value.len > 0)
        memcpy(to, value.data, value.len);
    return 0;
}

int config_key_add(const struct config_key *key, struct config *config, struct str item,
                   struct error *err)
{
    struct config_list *list = field(key, config);

    assert(key->type == KEY_LIST);
    if (list->count == CONFIG_LIST_MAX)
        return error_set(err, -EINVAL, "%s: more than %d items", key->path, CONFIG_LIST_MAX);
    if (item.len == 0)
        return error_set(err, -EINVAL, "%s: an item is empty", key->path);
    if (item.len >= CONFIG_LIST_TEXT_MAX)
        return error_set(err, -EINVAL, "%s: an item is longer than %d bytes", key->path,
                         CONFIG_LIST_TEXT_MAX - 1);
    if (!printable(item))
        return error_set(err, -EINVAL, "%s: holds bytes that are not printable UTF-8 text",
                         key->path);
    memcpy(list->items[list->count], item.data, item.len);
    list->items[list->count++][item.len] = '\0';
    return 0;
}

/* Items separated by commas. */
static int set_list(const struct config_key *key, struct config *config, struct str value,
                    struct error *err)
{
    struct config_list *list = field(key, config), before = *list;
    int result = 0;

    memset(list, 0, sizeof *list);
    while (value.len > 0 && result == 0) {
        const char *comma = memchr(value.data, ',', value.len);
        size_t len = comma != NULL ? (size_t)(comma - value.data) : value.len;
        size_t cut = comma != NULL ? len + 1 : len;

        result = config_key_add(key, config, (struct str){value.data, len}, err);
        value = (struct str){value.data + cut, value.len - cut};
    }
    if (result < 0)
        *list = before;
    return result;
}

static int set_word(const struct config_key *key, unsigned *to, struct str value, struct error *err)
{
    const char *list = key->words;
    struct str word;

    for (unsigned i = 0; next_word(&list, &word); i++) {
        if (str_eq(word, value)) {
            *to = i;
            return 0;
        }
    }
    return error_set(err, -EINVAL, "%s: %.*s is not one of %s", key->path, SHOW(value), key->words);
}

static int set_bool(const struct config_key *key, bool *to, struct str value, struct error *err)
{
    if (!parse_bool(value, to))
        return error_set(err, -EINVAL, "%s: %.*s is not true or false", key->path, SHOW(value));
    return 0;
}

static int set_integer(const struct config_key *key, int64_t *to, struct str value,
                       struct error *err)
{
    int64_t number;

    if (!parse_int64(value, &number))
        return error_set(err, -EINVAL, "%s: %.*s is not a decimal integer", key->path, SHOW(value));
    if (number < key->min || number > key->max)
        return error_set(err, -EINVAL,
                         "%s: %" PRId64 " is out of bounds (%" PRId64 " to %" PRId64 ")", key->path,
                         number, key->min, key->max);
    *to = number;
    return 0;
}

struct duration_text {
    char text[32];
};

static struct duration_text duration_text(int64_t ms)
{
    struct duration_text ret;

    if (ms % SECOND == 0)
        snprintf(ret.text, sizeof ret.text, "%" PRId64 "s", ms / SECOND);
    else
        snprintf(ret.text, sizeof ret.text, "%" PRId64 "ms", ms);
    return ret;
}

static int set_duration(const struct config_key *key, int64_t *to, struct str value,
                        struct error *err)
{
    int64_t ms;

    if (!parse_duration_ms(value, &ms))
        return error_set(err, -EINVAL, "%s: %.*s is not a duration like 10s, 250ms or 1m30s",
                         key->path, SHOW(value));
    if (ms < key->min || ms > key->max)
        return error_set(err, -EINVAL, "%s: %.*s is out of bounds (%s to %s)", key->path,
                         SHOW(value), duration_text(key->min).text, duration_text(key->max).text);
    *to = ms;
    return 0;
}

int config_key_set(const struct config_key *key, struct config *config, struct str value,
                   struct error *err)
{
    switch (key->type) {
    case KEY_TEXT:
        return set_text(key, field(key, config), value, err);
    case KEY_LIST:
        return set_list(key, config, value, err);
    case KEY_WORD:
        return set_word(key, field(key, config), value, err);
    case KEY_BOOL:
        return set_bool(key, field(key, config), value, err);
    case KEY_INTEGER:
        return set_integer(key, field(key, config), value, err);
    case KEY_DURATION:
        return set_duration(key, field(key, config), value, err);
    }
    assert(false);
    return -EINVAL;
}

/* Words that some YAML reader takes for a boolean or for nothing. */
static bool reads_as_other(struct str text)
{
    static const char words[] = "true|false|yes|no|on|off|y|n|null";
    const char *list = words;
    struct str word;

    while (next_word(&list, &word)) {
        if (edit_distance(text, word) == 0)
            return true;
    }
    return false;
}

/* Anything but a simple word is quoted. */
static void print_text(struct str text, struct strbuf *out)
{
    bool simple = text.len > 0 && !reads_as_other(text);

    for (size_t i = 0; i < text.len; i++)
        simple = simple && lower(text.data[i]) >= 'a' && lower(text.data[i]) <= 'z';
    if (simple)
        strbuf_add_str(out, text);
    else
        strbuf_json_string(out, text);
}

static void print_list(const struct config_list *list, struct strbuf *out)
{
    strbuf_putc(out, '[');
    for (uint32_t i = 0; i < list->count; i++) {
        strbuf_puts(out, i > 0 ? ", " : "");
        strbuf_json_string(out, str_from(list->items[i]));
    }
    strbuf_putc(out, ']');
}

static void print_word(const struct config_key *key, unsigned value, struct strbuf *out)
{
    const char *list = key->words;
    struct str word;

    for (unsigned i = 0; next_word(&list, &word); i++) {
        if (i == value) {
            print_text(word, out);
            return;
        }
    }
    assert(false);
}

void config_key_print(const struct config_key *key, const struct config *config, struct strbuf *out)
{
    const void *from = const_field(key, config);

    switch (key->type) {
    case KEY_TEXT:
        print_text(str_from(from), out);
        break;
    case KEY_LIST:
        print_list(from, out);
        break;
    case KEY_WORD:
        print_word(key, *(const unsigned *)from, out);
        break;
    case KEY_BOOL:
        strbuf_puts(out, *(const bool *)from ? "true" : "false");
        break;
    case KEY_INTEGER:
        strbuf_int(out, *(const int64_t *)from);
        break;
    case KEY_DURATION:
        strbuf_puts(out, duration_text(*(const int64_t *)from).text);
        break;
    }
}

/* "a|b|c" as "a, b or c". */
static void print_choices(const char *list, struct strbuf *out)
{
    struct str word;
    const char *before = "";

    while (next_word(&list, &word)) {
        strbuf_puts(out, before);
        strbuf_add_str(out, word);
        before = strchr(list, '|') != NULL ? ", " : " or ";
    }
}

void config_key_print_type(const struct config_key *key, struct strbuf *out)
{
    switch (key->type) {
    case KEY_TEXT:
        if (key->choices != NULL)
            print_choices(key->choices(), out);
        else
            strbuf_puts(out, "text");
        break;
    case KEY_LIST:
        strbuf_printf(out, "list of text, up to %d", CONFIG_LIST_MAX);
        break;
    case KEY_WORD:
        print_choices(key->words, out);
        break;
    case KEY_BOOL:
        strbuf_puts(out, "true or false");
        break;
    case KEY_INTEGER:
        strbuf_printf(out, "integer, %" PRId64 " to %" PRId64, key->min, key->max);
        break;
    case KEY_DURATION:
        strbuf_printf(out, "duration, %s to %s", duration_text(key->min).text,
                      duration_text(key->max).text);
        break;
    }
}

static bool lists_equal(const struct config_list *a, const struct config_list *b)
{
    bool equal = a->count == b->count;

    for (uint32_t i = 0; equal && i < a->count; i++)
        equal = strcmp(a->items[i], b->items[i]) == 0;
    return equal;
}

bool config_key_equal(const struct config_key *key, const struct config *a, const struct config *b)
{
    const void *one = const_field(key, a), *other = const_field(key, b);

    switch (key->type) {
    case KEY_TEXT:
        return strcmp(one, other) == 0;
    case KEY_LIST:
        return lists_equal(one, other);
    case KEY_WORD:
        return *(const unsigned *)one == *(const unsigned *)other;
    case KEY_BOOL:
        return *(const bool *)one == *(const bool *)other;
    case KEY_INTEGER:
    case KEY_DURATION:
        return *(const int64_t *)one == *(const int64_t *)other;
    }
    assert(false);
    return false;
}
