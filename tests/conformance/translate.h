/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFORMANCE_TRANSLATE_H
#define CONFORMANCE_TRANSLATE_H

#include "core/device.h"
#include "core/extender.h"
#include "core/pod.h"
#include "core/policy.h"
#include "core/reason.h"
#include "core/request.h"
#include "core/score.h"
#include "runner.h"

/*
 * From the notation of the records to the project's structures, and back. `where` names the place
 * in the record for the reason why it is not supported. Functions that return bool return false
 * exactly when the record was found to be not supported.
 */

/* ---- amounts ---- */

/* A map of resource name to amount, as the amount of one card of `kind`. NULL is nothing. */
bool read_amount(struct vector *v, const char *where, json_object *map, enum device_kind kind,
                 struct amount *ret);

/* A new map of the dimensions that are not zero. */
json_object *amount_map(enum device_kind kind, const struct amount *amount);

/* Shares of cards by device type: {"gpu": [{"minor", "resources", "id"}]} or {"gpu": {"0": {..}}}.
 */
bool read_placement(struct vector *v, const char *where, json_object *types, struct placement *ret);

/* A new {"gpu": [{"minor", "resources", "id"}]}. */
json_object *placement_lists(const struct placement *placement);

/* A new {"gpu": {"0": {..}}}. */
json_object *placement_maps(const struct placement *placement);

/* ---- requests ---- */

/* What a pod asks for, as far as the real code got with it. */
struct asked {
    struct resources effective;
    struct pod_request request; /* when valid */
    bool valid;
    bool any;                  /* asks for a device; so it does when invalid */
    char text[ERROR_TEXT_MAX]; /* why it is invalid */
};

/* A new Pod object as the API server would hand it out. `pod` is the record's pod, NULL for one
 * that has nothing but `requests`. */
json_object *pod_object(struct vector *v, const char *where, json_object *pod,
                        json_object *requests, const char *uid);

/* Ask for what a record's pod, or a plain map of requests, asks for: decoded from a Pod object. */
bool ask_pod(struct vector *v, const char *where, json_object *pod, json_object *requests,
             struct asked *ret);

/* Ask for amounts by device type that went through Koordinator's conversion already. */
bool ask_converted(struct vector *v, const char *where, json_object *types, struct asked *ret);

/* A new list of the names of the valid combinations in what is asked for. */
json_object *combination_names(const struct asked *asked);

/* A new map of what one card of `kind` gives, in the dimensions that were named; NULL when the kind
 * is not asked for. */
json_object *per_card_map(const struct asked *asked, enum device_kind kind);

/* ---- nodes ---- */

/* A new Device object, to which device_entry() adds cards. */
json_object *device_object(const char *node);

/* Add a card of the record ("total" or "resources") to a Device object. */
bool device_entry(struct vector *v, const char *where, json_object *entry, json_object *device);

/* Decode a Device object as if it came from the API server. False also when its decoder refuses it.
 */
bool decode_device(struct vector *v, json_object *device, struct str *ret_node,
                   struct inventory *ret);

/* A node as its cards in columns, all in the record's memory. */
struct node_cards {
    struct card_columns columns;
    struct cards cards;
    struct inventory inventory; /* what its Device object lists */
    bool has_devices;           /* there is a Device object at all */
};

/* The record's node: fixture, devices and what is used on them. NULL: a node without Device object.
 */
bool read_node(struct vector *v, json_object *node, struct node_cards *ret);

/* Cards of one kind from {"0": {..}}, nothing used on them. */
bool read_totals(struct vector *v, const char *where, json_object *types, struct node_cards *ret);

/* What the cache says to a request on a node that has no Device object. */
bool verdict_without_devices(struct vector *v, const struct pod_request *request, enum reason *ret);

/* ---- settings ---- */

struct settings {
    const struct device_policy *policy;
    enum score_strategy strategy;
    struct score_weights weights;
};

/* given.config; NULL gives the defaults. */
bool read_config(struct vector *v, json_object *config, struct settings *ret);

#endif
