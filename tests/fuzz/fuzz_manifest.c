/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "codec/reader.h"
#include "core/policy.h"
#include "embed/cluster.h"
#include "embed/yaml.h"
#include "json_oracle.h"

/* Manifests. Each document becomes JSON on which json-c agrees, which becomes YAML, which becomes equal JSON
 * again. And a cluster that takes the text gives out a dump that a second cluster takes, to the same state. */

static bool same_text(struct str a, struct str b, struct arena *mem)
{
    struct error err = {0};
    struct str x, y;
    MUST(reader_string(a, mem, &x, &err) == 0 && reader_string(b, mem, &y, &err) == 0);
    return str_eq(x, y);
}

/* Equal values in equal order. A manifest that is JSON keeps its escapes, which YAML writes in its own way. */
static bool same(struct str a, struct str b, struct arena *mem)
{
    enum reader_type type = reader_type(a);
    if (str_eq(a, b))
        return true;
    if (type != reader_type(b) || type == READER_NULL || type == READER_BOOL || type == READER_NUMBER)
        return false;
    if (type == READER_STRING)
        return same_text(a, b, mem);
    if (reader_count(a) != reader_count(b))
        return false;
    struct reader_iter left = reader_iterate(a), right = reader_iterate(b);
    struct str key[2], value[2];
    if (type == READER_OBJECT) {
        while (reader_next_member(&left, &key[0], &value[0]) && reader_next_member(&right, &key[1], &value[1]))
            if (!same_text(key[0], key[1], mem) || !same(value[0], value[1], mem))
                return false;
    } else {
        while (reader_next_item(&left, &value[0]) && reader_next_item(&right, &value[1]))
            if (!same(value[0], value[1], mem))
                return false;
    }
    return true;
}

static void must_come_back(struct str json, struct arena *mem)
{
    struct strbuf yaml = {0};
    struct yaml_document *documents;
    uint32_t count;
    struct error err = {0};
    const char *why;
    MUST(json_oracle(json, 65, &why) == JSON_ACCEPTED);
    MUST(yaml_from_json(json, &yaml, &err) == 0);
    int rc = yaml_to_json((struct str){yaml.data, yaml.len}, "back", mem, &documents, &count, &err);
    MUST(rc == 0);
    if (str_is(json, "null"))
        MUST(count == 0 || str_is(documents[0].json, "null"));
    else
        MUST(count == 1 && same(documents[0].json, json, mem));
    strbuf_done(&yaml);
}

static void read_documents(struct str text)
{
    struct arena mem;
    struct yaml_document *documents;
    uint32_t count;
    struct error err = {0};
    arena_init(&mem, 0);
    int rc = yaml_to_json(text, "x", &mem, &documents, &count, &err);
    MUST(rc == 0 || (rc == -EINVAL && strncmp(err.text, "x:", 2) == 0));
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        must_come_back(documents[i].json, &mem);
    arena_done(&mem);
}

struct world {
    struct cache *cache;
    struct cluster *cluster;
    struct sched sched;
};

static void world_init(struct world *world)
{
    world->cache = cache_new(UNKNOWN_PODS_CLOSE);
    world->cluster = cluster_new();
    MUST(world->cache != NULL && world->cluster != NULL);
    sched_init(&world->sched, world->cache, clock_system(), cluster_port(world->cluster),
               device_policy_find(STR("default")), node_policy_find(STR("spread")));
    cluster_attach(world->cluster, &world->sched);
}

static void world_done(struct world *world)
{
    cluster_free(world->cluster);
    cache_free(world->cache);
}

/* Manifests are read as Go reads an extender's body: letter case does not matter. What an API server adds to them
 * stands beside a "metaData" then, and the last one counts. No manifest that kubectl takes has such keys. */
static bool has_odd_case(struct str text)
{
    static const char *const names[] = {"metadata", "kind", "apiVersion", "items", "name", "uid", "spec", "status"};
    for (size_t i = 0; i < text.len; i++)
        for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
            size_t len = strlen(names[n]);
            if (text.len - i >= len && strncasecmp(text.data + i, names[n], len) == 0 &&
                memcmp(text.data + i, names[n], len) != 0)
                return true;
        }
    return false;
}

static void apply(struct str text)
{
    struct world first, second;
    struct strbuf dump = {0}, again = {0};
    struct error err = {0};
    world_init(&first);
    int rc = cluster_apply(first.cluster, text, "x", NULL, &err);
    MUST(rc == 0 || (rc == -EINVAL && strncmp(err.text, "x:", 2) == 0));
    MUST(cache_check(first.cache, &err) == 0);
    if (rc == 0 && !has_odd_case(text)) {
        MUST(cluster_dump_yaml(first.cluster, &dump, &err) == 0);
        world_init(&second);
        rc = cluster_apply(second.cluster, (struct str){dump.data, dump.len}, "y", NULL, &err);
        if (rc != 0)
            fprintf(stderr, "%s\n%s\n", err.text, dump.data);
        MUST(rc == 0);
        MUST(cluster_dump_yaml(second.cluster, &again, &err) == 0);
        MUST(str_eq((struct str){dump.data, dump.len}, (struct str){again.data, again.len}));
        world_done(&second);
    }
    strbuf_done(&dump);
    strbuf_done(&again);
    world_done(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    read_documents(text);
    apply(text);
    return 0;
}
