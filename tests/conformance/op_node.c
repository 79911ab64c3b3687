/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on one request and one node: filter, allocate, reserve, scores. */
#include "runner.h"
#include "translate.h"

#include "core/allocate.h"

static void put_reason(json_object *answer, enum reason reason)
{
    static const char *const codes[] = {
        [VERDICT_FITS] = NULL,
        [VERDICT_NOT_NOW] = "unschedulable",
        [VERDICT_NEVER] = "unresolvable",
    };
    const char *code = codes[reason_verdict(reason)];
    json_put_bool(answer, "ok", reason == REASON_FITS);
    if (code != NULL) {
        json_put_text(answer, "code", code);
        json_put_text(answer, "reason", reason_text(reason));
    }
}

/* A record's question. */
struct question {
    struct asked asked;
    struct settings settings;
    struct node_cards node;
};

/* Read it and answer what needs no node: true when a valid request for devices remains. */
static bool read_question(struct vector *v, json_object *answer, struct question *ret)
{
    json_object *converted = json_get(v->given, "device_requests");
    bool read = converted != NULL
                    ? ask_converted(v, "given.device_requests", converted, &ret->asked)
                    : ask_pod(v, "given.pod", json_get(v->given, "pod"), NULL, &ret->asked);
    if (!read || !read_config(v, json_get(v->given, "config"), &ret->settings) ||
        !read_node(v, json_get(v->given, "node"), &ret->node))
        return false;
    bool asks = ret->asked.valid && request_any(&ret->asked.request);
    json_put_bool(answer, "ok", ret->asked.valid);
    json_put_bool(answer, "skipped", ret->asked.valid && !asks);
    if (!ret->asked.valid) {
        json_put_text(answer, "code", "unresolvable");
        json_put_text(answer, "reason", ret->asked.text);
    }
    return asks;
}

static void run_allocate(struct vector *v, json_object *answer)
{
    struct question q;
    struct plan plan;
    enum reason reason;
    if (!read_question(v, answer, &q))
        return;
    if (!q.node.has_devices) {
        if (verdict_without_devices(v, &q.asked.request, &reason))
            put_reason(answer, reason);
        return;
    }
    reason = allocate_choose(&q.node.cards, &q.asked.request, q.settings.policy, &plan);
    put_reason(answer, reason);

    /* The scan's short check must say the same. */
    enum reason check = allocate_check(&q.node.cards, &q.asked.request);
    if (check != reason)
        vector_fail(v, "allocate_check", reason_word(reason), reason_word(check));
    if (reason != REASON_FITS)
        return;
    struct placement placement = {.count = plan.count};
    for (uint32_t i = 0; i < plan.count; i++)
        placement.cards[i].share = plan.shares[i];
    json_put(answer, "allocations", placement_lists(&placement));
}

/* Koordinator scores a node whether or not the pod fits there now, but not one that lacks the
 * device. */
static void run_score_node(struct vector *v, json_object *answer)
{
    struct question q;
    if (!read_question(v, answer, &q) || !q.node.has_devices) {
        json_put_int(answer, "score", 0);
        return;
    }
    enum reason reason = allocate_check(&q.node.cards, &q.asked.request);
    if (reason_verdict(reason) == VERDICT_NEVER) {
        put_reason(answer, reason);
        return;
    }
    json_put_int(
        answer, "score",
        score_node(q.settings.strategy, &q.settings.weights, SCORE_MAX, &q.node.cards, &q.asked.request));
}

static void run_score_device(struct vector *v, json_object *answer)
{
    struct settings settings;
    struct amount request, total, free_amount;
    enum device_kind kind = DEVICE_GPU;
    json_object *names = json_get(v->given, "total");
    if (json_object_is_type(names, json_type_object)) {
        json_object_object_foreach(names, name, value) {
            (void)value;
            while (kind < DEVICE_FPGA && device_dimension_find(kind, str_from(name)) == DIM_MAX)
                kind++;
        }
    }
    if (read_config(v, json_get(v->given, "config"), &settings) &&
        read_amount(v, "given.request", json_get(v->given, "request"), kind, &request) &&
        read_amount(v, "given.total", names, kind, &total) &&
        read_amount(v, "given.free", json_get(v->given, "free"), kind, &free_amount))
        json_put_int(answer, "score",
                     score_amounts(settings.strategy, settings.weights.weight[kind], &request,
                                   &total, &free_amount));
}

/* No policy's raw score comes near it. */
#define RAW_SCORE_MAX INT64_C(1000000000)

static void run_normalize(struct vector *v, json_object *answer)
{
    json_object *given = json_get(v->given, "scores"), *list = json_new_array();
    json_put(answer, "scores", list);
    if (!json_object_is_type(given, json_type_array)) {
        vector_unsupported(v, "given.scores is no list");
        return;
    }
    size_t count = json_object_array_length(given);
    int64_t *scores = arena_alloc(&v->mem, count, sizeof(*scores));
    for (size_t i = 0; scores != NULL && i < count; i++) {
        json_object *entry = json_object_array_get_idx(given, i);
        if (!fields_known(v, "given.scores", entry, "node score"))
            return;
        if (!json_number(json_get(entry, "score"), &scores[i]) || scores[i] < 0 ||
            scores[i] > RAW_SCORE_MAX) {
            vector_unsupported(v, "given.scores has an entry without a score within our bounds");
            return;
        }
    }
    score_normalize(scores, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        json_object *entry = json_new_object();
        json_put(entry, "node",
                 json_object_get(json_get(json_object_array_get_idx(given, i), "node")));
        json_put_int(entry, "score", scores[i]);
        json_push(list, entry);
    }
}

/* ---- the table ---- */

static const struct expectation verdict_fields[] = {
    {"ok", COMPARE_EXACT, NULL, NULL},
    {"skipped", COMPARE_EXACT, NULL, NULL},
    {"code", COMPARE_EXACT, NULL, NULL},
    {"reason", COMPARE_PREFIX, NULL, NULL},
    {"reason_contains", COMPARE_CONTAINS, "reason", NULL},
    {"reason_from_code_reading", COMPARE_IGNORED, NULL, NULL},
    {"error_class", COMPARE_IGNORED, NULL, NULL},
    {"note", COMPARE_IGNORED, NULL, NULL},
    {"allocations", COMPARE_AMOUNTS, NULL, NULL},
    {"score", COMPARE_EXACT, NULL, NULL},
    {0},
};

static const struct expectation scores_fields[] = {
    {"scores", COMPARE_EXACT, NULL, NULL},
    {0},
};

#define QUESTION                                                                                   \
    "pod device_requests node config ?hint ?hints ?designated ?preemptible ?reservation "          \
    "?reservations ?required ?preferred"

const struct op node_ops[] = {
    {"allocate", QUESTION, verdict_fields, run_allocate},
    {"filter", QUESTION, verdict_fields, run_allocate},
    {"reserve", QUESTION, verdict_fields, run_allocate},
    {"score_node", QUESTION, verdict_fields, run_score_node},
    {"score_device", "request total free config", verdict_fields, run_score_device},
    {"normalize", "scores", scores_fields, run_normalize},
    {0},
};
