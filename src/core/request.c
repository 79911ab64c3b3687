/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "core/text.h"

/* Sets of resources are bit sets of (1 << enum resource). */
#define NVIDIA (1u << RESOURCE_NVIDIA_GPU)
#define AMD    (1u << RESOURCE_AMD_GPU)
#define DCU    (1u << RESOURCE_DCU_GPU)
#define GPU    (1u << RESOURCE_GPU)
#define SHARED (1u << RESOURCE_GPU_SHARED)
#define CORE   (1u << RESOURCE_GPU_CORE)
#define MEMORY (1u << RESOURCE_GPU_MEMORY)
#define RATIO  (1u << RESOURCE_GPU_MEMORY_RATIO)
#define HAMI                                                                                       \
    (1u << RESOURCE_HAMI_MEMORY | 1u << RESOURCE_HAMI_PERCENTAGE | 1u << RESOURCE_HAMI_CORES)
#define RDMA   (1u << RESOURCE_RDMA)
#define FPGA   (1u << RESOURCE_FPGA)

#define VENDOR     (NVIDIA | AMD | DCU)
#define PERCENT    (GPU | CORE | RATIO | RDMA | FPGA)
#define UNIT_ERROR (GPU | RDMA | FPGA) /* a bad value has a sentence of its own in Koordinator */

#define PERCENT_RULE "must be at most 100 or a multiple of 100"

#define GIVES_CORE       DIM_BIT(DIM_PERCENT)
#define GIVES_MEMORY     DIM_BIT(DIM_BYTES)
#define GIVES_RATIO      DIM_BIT(DIM_RATIO)
#define GIVES_CORE_RATIO (DIM_BIT(DIM_PERCENT) | DIM_BIT(DIM_RATIO))

/* One row a resource: `gives` are the dimensions that `scale` times its value becomes. */
static const struct {
    const char *name;
    const char *old_name; /* deprecated; NULL if there is none */
    enum device_kind kind;
    unsigned gives;
    int64_t scale;
} resources[RESOURCE_MAX] = {
    [RESOURCE_NVIDIA_GPU] = {"nvidia.com/gpu", NULL, DEVICE_GPU, GIVES_CORE_RATIO, 100},
    [RESOURCE_AMD_GPU] = {"amd.com/gpu", NULL, DEVICE_GPU, GIVES_CORE_RATIO, 100},
    [RESOURCE_DCU_GPU] = {"dcu.com/gpu", NULL, DEVICE_GPU, GIVES_CORE_RATIO, 100},
    [RESOURCE_GPU] = {"koordinator.sh/gpu", "kubernetes.io/gpu", DEVICE_GPU, GIVES_CORE_RATIO, 1},
    [RESOURCE_GPU_SHARED] = {"koordinator.sh/gpu.shared", NULL, DEVICE_GPU, 0, 1},
    [RESOURCE_GPU_CORE] = {"koordinator.sh/gpu-core", "kubernetes.io/gpu-core", DEVICE_GPU,
                           GIVES_CORE, 1},
    [RESOURCE_GPU_MEMORY] = {"koordinator.sh/gpu-memory", "kubernetes.io/gpu-memory", DEVICE_GPU,
                             GIVES_MEMORY, 1},
    [RESOURCE_GPU_MEMORY_RATIO] = {"koordinator.sh/gpu-memory-ratio",
                                   "kubernetes.io/gpu-memory-ratio", DEVICE_GPU, GIVES_RATIO, 1},
    [RESOURCE_HAMI_MEMORY] = {"nvidia.com/gpumem", NULL, DEVICE_GPU, 0, 1},
    [RESOURCE_HAMI_PERCENTAGE] = {"nvidia.com/gpumem-percentage", NULL, DEVICE_GPU, 0, 1},
    [RESOURCE_HAMI_CORES] = {"nvidia.com/gpucores", NULL, DEVICE_GPU, 0, 1},
    [RESOURCE_RDMA] = {"koordinator.sh/rdma", "kubernetes.io/rdma", DEVICE_RDMA, GIVES_CORE, 1},
    [RESOURCE_FPGA] = {"koordinator.sh/fpga", "kubernetes.io/fpga", DEVICE_FPGA, GIVES_CORE, 1},
};

