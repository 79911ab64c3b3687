/* SPDX-License-Identifier: Apache-2.0 */
#include "config/kubeconfig.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/parse.h"

#include <yaml.h>

#define FILE_BYTES_MAX   ((size_t)4 * 1024 * 1024)
#define PROBLEM_TEXT_MAX 384

/* A file under reading. The first problem stays, and everything after it finds nothing. */
struct reading {
    const char *path;
    yaml_document_t document;
    struct arena *mem;
    int rc;
    struct error *err;
};

static void out_of_memory(struct reading *reading)
{
    if (reading->rc == 0)
        reading->rc = error_set(reading->err, -ENOMEM, "%s: out of memory", reading->path);
}

static void problem(struct reading *reading, const yaml_node_t *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void problem(struct reading *reading, const yaml_node_t *at, const char *format, ...)
{
    char text[PROBLEM_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (reading->rc == 0)
        reading->rc = error_set(reading->err, -EINVAL, "%s:%zu:%zu: %s", reading->path,
                                at->start_mark.line + 1, at->start_mark.column + 1, text);
}

/* ---- values ---- */

static struct str scalar_text(const yaml_node_t *node)
{
    return (struct str){(const char *)node->data.scalar.value, node->data.scalar.length};
}

static bool is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    struct str text = scalar_text(node);
    return text.len == 0 || str_is(text, "~") || str_is(text, "null") || str_is(text, "Null") ||
           str_is(text, "NULL");
}

/* The value of `key`; NULL when it is missing or null, or `map` is. */
static yaml_node_t *get(struct reading *reading, yaml_node_t *map, const char *key)
{
    if (reading->rc != 0 || map == NULL)
        return NULL;
    if (map->type != YAML_MAPPING_NODE) {
        problem(reading, map, "must be a mapping that may have \"%s\"", key);
        return NULL;
    }
    yaml_node_t *found = NULL;
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
         pair++) {
        yaml_node_t *name = yaml_document_get_node(&reading->document, pair->key);
        if (name->type != YAML_SCALAR_NODE || !str_is(scalar_text(name), key))
            continue;
        if (found != NULL) {
            problem(reading, name, "%s: is given twice", key);
            return NULL;
        }
        found = yaml_document_get_node(&reading->document, pair->value);
    }
    return found != NULL && !is_null(found) ? found : NULL;
}

/* A text that may be missing; an empty one is. */
static const char *get_text(struct reading *reading, yaml_node_t *map, const char *key)
{
    yaml_node_t *node = get(reading, map, key);
    if (node == NULL)
        return NULL;
    if (node->type != YAML_SCALAR_NODE) {
        problem(reading, node, "%s: must be a text", key);
        return NULL;
    }
    struct str text = scalar_text(node);
    if (memchr(text.data, '\0', text.len) != NULL) {
        problem(reading, node, "%s: must not hold a NUL", key);
        return NULL;
    }
    struct str kept = arena_str(reading->mem, text);
    if (kept.data == NULL)
        out_of_memory(reading);
    return kept.len > 0 ? kept.data : NULL;
}

static bool get_bool(struct reading *reading, yaml_node_t *map, const char *key)
{
    bool value = false;
    yaml_node_t *node = get(reading, map, key);
    if (node != NULL && (node->type != YAML_SCALAR_NODE || !parse_bool(scalar_text(node), &value)))
        problem(reading, node, "%s: must be true or false", key);
    return value;
}

/* A file's name; a relative one counts from the kubeconfig's folder. */
static const char *get_file(struct reading *reading, yaml_node_t *map, const char *key)
{
    const char *name = get_text(reading, map, key);
    const char *slash = strrchr(reading->path, '/');
    if (name == NULL || name[0] == '/' || slash == NULL)
        return name;
    struct strbuf whole = {0};
    strbuf_add(&whole, reading->path, (size_t)(slash + 1 - reading->path));
    strbuf_puts(&whole, name);
    struct str kept = {0};
    if (!whole.failed)
        kept = arena_str(reading->mem, (struct str){whole.data, whole.len});
    strbuf_done(&whole);
    if (kept.data == NULL)
        out_of_memory(reading);
    return kept.data;
}

static bool is_pem(const struct strbuf *text)
{
    return text->len > 0 && strlen(text->data) == text->len &&
           strstr(text->data, "-----BEGIN ") != NULL;
}

