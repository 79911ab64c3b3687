/* SPDX-License-Identifier: Apache-2.0 */
/* HAMi's vectors on nodes: which cards a pod gets, why it gets none, how pods in a row lie, what is
 * booked. */
#include "hami.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/hami.h"
#include "core/allocate.h"
#include "core/policy.h"
#include "sched/intake.h"
#include "state/cache.h"

/* ---- cards that are alike ---- */

/* Which of equal cards is taken is everybody's own rule: a card is known by what the vector says of
 * it, but for its name and place. */
static json_object *alike(json_object *devices, const char *id)
{
    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        json_object *device = json_object_array_get_idx(devices, i);
        if (strcmp(json_text(device, "id", ""), id) != 0)
            continue;
        static const char *const keys[] = {"type",  "health", "slots", "mem",
                                           "cores", "used",   "score"};
        json_object *kind = json_new_object();
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            json_put(kind, keys[k], json_object_get(json_get(device, keys[k])));
        return kind;
    }
    return json_object_new_string(id);
}

static int by_text(const void *a, const void *b)
{
    json_object *const *x = a, *const *y = b;
    return strcmp(json_compact(*x), json_compact(*y));
}

/* What one container has: an entry has an "id", or is one. Sorted. */
static json_object *alike_list(json_object *devices, json_object *list)
{
    json_object *result = json_new_array();
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        json_object *entry = json_object_array_get_idx(list, i), *out = json_new_object();
        bool name = json_object_is_type(entry, json_type_string);
        const char *id = name ? json_object_get_string(entry) : json_text(entry, "id", "");
        json_put(out, "card", alike(devices, id));
        if (!name) {
            json_put(out, "mem", json_object_get(json_get(entry, "mem")));
            json_put(out, "cores", json_object_get(json_get(entry, "cores")));
        }
        json_push(result, out);
    }
    json_object_array_sort(result, by_text);
    return result;
}

/* Of all containers. */
static json_object *alike_lists(json_object *devices, json_object *lists)
{
    json_object *result = json_new_array();
    for (size_t i = 0; lists != NULL && i < json_object_array_length(lists); i++)
        json_push(result, alike_list(devices, json_object_array_get_idx(lists, i)));
    return result;
}

static const char *id_at(json_object *devices, int32_t minor)
{
    return json_text(json_object_array_get_idx(devices, (size_t)minor), "id", "");
}

/* A plan in the vector's form: per container what it has of which card. */
static json_object *containers_of(const struct pod *pod, const struct plan *plan,
                                  json_object *devices)
{
    json_object *lists = json_new_array();
    for (uint32_t c = 0, part = 0; c < pod->container_count; c++) {
        json_object *list = json_new_array();
        for (; part < plan->part_count && plan->parts[part].container == c; part++) {
            json_object *entry = json_new_object();
            json_put_text(entry, "id", id_at(devices, plan->parts[part].minor));
            json_put_int(entry, "mem", plan->parts[part].amount.bytes / MIB);
            json_put_int(entry, "cores", plan->parts[part].amount.percent);
            json_push(list, entry);
        }
        json_push(lists, list);
    }
    return lists;
}

/* ---- why not ---- */

/* HAMi's word for what our explanation says of a card, the first that HAMi would find. */
static const char *word_of(const char *text, const struct gpu_detail *detail, json_object *device)
{
    if (strstr(text, "unhealthy") != NULL)
        return "CardNotHealth";
    if (strstr(text, "not of the type or id") != NULL) {
        struct card_selection by_model = detail->select;
        by_model.use_id = by_model.no_id = (struct str){0};
        return card_selected(&by_model, json_slice(json_get(device, "type")), (struct str){0})
                   ? "CardUuidMismatch"
                   : "CardTypeMismatch";
    }
    if (strstr(text, "as many as may share it") != NULL)
        return "CardTimeSlicingExhausted";
    if (strstr(text, "memory") != NULL && strstr(text, "wanted, ") != NULL &&
        strstr(text, "% core wanted") == NULL)
        return "CardInsufficientMemory";
    if (strstr(text, "in use by") != NULL)
        return "ExclusiveDeviceAllocateConflict";
    if (strstr(text, "all core taken") != NULL)
        return "CardComputeUnitsExhausted";
    return strstr(text, "memory ") != NULL ? "CardInsufficientMemory" : "CardInsufficientCore";
}

