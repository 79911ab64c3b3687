/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_model.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "cache_world.h"
#include "core/request.h"

static struct world world;
static struct cache *cache;
static struct choices choices;

static int below(int bound)
{
    return (int)choices.below(choices.self, (uint32_t)bound);
}

static int any_node(void)
{
    return below(world.node_count);
}

static int any_pod(void)
{
    return below(world.pod_count);
}

static void compare_node(int n)
{
    world_compare_node(&world, cache, n);
}

/* ---- random input ---- */

static struct amount random_total(enum device_kind kind)
{
    static const int64_t sizes[] = {INT64_C(17179869184), INT64_C(25769803776),
                                    INT64_C(85899345920), 1000};
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

static const struct device_policy *random_policy(void)
{
    static const char *const policies[] = {"default", "binpack", "spread", "pack"};
    return device_policy_find(str_from(policies[below(4)]));
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
            const struct model_card *card =
                world_card(&world.nodes[n], (enum device_kind)kind, minor);
            struct amount total = card != NULL ? world_usable(card) : (struct amount){0};
            struct amount amount = world_wanted(of, total);
            if (below(6) == 0)
                amount.percent += 5;
            if (below(6) == 0)
                amount.bytes = 0;
            if (below(6) == 0)
                amount.ratio = below(100);
            shares[count++] = (struct share){(enum device_kind)kind, minor, amount, 0};
        }
    }
    return count;
}

/* ---- what happens to a pod of the model ---- */

static void unplace(struct model_pod *pod)
{
    pod->state = BOOKING_NONE;
    pod->node = -1;
    pod->share_count = 0;
    pod->annotation = ANNOTATION_ABSENT;
    pod->confirmed = pod->unknown = pod->only_read = pod->doubled = pod->untold = false;
}

static void place(struct model_pod *pod, int n, enum booking_state state,
                  enum annotation_state annotation, const struct share *shares, int count)
{
    unplace(pod);
    pod->node = n;
    pod->state = state;
    pod->annotation = annotation;
    pod->share_count = count;
    pod->rejected = false;
    memcpy(pod->shares, shares, sizeof *shares * (size_t)count);
}

static void unpass(struct model_pod *pod)
{
    pod->in_flight = pod->passed = false;
    pod->only = -1;
}

static void lapse(struct model_pod *pod)
{
    if (pod->state == BOOKING_TENTATIVE)
        unplace(pod);
}

static void go(struct model_pod *pod)
{
    world.removals += pod->known;
    *pod = (struct model_pod){.node = -1, .only = -1};
}

/* A node that left the cache may or may not be remembered as somebody's only one, should it return. */
static void forget_unknown_nodes(void)
{
    for (int p = 0; p < world.pod_count; p++) {
        struct model_pod *pod = &world.pods[p];
        if (pod->only >= 0 && !world_knows(&world, pod->only))
            pod->only = ONLY_WENT;
    }
}

/* ---- operations: each returns the node that it touched, or -1 ---- */

static int op_node(void)
{
    int n = any_node();
    struct model_node *node = &world.nodes[n];
    node->has_node = below(4) != 0;
    node->device_plugin = node->has_node && below(6) == 0;
    struct node_facts facts = {.name = world_node_name(n),
                               .device_plugin = node->device_plugin,
                               .allocatable = {100 * below(100), (int64_t)below(100) << 30}};
    if (node->has_node) {
        assert_int_equal(cache_node_set(cache, &facts), 0);
        node->node_mark = world.marks[CACHE_NODES];
    } else {
        cache_node_remove(cache, world_node_name(n));
    }
    return n;
}

static int op_devices(void)
{
    int n = any_node();
    struct model_node *node = &world.nodes[n];
    if (below(8) == 0) {
        node->has_devices = false;
        cache_devices_remove(cache, world_node_name(n));
        return n;
    }
    node->has_devices = true;
    node->devices_mark = world.marks[CACHE_DEVICES];
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
    struct inventory inventory = {.devices = devices, .count = (uint32_t)node->card_count};
    struct error err;
    assert_int_equal(cache_devices_set(cache, world_node_name(n), &inventory, &err), 0);
    return n;
}

/* One card breaks a bound: nothing changes. */
static int op_bad_devices(void)
{
    int n = any_node();
    struct device devices[2] = {{.kind = DEVICE_GPU, .total = {100, 100, 1000}},
                                {.kind = DEVICE_GPU, .minor = 1, .total = {100, 100, 1000}}};
    switch (below(4)) {
    case 0:
        devices[1].minor = 0;
        break;
    case 1:
        devices[1].minor = -1;
        break;
    case 2:
        devices[0].total.percent = -1;
        break;
    default:
        devices[0].total.bytes = CARD_BYTES_MAX + 1;
    }
    struct inventory inventory = {.devices = devices, .count = 2};
    struct error err = {0};
    assert_int_equal(cache_devices_set(cache, world_node_name(n), &inventory, &err), -EINVAL);
    assert_true(err.text[0] != '\0');
    return n;
}

