/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include "config/keys.h"
#include "config/settings.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define KEYS_MAX       64

void config_defaults(struct config *ret)
{
    struct config config = {0};

    for (uint32_t i = 0; i < config_key_count; i++) {
        int set = config_key_set(&config_keys[i], &config, str_from(config_keys[i].standard), NULL);

        assert(set == 0);
    }
    *ret = config;
}

int config_set(struct config *config, const char *key, const char *value, struct error *err)
{
    const struct config_key *row = config_key_find(str_from(key));

    if (row == NULL)
        return error_set(err, -EINVAL, "%s: unknown key", key);
    return config_key_set(row, config, str_from(value), err);
}

/* ---- rules between keys ---- */

static int check_connections(const struct config *config, struct error *err)
{
    if (config->server.max_connections_per_client <= config->server.max_connections)
        return 0;
    return error_set(err, -EINVAL,
                     "server.maxConnectionsPerClient: %" PRId64
                     " is more than server.maxConnections (%" PRId64 ")",
                     config->server.max_connections_per_client, config->server.max_connections);
}

static int check_bodies(const struct config *config, struct error *err)
{
    if (config->server.max_bodies_bytes >= config->server.max_body_bytes)
        return 0;
    return error_set(err, -EINVAL,
                     "server.maxBodiesBytes: %" PRId64 " is less than server.maxBodyBytes (%" PRId64
                     ")",
                     config->server.max_bodies_bytes, config->server.max_body_bytes);
}

static int check_pair(const struct config *config, struct error *err)
{
    bool cert = config->server.tls.cert_file[0] != '\0';
    bool key = config->server.tls.key_file[0] != '\0';

    if (cert == key)
        return 0;
    return error_set(err, -EINVAL,
                     "%s: missing; server.tls.certFile and server.tls.keyFile go together",
                     cert ? "server.tls.keyFile" : "server.tls.certFile");
}

static int check_client_ca(const struct config *config, struct error *err)
{
    if (config->server.tls.client_ca_file[0] == '\0' || config->server.tls.cert_file[0] != '\0')
        return 0;
    return error_set(err, -EINVAL,
                     "server.tls.clientCAFile: clients show their certificates to a server with "
                     "server.tls.certFile only");
}

static int check_allowed_clients(const struct config *config, struct error *err)
{
    if (config->server.tls.allowed_clients.count == 0 ||
        config->server.tls.client_ca_file[0] != '\0')
        return 0;
    return error_set(err, -EINVAL,
                     "server.tls.allowedClients: without server.tls.clientCAFile nobody's name is "
                     "known");
}

/* Numeric addresses of this host that no other can reach. */
static bool is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, address, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

static int check_plain_http(const struct config *config, struct error *err)
{
    if (config->server.tls.cert_file[0] != '\0' || config->server.allow_plain_http ||
        is_loopback(config->server.address))
        return 0;
    return error_set(err, -EINVAL,
                     "server.address: %s can be reached from other hosts, and plain HTTP protects "
                     "nothing on the way there; set server.tls, or server.allowPlainHTTP: true",
                     config->server.address);
}

static int check_renewal(const struct config *config, struct error *err)
{
    if (config->leader_election.lease_duration_ms > config->leader_election.renew_deadline_ms)
        return 0;
    return error_set(err, -EINVAL,
                     "leaderElection.leaseDuration: must be more than "
                     "leaderElection.renewDeadline");
}

static int check_retry(const struct config *config, struct error *err)
{
    if (config->leader_election.renew_deadline_ms * 5 >
        config->leader_election.retry_period_ms * 6)
        return 0;
    return error_set(err, -EINVAL,
                     "leaderElection.renewDeadline: must be more than 1.2 times "
                     "leaderElection.retryPeriod");
}

static int check_bind_times(const struct config *config, struct error *err)
{
    if (config->leader_election.lease_duration_ms >
        config->bind.timeout_ms + config->bind.delivery_ms +
            2 * config->leader_election.retry_period_ms)
        return 0;
    return error_set(err, -EINVAL,
                     "leaderElection.leaseDuration: must be more than bind.timeout, bind.delivery "
                     "and two leaderElection.retryPeriod together, or no binding could be sent");
}

bool config_list_has(const struct config_list *list, const char *item)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

static int check_annotations(const struct config *config, struct error *err)
{
    const struct config_list *list = &config->annotations;
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], "koordinator") != 0 && strcmp(list->items[i], "hami") != 0)
            return error_set(err, -EINVAL, "annotations: \"%s\" is none of koordinator|hami",
                             list->items[i]);
    if (list->count > 0 && !config_list_has(list, "koordinator"))
        return error_set(err, -EINVAL,
                         "annotations: koordinator must be among them: bookings are read from "
                         "there after a restart");
    return 0;
}

