/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static void put_amount(struct strbuf *out, const struct amount *amount)
{
    strbuf_printf(out, " %lld/%lld/%lld", (long long)amount->percent, (long long)amount->ratio,
                  (long long)amount->bytes);
}

static void put_node(struct strbuf *out, const struct node_view *node)
{
    strbuf_printf(out, "node %.*s%s%s%s%s\n", STR_ARG(node->name), node->has_node ? " node" : "",
                  node->has_devices ? " devices" : "", node->device_plugin ? " plugin" : "",
                  node->closed ? " closed" : "");
    for (uint32_t i = 0; i < node->card_count; i++) {
        const struct card_view *card = &node->cards[i];
        strbuf_printf(out, "  %s %d%s%s id=%.*s pods=%u total", device_kind_name(card->kind),
                      card->minor, card->registered ? "" : " absent",
                      card->usable ? "" : " unusable", STR_ARG(card->id), card->pods);
        put_amount(out, &card->total);
        strbuf_puts(out, " used");
        put_amount(out, &card->used);
        strbuf_putc(out, '\n');
    }
    for (uint32_t i = 0; i < node->pod_count; i++) {
        const struct node_pod_view *pod = &node->pods[i];
        strbuf_printf(out, "  pod %.*s/%.*s %.*s %s trust=%d", STR_ARG(pod->id.ns),
                      STR_ARG(pod->id.name), STR_ARG(pod->id.uid), booking_state_name(pod->state),
                      (int)pod->trust);
        for (uint32_t s = 0; s < pod->share_count; s++) {
            strbuf_printf(out, " %s %d:", device_kind_name(pod->shares[s].kind),
                          pod->shares[s].minor);
            put_amount(out, &pod->shares[s].amount);
        }
        strbuf_putc(out, '\n');
    }
}

void cache_text_node(struct cache *cache, struct str name, struct strbuf *out)
{
    struct arena mem;
    struct node_view node;
    arena_init(&mem, 0);
    if (cache_node_get(cache, name, &mem, &node) == 1)
        put_node(out, &node);
    arena_done(&mem);
}

static int compare_names(const void *left, const void *right)
{
    const struct node_view *a = left, *b = right;
    return strcmp(a->name.data, b->name.data);
}

void cache_text(struct cache *cache, struct strbuf *out)
{
    struct arena mem;
    arena_init(&mem, 0);
    uint32_t slots = cache_node_slots(cache), count = 0;
    struct node_view *nodes = arena_alloc(&mem, slots, sizeof *nodes);
    assert(nodes != NULL);
    for (uint32_t i = 0; i < slots; i++)
        count += cache_node_at(cache, i, &mem, &nodes[count]) == 1;
    if (count > 1)
        qsort(nodes, count, sizeof *nodes, compare_names);
    for (uint32_t i = 0; i < count; i++)
        put_node(out, &nodes[i]);
    struct cache_counts counts;
    cache_count(cache, &counts);
    strbuf_printf(out, "counts %u %u %u %u %u %u %u %u %u\n", counts.nodes, counts.device_nodes,
                  counts.cards, counts.pods, counts.booked, counts.bound, counts.inconsistent_pods,
                  counts.unknown_pods, counts.closed_nodes);
    arena_done(&mem);
}
