"""Reads records and chunks slowly, from docs/journal-format.md; also writes them.

Shares nothing with the code under test: it uses `struct`, and google-crc32c for the checksums.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

import google_crc32c

MORE, RECORD, BAD, GAP, END = "more", "record", "bad", "gap", "end"
HEAD = struct.Struct("<IIQQQQIHHHHI")
LENGTH_MAX = 1 << 27
U64 = (1 << 64) - 1


class Record(NamedTuple):
    """The content of a record, and its position."""

    number: int
    time: int
    origin: int
    origin_sequence: int
    epoch: int
    flags: int
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


def checksum(salt: int, record: bytes) -> int:
    """Return the checksum of a whole record with its padding."""
    return int(google_crc32c.extend(salt, record[4:]))


def encode(record: Record, salt: int, checked: bool = True) -> bytes:
    """A record as it is stored."""
    spans = record.subject + record.reply + record.headers + record.payload
    sizes = (len(record.subject), len(record.reply), 0, len(record.headers))
    fields = (*record[:6], *sizes)
    text = HEAD.pack(0, 56 + len(spans), *fields) + spans
    text += bytes(-len(text) % 8)
    crc = checksum(salt, text) if checked else 0
    return struct.pack("<I", crc) + text[4:]


def padded_length(buffer: bytes | bytearray, at: int) -> int:
    """The length of the record at `at`, with padding, as the record itself says."""
    return int.from_bytes(buffer[at + 4 : at + 8], "little") + 7 & ~7


def decode(buffer: bytes, at: int, stop: int, salt: int | None) -> tuple[str, Record | None, int]:
    """Decode a record at `at`; also return the next one's place. No salt: no checksum test."""
    if stop - at < HEAD.size:
        return MORE, None, at
    crc, length, *fields, subject_size, reply_size, _, header_size = HEAD.unpack_from(buffer, at)
    spans_size = subject_size + reply_size + header_size
    if length > LENGTH_MAX or length < 56 + spans_size:
        return BAD, None, at
    after = at + (length + 7 & ~7)
    if after > stop:
        return MORE, None, at
    if salt is not None and checksum(salt, buffer[at:after]) != crc:
        return BAD, None, at
    place, spans = at + 56, []
    for size in (subject_size, reply_size, header_size):
        spans.append(buffer[place : place + size])
        place += size
    return RECORD, Record(*(*fields, *spans, buffer[place : at + length])), after


def walk(buffer: bytes, at: int, salt: int | None) -> tuple[list[Record], str, int]:
    """Return all records from `at` on, and how and where they end."""
    found: list[Record] = []
    while True:
        state, record, after = decode(buffer, at, len(buffer), salt)
        if record is None:
            return found, state, at
        found.append(record)
        at = after


Step = tuple[str, int, int] | Record  # a gap, from a number up to before another; or a row


def collect(
    records: list[Record], first: int, last: int, wanted: Callable[[bytes], bool]
) -> tuple[list[Step], bool]:
    """Return the rows and gaps of numbers `first` to `last`; and if the last one was reached."""
    steps: list[Step] = []
    for record in records:
        if first > last:
            break
        if record.number < first:
            continue
        if record.number > first:
            found = min(record.number, last + 1)
            steps.append((GAP, first, found))
            first = found
        if record.number == first <= last:
            if wanted(record.subject):
                steps.append(record)
            first += 1
    return steps, first > last


Row = tuple[int, int, bytes, bytes, bytes, bytes]


def rows_of(chunk: bytes) -> list[Row] | None:
    """The rows of a chunk of columns; None if it is not a valid chunk."""
    if len(chunk) < 96:
        return None
    magic, rows, flags, count = struct.unpack_from("<4s3I", chunk)
    if (magic, count) != (b"SQC1", 10) or flags >= 63:
        return None
    sections = []
    for at in range(16, 96, 8):
        offset, size = struct.unpack_from("<II", chunk, at)
        if offset % 8 or offset < 96 or offset + size > len(chunk):
            return None
        sections.append(chunk[offset : offset + size])
    integers: list[tuple[int, ...]] = []
    for at, section in enumerate(sections[:2]):
        there = not flags >> at & 1
        if len(section) != (8 * rows if there else 0):
            return None
        integers.append(struct.unpack(f"<{rows}q", section) if there else (0,) * rows)
    columns: list[list[bytes]] = []
    for at, (ends, data) in enumerate(zip(sections[2::2], sections[3::2], strict=True), 2):
        if flags >> at & 1:
            if ends or data:
                return None
            columns.append([b""] * rows)
            continue
        if len(ends) != 4 * (rows + 1):
            return None
        offsets = struct.unpack(f"<{rows + 1}i", ends)
        if offsets[0] != 0 or offsets[-1] != len(data) or list(offsets) != sorted(offsets):
            return None
        columns.append([data[offsets[at] : offsets[at + 1]] for at in range(rows)])
    return list(zip(*integers, *columns, strict=True))
