/* Copies a short span without a call: most subjects, and many payloads, are shorter than 64 bytes.

   The last step copies the last bytes, whether or not some of them were copied before. No byte
   outside is read or written. */
#ifndef SERIATIM_COPY_H
#define SERIATIM_COPY_H

#include <stddef.h>
#include <string.h>

#define COPY_SHORT 64

static inline void copy_span(unsigned char *to, const unsigned char *from, size_t size) {
    if (size > COPY_SHORT) {
        memcpy(to, from, size);
    } else if (size >= 16) {
        const size_t last = size - 16;
        memcpy(to, from, 16);
        if (size > 32) {
            memcpy(to + 16, from + 16, 16);
            memcpy(to + last - 16, from + last - 16, 16);
        }
        memcpy(to + last, from + last, 16);
    } else if (size >= 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
        memcpy(to, from, 4);
        memcpy(to + size - 4, from + size - 4, 4);
    } else if (size) {
        to[0] = from[0];
        to[size >> 1] = from[size >> 1];
        to[size - 1] = from[size - 1];
    }
}

#endif
