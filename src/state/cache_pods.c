/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "core/allocate.h"

/* Pods: what events say of them, and our own bookings. */

struct pod_record *cache_pod_lookup_locked(const struct cache *cache, struct str uid)
{
    uint32_t index = map_get(&cache->pod_by_uid, uid);
    return index != MAP_NONE ? pod_slots_at(&cache->pods, index) : NULL;
}

static struct pod_record *record_new(const struct pod_id *id)
{
    struct pod_record *pod =
        mem_calloc(1, sizeof *pod + id->uid.len + id->ns.len + id->name.len + 1);
    if (pod == NULL)
        return NULL;
    char *text = (char *)(pod + 1);
    text = str_copy(text, id->uid, &pod->uid);
    text = str_copy(text, id->ns, &pod->ns);
    str_copy(text, id->name, &pod->name);
    pod->node = pod->only = NODE_NONE;
    pod->woken_ns = INT64_MIN;
    return pod;
}

static struct pod_record *record_add(struct cache *cache, const struct pod_id *id)
{
    if (!pod_slots_reserve(&cache->pods))
        return NULL;
    struct pod_record *pod = record_new(id);
    if (pod == NULL)
        return NULL;
    uint32_t index = pod_slots_put(&cache->pods, pod);
    if (map_put(&cache->pod_by_uid, pod->uid, index) < 0) {
        pod_slots_clear(&cache->pods, index);
        mem_free(pod);
        return NULL;
    }
    cache->counts.view.pods++;
    pthread_cond_broadcast(&cache->arrived);
    return pod;
}

static void record_remove(struct cache *cache, struct pod_record *pod)
{
    assert(pod->node == NODE_NONE && pod->state == BOOKING_NONE);
    cache_unpass_locked(cache, pod);
    uint32_t index = map_get(&cache->pod_by_uid, pod->uid);
    map_remove(&cache->pod_by_uid, pod->uid);
    pod_slots_clear(&cache->pods, index);
    cache->counts.view.pods--;
    cache->removals++;
    cache_record_discard_locked(cache, pod);
}

static void release(struct cache *cache, struct pod_record *pod)
{
    cache_unplace_locked(cache, pod);
    cache_set_state_locked(cache, pod, BOOKING_NONE);
}

void cache_pod_drop_locked(struct cache *cache, struct pod_record *pod)
{
    assert(booking_next(pod->state, BOOKING_GONE).next == BOOKING_NONE);
    release(cache, pod);
    record_remove(cache, pod);
}

/* ---- pod events ---- */

static enum booking_event event_of(const struct cache *cache, const struct pod_record *record,
                                   const struct pod *pod)
{
    if (pod->node_name.len == 0)
        return BOOKING_SEEN_PENDING;
    if (record->node == NODE_NONE || str_eq(cache->nodes[record->node].name, pod->node_name))
        return BOOKING_SEEN_HERE;
    return BOOKING_SEEN_ELSEWHERE;
}

static bool named_differs(const struct pod_record *record, const struct pod *pod)
{
    bool same = record->named_count == pod->named_count;
    for (uint32_t i = 0; same && i < pod->named_count; i++) {
        const struct named_share *a = &record->named[i], *b = &pod->named[i];
        same = str_eq(a->id, b->id) && a->mib == b->mib && a->percent == b->percent &&
               a->beside == b->beside;
    }
    return !same;
}

static bool annotation_differs(const struct pod_record *record, const struct pod *pod)
{
    if (record->annotation != pod->annotation)
        return true;
    if (pod->annotation == ANNOTATION_HAMI)
        return named_differs(record, pod);
    if (pod->annotation != ANNOTATION_READ)
        return false;
    if (record->share_count != pod->share_count)
        return true;
    for (uint32_t i = 0; i < pod->share_count; i++) {
        const struct share *a = &record->shares[i], *b = &pod->shares[i];
        if (a->kind != b->kind || a->minor != b->minor || a->amount.percent != b->amount.percent ||
            a->amount.ratio != b->amount.ratio || a->amount.bytes != b->amount.bytes ||
            a->beside != b->beside)
            return true;
    }
    return false;
}

