"""The draw that decides which member takes a number of a queue group: fast, the same for all."""

import zlib

import cython

if not cython.compiled:
    MASK32 = 0xFFFFFFFF
    FIRST_FACTOR = 0x85EBCA6B
    SECOND_FACTOR = 0xC2B2AE35


def seed_of(group: bytes) -> int:
    """Return the seed that makes the draws of one group differ from those of others."""
    return zlib.crc32(group)


def draw(number: int, seed: int) -> int:
    """Return 32 bits of a hash of both: neighbouring numbers have nothing in common."""
    bits = (number ^ (number >> 32) ^ seed) & MASK32
    bits ^= bits >> 16
    bits = (bits * FIRST_FACTOR) & MASK32
    bits ^= bits >> 13
    bits = (bits * SECOND_FACTOR) & MASK32
    bits ^= bits >> 16
    return bits
