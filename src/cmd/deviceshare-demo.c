/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays kube-scheduler against an extender with an embedded cluster: reads nodes and pods from it,
 * sends each pending pod through filter, prioritize and bind as kube-scheduler does, and prints
 * what came of it.
 */
#include "base/arena.h"
#include "base/strbuf.h"
#include "codec/extender.h"
#include "codec/objects.h"
#include "core/request.h"
#include "kube/client.h"
#include "sched/intake.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>

#define CALL_TIMEOUT_MS 10000

/* One pod and one line of the table. */
struct row {
    struct pod pod;
    struct str json;
    struct str node; /* empty: not placed */
    struct str why;
};

struct demo {
    struct kube_client *client;
    struct arena mem;
    struct str *nodes;
    uint32_t node_count;
    struct row *rows;
    uint32_t row_count;
};

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* printf into the arena. */
static struct str text_of(struct demo *demo, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static struct str text_of(struct demo *demo, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return arena_str(&demo->mem, str_from(text));
}

/* ---- calls ---- */

/* Send a request and take the body of a 200 answer into the arena. */
static int call(struct demo *demo, const char *method, const char *path, struct str body,
                struct str *ret, struct error *err)
{
    struct strbuf answer = {0};
    int status = kube_client_call(demo->client, method, path, body, &answer, err);
    int result = status < 0 ? status : 0;
    if (status >= 0 && status != 200)
        result = error_set(err, -EIO, "%s %s: status %d: %.*s", method, path, status,
                           (int)(answer.len < 200 ? answer.len : 200),
                           answer.data != NULL ? answer.data : "");
    if (result == 0) {
        *ret = arena_str(&demo->mem, (struct str){answer.data, answer.len});
        if (ret->data == NULL)
            result = no_memory(err);
    }
    strbuf_done(&answer);
    return result;
}

static int post(struct demo *demo, const char *path, struct strbuf *body, struct str *ret,
                struct error *err)
{
    int result = body->failed
                     ? no_memory(err)
                     : call(demo, "POST", path, (struct str){body->data, body->len}, ret, err);
    strbuf_done(body);
    return result;
}

static int post_args(struct demo *demo, const char *path, const struct row *row,
                     const struct str *nodes, uint32_t count, struct str *ret, struct error *err)
{
    struct strbuf body = {0};
    extender_encode_args(row->json, nodes, count, &body);
    return post(demo, path, &body, ret, err);
}

/* ---- one pod ---- */

/* The node with the highest score, the first one of equals, and how it was chosen. */
static int choose_node(struct demo *demo, struct row *row, const struct filter_result *fit,
                       struct str *ret_node, struct error *err)
{
    if (fit->node_count == 1) { /* kube-scheduler does not ask for scores then either */
        row->why = STR("the only node that fits");
        *ret_node = fit->nodes[0];
        return 0;
    }
    struct str answer;
    const struct str *hosts;
    const int64_t *scores;
    uint32_t count;
    int result = post_args(demo, "/prioritize", row, fit->nodes, fit->node_count, &answer, err);
    if (result == 0)
        result = extender_decode_priorities(answer, &demo->mem, &hosts, &scores, &count, err);
    if (result < 0)
        return error_wrap(err, "prioritize");
    if (count == 0)
        return error_set(err, -EIO, "prioritize: no scores");
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (scores[i] > scores[best])
            best = i;
    }
    row->why = text_of(demo, "score %lld, best of %u nodes", (long long)scores[best], count);
    *ret_node = hosts[best];
    return row->why.data != NULL ? 0 : no_memory(err);
}

static int bind_pod(struct demo *demo, struct row *row, struct str node, struct error *err)
{
    struct strbuf body = {0};
    struct str answer, refusal;
    extender_encode_bind_args(&row->pod.id, node, &body);
    int result = post(demo, "/bind", &body, &answer, err);
    if (result == 0)
        result = extender_decode_bind_result(answer, &demo->mem, &refusal, err);
    if (result < 0)
        return error_wrap(err, "bind");
    if (refusal.len > 0)
        row->why = refusal;
    return 0;
}

