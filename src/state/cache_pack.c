/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/pack_learn.h"
#include "core/roster.h"

/* Packing: what it keeps of the nodes, what it learned, and its decisions. */

#define SLICE 256u /* nodes looked at while the lock is held once */

struct pack_book {
    struct pack_tables tables;
    struct pack_losses losses;
    struct pack_point points[]; /* of the tables' curves */
};

/* ---- models ---- */

/* The number of a model, a new one if there are fewer than `room`; 0 if there is none to be had. */
static uint32_t number_of(struct packing *packing, struct str name, uint32_t room)
{
    if (packing->model_count == 0)
        packing->models[packing->model_count++] = (struct str){"", 0};
    for (uint32_t i = 0; i < packing->model_count; i++)
        if (str_eq(packing->models[i], name))
            return i;
    if (packing->model_count >= room)
        return 0;
    char *copy = mem_calloc(name.len, 1);
    if (copy == NULL)
        return 0;
    memcpy(copy, name.data, name.len);
    packing->models[packing->model_count] = (struct str){copy, name.len};
    return packing->model_count++;
}

uint32_t packing_model(struct packing *packing, struct str name)
{
    return number_of(packing, name, PACK_MODELS_MAX);
}

static void number_names(struct packing *packing, const struct model_term *term)
{
    for (uint32_t i = 0; i < term->count; i++)
        for (uint32_t n = 0; n < term->conditions[i].count; n++)
            (void)number_of(packing, term->conditions[i].names[n], PACK_MODELS_MAX / 2);
}

uint64_t packing_allowed(struct packing *packing, const struct model_rule *rule)
{
    number_names(packing, &rule->always);
    for (uint32_t i = 0; i < rule->count; i++)
        number_names(packing, &rule->terms[i]);
    return models_allowed(rule, packing->models, packing->model_count);
}

void packing_done(struct packing *packing)
{
    for (uint32_t i = 1; i < packing->model_count; i++)
        mem_free((char *)(uintptr_t)packing->models[i].data);
    mem_free(packing->book);
    mem_free(packing->kept);
    mem_free(packing->stale);
    *packing = (struct packing){0};
}

/* ---- the market ---- */

static bool reserve(struct packing *packing, uint32_t capacity)
{
    if (capacity <= packing->capacity)
        return true;
    struct pack_kept *kept = mem_realloc(packing->kept, capacity, sizeof *kept);
    if (kept == NULL)
        return false;
    memset(kept + packing->capacity, 0, (capacity - packing->capacity) * sizeof *kept);
    packing->kept = kept;
    uint32_t *stale = mem_realloc(packing->stale, capacity, sizeof *stale);
    if (stale == NULL)
        return false;
    packing->stale = stale;
    packing->capacity = capacity;
    return true;
}

bool cache_pack_reserve_locked(struct cache *cache, uint32_t capacity)
{
    return !cache->packing.on || reserve(&cache->packing, capacity);
}

void cache_pack_stale_locked(struct cache *cache, uint32_t slot)
{
    struct packing *packing = &cache->packing;
    if (!packing->on)
        return;
    packing->kept[slot].change++;
    if (packing->kept[slot].stale)
        return;
    packing->kept[slot].stale = true;
    packing->stale[packing->stale_count++] = slot;
}

/* In the order of the nodes. */
static double place_of(const struct cache *cache, uint32_t slot)
{
    return (double)slot / cache->node_slots;
}

struct pack_site cache_pack_site_locked(const struct cache *cache, uint32_t slot,
                                        const struct cards *cards,
                                        const struct pack_decision *decision,
                                        const struct pod_record *self)
{
    const struct node *node = &cache->nodes[slot];
    struct pack_site site = {
        .decision = decision,
        .cards = cards,
        .allocatable = node->allocatable,
        .used = node->used,
        .model = node->model,
        .place = place_of(cache, slot),
    };
    if (self != NULL && self->node == slot)
        host_add(&site.used, &self->host, -1);
    return site;
}