static int check_turn_waiters(const struct config *config, struct error *err)
{
    if (!config_list_has(&config->annotations, "hami") ||
        config->hami.turn_waiters < config->server.max_connections_per_client)
        return 0;
    return error_set(err, -EINVAL,
                     "hami.turnWaiters: must be less than server.maxConnectionsPerClient");
}

/* A rule, and the keys at whose last one in the file a breach is reported. */
static const struct rule {
    int (*check)(const struct config *config, struct error *err);
    const char *keys[4];
} rules[] = {
    {check_connections, {"server.maxConnections", "server.maxConnectionsPerClient"}},
    {check_bodies, {"server.maxBodyBytes", "server.maxBodiesBytes"}},
    {check_pair, {"server.tls.certFile", "server.tls.keyFile"}},
    {check_client_ca, {"server.tls.clientCAFile", "server.tls.certFile"}},
    {check_allowed_clients, {"server.tls.allowedClients", "server.tls.clientCAFile"}},
    {check_renewal, {"leaderElection.leaseDuration", "leaderElection.renewDeadline"}},
    {check_retry, {"leaderElection.renewDeadline", "leaderElection.retryPeriod"}},
    {check_bind_times,
     {"leaderElection.leaseDuration", "bind.timeout", "bind.delivery",
      "leaderElection.retryPeriod"}},
    {check_annotations, {"annotations"}},
    {check_turn_waiters, {"hami.turnWaiters", "annotations", "server.maxConnectionsPerClient"}},
    {check_plain_http, {"server.address", "server.allowPlainHTTP"}},
};

enum { RULES = sizeof rules / sizeof rules[0], RULE_KEYS = 4 };

int config_check(const struct config *config, struct error *err)
{
    int result = 0;

    for (size_t i = 0; i < RULES && result == 0; i++)
        result = rules[i].check(config, err);
    return result;
}

void config_restart_keys(const struct config *running, const struct config *wanted,
                         struct strbuf *out)
{
    for (uint32_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];

        if (!key->reloadable && !config_key_equal(key, running, wanted))
            strbuf_printf(out, "%s\n", key->path);
    }
}

/* ---- a file's text ---- */

/* A file being read: the values so far and where the keys stood. */
struct reading {
    struct settings *settings;
    struct config config;
    bool api_version, kind;    /* seen */
    struct place at[KEYS_MAX]; /* of each key's value; line 0 = not in the file */
};

/* Is a plain scalar a string to YAML (1.2 core schema), or something else? */
static bool reads_as_null(struct str text)
{
    return text.len == 0 || str_is(text, "~") || str_is(text, "null") || str_is(text, "Null") ||
           str_is(text, "NULL");
}

static bool reads_as_bool(struct str text)
{
    return str_is(text, "true") || str_is(text, "True") || str_is(text, "TRUE") ||
           str_is(text, "false") || str_is(text, "False") || str_is(text, "FALSE");
}

static size_t digits(struct str text, size_t from)
{
    size_t end = from;

    while (end < text.len && text.data[end] >= '0' && text.data[end] <= '9')
        end++;
    return end - from;
}

static bool reads_as_number(struct str text)
{
    size_t at = text.len > 0 && (text.data[0] == '-' || text.data[0] == '+');
    size_t whole, part = 0;

    if (text.len > at + 2 && text.data[at] == '0' &&
        (text.data[at + 1] == 'x' || text.data[at + 1] == 'o'))
        return true;
    whole = digits(text, at);
    at += whole;
    if (at < text.len && text.data[at] == '.') {
        part = digits(text, at + 1);
        at += 1 + part;
    }
    if (whole + part == 0)
        return false;
    if (at < text.len && (text.data[at] == 'e' || text.data[at] == 'E')) {
        size_t sign = at + 1 < text.len && (text.data[at + 1] == '-' || text.data[at + 1] == '+');
        size_t exponent = digits(text, at + 1 + sign);

        at += exponent > 0 ? 1 + sign + exponent : 0;
    }
    return at == text.len;
}

static const char *shape_name(const struct setting *setting)
{
    if (setting->shape == SETTING_MAPPING)
        return "a mapping";
    if (setting->shape == SETTING_LIST)
        return "a list";
    if (setting->quoted)
        return "a string";
    if (reads_as_null(setting->value))
        return "nothing";
    if (reads_as_bool(setting->value))
        return "a boolean";
    return reads_as_number(setting->value) ? "a number" : "a string";
}