/* What the pod's annotation says, copied. */
static int holding_of(const struct pod *pod, struct holding *ret)
{
    *ret = (struct holding){
        .annotation = pod->annotation,
        .count = pod->annotation == ANNOTATION_READ ? pod->share_count : 0,
        .named_count = pod->annotation == ANNOTATION_HAMI ? pod->named_count : 0,
    };
    ret->shares = cache_shares_block(ret->count + ret->named_count);
    if (ret->shares == NULL)
        return -ENOMEM;
    if (ret->count > 0)
        memcpy(ret->shares, pod->shares, ret->count * sizeof *pod->shares);
    if (ret->named_count == 0)
        return 0;
    ret->named = cache_named_block(pod->named, ret->named_count);
    if (ret->named == NULL)
        mem_free(ret->shares);
    return ret->named != NULL ? 0 : -ENOMEM;
}

/* Take the pod's place and cards from what it carries now. */
static int place_as_seen(struct cache *cache, struct pod_record *record, const struct pod *pod)
{
    struct holding holding;
    if (holding_of(pod, &holding) < 0)
        return -ENOMEM;
    uint32_t slot = cache_node_ensure_locked(cache, pod->node_name);
    if (slot == NODE_NONE) {
        mem_free(holding.shares);
        mem_free(holding.named);
        return -ENOMEM;
    }
    if (record->node != NODE_NONE) {
        /* The old node's slot may be freed with its last pod, but never the new one: it is found again. */
        cache_unplace_locked(cache, record);
        slot = cache_node_ensure_locked(cache, pod->node_name);
        assert(slot != NODE_NONE);
    }
    cache_place_locked(cache, record, slot, &holding, BOOKING_BOUND);
    return 0;
}

static int apply_step(struct cache *cache, struct pod_record *record, const struct pod *pod,
                      struct booking_step step)
{
    switch (step.action) {
    case BOOKING_CHARGE:
    case BOOKING_MOVE:
        return place_as_seen(cache, record, pod);
    case BOOKING_RELEASE:
        release(cache, record);
        break;
    case BOOKING_KEEP:
        break;
    case BOOKING_REFUSE:
        assert(!"a watch event is never refused");
    }
    assert(record->state == step.next);
    return 0;
}

static int pod_seen(struct cache *cache, struct pod_record *record, const struct pod *pod,
                    struct pod_event_result *ret)
{
    enum booking_event event = event_of(cache, record, pod);
    struct booking_step step = booking_next(record->state, event);
    if (record->only_read && event == BOOKING_SEEN_PENDING)
        step = (struct booking_step){.next = record->state, .action = BOOKING_KEEP};
    bool drifted = step.action == BOOKING_KEEP && event == BOOKING_SEEN_HERE &&
                   annotation_differs(record, pod);
    bool moved = step.action == BOOKING_MOVE && event == BOOKING_SEEN_ELSEWHERE &&
                 record->state == BOOKING_BOOKED;
    int rc = apply_step(cache, record, pod, step);
    if (rc < 0)
        return rc;
    bool taken = step.action == BOOKING_CHARGE || step.action == BOOKING_MOVE;
    *ret = (struct pod_event_result){
        .state = record->state,
        .trust = record->trust,
        .taken = taken,
        .odd = step.odd,
        .moved = moved,
        .drifted = drifted && !record->drifted,
    };
    record->drifted = drifted;
    record->only_read = record->only_read && event == BOOKING_SEEN_PENDING;
    return 0;
}

/* How far HAMi's device plugin is with the pod. */
static void see_phase(struct cache *cache, struct pod_record *record, const struct pod *pod)
{
    if (record->state != BOOKING_BOUND)
        return;
    if (str_is(pod->hami_phase, "allocating"))
        cache_set_allocating_locked(cache, record, true);
    else if (str_is(pod->hami_phase, "success") || str_is(pod->hami_phase, "failed"))
        cache_set_allocating_locked(cache, record, false);
}

/* Keep what the pod asks for; NULL = its request is invalid. */
static int keep_request(struct pod_record *record, const struct pod *pod,
                        const struct pod_request *request)
{
    static const struct pod_request says_nothing;
    const struct pod_request *kept = request != NULL ? request : &says_nothing;
    record->request_invalid = request == NULL;
    record->invalid_print = request == NULL ? pod_request_print(pod) : 0;
    if (request_eq(&record->request, kept))
        return 0;
    void *block = NULL;
    if (kept->detail != NULL && (block = mem_calloc(gpu_detail_size(kept->detail), 1)) == NULL)
        return -ENOMEM;
    mem_free(record->detail);
    record->detail = block;
    record->request = *kept;
    if (block != NULL)
        record->request.detail = gpu_detail_copy(kept->detail, block);
    return 0;
}

