/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tables in tests/cases/core: one case a line, fields between '|', '#' begins a remark
 * line. The head of each table says what its fields are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/allocate.h"
#include "core/policy.h"
#include "core/quantity.h"
#include "node.h"

#define CASES      "tests/cases/core/"
#define FIELDS_MAX 6
#define LINE_MAX   1024

/* A line taken apart; what a table's function prints into `got` is compared with `expected`. */
struct line {
    char *field[FIELDS_MAX];
    int fields;
    char got[LINE_MAX];
    char expected[LINE_MAX];
};

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strcspn(text, "\n");
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    text[len] = '\0';
    return text;
}

static void take_apart(char *text, struct line *line)
{
    memset(line, 0, sizeof(*line));
    for (char *bar = text; bar != NULL && line->fields < FIELDS_MAX;) {
        char *field = bar;
        bar = strchr(field, '|');
        if (bar != NULL)
            *bar++ = '\0';
        line->field[line->fields++] = trim(field);
    }
}

/* Run one table; every line that differs is printed. `fields` is how many a line must have. */
static void run(const char *file, int fields, void (*judge)(struct line *line))
{
    static struct line line;
    char path[256], text[LINE_MAX];
    int number = 0, cases = 0, failed = 0;

    snprintf(path, sizeof(path), CASES "%s", file);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        fail_msg("%s cannot be read; run this from the top of the tree", path);
    while (fgets(text, sizeof(text), in) != NULL) {
        number++;
        if (text[0] == '#' || trim(text)[0] == '\0')
            continue;
        cases++;
        take_apart(text, &line);
        if (line.fields != fields)
            snprintf(line.got, sizeof(line.got), "%d fields instead of %d", line.fields, fields);
        else
            judge(&line);
        if (strcmp(line.got, line.expected) != 0) {
            failed++;
            print_error("%s:%d:\n  expected %s\n  got      %s\n", path, number, line.expected,
                        line.got);
        }
    }
    fclose(in);
    assert_int_equal(failed, 0);
    assert_true(cases > 20);
}

/* ---- reading ---- */

/* "gpu-core=25 nvidia.com/gpu=1": names without a slash are koordinator.sh/ names. */
static void read_resources(char *text, struct resources *ret)
{
    memset(ret, 0, sizeof(*ret));
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char name[64];
        bool deprecated;
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        snprintf(name, sizeof(name), "%s%s", strchr(word, '/') ? "" : "koordinator.sh/", word);
        enum resource r = resource_find(str_from(name), &deprecated);
        if (r == RESOURCE_MAX || quantity_parse(str_from(value), &ret->amount[r], NULL) < 0)
            fail_msg("bad request %s=%s", name, value);
    }
}

/* Book what a card's word says: "75", "50/25" or "20Gi". */
static void read_used(const char *text, struct node *node, uint32_t row, int64_t size)
{
    struct amount used = {0};
    char *end;
    if (strpbrk(text, "GMK") != NULL) {
        assert_int_equal(quantity_parse(str_from(text), &used.bytes, NULL), 0);
        used.ratio = memory_bytes_to_ratio(used.bytes, size);
    } else {
        used.percent = strtoll(text, &end, 10);
        used.ratio = *end == '/' ? strtoll(end + 1, NULL, 10) : used.percent;
        used.bytes = memory_ratio_to_bytes(used.ratio, size);
    }
    if (used.percent + used.ratio + used.bytes > 0)
        node_use(node, row, used);
}

/* One card's word, see placement.case. */
static void read_card(char *word, struct node *node)
{
    enum device_kind kind = DEVICE_GPU;
    char *colon = strchr(word, ':');
    if (colon != NULL) {
        kind = device_kind_find((struct str){word, (size_t)(colon - word)});
        assert_true(kind < DEVICE_KIND_MAX);
        word = colon + 1;
    }
    int64_t size = kind == DEVICE_GPU ? 80 * GIB : 0;
    char *at = strchr(word, '@');
    if (at != NULL) {
        *at = '\0';
        size = 0;
        if (strcmp(at + 1, "-") != 0)
            assert_int_equal(quantity_parse(str_from(at + 1), &size, NULL), 0);
    }

    bool sick = strncmp(word, "sick", 4) == 0, gone = strncmp(word, "gone", 4) == 0;
    const char *used = word;
    if (sick || gone)
        used = word[4] == '+' ? word + 5 : "0";

    struct amount total = gpu_of(size);
    if (kind != DEVICE_GPU)
        total = (struct amount){.percent = 100};
    uint32_t row = node_add(node, kind, sick || gone ? (struct amount){0} : total);
    node->registered[row] = !gone;
    cards_refresh(&node->columns, row);
    read_used(used, node, row, size);
}

static void read_cards(char *text, struct node *node)
{
    node_init(node);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        read_card(word, node);
}

