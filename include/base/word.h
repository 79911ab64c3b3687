/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * Several bytes of text at a time. A word is eight of them in a plain integer, on every processor
 * alike: a mark is bit 7 of a byte, the first byte of the text is the lowest of the word.
 */
#define WORD_BYTES    8
#define WORD_OF(byte) (UINT64_C(0x0101010101010101) * (uint64_t)(unsigned char)(byte))
#define WORD_MARKS    WORD_OF(0x80)

/* The eight bytes at `at`, which all must be readable. */
static inline uint64_t word_load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word : __builtin_bswap64(word);
}

/* Marks exactly the bytes that equal `byte`. */
static inline uint64_t word_equal(uint64_t word, char byte)
{
    uint64_t differs = word ^ WORD_OF(byte);
    return ~(((differs & ~WORD_MARKS) + ~WORD_MARKS) | differs) & WORD_MARKS;
}

/* Marks exactly the bytes below 0x20 and above 0x7f. */
static inline uint64_t word_not_plain(uint64_t word)
{
    return (~((word & ~WORD_MARKS) + WORD_OF(0x60)) | word) & WORD_MARKS;
}

/* The marks as eight bits. */
static inline uint32_t word_bits(uint64_t marks)
{
    return (uint32_t)(((marks >> 7) * UINT64_C(0x0102040810204080)) >> 56);
}

/* How many bits are set; the processors that programs are built for by default have no instruction
 * for that. */
static inline uint32_t word_count(uint64_t word)
{
    word -= word >> 1 & WORD_OF(0x55);
    word = (word & WORD_OF(0x33)) + (word >> 2 & WORD_OF(0x33));
    word = (word + (word >> 4)) & WORD_OF(0x0f);
    return (uint32_t)(word * WORD_OF(1) >> 56);
}

/*
 * A lane is what one step looks at: a word, or sixteen bytes where every processor has registers for
 * them. A set of bytes is as the processor likes it; lane_bits() makes one bit a byte of it, the
 * first byte the lowest.
 */
#ifdef __SSE2__

#define LANE_BYTES 16
typedef char lane __attribute__((vector_size(LANE_BYTES)));
typedef signed char lane_set __attribute__((vector_size(LANE_BYTES)));

/* The bytes at `at`, which all must be readable. */
static inline lane lane_load(const char *at)
{
    lane bytes;
    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

/* The bytes that equal `byte`. */
static inline lane_set lane_equal(lane bytes, char byte)
{
    return (lane_set)(bytes == (lane){0} + byte);
}

/* The bytes below 0x20 and above 0x7f. */
static inline lane_set lane_not_plain(lane bytes)
{
#ifdef __clang__
    return (lane_set)bytes < (lane_set){0} + 0x20;
#else /* gcc turns it round, and then needs another instruction */
    return (lane_set)__builtin_ia32_pcmpgtb128((lane){0} + 0x20, bytes);
#endif
}

/* Are all bytes the same? */
static inline bool lane_same(lane a, lane b)
{
    return (uint32_t)__builtin_ia32_pmovmskb128((lane)(a == b)) == 0xffff;
}

/* One bit for each byte that is not the same, the first byte the lowest. */
static inline uint32_t lane_differ(lane a, lane b)
{
    return (uint32_t)__builtin_ia32_pmovmskb128((lane)(a == b)) ^ 0xffff;
}

/* Brackets become braces, and other things other things. */
static inline lane lane_fold(lane bytes)
{
    return bytes | ((lane){0} + 0x20);
}

/* One bit a byte, the first byte the lowest. */
static inline uint32_t lane_bits(lane_set set)
{
    return (uint32_t)__builtin_ia32_pmovmskb128((lane)set);
}

#else

#define LANE_BYTES WORD_BYTES
typedef uint64_t lane, lane_set;

/* As above. */
static inline lane lane_load(const char *at)
{
    return word_load(at);
}

/* As above. */
static inline lane_set lane_equal(lane bytes, char byte)
{
    return word_equal(bytes, byte);
}

/* As above. */
static inline lane_set lane_not_plain(lane bytes)
{
    return word_not_plain(bytes);
}

/* As above. */
static inline bool lane_same(lane a, lane b)
{
    return a == b;
}

/* As above. */
static inline uint32_t lane_differ(lane a, lane b)
{
    return word_bits(word_equal(a ^ b, 0)) ^ 0xff;
}

/* As above. */
static inline lane lane_fold(lane bytes)
{
    return bytes | WORD_OF(0x20);
}

/* As above. */
static inline uint32_t lane_bits(lane_set set)
{
    return word_bits(set);
}

#endif

/* memcmp() == 0 for what is short, like a name. */
static inline bool word_same_text(const char *a, const char *b, size_t len)
{
    if (len < WORD_BYTES)
        return memcmp(a, b, len) == 0;
    if (len < LANE_BYTES)
        return word_load(a) == word_load(b) &&
               word_load(a + len - WORD_BYTES) == word_load(b + len - WORD_BYTES);
    for (size_t i = 0; len - i > LANE_BYTES; i += LANE_BYTES)
        if (!lane_same(lane_load(a + i), lane_load(b + i)))
            return false;
    return lane_same(lane_load(a + len - LANE_BYTES), lane_load(b + len - LANE_BYTES));
}

/* memcpy() for what is short, like a name. */
static inline void word_copy_text(char *to, const char *from, size_t len)
{
    if (len >= LANE_BYTES && len <= (size_t)2 * LANE_BYTES) {
        char begin[LANE_BYTES], end[LANE_BYTES]; /* they may lie over each other */
        memcpy(begin, from, LANE_BYTES);
        memcpy(end, from + len - LANE_BYTES, LANE_BYTES);
        memcpy(to, begin, LANE_BYTES);
        memcpy(to + len - LANE_BYTES, end, LANE_BYTES);
    } else if (len >= WORD_BYTES && len < LANE_BYTES) {
        char begin[WORD_BYTES], end[WORD_BYTES];
        memcpy(begin, from, WORD_BYTES);
        memcpy(end, from + len - WORD_BYTES, WORD_BYTES);
        memcpy(to, begin, WORD_BYTES);
        memcpy(to + len - WORD_BYTES, end, WORD_BYTES);
    } else {
        memcpy(to, from, len);
    }
}

/* Bytes that do not stand for themselves in a JSON string, or may not: quote, backslash, control
 * characters, and what is more than one byte of UTF-8. */
static inline uint32_t lane_special(lane bytes)
{
    return lane_bits(lane_equal(bytes, '"') | lane_equal(bytes, '\\') | lane_not_plain(bytes));
}

#endif
