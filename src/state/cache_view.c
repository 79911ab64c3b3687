/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Copies for people and tests, and the check of the invariants. */

static int copy_str(struct arena *mem, struct str text, struct str *ret)
{
    *ret = arena_str(mem, text);
    return ret->data != NULL ? 0 : -ENOMEM;
}

static int compare_str(struct str a, struct str b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_pods(const void *left, const void *right)
{
    const struct node_pod_view *a = left, *b = right;
    int order = compare_str(a->id.ns, b->id.ns);
    if (order == 0)
        order = compare_str(a->id.name, b->id.name);
    return order != 0 ? order : compare_str(a->id.uid, b->id.uid);
}

static int compare_cards(const void *left, const void *right)
{
    const struct card_view *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->minor > b->minor) - (a->minor < b->minor);
}

static int view_pod(struct arena *mem, const struct pod_record *pod, struct node_pod_view *ret)
{
    struct share *shares = arena_alloc(mem, pod->share_count, sizeof *shares);
    if (shares == NULL)
        return -ENOMEM;
    if (pod->share_count > 0)
        memcpy(shares, pod->charges, pod->share_count * sizeof *shares);
    *ret = (struct node_pod_view){
        .state = pod->state,
        .trust = pod->trust,
        .confirmed = pod->confirmed,
        .drifted = pod->drifted,
        .share_count = pod->share_count,
        .shares = shares,
    };
    if (copy_str(mem, pod->ns, &ret->id.ns) < 0 || copy_str(mem, pod->name, &ret->id.name) < 0 ||
        copy_str(mem, pod->uid, &ret->id.uid) < 0)
        return -ENOMEM;
    return 0;
}

static int view_pods(struct arena *mem, const struct node *node, struct node_view *view)
{
    uint32_t count = 0;
    for (const struct pod_record *pod = node->pods; pod != NULL; pod = pod->next)
        count++;
    struct node_pod_view *pods = arena_alloc(mem, count, sizeof *pods);
    if (pods == NULL)
        return -ENOMEM;
    count = 0;
    for (const struct pod_record *pod = node->pods; pod != NULL; pod = pod->next) {
        if (view_pod(mem, pod, &pods[count++]) < 0)
            return -ENOMEM;
    }
    view->pods = pods;
    view->pod_count = count;
    return 0;
}

/* Charges on cards that are not listed now, one view entry a card. */
static uint32_t view_absent_cards(const struct cards *cards, const struct node *node,
                                  struct card_view *views, uint32_t count)
{
    uint32_t listed = count;
    for (const struct pod_record *pod = node->pods; pod != NULL; pod = pod->next) {
        for (uint32_t i = 0; i < pod->share_count; i++) {
            const struct share *charge = &pod->charges[i];
            if (cards_find(cards, charge->kind, charge->minor) != UINT32_MAX)
                continue;
            uint32_t at = listed;
            while (at < count &&
                   (views[at].kind != charge->kind || views[at].minor != charge->minor))
                at++;
            if (at == count)
                views[count++] = (struct card_view){
                    .kind = charge->kind, .minor = charge->minor, .id = {"", 0}};
            views[at].pods++;
            views[at].used.percent += charge->amount.percent;
            views[at].used.ratio += charge->amount.ratio;
            views[at].used.bytes += charge->amount.bytes;
        }
    }
    return count;
}

static int view_cards(const struct cache *cache, struct arena *mem, const struct node *node,
                      struct node_view *view)
{
    struct cards cards = cache_cards_locked(cache, node);
    uint32_t listed = 0, absent = 0;
    for (unsigned kind = 0; kind < DEVICE_KIND_MAX; kind++)
        listed += cards.count[kind];
    for (const struct pod_record *pod = node->pods; pod != NULL; pod = pod->next)
        absent += pod->share_count;
    struct card_view *views = arena_alloc(mem, (size_t)listed + absent, sizeof *views);
    if (views == NULL)
        return -ENOMEM;
    uint32_t count = 0;
    for (unsigned kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        uint32_t row = cards_begin(&cards, (enum device_kind)kind);
        for (uint32_t end = row + cards.count[kind]; row < end; row++) {
            views[count] = (struct card_view){
                .kind = (enum device_kind)kind,
                .minor = cards.at->minor[row],
                .registered = cards.at->registered[row],
                .usable = cards_can_give(cards.at, row),
                .pods = cards.at->pods[row],
                .users = cards.at->users[row],
                .slots = cards.at->slots[row],
                .total = cards.at->total[row],
                .used = cards.at->used[row],
            };
            if (copy_str(mem, cards.at->id[row], &views[count++].id) < 0)
                return -ENOMEM;
        }
    }
    view->cards = views;
    view->card_count = view_absent_cards(&cards, node, views, count);
    return 0;
}