/* PEM in base64. */
static const char *get_pem(struct reading *reading, yaml_node_t *map, const char *key)
{
    yaml_node_t *node = get(reading, map, key);
    const char *text = get_text(reading, map, key);
    if (text == NULL)
        return NULL;
    struct strbuf bytes = {0};
    struct str kept = {0};
    if (!base64_decode(str_from(text), &bytes))
        problem(reading, node, "%s: is not base64", key);
    else if (!bytes.failed && !is_pem(&bytes))
        problem(reading, node, "%s: must be base64 of a PEM text", key);
    else if (!bytes.failed)
        kept = arena_str(reading->mem, (struct str){bytes.data, bytes.len});
    strbuf_done(&bytes);
    if (kept.data == NULL) /* unless there is another problem */
        out_of_memory(reading);
    return kept.data;
}

static void refuse(struct reading *reading, yaml_node_t *map, const char *key, const char *why)
{
    yaml_node_t *node = get(reading, map, key);
    bool empty = node != NULL && node->type == YAML_SCALAR_NODE && scalar_text(node).len == 0;
    if (node != NULL && !empty)
        problem(reading, node, "%s: %s", key, why);
}

/* ---- named entries ---- */

/* In the list `list`, the mapping `key` of the entry called `name`; `from` is the place that names
 * it. */
static yaml_node_t *get_entry(struct reading *reading, const char *list, const char *key,
                              const char *name, const yaml_node_t *from)
{
    yaml_node_t *entries = get(reading, yaml_document_get_root_node(&reading->document), list);
    if (entries != NULL && entries->type != YAML_SEQUENCE_NODE) {
        problem(reading, entries, "%s: must be a list", list);
        return NULL;
    }
    yaml_node_t *found = NULL;
    for (yaml_node_item_t *item = entries != NULL ? entries->data.sequence.items.start : NULL;
         item != NULL && item < entries->data.sequence.items.top && reading->rc == 0; item++) {
        yaml_node_t *entry = yaml_document_get_node(&reading->document, *item);
        const char *called = get_text(reading, entry, "name");
        if (called == NULL || strcmp(called, name) != 0)
            continue;
        if (found != NULL)
            problem(reading, entry, "%s: \"%s\" is given twice", list, name);
        found = entry;
    }
    if (found == NULL)
        problem(reading, from, "%s: there is no \"%s\"", list, name);
    return get(reading, found, key);
}

/* ---- what it says ---- */

static void read_server(struct reading *reading, yaml_node_t *cluster, const yaml_node_t *context,
                        struct api_access *access)
{
    yaml_node_t *node = get(reading, cluster, "server");
    const char *text = get_text(reading, cluster, "server");
    if (text == NULL) {
        problem(reading, cluster != NULL ? cluster : context, "server: must be given");
        return;
    }
    if (strncmp(text, "https://", 8) != 0 && strncmp(text, "http://", 7) != 0) {
        problem(reading, node, "server: must begin with https:// or http://");
        return;
    }
    size_t len = strlen(text);
    while (text[len - 1] == '/')
        len--;
    access->server = arena_str(reading->mem, (struct str){text, len}).data;
    if (access->server == NULL)
        out_of_memory(reading);
}

static void read_cluster(struct reading *reading, yaml_node_t *cluster, const yaml_node_t *context,
                         struct api_access *access)
{
    read_server(reading, cluster, context, access);
    access->tls_server_name = get_text(reading, cluster, "tls-server-name");
    access->insecure = get_bool(reading, cluster, "insecure-skip-tls-verify");
    access->ca_file = get_file(reading, cluster, "certificate-authority");
    access->ca_pem = get_pem(reading, cluster, "certificate-authority-data");
    refuse(reading, cluster, "proxy-url", "proxies are not supported");
    if (access->insecure && (access->ca_file != NULL || access->ca_pem != NULL))
        problem(reading, get(reading, cluster, "insecure-skip-tls-verify"),
                "insecure-skip-tls-verify: not together with a certificate authority");
}

