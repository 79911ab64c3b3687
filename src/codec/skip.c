/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/skip.h"

#include <assert.h>
#include <stddef.h>

#include "base/word.h"
#include "codec/reader_index.h"

#define BLOCK_BYTES 64

const char *skip_string(const char *at, const char *end)
{
    for (at++;; at += 2) { /* behind a backslash and what it escapes */
        uint32_t stops = 0;
        while (end - at >= LANE_BYTES && stops == 0) {
            lane bytes = lane_load(at);
            stops = lane_bits(lane_equal(bytes, '"') | lane_equal(bytes, '\\'));
            at += stops == 0 ? LANE_BYTES : __builtin_ctz(stops);
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
    for (unsigned i = 0; i < BLOCK_BYTES; i += LANE_BYTES) {
        lane bytes = lane_load(text + i);
        lane folded = lane_fold(bytes);
        block.quotes |= (uint64_t)lane_bits(lane_equal(bytes, '"')) << i;
        block.backslashes |= (uint64_t)lane_bits(lane_equal(bytes, '\\')) << i;
        block.opens |= (uint64_t)lane_bits(lane_equal(folded, '{')) << i;
        block.closes |= (uint64_t)lane_bits(lane_equal(folded, '}')) << i;
    }
    return block;
}

/* Bytes behind a backslash that is not escaped itself; *carry: the text before ended in one, or
 * these `length` bytes do. Backslashes are rare: one turn each. */
static uint64_t escaped_bytes(uint64_t backslashes, unsigned length, bool *carry)
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
    if (length < BLOCK_BYTES)
        *carry = escaped >> length & 1;
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
    uint32_t closing = word_count(closes);
    if (closing >= level) {
        uint32_t closed = 1;
        for (uint64_t left = closes; left != 0; left &= left - 1, closed++) {
            uint64_t before = (left & -left) - 1;
            if (level + word_count(opens & before) == closed)
                return (unsigned)__builtin_ctzll(left) + 1;
        }
    }
    *depth = level + word_count(opens) - closing;
    return 0;
}

const char *skip_on(struct skip *skip, const char *at, const char *end)
{
    while (at < end) {
        char rest[BLOCK_BYTES];
        const char *text = at;
        unsigned length = BLOCK_BYTES;
        if (end - at < BLOCK_BYTES) {
            length = (unsigned)(end - at);
            memset(rest, 0, sizeof rest);
            text = memcpy(rest, at, length);
        }
        struct block block = read_block(text);
        if ((block.backslashes | skip->escaped) != 0)
            block.quotes &= ~escaped_bytes(block.backslashes, length, &skip->escaped);
        uint64_t inside = running_parity(block.quotes) ^ skip->in_string;
        skip->in_string = -(inside >> 63);
        unsigned found = find_end(block.opens & ~inside, block.closes & ~inside, &skip->depth);
        if (found > 0)
            return at + found;
        at += length;
    }
    return NULL;
}

const char *skip_container(const char *at, const char *end)
{
    struct skip skip = {0};
    const char *near = end - at > BLOCK_BYTES ? at + BLOCK_BYTES : end;
    const char *behind = skip_on(&skip, at, near);
    if (behind == NULL)
        behind = reader_index_behind(at);
    if (behind == NULL)
        behind = skip_on(&skip, near, end);
    assert(behind != NULL);
    return behind;
}