/* One card alone, as the explanation sees it; NULL if the request fits there. */
static const char *judge_card(const struct hami_cards *node, uint32_t row,
                              const struct pod_request *request, const struct device_request *gpu)
{
    static struct card_copy alone;
    struct cards window = node->cards->cards;
    struct pod_request one = {.detail = request->detail};
    char text[512];
    window.first = row;
    window.count[DEVICE_GPU] = 1;
    cards_copy(&window, &alone);
    one.of[DEVICE_GPU] = *gpu;
    one.of[DEVICE_GPU].count = 1;
    if (allocate_explain(&alone.cards, &one, text, sizeof text) == 0)
        return NULL;
    /* Behind the sentence on all cards. */
    const char *card = strchr(text, ';');
    return word_of(card != NULL ? card : text, request->detail,
                   json_object_array_get_idx(node->devices, row));
}

static void count_word(json_object *counts, const char *word, int64_t more)
{
    json_put_int(counts, word, hami_number(counts, word) + more);
}

/* Counts by HAMi's words for the first container that does not fit. */
static json_object *reasons_of(const struct hami_cards *node, const struct pod_request *request)
{
    const struct gpu_detail *detail = request->detail;
    uint32_t cards = node->cards->cards.count[DEVICE_GPU];
    for (uint32_t c = 0; detail != NULL && c < detail->count; c++) {
        json_object *counts = json_new_object();
        int64_t fits = 0;
        for (uint32_t row = 0; row < cards; row++) {
            const char *word = judge_card(node, row, request, &detail->containers[c].gpu);
            if (word != NULL)
                count_word(counts, word, 1);
            else
                fits++;
        }
        if (fits > 0 && fits < detail->containers[c].gpu.count)
            count_word(counts, "AllocatedCardsInsufficientRequest", fits);
        if (fits < detail->containers[c].gpu.count)
            return counts;
        json_object_put(counts);
    }
    return json_new_object();
}

/* "2/2 CardInsufficientMemory", in the order of the text. */
static json_object *reason_text_of(json_object *counts, size_t total)
{
    json_object *parts = json_new_array();
    char text[512] = "", part[128];
    json_object_object_foreach(counts, word, count)
    {
        (void)snprintf(part, sizeof part, "%lld/%zu %s", (long long)json_object_get_int64(count),
                       total, word);
        json_push(parts, json_object_new_string(part));
    }
    json_object_array_sort(parts, by_text);
    for (size_t i = 0; i < json_object_array_length(parts); i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof text - len, "%s%s", i > 0 ? ", " : "",
                       json_object_get_string(json_object_array_get_idx(parts, i)));
    }
    json_object_put(parts);
    return json_object_new_string(text);
}

/* ---- one node ---- */

/* HAMi's default order of cards is spread. */
static const struct device_policy *policy_of(struct vector *v, const struct pod *pod)
{
    json_object *name = json_get(json_get(v->given, "policy"), "gpu");
    struct str word = pod->policy_words.hami_device;
    if (word.len == 0 && name != NULL)
        word = json_slice(name);
    return device_policy_find(word.len > 0 ? word : STR("spread"));
}

static void put_expected(struct vector *v, json_object *answer, json_object *expected)
{
    json_put(answer, "(expected)", expected); /* freed with the answer */
    v->expect = expected;
}

static json_object *copy_of(json_object *value)
{
    json_object *copy = NULL;
    if (json_object_deep_copy(value, &copy, NULL) < 0)
        exit(2);
    return copy;
}

