/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/reader_index.h"

static _Thread_local struct reader_index *current;

void reader_index_begin(struct reader_index *index)
{
    index->text = NULL;
    index->count = 0;
    if (current == NULL)
        current = index;
}

void reader_index_end(struct reader_index *index)
{
    if (current == index)
        current = NULL;
}

struct reader_index *reader_index_wanted(struct str text)
{
    bool wanted = current != NULL && current->text == NULL && text.len <= UINT32_MAX;
    return wanted ? current : NULL;
}

void reader_index_keep(struct reader_index *index, struct str text, uint32_t nesting)
{
    index->text = text.data;
    index->length = text.len;
    index->nesting = nesting;
    if (text.data == NULL)
        index->count = 0;
}

const char *reader_index_behind(const char *at)
{
    const struct reader_index *index = current;
    if (index == NULL || index->text == NULL || at < index->text ||
        at >= index->text + index->length)
        return NULL;
    uint32_t start = (uint32_t)(at - index->text), low = 0, high = index->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (index->of[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == index->count || index->of[low].start != start)
        return NULL;
    return index->text + index->of[low].end;
}

bool reader_index_accepted(struct str text, uint32_t nesting)
{
    return text.len > 0 && current != NULL && nesting >= current->nesting &&
           reader_index_behind(text.data) == text.data + text.len;
}