/* CPU and memory of a running pod may change (Kubernetes 1.33). */
static void set_host(struct cache *cache, struct pod_record *record, const struct host_amount *host)
{
    if (record->node != NODE_NONE) {
        host_add(&cache->nodes[record->node].used, &record->host, -1);
        host_add(&cache->nodes[record->node].used, host, 1);
        cache_pack_stale_locked(cache, record->node);
    }
    record->host = *host;
}

/* What pods ask for, each once: the mix that packing learns from. */
static void count_in_sample(struct cache *cache, const struct pod *pod,
                            const struct pod_request *request)
{
    if (request == NULL || request->of[DEVICE_GPU].count == 0)
        return;
    struct pack_seen seen = pack_seen_of(request, &pod->host);
    seen.pod.models = packing_allowed(&cache->packing, &pod->models);
    pack_sample_see(&cache->packing.sample, &seen);
}

static int pod_set_locked(struct cache *cache, const struct pod *pod,
                          const struct pod_request *request, const struct pod_policy *policy,
                          struct pod_event_result *ret)
{
    struct pod_record *record = cache_pod_lookup_locked(cache, pod->id.uid);
    bool fresh = record == NULL;
    if (fresh) {
        if (request != NULL && !request_any(request))
            return cache_guest_set_locked(cache, pod);
        record = record_add(cache, &pod->id);
        if (record == NULL)
            return -ENOMEM;
        count_in_sample(cache, pod, request);
    }
    record->priority = pod->priority;
    record->annotation_bytes = pod->annotation_bytes;
    record->mark = cache->marks[CACHE_PODS];
    /* Device requests of a pod are immutable, and a booking must not change under its charges. */
    if (record->state == BOOKING_NONE && keep_request(record, pod, request) < 0) {
        if (fresh)
            record_remove(cache, record);
        return -ENOMEM;
    }
    record->version = 0;
    set_host(cache, record, &pod->host);
    if (record->state == BOOKING_NONE || record->state == BOOKING_TENTATIVE)
        record->policy = *policy;
    int rc = pod_seen(cache, record, pod, ret);
    if (rc == 0)
        see_phase(cache, record, pod);
    if (rc == 0 && pod->request_problem.len == 0) /* a problem is told of each time */
        record->version = pod->version;
    if (rc < 0 && fresh)
        record_remove(cache, record);
    return rc;
}

int cache_pod_set(struct cache *cache, const struct pod *pod, const struct pod_request *request,
                  const struct pod_policy *policy, struct pod_event_result *ret)
{
    *ret = (struct pod_event_result){0};
    if (pod->finished) {
        cache_pod_remove(cache, pod->id.uid);
        return 0;
    }
    pthread_mutex_lock(&cache->mutex);
    int rc = pod_set_locked(cache, pod, request, policy, ret);
    cache_unlock(cache);
    return rc;
}

int cache_pod_learn(struct cache *cache, const struct pod *pod, const struct pod_request *request,
                    const struct pod_policy *policy, uint64_t removals,
                    struct pod_event_result *ret)
{
    int rc = 0;
    *ret = (struct pod_event_result){0};
    pthread_mutex_lock(&cache->mutex);
    bool known = cache_pod_lookup_locked(cache, pod->id.uid) != NULL;
    if (!known && cache->removals != removals)
        rc = -EAGAIN;
    else if (!known && !pod->finished)
        rc = pod_set_locked(cache, pod, request, policy, ret);
    cache_unlock(cache);
    return rc;
}

int cache_pod_settle(struct cache *cache, const struct pod *pod, const struct pod_request *request,
                     const struct pod_policy *policy, struct pod_event_result *ret)
{
    int rc = 0;
    *ret = (struct pod_event_result){0};
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *record = cache_pod_lookup_locked(cache, pod->id.uid);
    bool waits = record != NULL && record->state == BOOKING_BOOKED && record->unknown_outcome;
    if (waits && pod->finished) {
        cache_pod_drop_locked(cache, record);
    } else if (waits) {
        /* A list under way may be younger than what was read: it is asked whether the pod is still there. */
        uint32_t mark = record->mark;
        rc = pod_set_locked(cache, pod, request, policy, ret);
        record->mark = mark;
        record->only_read = record->state == BOOKING_BOUND;
    }
    cache_unlock(cache);
    return rc;
}