/* Of a fit record: "devices" is a list of ids, which may be taken in any order. */
static void answer_fit(struct vector *v, json_object *answer, struct hami_cards *node,
                       const struct pod *pod, const struct pod_request *request)
{
    static struct plan plan;
    enum reason reason = allocate_choose(&node->cards->cards, request, policy_of(v, pod), &plan);
    json_object *expected = copy_of(v->expect), *ids = json_new_array();
    bool fits = reason == REASON_FITS;
    json_put_bool(answer, "fits", fits);
    for (uint32_t i = 0; fits && i < plan.part_count; i++) {
        json_push(ids, json_object_new_string(id_at(node->devices, plan.parts[i].minor)));
        json_put_int(answer, "mem_each", plan.parts[i].amount.bytes / MIB);
    }
    json_put_int(answer, "device_count", fits ? plan.part_count : 0);
    json_put(answer, "devices", alike_list(node->devices, ids));
    json_object_put(ids);
    if (json_get(expected, "devices") != NULL)
        json_put(expected, "devices", alike_list(node->devices, json_get(expected, "devices")));
    put_expected(v, answer, expected);
    json_object *counts = fits ? json_new_object() : reasons_of(node, request);
    json_put(answer, "reasons", counts);
    json_put(answer, "reason_text",
             reason_text_of(counts, json_object_array_length(node->devices)));
    /* A node with too few cards at all has a word of its own. */
    if (!fits && request->of[DEVICE_GPU].count > (int64_t)json_object_array_length(node->devices))
        json_put_text(answer, "reason", "NodeInsufficientDevice");
    else
        json_put(answer, "reason", json_object_get(json_get(answer, "reason_text")));
}

/* Cards of several vendors in one container, each kind as a resource of its vendor's. */
static bool ask_vendors(struct vector *v, json_object *kinds, struct pod *ret_pod,
                        struct pod_request *ret)
{
    json_object *container = json_new_object();
    struct error err;
    for (size_t i = 0; i < json_object_array_length(kinds); i++) {
        json_object *kind = json_object_array_get_idx(kinds, i);
        char name[64];
        (void)snprintf(name, sizeof name, "%s.example.com/gpu", json_text(kind, "type", ""));
        json_put_int(json_sub(container, "limits"), name, hami_number(kind, "gpus"));
    }
    bool ok = hami_ask_written(v, container, ret_pod);
    json_object_put(container);
    if (ok && intake_request(ret_pod, &hami_rules_default, ret, &err) < 0) {
        vector_fail(v, "request", "a valid one", err.text);
        return false;
    }
    return ok;
}

static void run_fit(struct vector *v, json_object *answer)
{
    static const char *const lists[] = {"devices_in_sorted_order", "devices"};
    struct hami_cards node;
    struct pod pod;
    struct pod_request request = {0};
    json_object *devices = NULL, *app = json_new_array(), *kinds = json_get(v->given, "requests");
    for (size_t i = 0; devices == NULL && i < 2; i++)
        devices = json_get(v->given, lists[i]);
    json_object *annotations = json_get(json_get(v->given, "pod"), "annotations");
    annotations = annotations != NULL ? copy_of(annotations) : json_new_object();
    json_push(app, json_object_get(json_get(v->given, "request")));
    /* Cards of another type than the request's are those that its owner excludes. */
    const char *type = json_text(json_get(v->given, "request"), "type", "NVIDIA");
    if (strcmp(type, "NVIDIA") != 0)
        json_put_text(annotations, ANNOTATION_HAMI_USE_TYPE, type);
    if (fields_known(v, "given.pod", json_get(v->given, "pod"), "annotations") &&
        hami_read_cards(v, devices, &node) &&
        (kinds != NULL ? ask_vendors(v, kinds, &pod, &request)
                       : hami_ask(v, annotations, NULL, app, &pod, &request)))
        answer_fit(v, answer, &node, &pod, &request);
    json_object_put(annotations);
    json_object_put(app);
}

