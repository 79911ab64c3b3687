/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/metrics.h"

#define GI (INT64_C(1) << 30)

static struct cache *cache;
static struct sched sched;
static struct arena mem;

static const struct str all[] = {{"small", 5}, {"big", 3}, {"bare", 4}, {"gone", 4}};

static void add_devices(const char *node, uint32_t count, int64_t bytes)
{
    struct device devices[8];
    for (uint32_t i = 0; i < count; i++)
        devices[i] =
            (struct device){DEVICE_GPU, (int32_t)i, true, {100, 100, bytes}, STR(""), STR(""), 0};
    struct inventory inventory = {.devices = devices, .count = count};
    assert_int_equal(sched_device_changed(&sched, str_from(node), &inventory), 0);
}

static int setup(void **state)
{
    (void)state;
    metrics_reset();
    arena_init(&mem, 0);
    cache = cache_new(UNKNOWN_PODS_CLOSE);
    sched_init(&sched, cache, clock_system(), (struct port){0}, device_policy_find(STR("default")),
               node_policy_find(STR("spread")));
    sched_set_synced(&sched, true);
    for (int i = 0; i < 3; i++)
        sched_node_changed(&sched, &(struct node_facts){.name = all[i]});
    add_devices("small", 1, 16 * GI);
    add_devices("big", 4, 80 * GI);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cache_free(cache);
    arena_done(&mem);
    return 0;
}

static struct container container(enum resource resource, int64_t amount)
{
    struct container container = {.name = STR("main"), .role = CONTAINER_APP};
    container.requests.amount[resource] = amount;
    return container;
}

static struct candidates_call call_for(const struct container *container)
{
    return (struct candidates_call){
        .pod = {.id = {STR("ns"), STR("p"), STR("u")},
                .containers = container,
                .container_count = 1},
        .nodes = all,
        .node_count = 4,
    };
}

static void test_filter_says_why(void **state)
{
    (void)state;
    struct container two = container(RESOURCE_NVIDIA_GPU, 2);
    struct candidates_call call = call_for(&two);
    struct filter_answer answer;
    struct error err = {0};
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 1);
    assert_int_equal(answer.reasons[0], REASON_TOO_BIG);
    assert_int_equal(answer.reasons[1], REASON_FITS);
    assert_int_equal(answer.reasons[2], REASON_NO_DEVICE_OBJECT);
    assert_int_equal(answer.reasons[3], REASON_UNKNOWN_NODE);
}

static void test_filter_of_an_invalid_request(void **state)
{
    (void)state;
    struct container invalid = container(RESOURCE_GPU, 150);
    struct candidates_call call = call_for(&invalid);
    struct filter_answer answer;
    struct error err = {0};
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(answer.reasons[i], REASON_INVALID);
    assert_non_null(strstr(answer.invalid_text, "invalid resource unit koordinator.sh/gpu: 150: "));
}

static void test_pods_without_devices_are_neutral(void **state)
{
    (void)state;
    struct container cpu = container(RESOURCE_GPU, 0);
    struct candidates_call call = call_for(&cpu);
    struct filter_answer answer;
    struct prioritize_answer scores;
    struct error err = {0};
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 4);
    assert_int_equal(sched_prioritize(&sched, &call, &mem, &scores, &err), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(scores.scores[i], 10);
}

static void test_a_body_that_differs_from_the_stored_pod(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50), tiny = container(RESOURCE_GPU, 1);
    struct candidates_call call = call_for(&half);
    struct filter_answer answer;
    struct error err = {0};
    assert_int_equal(sched_pod_changed(&sched, &call.pod), 0);
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    call.pod.containers = &tiny;
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), -ESTALE);
    call.pod.containers = &half;
    call.pod.id.name = STR("other");
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), -ESTALE);
    assert_int_equal(metrics_get(METRIC_FORGED_FILTERS, 0), 2);
}

