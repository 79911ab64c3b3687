/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack_frag.h"

#include <string.h>

void frag_shape_init(const struct pack_tables *tables, const struct pack_node *node,
                     struct frag_shape *ret)
{
    ret->free_milli = 0;
    memset(ret->fitting, 0, tables->size_count * sizeof(ret->fitting[0]));
    memset(ret->below, 0, tables->size_count * sizeof(ret->below[0]));
    for (uint32_t card = 0; card < node->cards; card++) {
        int32_t free_milli = node->free_milli[card];
        ret->free_milli += free_milli;
        for (uint32_t i = 0; i < tables->size_count; i++) {
            bool fits = free_milli >= tables->sizes[i];
            ret->fitting[i] += fits;
            ret->below[i] += fits ? 0 : free_milli;
        }
    }
}

void frag_shape_move(const struct pack_tables *tables, struct frag_shape *shape, int32_t count,
                     int32_t from, int32_t to)
{
    shape->free_milli += (int64_t)count * (to - from);
    for (uint32_t i = 0; i < tables->size_count; i++) {
        int32_t size = tables->sizes[i];
        shape->fitting[i] += count * ((to >= size) - (from >= size));
        shape->below[i] += (int64_t)count * ((to >= size ? 0 : to) - (from >= size ? 0 : from));
    }
}

double frag_measure(const struct pack_tables *tables, uint32_t model, int64_t cpu_milli,
                    const struct frag_shape *shape)
{
    double used = 0;
    for (uint32_t word = 0; word < PACK_TYPICAL_WORDS; word++) {
        for (uint64_t left = tables->typical_of[model][word]; left != 0; left &= left - 1) {
            uint32_t i = word * 64 + (uint32_t)__builtin_ctzll(left);
            const struct pack_typical *pod = &tables->typical[i];
            if (cpu_milli >= pod->cpu_milli && shape->fitting[pod->size] >= pod->cards)
                used += pod->share * (double)(shape->free_milli - shape->below[pod->size]);
        }
    }
    return tables->typical_count > 0 ? (double)shape->free_milli - used : 0;
}

double frag_of_node(const struct pack_tables *tables, const struct pack_node *node)
{
    struct frag_shape shape;
    frag_shape_init(tables, node, &shape);
    return frag_measure(tables, node->model, node->cpu_milli, &shape);
}
