/* Finds where a word of the wire ends: 16 bytes at a time, or 8.

   Nothing at or after `stop` is read: what is left of the last step is read byte by byte. */
#ifndef SERIATIM_SCAN_H
#define SERIATIM_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) && defined(__GNUC__)
#include <emmintrin.h>
#define SCAN_STEPS_OF_16
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SCAN_STEPS_OF_8
#endif

/* The place of the first byte up to 32, a blank or a control, at or after `at`; or `stop`. */
static inline ptrdiff_t scan_word(const unsigned char *data, ptrdiff_t at, ptrdiff_t stop) {
#ifdef SCAN_STEPS_OF_16
    const __m128i space = _mm_set1_epi8(32);
    while (stop - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(data + at));
        int ends = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes));
        if (ends)
            return at + __builtin_ctz((unsigned)ends);
        at += 16;
    }
#endif
#ifdef SCAN_STEPS_OF_8
    while (stop - at >= 8) {
        const uint64_t ones = 0x0101010101010101u;
        uint64_t bytes, ends;
        memcpy(&bytes, data + at, 8);
        /* The highest bit of each byte up to 32. Those after the first may be wrong. */
        ends = (bytes - 33 * ones) & ~bytes & 128 * ones;
        if (ends)
            return at + (__builtin_ctzll(ends) >> 3);
        at += 8;
    }
#endif
    while (at < stop && data[at] > 32)
        at++;
    return at;
}

/* The number in up to nine digits from `at` on, and below it in four bits how many there are. */
static inline ptrdiff_t scan_number(const unsigned char *data, ptrdiff_t at, ptrdiff_t stop) {
    const ptrdiff_t begin = at, last = stop - at > 9 ? at + 9 : stop;
    ptrdiff_t number = 0;
    for (; at < last; at++) {
        unsigned digit = data[at] - (unsigned)'0';
        if (digit > 9)
            break;
        number = number * 10 + digit;
    }
    return number << 4 | (at - begin);
}

/* Whether the next four bytes, which are there, are `PUB `: one comparison. */
static inline int scan_pub(const unsigned char *data, ptrdiff_t at) {
    return memcmp(data + at, "PUB ", 4) == 0;
}

/* Whether the next five bytes, which are there, are `HPUB `. */
static inline int scan_hpub(const unsigned char *data, ptrdiff_t at) {
    return memcmp(data + at, "HPUB ", 5) == 0;
}

/* Whether the next two bytes, which are there, end a line: one comparison. */
static inline int scan_end(const unsigned char *data, ptrdiff_t at) {
    return memcmp(data + at, "\r\n", 2) == 0;
}

#endif