/* Take a node as it was out of the market and bring it in as it is. */
static void count_node(struct cache *cache, uint32_t slot)
{
    struct packing *packing = &cache->packing;
    const struct pack_tables *tables = &packing->book->tables;
    struct pack_kept *kept = &packing->kept[slot];
    const struct node *node = &cache->nodes[slot];
    if (kept->generation == packing->generation)
        pack_market_add(tables, &packing->market, &kept->holding, -1);
    kept->generation = 0;
    if (!node->has_node || !node_has_inventory(node))
        return;
    int32_t free_milli[PACK_CARDS_MAX];
    struct cards cards = cache_cards_locked(cache, node);
    struct pack_site site = cache_pack_site_locked(cache, slot, &cards, NULL, NULL);
    struct pack_node left = pack_node_of(&site, free_milli);
    pack_hold(tables, &left, &kept->holding);
    pack_market_add(tables, &packing->market, &kept->holding, 1);
    kept->generation = packing->generation;
}

/* Bring the market up to date, with at most `slots` nodes that were never counted; true when it is. */
static bool count_nodes(struct cache *cache, uint32_t slots)
{
    struct packing *packing = &cache->packing;
    while (packing->stale_count > 0) {
        uint32_t slot = packing->stale[--packing->stale_count];
        packing->kept[slot].stale = false;
        if (slot < packing->counted)
            count_node(cache, slot);
    }
    for (; packing->counted < cache->node_slots && slots > 0; slots--)
        count_node(cache, packing->counted++);
    return packing->counted >= cache->node_slots;
}

bool cache_pack_decide_locked(struct cache *cache, const struct pod_request *request,
                              const struct host_amount *host, struct pack_decision *ret)
{
    struct packing *packing = &cache->packing;
    if (packing->book == NULL)
        return false;
    count_nodes(cache, UINT32_MAX);
    packing->decisions++;
    struct pack_pod pod = pack_pod_of(request, host, packing->card_bytes);
    pack_decision_init(ret, &packing->book->tables, &packing->market, packing->model_count,
                       request, &pod);
    return true;
}

/* ---- what is remembered ---- */

/* The number of a set of lost copies, or LOSSES_NONE when there are too many. */
static uint16_t number_of_losses(struct pack_losses *losses, const uint16_t *copies, uint32_t count)
{
    size_t bytes = count * sizeof *copies;
    uint32_t at = roster_hash((struct str){(const char *)copies, bytes}) % (2 * LOSSES_MAX);
    for (; losses->place[at] != 0; at = (at + 1) % (2 * LOSSES_MAX))
        if (memcmp(losses->copies[losses->place[at] - 1], copies, bytes) == 0)
            return (uint16_t)(losses->place[at] - 1);
    if (losses->count == LOSSES_MAX)
        return LOSSES_NONE;
    memcpy(losses->copies[losses->count], copies, bytes);
    losses->place[at] = (uint16_t)++losses->count;
    return (uint16_t)(losses->count - 1);
}

bool cache_weighed_holds_locked(const struct cache *cache, uint32_t slot,
                                const struct weighed_entry *entry)
{
    const struct packing *packing = &cache->packing;
    return entry->count > 0 && entry->tables == packing->generation &&
           entry->change == packing->kept[slot].change;
}

bool cache_weigh_locked(struct cache *cache, uint32_t slot, const struct pack_decision *decision,
                        struct weighed_entry *ret)
{
    struct packing *packing = &cache->packing;
    struct pack_option options[PACK_OPTIONS_MAX];
    struct cards cards = cache_cards_locked(cache, &cache->nodes[slot]);
    struct pack_site site = cache_pack_site_locked(cache, slot, &cards, decision, NULL);
    struct weighed_entry entry = {
        .change = packing->kept[slot].change,
        .tables = packing->generation,
        .count = (uint8_t)pack_site_options(&site, options),
    };
    ret->count = 0;
    for (uint32_t i = 0; i < entry.count; i++) {
        entry.gain[i] = options[i].gain;
        entry.lost[i] = number_of_losses(&packing->book->losses, options[i].lost,
                                         packing->book->tables.scarce_count);
        if (entry.lost[i] == LOSSES_NONE)
            return false;
    }
    *ret = entry;
    return true;
}