static void run_place(struct vector *v, json_object *answer)
{
    static struct plan plan;
    json_object *pod_json = json_get(v->given, "pod"), *nodes = json_get(v->given, "nodes");
    json_object *expected = copy_of(v->expect);
    struct pod pod;
    struct pod_request request;
    put_expected(v, answer, expected);
    if (!fields_known(v, "given.pod", pod_json, "annotations init app") ||
        !hami_ask(v, json_get(pod_json, "annotations"), json_get(pod_json, "init"),
                  json_get(pod_json, "app"), &pod, &request))
        return;
    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        json_object *node_json = json_object_array_get_idx(nodes, i),
                    *node_answer = json_new_object();
        const char *name = json_text(node_json, "name", "");
        struct hami_cards node;
        json_put(json_sub(answer, "nodes"), name, node_answer);
        if (!hami_read_cards(v, json_get(node_json, "devices"), &node))
            return;
        bool fits =
            allocate_choose(&node.cards->cards, &request, policy_of(v, &pod), &plan) == REASON_FITS;
        json_object *stated = json_get(json_get(expected, "nodes"), name);
        json_put_bool(node_answer, "fits", fits);
        if (stated != NULL)
            json_object_object_del(stated, "score"); /* HAMi's formula; ours are our own */
        if (fits) {
            json_object *lists = containers_of(&pod, &plan, node.devices);
            json_put(node_answer, "devices", alike_lists(node.devices, lists));
            json_object_put(lists);
            if (json_get(stated, "devices") != NULL)
                json_put(stated, "devices", alike_lists(node.devices, json_get(stated, "devices")));
            continue;
        }
        json_object *counts = reasons_of(&node, &request);
        json_put(node_answer, "reason",
                 reason_text_of(counts, json_object_array_length(node.devices)));
        json_object_put(counts);
    }
}

/* ---- several nodes ---- */

#define NODES_MAX 8

struct hami_cluster {
    size_t count;
    json_object *json[NODES_MAX];
    struct hami_cards node[NODES_MAX];
};

static bool read_cluster(struct vector *v, json_object *nodes, struct hami_cluster *ret)
{
    ret->count = json_object_array_length(nodes);
    if (ret->count > NODES_MAX) {
        vector_unsupported(v, "more than %d nodes", NODES_MAX);
        return false;
    }
    for (size_t i = 0; i < ret->count; i++) {
        ret->json[i] = json_object_array_get_idx(nodes, i);
        if (!hami_read_cards(v, json_get(ret->json[i], "devices"), &ret->node[i]))
            return false;
    }
    return true;
}

/* The node that the policy ranks first of those that fit, and the plan there; `from` breaks ties.
 */
static size_t choose_node(const struct hami_cluster *cluster, const struct pod *pod,
                          const struct pod_request *request, size_t from, struct plan *plan)
{
    const struct node_policy *policy = node_policy_find(pod->policy_words.hami_node);
    size_t best = cluster->count;
    int64_t best_score = -1;
    for (size_t i = 0; policy != NULL && i < cluster->count; i++) {
        size_t at = (from + i) % cluster->count;
        const struct cards *cards = &cluster->node[at].cards->cards;
        if (allocate_verdict(cards, request) != REASON_FITS)
            continue;
        int64_t score = policy->score(cards, request);
        if (score > best_score) {
            best = at;
            best_score = score;
        }
    }
    if (best < cluster->count)
        (void)allocate_choose(&cluster->node[best].cards->cards, request,
                              device_policy_find(pod->policy_words.hami_device), plan);
    return best;
}

static void run_filter(struct vector *v, json_object *answer)
{
    static struct plan plan;
    json_object *pod_json = json_get(v->given, "pod"), *expected = copy_of(v->expect);
    struct hami_cluster cluster;
    struct pod pod;
    struct pod_request request;
    put_expected(v, answer, expected);
    if (!fields_known(v, "given.pod", pod_json, "annotations init app") ||
        !read_cluster(v, json_get(v->given, "nodes"), &cluster) ||
        !hami_ask(v, json_get(pod_json, "annotations"), json_get(pod_json, "init"),
                  json_get(pod_json, "app"), &pod, &request))
        return;
    size_t best = choose_node(&cluster, &pod, &request, 0, &plan);
    if (best == cluster.count)
        return;
    const char *id = id_at(cluster.node[best].devices, plan.parts[0].minor);
    json_object *any = json_get(expected, "first_device_any_of");
    json_put_text(answer, "node", json_text(cluster.json[best], "name", ""));
    bool found = false;
    for (size_t i = 0; any != NULL && i < json_object_array_length(any); i++)
        found |= strcmp(json_object_get_string(json_object_array_get_idx(any, i)), id) == 0;
    json_object *ours = json_new_array();
    json_push(ours, json_object_new_string(id));
    json_put(answer, "first_device_any_of", found ? json_object_get(any) : json_object_get(ours));
    json_object_put(ours);
}