/* All resources in the order of their names' bytes, as error texts list them. */
static const enum resource by_name[RESOURCE_MAX] = {
    RESOURCE_AMD_GPU,
    RESOURCE_DCU_GPU,
    RESOURCE_FPGA,
    RESOURCE_GPU,
    RESOURCE_GPU_CORE,
    RESOURCE_GPU_MEMORY,
    RESOURCE_GPU_MEMORY_RATIO,
    RESOURCE_GPU_SHARED,
    RESOURCE_RDMA,
    RESOURCE_NVIDIA_GPU,
    RESOURCE_HAMI_CORES,
    RESOURCE_HAMI_MEMORY,
    RESOURCE_HAMI_PERCENTAGE,
};

/* The sets of names that a pod may use together; every other set of one kind is refused. */
static const uint32_t combinations[] = {
    NVIDIA,
    AMD,
    DCU,
    GPU,
    MEMORY,
    RATIO,
    CORE | MEMORY,
    CORE | RATIO,
    SHARED | MEMORY,
    SHARED | RATIO,
    SHARED | CORE | MEMORY,
    SHARED | CORE | RATIO,
    RDMA,
    FPGA,
};

/* Why a set is refused: the first row of which a resource of `one` is in the set, and beside it
 * another one of `other`. The last two have no other: memory is missing. The rows cover all refused
 * sets. */
static const struct clash {
    uint32_t one;
    uint32_t other;
    const char *between;
    const char *rule;
} clashes[] = {
    {VENDOR, VENDOR, "and", "are cards of two vendors: name one of them"},
    {HAMI, GPU | SHARED | CORE | MEMORY | RATIO, "and",
     "are of two dialects: keep the names of one"},
    {HAMI, VENDOR & ~NVIDIA, "is for nvidia.com's cards:", "must not be beside it"},
    {VENDOR, SHARED, "is whole cards:", "cannot share them"},
    {VENDOR, GPU | CORE | MEMORY | RATIO,
     "is whole cards, core and memory included:", "must not be beside it"},
    {GPU, SHARED, "is not divided among cards:",
     "needs koordinator.sh/gpu-core and koordinator.sh/gpu-memory-ratio instead"},
    {GPU, CORE | MEMORY | RATIO, "is core and memory in one:", "must not be beside it"},
    {MEMORY, RATIO, "and", "both state the memory: keep one of them"},
    {CORE, 0, NULL, "needs koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio beside it"},
    {SHARED, 0, NULL,
     "needs koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio beside it"},
};

const char *resource_name(enum resource resource)
{
    assert(resource < RESOURCE_MAX);
    return resources[resource].name;
}

enum resource resource_find(struct str name, bool *ret_deprecated)
{
    for (enum resource r = 0; r < RESOURCE_MAX; r++) {
        bool old = resources[r].old_name != NULL && str_is(name, resources[r].old_name);
        if (old || str_is(name, resources[r].name)) {
            *ret_deprecated = old;
            return r;
        }
    }
    return RESOURCE_MAX;
}

bool resource_is_vendors(enum resource resource)
{
    assert(resource < RESOURCE_MAX);
    return (VENDOR & (1u << resource)) != 0;
}

enum device_kind resource_kind(enum resource resource)
{
    assert(resource < RESOURCE_MAX);
    return resources[resource].kind;
}

/* The names of one kind that are asked for. */
static uint32_t names_of(const struct resources *effective, enum device_kind kind)
{
    uint32_t names = 0;
    for (enum resource r = 0; r < RESOURCE_MAX; r++)
        if (resources[r].kind == kind && effective->amount[r] != 0)
            names |= 1u << r;
    return names;
}

bool request_speaks_hami(const struct resources *effective)
{
    uint32_t names = names_of(effective, DEVICE_GPU);
    return (names & HAMI) != 0 && (names & ~(HAMI | NVIDIA)) == 0;
}

/* ---- validation ---- */