static double cost_of_losses(struct packing *packing, const struct pack_decision *decision,
                             uint16_t number)
{
    struct pack_losses *losses = &packing->book->losses;
    if (losses->decision[number] != packing->decisions) {
        losses->decision[number] = packing->decisions;
        losses->cost[number] =
            pack_copies_cost(decision->tables, &decision->prices, losses->copies[number]);
    }
    return losses->cost[number];
}

double cache_weighed_gain_locked(struct cache *cache, uint32_t slot,
                                 const struct pack_decision *decision,
                                 const struct weighed_entry *entry)
{
    double best = entry->gain[0] - cost_of_losses(&cache->packing, decision, entry->lost[0]);
    for (uint32_t i = 1; i < entry->count; i++) {
        double gain = entry->gain[i] - cost_of_losses(&cache->packing, decision, entry->lost[i]);
        best = gain > best ? gain : best;
    }
    return pack_site_net(decision, cache->nodes[slot].model, place_of(cache, slot), best);
}

/* ---- learning ---- */

/* What one thread learns from, without the lock. */
struct lesson {
    struct pack_sample sample;
    struct pack_demand demands[PACK_SAMPLE_MAX + PACK_PRIOR_MAX];
    struct pack_mix mix;
    uint64_t cards, bytes; /* GPUs of the cluster and their memory */
    uint64_t present;      /* models that some cards are of, as bits */
};

static void add_cards(const struct cache *cache, const struct node *node, struct lesson *lesson)
{
    struct cards cards = cache_cards_locked(cache, node);
    uint32_t begin = cards_begin(&cards, DEVICE_GPU), usable = 0;
    if (cards.count[DEVICE_GPU] > 0)
        lesson->present |= UINT64_C(1) << node->model;
    for (uint32_t row = begin; row < begin + cards.count[DEVICE_GPU]; row++) {
        usable += cards.at->has[row] != 0;
        lesson->bytes += (uint64_t)cards.at->total_bytes[row];
    }
    lesson->cards += usable;
    lesson->mix.cards[node->model] += usable;
    if (usable > lesson->mix.largest[node->model])
        lesson->mix.largest[node->model] = usable;
}

static void look_at_cards(struct cache *cache, struct lesson *lesson)
{
    uint32_t slots = 1;
    for (uint32_t begin = 0; begin < slots; begin += SLICE) {
        pthread_mutex_lock(&cache->mutex);
        slots = cache->node_slots;
        for (uint32_t slot = begin; slot < slots && slot < begin + SLICE; slot++)
            if (cache->nodes[slot].has_node && node_has_inventory(&cache->nodes[slot]))
                add_cards(cache, &cache->nodes[slot], lesson);
        cache_unlock(cache);
    }
}

/* Tables from the lesson, or NULL when memory ends. */
static struct pack_book *learn(struct lesson *lesson)
{
    size_t points = pack_learn_points(lesson->mix.count, lesson->mix.models);
    struct pack_book *book =
        mem_calloc(1, sizeof *book + points * sizeof book->points[0]);
    void *work = mem_calloc(1, pack_learn_work_bytes(lesson->mix.count));
    if (book != NULL && work != NULL) {
        pack_learn(&lesson->mix, &pack_default_weights, book->points, work, &book->tables);
    } else {
        mem_free(book);
        book = NULL;
    }
    mem_free(work);
    return book;
}

/* A pod that may use all models that there are is bound to none. Nor is one that may use none of them: if
 * it runs, then by labels that name the models in other words. */
static void look_at_models(struct lesson *lesson)
{
    uint64_t present = lesson->present;
    for (uint32_t i = 0; i < lesson->sample.count; i++) {
        struct pack_pod *pod = &lesson->sample.seen[i].pod;
        pod->models &= present;
        pod->list = 1; /* bound pods before others, as the simulator orders equals */
        if (pod->models == 0 || pod->models == present) {
            pod->models = PACK_MODELS_ANY;
            pod->list = 0;
        }
    }
}

/* From now on decisions go by these tables; nothing is in the market yet. */
static void open_book(struct packing *packing, struct pack_book *book, const struct lesson *lesson,
                      int64_t now_ns)
{
    mem_free(packing->book);
    packing->book = book;
    packing->market = (struct pack_market){0};
    if (++packing->generation == 0)
        packing->generation = 1;
    packing->counted = 0;
    packing->card_bytes = lesson->cards > 0 ? (int64_t)(lesson->bytes / lesson->cards) : 0;
    packing->cards = (uint32_t)lesson->cards;
    packing->learned_models = lesson->mix.models;
    packing->learned_pods = lesson->sample.pods;
    packing->learned_times++;
    packing->learned_ns = now_ns;
}