/* ---- pods as they are told of, or read ---- */

/* A pod event and what it must come to. */
struct told {
    struct pod facts;
    struct share shares[SHARES];
    enum booking_event event;
};

static struct pod pod_facts(int p)
{
    return (struct pod){.id = {STR("ns"), STR("pod"), world_pod_uid(p)},
                        .host = {100 * p, (int64_t)p << 28}};
}

/* Somebody's word on where the pod runs and on which cards. */
static void tell_bound(int p, int n, struct told *told)
{
    const struct model_pod *pod = &world.pods[p];
    told->facts = pod_facts(p);
    told->facts.node_name = world_node_name(n);
    told->event = pod->node < 0 || pod->node == n ? BOOKING_SEEN_HERE : BOOKING_SEEN_ELSEWHERE;
    int kind = below(8);
    told->facts.annotation = kind == 0   ? ANNOTATION_ABSENT
                             : kind == 1 ? ANNOTATION_UNREADABLE
                                         : ANNOTATION_READ;
    if (told->facts.annotation != ANNOTATION_READ)
        return;
    int count;
    if (pod->state >= BOOKING_BOOKED && pod->node == n && below(2) == 0) { /* as it was taken */
        count = pod->share_count;
        memcpy(told->shares, pod->shares, sizeof told->shares);
    } else {
        count = random_shares(pod, n, told->shares);
    }
    told->facts.shares = told->shares;
    told->facts.share_count = (uint32_t)count;
}

static bool differs(const struct model_pod *pod, const struct pod *facts)
{
    if (pod->annotation != facts->annotation)
        return true;
    if (facts->annotation != ANNOTATION_READ)
        return false;
    bool same = pod->share_count == (int)facts->share_count;
    for (int i = 0; same && i < pod->share_count; i++) {
        const struct share *a = &pod->shares[i], *b = &facts->shares[i];
        same = a->kind == b->kind && a->minor == b->minor &&
               memcmp(&a->amount, &b->amount, sizeof a->amount) == 0;
    }
    return !same;
}

/* What an event comes to in the model; the result that the cache must give. */
static struct pod_event_result model_seen(int p, const struct told *told)
{
    struct model_pod *pod = &world.pods[p];
    struct pod_event_result want = {0};
    enum booking_state before = pod->state;
    bool kept = told->event == BOOKING_SEEN_PENDING
                    ? before != BOOKING_BOUND || pod->only_read
                    : before == BOOKING_BOUND && told->event == BOOKING_SEEN_HERE;
    bool drifted = kept && told->event == BOOKING_SEEN_HERE && differs(pod, &told->facts);
    want.drifted = drifted && !pod->drifted;
    want.odd = (told->event == BOOKING_SEEN_PENDING && !kept) ||
               (told->event == BOOKING_SEEN_ELSEWHERE && before >= BOOKING_BOOKED);
    want.moved = told->event == BOOKING_SEEN_ELSEWHERE && before == BOOKING_BOOKED;
    if (told->event == BOOKING_SEEN_PENDING && !kept)
        unplace(pod);
    if (told->event != BOOKING_SEEN_PENDING) {
        pod->only_read = false;
        unpass(pod);
        want.taken = !kept;
    }
    if (want.taken) {
        int n = 0;
        while (!str_eq(world_node_name(n), told->facts.node_name))
            n++;
        place(pod, n, BOOKING_BOUND, told->facts.annotation, told->shares,
              (int)told->facts.share_count);
    }
    pod->drifted = drifted;
    want.state = pod->state;
    return want;
}

static void check_result(const struct pod_event_result *have, const struct pod_event_result *want)
{
    assert_int_equal(have->state, want->state);
    assert_int_equal(have->taken, want->taken);
    assert_int_equal(have->odd, want->odd);
    assert_int_equal(have->moved, want->moved);
    assert_int_equal(have->drifted, want->drifted);
}