static struct pod_request read_request(char *text)
{
    struct resources effective;
    struct pod_request request;
    struct error err;
    read_resources(text, &effective);
    if (request_parse(&effective, &request, &err) < 0)
        fail_msg("%s", err.text);
    return request;
}

/* ---- tables ---- */

static void judge_quantity(struct line *line)
{
    int64_t value;
    char binary[QUANTITY_TEXT_MAX], decimal[QUANTITY_TEXT_MAX];
    int r = quantity_parse(str_from(line->field[0]), &value, NULL);
    if (r < 0) {
        snprintf(line->got, LINE_MAX, "! %s", r == -ERANGE ? "ERANGE" : "EINVAL");
    } else {
        quantity_format_binary(value, binary);
        quantity_format_decimal(value, decimal);
        snprintf(line->got, LINE_MAX, "%" PRId64 " %s %s", value, binary, decimal);
    }
    const char *last = line->field[3] != NULL ? line->field[3] : "";
    snprintf(line->expected, LINE_MAX, "%s %s%s%s", line->field[1], line->field[2],
             *last != '\0' ? " " : "", last);
}

static size_t print_request(const struct pod_request *request, char *out, size_t size)
{
    size_t n = 0;
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        static const char *const gpu_names[DIM_MAX] = {"core", "ratio", "bytes"};
        const struct device_request *of = &request->of[kind];
        if (of->count == 0)
            continue;
        n += (size_t)snprintf(out + n, size - n, "%s%s %" PRId64 " x", n > 0 ? "; " : "",
                              device_kind_name(kind), of->count);
        for (enum dimension dim = 0; dim < DIM_MAX; dim++)
            if (of->named & DIM_BIT(dim) || amount_get(&of->each, dim) != 0)
                n += (size_t)snprintf(out + n, size - n, " %s=%" PRId64,
                                      kind == DEVICE_GPU ? gpu_names[dim] : "percent",
                                      amount_get(&of->each, dim));
        n += (size_t)snprintf(out + n, size - n, "%s", of->whole ? " whole" : "");
    }
    return n;
}

static void judge_request(struct line *line)
{
    struct resources effective;
    struct pod_request request;
    struct error err = {0}, validate_err = {0};
    read_resources(line->field[0], &effective);
    int r = request_parse(&effective, &request, &err);
    assert_int_equal(request_validate(&effective, &validate_err), r);
    assert_string_equal(validate_err.text, err.text);
    if (r < 0)
        snprintf(line->got, LINE_MAX, "! %s", err.text);
    else if (print_request(&request, line->got, LINE_MAX) == 0)
        snprintf(line->got, LINE_MAX, "none");
    snprintf(line->expected, LINE_MAX, "%s", line->field[1]);
}

static void print_plan(const struct plan *plan, struct line *line, const char *blank)
{
    size_t n = strlen(line->got);
    enum device_kind last = DEVICE_GPU;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct share *share = &plan->shares[i];
        const char *separator = i == 0 ? blank : share->kind == last ? "," : " ";
        bool name = share->kind != DEVICE_GPU && (i == 0 || share->kind != last);
        n += (size_t)snprintf(line->got + n, LINE_MAX - n, "%s%s%s%" PRId32, separator,
                              name ? device_kind_name(share->kind) : "", name ? ":" : "",
                              share->minor);
        last = share->kind;
    }
    if (plan->count == 0)
        snprintf(line->got + n, LINE_MAX - n, "%s-", blank);
}

static void judge_placement(struct line *line)
{
    static struct node node;
    static const char *const policies[] = {"default", "binpack", "spread"};
    read_cards(line->field[0], &node);
    struct pod_request request = read_request(line->field[1]);
    for (size_t i = 0; i < 3; i++) {
        struct plan plan = {0};
        allocate_choose(&node.cards, &request, device_policy_find(str_from(policies[i])), &plan);
        print_plan(&plan, line, i > 0 ? " / " : "");
    }
    snprintf(line->expected, LINE_MAX, "%s / %s / %s", line->field[2], line->field[3],
             line->field[4]);
}

static void judge_verdict(struct line *line)
{
    static struct node node;
    char text[LINE_MAX / 2];
    read_cards(line->field[0], &node);
    struct pod_request request = read_request(line->field[1]);
    enum reason reason = allocate_verdict(&node.cards, &request);
    size_t len = allocate_explain(&node.cards, &request, text, sizeof(text));
    assert_int_equal(len, strlen(text));
    snprintf(line->got, LINE_MAX, "%s | %s", reason_word(reason), text);
    snprintf(line->expected, LINE_MAX, "%s | %s", line->field[2], line->field[3]);
}

static void test_quantity(void **state)
{
    (void)state;
    run("quantity.case", 4, judge_quantity);
}

static void test_request(void **state)
{
    (void)state;
    run("request.case", 2, judge_request);
}

static void test_placement(void **state)
{
    (void)state;
    run("placement.case", 5, judge_placement);
}

static void test_verdict(void **state)
{
    (void)state;
    run("verdict.case", 4, judge_verdict);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantity),
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