/* The first of a set by name, or RESOURCE_MAX. */
static enum resource first_of(uint32_t names)
{
    for (size_t i = 0; i < RESOURCE_MAX; i++)
        if (names & 1u << by_name[i])
            return by_name[i];
    return RESOURCE_MAX;
}

uint32_t request_combination(const struct resources *effective, enum device_kind kind)
{
    uint32_t names = names_of(effective, kind);
    for (size_t i = 0; i < sizeof(combinations) / sizeof(combinations[0]); i++)
        if (combinations[i] == names)
            return names;
    return 0;
}

/* How many cards the amounts of an allowed set are divided among. */
static int64_t cards_wanted(const struct resources *effective, uint32_t names)
{
    if (names & SHARED)
        return effective->amount[RESOURCE_GPU_SHARED];
    if (names & VENDOR)
        return effective->amount[first_of(names)];
    enum resource percent = first_of(names & (UNIT_ERROR | RATIO));
    if (percent == RESOURCE_MAX || effective->amount[percent] <= 100)
        return 1;
    return effective->amount[percent] / 100;
}

static bool is_odd_percent(enum resource r, int64_t value)
{
    return PERCENT & 1u << r && value > 100 && value % 100 != 0;
}

/* The rule that a value of a set with gpu.shared breaks, to be followed by the number of sharers.
 */
static const char *broken_shared_rule(enum resource r, int64_t value, int64_t cards)
{
    if (PERCENT & 1u << r && value % cards != 0)
        return "must be a multiple of";
    if (PERCENT & 1u << r && value / cards > 100)
        return "must be at most 100 for each card of";
    return value < cards ? "is less than 1 on each card of" : NULL;
}

/* The rule that a value of any other set breaks. */
static const char *broken_rule(enum resource r, int64_t value, int64_t cards)
{
    if (value > INT64_MAX / resources[r].scale)
        return "is more cards than can be counted";
    if (is_odd_percent(r, value))
        return PERCENT_RULE;
    return value < cards ? "is less than 1 on each card" : NULL;
}

static void add_value(struct text *text, const struct resources *effective, enum resource r)
{
    text_add(text, "%s %" PRId64, resources[r].name, effective->amount[r]);
}

/* Write the rule that the values of an allowed set break; nothing if they are good. */
static void explain_values(const struct resources *effective, uint32_t names, struct text *text)
{
    int64_t cards = cards_wanted(effective, names);
    for (size_t i = 0; i < RESOURCE_MAX; i++) {
        enum resource r = by_name[i];
        if (!(names & ~SHARED & 1u << r))
            continue;
        int64_t value = effective->amount[r];
        const char *rule =
            names & SHARED ? broken_shared_rule(r, value, cards) : broken_rule(r, value, cards);
        if (rule == NULL)
            continue;
        add_value(text, effective, r);
        text_add(text, " %s", rule);
        if (names & SHARED) {
            text_add(text, " ");
            add_value(text, effective, RESOURCE_GPU_SHARED);
        }
        return;
    }
}

/* Write the rule that a refused set breaks. */
static void explain_names(const struct resources *effective, uint32_t names, struct text *text)
{
    for (size_t i = 0; i < sizeof(clashes) / sizeof(clashes[0]); i++) {
        const struct clash *clash = &clashes[i];
        enum resource one = first_of(names & clash->one);
        enum resource other =
            one == RESOURCE_MAX ? RESOURCE_MAX : first_of(names & clash->other & ~(1u << one));
        if (one == RESOURCE_MAX || (other == RESOURCE_MAX && clash->other != 0))
            continue;
        add_value(text, effective, one);
        if (other != RESOURCE_MAX) {
            text_add(text, " %s ", clash->between);
            add_value(text, effective, other);
        }
        text_add(text, " %s", clash->rule);
        return;
    }
    assert(false); /* a refused set without a rule */
}

