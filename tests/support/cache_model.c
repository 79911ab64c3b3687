/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "core/request.h"
#include "state/cache.h"

enum { NODES = 6, PODS = 40, CARDS = 6 };

struct model_card {
    enum device_kind kind;
    int32_t minor;
    bool healthy;
    struct amount total; /* as stated */
};

struct model_node {
    bool has_node, has_devices, device_plugin;
    int card_count;
    struct model_card cards[CARDS];
};

struct model_pod {
    bool known;
    bool invalid;
    struct pod_request request;
    int node; /* -1: no place */
    enum booking_state state;
    bool confirmed;
    bool in_flight;
    int64_t until; /* BOOKING_TENTATIVE */
    int share_count;
    struct share shares[8];
};

static struct model_node nodes[NODES];
static struct model_pod pods[PODS];
static struct cache *cache;
static const struct pod_policy no_policy;
static struct choices choices;
static int64_t now; /* moves with the operations */

static struct str node_name(int n)
{
    static const char *const names[NODES] = {"n-0", "n-1", "n-2", "n-3", "n-4", "n-5"};
    return str_from(names[n]);
}

static struct str pod_uid(int p)
{
    static char uids[PODS][8];
    snprintf(uids[p], sizeof uids[p], "uid-%d", p);
    return str_from(uids[p]);
}

static int below(int bound)
{
    return (int)choices.below(choices.self, (uint32_t)bound);
}

/* ---- the model's own arithmetic ---- */

static struct amount usable_total(const struct model_card *card)
{
    return card->healthy ? card->total : (struct amount){0};
}

