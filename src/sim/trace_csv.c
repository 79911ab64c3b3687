/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace_csv.h"

#include <errno.h>

#include "sim/csv.h"

#define AMOUNT_MAX (INT64_C(1) << 40)

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* Put the line before a sentence about what stands there; returns `code`, the sentence's. */
static int at_line(const struct csv *csv, int code, struct error *err)
{
    error_wrap(err, "%s:%u", csv->path, csv->line);
    return code;
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

static int read_node(struct trace *trace, const struct csv *csv, const int *columns,
                     struct trace_node *ret, struct error *err)
{
    int64_t cpu, memory, cards;
    int rc = csv_number(csv, columns[NODE_CPU], 0, AMOUNT_MAX, &cpu, err);
    rc = rc < 0 ? rc : csv_number(csv, columns[NODE_MEMORY], 0, AMOUNT_MAX, &memory, err);
    rc = rc < 0 ? rc : csv_number(csv, columns[NODE_CARDS], 0, TRACE_CARDS_MAX, &cards, err);
    if (rc < 0)
        return rc;
    int model = trace_model(trace, csv->fields[columns[NODE_MODEL]], err);
    if (model < 0)
        return at_line(csv, model, err);
    *ret = (struct trace_node){
        .name = csv->fields[columns[NODE_NAME]],
        .cpu_milli = cpu,
        .memory_mib = memory,
        .cards = (uint32_t)cards,
        .model = (uint32_t)model,
    };
    return 0;
}

static int read_nodes(struct trace *trace, struct str text, const char *path, struct error *err)
{
    static const char *const names[NODE_COLUMNS] = {"sn", "cpu_milli", "memory_mib", "gpu",
                                                    "model"};
    struct csv csv;
    int columns[NODE_COLUMNS];
    int rc = csv_init(&csv, path, text, err);
    if (rc < 0 || (rc = find_columns(&csv, names, columns, NODE_COLUMNS, err)) < 0)
        return rc;
    uint32_t count = 0;
    struct trace_node *nodes = arena_alloc(&trace->memory, count_lines(&csv), sizeof(*nodes));
    if (nodes == NULL)
        return no_memory(err);
    for (; (rc = csv_next(&csv, err)) > 0; count++)
        if ((rc = read_node(trace, &csv, columns, &nodes[count], err)) < 0)
            return rc;
    if (rc == 0 && (rc = trace_set_nodes(trace, nodes, count, err)) < 0)
        return at_line(&csv, rc, err);
    return rc;
}

/* ---- pods ---- */

enum { POD_NAME, POD_CPU, POD_MEMORY, POD_CARDS, POD_MILLI, POD_COLUMNS };

/* The models of the cluster that a list names. */
static uint64_t models_in(const struct trace *trace, struct str list)
{
    uint64_t models = 0;
    if (list.len == 0)
        return PACK_MODELS_ANY;
    for (const char *at = list.data, *end = list.data + list.len; at <= end;) {
        const char *bar = at < end ? memchr(at, '|', (size_t)(end - at)) : NULL;
        const char *stop = bar != NULL ? bar : end;
        int model = trace_find_model(trace, (struct str){at, (size_t)(stop - at)});
        if (model >= 0)
            models |= UINT64_C(1) << model;
        at = stop + 1;
    }
    return models;
}

static int read_pod(const struct trace *trace, const struct csv *csv, const int *columns,
                    int list_column, struct trace_pod *ret, struct error *err)
{
    int64_t cards, milli = 0;
    struct pack_pod *pod = &ret->pod;
    *ret = (struct trace_pod){.name = csv->fields[columns[POD_NAME]]};
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
    pod->models = models_in(trace, ret->list);
    return 0;
}

static int read_pods(struct trace *trace, struct str text, const char *path, struct error *err)
{
    static const char *const names[POD_COLUMNS] = {"name", "cpu_milli", "memory_mib", "num_gpu",
                                                   "gpu_milli"};
    struct csv csv;
    int columns[POD_COLUMNS];
    int rc = csv_init(&csv, path, text, err);
    if (rc < 0 || (rc = find_columns(&csv, names, columns, POD_COLUMNS, err)) < 0)
        return rc;
    int list_column = csv_column(&csv, "gpu_spec", NULL);
    uint32_t count = 0;
    struct trace_pod *pods = arena_alloc(&trace->memory, count_lines(&csv), sizeof(*pods));
    if (pods == NULL)
        return no_memory(err);
    for (; (rc = csv_next(&csv, err)) > 0; count++)
        if ((rc = read_pod(trace, &csv, columns, list_column, &pods[count], err)) < 0)
            return rc;
    if (rc == 0 && (rc = trace_set_pods(trace, pods, count, err)) == -EINVAL)
        return at_line(&csv, rc, err);
    return rc;
}

const struct trace_format trace_csv = {read_nodes, read_pods};
