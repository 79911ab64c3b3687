/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cluster.h"

#include <assert.h>
#include <errno.h>

int cluster_init(struct cluster *cluster, const struct trace *trace, const uint32_t *ranks,
                 struct arena *arena)
{
    size_t cards = (size_t)(trace->capacity_milli / PACK_CARD_MILLI);
    struct cluster new = {.count = trace->node_count, .capacity_milli = trace->capacity_milli};
    new.nodes = arena_alloc(arena, new.count, sizeof(*new.nodes));
    new.free_milli = arena_alloc(arena, cards, sizeof(*new.free_milli));
    new.load = arena_alloc(arena, new.count, sizeof(*new.load));
    new.changed = arena_alloc(arena, new.count, sizeof(*new.changed));
    if (new.nodes == NULL || new.free_milli == NULL || new.load == NULL || new.changed == NULL)
        return -ENOMEM;
    for (size_t card = 0; card < cards; card++)
        new.free_milli[card] = PACK_CARD_MILLI;
    const int32_t *free_milli = new.free_milli;
    for (uint32_t i = 0; i < new.count; i++) {
        const struct trace_node *node = &trace->nodes[i];
        new.nodes[ranks[i]] = (struct pack_node){
            .cpu_milli = node->cpu_milli,
            .memory_mib = node->memory_mib,
            .model = node->model,
            .cards = node->cards,
            .free_milli = free_milli,
        };
        new.load[ranks[i]].cpu_milli = node->cpu_milli;
        free_milli += node->cards;
        new.changed[i] = ++new.changes;
    }
    *cluster = new;
    return 0;
}

uint32_t cluster_class(const struct pack_pod *pod)
{
    return pack_is_shared(pod) ? 0 : (uint32_t)pod->cards;
}

/* Give (sign 1) or take back (sign -1) what pod has at place. */
static void charge(struct cluster *cluster, const struct pack_pod *pod, struct place place,
                   int sign)
{
    struct pack_node *node = &cluster->nodes[place.node];
    int32_t *free_milli = cluster->free_milli + (node->free_milli - cluster->free_milli);
    node->cpu_milli -= sign * pod->cpu_milli;
    node->memory_mib -= sign * pod->memory_mib;
    assert(node->cpu_milli >= 0 && node->memory_mib >= 0);
    for (uint32_t card = 0; card < node->cards; card++) {
        if ((place.cards >> card & 1) == 0)
            continue;
        free_milli[card] -= sign * pod->milli;
        assert(free_milli[card] >= 0 && free_milli[card] <= PACK_CARD_MILLI);
    }
    cluster->used_milli += sign * trace_demand(pod);
    cluster->changed[place.node] = ++cluster->changes;
}

struct place cluster_add(struct cluster *cluster, const struct pack_pod *pod, uint32_t node,
                         int32_t card)
{
    struct place place = {.node = node, .cards = card >= 0 ? UINT64_C(1) << card : 0};
    const struct pack_node *at = &cluster->nodes[node];
    int32_t to_take = card >= 0 ? 0 : pod->cards;
    for (uint32_t i = 0; i < at->cards && to_take > 0; i++) {
        if (at->free_milli[i] != PACK_CARD_MILLI)
            continue;
        place.cards |= UINT64_C(1) << i;
        to_take--;
    }
    assert(to_take == 0);
    charge(cluster, pod, place, 1);
    if (pod->cards > 0) {
        struct cluster_load *load = &cluster->load[node];
        load->classes += load->running[cluster_class(pod)]++ == 0;
    }
    return place;
}

void cluster_remove(struct cluster *cluster, const struct pack_pod *pod, struct place place)
{
    charge(cluster, pod, place, -1);
    if (pod->cards > 0) {
        struct cluster_load *load = &cluster->load[place.node];
        load->classes -= --load->running[cluster_class(pod)] == 0;
    }
}
