/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "sim/trace_csv.h"

#define FILE_BYTES_MAX (64 << 20)

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

static int text_compare(struct str a, struct str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int by = len > 0 ? memcmp(a.data, b.data, len) : 0;
    return by != 0 ? by : (a.len > b.len) - (a.len < b.len);
}

/* ---- nodes ---- */

int trace_find_model(const struct trace *trace, struct str name)
{
    for (uint32_t i = 0; i < trace->model_count; i++)
        if (str_eq(trace->models[i], name))
            return (int)i;
    return -1;
}

int trace_model(struct trace *trace, struct str name, struct error *err)
{
    int model = trace_find_model(trace, name);
    if (model >= 0)
        return model;
    if (trace->model_count == PACK_MODELS_MAX)
        return error_set(err, -EINVAL, "more than %d models", PACK_MODELS_MAX);
    struct str copy = arena_str(&trace->memory, name);
    if (copy.data == NULL)
        return no_memory(err);
    trace->models[trace->model_count] = copy;
    return (int)trace->model_count++;
}

static int by_node_name(const void *a, const void *b)
{
    return text_compare(((const struct trace_node *)a)->name, ((const struct trace_node *)b)->name);
}

int trace_set_nodes(struct trace *trace, struct trace_node *nodes, uint32_t count,
                    struct error *err)
{
    int64_t cards = 0;
    for (uint32_t i = 0; i < count; i++)
        cards += nodes[i].cards;
    if (cards == 0)
        return error_set(err, -EINVAL, "no cards in this cluster");
    qsort(nodes, count, sizeof(*nodes), by_node_name);
    trace->nodes = nodes;
    trace->node_count = count;
    trace->capacity_milli = cards * PACK_CARD_MILLI;
    return 0;
}

/* ---- pods ---- */

static int by_pod_name(const void *a, const void *b)
{
    return text_compare(((const struct trace_pod *)a)->name, ((const struct trace_pod *)b)->name);
}

static int by_text(const void *a, const void *b)
{
    return text_compare(*(const struct str *)a, *(const struct str *)b);
}

/* Number the lists of models in the order of their texts, the empty one 0. */
static int number_lists(struct trace *trace, struct trace_pod *pods, uint32_t pod_count,
                        struct error *err)
{
    struct str *lists = arena_alloc(&trace->memory, pod_count, sizeof(*lists));
    if (lists == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < pod_count; i++)
        lists[i] = pods[i].list;
    qsort(lists, pod_count, sizeof(*lists), by_text);
    uint32_t count = 0;
    for (uint32_t i = 0; i < pod_count; i++)
        if (lists[i].len > 0 && (count == 0 || !str_eq(lists[i], lists[count - 1])))
            lists[count++] = lists[i];
    for (uint32_t i = 0; i < pod_count; i++) {
        struct pack_pod *pod = &pods[i].pod;
        struct str list = pods[i].list;
        pod->list = 0;
        while (pod->list < count && list.len > 0 && !str_eq(lists[pod->list], list))
            pod->list++;
        pod->list += list.len > 0;
    }
    return 0;
}

/* The number of a pod's spec, a new one if it is the first of its like; MAP_NONE without memory. */
static uint32_t spec_of(struct trace *trace, struct map *known, const struct pack_pod *pod)
{
    char text[128];
    snprintf(text, sizeof(text), "%lld %lld %d %d %u %llx", (long long)pod->cpu_milli,
             (long long)pod->memory_mib, pod->cards, pod->milli, pod->list,
             (unsigned long long)pod->models);
    uint32_t spec = map_get(known, str_from(text));
    if (spec != MAP_NONE)
        return spec;
    struct str key = arena_str(&trace->memory, str_from(text));
    spec = trace->spec_count;
    if (key.data == NULL || map_put(known, key, spec) < 0)
        return MAP_NONE;
    trace->specs[trace->spec_count++] = (struct pack_demand){.pod = *pod};
    return spec;
}

static int count_specs(struct trace *trace, const struct trace_pod *pods, uint32_t count,
                       struct error *err)
{
    struct map known = {0};
    int rc = 0;
    trace->specs = arena_alloc(&trace->memory, count, sizeof(*trace->specs));
    trace->pods = arena_alloc(&trace->memory, count, sizeof(*trace->pods));
    if (trace->specs == NULL || trace->pods == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        uint32_t spec = spec_of(trace, &known, &pods[i].pod);
        if (spec == MAP_NONE) {
            rc = no_memory(err);
            break;
        }
        trace->pods[i] = spec;
        trace->specs[spec].weight += 1;
    }
    trace->pod_count = count;
    map_done(&known);
    return rc;
}

int trace_set_pods(struct trace *trace, struct trace_pod *pods, uint32_t count, struct error *err)
{
    if (count == 0)
        return error_set(err, -EINVAL, "no pods");
    qsort(pods, count, sizeof(*pods), by_pod_name);
    int rc = number_lists(trace, pods, count, err);
    return rc < 0 ? rc : count_specs(trace, pods, count, err);
}

/* ---- files ---- */

/* Whether a text is YAML or JSON rather than CSV. The first line that is not empty tells: a header of
 * column names has no colon, a comment, a separator of documents and a bracket begin no name. */
static bool is_object_text(struct str text)
{
    size_t at = 0;
    while (at < text.len && memchr(" \t\r\n", text.data[at], 4) != NULL)
        at++;
    struct str line = {text.data + at, text.len - at};
    const char *end = line.len > 0 ? memchr(line.data, '\n', line.len) : NULL;
    if (end != NULL)
        line.len = (size_t)(end - line.data);
    if (line.len == 0)
        return false;
    return memchr("#%{[", line.data[0], 4) != NULL || memchr(line.data, ':', line.len) != NULL ||
           (line.len >= 3 && memcmp(line.data, "---", 3) == 0);
}

/* A file's text, kept in the trace's memory. */
static int read_text(struct trace *trace, const char *path, struct str *ret, struct error *err)
{
    struct strbuf text = {0};
    int rc = file_read(path, FILE_BYTES_MAX, &text, err);
    if (rc == 0) {
        *ret = arena_str(&trace->memory, (struct str){text.data, text.len});
        rc = ret->data == NULL ? no_memory(err) : 0;
    }
    strbuf_done(&text);
    return rc;
}

static const struct trace_format *format_of(struct str text, const struct trace_format *other)
{
    return other != NULL && is_object_text(text) ? other : &trace_csv;
}

int trace_read(const char *nodes_path, const char *pods_path, const struct trace_format *other,
               struct trace *ret, struct error *err)
{
    struct trace trace = {0};
    struct str text;
    int rc = read_text(&trace, nodes_path, &text, err);
    if (rc == 0)
        rc = format_of(text, other)->read_nodes(&trace, text, nodes_path, err);
    if (rc == 0)
        rc = read_text(&trace, pods_path, &text, err);
    if (rc == 0)
        rc = format_of(text, other)->read_pods(&trace, text, pods_path, err);
    if (rc == 0)
        *ret = trace;
    else
        trace_done(&trace);
    return rc;
}

void trace_done(struct trace *trace)
{
    arena_done(&trace->memory);
    *trace = (struct trace){0};
}
