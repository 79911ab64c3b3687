/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/learner.h"

#include <errno.h>

static const char *const names[LEARN_MAX] = {"list", "seen", "prior", "nothing"};

const char *learn_name(enum learn learn)
{
    return names[learn];
}

enum learn learn_find(struct str name)
{
    enum learn learn = 0;
    while (learn < LEARN_MAX && !str_is(name, names[learn]))
        learn++;
    return learn;
}

static void learn(struct learner *learner, struct pack_mix *mix)
{
    mix->models = learner->trace->model_count;
    for (uint32_t i = 0; i < learner->trace->node_count; i++) {
        const struct trace_node *node = &learner->trace->nodes[i];
        mix->cards[node->model] += node->cards;
        if (node->cards > mix->largest[node->model])
            mix->largest[node->model] = node->cards;
    }
    mix->cluster_cards = (uint32_t)(learner->trace->capacity_milli / PACK_CARD_MILLI);
    pack_learn(mix, &pack_default_weights, learner->points, learner->work, &learner->tables);
}

static void learn_list(struct learner *learner, const struct trace *list)
{
    struct pack_mix mix = {.demands = list->specs, .count = list->spec_count};
    learn(learner, &mix);
}

static void learn_sample(struct learner *learner)
{
    struct pack_mix mix = {.missing = PACK_SAMPLE_MISSING};
    pack_sample_taken(&learner->sample);
    pack_sample_mix(&learner->sample, 0, learner->demands, &mix);
    learn(learner, &mix);
}

static void learn_nothing(struct learner *learner)
{
    struct pack_mix mix = {0};
    learn(learner, &mix);
}

int learner_init(struct learner *learner, const struct trace *trace, const struct trace *mix,
                 enum learn from, struct arena *arena)
{
    uint32_t room = PACK_SAMPLE_MAX + PACK_PRIOR_MAX;
    room = room > mix->spec_count ? room : mix->spec_count;
    size_t points = pack_learn_points(room, trace->model_count);
    learner->trace = trace;
    learner->from = from;
    learner->points = arena_alloc(arena, points, sizeof(*learner->points));
    learner->work = arena_alloc(arena, 1, pack_learn_work_bytes(room));
    learner->demands = arena_alloc(arena, room, sizeof(*learner->demands));
    if (learner->points == NULL || learner->work == NULL || learner->demands == NULL)
        return -ENOMEM;
    pack_sample_init(&learner->sample);
    if (from == LEARN_LIST)
        learn_list(learner, mix);
    else if (from == LEARN_NOTHING)
        learn_nothing(learner);
    else
        learn_sample(learner);
    return 0;
}

bool learner_see(struct learner *learner, uint32_t spec)
{
    const struct pack_seen seen = {.pod = learner->trace->specs[spec].pod, .weight = 1};
    if (learner->from != LEARN_SEEN || seen.pod.cards == 0)
        return false;
    pack_sample_see(&learner->sample, &seen);
    if (!pack_sample_due(&learner->sample))
        return false;
    learn_sample(learner);
    return true;
}