static void read_user(struct reading *reading, yaml_node_t *user, struct api_access *access)
{
    static const struct {
        const char *key, *why;
    } refused[] = {
        {"exec", "credential plugins are not supported; use a token, tokenFile or certificate"},
        {"auth-provider", "is not supported, nor by Kubernetes since 1.26"},
        {"username", "basic authentication is not supported"},
        {"password", "basic authentication is not supported"},
        {"as", "impersonation is not supported"},
        {"as-uid", "impersonation is not supported"},
        {"as-groups", "impersonation is not supported"},
        {"as-user-extra", "impersonation is not supported"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        refuse(reading, user, refused[i].key, refused[i].why);
    access->token = get_text(reading, user, "token");
    access->token_file = get_file(reading, user, "tokenFile");
    access->client_cert_file = get_file(reading, user, "client-certificate");
    access->client_cert_pem = get_pem(reading, user, "client-certificate-data");
    access->client_key_file = get_file(reading, user, "client-key");
    access->client_key_pem = get_pem(reading, user, "client-key-data");
    bool certificate = access->client_cert_file != NULL || access->client_cert_pem != NULL;
    bool key = access->client_key_file != NULL || access->client_key_pem != NULL;
    if (user != NULL && certificate != key)
        problem(reading, user,
                "client-certificate and client-key: one is of no use without the other");
}

/* Who we are is told to nobody in clear text; kubectl does the same. */
static void drop_identity(struct api_access *access)
{
    access->token = access->token_file = NULL;
    access->client_cert_file = access->client_cert_pem = NULL;
    access->client_key_file = access->client_key_pem = NULL;
}

static void read_context(struct reading *reading, yaml_node_t *context, struct api_access *access)
{
    const char *cluster = get_text(reading, context, "cluster");
    const char *user = get_text(reading, context, "user");
    access->ns = get_text(reading, context, "namespace");
    if (reading->rc != 0)
        return;
    if (cluster == NULL) {
        problem(reading, context, "cluster: must be given");
        return;
    }
    read_cluster(reading, get_entry(reading, "clusters", "cluster", cluster, context), context,
                 access);
    if (user != NULL)
        read_user(reading, get_entry(reading, "users", "user", user, context), access);
    if (reading->rc == 0 && strncmp(access->server, "http://", 7) == 0)
        drop_identity(access);
}

static void read_root(struct reading *reading, const char *wanted, struct api_access *access)
{
    yaml_node_t *root = yaml_document_get_root_node(&reading->document);
    if (root == NULL) {
        reading->rc = error_set(reading->err, -EINVAL, "%s: is empty", reading->path);
        return;
    }
    const char *kind = get_text(reading, root, "kind");
    if (kind != NULL && strcmp(kind, "Config") != 0)
        problem(reading, get(reading, root, "kind"), "kind: must be Config");
    yaml_node_t *from = root;
    if (wanted == NULL) {
        from = get(reading, root, "current-context");
        wanted = get_text(reading, root, "current-context");
    }
    if (wanted == NULL)
        problem(reading, root, "current-context: must be given, or a context be chosen");
    if (reading->rc != 0)
        return;
    yaml_node_t *context = get_entry(reading, "contexts", "context", wanted, from);
    if (reading->rc == 0 && context == NULL)
        problem(reading, from, "contexts: \"%s\" says nothing", wanted);
    if (reading->rc == 0)
        read_context(reading, context, access);
}

/* ---- the file ---- */

static int not_yaml(const char *path, const yaml_parser_t *parser, struct error *err)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return error_set(err, -ENOMEM, "%s: out of memory", path);
    return error_set(err, -EINVAL, "%s:%zu:%zu: not YAML: %s", path, parser->problem_mark.line + 1,
                     parser->problem_mark.column + 1, parser->problem);
}

static int parse(const char *path, struct str text, const char *context, struct arena *mem,
                 struct api_access *access, struct error *err)
{
    yaml_parser_t parser;
    struct reading reading = {.path = path, .mem = mem, .err = err};
    if (!yaml_parser_initialize(&parser))
        return error_set(err, -ENOMEM, "%s: out of memory", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.data, text.len);
    if (yaml_parser_load(&parser, &reading.document)) {
        read_root(&reading, context, access);
        yaml_document_delete(&reading.document);
    } else {
        reading.rc = not_yaml(path, &parser, err);
    }
    yaml_parser_delete(&parser);
    return reading.rc;
}

int kubeconfig_load(const char *path, const char *context, struct arena *mem,
                    struct api_access *ret, struct error *err)
{
    struct strbuf text = {0};
    struct api_access access = {0};
    int rc = file_read(path, FILE_BYTES_MAX, &text, err);
    if (rc == 0)
        rc = parse(path, (struct str){text.data != NULL ? text.data : "", text.len}, context, mem,
                   &access, err);
    strbuf_done(&text);
    if (rc == 0)
        *ret = access;
    return rc;
}
