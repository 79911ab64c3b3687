/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/reader_index.h"

static _Thread_local struct reader_index *current;

static void init(struct reader_index *index, struct reader_texts *texts)
{
    index->outer = NULL;
    index->texts = texts;
    index->text = NULL;
    index->count = 0;
}

void reader_index_begin(struct reader_index *index, struct reader_texts *texts)
{
    init(index, texts);
    if (current == NULL)
        current = index;
}

void reader_index_begin_inner(struct reader_index *index)
{
    init(index, NULL);
    index->outer = current;
    current = index;
}

void reader_index_end(struct reader_index *index)
{
    if (current == index)
        current = index->outer;
}

struct reader_index *reader_index_wanted(struct str text)
{
    bool wanted = current != NULL && current->text == NULL && text.len <= UINT32_MAX;
    return wanted ? current : NULL;
}

/* As many as there are if all are as long as this one, or twice those that there were. */
bool reader_index_more_texts(struct reader_texts *texts, struct str text, size_t left)
{
    size_t expected = texts->count + left / (text.len + 3) + 1, twice = (size_t)texts->count * 2;
    size_t room = expected > twice ? expected : twice;
    room = room < texts->most ? room : texts->most;
    if (texts->count >= room)
        return false;
    struct str *of = arena_alloc(texts->mem, room, sizeof *of);
    uint32_t *words = arena_alloc(texts->mem, room, 2 * sizeof *words);
    if (of == NULL || words == NULL) {
        texts->no_memory = true;
        return false;
    }
    if (texts->count > 0) {
        memcpy(of, texts->of, texts->count * sizeof *of);
        memcpy(words, texts->numbers, texts->count * sizeof *words);
        memcpy(words + room, texts->hashes, texts->count * sizeof *words);
    }
    texts->of = of;
    texts->numbers = words;
    texts->hashes = words + room;
    texts->room = (uint32_t)room;
    return true;
}

size_t reader_index_piece(struct reader_texts *texts, uint32_t place, const char *at, size_t left)
{
    const struct roster *roster = texts->roster;
    uint32_t room = texts->room - texts->count, from = texts->count;
    if (roster == NULL || room == 0)
        return 0;
    uint32_t count = roster_match(roster, place, at, left);
    count = count < room ? count : room;
    if (count == 0)
        return 0;
    const uint32_t *begin = roster->begin + place;
    const char *base = at + 1 - begin[0];
    struct str *of = texts->of + from;
    for (uint32_t i = 0, here = begin[0]; i < count; i++) {
        uint32_t next = begin[i + 1];
        of[i] = (struct str){base + here, next - here - 3};
        here = next;
    }
    memcpy(texts->numbers + from, roster->number + place, count * sizeof *texts->numbers);
    memcpy(texts->hashes + from, roster->hash + place, count * sizeof *texts->hashes);
    texts->count += count;
    texts->pieces++;
    texts->place = place + count;
    texts->longest = roster->longest > texts->longest ? roster->longest : texts->longest;
    return roster_bytes(roster, place, count);
}

void reader_index_keep(struct reader_index *index, struct str text, uint32_t nesting, uint32_t count)
{
    index->text = text.data;
    index->length = text.len;
    index->nesting = nesting;
    index->count = text.data != NULL ? count : 0;
}

const struct reader_token *reader_index_find(const char *at)
{
    const struct reader_index *index = current;
    if (index == NULL || index->text == NULL || at < index->text ||
        at >= index->text + index->length)
        return NULL;
    uint32_t low = 0, high = index->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (index->of[middle].start < at)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < index->count && index->of[low].start == at;
    return found ? &index->of[low] : NULL;
}

const char *reader_index_behind(const char *at)
{
    const struct reader_token *token = reader_index_find(at);
    return token != NULL ? token->start + token->length : NULL;
}

bool reader_index_accepted(struct str text, uint32_t nesting)
{
    return text.len > 0 && current != NULL && nesting >= current->nesting &&
           reader_index_behind(text.data) == text.data + text.len;
}
