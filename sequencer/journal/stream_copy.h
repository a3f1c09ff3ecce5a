/* Copies what this processor will not read again past its cache.

   A journal's records are written once, and the next reader is the disk. With ordinary stores each
   line of them would be fetched first, and would push out what the next message needs: that makes
   everything else slower, too. Intel, Optimization Reference Manual, 9.4.1: streaming stores. */
#ifndef SERIATIM_STREAM_COPY_H
#define SERIATIM_STREAM_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STREAM_LINE 64
#define STREAM_LEAST 4096 /* waiting for the stores to end costs more than less than this gains */

#if defined(__SSE2__)

#include <emmintrin.h>

static inline void stream_copy(unsigned char *to, const unsigned char *from, size_t size) {
    if (size >= STREAM_LEAST) {
        size_t before = -(uintptr_t)to & (STREAM_LINE - 1);
        memcpy(to, from, before);
        to += before;
        from += before;
        size -= before;
        for (; size >= STREAM_LINE; to += STREAM_LINE, from += STREAM_LINE, size -= STREAM_LINE) {
            __m128i one = _mm_loadu_si128((const __m128i *)from);
            __m128i two = _mm_loadu_si128((const __m128i *)from + 1);
            __m128i three = _mm_loadu_si128((const __m128i *)from + 2);
            __m128i four = _mm_loadu_si128((const __m128i *)from + 3);
            _mm_stream_si128((__m128i *)to, one);
            _mm_stream_si128((__m128i *)to + 1, two);
            _mm_stream_si128((__m128i *)to + 2, three);
            _mm_stream_si128((__m128i *)to + 3, four);
        }
        _mm_sfence(); /* before anything that says that it is there */
    }
    memcpy(to, from, size);
}

#else

static inline void stream_copy(unsigned char *to, const unsigned char *from, size_t size) {
    memcpy(to, from, size);
}

#endif
#endif
