"""CRC-32C, the checksum of every record: by the processor's instruction when compiled.

This is Castagnoli's polynomial, as in iSCSI (RFC 3720 appendix B.4). The code is in crc32c.h.
The uncompiled build uses the package google-crc32c, and the tests compare with it.
"""

import cython

if not cython.compiled:
    import google_crc32c


def crc32c(data: bytes | bytearray | memoryview, seed: int = 0) -> int:
    """Return the checksum of `data`, continued from `seed`: an earlier checksum, or a salt."""
    if cython.compiled:
        text = bytes(data)
        return crc32c_extend(seed, text, len(text))
    else:
        return int(google_crc32c.extend(seed, bytes(data)))


if cython.compiled:
    crc32c_choose(0)