/* Before an event: a pod that is not known yet is made up, and what may change is drawn anew. */
static void prepare(int p)
{
    struct model_pod *pod = &world.pods[p];
    if (!pod->known)
        *pod = (struct model_pod){.known = true,
                                  .invalid = below(12) == 0,
                                  .node = -1,
                                  .only = -1,
                                  .woken = INT64_MIN};
    if (pod->state == BOOKING_NONE)
        pod->request = pod->invalid ? (struct pod_request){0} : random_request();
    if (pod->state <= BOOKING_TENTATIVE)
        pod->policy = (struct pod_policy){.device = below(2) == 0 ? NULL : random_policy(),
                                          .invalid = below(12) == 0};
}

static const struct pod_request *request_of(int p)
{
    return world.pods[p].invalid ? NULL : &world.pods[p].request;
}

/* What was told last of each pod; version 0: nothing, or it is gone. */
static struct told last_told[PODS_MAX];
static uint64_t last_version;

static void remember(int p, const struct told *told)
{
    last_told[p] = *told;
    if (told->facts.shares != NULL)
        last_told[p].facts.shares = last_told[p].shares;
}

static void send(int p, struct told *told)
{
    struct pod_event_result have, want = model_seen(p, told);
    world.pods[p].mark = world.marks[CACHE_PODS];
    told->facts.version = below(8) == 0 ? 0 : ++last_version;
    remember(p, told);
    assert_int_equal(
        cache_pod_set(cache, &told->facts, request_of(p), &world.pods[p].policy, &have), 0);
    check_result(&have, &want);
}

static int op_pod_pending(void)
{
    int p = any_pod(), touched = world.pods[p].node;
    struct told told = {.facts = pod_facts(p), .event = BOOKING_SEEN_PENDING};
    prepare(p);
    send(p, &told);
    return touched;
}

static int op_pod_bound(void)
{
    int p = any_pod(), n = any_node(), old = world.pods[p].node;
    struct told told = {0};
    if (!world.pods[p].known && below(4) != 0)
        return -1;
    prepare(p);
    if (old >= 0 && below(4) != 0)
        n = old;
    tell_bound(p, n, &told);
    send(p, &told);
    if (old >= 0)
        compare_node(old);
    return n;
}

/* A list names the pod as it was told last. Where the cache says that this is nothing new, telling it must
 * change nothing. */
static int op_pod_same(void)
{
    int p = any_pod();
    struct model_pod *pod = &world.pods[p];
    struct told told = last_told[p];
    if (told.facts.version == 0)
        return -1;
    struct str uid = told.facts.id.uid;
    bool want = pod->known && pod->state == BOOKING_BOUND && !pod->only_read;
    assert_false(cache_pod_same(cache, uid, told.facts.version + 1));
    assert_int_equal(cache_pod_same(cache, uid, told.facts.version), want);
    if (!want)
        return -1;
    struct model_pod before = *pod;
    told.event = BOOKING_SEEN_HERE;
    struct pod_event_result result = model_seen(p, &told);
    assert_false(result.taken || result.odd || result.moved || result.drifted);
    assert_memory_equal(&before, pod, sizeof before);
    pod->mark = world.marks[CACHE_PODS];
    return pod->node;
}

static int op_pod_gone(void)
{
    int p = any_pod(), touched = world.pods[p].node;
    struct pod facts = pod_facts(p);
    facts.finished = true;
    struct pod_event_result result;
    go(&world.pods[p]);
    if (below(2) == 0)
        cache_pod_remove(cache, facts.id.uid);
    else
        assert_int_equal(cache_pod_set(cache, &facts, NULL, &world.pods[p].policy, &result), 0);
    return touched;
}

/* A pod that asks for no device is not kept. */
static int op_pod_plain(void)
{
    int p = any_pod();
    struct pod_request nothing = {0};
    struct pod facts = pod_facts(p);
    struct pod_event_result result;
    if (world.pods[p].known)
        return -1;
    assert_int_equal(cache_pod_set(cache, &facts, &nothing, &world.pods[p].policy, &result), 0);
    assert_int_equal(result.state, BOOKING_NONE);
    return -1;
}

/* Read because it was not known; perhaps another one went meanwhile, or it is known by now. */
static int op_learn(void)
{
    int p = any_pod(), n = any_node();
    bool known = world.pods[p].known, stale = below(4) == 0 && world.removals > 0;
    struct told told = {.facts = pod_facts(p), .event = BOOKING_SEEN_PENDING};
    struct pod_event_result have, want = {0};
    struct model_pod was = world.pods[p];
    if (!known)
        prepare(p);
    if (below(2) == 0)
        tell_bound(p, n, &told);
    told.facts.finished = below(6) == 0;
    int rc = cache_pod_learn(cache, &told.facts, request_of(p), &world.pods[p].policy,
                             world.removals - stale, &have);
    assert_int_equal(rc, !known && stale ? -EAGAIN : 0);
    if (known || stale || told.facts.finished) {
        world.pods[p] = was;
    } else {
        want = model_seen(p, &told);
        world.pods[p].mark = world.marks[CACHE_PODS];
        last_told[p].facts.version = 0;
    }
    check_result(&have, &want);
    return n;
}

