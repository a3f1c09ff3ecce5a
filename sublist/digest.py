"""The digest of a subject: its key in the table of routes, which no client can foresee.

    keys = keys_of(seed)                     four secret numbers; the seed comes from the system
    digest_span(keys, data, start, size)     32 bits; digest.h has the same for the compiled build

A client that could choose subjects with one digest, or one slot, would make the others' routes push
each other out. So the digest depends on secrets of this process, and on nothing else that a client
can learn. It is never written, sent or shown.

A subject of more than 16 bytes is read in steps of two words of eight bytes, and the last step
reads its last 16 bytes, whether or not some of them were read before. From 8 to 16 bytes the two
words are its first and its last eight. A shorter one is one word, filled up with zero bytes.
"""

from typing import Final

import cython

SEED_SIZE: Final = 32


def keys_of(seed: bytes) -> list[int]:
    """Return the keys that these 32 random bytes give."""
    assert len(seed) == SEED_SIZE, "a seed gives four keys of eight bytes"
    return [int.from_bytes(seed[at : at + 8], "little") for at in range(0, SEED_SIZE, 8)]


if not cython.compiled:
    KEYS: Final = 4
    MASK64: Final = (1 << 64) - 1

    def digest_span(keys: list[int], data: bytes | bytearray, start: int, size: int) -> int:
        """The digest of `data[start : start + size]`."""
        at, end = start, start + size
        total = keys[0]
        while end - at > 16:
            total = fold(word(data, at) ^ keys[1], word(data, at + 8) ^ total)
            at += 16
        if size >= 8:
            first, last = word(data, end - 16 if size > 16 else at), word(data, end - 8)
        else:
            first, last = int.from_bytes(data[at:end], "little"), 0
        total = fold(first ^ keys[1], last ^ total)
        return fold(total ^ keys[2], size ^ keys[3]) & 0xFFFFFFFF

    def word(data: bytes | bytearray, at: int) -> int:
        """Eight bytes as a number, the first as its lowest byte."""
        return int.from_bytes(data[at : at + 8], "little")

    def fold(one: int, other: int) -> int:
        """The two halves of a product of 128 bits, as one."""
        product = one * other
        return product >> 64 ^ product & MASK64
