# SPDX-License-Identifier: Apache-2.0
"""The faults that run.py plants, one at a time: (file, what is there, what is put there instead).

The first text occurs exactly once in its file, or run.py refuses: so an edit elsewhere cannot turn a mutant into another
one unseen. Each changes what the code does; those that no test can see are in EQUIVALENT, with the reason.
"""

MUTANTS = [
    # ---- which cards fit ----
    ("src/core/allocate.c", "(need->percent <= room->percent)", "(need->percent < room->percent)"),
    ("src/core/allocate.c", "need->bytes <= room->bytes", "need->bytes < room->bytes"),
    ("src/core/allocate.c", "need->ratio <= room->ratio;", "need->ratio <= room->ratio + 1;"),
    ("src/core/allocate.c", "need->ratio * room->total_bytes < (room->bytes + 1) * 100",
     "need->ratio * room->total_bytes <= (room->bytes + 1) * 100"),
    ("src/core/allocate.c", "need->bytes * 100 < (room->ratio + 1) * room->total_bytes",
     "need->bytes * 100 < room->ratio * room->total_bytes"),
    ("src/core/allocate.c", "((room->pods & need->pods_mask) == 0)", "true"),
    ("src/core/allocate.c", "((room->has & need->named) == need->named)", "((room->has & need->named) != 0)"),
    ("src/core/allocate.c", "return enough ? REASON_FITS : shortage(cards, kind, of);", "return REASON_FITS;"),
    ("src/core/allocate.c", "left -= request->of[kind].count;", "left -= 1;"),
    ("src/core/allocate.c", "return allocate_fits_empty(cards, request) ? first : REASON_TOO_BIG;", "return first;"),
    # ---- which cards are chosen ----
    ("src/core/allocate.c", "if (place == choice->limit)\n        return;", "if (place + 1 == choice->limit)\n        return;"),
    ("src/core/allocate.c", "    sort_rows(&choice);\n", ""),
    ("src/core/allocate.c", "add_share(cards, kind, of, rows[i], plan);", "add_share(cards, kind, of, rows[0], plan);"),
    ("src/core/allocate.c", ".minor = cards->at->minor[row],", ".minor = (int32_t)row,"),
    ("src/core/policy_binpack.c", "card_fullness_compare(cards, kind, a, b) > 0",
     "card_fullness_compare(cards, kind, a, b) >= 0"),
    ("src/core/policy_spread.c", "SCORE_LEAST_ALLOCATED", "SCORE_MOST_ALLOCATED"),
    # ---- what cards have left ----
    ("src/core/device.c", "return total > used ? total - used : 0;", "return total - used;"),
    ("src/core/device.c", "sign > 0 ? before + value : before - value", "before + value"),
    ("src/core/device.c", "columns->pods[row] += sign > 0 ? 1u : -1u;", "columns->pods[row] += sign > 0 ? 1u : 0u;"),
    ("src/core/device.c", "return ratio * total_bytes / 100;", "return (ratio * total_bytes + 99) / 100;"),
    ("src/core/device.c", "amount_get(&columns->used[row], dim) > total;", "amount_get(&columns->used[row], dim) >= total;"),
    # ---- what placed pods are charged ----
    ("src/core/charge.c", "return a > b ? a : b;", "return a < b ? a : b;"),
    ("src/core/charge.c", "if (named[kind] < request->of[kind].count)", "if (named[kind] <= request->of[kind].count - 2)"),
    ("src/core/charge.c", "if (trust == CHARGE_TRUSTED && !agree)", "if (false)"),
    ("src/core/charge.c", "written == expected - 1", "written <= expected"),
    ("src/core/charge.c", "    derive_memory(&charge, request->named, total);\n", ""),
    # ---- what is asked for ----
    ("src/core/quantity.c", "m.overflow || m.value > (parts.negative ? MAGNITUDE_MAX : MAGNITUDE_MAX - 1)",
     "m.overflow || m.value > MAGNITUDE_MAX"),
    ("src/core/quantity.c", "__builtin_add_overflow(m.value, (uint64_t)m.inexact, &m.value)", "false"),
    ("src/core/request.c", "return value < cards ? \"is less than 1 on each card\" : NULL;",
     "return value <= cards ? \"is less than 1 on each card\" : NULL;"),
    # ---- which nodes are named ----
    ("src/core/rank.c", "return a->score > b->score;", "return a->score < b->score;"),
    ("src/core/rank.c", "place = (int64_t)max - 1", "place = (int64_t)max"),
    ("src/core/rank.c", "if (reasons[i] == REASON_FITS && scores[i] < best)", "if (scores[i] < best)"),
    # ---- the life of a booking ----
    ("src/state/booking.c", "[BOOKING_FORGET] = ODD(BOUND, KEEP),", "[BOOKING_FORGET] = ODD(NONE, RELEASE),"),
    ("src/state/booking.c", "/* An event older than our binding. */\n            [BOOKING_SEEN_PENDING] = STEP(BOOKED, KEEP),",
     "[BOOKING_SEEN_PENDING] = STEP(NONE, RELEASE),"),
    ("src/state/booking.c",
     "another writer won. */\n            [BOOKING_SEEN_HERE] = STEP(BOUND, MOVE),",
     "another writer won. */\n            [BOOKING_SEEN_HERE] = STEP(BOUND, KEEP),"),
    # ---- nodes and cards in the cache ----
    ("src/state/cache_cards.c", "    for (struct pod_record *pod = node->pods; pod != NULL; pod = pod->next)\n        cache_charge_locked(cache, pod);\n", ""),
    ("src/state/cache_nodes.c", "cache->gains += !node->has_node ||", "cache->gains += false &&"),
    ("src/state/cache_nodes.c", "node_has_inventory(node) || node->pods != NULL || node->guests > 0)", "node_has_inventory(node) || node->guests > 0)"),
    ("src/state/cache_cards.c", "device->healthy ? device->total : (struct amount){0}", "device->total"),
    ("src/state/cache_charges.c", "if (sign < 0 && node->unknown_pods == 0)", "if (sign < 0)"),
    ("src/state/cache_charges.c", "    pod->confirmed = pod->unknown_outcome = pod->only_read = false;\n", ""),
    # ---- pods in the cache ----
    ("src/state/cache_pods.c", "if (record->only_read && event == BOOKING_SEEN_PENDING)", "if (false)"),
    ("src/state/cache_pods.c", "if (record->state == BOOKING_BOOKED && !record->confirmed)\n        return BOOK_IN_PROGRESS;", ""),
    ("src/state/cache_pods.c", "else if (!known && !pod->finished)", "else if (!known)"),
    ("src/state/cache_pods.c", "if (!known && cache->removals != removals)", "if (false)"),
    ("src/state/cache_pods.c", "        record->mark = mark;\n", ""),
    ("src/state/cache_pods.c", "    record->mark = cache->marks[CACHE_PODS];\n", ""),
    ("src/state/cache_pods.c", "    if (record->policy.invalid)\n        return BOOK_INVALID_POLICY;\n", ""),
    ("src/state/cache_pods.c", "    if (cache_node_closed_locked(cache, node, NULL))\n        return REASON_NODE_CLOSED;\n", ""),
    ("src/state/cache_pods.c", "    if (record != NULL)\n        record->unknown_outcome = false;\n    cache_unlock(cache);\n",
     "    if (record != NULL)\n        record->unknown_outcome = false;\n"),
    ("src/state/cache_pods.c", "    if (held == slot)\n        cache->gains = gains;", "    cache->gains = gains;"),
    # ---- questions ----
    ("src/state/cache_cards.c", "    cache_node_touched_locked(cache, (uint32_t)(node - cache->nodes));\n", ""),
    ("src/state/cache_scan.c", "if (scan->memo == NULL || slot == scan->own)", "if (scan->memo == NULL)"),
    ("src/state/cache_query.c", "unknown -= victim->trust == CHARGE_UNKNOWN;", ""),
    ("src/state/cache_query.c", "if (victim == NULL || victim->node != slot || victim->scan_epoch == epoch)",
     "if (victim == NULL || victim->node != slot)"),
    ("src/state/cache_scan.c", "self->rejected = self->state == BOOKING_NONE && !any_fits(inquiry);", "self->rejected = !any_fits(inquiry);"),
    ("src/state/cache_query.c", "self != NULL && self->node == slot ? verdict_without(cache, node, request, self)",
     "false ? verdict_without(cache, node, request, self)"),
    # ---- between filter and bind, and who waits ----
    ("src/state/cache_flight.c", "first->held_until_ns <= now_ns", "first->held_until_ns < now_ns"),
    ("src/state/cache_flight.c", "        cache_land_locked(cache, self);\n    if (wait_ns", "        (void)self;\n    if (wait_ns"),
    ("src/state/cache_flight.c", "        give_up_locked(cache);\n", ""),
    ("src/state/cache_wait.c", "if (!pod->unknown_outcome || pod->state != BOOKING_BOOKED)", "if (pod->state != BOOKING_BOOKED)"),
    ("src/state/cache_wait.c", "if (!pod->rejected || pod->request_invalid)", "if (pod->request_invalid)"),
    # ---- relists ----
    ("src/state/cache_list.c", " && !pod->only_read;", ";"),
    ("src/state/cache_list.c", "pod->version == version && pod->state == BOOKING_BOUND", "pod->version == version"),
    ("src/state/cache_list.c", "        guest->mark = cache->marks[CACHE_PODS];\n    cache_unlock", "        (void)0;\n    cache_unlock"),
    ("src/state/cache_list.c", "return (int32_t)(mark - than) < 0;", "return (int32_t)(mark - than) <= 0;"),
    ("src/state/cache_list.c", "return (int32_t)(mark - than) < 0;", "return mark < than;"),
    ("src/state/cache_list.c", "if (slot != MAP_NONE && kind == CACHE_NODES)", "if (slot != MAP_NONE && kind == CACHE_DEVICES)"),
    # ---- rows ----
    ("src/state/card_store.c", "        clear_rows(*ret);\n        return 0;\n    }\n    if (reserve_free", "        return 0;\n    }\n    if (reserve_free"),
]

# (file, what is put there): why nobody can tell the difference.
EQUIVALENT = {
    ("src/core/allocate.c", "((room->has & need->named) != 0)"):
        "what a card does not have it has nothing free of, and what is named is at least 1: the amounts say no as well",
    ("src/state/cache_list.c", "return mark < than;"):
        "marks wrap after four thousand million relists of one process",
    ("src/state/card_store.c", "        return 0;\n    }\n    if (reserve_free"):
        "rows are given back with nothing charged, and whoever takes them writes the rest: clearing is a second belt",
}