/* Read because the outcome of its binding is unknown. */
static int op_settle(void)
{
    int p = any_pod(), n = any_node(), old = world.pods[p].node;
    struct model_pod *pod = &world.pods[p];
    struct told told = {.facts = pod_facts(p), .event = BOOKING_SEEN_PENDING};
    struct pod_event_result have, want = {0};
    bool waits = pod->known && pod->state == BOOKING_BOOKED && pod->unknown;
    if (below(3) != 0)
        tell_bound(p, old >= 0 && below(3) != 0 ? old : n, &told);
    told.facts.finished = below(8) == 0;
    assert_int_equal(
        cache_pod_settle(cache, &told.facts, request_of(p), &pod->policy, &have), 0);
    if (waits && told.facts.finished) {
        go(pod);
    } else if (waits) {
        want = model_seen(p, &told);
        pod->only_read = pod->state == BOOKING_BOUND;
        last_told[p].facts.version = 0;
    }
    check_result(&have, &want);
    if (old >= 0)
        compare_node(old);
    return n;
}

/* ---- relists ---- */

static int op_list_begin(void)
{
    enum cache_listed kind = (enum cache_listed)below(3);
    assert_int_equal(cache_list_begin(cache, kind), ++world.marks[kind]);
    return -1;
}

static int op_list_keep(void)
{
    enum cache_listed kind = (enum cache_listed)below(3);
    int p = any_pod(), n = any_node();
    cache_list_keep(cache, kind, kind == CACHE_PODS ? world_pod_uid(p) : world_node_name(n));
    if (kind == CACHE_PODS)
        world.pods[p].mark = world.marks[kind];
    else if (kind == CACHE_NODES)
        world.nodes[n].node_mark = world.marks[kind];
    else
        world.nodes[n].devices_mark = world.marks[kind];
    return -1;
}

static uint32_t sweep_nodes(enum cache_listed kind, uint32_t mark)
{
    uint32_t removed = 0;
    for (int n = 0; n < world.node_count; n++) {
        struct model_node *node = &world.nodes[n];
        if (kind == CACHE_NODES && node->has_node && node->node_mark < mark) {
            node->has_node = node->device_plugin = false;
            removed++;
        } else if (kind == CACHE_DEVICES && node->has_devices && node->devices_mark < mark) {
            node->has_devices = false;
            removed++;
        }
    }
    return removed;
}

static uint32_t sweep_pods(uint32_t mark)
{
    uint32_t removed = 0;
    for (int p = 0; p < world.pod_count; p++) {
        if (!world.pods[p].known || world.pods[p].mark >= mark)
            continue;
        go(&world.pods[p]);
        removed++;
    }
    return removed;
}

/* Of the list that began last, or of one before it. */
static int op_list_end(void)
{
    enum cache_listed kind = (enum cache_listed)below(3);
    uint32_t mark = world.marks[kind];
    if (mark > 0 && below(4) == 0)
        mark--;
    uint32_t removed = kind == CACHE_PODS ? sweep_pods(mark) : sweep_nodes(kind, mark);
    assert_int_equal(cache_list_end(cache, kind, mark), removed);
    for (int n = 0; removed > 0 && n < world.node_count; n++)
        compare_node(n);
    return -1;
}

/* ---- questions ---- */

/* How many tentative bookings are past their time. */
static uint32_t model_expire(void)
{
    uint32_t count = 0;
    for (int p = 0; p < world.pod_count; p++) {
        struct model_pod *pod = &world.pods[p];
        if (!pod->known || pod->state != BOOKING_TENTATIVE || pod->until > world.now)
            continue;
        unplace(pod);
        count++;
    }
    return count;
}

static void check_ranked(const struct model_pod *pod, const enum reason *reasons,
                         const struct ranking *ranking)
{
    for (int n = 0; n < world.node_count; n++) {
        assert_int_equal(reasons[n] == REASON_FITS, world_fits(&world, n, &pod->request));
        if (ranking == NULL)
            continue;
        if (reasons[n] != REASON_FITS)
            assert_int_equal(ranking->scores[n], 0);
        else if (ranking->demote && pod->passed && pod->only == n)
            assert_int_equal(ranking->scores[n], -1);
        else
            assert_true(ranking->scores[n] >= 0);
    }
}

/* Of this cache. */
static struct roster_notes notes;

