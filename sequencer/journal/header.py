"""The head of a segment file, and the names of a store's files.

     0 magic "SERIATIM"     8 version u16    10 size of this head u16    12 salt u32
    16 journal u64         24 first number u64      32 created u64 (ns)  40 epoch u32
    44 epoch before u32    48 zeros               60 crc u32: CRC-32C of the 60 bytes before

Little-endian. A segment is named by its first number, in 20 digits, so that names sort.
In a cluster all records of a segment have the epoch of its head, and `before` is the epoch of the
record before the first. So the heads of all segments say which numbers are of which epoch.
"""

import re
import struct
from typing import Final, NamedTuple

from sequencer.journal.crc import crc32c

MAGIC: Final = b"SERIATIM"
VERSION: Final = 1
START: Final = 64  # the size of the head; the first record begins there
SEGMENT: Final = ".segment"
INDEX: Final = ".index"
SUBJECTS: Final = ".subjects"
HEAD: Final = struct.Struct("<8sHHIQQQII12s")
NUMBER_MAX: Final = (1 << 63) - 1
NAME: Final = re.compile(r"([0-9]{20})(\.segment|\.index|\.subjects|\.ids)")


class Head(NamedTuple):
    """The content of a segment's head."""

    salt: int
    journal: str  # 16 hex digits
    first: int
    created: int
    epoch: int
    version: int = VERSION
    before: int = 0  # the epoch of number `first - 1`; 0 if that is not known


def encode_head(head: Head) -> bytes:
    journal = int(head.journal, 16)
    epochs = (head.epoch, head.before)
    fields = (head.salt, journal, head.first, head.created, *epochs, bytes(12))
    data = HEAD.pack(MAGIC, head.version, START, *fields)
    return data + struct.pack("<I", crc32c(data))


def decode_head(data: bytes) -> Head | None:
    """Return the head, or None if it is damaged or not a head."""
    if len(data) < START:
        return None
    magic, version, _, salt, journal, first, created, epoch, before, _ = HEAD.unpack_from(data)
    (crc,) = struct.unpack_from("<I", data, HEAD.size)
    if magic != MAGIC or crc != crc32c(data[: HEAD.size]):
        return None
    return Head(salt, f"{journal:016x}", first, created, epoch, version, before)


def stem(first: int) -> str:
    """The file name, without suffix, of the segment that begins with this number."""
    return f"{first:020d}"


def number_of(name: str, suffix: str) -> int:
    """The number in a file's name; 0 if the name is not that of such a file."""
    match = NAME.fullmatch(name)
    number = int(match[1]) if match and match[2] == suffix else 0
    return number if number <= NUMBER_MAX else 0
