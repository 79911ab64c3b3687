/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/report.h"

#include <inttypes.h>

#define TEXT_STEP_PERCENT 10 /* of the curve for people */

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static double micros(int64_t ns)
{
    return (double)ns / 1e3;
}

static double per_second(const struct experiment_result *result)
{
    return result->total_ns > 0 ? (double)result->decisions / seconds(result->total_ns) : 0;
}

/* ---- for people ---- */

static void text_curve(const struct experiment_result *result, struct strbuf *out)
{
    strbuf_puts(out, "arrived %   allocated %   fragmented %   of the free GPUs %\n");
    for (uint32_t i = 0; i < result->bucket_count; i += TEXT_STEP_PERCENT) {
        const struct experiment_bucket *bucket = &result->buckets[i];
        if (bucket->events > 0)
            strbuf_printf(out, "%9u   %11.2f   %12.2f   %18.2f\n", i, bucket->allocated_percent,
                          bucket->fragmented_percent, bucket->fragmented_ratio);
    }
    strbuf_printf(out, "allocated at the end %.2f %%\n", result->final_percent);
}

void report_text(const struct report_head *head, const struct experiment_result *result,
                 struct strbuf *out)
{
    strbuf_printf(out, "policy %s, nodes %s, pods %s, ", head->policy, head->nodes, head->pods);
    if (head->order != NULL)
        strbuf_printf(out, "order %s\n", head->order);
    else
        strbuf_printf(out, "seed %" PRIu64 "\n", head->seed);
    if (head->churn > 0)
        strbuf_printf(out, "churn of %u arrivals at load %g: allocated %.2f %% on average\n",
                      head->churn, head->load, result->mean_percent);
    else
        text_curve(result, out);
    strbuf_printf(out, "rejected GPU demand %.2f %%; pods dropped:", result->rejected_percent);
    for (enum experiment_class class = 0; class < CLASS_MAX; class ++)
        strbuf_printf(out, " %s %u", experiment_class_name(class), result->rejected[class]);
    strbuf_printf(
        out,
        "\n%" PRIu64 " decisions in %.3f s, %.0f a second; one takes %.1f us of CPU on average, "
        "p50 %.1f, p99 %.1f, at most %.1f\n",
        result->decisions, seconds(result->total_ns), per_second(result), micros(result->mean_ns),
        micros(result->p50_ns), micros(result->p99_ns), micros(result->max_ns));
}

/* ---- JSON ---- */

static double bucket_allocated(const struct experiment_bucket *bucket)
{
    return bucket->allocated_percent;
}

static double bucket_fragmented(const struct experiment_bucket *bucket)
{
    return bucket->fragmented_percent;
}

static double bucket_ratio(const struct experiment_bucket *bucket)
{
    return bucket->fragmented_ratio;
}

static void json_curve(const char *name, const struct experiment_result *result,
                       double (*value)(const struct experiment_bucket *), struct strbuf *out)
{
    const char *comma = "";
    strbuf_printf(out, "\"%s\": {", name);
    for (uint32_t i = 0; i < result->bucket_count; i++) {
        if (result->buckets[i].events == 0)
            continue;
        strbuf_printf(out, "%s\"%u\": %.2f", comma, i, value(&result->buckets[i]));
        comma = ", ";
    }
    strbuf_puts(out, "},\n ");
}

static void json_text(const char *name, const char *text, struct strbuf *out)
{
    strbuf_printf(out, "\"%s\": ", name);
    strbuf_json_string(out, str_from(text));
    strbuf_puts(out, ", ");
}

static void json_head(const struct report_head *head, struct strbuf *out)
{
    strbuf_putc(out, '{');
    json_text("policy", head->policy, out);
    json_text("nodes", head->nodes, out);
    json_text("pods", head->pods, out);
    if (head->order != NULL)
        json_text("order", head->order, out);
    else
        strbuf_printf(out, "\"seed\": %" PRIu64 ", ", head->seed);
    json_text("learned_from", head->mix != NULL ? head->mix : learn_name(head->learn), out);
    strbuf_printf(out, "\"cache\": %s,\n ", head->no_cache ? "false" : "true");
}

static void json_inflation(const struct experiment_result *result, struct strbuf *out)
{
    json_curve("allocated_percent_at", result, bucket_allocated, out);
    json_curve("fragmented_percent_at", result, bucket_fragmented, out);
    json_curve("fragmented_ratio_percent_at", result, bucket_ratio, out);
    strbuf_printf(out, "\"allocated_percent\": %.4f, ", result->final_percent);
}

void report_json(const struct report_head *head, const struct experiment_result *result,
                 struct strbuf *out)
{
    json_head(head, out);
    if (head->churn > 0)
        strbuf_printf(out, "\"churn\": %u, \"load\": %g, \"allocated_percent_mean\": %.4f, ",
                      head->churn, head->load, result->mean_percent);
    else
        json_inflation(result, out);
    strbuf_printf(out, "\"rejected_percent\": %.4f,\n \"rejected_pods\": {",
                  result->rejected_percent);
    for (enum experiment_class class = 0; class < CLASS_MAX; class ++)
        strbuf_printf(out, "%s\"%s\": %u", class > 0 ? ", " : "", experiment_class_name(class),
                      result->rejected[class]);
    strbuf_printf(out, "},\n \"decisions\": %" PRIu64 ", \"seconds\": %.6f, ", result->decisions,
                  seconds(result->total_ns));
    strbuf_printf(out, "\"decisions_per_second\": %.0f,\n ", per_second(result));
    strbuf_printf(
        out,
        "\"decision_cpu_us\": {\"mean\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}}\n",
        micros(result->mean_ns), micros(result->p50_ns), micros(result->p99_ns),
        micros(result->max_ns));
}