/* What is noted of the candidates of op_rank, from an earlier time or made up; NULL now and then. */
static struct roster_notes *old_notes(int count)
{
    static uint32_t numbers[NODES_MAX + 1], hashes[NODES_MAX + 1];
    if (notes.numbers == NULL || below(8) == 0) {
        notes.version = 0;
        for (int n = 0; n <= count; n++)
            numbers[n] = below(3) == 0 ? ROSTER_NONE : (uint32_t)below(NODES_MAX + 2);
    }
    notes.numbers = numbers;
    notes.hashes = hashes;
    notes.pieces = (uint32_t)below(count + 1);
    return below(4) == 0 ? NULL : &notes;
}

/* Filter's question about every node, the first one twice. */
static int op_rank(void)
{
    int p = any_pod();
    struct model_pod *pod = &world.pods[p];
    if (!pod->known || pod->invalid)
        return -1;
    bool rank = below(4) != 0;
    int touched = pod->node, count = world.node_count;
    struct str candidates[NODES_MAX + 1];
    enum reason reasons[NODES_MAX + 1];
    int64_t scores[NODES_MAX + 1];
    struct ranking ranking = {.policy = below(2) == 0 ? &node_policy_binpack : &node_policy_pack,
                              .host = pod_facts(p).host,
                              .demote = below(2) == 0 && pod->only != ONLY_WENT,
                              .now_ns = world.now,
                              .notes = old_notes(count),
                              .scores = scores};
    if (below(2) == 0)
        assert_int_equal(cache_pack_prepare(cache, world.now), 0);
    for (int n = 0; n <= count; n++)
        candidates[n] = world_node_name(n % count);
    uint32_t expired = 0;
    if (rank) {
        expired = model_expire();
        lapse(pod);
        cache_rank(cache, world_pod_uid(p), &pod->request, candidates, (uint32_t)count + 1, reasons,
                   &ranking);
        assert_int_equal(ranking.ret_again, pod->passed);
        assert_int_equal(ranking.ret_expired, expired);
    } else {
        cache_scan(cache, world_pod_uid(p), &pod->request, candidates, (uint32_t)count + 1,
                   reasons);
    }
    if (ranking.notes != NULL && below(2) == 0)
        cache_roster_learn(cache, ranking.notes, (uint32_t)count + 1);
    world.left_out[p] = true;
    check_ranked(pod, reasons, rank ? &ranking : NULL);
    pod->rejected = pod->state == BOOKING_NONE && !world_fits_somewhere(&world, &pod->request);
    world.left_out[p] = false;
    assert_int_equal(reasons[count],
                     world_knows(&world, 0) ? REASON_DUPLICATE : REASON_UNKNOWN_NODE);
    if (rank)
        unpass(pod);
    return touched;
}

/* Preempt's question, victims named twice included; nothing changes. */
static int op_what_if(void)
{
    int p = any_pod(), n = any_node();
    struct pod_request request = random_request();
    struct str victims[6];
    uint32_t count = 0;
    for (int i = below(4); i >= 0; i--, p = (p + 1) % world.pod_count) {
        world.left_out[p] = true;
        victims[count++] = world_pod_uid(p);
    }
    victims[count++] = victims[0];
    victims[count++] = STR("uid-of-nobody");
    bool fits = cache_what_if(cache, world_node_name(n), &request, victims, count) == REASON_FITS;
    assert_int_equal(fits, world_fits(&world, n, &request));
    memset(world.left_out, 0, sizeof world.left_out);
    return n;
}

/* Words and scores: within bounds, and nothing changes. */
static int op_look(void)
{
    int n = any_node(), p = any_pod();
    struct pod_request request = random_request();
    struct str name = world_node_name(n);
    char text[128];
    int64_t score;
    struct arena mem;
    struct pod_view view;
    struct host_amount host = pod_facts(p).host;
    struct pod_id other = {STR("ns"), STR("other"), world_pod_uid(p)};
    size_t size = (size_t)below((int)sizeof text + 1);
    size_t len = cache_explain(cache, name, &request, text, size);
    assert_true(size == 0 ? len == 0 : len < size && text[len] == '\0');
    bool repeated = false;
    cache_score(cache, &request, &host,
                below(2) == 0 ? &node_policy_binpack : &node_policy_pack, NULL, &name, 1,
                &score, &repeated);
    assert_true(score >= 0 && (world.nodes[n].has_devices || score == 0));
    arena_init(&mem, 0);
    assert_int_equal(cache_pod_find(cache, &other, &mem, &view),
                     world.pods[p].known ? POD_MISMATCH : POD_UNKNOWN);
    arena_done(&mem);
    return n;
}