/* Neither is answered anything but that it is invalid, and still one of them is not the pod's. */
static void test_an_invalid_body_that_differs_from_the_stored_pod(void **state)
{
    (void)state;
    struct container invalid = container(RESOURCE_GPU, 150), other = container(RESOURCE_GPU, 151);
    struct candidates_call call = call_for(&invalid);
    struct filter_answer answer;
    struct error err = {0};
    assert_int_equal(sched_pod_changed(&sched, &call.pod), 0);
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.reasons[0], REASON_INVALID);
    assert_int_equal(metrics_get(METRIC_FORGED_FILTERS, 0), 0);
    call.pod.containers = &other;
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), -ESTALE);
    assert_int_equal(metrics_get(METRIC_FORGED_FILTERS, 0), 1);
    call.pod.request_problem = STR("invalid resource unit");
    call.pod.container_count = 0;
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), -ESTALE);
    assert_int_equal(metrics_get(METRIC_FORGED_FILTERS, 0), 2);
}

static void test_duplicates_are_named_once(void **state)
{
    (void)state;
    static const struct str names[] = {{"gone", 4}, {"big", 3}, {"gone", 4}, {"big", 3}};
    struct container half = container(RESOURCE_GPU, 50), invalid = container(RESOURCE_GPU, 150);
    struct candidates_call call = call_for(&half);
    struct filter_answer answer;
    struct error err = {0};
    call.nodes = names;
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.reasons[2], REASON_DUPLICATE);
    assert_int_equal(answer.reasons[3], REASON_DUPLICATE);
    assert_int_equal(answer.fit_count, 1);
    call.pod.containers = &invalid;
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.reasons[1], REASON_INVALID);
    assert_int_equal(answer.reasons[3], REASON_DUPLICATE);
}