/* Is there something to learn? */
static bool is_due(struct cache *cache)
{
    struct packing *packing = &cache->packing;
    if (packing->learning)
        return false;
    if (packing->book == NULL || packing->learned_models < packing->model_count ||
        packing->learned_cards != cache->counts.view.cards)
        return true;
    return pack_sample_due(&packing->sample);
}

/* Copy what is learned from: 1, 0 when another thread does, -ENOMEM without memory to keep nodes in. */
static int begin_lesson_locked(struct cache *cache, struct lesson *lesson)
{
    struct packing *packing = &cache->packing;
    int rc = packing->learning ? 0 : reserve(packing, cache->node_capacity) ? 1 : -ENOMEM;
    if (rc <= 0)
        return rc;
    packing->on = packing->learning = true;
    packing->learned_cards = cache->counts.view.cards;
    pack_sample_taken(&packing->sample);
    lesson->sample = packing->sample;
    lesson->mix.models = packing->model_count > 0 ? packing->model_count : 1;
    return rc;
}

static int end_lesson(struct cache *cache, const struct lesson *lesson, struct pack_book *book,
                      int64_t now_ns)
{
    struct packing *packing = &cache->packing;
    pthread_mutex_lock(&cache->mutex);
    packing->learning = false;
    if (book != NULL)
        open_book(packing, book, lesson, now_ns);
    cache_unlock(cache);
    /* A decision that comes in between counts the rest by itself. */
    for (bool done = book == NULL; !done;) {
        pthread_mutex_lock(&cache->mutex);
        done = count_nodes(cache, SLICE);
        cache_unlock(cache);
    }
    return book != NULL ? 0 : -ENOMEM;
}

int cache_pack_prepare(struct cache *cache, int64_t now_ns)
{
    pthread_mutex_lock(&cache->mutex);
    bool due = is_due(cache);
    cache_unlock(cache);
    if (!due)
        return 0;
    struct lesson *lesson = mem_calloc(1, sizeof *lesson);
    if (lesson == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&cache->mutex);
    int rc = begin_lesson_locked(cache, lesson);
    cache_unlock(cache);
    if (rc == 1) {
        look_at_cards(cache, lesson);
        look_at_models(lesson);
        int64_t card_bytes = lesson->cards > 0 ? (int64_t)(lesson->bytes / lesson->cards) : 0;
        lesson->mix.missing = PACK_SAMPLE_MISSING;
        lesson->mix.cluster_cards = (uint32_t)lesson->cards;
        pack_sample_mix(&lesson->sample, card_bytes, lesson->demands, &lesson->mix);
        rc = end_lesson(cache, lesson, learn(lesson), now_ns);
    }
    mem_free(lesson);
    return rc;
}

/* ---- invariants ---- */

/* What a node brings to the market now: what is kept of it, once it is up to date. */
static bool kept_is_right(const struct cache *cache, uint32_t slot)
{
    const struct packing *packing = &cache->packing;
    const struct pack_kept *kept = &packing->kept[slot];
    const struct node *node = &cache->nodes[slot];
    int32_t free_milli[PACK_CARDS_MAX];
    if (!node->has_node || !node_has_inventory(node))
        return kept->generation == 0;
    struct pack_holding holding;
    struct cards cards = cache_cards_locked(cache, node);
    struct pack_site site = cache_pack_site_locked(cache, slot, &cards, NULL, NULL);
    struct pack_node left = pack_node_of(&site, free_milli);
    pack_hold(&packing->book->tables, &left, &holding);
    size_t copies = packing->book->tables.scarce_count * sizeof holding.copies[0];
    return kept->generation == packing->generation && kept->holding.model == holding.model &&
           kept->holding.value >= holding.value && kept->holding.value <= holding.value &&
           memcmp(kept->holding.copies, holding.copies, copies) == 0;
}