/* ---- pods in a row ---- */

/* How many pods each node and each card has, larger numbers first. */
static json_object *sorted_counts(const unsigned *counts, size_t size)
{
    json_object *list = json_new_array();
    for (unsigned value = 100; value > 0; value--)
        for (size_t i = 0; i < size; i++)
            if (counts[i] == value)
                json_push(list, json_object_new_int64(value));
    return list;
}

static bool place_row(struct vector *v, struct hami_cluster *cluster, json_object *pods,
                      size_t from, json_object *shape)
{
    static struct plan plan;
    unsigned on_node[NODES_MAX] = {0}, on_card[NODES_MAX][CARDS_PER_NODE_MAX] = {{0}};
    json_object *group = json_object_array_get_idx(pods, 0);
    struct pod pod;
    struct pod_request request;
    if (json_object_array_length(pods) != 1 ||
        !fields_known(v, "given.pods", group, "replicas annotations app") ||
        !hami_ask(v, json_get(group, "annotations"), NULL, json_get(group, "app"), &pod, &request))
        return false;
    for (int64_t i = 0; i < hami_number(group, "replicas"); i++) {
        size_t at = choose_node(cluster, &pod, &request, from, &plan);
        if (at == cluster->count)
            return false;
        on_node[at]++;
        for (uint32_t s = 0; s < plan.count; s++) {
            uint32_t row = (uint32_t)plan.shares[s].minor;
            on_card[at][row]++;
            cards_charge(&cluster->node[at].cards->columns, row, &plan.shares[s].amount, 1, 1);
        }
    }
    json_object *nodes = sorted_counts(on_node, NODES_MAX);
    json_object *cards = sorted_counts(&on_card[0][0], (size_t)NODES_MAX * CARDS_PER_NODE_MAX);
    bool one_each = true;
    for (size_t n = 0; n < NODES_MAX; n++) {
        unsigned used = 0;
        for (size_t c = 0; c < CARDS_PER_NODE_MAX; c++)
            used += on_card[n][c] > 0;
        one_each &= used <= 1;
    }
    json_put_int(shape, "nodes_used", (int64_t)json_object_array_length(nodes));
    json_put_int(shape, "devices_used", (int64_t)json_object_array_length(cards));
    json_put(shape, "pods_per_node", nodes);
    json_put(shape, "pods_per_device", cards);
    json_put_bool(shape, "one_device_per_node", one_each);
    return true;
}

/* Play the pods, ties broken in favour of node `from`. A new shape, or NULL. */
static json_object *play(struct vector *v, json_object *given, json_object *pods, size_t from)
{
    struct hami_cluster cluster;
    json_object *shape = json_new_object();
    if (read_cluster(v, json_get(given, "nodes"), &cluster) &&
        place_row(v, &cluster, pods, from, shape))
        return shape;
    json_object_put(shape);
    if (vector_supported(v))
        vector_fail(v, "pods", "all placed", "one that is not");
    return NULL;
}

static void run_sequence(struct vector *v, json_object *answer)
{
    json_object *shape = play(v, v->given, json_get(v->given, "pods"), 0);
    json_put(answer, "shape", shape);
}

/* The vector that another one is the same as. One that is missing here has the nodes and pods of
 * seed-2x2-B, with the annotations that its last letter stands for. */
static json_object *find_vector(const char *id)
{
    for (size_t i = 0; i < json_object_array_length(hami_vectors); i++) {
        json_object *vector = json_object_array_get_idx(hami_vectors, i);
        if (strcmp(json_text(vector, "id", ""), id) == 0)
            return vector;
    }
    return NULL;
}