static int view_locked(const struct cache *cache, struct arena *mem, const struct node *node,
                       struct node_view *ret)
{
    struct node_view view = {
        .has_node = node->has_node,
        .has_devices = node->has_devices,
        .registered = node->registered != NULL,
        .device_plugin = node->device_plugin,
        .closed = cache_node_closed_locked(cache, node, NULL),
        .allocatable = node->allocatable,
        .used = node->used,
        .other_pods = node->guests,
    };
    struct str model = node->model > 0 ? cache->packing.models[node->model] : (struct str){"", 0};
    if (copy_str(mem, node->name, &view.name) < 0 || copy_str(mem, model, &view.gpu_model) < 0 || view_cards(cache, mem, node, &view) < 0 ||
        view_pods(mem, node, &view) < 0)
        return -ENOMEM;
    *ret = view;
    return 1;
}

/* Sorted without the lock: the copies are ours. */
static void sort_view(struct node_view *view)
{
    if (view->card_count > 1)
        qsort((void *)(uintptr_t)view->cards, view->card_count, sizeof *view->cards,
              compare_cards);
    if (view->pod_count > 1)
        qsort((void *)(uintptr_t)view->pods, view->pod_count, sizeof *view->pods, compare_pods);
}

uint32_t cache_node_slots(struct cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    uint32_t slots = cache->node_slots;
    cache_unlock(cache);
    return slots;
}

int cache_node_at(struct cache *cache, uint32_t index, struct arena *mem, struct node_view *ret)
{
    int rc = 0;
    pthread_mutex_lock(&cache->mutex);
    if (index < cache->node_slots && cache->nodes[index].name.data != NULL)
        rc = view_locked(cache, mem, &cache->nodes[index], ret);
    cache_unlock(cache);
    if (rc == 1)
        sort_view(ret);
    return rc;
}

int cache_node_get(struct cache *cache, struct str name, struct arena *mem, struct node_view *ret)
{
    int rc = 0;
    pthread_mutex_lock(&cache->mutex);
    uint32_t slot = cache_node_find_locked(cache, name);
    if (slot != MAP_NONE)
        rc = view_locked(cache, mem, &cache->nodes[slot], ret);
    cache_unlock(cache);
    if (rc == 1)
        sort_view(ret);
    return rc;
}

static void count_locked(const struct cache *cache, struct cache_counts *ret)
{
    *ret = cache->counts.view;
    ret->closed_nodes =
        cache->unknown_pods == UNKNOWN_PODS_CLOSE ? cache->counts.nodes_with_unknown : 0;
}

void cache_count(struct cache *cache, struct cache_counts *ret)
{
    pthread_mutex_lock(&cache->mutex);
    count_locked(cache, ret);
    cache_unlock(cache);
}

/* ---- invariants ---- */

static bool amount_eq(const struct amount *a, const struct amount *b)
{
    return a->percent == b->percent && a->ratio == b->ratio && a->bytes == b->bytes;
}

static int check_pod(const struct cache *cache, const struct node *node,
                     const struct pod_record *pod, struct error *err)
{
    struct cards cards = cache_cards_locked(cache, node);
    struct plan charge;
    enum charge_trust trust = charge_of(&cards, pod->request_invalid ? NULL : &pod->request,
                                        pod->shares, pod->share_count, pod->unlisted, &charge);
    bool same = trust == pod->trust && charge.count == pod->share_count;
    for (uint32_t i = 0; same && i < charge.count; i++)
        same = charge.shares[i].kind == pod->charges[i].kind &&
               charge.shares[i].minor == pod->charges[i].minor &&
               amount_eq(&charge.shares[i].amount, &pod->charges[i].amount);
    if (!same)
        return error_set(err, -EFAULT, "pod %.*s: its charge is not that of its cards now",
                         STR_ARG(pod->uid));
    if (pod->state == BOOKING_NONE)
        return error_set(err, -EFAULT, "pod %.*s: has a place but no booking", STR_ARG(pod->uid));
    return 0;
}