uint64_t cache_removals(struct cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    uint64_t removals = cache->removals;
    cache_unlock(cache);
    return removals;
}

void cache_pod_remove(struct cache *cache, struct str uid)
{
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *record = cache_pod_lookup_locked(cache, uid);
    struct guest *guest = record == NULL ? guests_find(&cache->guests, uid) : NULL;
    if (record != NULL)
        cache_pod_drop_locked(cache, record);
    if (guest != NULL)
        cache_guest_drop_locked(cache, guest);
    cache_unlock(cache);
}

/* ---- pods without devices ---- */

/* Take a guest off its node, unless it never was on one. */
static void guest_leave(struct cache *cache, const struct guest *guest, bool fresh)
{
    if (fresh)
        return;
    struct node *node = &cache->nodes[guest->node];
    node->guests--;
    host_add(&node->used, &guest->amount, -1);
    cache_pack_stale_locked(cache, guest->node);
    cache_node_tidy_locked(cache, guest->node);
}

int cache_guest_set_locked(struct cache *cache, const struct pod *pod)
{
    bool fresh;
    if (pod->node_name.len == 0)
        return 0;
    struct guest *guest = guests_put(&cache->guests, pod->id.uid, &fresh);
    if (guest == NULL)
        return -ENOMEM;
    guest->mark = cache->marks[CACHE_PODS];
    guest->version = 0;
    if (!fresh && str_eq(cache->nodes[guest->node].name, pod->node_name)) {
        /* Resized in place, or nothing new. */
        host_add(&cache->nodes[guest->node].used, &guest->amount, -1);
        host_add(&cache->nodes[guest->node].used, &pod->host, 1);
        guest->amount = pod->host;
        guest->version = pod->version;
        cache_pack_stale_locked(cache, guest->node);
        return 0;
    }
    uint32_t slot = cache_node_ensure_locked(cache, pod->node_name);
    if (slot == NODE_NONE && fresh)
        guests_remove(&cache->guests, guest);
    if (slot == NODE_NONE)
        return -ENOMEM;
    guest_leave(cache, guest, fresh);
    guest->node = slot;
    guest->amount = pod->host;
    guest->version = pod->version;
    cache->nodes[slot].guests++;
    host_add(&cache->nodes[slot].used, &guest->amount, 1);
    cache_pack_stale_locked(cache, slot);
    return 0;
}

void cache_guest_drop_locked(struct cache *cache, struct guest *guest)
{
    guest_leave(cache, guest, false);
    cache->removals++;
    guests_remove(&cache->guests, guest);
}

/* ---- our own bookings ---- */

static enum book_result refusal(const struct cache *cache, const struct pod_record *record,
                                struct str node)
{
    if (record->state == BOOKING_BOOKED && !record->confirmed)
        return BOOK_IN_PROGRESS;
    bool here = str_eq(cache->nodes[record->node].name, node);
    return here ? BOOK_ALREADY_HERE : BOOK_ELSEWHERE;
}

enum reason cache_choose_locked(struct cache *cache, const struct node *node,
                                const struct pod_record *pod, const struct device_policy *standard,
                                struct plan *ret_plan)
{
    enum reason bar = cache_node_bar_locked(cache, node, &pod->request);
    if (bar != REASON_FITS)
        return bar;
    if (cache_node_closed_locked(cache, node, NULL))
        return REASON_NODE_CLOSED;
    struct cards cards = cache_cards_locked(cache, node);
    const struct device_policy *wish = cache_policy_locked(cache, pod).device;
    const struct device_policy *policy = wish != NULL ? wish : standard;
    struct pack_decision decision;
    if (policy->pick == NULL ||
        !cache_pack_decide_locked(cache, &pod->request, &pod->host, &decision))
        return allocate_choose(&cards, &pod->request, policy, ret_plan);
    struct pack_site site = cache_pack_site_locked(cache, (uint32_t)(node - cache->nodes), &cards,
                                                   &decision, NULL);
    return allocate_choose_at(&cards, &pod->request, policy, &site, ret_plan);
}

