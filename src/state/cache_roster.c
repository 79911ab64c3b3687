/* SPDX-License-Identifier: Apache-2.0 */
#include "state/cache_internal.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/word.h"

/* The roster that calls are read with: made when nodes came or went, or when calls have another order. */

/* Calls that one order serves, at least: a scheduler that asks in many threads may have a new order each
 * time, and to make a roster costs as much as to find the names of some calls one by one. */
#define ORDER_CALLS 16u

/* In front of its roster, in one block. */
struct kept_roster {
    alignas(max_align_t) atomic_uint users;
    uint32_t calls; /* that took it; the lock is held */
};

static struct roster *roster_of(struct kept_roster *kept)
{
    return (void *)(kept + 1);
}

static void leave(struct kept_roster *kept)
{
    if (kept != NULL && atomic_fetch_sub(&kept->users, 1) == 1)
        mem_free(kept);
}

const struct roster *cache_roster_take(struct cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    struct kept_roster *kept = cache->roster;
    if (kept != NULL) {
        atomic_fetch_add(&kept->users, 1);
        kept->calls++;
    }
    cache_unlock(cache);
    return kept != NULL ? roster_of(kept) : NULL;
}

void cache_roster_leave(const struct roster *roster)
{
    if (roster != NULL)
        leave((struct kept_roster *)(uintptr_t)roster - 1);
}

void cache_roster_done(struct cache *cache)
{
    leave(cache->roster);
}

/* ---- making one ---- */

static uint32_t nodes_of(const struct cache *cache)
{
    return cache->node_slots - cache->counts.node_slots_free;
}

/* Does the call have so many of the nodes that its order is worth keeping? */
static bool has_many(const struct cache *cache, uint32_t count)
{
    return count >= nodes_of(cache) / 2;
}

static bool is_due(const struct cache *cache, const struct roster_notes *notes, uint32_t count)
{
    struct kept_roster *kept = cache->roster;
    if (notes->numbers == NULL || notes->version != cache->names_version || cache->roster_begun)
        return false;
    if (kept == NULL || roster_of(kept)->version != cache->names_version)
        return true;
    return notes->pieces > count / 4 && has_many(cache, count) && kept->calls >= ORDER_CALLS;
}

static void add_slot(struct cache *cache, struct roster *roster, uint32_t slot, uint32_t epoch)
{
    struct str name = cache->nodes[slot].name;
    if (cache->tags[slot].scan_epoch == epoch || name.data == NULL || !roster_takes(name))
        return;
    cache->tags[slot].scan_epoch = epoch;
    roster_add(roster, name, slot);
}

/* Those that are still called so. */
static void add_old(struct cache *cache, struct roster *roster, const struct roster *old,
                    uint32_t epoch)
{
    for (uint32_t i = 0; i < old->count; i++) {
        uint32_t slot = old->number[i], length = old->begin[i + 1] - old->begin[i] - 3;
        if (slot < cache->node_slots && cache->keys[slot].name_len == length &&
            word_same_text(cache->keys[slot].name, old->text + old->begin[i] + 1, length))
            add_slot(cache, roster, slot, epoch);
    }
}

/* All nodes: those of the call in its order, then the others as they were. */
static void add_all(struct cache *cache, struct roster *roster, const struct roster_notes *notes,
                    uint32_t count)
{
    uint32_t epoch = cache_next_epoch_locked(cache);
    for (uint32_t i = 0; has_many(cache, count) && i < count; i++)
        if (notes->numbers[i] != ROSTER_NONE)
            add_slot(cache, roster, notes->numbers[i], epoch);
    if (cache->roster != NULL)
        add_old(cache, roster, roster_of(cache->roster), epoch);
    for (uint32_t slot = 0; slot < cache->node_slots; slot++)
        add_slot(cache, roster, slot, epoch);
}

/* The names, or NULL when memory ends or nodes come and go. The lock is free meanwhile. */
static struct kept_roster *write_names(struct cache *cache, const struct roster_notes *notes,
                                       uint32_t count)
{
    pthread_mutex_lock(&cache->mutex);
    bool due = is_due(cache, notes, count);
    cache->roster_begun |= due;
    uint32_t nodes = nodes_of(cache);
    size_t size = roster_block_size(nodes, cache->name_bytes);
    cache_unlock(cache);
    if (!due)
        return NULL;
    struct kept_roster *kept = NULL;
    if (size < SIZE_MAX - sizeof *kept)
        kept = mem_calloc(1, sizeof *kept + size);
    pthread_mutex_lock(&cache->mutex);
    cache->roster_begun = kept != NULL && notes->version == cache->names_version;
    bool begun = cache->roster_begun;
    if (begun)
        add_all(cache, roster_begin(kept + 1, nodes, notes->version), notes, count);
    cache_unlock(cache);
    if (begun)
        return kept;
    mem_free(kept);
    return NULL;
}

void cache_roster_learn(struct cache *cache, const struct roster_notes *notes, uint32_t count)
{
    bool known = notes->roster != NULL && notes->version == notes->roster->version;
    if (known && notes->pieces <= count / 4)
        return;
    struct kept_roster *kept = write_names(cache, notes, count);
    if (kept == NULL)
        return;
    roster_end(roster_of(kept));
    atomic_init(&kept->users, 1);
    pthread_mutex_lock(&cache->mutex);
    struct kept_roster *old = cache->roster;
    cache->roster = kept;
    cache->roster_begun = false;
    cache_unlock(cache);
    leave(old);
}

/* ---- invariants ---- */

int cache_roster_check_locked(struct cache *cache, struct error *err)
{
    size_t name_bytes = 0;
    uint32_t takes = 0;
    for (uint32_t slot = 0; slot < cache->node_slots; slot++) {
        struct str name = cache->nodes[slot].name;
        name_bytes += name.len;
        takes += name.data != NULL && roster_takes(name);
    }
    if (name_bytes != cache->name_bytes)
        return error_set(err, -EFAULT, "the bytes of all names are counted wrongly");
    const struct roster *roster = cache->roster != NULL ? roster_of(cache->roster) : NULL;
    if (roster == NULL || roster->version != cache->names_version)
        return 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        uint32_t slot = roster->number[i];
        struct str name = {roster->text + roster->begin[i] + 1,
                           roster->begin[i + 1] - roster->begin[i] - 3};
        if (slot >= cache->node_slots || !str_eq(cache->nodes[slot].name, name))
            return error_set(err, -EFAULT, "the roster has another name for a node");
    }
    return takes == roster->count ? 0 : error_set(err, -EFAULT, "the roster lacks a node");
}
