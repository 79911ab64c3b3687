/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void compare_cards(const struct world *world, int n, const struct node_view *view)
{
    const struct model_node *node = &world->nodes[n];
    int listed = 0;
    for (uint32_t i = 0; i < view->card_count; i++) {
        const struct card_view *card = &view->cards[i];
        uint32_t holders;
        struct amount used = world_used(world, n, card->kind, card->minor, &holders);
        const struct model_card *model = world_card(node, card->kind, card->minor);
        assert_int_equal(card->registered, model != NULL);
        listed += card->registered;
        if (model != NULL) {
            struct amount total = world_usable(model);
            assert_memory_equal(&card->total, &total, sizeof total);
        }
        assert_memory_equal(&card->used, &used, sizeof used);
        assert_int_equal(card->pods, holders);
    }
    assert_int_equal(listed, node->has_devices ? node->card_count : 0);
}

static void compare_pods(const struct world *world, int n, const struct node_view *view)
{
    uint32_t placed = 0;
    for (int p = 0; p < world->pod_count; p++)
        placed += world->pods[p].known && world->pods[p].node == n;
    assert_int_equal(view->pod_count, placed);
    for (uint32_t i = 0; i < view->pod_count; i++) {
        const struct node_pod_view *seen = &view->pods[i];
        int p = atoi(seen->id.uid.data + strlen("uid-"));
        const struct model_pod *pod = &world->pods[p];
        struct share charges[SHARES];
        assert_true(pod->known && pod->node == n);
        assert_int_equal(seen->trust, world_charge(world, pod, charges));
        assert_int_equal(seen->state, pod->state);
        assert_int_equal(seen->confirmed, pod->confirmed);
        assert_int_equal(seen->drifted, pod->drifted);
        assert_int_equal(seen->share_count, pod->share_count);
        for (int s = 0; s < pod->share_count; s++) {
            assert_int_equal(seen->shares[s].kind, charges[s].kind);
            assert_int_equal(seen->shares[s].minor, charges[s].minor);
            assert_memory_equal(&seen->shares[s].amount, &charges[s].amount, sizeof charges[s].amount);
        }
    }
}

void world_compare_node(const struct world *world, struct cache *cache, int n)
{
    struct arena mem;
    struct node_view view;
    const struct model_node *node = &world->nodes[n];
    arena_init(&mem, 0);
    int found = cache_node_get(cache, world_node_name(n), &mem, &view);
    assert_int_equal(found, world_knows(world, n));
    if (found == 1) {
        assert_int_equal(view.has_node, node->has_node);
        assert_int_equal(view.device_plugin, node->device_plugin);
        assert_int_equal(view.has_devices, node->has_devices);
        assert_int_equal(view.closed, world_closed(world, n));
        compare_cards(world, n, &view);
        compare_pods(world, n, &view);
    }
    arena_done(&mem);
}

static void count_pods(const struct world *world, struct cache_counts *counts)
{
    for (int p = 0; p < world->pod_count; p++) {
        const struct model_pod *pod = &world->pods[p];
        counts->pods += pod->known;
        counts->tentative += pod->known && pod->state == BOOKING_TENTATIVE;
        counts->booked += pod->known && pod->state == BOOKING_BOOKED;
        counts->bound += pod->known && pod->state == BOOKING_BOUND;
        if (!pod->known || pod->node < 0)
            continue;
        struct share charges[SHARES];
        enum charge_trust trust = world_charge(world, pod, charges);
        counts->inconsistent_pods += trust == CHARGE_INCONSISTENT;
        counts->unknown_pods += trust == CHARGE_UNKNOWN;
    }
}

void world_compare(const struct world *world, struct cache *cache)
{
    struct cache_counts want = {0}, have;
    struct error err = {0};
    for (int n = 0; n < world->node_count; n++) {
        const struct model_node *node = &world->nodes[n];
        world_compare_node(world, cache, n);
        want.nodes += node->has_node;
        want.device_nodes += node->has_devices;
        want.cards += node->has_devices ? (uint32_t)node->card_count : 0;
        want.closed_nodes += world_closed(world, n);
    }
    count_pods(world, &want);
    cache_count(cache, &have);
    assert_memory_equal(&have, &want, sizeof want);
    assert_true(cache_removals(cache) == world->removals);
    if (cache_check(cache, &err) < 0)
        fail_msg("%s", err.text);
}