static void fill_placement(const struct cache *cache, const struct node *node,
                           const struct gpu_detail *detail, const struct plan *plan,
                           struct placement *ret)
{
    struct cards cards = cache_cards_locked(cache, node);
    ret->count = plan->count;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct share *share = &plan->shares[i];
        uint32_t row = cards_find(&cards, share->kind, share->minor);
        assert(row != UINT32_MAX);
        struct str id = cards.at->id[row];
        ret->cards[i].share = *share;
        memcpy(ret->cards[i].id, id.data, id.len);
        ret->cards[i].id[id.len] = '\0';
    }
    ret->container_count = plan->part_count > 0 ? detail->container_count : 0;
    ret->part_count = plan->part_count;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        uint32_t card = 0;
        while (plan->shares[card].minor != plan->parts[i].minor)
            card++;
        ret->parts[i] = (struct placed_part){
            .container = plan->parts[i].container, .card = card, .amount = plan->parts[i].amount};
    }
}

/* Does HAMi's device plugin give this pod's cards to its containers on that node? It is asked for
 * nvidia.com/gpu and nothing else. */
static bool plugin_serves(const struct cache *cache, const struct node *node,
                          const struct pod_record *pod)
{
    return cache->hami_plugin && node->registered != NULL && pod->request.detail != NULL &&
           pod->request.detail->count > 0 && pod->request.detail->by_kubelet;
}

static enum book_result book_locked(struct cache *cache, struct str uid, struct str node_name,
                                    const struct device_policy *standard,
                                    struct placement *ret_placement, enum reason *ret_reason)
{
    struct pod_record *record = cache_pod_lookup_locked(cache, uid);
    if (record == NULL)
        return BOOK_UNKNOWN_POD;
    cache_unpass_locked(cache, record);
    if (booking_next(record->state, BOOKING_BOOK).action == BOOKING_REFUSE)
        return refusal(cache, record, node_name);
    uint32_t slot = cache_node_find_locked(cache, node_name);
    bool takes_turn = slot != MAP_NONE && plugin_serves(cache, &cache->nodes[slot], record);
    if (takes_turn && cache->nodes[slot].allocating > 0)
        return BOOK_NOT_ITS_TURN;
    uint64_t gains = cache->gains;
    uint32_t held = record->node;
    cache_lapse_locked(cache, record);
    if (record->request_invalid)
        return BOOK_INVALID_REQUEST;
    if (record->policy.invalid)
        return BOOK_INVALID_POLICY;
    if (slot == MAP_NONE) {
        *ret_reason = REASON_UNKNOWN_NODE;
        return BOOK_NO_FIT;
    }
    struct plan plan;
    *ret_reason = cache_choose_locked(cache, &cache->nodes[slot], record, standard, &plan);
    if (*ret_reason != REASON_FITS)
        return BOOK_NO_FIT;
    struct holding holding;
    if (cache_plan_holding(&plan, &holding) < 0)
        return BOOK_NO_MEMORY;
    fill_placement(cache, &cache->nodes[slot], record->request.detail, &plan, ret_placement);
    cache_place_locked(cache, record, slot, &holding, BOOKING_BOOKED);
    ret_placement->hami = takes_turn;
    cache_set_allocating_locked(cache, record, takes_turn);
    if (held == slot)
        cache->gains = gains; /* what was held is booked: nobody gained by that */
    assert(record->trust == CHARGE_TRUSTED);
    return BOOK_OK;
}

enum book_result cache_book(struct cache *cache, struct str uid, struct str node,
                            const struct device_policy *standard, struct placement *ret_placement,
                            enum reason *ret_reason)
{
    pthread_mutex_lock(&cache->mutex);
    enum book_result result = book_locked(cache, uid, node, standard, ret_placement, ret_reason);
    cache_unlock(cache);
    return result;
}

void cache_confirm(struct cache *cache, struct str uid)
{
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *record = cache_pod_lookup_locked(cache, uid);
    if (record != NULL && record->state == BOOKING_BOOKED)
        record->confirmed = true;
    if (record != NULL)
        record->unknown_outcome = false;
    cache_unlock(cache);
}

void cache_forget(struct cache *cache, struct str uid)
{
    pthread_mutex_lock(&cache->mutex);
    struct pod_record *record = cache_pod_lookup_locked(cache, uid);
    if (record != NULL && booking_next(record->state, BOOKING_FORGET).action == BOOKING_RELEASE)
        release(cache, record);
    cache_unlock(cache);
}