static void test_prioritize_uses_the_whole_range(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct candidates_call call = call_for(&half);
    struct prioritize_answer answer;
    struct error err = {0};
    call.node_count = 2;
    assert_int_equal(sched_prioritize(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.scores[0], 0);
    assert_int_equal(answer.scores[1], 10);
    atomic_store(&sched.node_policy, node_policy_find(STR("binpack")));
    assert_int_equal(sched_prioritize(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.scores[0], 10);
    assert_int_equal(answer.scores[1], 0);
}

static void test_a_pod_names_its_own_policy(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct candidates_call call = call_for(&half);
    struct prioritize_answer answer;
    struct error err = {0};
    call.node_count = 2;
    call.pod.policy_words.node = STR("binpack");
    assert_int_equal(sched_prioritize(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.scores[0], 10);
    assert_int_equal(answer.scores[1], 0);
    /* The stored pod's annotations are the newer ones. */
    assert_int_equal(sched_pod_changed(&sched, &call.pod), 0);
    call.pod.policy_words.node = STR("none");
    assert_int_equal(sched_prioritize(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.scores[1], 0);
    struct pod changed = call.pod;
    changed.policy_words.node = STR("spread");
    assert_int_equal(sched_pod_changed(&sched, &changed), 0);
    assert_int_equal(sched_prioritize(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.scores[0], 0);
    assert_int_equal(answer.scores[1], 10);
}

static void test_filter_of_an_invalid_policy(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50), cpu = container(RESOURCE_GPU, 0);
    struct candidates_call call = call_for(&half);
    struct filter_answer answer;
    struct error err = {0};
    call.pod.policy_words.device = STR("tight");
    for (int known = 0; known < 2; known++) {
        assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
        assert_int_equal(answer.fit_count, 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(answer.reasons[i], REASON_INVALID);
        assert_string_equal(answer.invalid_text,
                            "deviceshare.io/device-policy: \"tight\" is none of "
                            "default|binpack|spread|pack");
        assert_int_equal(sched_pod_changed(&sched, &call.pod), 0);
    }
    /* The call is older than the mistake. */
    call.pod.policy_words.device = STR("spread");
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 0);
    assert_string_equal(answer.invalid_text, "the placement annotations are invalid");
    /* It is mended. */
    assert_int_equal(sched_pod_changed(&sched, &call.pod), 0);
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 2);
    /* A pod without devices is none of our business. */
    call.pod.id.uid = STR("cpu");
    call.pod.containers = &cpu;
    call.pod.policy_words.device = STR("tight");
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 4);
}

/* Four nodes alike but for what is on them. */
static const struct str alike[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};

static struct candidates_call call_alike(const struct container *container)
{
    struct candidates_call call = call_for(container);
    for (int i = 0; i < 4; i++) {
        sched_node_changed(&sched, &(struct node_facts){.name = alike[i]});
        add_devices((const char[]){alike[i].data[0], '\0'}, 2, 16 * GI);
    }
    call.nodes = alike;
    return call;
}

/* The index of the only node that filter names; -1 if it names another number. */
static int only_node(const struct candidates_call *call)
{
    struct filter_answer answer;
    struct error err = {0};
    int only = -1;
    assert_int_equal(sched_filter(&sched, call, &mem, &answer, &err), 0);
    for (int i = 0; i < 4; i++)
        if (answer.reasons[i] == REASON_FITS)
            only = i;
    return answer.fit_count == 1 ? only : -1;
}

static void label(struct policy_words labels)
{
    assert_int_equal(sched_namespace_changed(&sched, STR("ns"), &labels), 0);
}

static int64_t score_of(const struct candidates_call *call, int node)
{
    struct prioritize_answer answer;
    struct error err = {0};
    assert_int_equal(sched_prioritize(&sched, call, &mem, &answer, &err), 0);
    return answer.scores[node];
}

static void occupy(const char *node);

/* A Namespace's labels come before the configuration (spread, prefer), a pod's annotations before them. */
static void test_defaults_of_a_namespace(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct candidates_call call = call_alike(&half);
    occupy("c");
    assert_int_equal(score_of(&call, 2), 0);
    label((struct policy_words){.node = STR("binpack"), .strength = STR("require")});
    assert_int_equal(score_of(&call, 2), 10);
    assert_int_equal(only_node(&call), 2);
    call.pod.policy_words.node = STR("spread");
    assert_int_equal(score_of(&call, 2), 0);
    call.pod.policy_words.strength = STR("prefer");
    assert_int_equal(only_node(&call), -1);
    call.pod.policy_words = (struct policy_words){0};
    call.pod.id.ns = STR("other");
    assert_int_equal(only_node(&call), -1);
    assert_int_equal(score_of(&call, 2), 0);

    /* What is no policy says nothing, also not what it said before; and it is counted. */
    call.pod.id.ns = STR("ns");
    uint64_t bad = metrics_get(METRIC_BAD_OBJECTS, OBJECT_NAMESPACE);
    label((struct policy_words){.node = STR("tight"), .strength = STR("require")});
    assert_int_equal(metrics_get(METRIC_BAD_OBJECTS, OBJECT_NAMESPACE), bad + 1);
    assert_int_equal(only_node(&call), -1);
    assert_int_equal(score_of(&call, 2), 0);
}

/* The same for a pod that is known, also for the card that it gets; until the Namespace goes. */
static void test_defaults_of_a_known_pod(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct candidates_call call = call_alike(&half);
    struct placement placement;
    enum reason reason;
    occupy("c");
    call.pod.id.uid = STR("known");
    assert_int_equal(sched_pod_changed(&sched, &call.pod), 0);
    label((struct policy_words){.node = STR("binpack"), .strength = STR("require"),
                                .device = STR("spread")});
    assert_int_equal(only_node(&call), 2);
    assert_int_equal(cache_book(cache, STR("known"), STR("c"), &device_policy_binpack, &placement,
                                &reason), BOOK_OK);
    assert_int_equal(placement.cards[0].share.minor, 1); /* card 0 has a pod */
    cache_forget(cache, STR("known"));
    uint32_t mark = sched_list_begin(&sched, CACHE_NAMESPACES);
    sched_list_end(&sched, CACHE_NAMESPACES, mark);
    assert_int_equal(only_node(&call), -1);
    label((struct policy_words){.strength = STR("require")});
    assert_int_not_equal(only_node(&call), 2);
    sched_namespace_gone(&sched, STR("ns"));
    assert_int_equal(only_node(&call), -1);
}

/* Where kube-scheduler asks about pods without devices, pack says where, and not twice the same. */
static void test_pack_of_pods_without_devices(void **state)
{
    (void)state;
    struct container cpu = container(RESOURCE_GPU, 0);
    struct candidates_call call = call_alike(&cpu);
    call.pod.policy_words = (struct policy_words){.node = STR("pack"), .strength = STR("require")};
    call.pod.host.cpu_milli = 1000;
    sched_node_changed(&sched, &(struct node_facts){.name = STR("b"), .allocatable = {2000, GI}});
    for (int i = 0; i < 4; i++)
        if (i != 1)
            sched_node_changed(&sched, &(struct node_facts){.name = alike[i],
                                                            .allocatable = {64000, 64 * GI}});
    int first = only_node(&call), second = only_node(&call);
    assert_int_equal(first, 1); /* too few cores for any pod with a card: its cards are lost anyway */
    assert_int_not_equal(second, 1);
    assert_int_not_equal(second, -1);
    assert_int_equal(score_of(&call, 1), 10);
}

static void occupy(const char *node)
{
    static struct container half;
    half = container(RESOURCE_GPU, 50);
    static const struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    struct pod pod = {.id = {STR("ns"), str_from(node), str_from(node)},
                      .node_name = str_from(node),
                      .containers = &half,
                      .container_count = 1,
                      .annotation = ANNOTATION_READ,
                      .shares = &share,
                      .share_count = 1};
    assert_int_equal(sched_pod_changed(&sched, &pod), 0);
}

static void test_filter_returns_the_best(void **state)
{
    (void)state;
    struct container tenth = container(RESOURCE_GPU, 10);
    struct candidates_call call = call_alike(&tenth);
    struct filter_answer answer;
    struct error err = {0};
    occupy("c");
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 4);
    atomic_store(&sched.max_candidates, 3);
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 3);
    assert_int_equal(answer.reasons[2], REASON_LEFT_OUT); /* spread: the fullest */
    atomic_store(&sched.max_candidates, 1);
    call.pod.policy_words.node = STR("binpack");
    assert_int_equal(only_node(&call), 2);
}