/* Write the rule that the amounts of one kind break; nothing if they are good. */
static void explain(const struct resources *effective, uint32_t names, struct text *text)
{
    for (size_t i = 0; i < RESOURCE_MAX; i++) {
        if (names & 1u << by_name[i] && effective->amount[by_name[i]] < 0) {
            add_value(text, effective, by_name[i]);
            text_add(text, " is negative");
            return;
        }
    }
    if (request_combination(effective, resources[first_of(names)].kind) == 0)
        explain_names(effective, names, text);
    else
        explain_values(effective, names, text);
}

/* Koordinator judges the values of koordinator.sh/gpu, rdma and fpga before anything else. */
static int check_units(const struct resources *effective, uint32_t names, struct error *err)
{
    for (size_t i = 0; i < RESOURCE_MAX; i++) {
        enum resource r = by_name[i];
        int64_t value = effective->amount[r];
        if (names & UNIT_ERROR & 1u << r && is_odd_percent(r, value))
            return error_set(err, -EINVAL,
                             "invalid resource unit %s: %" PRId64 ": %s %" PRId64 " %s",
                             resources[r].name, value, resources[r].name, value, PERCENT_RULE);
    }
    return 0;
}

static int check_combination(const struct resources *effective, uint32_t names, struct error *err)
{
    char rule[REQUEST_TEXT_MAX];
    struct text why = text_begin(rule, sizeof(rule));
    explain(effective, names, &why);
    if (why.len == 0)
        return 0;

    char list[REQUEST_TEXT_MAX];
    struct text text = text_begin(list, sizeof(list));
    for (size_t i = 0; i < RESOURCE_MAX; i++)
        if (names & 1u << by_name[i])
            text_add(&text, "%s%s", text.len > 0 ? " " : "", resources[by_name[i]].name);
    return error_set(err, -EINVAL, "invalid resource device requests: [%s]: %s", list, rule);
}

int request_validate(const struct resources *effective, struct error *err)
{
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        uint32_t names = names_of(effective, kind);
        if (names == 0 || (kind == DEVICE_GPU && request_speaks_hami(effective)))
            continue;
        int r = check_units(effective, names, err);
        if (r == 0)
            r = check_combination(effective, names, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- conversion ---- */

bool request_convert(const struct resources *effective, enum device_kind kind, uint32_t combination,
                     struct amount *ret_total, int64_t *ret_shared)
{
    struct amount total = {0};
    if (combination == 0 || combination & ~names_of(effective, kind))
        return false;
    for (enum resource r = 0; r < RESOURCE_MAX; r++) {
        int64_t value;
        if (!(combination & 1u << r))
            continue;
        if (__builtin_mul_overflow(effective->amount[r], resources[r].scale, &value))
            return false;
        for (enum dimension dim = 0; dim < DIM_MAX; dim++)
            if (resources[r].gives & DIM_BIT(dim))
                amount_set(&total, dim, value);
    }
    *ret_total = total;
    *ret_shared = combination & SHARED ? effective->amount[RESOURCE_GPU_SHARED] : 0;
    return true;
}

static struct device_request split(const struct amount *total, int64_t cards, enum device_kind kind)
{
    struct device_request request = {.count = cards};
    for (enum dimension dim = 0; dim < DIM_MAX; dim++) {
        int64_t each = amount_get(total, dim) / cards;
        amount_set(&request.each, dim, each);
        if (each > 0)
            request.named |= (uint8_t)DIM_BIT(dim);
    }
    /* Memory in bytes is a share even if it is as much as the card has, as in Koordinator. */
    enum dimension deciding =
        device_dimension_name(kind, DIM_RATIO) != NULL ? DIM_RATIO : DIM_PERCENT;
    request.whole = amount_get(&request.each, deciding) >= 100;
    return request;
}

int request_parse(const struct resources *effective, struct pod_request *ret, struct error *err)
{
    int r = request_validate(effective, err);
    if (r < 0)
        return r;

    struct pod_request request = {0};
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        uint32_t names = request_combination(effective, kind);
        struct amount total;
        int64_t shared;
        if (names == 0)
            continue;
        bool converted = request_convert(effective, kind, names, &total, &shared);
        assert(converted);
        request.of[kind] = split(&total, cards_wanted(effective, names), kind);
    }
    *ret = request;
    return 0;
}