static const struct model_card *find_card(const struct model_node *node, enum device_kind kind,
                                          int32_t minor)
{
    for (int i = 0; node->has_devices && i < node->card_count; i++) {
        if (node->cards[i].kind == kind && node->cards[i].minor == minor)
            return &node->cards[i];
    }
    return NULL;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool names(const struct device_request *request, enum dimension dim)
{
    return (request->named & DIM_BIT(dim)) != 0;
}

/* No single figure is past the bounds of core/device.h. */
static int64_t capped(int64_t ratio)
{
    return ratio < CARD_PERCENT_MAX ? ratio : CARD_PERCENT_MAX;
}

/* What a request takes on a card of this total. */
static struct amount wanted(const struct device_request *request, struct amount total)
{
    struct amount amount = request->each;
    if (names(request, DIM_RATIO) && !names(request, DIM_BYTES) && total.bytes > 0)
        amount.bytes = request->each.ratio * total.bytes / 100;
    if (names(request, DIM_BYTES) && !names(request, DIM_RATIO) && total.bytes > 0 &&
        total.ratio > 0)
        amount.ratio = capped(request->each.bytes * 100 / total.bytes);
    return amount;
}

/* An annotation's share with the memory figure it lacks, as far as the card's size is known. */
static struct amount completed(const struct device_request *request, struct amount amount,
                               struct amount total)
{
    if (amount.bytes == 0 && !names(request, DIM_BYTES))
        amount.bytes = amount.ratio * total.bytes / 100;
    else if (amount.ratio == 0 && !names(request, DIM_RATIO) && total.ratio > 0)
        amount.ratio = capped(amount.bytes * 100 / total.bytes);
    return amount;
}

static bool believable(const struct device_request *request, struct amount have,
                       struct amount total)
{
    struct amount want = wanted(request, total);
    if (have.percent != want.percent)
        return false;
    if ((names(request, DIM_BYTES) || total.bytes > 0) && have.bytes != want.bytes)
        return false;
    if (names(request, DIM_RATIO))
        return have.ratio == want.ratio;
    if (total.bytes == 0 || total.ratio == 0)
        return true;
    return have.ratio == want.ratio || have.ratio + 1 == want.ratio;
}

/* How a placed pod is charged: fills charges, returns the trust. */
static enum charge_trust model_charge(const struct model_pod *pod, struct share *charges)
{
    const struct model_node *node = &nodes[pod->node];
    int named[DEVICE_KIND_MAX] = {0};
    bool trusted = !pod->invalid, complete = true;
    for (int i = 0; i < pod->share_count; i++)
        named[pod->shares[i].kind]++;
    for (int kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        int64_t want = pod->invalid ? 0 : pod->request.of[kind].count;
        complete = complete && named[kind] >= want;
        trusted = trusted && named[kind] == want;
    }
    if (pod->share_count == 0)
        complete = false;
    for (int i = 0; i < pod->share_count; i++) {
        const struct device_request *request = &pod->request.of[pod->shares[i].kind];
        const struct model_card *card = find_card(node, pod->shares[i].kind, pod->shares[i].minor);
        struct amount total = card != NULL ? usable_total(card) : (struct amount){0};
        struct amount have = completed(request, pod->shares[i].amount, total);
        struct amount want = wanted(request, total);
        charges[i] = pod->shares[i];
        charges[i].amount = have;
        if (!believable(request, have, total)) {
            trusted = false;
            charges[i].amount = (struct amount){max64(have.percent, want.percent),
                                                max64(have.ratio, want.ratio),
                                                max64(have.bytes, want.bytes)};
        }
    }
    return !complete ? CHARGE_UNKNOWN : trusted ? CHARGE_TRUSTED : CHARGE_INCONSISTENT;
}

static struct amount model_used(int n, enum device_kind kind, int32_t minor, uint32_t *ret_pods)
{
    struct amount used = {0};
    *ret_pods = 0;
    for (int p = 0; p < PODS; p++) {
        if (!pods[p].known || pods[p].node != n)
            continue;
        struct share charges[8];
        model_charge(&pods[p], charges);
        for (int i = 0; i < pods[p].share_count; i++) {
            if (charges[i].kind != kind || charges[i].minor != minor)
                continue;
            used.percent += charges[i].amount.percent;
            used.ratio += charges[i].amount.ratio;
            used.bytes += charges[i].amount.bytes;
            ++*ret_pods;
        }
    }
    return used;
}

static bool model_closed(int n)
{
    for (int p = 0; p < PODS; p++) {
        struct share charges[8];
        if (pods[p].known && pods[p].node == n &&
            model_charge(&pods[p], charges) == CHARGE_UNKNOWN)
            return true;
    }
    return false;
}

static bool card_fits(int n, const struct model_card *card, const struct device_request *request)
{
    struct amount total = usable_total(card), want = wanted(request, total);
    uint32_t pod_count;
    struct amount used = model_used(n, card->kind, card->minor, &pod_count);
    if (names(request, DIM_PERCENT) && total.percent == 0)
        return false;
    if (names(request, DIM_RATIO) && total.ratio == 0)
        return false;
    if (names(request, DIM_BYTES) && total.bytes == 0)
        return false;
    if (request->whole && pod_count > 0)
        return false;
    return used.percent + want.percent <= max64(total.percent, used.percent) &&
           (total.ratio == 0 || want.ratio == 0 ||
            used.ratio + want.ratio <= max64(total.ratio, used.ratio)) &&
           (total.bytes == 0 || want.bytes == 0 ||
            used.bytes + want.bytes <= max64(total.bytes, used.bytes)) &&
           (want.percent == 0 || used.percent + want.percent <= total.percent);
}

static bool model_fits(int n, const struct pod_request *request)
{
    const struct model_node *node = &nodes[n];
    if (!node->has_node || !node->has_devices || model_closed(n))
        return false;
    if (node->device_plugin && request->of[DEVICE_GPU].count > 0)
        return false;
    for (int kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        const struct device_request *of = &request->of[kind];
        int64_t fit = 0;
        for (int i = 0; i < node->card_count; i++)
            fit += (int)node->cards[i].kind == kind && card_fits(n, &node->cards[i], of);
        if (of->count > 0 && fit < of->count)
            return false;
    }
    return true;
}

/* ---- random input ---- */

static const int64_t sizes[] = {INT64_C(17179869184), INT64_C(25769803776), INT64_C(85899345920),
                                1000};

static struct amount random_total(enum device_kind kind)
{
    if (kind != DEVICE_GPU)
        return (struct amount){.percent = 100};
    return (struct amount){100, 100, sizes[below(4)]};
}

static struct pod_request random_request(void)
{
    struct resources resources = {0};
    struct pod_request request;
    struct error err;
    static const int percents[] = {1, 10, 25, 33, 50, 75, 100, 200};
    switch (below(8)) {
    case 0:
        resources.amount[RESOURCE_NVIDIA_GPU] = 1 + below(2);
        break;
    case 1:
        resources.amount[RESOURCE_GPU] = percents[below(8)];
        break;
    case 2:
        resources.amount[RESOURCE_GPU_CORE] = percents[below(7)];
        resources.amount[RESOURCE_GPU_MEMORY] = 1 + (int64_t)below(20000) * 1000000 + below(1000000);
        break;
    case 3:
        resources.amount[RESOURCE_GPU_MEMORY_RATIO] = percents[below(8)];
        break;
    case 4:
        resources.amount[RESOURCE_GPU_MEMORY] = 1 + below(3000);
        break;
    case 5:
        resources.amount[RESOURCE_GPU_SHARED] = 2;
        resources.amount[RESOURCE_GPU_MEMORY_RATIO] = 50;
        break;
    case 6:
        resources.amount[RESOURCE_RDMA] = percents[below(7)];
        resources.amount[RESOURCE_GPU] = 50;
        break;
    default:
        resources.amount[RESOURCE_FPGA] = percents[below(8)];
    }
    assert_int_equal(request_parse(&resources, &request, &err), 0);
    return request;
}

/* ---- comparing ---- */

static void compare_node(int n)
{
    struct arena mem;
    struct node_view view;
    arena_init(&mem, 0);
    int found = cache_node_get(cache, node_name(n), &mem, &view);
    const struct model_node *node = &nodes[n];
    int placed = 0;
    for (int p = 0; p < PODS; p++)
        placed += pods[p].known && pods[p].node == n;
    assert_int_equal(found, node->has_node || node->has_devices || placed > 0);
    if (found == 1) {
        assert_int_equal(view.has_node, node->has_node);
        assert_int_equal(view.device_plugin, node->device_plugin);
        assert_int_equal(view.has_devices, node->has_devices);
        assert_int_equal(view.closed, model_closed(n));
        assert_int_equal(view.pod_count, placed);
        int listed = 0;
        for (uint32_t i = 0; i < view.card_count; i++) {
            const struct card_view *card = &view.cards[i];
            uint32_t pod_count;
            struct amount used = model_used(n, card->kind, card->minor, &pod_count);
            const struct model_card *model = find_card(node, card->kind, card->minor);
            assert_int_equal(card->registered, model != NULL);
            listed += card->registered;
            if (model != NULL) {
                struct amount total = usable_total(model);
                assert_memory_equal(&card->total, &total, sizeof total);
            }
            assert_memory_equal(&card->used, &used, sizeof used);
            assert_int_equal(card->pods, pod_count);
        }
        assert_int_equal(listed, node->has_devices ? node->card_count : 0);
    }
    arena_done(&mem);
}

static void compare_all(void)
{
    struct error err = {0};
    for (int n = 0; n < NODES; n++)
        compare_node(n);
    if (cache_check(cache, &err) < 0)
        fail_msg("%s", err.text);
}

/* ---- operations: each returns the node it touched, or -1 ---- */

static int op_node(void)
{
    int n = below(NODES);
    nodes[n].has_node = below(4) != 0;
    nodes[n].device_plugin = nodes[n].has_node && below(6) == 0;
    struct node_facts facts = {node_name(n), nodes[n].device_plugin};
    if (nodes[n].has_node)
        assert_int_equal(cache_node_set(cache, &facts), 0);
    else
        cache_node_remove(cache, node_name(n));
    return n;
}

static int op_devices(void)
{
    int n = below(NODES);
    struct model_node *node = &nodes[n];
    if (below(8) == 0) {
        node->has_devices = false;
        cache_devices_remove(cache, node_name(n));
        return n;
    }
    node->has_devices = true;
    node->card_count = 0;
    struct device devices[CARDS];
    for (int32_t minor = 0; minor < 4 && node->card_count < CARDS; minor++) {
        for (int kind = 0; kind < DEVICE_KIND_MAX && node->card_count < CARDS; kind++) {
            if (below(kind == 0 ? 5 : 2) == 0)
                continue;
            struct model_card *card = &node->cards[node->card_count];
            *card = (struct model_card){(enum device_kind)kind, minor, below(8) != 0,
                                        random_total((enum device_kind)kind)};
            devices[node->card_count++] = (struct device){
                .kind = card->kind, .minor = minor, .healthy = card->healthy, .total = card->total};
        }
    }
    struct inventory inventory = {devices, (uint32_t)node->card_count};
    struct error err;
    assert_int_equal(cache_devices_set(cache, node_name(n), &inventory, &err), 0);
    return n;
}

static struct pod pod_facts(int p)
{
    return (struct pod){.id = {STR("ns"), STR("pod"), pod_uid(p)}};
}

static void send(int p, const struct pod *facts)
{
    struct pod_event_result result;
    const struct pod_request *request = pods[p].invalid ? NULL : &pods[p].request;
    assert_int_equal(cache_pod_set(cache, facts, request, &no_policy, &result), 0);
    assert_int_equal(result.state, pods[p].state);
}

static int op_pod_pending(void)
{
    int p = below(PODS);
    struct model_pod *pod = &pods[p];
    if (!pod->known)
        *pod = (struct model_pod){.known = true,
                                  .invalid = below(12) == 0,
                                  .node = -1,
                                  .state = BOOKING_NONE};
    if (pod->state == BOOKING_NONE)
        pod->request = pod->invalid ? (struct pod_request){0} : random_request();
    int touched = pod->node;
    if (pod->state == BOOKING_BOUND) {
        pod->state = BOOKING_NONE;
        pod->node = -1;
        pod->share_count = 0;
    }
    struct pod facts = pod_facts(p);
    send(p, &facts);
    return touched;
}

/* Shares as another scheduler might have written them: right, wrong, on cards that are not there. */
static int random_shares(const struct model_pod *pod, int n, struct share *shares)
{
    int count = 0;
    for (int kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        const struct device_request *of = &pod->request.of[kind];
        int64_t want = pod->invalid ? below(2) : of->count;
        if (below(10) == 0)
            want = below(3);
        int32_t minor = below(3);
        for (int64_t i = 0; i < want && i < 2; i++, minor++) {
            const struct model_card *card = find_card(&nodes[n], (enum device_kind)kind, minor);
            struct amount total = card != NULL ? usable_total(card) : (struct amount){0};
            struct amount amount = wanted(of, total);
            if (below(6) == 0)
                amount.percent += 5;
            if (below(6) == 0)
                amount.bytes = 0;
            if (below(6) == 0)
                amount.ratio = below(100);
            shares[count++] = (struct share){(enum device_kind)kind, minor, amount};
        }
    }
    return count;
}

static void model_unplace(struct model_pod *pod)
{
    pod->state = BOOKING_NONE;
    pod->node = -1;
    pod->share_count = 0;
    pod->confirmed = false;
}

static int op_pod_bound(void)
{
    int p = below(PODS), n = below(NODES);
    struct model_pod *pod = &pods[p];
    if (!pod->known || pod->state == BOOKING_BOUND)
        return -1;
    int old = pod->node;
    if (pod->state == BOOKING_BOOKED && below(4) != 0)
        n = old;
    struct pod facts = pod_facts(p);
    facts.node_name = node_name(n);
    struct share shares[8];
    int count = 0;
    facts.annotation = below(8) == 0 ? ANNOTATION_ABSENT : ANNOTATION_READ;
    if (facts.annotation == ANNOTATION_READ) {
        count = random_shares(pod, n, shares);
        facts.shares = shares;
        facts.share_count = (uint32_t)count;
    }
    pod->node = n;
    pod->state = BOOKING_BOUND;
    pod->in_flight = false;
    pod->share_count = count;
    memcpy(pod->shares, shares, sizeof *shares * (size_t)count);
    send(p, &facts);
    if (old >= 0)
        compare_node(old);
    return n;
}

static int op_pod_gone(void)
{
    int p = below(PODS);
    int touched = pods[p].known ? pods[p].node : -1;
    pods[p] = (struct model_pod){.node = -1};
    cache_pod_remove(cache, pod_uid(p));
    return touched;
}

/* How many tentative bookings are past their time. */
static uint32_t model_expire(void)
{
    uint32_t count = 0;
    for (int p = 0; p < PODS; p++) {
        if (!pods[p].known || pods[p].state != BOOKING_TENTATIVE || pods[p].until > now)
            continue;
        model_unplace(&pods[p]);
        count++;
    }
    return count;
}

static int op_scan(void)
{
    int p = below(PODS);
    struct model_pod *pod = &pods[p];
    if (!pod->known || pod->invalid || pod->state >= BOOKING_BOOKED)
        return -1;
    struct str candidates[NODES];
    enum reason reasons[NODES];
    int64_t scores[NODES];
    struct ranking ranking = {.policy = &node_policy_binpack, .now_ns = now, .scores = scores};
    for (int n = 0; n < NODES; n++)
        candidates[n] = node_name(n);
    int touched = pod->node;
    uint32_t expired = model_expire();
    model_unplace(pod);
    pod->in_flight = false;
    cache_rank(cache, pod_uid(p), &pod->request, candidates, NODES, reasons, &ranking);
    for (int n = 0; n < NODES; n++) {
        assert_int_equal(reasons[n] == REASON_FITS, model_fits(n, &pod->request));
        assert_true(reasons[n] == REASON_FITS ? scores[n] >= 0 : scores[n] == 0);
    }
    assert_int_equal(ranking.ret_expired, expired);
    return touched;
}

static int op_expire(void)
{
    int first = -1;
    for (int p = 0; p < PODS; p++)
        if (pods[p].known && pods[p].state == BOOKING_TENTATIVE)
            first = pods[p].node;
    assert_int_equal(cache_expire(cache, now), model_expire());
    return first;
}

static int op_await(void)
{
    int p = below(PODS);
    bool others = false;
    for (int i = 0; i < PODS; i++) {
        others |= i != p && pods[i].in_flight;
        pods[i].in_flight = false;
    }
    assert_int_equal(cache_await(cache, pod_uid(p), false, 1), others ? AWAITED_TIMEOUT : AWAITED_NONE);
    return -1;
}

/* The cache chose these cards on a node where the model says that the pod fits. */
static void take_choice(int p, int n, const struct share *shares, uint32_t count)
{
    struct model_pod *pod = &pods[p];
    assert_true(count <= 8);
    for (uint32_t i = 0; i < count; i++) {
        const struct model_card *card = find_card(&nodes[n], shares[i].kind, shares[i].minor);
        assert_non_null(card);
        assert_true(card_fits(n, card, &pod->request.of[shares[i].kind]));
        if (i > 0)
            assert_true(shares[i - 1].kind < shares[i].kind ||
                        shares[i - 1].minor < shares[i].minor);
        pod->shares[i] = shares[i];
    }
    pod->share_count = (int)count;
    pod->node = n;
    pod->confirmed = false;
}

/* Filter named one node, or several. */
static int op_passed(void)
{
    int p = below(PODS), n = below(NODES);
    struct model_pod *pod = &pods[p];
    bool alone = below(3) != 0, fits = alone && model_fits(n, &pod->request);
    int64_t until = now + 50;
    enum passed passed = cache_passed(cache, pod_uid(p), alone ? node_name(n) : STR(""),
                                      &device_policy_spread, until);
    if (!pod->known || pod->invalid || pod->state != BOOKING_NONE) {
        assert_int_equal(passed, PASSED_UNKNOWN);
        return -1;
    }
    assert_int_equal(passed, fits ? PASSED_HELD : PASSED_IN_FLIGHT);
    pod->in_flight = !fits;
    if (!fits)
        return -1;
    struct arena mem;
    struct pod_view view;
    struct pod_id id = {STR("ns"), STR("pod"), pod_uid(p)};
    arena_init(&mem, 0);
    assert_int_equal(cache_pod_find(cache, &id, &mem, &view), POD_KNOWN);
    assert_int_equal(view.state, BOOKING_TENTATIVE);
    take_choice(p, n, view.charge.shares, view.charge.count);
    arena_done(&mem);
    pod->state = BOOKING_TENTATIVE;
    pod->until = until;
    return n;
}

static int op_book(void)
{
    static const char *const policies[] = {"default", "binpack", "spread"};
    int p = below(PODS), n = below(NODES);
    struct model_pod *pod = &pods[p];
    struct placement placement;
    enum reason reason = REASON_FITS;
    enum book_result result =
        cache_book(cache, pod_uid(p), node_name(n),
                   device_policy_find(str_from(policies[below(3)])), &placement, &reason);
    if (!pod->known) {
        assert_int_equal(result, BOOK_UNKNOWN_POD);
        return -1;
    }
    pod->in_flight = false;
    int held = -1;
    if (pod->state == BOOKING_TENTATIVE) {
        held = pod->node;
        model_unplace(pod);
    }
    if (pod->state == BOOKING_BOOKED && !pod->confirmed) {
        assert_int_equal(result, BOOK_IN_PROGRESS);
        return -1;
    }
    if (pod->state != BOOKING_NONE) {
        assert_int_equal(result, pod->node == n ? BOOK_ALREADY_HERE : BOOK_ELSEWHERE);
        return -1;
    }
    if (pod->invalid) {
        assert_int_equal(result, BOOK_INVALID_REQUEST);
        return -1;
    }
    if (!model_fits(n, &pod->request)) {
        assert_int_equal(result, BOOK_NO_FIT);
        assert_int_not_equal(reason, REASON_FITS);
        return held;
    }
    assert_int_equal(result, BOOK_OK);
    struct share chosen[CARDS_PER_POD_MAX];
    for (uint32_t i = 0; i < placement.count; i++)
        chosen[i] = placement.cards[i].share;
    take_choice(p, n, chosen, placement.count);
    pod->state = BOOKING_BOOKED;
    if (held >= 0)
        compare_node(held);
    struct share charges[8];
    assert_int_equal(model_charge(pod, charges), CHARGE_TRUSTED);
    /* No decision of ours takes a card below zero. */
    for (int i = 0; i < pod->share_count; i++) {
        uint32_t pod_count;
        struct amount used =
            model_used(n, pod->shares[i].kind, pod->shares[i].minor, &pod_count);
        struct amount total =
            usable_total(find_card(&nodes[n], pod->shares[i].kind, pod->shares[i].minor));
        assert_true(pod->shares[i].amount.percent == 0 || used.percent <= total.percent);
        assert_true(pod->shares[i].amount.ratio == 0 || used.ratio <= total.ratio);
        assert_true(pod->shares[i].amount.bytes == 0 || used.bytes <= total.bytes);
    }
    return n;
}

static int op_outcome(void)
{
    int p = below(PODS);
    struct model_pod *pod = &pods[p];
    if (below(2) == 0) {
        cache_confirm(cache, pod_uid(p));
        if (pod->known && pod->state == BOOKING_BOOKED)
            pod->confirmed = true;
        return -1;
    }
    int touched = pod->known ? pod->node : -1;
    cache_forget(cache, pod_uid(p));
    if (pod->known && pod->state == BOOKING_BOOKED) {
        pod->state = BOOKING_NONE;
        pod->node = -1;
        pod->share_count = 0;
        pod->confirmed = false;
    }
    return touched;
}

static int operate(void)
{
    int choice = below(100);
    now++;
    if (choice < 6)
        return op_node();
    if (choice < 12)
        return op_devices();
    if (choice < 30)
        return op_pod_pending();
    if (choice < 42)
        return op_pod_bound();
    if (choice < 54)
        return op_pod_gone();
    if (choice < 60)
        return op_scan();
    if (choice < 62)
        return op_await();
    if (choice < 64)
        return op_expire();
    if (choice < 74)
        return op_passed();
    if (choice < 90)
        return op_book();
    return op_outcome();
}

void cache_model_begin(struct choices from)
{
    choices = from;
    now = 0;
    memset(nodes, 0, sizeof nodes);
    memset(pods, 0, sizeof pods);
    for (int p = 0; p < PODS; p++)
        pods[p].node = -1;
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    assert_non_null(cache);
}

void cache_model_step(void)
{
    int touched = operate();
    if (touched >= 0)
        compare_node(touched);
}

void cache_model_compare(void)
{
    compare_all();
}

void cache_model_end(void)
{
    cache_free(cache);
    cache = NULL;
}
