/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "sim/csv.h"

#define FILE_BYTES_MAX (64 << 20)
#define AMOUNT_MAX     (INT64_C(1) << 40)

/* A pod as read, before the lists of models are numbered. */
struct pod_row {
    struct str name, list;
    struct pack_pod pod;
};

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

/* A file as CSV, its text in the trace's memory. */
static int open_csv(struct trace *trace, const char *path, struct csv *ret, struct error *err)
{
    struct strbuf text = {0};
    int rc = file_read(path, FILE_BYTES_MAX, &text, err);
    if (rc == 0) {
        struct str kept = arena_str(&trace->memory, (struct str){text.data, text.len});
        rc = kept.data == NULL ? no_memory(err) : csv_init(ret, path, kept, err);
    }
    strbuf_done(&text);
    return rc;
}

/* How many lines are left: no fewer than there are rows. */
static size_t count_lines(const struct csv *csv)
{
    size_t lines = 1;
    for (size_t i = 0; i < csv->rest.len; i++)
        lines += csv->rest.data[i] == '\n';
    return lines;
}

/* The indexes of `count` columns; 0 or -EINVAL. */
static int find_columns(const struct csv *csv, const char *const *names, int *ret, unsigned count,
                        struct error *err)
{
    for (unsigned i = 0; i < count; i++) {
        ret[i] = csv_column(csv, names[i], err);
        if (ret[i] < 0)
            return ret[i];
    }
    return 0;
}

/* ---- nodes ---- */

enum { NODE_NAME, NODE_CPU, NODE_MEMORY, NODE_CARDS, NODE_MODEL, NODE_COLUMNS };

static int find_model(struct trace *trace, struct str name)
{
    for (uint32_t i = 0; i < trace->model_count; i++)
        if (str_eq(trace->models[i], name))
            return (int)i;
    return -1;
}

static int read_node(struct trace *trace, const struct csv *csv, const int *columns,
                     struct error *err)
{
    int64_t cpu, memory, cards;
    int rc = csv_number(csv, columns[NODE_CPU], 0, AMOUNT_MAX, &cpu, err);
    rc = rc < 0 ? rc : csv_number(csv, columns[NODE_MEMORY], 0, AMOUNT_MAX, &memory, err);
    rc = rc < 0 ? rc : csv_number(csv, columns[NODE_CARDS], 0, TRACE_CARDS_MAX, &cards, err);
    if (rc < 0)
        return rc;
    struct str name = csv->fields[columns[NODE_MODEL]];
    int model = find_model(trace, name);
    if (model < 0) {
        if (trace->model_count == PACK_MODELS_MAX)
            return csv_error(csv, err, "more than %d models", PACK_MODELS_MAX);
        model = (int)trace->model_count;
        trace->models[trace->model_count++] = name;
    }
    trace->nodes[trace->node_count++] = (struct trace_node){
        .name = csv->fields[columns[NODE_NAME]],
        .cpu_milli = cpu,
        .memory_mib = memory,
        .cards = (uint32_t)cards,
        .model = (uint32_t)model,
    };
    trace->capacity_milli += cards * PACK_CARD_MILLI;
    return 0;
}

static int by_node_name(const void *a, const void *b)
{
    return text_compare(((const struct trace_node *)a)->name, ((const struct trace_node *)b)->name);
}

static int read_nodes(struct trace *trace, const char *path, struct error *err)
{
    static const char *const names[NODE_COLUMNS] = {"sn", "cpu_milli", "memory_mib", "gpu",
                                                    "model"};
    struct csv csv;
    int columns[NODE_COLUMNS];
    int rc = open_csv(trace, path, &csv, err);
    if (rc < 0 || (rc = find_columns(&csv, names, columns, NODE_COLUMNS, err)) < 0)
        return rc;
    trace->nodes = arena_alloc(&trace->memory, count_lines(&csv), sizeof(*trace->nodes));
    if (trace->nodes == NULL)
        return no_memory(err);
    while ((rc = csv_next(&csv, err)) > 0)
        if ((rc = read_node(trace, &csv, columns, err)) < 0)
            return rc;
    if (rc == 0 && trace->capacity_milli == 0)
        return csv_error(&csv, err, "no cards in this cluster");
    qsort(trace->nodes, trace->node_count, sizeof(*trace->nodes), by_node_name);
    return rc;
}

/* ---- pods ---- */

enum { POD_NAME, POD_CPU, POD_MEMORY, POD_CARDS, POD_MILLI, POD_COLUMNS };

static int read_pod(const struct csv *csv, const int *columns, int list_column, struct pod_row *ret,
                    struct error *err)
{
    int64_t cards, milli = 0;
    struct pack_pod *pod = &ret->pod;
    *ret = (struct pod_row){.name = csv->fields[columns[POD_NAME]]};
    int rc = csv_number(csv, columns[POD_CPU], 0, AMOUNT_MAX, &pod->cpu_milli, err);
    rc = rc < 0 ? rc : csv_number(csv, columns[POD_MEMORY], 0, AMOUNT_MAX, &pod->memory_mib, err);
    rc = rc < 0 ? rc : csv_number(csv, columns[POD_CARDS], 0, TRACE_CARDS_MAX, &cards, err);
    if (rc == 0 && cards == 1) /* several cards are whole ones, whatever is written */
        rc = csv_number(csv, columns[POD_MILLI], 1, PACK_CARD_MILLI, &milli, err);
    if (rc < 0)
        return rc;
    pod->cards = (int32_t)cards;
    pod->milli = cards > 1 ? PACK_CARD_MILLI : (int32_t)milli;
    if (list_column >= 0 && cards > 0)
        ret->list = csv->fields[list_column];
    return 0;
}

