/* The digest of a subject under four secret keys: two words a step, by folded multiplication.

   A step multiplies two words, each mixed with a secret, and folds the 128 bits of the product into
   64. Every operand has a secret in it, so no client knows which word makes a product zero, or
   which two subjects give the same one. A last step mixes in the size, and makes the low bits,
   which choose the slot, depend on everything.

   Only the bytes of the subject are read. sublist/digest.py has the same in Python. */
#ifndef SERIATIM_DIGEST_H
#define SERIATIM_DIGEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Eight bytes as a number, the first as its lowest byte on every processor. */
static inline uint64_t digest_word(const unsigned char *text) {
    uint64_t word;
    memcpy(&word, text, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint64_t digest_half(const unsigned char *text) {
    uint32_t half;
    memcpy(&half, text, 4);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    half = __builtin_bswap32(half);
#endif
    return half;
}

/* The same of fewer than eight bytes: the missing ones are zero. */
static inline uint64_t digest_part(const unsigned char *text, size_t size) {
    if (size >= 4)  /* the halves overlap, in bytes that are equal */
        return digest_half(text) | digest_half(text + size - 4) << 8 * (size - 4);
    if (size == 0)
        return 0;
    return text[0] | (uint64_t)text[size >> 1] << 8 * (size >> 1)
        | (uint64_t)text[size - 1] << 8 * (size - 1);
}

static inline uint64_t digest_fold(uint64_t one, uint64_t other) {
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t low = (one & 0xFFFFFFFFu) * (other & 0xFFFFFFFFu);
    uint64_t left = (one >> 32) * (other & 0xFFFFFFFFu), right = (one & 0xFFFFFFFFu) * (other >> 32);
    uint64_t middle = (low >> 32) + (left & 0xFFFFFFFFu) + (right & 0xFFFFFFFFu);
    uint64_t high = (one >> 32) * (other >> 32) + (left >> 32) + (right >> 32) + (middle >> 32);
    return high ^ (middle << 32 | (low & 0xFFFFFFFFu));
#endif
}

static inline uint32_t digest_span(const unsigned long long *keys, const unsigned char *data,
                                   ptrdiff_t start, ptrdiff_t size) {
    const unsigned char *text = data + start, *end = text + size;
    uint64_t total = keys[0], first, last;
    while (end - text > 16) {
        total = digest_fold(digest_word(text) ^ keys[1], digest_word(text + 8) ^ total);
        text += 16;
    }
    if (size >= 8) {
        first = digest_word(size > 16 ? end - 16 : text);
        last = digest_word(end - 8);
    } else {
        first = digest_part(text, (size_t)size);
        last = 0;
    }
    total = digest_fold(first ^ keys[1], last ^ total);
    return (uint32_t)digest_fold(total ^ keys[2], (uint64_t)size ^ keys[3]);
}

#endif