static void set_mode(json_object *pods, char mode)
{
    static const char *const modes[][2] = {
        {"binpack", "binpack"}, {"spread", "binpack"}, {"binpack", "spread"}, {"spread", "spread"}};
    json_object *annotations = json_sub(json_object_array_get_idx(pods, 0), "annotations");
    if (mode < 'A' || mode > 'D')
        return;
    json_put_text(annotations, ANNOTATION_HAMI_NODE_POLICY, modes[mode - 'A'][0]);
    json_put_text(annotations, ANNOTATION_HAMI_DEVICE_POLICY, modes[mode - 'A'][1]);
}

static bool is_among(json_object *shapes, json_object *shape)
{
    json_object_object_del(shape, "one_device_per_node");
    for (size_t i = 0; i < json_object_array_length(shapes); i++)
        if (json_object_equal(json_object_array_get_idx(shapes, i), shape))
            return true;
    return false;
}

static void run_outcomes(struct vector *v, json_object *answer)
{
    const char *id = json_text(v->given, "same_as", "");
    json_object *base = find_vector(id), *shapes = json_get(v->expect, "reachable_shapes");
    if (base == NULL)
        base = find_vector("seed-2x2-B");
    if (base == NULL || shapes == NULL) {
        vector_unsupported(v, "no vector that it is the same as");
        return;
    }
    json_object *given = json_get(base, "given"), *pods = copy_of(json_get(given, "pods"));
    set_mode(pods, id[0] != '\0' ? id[strlen(id) - 1] : ' ');
    json_put(answer, "reachable_shapes", json_object_get(shapes));
    for (size_t from = 0; from < json_object_array_length(json_get(given, "nodes")); from++) {
        json_object *shape = play(v, given, pods, from);
        if (shape == NULL)
            break;
        if (!is_among(shapes, shape))
            vector_fail(v, "reachable_shapes", json_compact(shapes), json_compact(shape));
        json_object_put(shape);
    }
    json_object_put(pods);
}

/* ---- what is booked ---- */

/* A cache with one node of these cards. */
static struct cache *cache_with(struct vector *v, json_object *devices)
{
    struct cache *cache = cache_new(UNKNOWN_PODS_CLOSE);
    size_t count = json_object_array_length(devices);
    struct device *cards = arena_alloc(&v->mem, count, sizeof *cards);
    struct error err;
    for (size_t i = 0; i < count; i++) {
        json_object *device = json_object_array_get_idx(devices, i);
        cards[i] = (struct device){
            .kind = DEVICE_GPU,
            .minor = (int32_t)i,
            .healthy = json_truth(device, "health", true),
            .total = {hami_number(device, "cores"), 100, hami_number(device, "mem") * MIB},
            .id = json_slice(json_get(device, "id")),
            .slots = (uint32_t)hami_number(device, "slots"),
        };
    }
    cache_node_set(cache, &(struct node_facts){.name = STR("n")});
    struct inventory inventory = {.devices = cards, .count = (uint32_t)count};
    if (cache_registration_set(cache, STR("n"), &inventory, &err) < 0)
        vector_fail(v, "devices", "an inventory", err.text);
    return cache;
}

/* A running pod with what its containers have, as HAMi's annotation says it. */
static struct pod running_pod(struct vector *v, const char *uid, json_object *json)
{
    json_object *lists[] = {json_get(json, "init"), json_get(json, "app")};
    json_object *alone = json_get(json, "devices");
    struct part parts[CARDS_PER_POD_MAX];
    const char *ids[CARDS_PER_POD_MAX];
    uint32_t part_count = 0, id_count = 0, container = 0;
    for (size_t l = 0; l < 2; l++) {
        size_t containers = lists[l] != NULL ? json_object_array_length(lists[l]) : 0;
        if (l == 1 && alone != NULL)
            containers = 1;
        for (size_t c = 0; c < containers; c++, container++) {
            json_object *list = alone != NULL ? alone : json_object_array_get_idx(lists[l], c);
            for (size_t i = 0; i < json_object_array_length(list); i++) {
                json_object *device = json_object_array_get_idx(list, i);
                uint32_t id = 0;
                while (id < id_count && strcmp(ids[id], json_text(device, "id", "")) != 0)
                    id++;
                if (id == id_count)
                    ids[id_count++] = json_text(device, "id", "");
                parts[part_count++] =
                    (struct part){.container = container,
                                  .role = l == 0 ? CONTAINER_INIT : CONTAINER_APP,
                                  .minor = (int32_t)id,
                                  .amount = {.percent = hami_number(device, "cores"),
                                             .bytes = hami_number(device, "mem")}};
            }
        }
    }
    struct named_share *named = arena_alloc(&v->mem, id_count, sizeof *named);
    for (uint32_t i = 0; i < id_count; i++) {
        struct share share = {0};
        parts_peak(parts, part_count, (int32_t)i, &share);
        named[i] = (struct named_share){str_from(ids[i]), share.amount.bytes, share.amount.percent,
                                        share.beside};
    }
    return (struct pod){.id = {STR("ns"), str_from(uid), str_from(uid)},
                        .node_name = STR("n"),
                        .annotation = ANNOTATION_HAMI,
                        .named = named,
                        .named_count = id_count};
}