static int check_card(const struct node *node, const struct cards *cards, enum device_kind kind,
                      uint32_t row, struct error *err)
{
    struct amount used = {0};
    uint32_t pods = 0, users = 0;
    for (const struct pod_record *pod = node->pods; pod != NULL; pod = pod->next) {
        for (uint32_t i = 0; i < pod->share_count; i++) {
            const struct share *charge = &pod->charges[i];
            if (charge->kind != kind || charge->minor != cards->at->minor[row])
                continue;
            used.percent += charge->amount.percent;
            used.ratio += charge->amount.ratio;
            used.bytes += charge->amount.bytes;
            pods++;
            users += charge->beside + 1;
        }
    }
    if (!amount_eq(&used, &cards->at->used[row]) || pods != cards->at->pods[row] ||
        users != cards->at->users[row])
        return error_set(err, -EFAULT, "node %.*s: %s %d: used is not the sum of its pods",
                         STR_ARG(node->name), device_kind_name(kind), cards->at->minor[row]);
    return 0;
}

/* What a node gives of CPU and memory is the sum over its pods, those without devices included. */
static int check_host(const struct cache *cache, uint32_t slot, struct error *err)
{
    const struct node *node = &cache->nodes[slot];
    struct host_amount used = {0};
    uint32_t guests = 0;
    for (const struct pod_record *pod = node->pods; pod != NULL; pod = pod->next)
        host_add(&used, &pod->host, 1);
    for (uint32_t i = 0; i < guests_slots(&cache->guests); i++) {
        const struct guest *guest = guests_at(&cache->guests, i);
        if (guest == NULL || guest->node != slot)
            continue;
        host_add(&used, &guest->amount, 1);
        guests++;
    }
    if (guests != node->guests || used.cpu_milli != node->used.cpu_milli ||
        used.memory_bytes != node->used.memory_bytes)
        return error_set(err, -EFAULT, "node %.*s: CPU and memory are not those of its pods",
                         STR_ARG(node->name));
    return 0;
}

