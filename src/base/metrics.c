/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

struct family {
    const char *name;
    const char *help;
    const char *label;
    const char *values; /* words joined by '|' */
};

#define FAMILY(id, family_name, family_help, family_label, family_values)                          \
    [id] = {family_name, family_help, family_label, family_values},
static const struct family counter_families[METRIC_COUNTER_MAX] = {METRIC_COUNTERS(FAMILY)};
static const struct family histogram_families[METRIC_HISTOGRAM_MAX] = {METRIC_HISTOGRAMS(FAMILY)};
#undef FAMILY

struct bound {
    int64_t ns;
    const char *text; /* seconds, as the le label shows them */
};

static const struct bound bounds[] = {
    {50000, "0.00005"},  {100000, "0.0001"},  {250000, "0.00025"}, {500000, "0.0005"},
    {1000000, "0.001"},  {2500000, "0.0025"}, {5000000, "0.005"},  {10000000, "0.01"},
    {25000000, "0.025"}, {50000000, "0.05"},  {100000000, "0.1"},  {250000000, "0.25"},
    {1000000000, "1"},   {5000000000, "5"},
};

enum { LABELS_MAX = 8, BOUNDS = sizeof(bounds) / sizeof(bounds[0]) };

struct histogram {
    atomic_uint_fast64_t buckets[BOUNDS + 1]; /* not cumulative; the last is beyond all bounds */
    atomic_uint_fast64_t sum_ns;
};

static atomic_uint_fast64_t counters[METRIC_COUNTER_MAX][LABELS_MAX];
static struct histogram histograms[METRIC_HISTOGRAM_MAX][LABELS_MAX];

static unsigned label_count(const struct family *family)
{
    unsigned count = 1;
    for (const char *c = family->values; *c != '\0'; c++)
        count += *c == '|';
    assert(count <= LABELS_MAX);
    return count;
}

static struct str label_value(const struct family *family, unsigned index)
{
    const char *start = family->values;
    for (; index > 0; index--)
        start = strchr(start, '|') + 1;
    return (struct str){start, strcspn(start, "|")};
}

void metrics_add(enum metric_counter id, unsigned label, uint64_t n)
{
    assert(id < METRIC_COUNTER_MAX && label < label_count(&counter_families[id]));
    atomic_fetch_add_explicit(&counters[id][label], n, memory_order_relaxed);
}

uint64_t metrics_get(enum metric_counter id, unsigned label)
{
    assert(id < METRIC_COUNTER_MAX && label < label_count(&counter_families[id]));
    return atomic_load_explicit(&counters[id][label], memory_order_relaxed);
}

void metrics_observe_ns(enum metric_histogram id, unsigned label, int64_t ns)
{
    assert(id < METRIC_HISTOGRAM_MAX && label < label_count(&histogram_families[id]));
    struct histogram *histogram = &histograms[id][label];
    if (ns < 0)
        ns = 0;
    unsigned bucket = 0;
    while (bucket < BOUNDS && ns > bounds[bucket].ns)
        bucket++;
    atomic_fetch_add_explicit(&histogram->buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_ns, (uint64_t)ns, memory_order_relaxed);
}

static void render_head(const struct family *family, const char *type, struct strbuf *out)
{
    strbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name,
                  type);
}

/* {verb="filter",le="0.1"}: each part only where it is there. */
static void render_labels(const struct family *family, unsigned label, const char *le,
                          struct strbuf *out)
{
    bool labelled = family->label[0] != '\0';
    if (!labelled && le == NULL)
        return;
    strbuf_putc(out, '{');
    if (labelled) {
        struct str value = label_value(family, label);
        strbuf_printf(out, "%s=\"%.*s\"", family->label, STR_ARG(value));
    }
    if (le != NULL)
        strbuf_printf(out, "%sle=\"%s\"", labelled ? "," : "", le);
    strbuf_putc(out, '}');
}

static void render_sample(const struct family *family, const char *suffix, unsigned label,
                          const char *le, uint64_t value, struct strbuf *out)
{
    strbuf_puts(out, family->name);
    strbuf_puts(out, suffix);
    render_labels(family, label, le, out);
    strbuf_printf(out, " %llu\n", (unsigned long long)value);
}

static void render_histogram(const struct family *family, unsigned label,
                             struct histogram *histogram, struct strbuf *out)
{
    uint64_t total = 0;
    for (unsigned i = 0; i <= BOUNDS; i++) {
        total += atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        render_sample(family, "_bucket", label, i < BOUNDS ? bounds[i].text : "+Inf", total, out);
    }

    uint64_t sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
    strbuf_printf(out, "%s_sum", family->name);
    render_labels(family, label, NULL, out);
    strbuf_printf(out, " %llu.%09llu\n", (unsigned long long)(sum_ns / 1000000000),
                  (unsigned long long)(sum_ns % 1000000000));
    render_sample(family, "_count", label, NULL, total, out);
}

void metrics_render(struct strbuf *out)
{
    for (unsigned id = 0; id < METRIC_COUNTER_MAX; id++) {
        const struct family *family = &counter_families[id];
        render_head(family, "counter", out);
        for (unsigned label = 0; label < label_count(family); label++)
            render_sample(family, "", label, NULL,
                          atomic_load_explicit(&counters[id][label], memory_order_relaxed), out);
    }
    for (unsigned id = 0; id < METRIC_HISTOGRAM_MAX; id++) {
        const struct family *family = &histogram_families[id];
        render_head(family, "histogram", out);
        for (unsigned label = 0; label < label_count(family); label++)
            render_histogram(family, label, &histograms[id][label], out);
    }
}

void metrics_reset(void)
{
    for (unsigned id = 0; id < METRIC_COUNTER_MAX; id++)
        for (unsigned label = 0; label < LABELS_MAX; label++)
            atomic_store(&counters[id][label], 0);
    for (unsigned id = 0; id < METRIC_HISTOGRAM_MAX; id++) {
        for (unsigned label = 0; label < LABELS_MAX; label++) {
            for (unsigned i = 0; i <= BOUNDS; i++)
                atomic_store(&histograms[id][label].buckets[i], 0);
            atomic_store(&histograms[id][label].sum_ns, 0);
        }
    }
}