static int op_rules(void)
{
    world.plugin_allowed = below(2) == 0;
    world.unknown_ignored = below(4) == 0;
    cache_set_device_plugin_nodes(cache, world.plugin_allowed ? DEVICE_PLUGIN_NODES_ALLOW
                                                              : DEVICE_PLUGIN_NODES_REFUSE);
    cache_set_unknown_pods(cache,
                           world.unknown_ignored ? UNKNOWN_PODS_IGNORE : UNKNOWN_PODS_CLOSE);
    return any_node();
}

/* ---- between filter and bind ---- */

static int op_expire(void)
{
    int first = -1;
    for (int p = 0; p < world.pod_count; p++)
        if (world.pods[p].known && world.pods[p].state == BOOKING_TENTATIVE)
            first = world.pods[p].node;
    assert_int_equal(cache_expire(cache, world.now), model_expire());
    return first;
}

static int op_await(void)
{
    int p = any_pod();
    bool others = false, until_known = below(2) == 0;
    for (int i = 0; i < world.pod_count; i++) {
        others |= i != p && world.pods[i].in_flight;
        world.pods[i].in_flight = false;
    }
    enum awaited want = others                                 ? AWAITED_TIMEOUT
                        : until_known && !world.pods[p].known ? AWAITED_UNKNOWN
                                                               : AWAITED_NONE;
    assert_int_equal(cache_await(cache, world_pod_uid(p), until_known, 1), want);
    return -1;
}

/* The cache chose these cards on a node where the model says that the pod fits. */
static void take_choice(int p, int n, enum booking_state state, const struct share *shares,
                        uint32_t count)
{
    struct model_pod *pod = &world.pods[p];
    assert_true(count <= SHARES);
    for (uint32_t i = 0; i < count; i++) {
        const struct model_card *card =
            world_card(&world.nodes[n], shares[i].kind, shares[i].minor);
        assert_non_null(card);
        assert_true(world_card_fits(&world, n, card, &pod->request.of[shares[i].kind]));
        if (i > 0)
            assert_true(shares[i - 1].kind < shares[i].kind ||
                        shares[i - 1].minor < shares[i].minor);
    }
    place(pod, n, state, ANNOTATION_READ, shares, (int)count);
    struct share charges[SHARES];
    assert_int_equal(world_charge(&world, pod, charges), CHARGE_TRUSTED);
}

/* Filter named one node, or several. */
static int op_passed(void)
{
    int p = any_pod(), n = any_node();
    struct model_pod *pod = &world.pods[p];
    bool alone = below(3) != 0, hold = below(8) != 0;
    int64_t until = world.now + 50;
    enum passed passed =
        cache_passed(cache, world_pod_uid(p), alone ? world_node_name(n) : STR(""),
                     hold ? &device_policy_spread : NULL, until);
    if (!pod->known || pod->invalid || pod->policy.invalid || pod->state != BOOKING_NONE) {
        assert_int_equal(passed, PASSED_UNKNOWN);
        return -1;
    }
    bool held = alone && hold && world_fits(&world, n, &pod->request);
    assert_int_equal(passed, held ? PASSED_HELD : PASSED_IN_FLIGHT);
    pod->in_flight = !held;
    pod->passed = true;
    pod->only = alone && world_knows(&world, n) ? n : -1;
    if (!held)
        return -1;
    struct arena mem;
    struct pod_view view;
    struct pod_id id = {STR("ns"), STR("pod"), world_pod_uid(p)};
    arena_init(&mem, 0);
    assert_int_equal(cache_pod_find(cache, &id, &mem, &view), POD_KNOWN);
    assert_int_equal(view.state, BOOKING_TENTATIVE);
    take_choice(p, n, BOOKING_TENTATIVE, view.charge.shares, view.charge.count);
    arena_done(&mem);
    pod->until = until;
    return n;
}

/* ---- bind ---- */

static enum book_result expected_booking(const struct model_pod *pod, int n)
{
    if (!pod->known)
        return BOOK_UNKNOWN_POD;
    if (pod->state == BOOKING_BOOKED && !pod->confirmed)
        return BOOK_IN_PROGRESS;
    if (pod->state >= BOOKING_BOOKED)
        return pod->node == n ? BOOK_ALREADY_HERE : BOOK_ELSEWHERE;
    if (pod->invalid)
        return BOOK_INVALID_REQUEST;
    if (pod->policy.invalid)
        return BOOK_INVALID_POLICY;
    return world_fits(&world, n, &pod->request) ? BOOK_OK : BOOK_NO_FIT;
}