static int check_node(const struct cache *cache, const struct node *node, struct error *err)
{
    struct cards cards = cache_cards_locked(cache, node);
    uint32_t unknown = 0, allocating = 0;
    if ((node->device_plugin || node->registered != NULL) && !node->has_node)
        return error_set(err, -EFAULT, "node %.*s: has a device plugin but no Node",
                         STR_ARG(node->name));
    for (const struct pod_record *pod = node->pods; pod != NULL; pod = pod->next) {
        int rc = check_pod(cache, node, pod, err);
        if (rc < 0)
            return rc;
        unknown += pod->trust == CHARGE_UNKNOWN;
        allocating += pod->allocating;
    }
    if (allocating != node->allocating)
        return error_set(err, -EFAULT, "node %.*s: %u pods have the turn, counted %u",
                         STR_ARG(node->name), allocating, node->allocating);
    if (unknown != node->unknown_pods)
        return error_set(err, -EFAULT, "node %.*s: %u unknown pods, counted %u",
                         STR_ARG(node->name), unknown, node->unknown_pods);
    for (unsigned kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        struct cards_sum sum;
        cards_add_up(&cards, (enum device_kind)kind, &sum);
        if (memcmp(&sum, &node->sum[kind], sizeof sum) != 0)
            return error_set(err, -EFAULT, "node %.*s: the sum of its %ss is an old one",
                             STR_ARG(node->name), device_kind_name((enum device_kind)kind));
        uint32_t begin = cards_begin(&cards, (enum device_kind)kind);
        for (uint32_t row = begin; row < begin + cards.count[kind]; row++) {
            int rc = check_card(node, &cards, (enum device_kind)kind, row, err);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* The lists of pods between filter and bind, and what their members say of themselves. */
static int check_lists(const struct cache *cache, struct error *err)
{
    const struct pod_record *pod;
    uint32_t in_flight = 0, tentative = 0, untold = 0;
    int64_t ends_ns = INT64_MIN;
    TAILQ_FOREACH(pod, &cache->in_flight, waiting)
    {
        in_flight++;
        if (!pod->in_flight || !pod->passed || pod->state != BOOKING_NONE)
            return error_set(err, -EFAULT, "pod %.*s: not in flight, but listed so",
                             STR_ARG(pod->uid));
    }
    TAILQ_FOREACH(pod, &cache->tentative, waiting)
    {
        tentative++;
        if (pod->state != BOOKING_TENTATIVE || pod->held_until_ns < ends_ns)
            return error_set(err, -EFAULT, "pod %.*s: wrong among the tentative bookings",
                             STR_ARG(pod->uid));
        ends_ns = pod->held_until_ns;
    }
    TAILQ_FOREACH(pod, &cache->untold, waiting)
    {
        untold++;
        if (!pod->untold || !pod->doubled || pod->state != BOOKING_BOUND)
            return error_set(err, -EFAULT, "pod %.*s: wrong among the holders of cards given twice",
                             STR_ARG(pod->uid));
    }
    for (uint32_t i = 0; i < cache->pods.count; i++) {
        const struct pod_record *record = pod_slots_at(&cache->pods, i);
        in_flight -= record != NULL && record->in_flight;
        untold -= record != NULL && record->untold;
    }
    if (in_flight != 0 || untold != 0 || tentative != cache->counts.view.tentative)
        return error_set(err, -EFAULT, "the lists of waiting pods are not those of the pods");
    return 0;
}

static int check_counts(const struct cache *cache, struct error *err)
{
    struct cache_counts real = {0};
    for (uint32_t i = 0; i < cache->node_slots; i++) {
        const struct node *node = &cache->nodes[i];
        real.nodes += node->has_node;
        real.device_nodes += node_has_inventory(node);
        for (unsigned kind = 0; kind < DEVICE_KIND_MAX; kind++)
            real.cards += node->count[kind];
        real.closed_nodes +=
            node->unknown_pods > 0 && cache->unknown_pods == UNKNOWN_PODS_CLOSE;
        real.unknown_pods += node->unknown_pods;
    }
    for (uint32_t i = 0; i < cache->pods.count; i++) {
        const struct pod_record *pod = pod_slots_at(&cache->pods, i);
        if (pod == NULL)
            continue;
        real.pods++;
        real.tentative += pod->state == BOOKING_TENTATIVE;
        real.booked += pod->state == BOOKING_BOOKED;
        real.bound += pod->state == BOOKING_BOUND;
        real.inconsistent_pods += pod->node != NODE_NONE && pod->trust == CHARGE_INCONSISTENT;
        if ((pod->node != NODE_NONE) != (pod->state != BOOKING_NONE))
            return error_set(err, -EFAULT, "pod %.*s: place and state disagree", STR_ARG(pod->uid));
    }
    struct cache_counts counted;
    count_locked(cache, &counted);
    if (memcmp(&real, &counted, sizeof real) != 0)
        return error_set(err, -EFAULT, "the counters are not those of the objects");
    return 0;
}

int cache_check(struct cache *cache, struct error *err)
{
    pthread_mutex_lock(&cache->mutex);
    int rc = check_counts(cache, err);
    if (rc == 0)
        rc = check_lists(cache, err);
    for (uint32_t i = 0; rc == 0 && i < cache->node_slots; i++) {
        if (cache->nodes[i].name.data != NULL)
            rc = check_node(cache, &cache->nodes[i], err);
        if (rc == 0)
            rc = check_host(cache, i, err);
    }
    if (rc == 0)
        rc = cache_pack_check_locked(cache, err);
    if (rc == 0)
        rc = cache_memos_check_locked(cache, err);
    if (rc == 0)
        rc = cache_roster_check_locked(cache, err);
    cache_unlock(cache);
    return rc;
}