static const char *wanted_name(enum key_type type)
{
    switch (type) {
    case KEY_TEXT:
    case KEY_WORD:
        return "a string";
    case KEY_LIST:
        return "a list";
    case KEY_BOOL:
        return "a boolean";
    case KEY_INTEGER:
        return "a number";
    case KEY_DURATION:
        return "a duration like 10s";
    }
    return "";
}

/* Does the value have the YAML type that the key wants? Durations are strings. */
static bool has_type(const struct config_key *key, const struct setting *setting)
{
    const char *wanted = key->type == KEY_DURATION ? "a string" : wanted_name(key->type);

    return strcmp(shape_name(setting), wanted) == 0;
}

static void wrong_type(struct reading *reading, const struct setting *setting, const char *wanted)
{
    settings_problem(reading->settings, setting->value_at, "%.*s: %s where %s is wanted%s",
                     STR_ARG(setting->path), shape_name(setting), wanted,
                     setting->shape == SETTING_SCALAR && setting->quoted &&
                             strcmp(wanted, "a number") == 0
                         ? "; write it without quotes"
                         : "");
}

/* Add the items of a list. */
static void take_items(struct reading *reading, const struct config_key *key,
                       const struct setting *list)
{
    struct setting item = *list;
    struct error err;

    while (settings_item(reading->settings, &item)) {
        if (strcmp(shape_name(&item), "a string") != 0)
            wrong_type(reading, &item, "a string");
        else if (config_key_add(key, &reading->config, item.value, &err) < 0)
            settings_problem(reading->settings, item.value_at, "%s", err.text);
    }
}

static void take_key(struct reading *reading, const struct config_key *key,
                     const struct setting *setting)
{
    struct error err;

    if (!has_type(key, setting))
        wrong_type(reading, setting, wanted_name(key->type));
    else if (key->type == KEY_LIST)
        take_items(reading, key, setting);
    else if (config_key_set(key, &reading->config, setting->value, &err) < 0)
        settings_problem(reading->settings, setting->value_at, "%s", err.text);
    reading->at[key - config_keys] = setting->value_at;
}

/* A section may be empty: all its keys commented out. */
static void take_section(struct reading *reading, const struct setting *setting)
{
    bool empty =
        setting->shape == SETTING_SCALAR && !setting->quoted && reads_as_null(setting->value);

    if (setting->shape != SETTING_MAPPING && !empty)
        wrong_type(reading, setting, "a mapping");
}

static void take_unknown(struct reading *reading, const struct setting *setting)
{
    struct str nearest = config_key_nearest(setting->path);

    settings_problem(reading->settings, setting->key_at, "%.*s: unknown key%s%.*s%s",
                     STR_ARG(setting->path), nearest.len > 0 ? "; did you mean " : "",
                     STR_ARG(nearest), nearest.len > 0 ? "?" : "");
}

/* apiVersion and kind: one value each. */
static void take_fixed(struct reading *reading, const struct setting *setting, const char *value)
{
    if (setting->shape != SETTING_SCALAR)
        wrong_type(reading, setting, "a string");
    else if (!str_is(setting->value, value))
        settings_problem(reading->settings, setting->value_at,
                         "%.*s: %.*s is not known here; it must be %s", STR_ARG(setting->path),
                         STR_ARG(setting->value), value);
}

static void take_setting(struct reading *reading, const struct setting *setting)
{
    const struct config_key *key = config_key_find(setting->path);
    bool section = config_section_find(setting->path) != NULL;

    if (str_is(setting->path, "apiVersion")) {
        take_fixed(reading, setting, CONFIG_API_VERSION);
        reading->api_version = true;
    } else if (str_is(setting->path, "kind")) {
        take_fixed(reading, setting, CONFIG_KIND);
        reading->kind = true;
    } else if (key != NULL) {
        take_key(reading, key, setting);
    } else if (section) {
        take_section(reading, setting);
    } else {
        take_unknown(reading, setting);
    }
    if (setting->shape == SETTING_MAPPING && !section)
        settings_skip(reading->settings);
}

/* Where the last one of a rule's keys was given. At least one of them was. */
static struct place last_of(const struct reading *reading, const struct rule *rule)
{
    struct place last = {0, 0};

    for (size_t i = 0; i < RULE_KEYS && rule->keys[i] != NULL; i++) {
        struct place at = reading->at[config_key_find(str_from(rule->keys[i])) - config_keys];

        if (at.line > last.line || (at.line == last.line && at.column > last.column))
            last = at;
    }
    return last;
}