static int by_pod_name(const void *a, const void *b)
{
    return text_compare(((const struct pod_row *)a)->name, ((const struct pod_row *)b)->name);
}

/* Read the rows, sorted by name, into the trace's memory. */
static int read_pod_rows(struct trace *trace, const char *path, struct pod_row **ret,
                         struct error *err)
{
    static const char *const names[POD_COLUMNS] = {"name", "cpu_milli", "memory_mib", "num_gpu",
                                                   "gpu_milli"};
    struct csv csv;
    int columns[POD_COLUMNS];
    int rc = open_csv(trace, path, &csv, err);
    if (rc < 0 || (rc = find_columns(&csv, names, columns, POD_COLUMNS, err)) < 0)
        return rc;
    int list_column = csv_column(&csv, "gpu_spec", NULL);
    struct pod_row *rows = arena_alloc(&trace->memory, count_lines(&csv), sizeof(*rows));
    if (rows == NULL)
        return no_memory(err);
    for (; (rc = csv_next(&csv, err)) > 0; trace->pod_count++)
        if ((rc = read_pod(&csv, columns, list_column, &rows[trace->pod_count], err)) < 0)
            return rc;
    if (rc == 0 && trace->pod_count == 0)
        return csv_error(&csv, err, "no pods");
    qsort(rows, trace->pod_count, sizeof(*rows), by_pod_name);
    *ret = rows;
    return rc;
}

static uint64_t models_in(struct trace *trace, struct str list)
{
    uint64_t models = 0;
    if (list.len == 0)
        return PACK_MODELS_ANY;
    for (const char *at = list.data, *end = list.data + list.len; at <= end;) {
        const char *bar = at < end ? memchr(at, '|', (size_t)(end - at)) : NULL;
        const char *stop = bar != NULL ? bar : end;
        int model = find_model(trace, (struct str){at, (size_t)(stop - at)});
        if (model >= 0)
            models |= UINT64_C(1) << model;
        at = stop + 1;
    }
    return models;
}

static int by_text(const void *a, const void *b)
{
    return text_compare(*(const struct str *)a, *(const struct str *)b);
}

/* Number the lists of models in the order of their texts, the empty one 0. */
static int number_lists(struct trace *trace, struct pod_row *rows, struct error *err)
{
    struct str *lists = arena_alloc(&trace->memory, trace->pod_count, sizeof(*lists));
    if (lists == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < trace->pod_count; i++)
        lists[i] = rows[i].list;
    qsort(lists, trace->pod_count, sizeof(*lists), by_text);
    uint32_t count = 0;
    for (uint32_t i = 0; i < trace->pod_count; i++)
        if (lists[i].len > 0 && (count == 0 || !str_eq(lists[i], lists[count - 1])))
            lists[count++] = lists[i];
    for (uint32_t i = 0; i < trace->pod_count; i++) {
        struct pack_pod *pod = &rows[i].pod;
        pod->models = models_in(trace, rows[i].list);
        while (pod->list < count && rows[i].list.len > 0 && !str_eq(lists[pod->list], rows[i].list))
            pod->list++;
        pod->list += rows[i].list.len > 0;
    }
    return 0;
}

/* The number of a pod's spec, a new one if it is the first of its like; MAP_NONE without memory. */
static uint32_t spec_of(struct trace *trace, struct map *known, const struct pack_pod *pod)
{
    char text[128];
    snprintf(text, sizeof(text), "%lld %lld %d %d %u", (long long)pod->cpu_milli,
             (long long)pod->memory_mib, pod->cards, pod->milli, pod->list);
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

static int read_pods(struct trace *trace, const char *path, struct error *err)
{
    struct pod_row *rows = NULL;
    struct map known = {0};
    int rc = read_pod_rows(trace, path, &rows, err);
    if (rc < 0 || (rc = number_lists(trace, rows, err)) < 0)
        return rc;
    trace->specs = arena_alloc(&trace->memory, trace->pod_count, sizeof(*trace->specs));
    trace->pods = arena_alloc(&trace->memory, trace->pod_count, sizeof(*trace->pods));
    if (trace->specs == NULL || trace->pods == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < trace->pod_count && rc == 0; i++) {
        uint32_t spec = spec_of(trace, &known, &rows[i].pod);
        if (spec == MAP_NONE) {
            rc = no_memory(err);
            break;
        }
        trace->pods[i] = spec;
        trace->specs[spec].weight += 1;
    }
    map_done(&known);
    return rc;
}

int trace_read(const char *nodes_path, const char *pods_path, struct trace *ret, struct error *err)
{
    struct trace trace = {0};
    int rc = read_nodes(&trace, nodes_path, err);
    if (rc == 0)
        rc = read_pods(&trace, pods_path, err);
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