/* No decision of ours takes a card below zero. */
static void check_not_overdrawn(const struct model_pod *pod)
{
    for (int i = 0; i < pod->share_count; i++) {
        const struct share *share = &pod->shares[i];
        uint32_t holders;
        struct amount used = world_used(&world, pod->node, share->kind, share->minor, &holders);
        struct amount total =
            world_usable(world_card(&world.nodes[pod->node], share->kind, share->minor));
        assert_true(share->amount.percent == 0 || used.percent <= total.percent);
        assert_true(share->amount.ratio == 0 || used.ratio <= total.ratio);
        assert_true(share->amount.bytes == 0 || used.bytes <= total.bytes);
    }
}

static int op_book(void)
{
    int p = any_pod(), n = any_node(), held = world.pods[p].node;
    struct model_pod *pod = &world.pods[p];
    struct placement placement;
    enum reason reason = REASON_FITS;
    enum book_result result = cache_book(cache, world_pod_uid(p), world_node_name(n),
                                         random_policy(), &placement, &reason);
    unpass(pod);
    lapse(pod);
    assert_int_equal(result, expected_booking(pod, n));
    if (result == BOOK_NO_FIT)
        assert_int_not_equal(reason, REASON_FITS);
    if (result != BOOK_OK)
        return held;
    struct share chosen[CARDS_PER_POD_MAX];
    for (uint32_t i = 0; i < placement.count; i++)
        chosen[i] = placement.cards[i].share;
    take_choice(p, n, BOOKING_BOOKED, chosen, placement.count);
    if (held >= 0)
        compare_node(held);
    check_not_overdrawn(pod);
    return n;
}

/* A bind that was refused before anything was decided. */
static int op_bind_refused(void)
{
    int p = any_pod();
    cache_bind_refused(cache, world_pod_uid(p));
    unpass(&world.pods[p]);
    return world.pods[p].node;
}

static int op_outcome(void)
{
    int p = any_pod(), touched = world.pods[p].node;
    struct model_pod *pod = &world.pods[p];
    bool booked = pod->known && pod->state == BOOKING_BOOKED;
    switch (below(3)) {
    case 0:
        cache_confirm(cache, world_pod_uid(p));
        pod->confirmed |= booked;
        pod->unknown = false;
        return touched;
    case 1:
        cache_outcome_unknown(cache, world_pod_uid(p), world.now);
        if (booked) {
            pod->unknown = true;
            pod->unknown_since = world.now;
        }
        return touched;
    default:
        cache_forget(cache, world_pod_uid(p));
        if (booked)
            unplace(pod);
        return touched;
    }
}

/* ---- who waits ---- */

static bool waits_for_outcome(const struct model_pod *pod)
{
    return pod->known && pod->state == BOOKING_BOOKED && pod->unknown;
}

static bool waits_for_room(const struct model_pod *pod)
{
    return pod->known && pod->rejected && !pod->invalid &&
           world_fits_somewhere(&world, &pod->request);
}

/* Exactly those wait of whom the model says so. */
static int op_waiting(void)
{
    bool room = below(2) == 0;
    uint32_t cursor = 0;
    int count = 0, rc;
    struct arena mem;
    struct waiting_pod waiting;
    arena_init(&mem, 0);
    while ((rc = room ? cache_next_wakeable(cache, &cursor, &mem, &waiting)
                      : cache_next_unknown(cache, &cursor, &mem, &waiting)) == 1) {
        int p = 0;
        while (p < world.pod_count && !str_eq(world_pod_uid(p), waiting.id.uid))
            p++;
        assert_true(p < world.pod_count);
        struct model_pod *pod = &world.pods[p];
        assert_true(room ? waits_for_room(pod) : waits_for_outcome(pod));
        assert_true(waiting.since_ns == (room ? pod->woken : pod->unknown_since));
        count++;
        if (room && below(2) == 0) {
            cache_woken(cache, waiting.id.uid, world.now);
            pod->woken = world.now;
        }
    }
    assert_int_equal(rc, 0);
    arena_done(&mem);
    for (int p = 0; p < world.pod_count; p++)
        count -= room ? waits_for_room(&world.pods[p]) : waits_for_outcome(&world.pods[p]);
    assert_int_equal(count, 0);
    return -1;
}

/* ---- cards given twice ---- */