static int schedule(struct demo *demo, struct row *row, struct error *err)
{
    struct str answer, node;
    struct filter_result fit;
    int result = post_args(demo, "/filter", row, demo->nodes, demo->node_count, &answer, err);
    if (result == 0)
        result = extender_decode_filter_result(answer, &demo->mem, &fit, err);
    if (result < 0)
        return error_wrap(err, "filter");
    if (fit.error.len > 0 || fit.node_count == 0) {
        row->why = fit.error.len > 0 ? fit.error : fit.first_failure;
        return 0;
    }
    result = choose_node(demo, row, &fit, &node, err);
    return result < 0 ? result : bind_pod(demo, row, node, err);
}

/* ---- the cluster ---- */

static int read_items(struct demo *demo, const struct str **ret, uint32_t *ret_count,
                      struct error *err)
{
    struct str json;
    int result = call(demo, "GET", "/embedded/manifests?format=json", (struct str){0}, &json, err);
    return result < 0 ? result : object_list_items(json, &demo->mem, ret, ret_count, err);
}

static int add_item(struct demo *demo, struct str json, struct error *err)
{
    struct object_head head;
    int result = object_head(json, &demo->mem, &head, err);
    if (result < 0)
        return result;
    if (head.kind == KIND_NODE)
        demo->nodes[demo->node_count++] = head.name;
    if (head.kind != KIND_POD)
        return 0;
    struct row *row = &demo->rows[demo->row_count];
    result = object_decode_pod(json, &demo->mem, &row->pod, err);
    if (result == 0)
        demo->row_count++;
    row->json = json;
    row->node = row->pod.node_name;
    return result;
}

static int read_cluster(struct demo *demo, struct error *err)
{
    const struct str *items;
    uint32_t count;
    int result = read_items(demo, &items, &count, err);
    if (result < 0)
        return result;
    demo->nodes = arena_alloc(&demo->mem, count, sizeof(*demo->nodes));
    demo->rows = arena_alloc(&demo->mem, count, sizeof(*demo->rows));
    if (demo->nodes == NULL || demo->rows == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < count && result == 0; i++)
        result = add_item(demo, items[i], err);
    return result;
}

/* Copy the place of `now` to its row. */
static int take_place(struct demo *demo, const struct pod *now, struct error *err)
{
    for (uint32_t i = 0; i < demo->row_count; i++) {
        struct row *row = &demo->rows[i];
        if (!str_eq(row->pod.id.uid, now->id.uid))
            continue;
        struct share *shares = arena_alloc(&demo->mem, now->share_count, sizeof(*shares));
        row->node = arena_str(&demo->mem, now->node_name);
        if (shares == NULL || row->node.data == NULL)
            return no_memory(err);
        if (now->share_count > 0)
            memcpy(shares, now->shares, now->share_count * sizeof(*shares));
        row->pod.shares = shares;
        row->pod.share_count = now->share_count;
    }
    return 0;
}

/* Where the pods are now and on which cards, as the cluster has it. */
static int read_places(struct demo *demo, struct error *err)
{
    struct demo now = {.client = demo->client};
    int result = read_cluster(&now, err);
    for (uint32_t i = 0; result == 0 && i < now.row_count; i++)
        result = take_place(demo, &now.rows[i].pod, err);
    arena_done(&now.mem);
    return result;
}

/* ---- the table ---- */

enum { COLUMNS = 5 };

struct table {
    struct str (*cells)[COLUMNS];
    uint32_t count;
};

/* "gpu 0,1 rdma 0" */
static struct str format_cards(struct demo *demo, const struct pod *pod)
{
    struct strbuf text = {0};
    for (uint32_t i = 0; i < pod->share_count; i++) {
        const struct share *share = &pod->shares[i];
        if (i > 0 && share->kind == pod->shares[i - 1].kind)
            strbuf_printf(&text, ",%d", share->minor);
        else
            strbuf_printf(&text, "%s%s %d", i > 0 ? " " : "", device_kind_name(share->kind),
                          share->minor);
    }
    struct str cards = {0};
    if (!text.failed)
        cards = arena_str(&demo->mem, (struct str){text.data, text.len});
    strbuf_done(&text);
    return cards;
}

