/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on requests alone: validation, conversion, the split per card, memory dimensions. */
#include "runner.h"
#include "translate.h"

#include "core/allocate.h"

/* What request_convert() makes of a kind's names; NULL when it refuses. */
static json_object *converted_map(const struct resources *effective, enum device_kind kind,
                                  uint32_t combination)
{
    struct amount total;
    int64_t shared;
    if (!request_convert(effective, kind, combination, &total, &shared))
        return NULL;
    json_object *map = amount_map(kind, &total);
    if (shared != 0)
        json_put_int(map, resource_name(RESOURCE_GPU_SHARED), shared);
    return map;
}

/* The first kind that is asked for; DEVICE_GPU when there is none. */
static enum device_kind first_kind(const struct asked *asked)
{
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++)
        if (asked->request.of[kind].count > 0)
            return kind;
    return DEVICE_GPU;
}

static void put_split(json_object *answer, const struct asked *asked, enum device_kind kind,
                      const char *per_card)
{
    const struct device_request *request = &asked->request.of[kind];
    if (!asked->valid || request->count == 0)
        return;
    json_put(answer, per_card, per_card_map(asked, kind));
    json_put_int(answer, "count", request->count);
    json_put_bool(answer, "shared", !request->whole);
}

/* ---- validate_device_request, validate_and_split ---- */

/* Koordinator's check is asked about a device type that the pod names: none is no valid request. */
static bool valid_combination(const struct asked *asked)
{
    return asked->valid && asked->any;
}

static void put_validity(json_object *answer, const struct asked *asked)
{
    json_put_bool(answer, "valid", valid_combination(asked));
    if (!asked->valid)
        json_put_text(answer, "error", asked->text);
}

static void run_validate(struct vector *v, json_object *answer)
{
    struct asked asked;
    if (!ask_pod(v, "given", NULL, json_get(v->given, "requests"), &asked))
        return;
    put_validity(answer, &asked);
    put_validity(json_sub(answer, "real"), &asked);
    json_put(answer, "combination", combination_names(&asked));
}

static void run_validate_and_split(struct vector *v, json_object *answer)
{
    struct asked asked;
    if (!ask_pod(v, "given", NULL, json_get(v->given, "requests"), &asked))
        return;
    put_validity(answer, &asked);
    if (!valid_combination(&asked))
        return;
    enum device_kind kind = first_kind(&asked);
    json_put(answer, "combination", combination_names(&asked));
    json_put(answer, "converted",
             converted_map(&asked.effective, kind, request_combination(&asked.effective, kind)));
    put_split(answer, &asked, kind, kind == DEVICE_GPU ? "per_gpu" : "per_device");
}

/* ---- prefilter, parse_gpu_requirements ---- */

static void put_device_requests(json_object *answer, const struct asked *asked)
{
    json_object *types = json_sub(answer, "device_requests"), *names = json_new_array();
    for (enum device_kind kind = 0; kind < DEVICE_KIND_MAX; kind++) {
        if (asked->request.of[kind].count == 0)
            continue;
        json_put(
            types, device_kind_name(kind),
            converted_map(&asked->effective, kind, request_combination(&asked->effective, kind)));
        json_push(names, json_object_new_string(device_kind_name(kind)));
    }
    json_put(answer, "types", names);
}

static void put_gpu(json_object *answer, const struct asked *asked)
{
    if (asked->valid && asked->request.of[DEVICE_GPU].count > 0)
        put_split(json_sub(answer, "gpu"), asked, DEVICE_GPU, "per_gpu");
}

static void run_prefilter(struct vector *v, json_object *answer)
{
    struct asked asked;
    struct settings settings;
    if (!read_config(v, json_get(v->given, "config"), &settings) ||
        !ask_pod(v, "given.pod", json_get(v->given, "pod"), json_get(v->given, "requests"), &asked))
        return;
    bool skipped = asked.valid && !request_any(&asked.request);
    json_put_bool(answer, "valid", asked.valid);
    json_put_bool(answer, "ok", asked.valid);
    json_put_bool(answer, "skipped", skipped);
    json_put_text(answer, "status", skipped ? "skip" : asked.valid ? "ok" : "unresolvable");
    json_put(answer, "combination", combination_names(&asked));
    if (!asked.valid) {
        json_put_text(answer, "reason", asked.text);
        return;
    }
    put_device_requests(answer, &asked);
    put_gpu(answer, &asked);
}

static void run_parse_gpu_requirements(struct vector *v, json_object *answer)
{
    struct asked asked;
    if (!ask_converted(v, "given.device_requests", json_get(v->given, "device_requests"), &asked))
        return;
    json_put_bool(answer, "ok", asked.valid);
    put_gpu(answer, &asked);
}

/* ---- convert_device_request, split_per_gpu, split_per_device ---- */