/* The pod's request says nothing: only what the annotation tells is of interest. */
static void tell(struct cache *cache, const struct pod *pod)
{
    const struct pod_policy none = {0};
    struct pod_event_result result;
    (void)cache_pod_set(cache, pod, NULL, &none, &result);
}

static struct node_view view_of(struct vector *v, struct cache *cache)
{
    struct node_view view = {0};
    (void)cache_node_get(cache, STR("n"), &v->mem, &view);
    return view;
}

static void run_usage(struct vector *v, json_object *answer)
{
    json_object *pods = json_get(v->given, "pods"), *list = json_new_array();
    json_object *devices = json_get(v->given, "devices");
    struct cache *cache = cache_with(v, devices);
    for (size_t i = 0; i < json_object_array_length(pods); i++) {
        json_object *json = json_object_array_get_idx(pods, i);
        if (!fields_known(v, "given.pods", json, "name devices init app"))
            break;
        struct pod pod = running_pod(v, json_text(json, "name", "pod"), json);
        tell(cache, &pod);
    }
    struct node_view view = view_of(v, cache);
    for (size_t i = 0; i < json_object_array_length(devices) && i < view.card_count; i++) {
        json_object *card = json_new_object(), *used = json_sub(card, "used");
        json_put_text(card, "id", id_at(devices, (int32_t)i));
        json_put_bool(card, "health", view.cards[i].usable);
        json_put_int(used, "slots", view.cards[i].users);
        json_put_int(used, "mem", view.cards[i].used.bytes / MIB);
        json_put_int(used, "cores", view.cards[i].used.percent);
        json_push(list, card);
    }
    json_put(answer, "devices", list);
    cache_free(cache);
}

static json_object *one_card(void)
{
    return json_tokener_parse("[{\"id\":\"GPU0\",\"slots\":10,\"mem\":102400,\"cores\":100}]");
}

/* What is booked after each event. */
static void run_events(struct vector *v, json_object *answer, struct cache *cache)
{
    json_object *events = json_get(v->given, "events"), *json = json_get(v->given, "pod");
    json_object *held = json_new_array(), *amounts = json_new_array();
    json_object *some =
        json_tokener_parse("{\"app\":[[{\"id\":\"GPU0\",\"mem\":100,\"cores\":1}]]}");
    struct pod pod = running_pod(v, "u", json != NULL ? json : some);
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        const char *event = json_object_get_string(json_object_array_get_idx(events, i));
        pod.deleting |= strstr(event, "deletionTimestamp") != NULL;
        pod.finished |= strstr(event, "Succeeded") != NULL;
        tell(cache, &pod);
        const struct card_view *card = &view_of(v, cache).cards[0];
        json_object *amount = json_new_object();
        json_put_int(amount, "mem", card->used.bytes / MIB);
        json_put_int(amount, "cores", card->used.percent);
        json_push(held, json_object_new_boolean(card->pods > 0));
        json_push(amounts, amount);
    }
    json_put(answer, "reserved_after_each", held);
    json_put(answer, "reserved", amounts);
    json_object_put(some);
}