/* More is taken from one of the pod's cards than there is, and not by this pod alone. */
static bool is_doubled(const struct model_pod *pod)
{
    for (int i = 0; i < pod->share_count; i++) {
        const struct share *share = &pod->shares[i];
        const struct model_card *card =
            world_card(&world.nodes[pod->node], share->kind, share->minor);
        if (card == NULL)
            continue;
        uint32_t holders;
        struct amount total = world_usable(card);
        struct amount used = world_used(&world, pod->node, share->kind, share->minor, &holders);
        bool over = (total.percent > 0 && used.percent > total.percent) ||
                    (total.ratio > 0 && used.ratio > total.ratio) ||
                    (total.bytes > 0 && used.bytes > total.bytes);
        if (over && holders > 1)
            return true;
    }
    return false;
}

/* Who stands on such a card now is found, whatever it was that happened. */
static void find_doubled(void)
{
    for (int p = 0; p < world.pod_count; p++) {
        struct model_pod *pod = &world.pods[p];
        if (pod->known && pod->state == BOOKING_BOUND && !pod->doubled && is_doubled(pod))
            pod->doubled = pod->untold = true;
    }
}

/* Those who were found are named, each once. */
static void compare_doubled(void)
{
    struct arena mem;
    struct doubled_pod found;
    int rc;
    arena_init(&mem, 0);
    while ((rc = cache_next_doubled(cache, &mem, &found)) == 1) {
        int p = 0;
        while (p < world.pod_count && !str_eq(world_pod_uid(p), found.id.uid))
            p++;
        assert_true(p < world.pod_count && world.pods[p].untold);
        assert_true(str_eq(found.node, world_node_name(world.pods[p].node)));
        world.pods[p].untold = false;
    }
    assert_int_equal(rc, 0);
    arena_done(&mem);
    for (int p = 0; p < world.pod_count; p++)
        assert_false(world.pods[p].untold);
}

/* ---- steps ---- */

static const struct {
    int weight;
    int (*operate)(void);
} operations[] = {
    {6, op_node},        {6, op_devices},    {1, op_bad_devices}, {16, op_pod_pending},
    {12, op_pod_bound},  {6, op_pod_same},   {8, op_pod_gone},    {1, op_pod_plain},
    {4, op_learn},       {4, op_settle},     {2, op_list_begin},  {3, op_list_keep},
    {2, op_list_end},
    {8, op_rank},        {3, op_what_if},   {2, op_look},        {1, op_rules},
    {2, op_expire},      {2, op_await},     {10, op_passed},     {16, op_book},
    {12, op_outcome},    {3, op_waiting},   {2, op_bind_refused},
};

static int operate(void)
{
    int total = 0;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        total += operations[i].weight;
    int choice = below(total);
    size_t i = 0;
    for (; choice >= operations[i].weight; i++)
        choice -= operations[i].weight;
    return operations[i].operate();
}

/* Who was rejected, has the same request still, and would not fit. */
static void list_hopeless(bool *hopeless, struct pod_request *requests)
{
    for (int p = 0; p < world.pod_count; p++) {
        const struct model_pod *pod = &world.pods[p];
        hopeless[p] = pod->known && pod->rejected && !pod->invalid &&
                      !world_fits_somewhere(&world, &pod->request);
        requests[p] = pod->request;
    }
}

/* One operation, and cache_gains() must have told of room that it made. */
static int operate_and_check_gains(void)
{
    bool hopeless[PODS_MAX];
    struct pod_request requests[PODS_MAX];
    list_hopeless(hopeless, requests);
    uint64_t gains = cache_gains(cache);
    int touched = operate();
    for (int p = 0; cache_gains(cache) == gains && p < world.pod_count; p++) {
        if (hopeless[p] && memcmp(&requests[p], &world.pods[p].request, sizeof requests[p]) == 0)
            assert_false(waits_for_room(&world.pods[p]));
    }
    return touched;
}

void cache_model_begin(struct choices from, int node_count, int pod_count)
{
    assert_true(node_count <= NODES_MAX && pod_count <= PODS_MAX);
    choices = from;
    world = (struct world){.node_count = node_count, .pod_count = pod_count};
    memset(last_told, 0, sizeof last_told);
    for (int p = 0; p < pod_count; p++)
        world.pods[p] = (struct model_pod){.node = -1, .only = -1};
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    assert_non_null(cache);
    notes = (struct roster_notes){0};
}

void cache_model_step(void)
{
    world.now++;
    int touched = below(8) == 0 ? operate_and_check_gains() : operate();
    if (touched >= 0)
        compare_node(touched);
    forget_unknown_nodes();
    find_doubled();
    if (world.now % 4 == 0)
        compare_doubled();
}

void cache_model_compare(void)
{
    world_compare(&world, cache);
    compare_doubled();
}

void cache_model_end(void)
{
    cache_free(cache);
    cache = NULL;
}
