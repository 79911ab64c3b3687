/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CODEC_WORD_H
#define CODEC_WORD_H

#include <stdint.h>
#include <string.h>

/*
 * Eight bytes of text at a time in plain integers, on every processor alike. A mark is bit 7 of a
 * byte; the first byte of the text is the lowest of the word.
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

/* Not 0 exactly if a byte is below 0x20 or above 0x7f; which one the marks do not say. */
static inline uint64_t word_not_plain(uint64_t word)
{
    return ((word - WORD_OF(0x20)) | word) & WORD_MARKS;
}

/* Index of the first marked byte; there is one. */
static inline unsigned word_first(uint64_t marks)
{
    return (unsigned)__builtin_ctzll(marks) / 8;
}

/* The marks as eight bits. */
static inline uint64_t word_bits(uint64_t marks)
{
    return ((marks >> 7) * UINT64_C(0x0102040810204080)) >> 56;
}

#endif