static void test_filter_with_require(void **state)
{
    (void)state;
    struct container tenth = container(RESOURCE_GPU, 10);
    struct candidates_call call = call_alike(&tenth);
    struct filter_answer answer;
    struct error err = {0};
    occupy("b");
    call.pod.policy_words.strength = STR("require");
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 3); /* equally empty: kube-scheduler's choice */
    assert_int_equal(answer.reasons[1], REASON_LEFT_OUT);
    call.pod.policy_words.node = STR("binpack");
    assert_int_equal(only_node(&call), 1);
    call.pod.policy_words.strength = STR("prefer");
    atomic_store(&sched.node_strength, STRENGTH_REQUIRE);
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 4); /* its own word counts */
    call.pod.policy_words.strength = (struct str){0};
    assert_int_equal(only_node(&call), 1);
}

static void test_require_passes_over_the_node_that_was_no_good(void **state)
{
    (void)state;
    struct container tenth = container(RESOURCE_GPU, 10);
    struct candidates_call call = call_alike(&tenth);
    occupy("b");
    call.pod.policy_words.strength = STR("require");
    call.pod.policy_words.node = STR("binpack");
    assert_int_equal(sched_pod_changed(&sched, &call.pod), 0);
    assert_int_equal(only_node(&call), 1);
    int second = only_node(&call);
    assert_true(second >= 0 && second != 1);
    assert_int_equal(only_node(&call), 1);
    /* Alone it is better than none. */
    call.nodes = &alike[1];
    call.node_count = 1;
    struct filter_answer answer;
    struct error err = {0};
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 1);
}

static uint64_t not_yet(void *self, struct error *err)
{
    (void)self;
    error_set(err, -ECANCELED, "not sent: not yet");
    return 0;
}

/* A bind call shows that everybody behind filter agreed. What we refuse ourselves, for a while, is no reason to
 * send the pods of one burst to another node than its first. */
