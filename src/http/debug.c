/* SPDX-License-Identifier: Apache-2.0 */
#include "http/debug.h"

#include "codec/dump.h"
#include "http/handlers.h"
#include "http/query.h"

#include <errno.h>
#include <stdlib.h>

/* ---- one node ---- */

static void add_bool(struct strbuf *out, const char *key, bool value)
{
    strbuf_printf(out, ",\"%s\":%s", key, value ? "true" : "false");
}

static void add_text(struct strbuf *out, const char *key, struct str value)
{
    strbuf_printf(out, ",\"%s\":", key);
    strbuf_json_string(out, value);
}

static void add_amount(struct strbuf *out, const char *key, enum device_kind kind,
                       const struct amount *amount)
{
    strbuf_printf(out, ",\"%s\":", key);
    dump_amount(kind, amount, out);
}

static void add_card(struct strbuf *out, const struct card_view *card)
{
    strbuf_printf(out, "{\"type\":\"%s\",\"minor\":%d", device_kind_name(card->kind), card->minor);
    add_text(out, "id", card->id);
    add_bool(out, "registered", card->registered);
    add_bool(out, "usable", card->usable);
    strbuf_printf(out, ",\"pods\":%u", card->pods);
    add_amount(out, "total", card->kind, &card->total);
    add_amount(out, "used", card->kind, &card->used);
    strbuf_putc(out, '}');
}

static const char *trust_name(enum charge_trust trust)
{
    switch (trust) {
    case CHARGE_TRUSTED:
        return "trusted";
    case CHARGE_INCONSISTENT:
        return "inconsistent";
    case CHARGE_UNKNOWN:
        break;
    }
    return "unknown";
}

static void add_pod(struct strbuf *out, const struct node_pod_view *pod)
{
    strbuf_puts(out, "{\"namespace\":");
    strbuf_json_string(out, pod->id.ns);
    add_text(out, "name", pod->id.name);
    add_text(out, "uid", pod->id.uid);
    add_text(out, "state", str_from(booking_state_name(pod->state)));
    add_text(out, "trust", str_from(trust_name(pod->trust)));
    add_bool(out, "confirmed", pod->confirmed);
    add_bool(out, "drifted", pod->drifted);
    strbuf_puts(out, ",\"shares\":[");
    for (uint32_t i = 0; i < pod->share_count; i++) {
        const struct share *share = &pod->shares[i];
        strbuf_printf(out, "%s{\"type\":\"%s\",\"minor\":%d", i > 0 ? "," : "",
                      device_kind_name(share->kind), share->minor);
        add_amount(out, "amount", share->kind, &share->amount);
        strbuf_putc(out, '}');
    }
    strbuf_puts(out, "]}");
}

static void add_node(struct strbuf *out, const struct node_view *node)
{
    strbuf_puts(out, "{\"name\":");
    strbuf_json_string(out, node->name);
    add_bool(out, "hasNode", node->has_node);
    add_bool(out, "hasDevices", node->has_devices);
    add_bool(out, "registered", node->registered);
    add_bool(out, "devicePlugin", node->device_plugin);
    add_bool(out, "closed", node->closed);
    strbuf_puts(out, ",\"cards\":[");
    for (uint32_t i = 0; i < node->card_count; i++) {
        strbuf_puts(out, i > 0 ? "," : "");
        add_card(out, &node->cards[i]);
    }
    strbuf_puts(out, "],\"pods\":[");
    for (uint32_t i = 0; i < node->pod_count; i++) {
        strbuf_puts(out, i > 0 ? "," : "");
        add_pod(out, &node->pods[i]);
    }
    strbuf_printf(out,
                  "],\"otherPods\":%u,\"allocatable\":{\"cpuMilli\":%lld,\"memoryBytes\":%lld},"
                  "\"used\":{\"cpuMilli\":%lld,\"memoryBytes\":%lld}",
                  node->other_pods, (long long)node->allocatable.cpu_milli,
                  (long long)node->allocatable.memory_bytes, (long long)node->used.cpu_milli,
                  (long long)node->used.memory_bytes);
    add_text(out, "gpuModel", node->gpu_model);
    strbuf_putc(out, '}');
}

