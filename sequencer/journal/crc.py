"""CRC-32C: the checksum of every record, by the processor's instruction when compiled.

Castagnoli's polynomial, as iSCSI has it (RFC 3720 appendix B.4). crc32c.h has the code; the
uncompiled build asks the package google-crc32c, which is also what the tests judge by.
"""

import cython

if not cython.compiled:
    import google_crc32c


def crc32c(data: bytes | bytearray | memoryview, seed: int = 0) -> int:
    """The checksum of `data`, going on from `seed`: that of what came before, or a salt."""
    if cython.compiled:
        text = bytes(data)
        return crc32c_extend(seed, text, len(text))
    else:
        return int(google_crc32c.extend(seed, bytes(data)))


if cython.compiled:
    crc32c_choose(0)