static void test_require_keeps_the_node_whose_bind_was_refused(void **state)
{
    (void)state;
    struct container tenth = container(RESOURCE_GPU, 10);
    struct candidates_call call = call_alike(&tenth);
    struct error err = {0};
    occupy("b");
    call.pod.policy_words.strength = STR("require");
    call.pod.policy_words.node = STR("binpack");
    assert_int_equal(sched_pod_changed(&sched, &call.pod), 0);
    assert_int_equal(only_node(&call), 1);
    sched.port.may_bind = not_yet;
    struct bind_call bind = {call.pod.id, alike[1]};
    assert_int_equal(sched_bind(&sched, &bind, &mem, &err), -EIO);
    assert_int_equal(only_node(&call), 1);
}

static void test_filter_holds_what_it_named_alone(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50), whole = container(RESOURCE_NVIDIA_GPU, 1);
    struct candidates_call first = call_for(&whole), second = call_for(&half);
    struct filter_answer answer;
    struct error err = {0};
    atomic_store(&sched.tentative, true);
    first.node_count = second.node_count = 1; /* "small" has one card */
    second.pod.id.uid = STR("second");
    assert_int_equal(sched_filter(&sched, &first, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 1);
    assert_int_equal(metrics_get(METRIC_TENTATIVE, 0), 0); /* not known as pending */
    assert_int_equal(sched_pod_changed(&sched, &first.pod), 0);
    assert_int_equal(sched_filter(&sched, &first, &mem, &answer, &err), 0);
    assert_int_equal(metrics_get(METRIC_TENTATIVE, 0), 1);
    assert_int_equal(sched_filter(&sched, &second, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 0);
    sched_pod_gone(&sched, STR("u"));
    assert_int_equal(sched_filter(&sched, &second, &mem, &answer, &err), 0);
    assert_int_equal(answer.fit_count, 1);
}

static void test_filter_waits_for_the_one_before(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct candidates_call first = call_for(&half), second = call_for(&half);
    struct filter_answer answer;
    struct error err = {0};
    atomic_store(&sched.in_flight_wait_ns, 1000000);
    second.pod.id.uid = STR("second");
    assert_int_equal(sched_pod_changed(&sched, &first.pod), 0);
    assert_int_equal(sched_filter(&sched, &first, &mem, &answer, &err), 0);
    assert_int_equal(sched_filter(&sched, &first, &mem, &answer, &err), 0);
    assert_int_equal(metrics_get(METRIC_FILTER_WAITS, WAIT_TIMEOUT), 0);
    assert_int_equal(sched_filter(&sched, &second, &mem, &answer, &err), 0);
    assert_int_equal(metrics_get(METRIC_FILTER_WAITS, WAIT_TIMEOUT), 1);
    assert_int_equal(sched_filter(&sched, &second, &mem, &answer, &err), 0);
    assert_int_equal(metrics_get(METRIC_FILTER_WAITS, WAIT_TIMEOUT), 1);
    /* A pod that fits nowhere is nobody to wait for. */
    first.node_count = 0;
    assert_int_equal(sched_filter(&sched, &first, &mem, &answer, &err), 0);
    assert_int_equal(sched_filter(&sched, &second, &mem, &answer, &err), 0);
    assert_int_equal(metrics_get(METRIC_FILTER_WAITS, WAIT_TIMEOUT), 1);
    assert_int_equal(metrics_get(METRIC_FILTER_WAITS, WAIT_ARRIVED), 0);
}

static void test_preempt_keeps_what_helps(void **state)
{
    (void)state;
    struct container whole = container(RESOURCE_NVIDIA_GPU, 1), half = container(RESOURCE_GPU, 50);
    struct share share = {DEVICE_GPU, 0, {50, 50, 8 * GI}, 0};
    struct pod victim = {.id = {STR("ns"), STR("v"), STR("v")},
                         .node_name = STR("small"),
                         .containers = &half,
                         .container_count = 1,
                         .annotation = ANNOTATION_READ,
                         .shares = &share,
                         .share_count = 1};
    assert_int_equal(sched_pod_changed(&sched, &victim), 0);
    struct str uids[] = {STR("v"), STR("cpu-pod")};
    struct preempt_victims nodes[] = {{STR("small"), uids, 2, 0},
                                      {STR("small"), &uids[1], 1, 0},
                                      {STR("big"), NULL, 0, 0},
                                      {STR("gone"), uids, 1, 0}};
    struct preempt_call call = {
        .pod = {.id = {STR("ns"), STR("p"), STR("u")}, .containers = &whole, .container_count = 1},
        .nodes = nodes,
        .node_count = 4,
    };
    struct preempt_answer answer;
    struct error err = {0};
    assert_int_equal(sched_preempt(&sched, &call, &mem, &answer, &err), 0);
    assert_true(answer.keep[0]);
    assert_false(answer.keep[1]); /* this victim frees no card */
    assert_false(answer.keep[2]); /* no victims */
    assert_false(answer.keep[3]); /* unknown node */
}

/* A placed pod whose annotation says less than its request is not what an edited one is. */
static void test_drift_is_told_apart(void **state)
{
    (void)state;
    struct container two = container(RESOURCE_NVIDIA_GPU, 2);
    struct share shares[] = {{DEVICE_GPU, 0, {100, 100, 80 * GI}, 0},
                             {DEVICE_GPU, 1, {90, 100, 80 * GI}, 0}};
    struct pod pod = {.id = {STR("ns"), STR("v"), STR("v")},
                      .node_name = STR("big"),
                      .containers = &two,
                      .container_count = 1,
                      .annotation = ANNOTATION_READ,
                      .shares = shares,
                      .share_count = 1};
    assert_int_equal(sched_pod_changed(&sched, &pod), 0);
    assert_int_equal(metrics_get(METRIC_DRIFT, DRIFT_INCOMPLETE), 1);
    pod.id.uid = STR("w");
    pod.share_count = 2;
    assert_int_equal(sched_pod_changed(&sched, &pod), 0);
    assert_int_equal(metrics_get(METRIC_DRIFT, DRIFT_INCONSISTENT), 1);
    assert_int_equal(metrics_get(METRIC_DRIFT, DRIFT_INCOMPLETE), 1);
}

/* A pod that has 75 % of the first card of a node is seen there. */
static void see_holder(const char *node, const char *name)
{
    struct container asks = container(RESOURCE_GPU_CORE, 60);
    asks.requests.amount[RESOURCE_GPU_MEMORY_RATIO] = 75;
    struct share share = {DEVICE_GPU, 0, {60, 75, 12 * GI}, 0};
    struct pod pod = {.id = {STR("ns"), str_from(name), str_from(name)},
                      .node_name = str_from(node),
                      .containers = &asks,
                      .container_count = 1,
                      .annotation = ANNOTATION_READ,
                      .shares = &share,
                      .share_count = 1};
    assert_int_equal(sched_pod_changed(&sched, &pod), 0);
}

static uint64_t doubled(void)
{
    return metrics_get(METRIC_DRIFT, DRIFT_DOUBLED);
}

/* Two writers gave one card away: both pods are counted, each once, and the card gives nothing more. */
static void test_a_card_given_twice_is_found_and_closed(void **state)
{
    (void)state;
    see_holder("small", "first");
    assert_int_equal(doubled(), 0);
    see_holder("small", "late");
    see_holder("small", "late");
    assert_int_equal(doubled(), 2);

    struct container memory = container(RESOURCE_GPU_MEMORY_RATIO, 25);
    struct candidates_call call = call_for(&memory);
    struct filter_answer answer;
    struct error err = {0};
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_not_equal(answer.reasons[0], REASON_FITS);
    sched_pod_gone(&sched, STR("first"));
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    assert_int_equal(answer.reasons[0], REASON_FITS);
}

/* Nobody knows how much a card has while its Device was not seen. */
static void test_a_card_given_twice_is_found_by_its_device(void **state)
{
    (void)state;
    see_holder("bare", "first");
    see_holder("bare", "late");
    assert_int_equal(doubled(), 0);
    add_devices("bare", 1, 16 * GI);
    add_devices("bare", 2, 16 * GI);
    assert_int_equal(doubled(), 2);
    see_holder("bare", "third");
    assert_int_equal(doubled(), 3);
    sched_device_gone(&sched, STR("bare"));
    add_devices("bare", 1, 16 * GI);
    assert_int_equal(doubled(), 3);
}

/* Its holders are named later, not forgotten. */
static void test_memory_ends_in_naming_a_holder(void **state)
{
    (void)state;
    see_holder("bare", "first");
    see_holder("bare", "late");
    struct device device = {DEVICE_GPU, 0, true, {100, 100, 16 * GI}, STR(""), STR(""), 0};
    struct inventory inventory = {.devices = &device, .count = 1};
    struct error err;
    assert_int_equal(cache_devices_set(cache, STR("bare"), &inventory, &err), 0);
    mem_fail_at(1);
    sched_device_gone(&sched, STR("nowhere"));
    mem_fail_at(0);
    assert_int_equal(doubled(), 0);
    sched_device_gone(&sched, STR("nowhere"));
    assert_int_equal(doubled(), 2);
}

static void test_not_synced(void **state)
{
    (void)state;
    struct container half = container(RESOURCE_GPU, 50);
    struct candidates_call call = call_for(&half);
    struct filter_answer answer;
    struct prioritize_answer scores;
    struct error err = {0};
    sched_set_synced(&sched, false);
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), -EAGAIN);
    assert_int_equal(sched_prioritize(&sched, &call, &mem, &scores, &err), -EAGAIN);
    sched_set_synced(&sched, true);
    sched_set_leading(&sched, false);
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), -EPERM);
    sched_set_leading(&sched, true);
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
}