/* The bit set of a list of names. */
static bool read_combination(struct vector *v, json_object *list, uint32_t *ret_bits,
                             enum device_kind *ret_kind)
{
    uint32_t bits = 0;
    enum device_kind kind = DEVICE_GPU;
    if (list != NULL && !json_object_is_type(list, json_type_array)) {
        vector_unsupported(v, "given.combination is no list");
        return false;
    }
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        json_object *name = json_object_array_get_idx(list, i);
        bool deprecated;
        enum resource resource = resource_find(json_slice(name), &deprecated);
        if (resource == RESOURCE_MAX) {
            vector_unsupported(v, "unknown resource %s in given.combination", json_compact(name));
            return false;
        }
        bits |= 1u << resource;
        kind = resource_kind(resource);
    }
    *ret_bits = bits;
    *ret_kind = kind;
    return true;
}

static void run_convert(struct vector *v, json_object *answer)
{
    struct asked asked;
    uint32_t combination;
    enum device_kind kind;
    if (!read_combination(v, json_get(v->given, "combination"), &combination, &kind) ||
        !ask_pod(v, "given", NULL, json_get(v->given, "requests"), &asked))
        return;
    json_put(answer, "converted", converted_map(&asked.effective, kind, combination));
}

static void run_split_per_gpu(struct vector *v, json_object *answer)
{
    struct asked asked;
    json_object *types = json_new_object();
    json_put(types, device_kind_name(DEVICE_GPU), json_object_get(json_get(v->given, "converted")));
    if (ask_converted(v, "given.converted", types, &asked)) {
        json_put_bool(answer, "ok", asked.valid);
        put_split(answer, &asked, DEVICE_GPU, "per_gpu");
    }
    json_object_put(types);
}

static void run_split_per_device(struct vector *v, json_object *answer)
{
    struct asked asked;
    struct node_cards node;
    if (!read_node(v, json_get(v->given, "node"), &node) ||
        !ask_pod(v, "given", NULL, json_get(v->given, "requests"), &asked))
        return;
    json_put_bool(answer, "ok", asked.valid);
    put_split(answer, &asked, first_kind(&asked), "per_device");
}

/* ---- memory dimensions ---- */

static bool read_number(struct vector *v, const char *field, int64_t max, int64_t *ret)
{
    int64_t number;
    if (!json_number(json_get(v->given, field), &number)) {
        vector_unsupported(v, "given.%s is no number", field);
        return false;
    }
    if (number < 0 || number > max) {
        vector_unsupported(v, "given.%s is past our bounds", field);
        return false;
    }
    *ret = number;
    return true;
}

static void run_ratio_to_bytes(struct vector *v, json_object *answer)
{
    int64_t ratio, total;
    if (read_number(v, "ratio", CARD_PERCENT_MAX, &ratio) &&
        read_number(v, "total_bytes", CARD_BYTES_MAX, &total))
        json_put_int(answer, "bytes", memory_ratio_to_bytes(ratio, total));
}

static void run_bytes_to_ratio(struct vector *v, json_object *answer)
{
    int64_t bytes, total;
    if (read_number(v, "bytes", CARD_BYTES_MAX, &bytes) &&
        read_number(v, "total_bytes", CARD_BYTES_MAX, &total))
        json_put_int(answer, "ratio", memory_bytes_to_ratio(bytes, total));
}

/* An allocation of one card as the request that it answers. */
static struct pod_request request_for(const struct share *share)
{
    struct pod_request request = {0};
    struct device_request *of = &request.of[share->kind];
    *of = (struct device_request){.count = 1, .each = share->amount};
    for (enum dimension dim = 0; dim < DIM_MAX; dim++)
        if (amount_get(&share->amount, dim) != 0)
            of->named |= (uint8_t)DIM_BIT(dim);
    return request;
}

static void run_fill_memory(struct vector *v, json_object *answer)
{
    struct placement placement;
    struct node_cards node;
    bool ok = true;
    if (!read_placement(v, "given.allocations", json_get(v->given, "allocations"), &placement) ||
        !read_totals(v, "given.device_total", json_get(v->given, "device_total"), &node))
        return;
    for (uint32_t i = 0; i < placement.count; i++) {
        struct share *share = &placement.cards[i].share;
        struct pod_request request = request_for(share);
        if (request.of[share->kind].named == 0) {
            vector_unsupported(v, "given.allocations has an entry without amounts");
            return;
        }
        uint32_t row = cards_find(&node.cards, share->kind, share->minor);
        struct cards one = {.at = &node.columns, .first = row};
        if (row == UINT32_MAX) {
            ok = false;
            continue;
        }
        one.count[share->kind] = 1;
        if (allocate_check(&one, &request) != REASON_FITS)
            ok = false;
        else
            share->amount = request_on_card(&request.of[share->kind], &node.columns.total[row]);
    }
    json_put_bool(answer, "ok", ok);
    if (ok)
        json_put(answer, "allocations", placement_lists(&placement));
}

/* ---- the table ---- */

static const struct expectation real_fields[] = {
    {"valid", COMPARE_EXACT, NULL, NULL},
    {"error", COMPARE_PREFIX, NULL, NULL},
    {0},
};

