/* SPDX-License-Identifier: Apache-2.0 */
#include "http/metrics.h"

#include "base/metrics.h"
#include "http/handlers.h"

/* ---- gauges of the whole cache ---- */

struct gauge {
    const char *name, *help;
    size_t offset; /* of a uint32_t in struct cache_counts */
};

static const struct gauge gauges[] = {
    {"deviceshare_cache_nodes", "Nodes known.", offsetof(struct cache_counts, nodes)},
    {"deviceshare_cache_device_nodes", "Nodes with a Device object.",
     offsetof(struct cache_counts, device_nodes)},
    {"deviceshare_cache_cards", "Cards known, of all kinds.", offsetof(struct cache_counts, cards)},
    {"deviceshare_cache_pods", "Device pods known.", offsetof(struct cache_counts, pods)},
    {"deviceshare_cache_booked_pods", "Pods booked and not yet seen bound.",
     offsetof(struct cache_counts, booked)},
    {"deviceshare_cache_bound_pods", "Pods seen bound to a node.",
     offsetof(struct cache_counts, bound)},
    {"deviceshare_cache_inconsistent_pods",
     "Placed pods whose annotation does not match their request.",
     offsetof(struct cache_counts, inconsistent_pods)},
    {"deviceshare_cache_unknown_pods", "Placed device pods whose cards are unknown.",
     offsetof(struct cache_counts, unknown_pods)},
    {"deviceshare_cache_closed_nodes", "Nodes closed to new device pods by such a pod.",
     offsetof(struct cache_counts, closed_nodes)},
};

static void add_family(struct strbuf *out, const char *name, const char *help)
{
    strbuf_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void render_counts(const struct http_app *app, const struct cache_counts *counts,
                          struct strbuf *out)
{
    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
        uint32_t value;
        memcpy(&value, (const char *)counts + gauges[i].offset, sizeof(value));
        add_family(out, gauges[i].name, gauges[i].help);
        strbuf_printf(out, "%s %u\n", gauges[i].name, value);
    }
    add_family(out, "deviceshare_synced", "1 when nodes, devices and pods are listed.");
    strbuf_printf(out, "deviceshare_synced %d\n", atomic_load(&app->sched->synced));
    add_family(out, "deviceshare_leading", "1 when this replica decides.");
    strbuf_printf(out, "deviceshare_leading %d\n", atomic_load(&app->sched->leading));
}

/* ---- gauges of each GPU ---- */

struct gpu {
    struct str node;
    const struct card_view *card;
};

struct gpus {
    struct gpu *rows;
    size_t count, capacity;
};

enum side { TOTAL, USED, FREE };

static const struct {
    const char *name, *help;
    enum side side;
    enum dimension dimension;
} card_gauges[] = {
    {"device_gpu_total_core", "Core of a GPU, in percent of a card.", TOTAL, DIM_PERCENT},
    {"device_gpu_used_core", "Core of a GPU that is booked.", USED, DIM_PERCENT},
    {"device_gpu_free_core", "Core of a GPU that can be booked.", FREE, DIM_PERCENT},
    {"device_gpu_total_memory_bytes", "Memory of a GPU.", TOTAL, DIM_BYTES},
    {"device_gpu_used_memory_bytes", "Memory of a GPU that is booked.", USED, DIM_BYTES},
    {"device_gpu_free_memory_bytes", "Memory of a GPU that can be booked.", FREE, DIM_BYTES},
};

static int64_t card_value(const struct card_view *card, enum side side, enum dimension dimension)
{
    int64_t total = amount_get(&card->total, dimension);
    int64_t used = amount_get(&card->used, dimension);
    switch (side) {
    case TOTAL:
        return total;
    case USED:
        return used;
    case FREE:
        break;
    }
    return card->usable && total > used ? total - used : 0;
}

static bool push_gpu(struct gpus *gpus, struct arena *mem, struct gpu row)
{
    if (gpus->count == gpus->capacity) {
        size_t capacity = gpus->capacity > 0 ? 2 * gpus->capacity : 64;
        struct gpu *rows = arena_alloc(mem, capacity, sizeof(*rows));
        if (rows == NULL)
            return false;
        if (gpus->count > 0)
            memcpy(rows, gpus->rows, gpus->count * sizeof(*rows));
        gpus->rows = rows;
        gpus->capacity = capacity;
    }
    gpus->rows[gpus->count++] = row;
    return true;
}

static bool collect_gpus(struct cache *cache, struct arena *mem, struct gpus *ret)
{
    for (uint32_t i = 0; i < cache_node_slots(cache); i++) {
        struct node_view node;
        int rc = cache_node_at(cache, i, mem, &node);
        if (rc < 0)
            return false;
        if (rc == 0)
            continue;
        for (uint32_t c = 0; c < node.card_count; c++) {
            if (node.cards[c].kind == DEVICE_GPU &&
                !push_gpu(ret, mem, (struct gpu){node.name, &node.cards[c]}))
                return false;
        }
    }
    return true;
}

static void add_label_value(struct strbuf *out, struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        if (c == '\n') {
            strbuf_puts(out, "\\n");
            continue;
        }
        if (c == '"' || c == '\\')
            strbuf_putc(out, '\\');
        strbuf_putc(out, c);
    }
}

/* The samples of a family have to stand together. */
static void render_gpus(const struct gpus *gpus, struct strbuf *out)
{
    for (size_t g = 0; g < sizeof(card_gauges) / sizeof(card_gauges[0]); g++) {
        add_family(out, card_gauges[g].name, card_gauges[g].help);
        for (size_t i = 0; i < gpus->count; i++) {
            const struct card_view *card = gpus->rows[i].card;
            strbuf_printf(out, "%s{node=\"", card_gauges[g].name);
            add_label_value(out, gpus->rows[i].node);
            strbuf_printf(out, "\",minor=\"%d\"} ", card->minor);
            strbuf_int(out, card_value(card, card_gauges[g].side, card_gauges[g].dimension));
            strbuf_putc(out, '\n');
        }
    }
}

static bool wants_cards(const struct http_app *app, const struct cache_counts *counts)
{
    switch (atomic_load(&app->per_card)) {
    case HTTP_PER_CARD_ON:
        return true;
    case HTTP_PER_CARD_OFF:
        return false;
    default:
        return counts->device_nodes <= atomic_load(&app->per_card_max_nodes);
    }
}

void metrics_page(void *self, const struct http_request *request, struct http_reply *reply)
{
    const struct http_app *app = self;
    struct cache *cache = app->sched->cache;
    struct cache_counts counts;

    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_render(&reply->body);
    cache_count(cache, &counts);
    render_counts(app, &counts, &reply->body);
    if (!wants_cards(app, &counts))
        return;
    struct gpus gpus = {0};
    if (collect_gpus(cache, request->mem, &gpus))
        render_gpus(&gpus, &reply->body);
    else
        http_reply_problem(reply, 500, "out of memory");
}