/* What can be judged only when the whole file is read. */
static void check_whole(struct reading *reading)
{
    static const struct place top = {1, 1};
    struct error err;

    if (!reading->api_version)
        settings_problem(reading->settings, top,
                         "apiVersion: missing; it must be " CONFIG_API_VERSION);
    if (!reading->kind)
        settings_problem(reading->settings, top, "kind: missing; it must be " CONFIG_KIND);
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i].check(&reading->config, &err) < 0)
            settings_problem(reading->settings, last_of(reading, &rules[i]), "%s", err.text);
    }
}

/* As config_parse; `ret_at` (may be NULL) has room for KEYS_MAX places of values. */
static int parse(struct str text, const char *file, struct config *ret, struct place *ret_at,
                 struct strbuf *problems)
{
    struct reading reading = {.settings = settings_open(text, file, problems)};
    struct setting setting;
    int result;

    assert(config_key_count <= KEYS_MAX);
    if (reading.settings == NULL)
        return -ENOMEM;
    config_defaults(&reading.config);
    while (settings_next(reading.settings, &setting))
        take_setting(&reading, &setting);
    if (settings_complete(reading.settings))
        check_whole(&reading);
    result = settings_failed(reading.settings)              ? -ENOMEM
             : settings_problem_count(reading.settings) > 0 ? -EINVAL
                                                            : 0;
    settings_close(reading.settings);
    if (result == 0) {
        *ret = reading.config;
        if (ret_at != NULL)
            memcpy(ret_at, reading.at, sizeof reading.at);
    }
    return result;
}

static int refuse(struct strbuf *problems, const char *file, const char *sentence)
{
    strbuf_printf(problems, "%s:1:1: %s\n", file, sentence);
    return problems->failed ? -ENOMEM : -EINVAL;
}

int config_parse(struct str text, const char *file, struct config *ret, struct strbuf *problems)
{
    if (text.len > FILE_BYTES_MAX)
        return refuse(problems, file, "larger than 1 MiB");
    return parse(text, file, ret, NULL, problems);
}

/* ---- a file ---- */

/* At most one byte more than is allowed, so that too much can be told from enough. */
static int read_file(const char *path, struct strbuf *out, struct strbuf *problems)
{
    FILE *file = fopen(path, "re");
    int failure = file == NULL ? errno : 0;

    while (file != NULL && out->len <= FILE_BYTES_MAX && strbuf_reserve(out, 4096)) {
        size_t got = fread(out->data + out->len, 1, 4096, file);

        out->len += got;
        if (got == 0) {
            failure = ferror(file) ? errno : 0;
            break;
        }
    }
    if (file != NULL)
        fclose(file);
    if (out->failed)
        return -ENOMEM;
    return failure == 0 ? 0 : refuse(problems, path, strerror(failure));
}

/* Make a relative path count from the configuration file's directory. */
static int resolve_path(const struct config_key *key, struct config *config, const char *path,
                        struct place at, struct strbuf *problems)
{
    char *value = config_key_text(key, config);
    const char *slash = strrchr(path, '/');
    char resolved[CONFIG_TEXT_MAX];
    int len;

    assert(key->size <= sizeof resolved);
    if (value[0] == '\0' || value[0] == '/' || slash == NULL)
        return 0;
    len = snprintf(resolved, sizeof resolved, "%.*s/%s", (int)(slash - path), path, value);
    if (len < 0 || (size_t)len >= key->size) {
        strbuf_printf(problems, "%s:%u:%u: %s: with the file's directory longer than %zu bytes\n",
                      path, at.line, at.column, key->path, key->size - 1);
        return problems->failed ? -ENOMEM : -EINVAL;
    }
    memcpy(value, resolved, (size_t)len + 1);
    return 0;
}

int config_load(const char *path, struct config *ret, struct strbuf *problems)
{
    struct strbuf text;
    struct config config;
    struct place at[KEYS_MAX];
    int result;

    strbuf_init(&text);
    result = read_file(path, &text, problems);
    if (result == 0 && text.len > FILE_BYTES_MAX)
        result = refuse(problems, path, "larger than 1 MiB");
    if (result == 0)
        result = parse((struct str){text.data, text.len}, path, &config, at, problems);
    for (uint32_t i = 0; i < config_key_count && result == 0; i++) {
        if (config_keys[i].is_path)
            result = resolve_path(&config_keys[i], &config, path, at[i], problems);
    }
    strbuf_done(&text);
    if (result == 0)
        *ret = config;
    return result;
}
