/* Whether two texts of one size are equal, eight bytes at a time: most subjects have two or three
   words, and then a call of memcmp costs more than the comparison. No byte outside is read. */
#ifndef SERIATIM_SAME_H
#define SERIATIM_SAME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline int same_eight(const unsigned char *one, const unsigned char *other) {
    uint64_t here, there;
    memcpy(&here, one, 8);
    memcpy(&there, other, 8);
    return here == there;
}

static inline int same_four(const unsigned char *one, const unsigned char *other) {
    uint32_t here, there;
    memcpy(&here, one, 4);
    memcpy(&there, other, 4);
    return here == there;
}

/* The last step reads the last bytes, whether or not some of them were read before. */
static inline int same_text(const unsigned char *one, const unsigned char *other, ptrdiff_t size) {
    ptrdiff_t at;
    if (size > 32)
        return memcmp(one, other, (size_t)size) == 0;
    if (size >= 8) {
        for (at = 0; size - at > 8; at += 8)
            if (!same_eight(one + at, other + at))
                return 0;
        return same_eight(one + size - 8, other + size - 8);
    }
    if (size >= 4)
        return same_four(one, other) && same_four(one + size - 4, other + size - 4);
    for (at = 0; at < size; at++)
        if (one[at] != other[at])
            return 0;
    return 1;
}

/* How many bytes are the same at the beginning of two texts. */
static inline ptrdiff_t same_size(const unsigned char *one, const unsigned char *other,
                                  ptrdiff_t size) {
    ptrdiff_t at = 0;
    while (size - at >= 8 && same_eight(one + at, other + at))
        at += 8;
    while (at < size && one[at] == other[at])
        at++;
    return at;
}

#endif