static void test_memory_ends_in_filter(void **state)
{
    (void)state;
    static const struct str names[] = {{"gone", 4}, {"x", 1}, {"y", 1}};
    struct container half = container(RESOURCE_GPU, 50);
    struct candidates_call call = call_for(&half);
    struct filter_answer answer;
    struct error err = {0};
    call.nodes = names;
    call.node_count = 3;
    /* What is remembered of nodes is remembered from now on; without room for that, nothing else changes. */
    assert_int_equal(sched_filter(&sched, &call, &mem, &answer, &err), 0);
    long n = 1;
    for (;; n++) {
        struct arena fresh;
        arena_init(&fresh, 0);
        mem_fail_at(n);
        int rc = sched_filter(&sched, &call, &fresh, &answer, &err);
        mem_fail_at(0);
        arena_done(&fresh);
        if (rc == 0)
            break;
        assert_int_equal(rc, -ENOMEM);
    }
    assert_true(n > 2);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_filter_says_why),
        CASE(test_filter_of_an_invalid_request),
        CASE(test_pods_without_devices_are_neutral),
        CASE(test_defaults_of_a_namespace),
        CASE(test_defaults_of_a_known_pod),
        CASE(test_pack_of_pods_without_devices),
        CASE(test_a_body_that_differs_from_the_stored_pod),
        CASE(test_an_invalid_body_that_differs_from_the_stored_pod),
        CASE(test_duplicates_are_named_once),
        CASE(test_prioritize_uses_the_whole_range),
        CASE(test_a_pod_names_its_own_policy),
        CASE(test_filter_of_an_invalid_policy),
        CASE(test_filter_returns_the_best),
        CASE(test_filter_with_require),
        CASE(test_require_passes_over_the_node_that_was_no_good),
        CASE(test_require_keeps_the_node_whose_bind_was_refused),
        CASE(test_filter_holds_what_it_named_alone),
        CASE(test_filter_waits_for_the_one_before),
        CASE(test_preempt_keeps_what_helps),
        CASE(test_drift_is_told_apart),
        CASE(test_a_card_given_twice_is_found_and_closed),
        CASE(test_a_card_given_twice_is_found_by_its_device),
        CASE(test_memory_ends_in_naming_a_holder),
        CASE(test_not_synced),
        CASE(test_memory_ends_in_filter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
