/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

/*
 * A fuzz target is one function over bytes. libFuzzer calls it with what it makes up; replay.c calls it with
 * the files of a corpus, which needs no clang. A target that finds something wrong aborts.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the bytes were, this holds. */
#define MUST(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

_Noreturn static inline void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

/* Cuts text into pieces of sizes that its seed decides, mostly small ones. */
struct splitter {
    struct str rest;
    uint32_t state;
};

/* The first four bytes are the seed, the rest is the text. */
static inline struct splitter splitter_init(const uint8_t *data, size_t size)
{
    struct splitter splitter = {.state = 0};
    size_t seed = size < sizeof splitter.state ? size : sizeof splitter.state;
    memcpy(&splitter.state, data, seed);
    splitter.rest = (struct str){(const char *)data + seed, size - seed};
    return splitter;
}

/* The next piece, which may be empty; false at the end. */
static inline bool splitter_next(struct splitter *splitter, struct str *ret)
{
    if (splitter->rest.len == 0)
        return false;
    splitter->state = splitter->state * 1664525u + 1013904223u;
    uint32_t choice = splitter->state >> 24;
    size_t len = choice < 200 ? choice % 7 : (size_t)choice * 16;
    len = len < splitter->rest.len ? len : splitter->rest.len;
    *ret = (struct str){splitter->rest.data, len};
    splitter->rest = (struct str){splitter->rest.data + len, splitter->rest.len - len};
    return true;
}

#endif