/* ---- all nodes ---- */

static int compare_names(const void *left, const void *right)
{
    const struct str *a = left, *b = right;
    int order = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

/* Names of all nodes, sorted. */
static int list_names(struct cache *cache, struct arena *mem, struct str **ret, uint32_t *ret_count)
{
    uint32_t slots = cache_node_slots(cache), count = 0;
    struct str *names = arena_alloc(mem, slots, sizeof(*names));
    if (names == NULL)
        return -ENOMEM;
    struct arena scratch;
    arena_init(&scratch, 0);
    int rc = 0;
    for (uint32_t i = 0; i < slots && rc >= 0; i++) {
        struct node_view node;
        rc = cache_node_at(cache, i, &scratch, &node);
        if (rc > 0) {
            names[count] = arena_str(mem, node.name);
            rc = names[count++].data != NULL ? 0 : -ENOMEM;
        }
        arena_done(&scratch);
    }
    if (rc < 0)
        return rc;
    qsort(names, count, sizeof(*names), compare_names);
    *ret = names;
    *ret_count = count;
    return 0;
}

/* One node at a time, so that neither the lock is held nor the memory of all views taken. A node
 * that went meanwhile is left out. */
static int add_nodes(struct cache *cache, const struct str *names, uint32_t count,
                     struct strbuf *out)
{
    struct arena scratch;
    arena_init(&scratch, 0);
    bool first = true;
    int rc = 0;
    for (uint32_t i = 0; i < count && rc >= 0; i++) {
        struct node_view node;
        rc = cache_node_get(cache, names[i], &scratch, &node);
        if (rc > 0) {
            strbuf_puts(out, first ? "" : ",\n");
            add_node(out, &node);
            first = false;
        }
        arena_done(&scratch);
    }
    return rc < 0 ? rc : 0;
}

static void add_counts(struct cache *cache, struct strbuf *out)
{
    struct cache_counts counts;
    cache_count(cache, &counts);
    strbuf_printf(out,
                  "{\"nodes\":%u,\"deviceNodes\":%u,\"cards\":%u,\"pods\":%u,\"booked\":%u,"
                  "\"bound\":%u,\"inconsistentPods\":%u,\"unknownPods\":%u,\"closedNodes\":%u}",
                  counts.nodes, counts.device_nodes, counts.cards, counts.pods, counts.booked,
                  counts.bound, counts.inconsistent_pods, counts.unknown_pods, counts.closed_nodes);
}

/* Whether the peer may see; it is told if not. */
static bool may_see(const struct http_app *app, const struct http_request *request,
                    struct http_reply *reply)
{
    if (request->loopback_peer || request->known_client || atomic_load(&app->debug_remote))
        return true;
    http_reply_problem(reply, 403,
                       "/debug answers only peers on this machine or with a valid client "
                       "certificate (debug.remote)");
    return false;
}

void debug_cache(void *self, const struct http_request *request, struct http_reply *reply)
{
    const struct http_app *app = self;
    struct cache *cache = app->sched->cache;
    if (!may_see(app, request, reply))
        return;

    struct str picked;
    struct str *names = &picked;
    uint32_t count = 1;
    int rc = 0;
    if (!query_find(request->query, "node", &picked))
        rc = list_names(cache, request->mem, &names, &count);
    if (rc == 0) {
        strbuf_puts(&reply->body, "{\"counts\":");
        add_counts(cache, &reply->body);
        strbuf_puts(&reply->body, ",\n\"nodes\":[\n");
        rc = add_nodes(cache, names, count, &reply->body);
        strbuf_puts(&reply->body, "\n]}\n");
    }
    if (rc < 0)
        http_reply_problem(reply, 500, "out of memory");
}

/* ---- what packing goes by ---- */

/* The models that a pod may use, where it is bound to some. */
static void add_models(struct strbuf *out, const struct pack_view *view, uint64_t models)
{
    uint32_t count = 0;
    if (models == PACK_MODELS_ANY)
        return;
    strbuf_puts(out, ",\"models\":[");
    for (uint32_t i = 0; i < view->model_count; i++) {
        if (!pack_allows(models, i))
            continue;
        strbuf_puts(out, count++ > 0 ? "," : "");
        strbuf_json_string(out, view->models[i].name);
    }
    strbuf_putc(out, ']');
}

static void add_spec(struct strbuf *out, const struct pack_view *view,
                     const struct pack_spec_view *spec)
{
    strbuf_printf(out,
                  "{\"share\":%.6f,\"cpuMilli\":%lld,\"memoryMiB\":%lld,\"cards\":%d,"
                  "\"milli\":%d",
                  spec->share, (long long)spec->pod.cpu_milli, (long long)spec->pod.memory_mib,
                  spec->pod.cards, spec->pod.milli);
    if (spec->bytes > 0)
        strbuf_printf(out, ",\"gpuMemoryBytes\":%lld", (long long)spec->bytes);
    add_models(out, view, spec->pod.models);
}

static void add_learned(struct strbuf *out, const struct pack_view *view, int64_t now_ns)
{
    strbuf_printf(out,
                  "{\"on\":%s,\"podsSeen\":%llu,\"podsLeftOut\":%llu,\"priorPods\":%.2f,"
                  "\"drift\":%.4f,\"learned\":",
                  view->on ? "true" : "false", (unsigned long long)view->pods,
                  (unsigned long long)view->left_out, view->prior_pods, view->drift);
    if (view->learned_times == 0)
        strbuf_puts(out, "null");
    else
        strbuf_printf(out,
                      "{\"times\":%llu,\"podsSeen\":%llu,\"secondsAgo\":%.1f,\"cards\":%u,"
                      "\"cardBytes\":%lld,\"fadeCopies\":%.3f}",
                      (unsigned long long)view->learned_times,
                      (unsigned long long)view->learned_pods,
                      (double)(now_ns - view->learned_ns) / 1e9, view->cards,
                      (long long)view->card_bytes, view->fade);
}

static void add_value(struct strbuf *out, const struct pack_view *view)
{
    for (uint32_t i = 0; view->learned_times > 0 && i <= PACK_CELLS; i++)
        strbuf_printf(out, "%s%.6f", i > 0 ? "," : "", view->value[i]);
}

static void add_prices(struct strbuf *out, const struct pack_view *view)
{
    strbuf_puts(out, "\"models\":[");
    for (uint32_t i = 0; view->learned_times > 0 && i < view->model_count; i++) {
        const struct pack_model_view *model = &view->models[i];
        strbuf_puts(out, i > 0 ? ",\n{\"name\":" : "\n{\"name\":");
        strbuf_json_string(out, model->name);
        strbuf_printf(out, ",\"freeValue\":%.4f,\"price\":%.6f}", model->free_value,
                      model->price);
    }
    strbuf_puts(out, "],\n\"severalCards\":[");
    for (uint32_t i = 0; i < view->scarce_count; i++) {
        strbuf_puts(out, i > 0 ? ",\n" : "\n");
        add_spec(out, view, &view->scarce[i]);
        strbuf_printf(out, ",\"copies\":%lld,\"price\":%.6f}",
                      (long long)view->scarce[i].copies, view->scarce[i].price);
    }
    strbuf_putc(out, ']');
}

void debug_policy(void *self, const struct http_request *request, struct http_reply *reply)
{
    const struct http_app *app = self;
    struct strbuf *out = &reply->body;
    struct pack_view view;
    if (!may_see(app, request, reply))
        return;
    if (cache_pack_view(app->sched->cache, request->mem, &view) < 0) {
        http_reply_problem(reply, 500, "out of memory");
        return;
    }
    strbuf_puts(out, "{\"pack\":\n");
    add_learned(out, &view, clock_now_ns(&app->sched->clock));
    strbuf_puts(out, ",\n\"mix\":[");
    for (uint32_t i = 0; i < view.mix_count; i++) {
        strbuf_puts(out, i > 0 ? ",\n" : "\n");
        add_spec(out, &view, &view.mix[i]);
        strbuf_putc(out, '}');
    }
    strbuf_puts(out, "],\n\"valueOfPercent\":[");
    add_value(out, &view);
    strbuf_puts(out, "],\n");
    add_prices(out, &view);
    strbuf_puts(out, "}}\n");
}
