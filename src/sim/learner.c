/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/learner.h"

#include <errno.h>

/* Learn after so many pods, then whenever there are a half more, but not less often than every so
 * many. The first is early because what best fit does with an empty cluster is hard to mend. */
#define LEARN_FIRST 5
#define LEARN_EVERY 1000

#define MISSING 1.0 /* large pods for each model that a sample may lack */

static void learn(struct learner *learner, const struct pack_demand *demands, uint32_t count,
                  double missing)
{
    const struct pack_mix mix = {
        .demands = demands,
        .count = count,
        .models = learner->trace->model_count,
        .missing = missing,
        .cluster_cards = (uint32_t)(learner->trace->capacity_milli / PACK_CARD_MILLI),
    };
    pack_learn(&mix, &pack_default_weights, learner->points, learner->work, &learner->tables);
}

int learner_init(struct learner *learner, const struct trace *trace, struct arena *arena)
{
    struct learner new = {.trace = trace, .next = LEARN_FIRST};
    size_t points = pack_learn_points(trace->spec_count, trace->model_count);
    new.mix = arena_alloc(arena, trace->spec_count, sizeof(*new.mix));
    new.place = arena_alloc(arena, trace->spec_count, sizeof(*new.place));
    new.points = arena_alloc(arena, points, sizeof(*new.points));
    new.work = arena_alloc(arena, 1, pack_learn_work_bytes(trace->spec_count));
    if (new.mix == NULL || new.place == NULL || new.points == NULL || new.work == NULL)
        return -ENOMEM;
    *learner = new;
    learn(learner, NULL, 0, 0);
    return 0;
}

void learner_learn_list(struct learner *learner)
{
    learn(learner, learner->trace->specs, learner->trace->spec_count, 0);
}

bool learner_see(struct learner *learner, uint32_t spec)
{
    if (learner->place[spec] == 0) {
        learner->mix[learner->count] = learner->trace->specs[spec];
        learner->mix[learner->count].weight = 0;
        learner->place[spec] = ++learner->count;
    }
    learner->mix[learner->place[spec] - 1].weight += 1;
    if (++learner->seen < learner->next)
        return false;
    learner->next += learner->next / 2 < LEARN_EVERY ? learner->next / 2 : LEARN_EVERY;
    learn(learner, learner->mix, learner->count, MISSING);
    return true;
}
