/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the device-allocated annotation. */
#include "runner.h"
#include "translate.h"

#include <stdio.h>

#include "codec/annotation.h"
#include "codec/objects.h"

/* What annotation_format() writes for a placement, as JSON. */
static json_object *written(struct vector *v, const struct placement *placement)
{
    struct strbuf text;
    strbuf_init(&text);
    annotation_format(placement, &text);
    json_object *parsed = text.data != NULL ? json_tokener_parse(text.data) : NULL;
    if (parsed == NULL)
        vector_fail(v, "annotation_format", "JSON", text.data != NULL ? text.data : "nothing");
    strbuf_done(&text);
    return parsed;
}

/* The id that the text of an annotation gives to a card. */
static void name_card(struct placed_card *card, json_object *annotation)
{
    json_object *list = json_get(annotation, device_kind_name(card->share.kind));
    for (size_t i = 0;
         json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++) {
        json_object *entry = json_object_array_get_idx(list, i);
        int64_t minor;
        if (json_number(json_get(entry, "minor"), &minor) && minor == card->share.minor)
            (void)snprintf(card->id, sizeof(card->id), "%s", json_text(entry, "id", ""));
    }
}

/* A pod without the annotation is no error. */
static void parse_absent(struct vector *v, json_object *answer)
{
    struct pod decoded;
    struct error err;
    json_object *pod = pod_object(v, "given", NULL, NULL, "uid-asking");
    bool read = object_decode_pod(str_from(json_compact(pod)), &v->mem, &decoded, &err) == 0 &&
                decoded.annotation == ANNOTATION_ABSENT;
    json_put_bool(answer, "ok", read);
    json_object_put(pod);
}

/* Ids are stated by the Device object, so parsing does not return them. To see that they go through
 * all the same, the parsed cards are given the ids of the text, as a Device object would, and what
 * we would write for them is compared. */
static void run_parse(struct vector *v, json_object *answer)
{
    json_object *annotation = json_get(v->given, "annotation");
    const struct share *shares;
    uint32_t count;
    struct placement placement = {0};
    if (annotation == NULL) {
        parse_absent(v, answer);
        return;
    }
    if (!json_object_is_type(annotation, json_type_string)) {
        vector_unsupported(v, "given.annotation is no text");
        return;
    }
    bool ok = annotation_parse(json_slice(annotation), &v->mem, &shares, &count, NULL) == 0;
    json_put_bool(answer, "ok", ok);
    if (!ok)
        return;
    json_object *text = json_tokener_parse(json_object_get_string(annotation));
    placement.count = count;
    for (uint32_t i = 0; i < count; i++) {
        placement.cards[i].share = shares[i];
        name_card(&placement.cards[i], text);
    }
    json_object_put(text);
    json_put(answer, "allocations", written(v, &placement));
}

static void put_annotation(json_object *answer, const struct placement *placement)
{
    struct strbuf text;
    strbuf_init(&text);
    annotation_format(placement, &text);
    if (!text.failed && text.data != NULL) {
        json_put_text(answer, "annotation", text.data);
        json_put_text(json_sub(answer, "annotations"), ANNOTATION_DEVICE_ALLOCATED, text.data);
    }
    json_put_bool(answer, "ok", !text.failed);
    strbuf_done(&text);
}

static void run_format(struct vector *v, json_object *answer)
{
    struct placement placement;
    if (read_placement(v, "given.allocations", json_get(v->given, "allocations"), &placement))
        put_annotation(answer, &placement);
}

static const struct device *device_of(const struct inventory *inventory, const struct share *share)
{
    for (uint32_t i = 0; i < inventory->count; i++)
        if (inventory->devices[i].kind == share->kind &&
            inventory->devices[i].minor == share->minor)
            return &inventory->devices[i];
    return NULL;
}

/* The annotation of a placement with the ids of the node's Device object; without such an object no
 * placement comes about, which the cache says. */
static void run_prebind(struct vector *v, json_object *answer)
{
    struct placement placement;
    struct node_cards node;
    struct settings settings;
    if (!read_placement(v, "given.allocations", json_get(v->given, "allocations"), &placement) ||
        !read_node(v, json_get(v->given, "node"), &node) ||
        !read_config(v, json_get(v->given, "config"), &settings) ||
        !fields_known(v, "given.pod", json_get(v->given, "pod"), "name annotations labels"))
        return;
    if (!node.has_devices) {
        enum reason reason;
        struct pod_request request = {0};
        for (uint32_t i = 0; i < placement.count; i++) {
            struct device_request *of = &request.of[placement.cards[i].share.kind];
            of->count++;
            of->each.percent = 100;
            of->named = DIM_BIT(DIM_PERCENT);
        }
        if (verdict_without_devices(v, &request, &reason))
            json_put_bool(answer, "ok", reason == REASON_FITS);
        return;
    }
    for (uint32_t i = 0; i < placement.count; i++) {
        const struct device *device = device_of(&node.inventory, &placement.cards[i].share);
        if (device == NULL) {
            vector_unsupported(v, "given.allocations names a card that the node does not list");
            return;
        }
        (void)snprintf(placement.cards[i].id, sizeof(placement.cards[i].id), "%.*s",
                       STR_ARG(device->id));
    }
    put_annotation(answer, &placement);
}

/* ---- the table ---- */

static const struct expectation parse_fields[] = {
    {"ok", COMPARE_EXACT, NULL, NULL},
    {"allocations", COMPARE_AMOUNTS, NULL, NULL},
    {"error", COMPARE_IGNORED, NULL, NULL},
    {0},
};

static const struct expectation format_fields[] = {
    {"ok", COMPARE_EXACT, NULL, NULL},
    {"annotation", COMPARE_EXACT, NULL, NULL},
    {"annotations", COMPARE_EXACT, NULL, NULL},
    {0},
};

const struct op annotation_ops[] = {
    {"parse_device_allocated", "annotation", parse_fields, run_parse},
    {"format_device_allocated", "allocations", format_fields, run_format},
    {"prebind", "allocations node pod config", format_fields, run_prebind},
    {0},
};
