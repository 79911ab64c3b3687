/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/arrivals.h"

#include <errno.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/strbuf.h"

#define FILE_BYTES_MAX (64 << 20)

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

static const struct pack_pod *pod_at(const struct trace *trace, uint32_t pod)
{
    return &trace->specs[trace->pods[pod]].pod;
}

/* ---- from a seed ---- */

static uint32_t *shuffled(uint32_t count, struct sim_random *random, struct arena *arena)
{
    uint32_t *items = arena_alloc(arena, count, sizeof(*items));
    if (items == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        items[i] = i;
    sim_random_shuffle(random, items, count);
    return items;
}

/* Leave out random arrivals until the demand is no more than the limit. */
static void trim(const struct trace *trace, int64_t demand, double limit, struct sim_random *random,
                 struct arrivals *arrivals)
{
    while ((double)demand > limit) {
        uint32_t i = (uint32_t)sim_random_below(random, arrivals->count);
        demand -= trace_demand(pod_at(trace, arrivals->pods[i]));
        arrivals->count--;
        memmove(&arrivals->pods[i], &arrivals->pods[i + 1],
                (arrivals->count - i) * sizeof(*arrivals->pods));
    }
}

/* Draw more until the next pod would pass the limit; as published, that is asked of one card of it.
 */
static int top_up(const struct trace *trace, int64_t demand, double limit,
                  struct sim_random *random, struct arena *arena, struct arrivals *arrivals)
{
    uint32_t room = arrivals->count;
    for (;;) {
        uint32_t pod = (uint32_t)sim_random_below(random, trace->pod_count);
        if ((double)(demand + pod_at(trace, pod)->milli) > limit)
            return 0;
        if (arrivals->count == room) {
            if (room > UINT32_MAX / 2)
                return -ENOMEM;
            uint32_t *more = arena_alloc(arena, (size_t)room * 2, sizeof(*more));
            if (more == NULL)
                return -ENOMEM;
            memcpy(more, arrivals->pods, room * sizeof(*more));
            arrivals->pods = more;
            room *= 2;
        }
        demand += trace_demand(pod_at(trace, pod));
        arrivals->pods[arrivals->count++] = pod;
    }
}

int arrivals_draw_ranks(const struct trace *trace, struct sim_random *random, struct arena *arena,
                        struct arrivals *ret, struct error *err)
{
    uint32_t *ranks = shuffled(trace->node_count, random, arena);
    if (ranks == NULL)
        return no_memory(err);
    *ret = (struct arrivals){.ranks = ranks};
    return 0;
}

int arrivals_draw(const struct trace *trace, double ratio, struct sim_random *random,
                  struct arena *arena, struct arrivals *ret, struct error *err)
{
    struct arrivals drawn = {.count = trace->pod_count};
    double limit = ratio * (double)trace->capacity_milli;
    int64_t demand = 0;
    for (uint32_t i = 0; i < trace->pod_count; i++)
        demand += trace_demand(pod_at(trace, i));
    if (demand == 0)
        return error_set(err, -EINVAL, "no pod asks for GPUs");

    drawn.pods = shuffled(trace->pod_count, random, arena);
    if (drawn.pods == NULL)
        return no_memory(err);
    if ((double)demand > limit)
        trim(trace, demand, limit, random, &drawn);
    else if (top_up(trace, demand, limit, random, arena, &drawn) < 0)
        return no_memory(err);
    drawn.ranks = shuffled(trace->node_count, random, arena);
    if (drawn.ranks == NULL)
        return no_memory(err);
    *ret = drawn;
    return 0;
}

/* ---- from a file ---- */

/* Numbers below `limit` up to the end of the line, which is taken from *text; into `numbers` unless
 * NULL. Returns how many, or -EINVAL. */
static int64_t read_line(struct str *text, uint32_t limit, uint32_t *numbers)
{
    int64_t count = 0;
    size_t at = 0;
    while (at < text->len && text->data[at] != '\n') {
        size_t start = at;
        int64_t number;
        while (at < text->len && text->data[at] != '\n' && text->data[at] != ' ')
            at++;
        if (at > start) {
            struct str word = {text->data + start, at - start};
            if (!parse_int64(word, &number) || number < 0 || number >= limit)
                return -EINVAL;
            if (numbers != NULL)
                numbers[count] = (uint32_t)number;
            count++;
        }
        at += at < text->len && text->data[at] == ' ';
    }
    at += at < text->len;
    if (at > 0) /* an empty text has no bytes to point behind */
        *text = (struct str){text->data + at, text->len - at};
    return count;
}

/* A line of numbers into the arena. */
static int take_line(struct str *text, uint32_t limit, struct arena *arena, uint32_t **ret,
                     uint32_t *ret_count)
{
    struct str line = *text;
    int64_t count = read_line(&line, limit, NULL);
    if (count < 0 || count > UINT32_MAX)
        return -EINVAL;
    uint32_t *numbers = arena_alloc(arena, (size_t)count, sizeof(*numbers));
    if (numbers == NULL)
        return -ENOMEM;
    read_line(text, limit, numbers);
    *ret = numbers;
    *ret_count = (uint32_t)count;
    return 0;
}

/* Whether every number below `count` is there once. */
static bool is_permutation(const uint32_t *numbers, uint32_t count, uint8_t *seen)
{
    for (uint32_t i = 0; i < count; i++)
        if (seen[numbers[i]]++ != 0)
            return false;
    return true;
}

static int parse_order(const struct trace *trace, const char *path, struct str text,
                       struct arena *arena, struct arrivals *ret, struct error *err)
{
    struct arrivals order;
    uint32_t ranks;
    int rc = take_line(&text, trace->node_count, arena, &order.ranks, &ranks);
    uint8_t *seen = arena_alloc(arena, trace->node_count, 1);
    if (rc == -ENOMEM || seen == NULL)
        return no_memory(err);
    if (rc < 0 || ranks != trace->node_count || !is_permutation(order.ranks, ranks, seen))
        return error_set(err, -EINVAL, "%s:1: want a rank of 0..%u for each of the %u nodes", path,
                         trace->node_count - 1, trace->node_count);
    rc = take_line(&text, trace->pod_count, arena, &order.pods, &order.count);
    if (rc == -ENOMEM)
        return no_memory(err);
    if (rc < 0 || order.count == 0)
        return error_set(err, -EINVAL, "%s:2: want the arrivals, numbers of 0..%u", path,
                         trace->pod_count - 1);
    *ret = order;
    return 0;
}

int arrivals_read(const struct trace *trace, const char *path, struct arena *arena,
                  struct arrivals *ret, struct error *err)
{
    struct strbuf text = {0};
    int rc = file_read(path, FILE_BYTES_MAX, &text, err);
    if (rc == 0)
        rc = parse_order(trace, path, (struct str){text.data, text.len}, arena, ret, err);
    strbuf_done(&text);
    return rc;
}
