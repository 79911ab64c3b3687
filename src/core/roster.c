/* SPDX-License-Identifier: Apache-2.0 */
#include "core/roster.h"

#include <assert.h>
#include <string.h>

#include "base/word.h"
#include "core/names.h"

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* By words, the last one over the end of the one before, and a last stirring so that names that differ
 * in their last letter are far apart. */
uint32_t roster_hash(struct str name)
{
    uint64_t hash = name.len;
    size_t i = 0;
    if (name.len < WORD_BYTES) {
        for (; i < name.len; i++)
            hash = hash_word(hash, (unsigned char)name.data[i]);
    } else {
        for (; name.len - i > WORD_BYTES; i += WORD_BYTES)
            hash = hash_word(hash, word_load(name.data + i));
        hash = hash_word(hash, word_load(name.data + name.len - WORD_BYTES));
    }
    hash *= UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(hash ^ hash >> 32);
}

static size_t same_bytes(const char *a, const char *b, size_t len)
{
    size_t i = 0;
    for (; len - i >= LANE_BYTES; i += LANE_BYTES) {
        uint32_t differ = lane_differ(lane_load(a + i), lane_load(b + i));
        if (differ != 0)
            return i + (size_t)__builtin_ctz(differ);
    }
    while (i < len && a[i] == b[i])
        i++;
    return i;
}

uint32_t roster_match(const struct roster *roster, uint32_t place, const char *at, size_t len)
{
    if (place >= roster->count)
        return 0;
    const uint32_t *begin = roster->begin + place;
    size_t left = roster_bytes(roster, place, roster->count - place);
    size_t same = same_bytes(at, roster->text + begin[0], len < left ? len : left);
    /* The last name whose closing quote is the same: pieces are long, or one name. */
    uint32_t low = 0, high = 1, most = roster->count - place;
    while (high < most && begin[high] - 1 - begin[0] <= same) {
        low = high;
        high = high < most / 2 ? 2 * high : most;
    }
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (begin[middle] - 1 - begin[0] <= same)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

bool roster_takes(struct str name)
{
    if (name.len > NAME_SUBDOMAIN_MAX)
        return false;
    size_t i = 0;
    for (; name.len - i >= LANE_BYTES; i += LANE_BYTES)
        if (lane_special(lane_load(name.data + i)) != 0)
            return false;
    for (; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            return false;
    }
    return true;
}

/* ---- making one ---- */

/* Places by hash: at least two for each name, so that one is soon found. */
static uint32_t place_count(uint32_t count)
{
    uint32_t places = 16;
    while (places < UINT32_MAX / 4 && places / 2 < count)
        places *= 2;
    return places;
}

size_t roster_block_size(uint32_t count, size_t name_bytes)
{
    size_t text = (size_t)count * 3 + name_bytes;
    if (name_bytes > UINT32_MAX / 2 || count > UINT32_MAX / 16)
        return SIZE_MAX;
    size_t words = (size_t)count * 3 + 1 + place_count(count);
    return sizeof(struct roster) + words * sizeof(uint32_t) + text;
}

struct roster *roster_begin(void *block, uint32_t count, uint64_t version)
{
    struct roster *roster = block;
    uint32_t *words = (void *)(roster + 1);
    uint32_t places = place_count(count);
    roster->version = version;
    roster->begin = words;
    roster->number = words + count + 1;
    roster->hash = words + 2 * (size_t)count + 1;
    roster->place = words + 3 * (size_t)count + 1;
    roster->mask = places - 1;
    roster->text = (void *)(words + 3 * (size_t)count + 1 + places);
    return roster;
}

/* The parts may be written as long as nobody else knows the roster. */
static uint32_t *words_of(const uint32_t *words)
{
    return (uint32_t *)(uintptr_t)words;
}

void roster_add(struct roster *roster, struct str name, uint32_t number)
{
    uint32_t at = roster->begin[roster->count];
    char *text = (char *)(uintptr_t)roster->text + at;
    if (roster->count > 0)
        text[-1] = ',';
    text[0] = '"';
    memcpy(text + 1, name.data, name.len);
    text[name.len + 1] = '"';
    words_of(roster->number)[roster->count++] = number;
    words_of(roster->begin)[roster->count] = at + (uint32_t)name.len + 3;
    if (name.len > roster->longest)
        roster->longest = name.len;
}

void roster_end(struct roster *roster)
{
    uint32_t *hash = words_of(roster->hash), *place = words_of(roster->place);
    memset(place, 0xff, ((size_t)roster->mask + 1) * sizeof *place);
    for (uint32_t i = 0; i < roster->count; i++) {
        const uint32_t *begin = roster->begin + i;
        struct str name = {roster->text + begin[0] + 1, begin[1] - begin[0] - 3};
        hash[i] = roster_hash(name);
        uint32_t at = hash[i] & roster->mask;
        while (place[at] != ROSTER_NONE)
            at = (at + 1) & roster->mask;
        place[at] = i;
    }
}