/* A pod whose cards are held is filtered again, with no node to choose from. */
static void run_filtered_again(struct vector *v, json_object *answer, struct cache *cache)
{
    json_object *held = json_get(v->given, "pod_already_reserved");
    json_object *app = json_new_array(), *request = json_new_object();
    struct pod pod;
    struct pod_request asked;
    json_put_int(request, "gpus", 1);
    json_put_int(request, "mem", hami_number(held, "mem"));
    json_put_int(request, "cores", hami_number(held, "cores"));
    json_push(app, request);
    if (hami_ask(v, NULL, NULL, app, &pod, &asked)) {
        const struct pod_policy none = {0};
        struct pod_event_result result;
        struct ranking ranking = {.policy = &node_policy_spread};
        struct cache_counts counts;
        pod.id = (struct pod_id){STR("ns"), STR("p"), STR("u")};
        (void)cache_pod_set(cache, &pod, &asked, &none, &result);
        if (cache_passed(cache, STR("u"), STR("n"), &device_policy_spread, INT64_MAX) !=
            PASSED_HELD)
            vector_fail(v, "pod_already_reserved", "cards held", "none");
        (void)cache_rank(cache, STR("u"), &asked, NULL, 0, NULL, &ranking);
        cache_count(cache, &counts);
        json_put_bool(answer, "reserved", counts.tentative > 0);
    }
    json_object_put(app);
}

static void run_lifecycle(struct vector *v, json_object *answer)
{
    json_object *devices = one_card();
    struct cache *cache = cache_with(v, devices);
    if (json_get(v->given, "events") != NULL)
        run_events(v, answer, cache);
    else
        run_filtered_again(v, answer, cache);
    cache_free(cache);
    json_object_put(devices);
}

/* ---- the table ---- */

#define EXACT(field)                                                                               \
    {                                                                                              \
        field, COMPARE_EXACT, NULL, NULL                                                           \
    }
#define IGNORED(field)                                                                             \
    {                                                                                              \
        field, COMPARE_IGNORED, NULL, NULL                                                         \
    }

static const struct expectation fit_fields[] = {
    EXACT("fits"),         EXACT("devices"),         EXACT("reasons"),
    EXACT("reason_text"),  EXACT("reason"),          EXACT("mem_each"),
    EXACT("device_count"), IGNORED("order_matters"), {0}};
static const struct expectation place_fields[] = {EXACT("nodes"), {0}};
static const struct expectation filter_fields[] = {
    EXACT("node"), EXACT("first_device_any_of"), {0}};
static const struct expectation shape_fields[] = {
    EXACT("nodes_used"),      EXACT("pods_per_node"),       EXACT("devices_used"),
    EXACT("pods_per_device"), EXACT("one_device_per_node"), {0}};
static const struct expectation sequence_fields[] = {
    {"shape", COMPARE_NESTED, NULL, shape_fields}, IGNORED("observed"), IGNORED("match_by"), {0}};
static const struct expectation outcome_fields[] = {EXACT("reachable_shapes"), {0}};
static const struct expectation usage_fields[] = {EXACT("devices"), {0}};
/* Quotas are the business of ResourceQuota here. */
static const struct expectation lifecycle_fields[] = {
    EXACT("reserved_after_each"), EXACT("reserved"), IGNORED("quota_used"), {0}};

const struct op hami_place_ops[] = {
    {"hami/fit", "devices_in_sorted_order consumed_from request pod", fit_fields, run_fit},
    {"hami/fit-node", "devices request requests policy", fit_fields, run_fit},
    {"hami/sort-then-fit", "devices policy request pod", fit_fields, run_fit},
    {"hami/place", "nodes pod policy", place_fields, run_place},
    {"hami/filter", "nodes pod policy", filter_fields, run_filter},
    {"hami/sequence", "nodes pods policy arrival", sequence_fields, run_sequence},
    {"hami/sequence-outcomes", "same_as ties", outcome_fields, run_outcomes},
    {"hami/node-usage", "devices pods", usage_fields, run_usage},
    {"hami/lifecycle", "events pod pod_already_reserved filter_call", lifecycle_fields,
     run_lifecycle},
    {0},
};