static const struct expectation validate_fields[] = {
    {"valid", COMPARE_EXACT, NULL, NULL},
    {"combination", COMPARE_SET, NULL, NULL},
    {"error", COMPARE_PREFIX, NULL, NULL},
    {"error_class", COMPARE_IGNORED, NULL, NULL},
    {"note", COMPARE_IGNORED, NULL, NULL},
    /* seed_vs_real.json: the rule in force is the right one of the two. */
    {"real", COMPARE_NESTED, NULL, real_fields},
    {"seed", COMPARE_IGNORED, NULL, NULL},
    {"agree", COMPARE_IGNORED, NULL, NULL},
    {0},
};

static const struct expectation split_fields[] = {
    {"ok", COMPARE_EXACT, NULL, NULL},
    {"valid", COMPARE_EXACT, NULL, NULL},
    {"combination", COMPARE_SET, NULL, NULL},
    {"converted", COMPARE_AMOUNTS, NULL, NULL},
    {"per_gpu", COMPARE_AMOUNTS, NULL, NULL},
    {"per_device", COMPARE_AMOUNTS, NULL, NULL},
    {"count", COMPARE_EXACT, NULL, NULL},
    {"shared", COMPARE_EXACT, NULL, NULL},
    {"error", COMPARE_PREFIX, NULL, NULL},
    {"error_class", COMPARE_IGNORED, NULL, NULL},
    {"note", COMPARE_IGNORED, NULL, NULL},
    {0},
};

static const struct expectation gpu_fields[] = {
    {"count", COMPARE_EXACT, NULL, NULL},
    {"per_gpu", COMPARE_AMOUNTS, NULL, NULL},
    {"shared", COMPARE_EXACT, NULL, NULL},
    {"templates", COMPARE_FEATURE, NULL, NULL},
    {"honor_partition", COMPARE_FEATURE, NULL, NULL},
    {"restricted_partition", COMPARE_FEATURE, NULL, NULL},
    {"ring_bus_bandwidth", COMPARE_FEATURE, NULL, NULL},
    {"required_scope", COMPARE_FEATURE, NULL, NULL},
    {"required_scope_level", COMPARE_FEATURE, NULL, NULL},
    {0},
};

static const struct expectation prefilter_fields[] = {
    {"status", COMPARE_EXACT, NULL, NULL},
    {"ok", COMPARE_EXACT, NULL, NULL},
    {"valid", COMPARE_EXACT, NULL, NULL},
    {"skipped", COMPARE_EXACT, NULL, NULL},
    {"reason", COMPARE_PREFIX, NULL, NULL},
    {"reason_contains", COMPARE_CONTAINS, "reason", NULL},
    {"reason_from_code_reading", COMPARE_IGNORED, NULL, NULL},
    {"combination", COMPARE_SET, NULL, NULL},
    {"types", COMPARE_SET, NULL, NULL},
    {"device_requests", COMPARE_AMOUNTS, NULL, NULL},
    {"gpu", COMPARE_NESTED, NULL, gpu_fields},
    {"fits_secondary_well_planned", COMPARE_IGNORED, NULL, NULL},
    {"error_class", COMPARE_IGNORED, NULL, NULL},
    {"note", COMPARE_IGNORED, NULL, NULL},
    {0},
};

static const struct expectation convert_fields[] = {
    {"converted", COMPARE_AMOUNTS, NULL, NULL},
    {0},
};

static const struct expectation bytes_fields[] = {
    {"bytes", COMPARE_EXACT, NULL, NULL},
    {0},
};

static const struct expectation ratio_fields[] = {
    {"ratio", COMPARE_EXACT, NULL, NULL},
    {"exact_floor", COMPARE_EXACT, "ratio", NULL},
    {0},
};

static const struct expectation fill_fields[] = {
    {"ok", COMPARE_EXACT, NULL, NULL},
    {"allocations", COMPARE_AMOUNTS, NULL, NULL},
    {0},
};

const struct op request_ops[] = {
    {"validate_device_request", "requests", validate_fields, run_validate},
    {"validate_and_split", "requests", split_fields, run_validate_and_split},
    {"prefilter", "requests pod config", prefilter_fields, run_prefilter},
    {"parse_gpu_requirements", "device_requests ?annotations ?hints ?config", prefilter_fields,
     run_parse_gpu_requirements},
    {"convert_device_request", "requests combination", convert_fields, run_convert},
    {"split_per_gpu", "converted", split_fields, run_split_per_gpu},
    {"split_per_device", "requests node ?hint", split_fields, run_split_per_device},
    {"memory_ratio_to_bytes", "ratio total_bytes", bytes_fields, run_ratio_to_bytes},
    {"memory_bytes_to_ratio", "bytes total_bytes", ratio_fields, run_bytes_to_ratio},
    {"fill_memory_dimension", "allocations device_total", fill_fields, run_fill_memory},
    {0},
};