int cache_pack_check_locked(struct cache *cache, struct error *err)
{
    struct packing *packing = &cache->packing;
    struct pack_market sum = {0};
    if (packing->book == NULL)
        return 0;
    count_nodes(cache, UINT32_MAX);
    for (uint32_t slot = 0; slot < cache->node_slots; slot++) {
        if (!kept_is_right(cache, slot))
            return error_set(err, -EFAULT, "node slot %u: packing keeps what it was before", slot);
        if (packing->kept[slot].generation == packing->generation)
            pack_market_add(&packing->book->tables, &sum, &packing->kept[slot].holding, 1);
    }
    if (memcmp(sum.copies, packing->market.copies, sizeof sum.copies) != 0)
        return error_set(err, -EFAULT, "the market is not the sum of its nodes");
    return 0;
}

/* ---- for people ---- */

static int by_share(const void *left, const void *right)
{
    const struct pack_spec_view *a = left, *b = right;
    return (a->share < b->share) - (a->share > b->share);
}

static void view_mix(const struct pack_sample *sample, struct pack_spec_view *mix)
{
    for (uint32_t i = 0; i < sample->count; i++)
        mix[i] = (struct pack_spec_view){.pod = sample->seen[i].pod,
                                         .bytes = sample->seen[i].bytes,
                                         .share = sample->seen[i].weight / sample->weight};
}

static void view_prices(const struct packing *packing, struct pack_view *view,
                        struct pack_spec_view *scarce, struct pack_model_view *models)
{
    const struct pack_tables *tables = &packing->book->tables;
    struct pack_prices prices;
    pack_price(tables, &packing->market, packing->model_count, &prices);
    view->fade = tables->fade;
    memcpy(view->value, tables->value, sizeof view->value);
    for (uint32_t i = 0; i < tables->scarce_count; i++)
        scarce[i] = (struct pack_spec_view){.pod = tables->scarce[i].pod,
                                            .share = tables->scarce[i].share,
                                            .copies = packing->market.copies[i],
                                            .price = prices.copy[i]};
    for (uint32_t i = 0; i < packing->model_count; i++) {
        models[i].free_value = packing->market.free_value[i];
        models[i].price = prices.model[i];
    }
    view->scarce_count = tables->scarce_count;
}

static int view_locked(struct cache *cache, struct arena *mem, struct pack_view *view,
                       struct pack_spec_view *mix, struct pack_spec_view *scarce,
                       struct pack_model_view *models)
{
    const struct packing *packing = &cache->packing;
    const struct pack_sample *sample = &packing->sample;
    *view = (struct pack_view){
        .on = packing->on,
        .pods = sample->pods,
        .left_out = sample->left_out,
        .prior_pods = pack_sample_prior(sample),
        .drift = pack_sample_drift(sample),
        .learned_times = packing->learned_times,
        .learned_pods = packing->learned_pods,
        .learned_ns = packing->learned_ns,
        .card_bytes = packing->card_bytes,
        .cards = packing->cards,
        .mix_count = sample->count,
        .model_count = packing->model_count,
    };
    view_mix(sample, mix);
    if (packing->book != NULL) {
        count_nodes(cache, UINT32_MAX);
        view_prices(packing, view, scarce, models);
    }
    for (uint32_t i = 0; i < packing->model_count; i++) {
        models[i].name = arena_str(mem, packing->models[i]);
        if (models[i].name.data == NULL)
            return -ENOMEM;
    }
    return 0;
}

int cache_pack_view(struct cache *cache, struct arena *mem, struct pack_view *ret)
{
    struct pack_spec_view *mix = arena_alloc(mem, PACK_SAMPLE_MAX, sizeof *mix);
    struct pack_spec_view *scarce = arena_alloc(mem, PACK_SCARCE_MAX, sizeof *scarce);
    struct pack_model_view *models = arena_alloc(mem, PACK_MODELS_MAX, sizeof *models);
    if (mix == NULL || scarce == NULL || models == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&cache->mutex);
    int rc = view_locked(cache, mem, ret, mix, scarce, models);
    cache_unlock(cache);
    if (rc < 0)
        return rc;
    qsort(mix, ret->mix_count, sizeof *mix, by_share);
    ret->mix = mix;
    ret->scarce = scarce;
    ret->models = models;
    return 0;
}
