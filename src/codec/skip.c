/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/skip.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "codec/word.h"

#define BLOCK_BYTES 64

const char *skip_string(const char *at, const char *end)
{
    for (at++;; at += 2) { /* behind a backslash and what it escapes */
        uint64_t stops = 0;
        while (end - at >= WORD_BYTES && stops == 0) {
            uint64_t word = word_load(at);
            stops = word_equal(word, '"') | word_equal(word, '\\');
            at += stops == 0 ? WORD_BYTES : word_first(stops);
        }
        while (*at != '"' && *at != '\\')
            at++;
        if (*at == '"')
            return at + 1;
    }
}

/* A block of text, one bit a byte. */
struct block {
    uint64_t quotes, backslashes, opens, closes;
};

static struct block read_block(const char *text)
{
    struct block block = {0};
    for (unsigned i = 0; i < BLOCK_BYTES; i += WORD_BYTES) {
        uint64_t word = word_load(text + i);
        uint64_t folded = word | WORD_OF(0x20); /* [ and ] become { and } */
        block.quotes |= word_bits(word_equal(word, '"')) << i;
        block.backslashes |= word_bits(word_equal(word, '\\')) << i;
        block.opens |= word_bits(word_equal(folded, '{')) << i;
        block.closes |= word_bits(word_equal(folded, '}')) << i;
    }
    return block;
}

/* Bytes behind a backslash that is not escaped itself; *carry: the block before ended in one, or
 * this one does. Backslashes are rare: one turn each. */
static uint64_t escaped_bytes(uint64_t backslashes, bool *carry)
{
    uint64_t escaped = *carry;
    uint64_t left = backslashes & ~escaped;
    *carry = false;
    while (left != 0) {
        uint64_t next = (left & -left) << 1;
        *carry = next == 0;
        escaped |= next;
        left &= left - 1;
        left &= ~next;
    }
    return escaped;
}

/* Bit i of the result: an odd number of the bits 0 to i is set. */
static uint64_t running_parity(uint64_t bits)
{
    for (unsigned shift = 1; shift < 64; shift *= 2)
        bits ^= bits << shift;
    return bits;
}

/* Where in the block the depth becomes 0, as an index behind it; 0: it does not, and *depth is that
 * at its end. */
static unsigned find_end(uint64_t opens, uint64_t closes, uint64_t *depth)
{
    uint64_t level = *depth;
    if ((uint64_t)__builtin_popcountll(closes) >= level) {
        for (uint64_t left = closes, closed = 1; left != 0; left &= left - 1, closed++) {
            uint64_t before = (left & -left) - 1;
            if (level + (uint64_t)__builtin_popcountll(opens & before) == closed)
                return (unsigned)__builtin_ctzll(left) + 1;
        }
    }
    *depth = level + (uint64_t)__builtin_popcountll(opens) - (uint64_t)__builtin_popcountll(closes);
    return 0;
}

const char *skip_container(const char *at, const char *end)
{
    uint64_t depth = 0, in_string = 0; /* all bits or none */
    bool carry = false;
    for (;; at += BLOCK_BYTES) {
        assert(at < end);
        char rest[BLOCK_BYTES] = {0};
        const char *text = at;
        if (end - at < BLOCK_BYTES)
            text = memcpy(rest, at, (size_t)(end - at));
        struct block block = read_block(text);
        if ((block.backslashes | carry) != 0)
            block.quotes &= ~escaped_bytes(block.backslashes, &carry);
        uint64_t inside = running_parity(block.quotes) ^ in_string;
        in_string = -(inside >> 63);
        unsigned length = find_end(block.opens & ~inside, block.closes & ~inside, &depth);
        if (length > 0)
            return at + length;
    }
}