static struct str format_request(struct demo *demo, const struct pod *pod)
{
    struct pod_request request;
    struct error err = {0};
    char text[128];
    if (intake_request(pod, &hami_rules_default, &request, &err) < 0)
        return STR("invalid");
    request_format(&request, text, sizeof(text));
    return arena_str(&demo->mem, str_from(text));
}

static struct str or_dash(struct str text)
{
    return text.len > 0 ? text : STR("-");
}

static int fill_table(struct demo *demo, struct table *ret, struct error *err)
{
    struct table table = {.count = demo->row_count + 1};
    table.cells = arena_alloc(&demo->mem, table.count, sizeof(*table.cells));
    if (table.cells == NULL)
        return no_memory(err);
    const struct str titles[COLUMNS] = {STR("POD"), STR("REQUEST"), STR("NODE"), STR("CARDS"),
                                        STR("WHY")};
    memcpy(table.cells[0], titles, sizeof(titles));
    for (uint32_t i = 0; i < demo->row_count; i++) {
        struct row *row = &demo->rows[i];
        struct str *cells = table.cells[i + 1];
        cells[0] = text_of(demo, "%.*s/%.*s", STR_ARG(row->pod.id.ns), STR_ARG(row->pod.id.name));
        cells[1] = format_request(demo, &row->pod);
        cells[2] = or_dash(row->node);
        cells[3] = or_dash(format_cards(demo, &row->pod));
        cells[4] = or_dash(row->why);
        if (cells[0].data == NULL || cells[1].data == NULL)
            return no_memory(err);
    }
    *ret = table;
    return 0;
}

static void print_table(const struct table *table)
{
    size_t widths[COLUMNS] = {0};
    for (uint32_t i = 0; i < table->count; i++) {
        for (unsigned c = 0; c < COLUMNS - 1; c++) {
            if (table->cells[i][c].len > widths[c])
                widths[c] = table->cells[i][c].len;
        }
    }
    for (uint32_t i = 0; i < table->count; i++) {
        for (unsigned c = 0; c < COLUMNS - 1; c++)
            printf("%-*.*s  ", (int)widths[c], STR_ARG(table->cells[i][c]));
        printf("%.*s\n", STR_ARG(table->cells[i][COLUMNS - 1]));
    }
}

/* ---- main ---- */

static int run(struct demo *demo, struct error *err)
{
    struct table table = {0};
    int result = read_cluster(demo, err);
    for (uint32_t i = 0; result == 0 && i < demo->row_count; i++) {
        struct row *row = &demo->rows[i];
        if (row->pod.finished)
            row->why = STR("finished");
        else if (row->pod.node_name.len > 0)
            row->why = STR("was there before");
        else
            result = schedule(demo, row, err);
    }
    if (result == 0)
        result = read_places(demo, err);
    if (result == 0)
        result = fill_table(demo, &table, err);
    if (result == 0)
        print_table(&table);
    return result;
}

static void usage(FILE *out)
{
    fputs("Usage: deviceshare-demo [--server URL]\n"
          "Schedule the pending pods of an extender's embedded cluster as kube-scheduler would,\n"
          "and print where they went. URL is http://127.0.0.1:9876 if not given.\n"
          "Exit status: 0, 1 when a call failed, 2 for a wrong command line.\n",
          out);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"server", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *server = "http://127.0.0.1:9876";
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 's') {
            server = optarg;
        } else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (optind < argc) {
        usage(stderr);
        return 2;
    }

    kube_global_init();
    struct demo demo = {.client = kube_client_new(server, CALL_TIMEOUT_MS)};
    struct error err = {0};
    arena_init(&demo.mem, 0);
    int result = demo.client != NULL ? run(&demo, &err) : no_memory(&err);
    if (result < 0)
        fprintf(stderr, "deviceshare-demo: %s\n", err.text);
    kube_client_free(demo.client);
    arena_done(&demo.mem);
    return result < 0 ? 1 : 0;
}
