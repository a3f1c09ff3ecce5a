"""Chunks of columns as a broker would answer them, for tests that read or spoil them."""

import struct
from collections.abc import Sequence

from sequencer.journal.chunk import COLUMNS, left_out
from sequencer.journal.columns import Collector
from sequencer.journal.record import RecordBatch

SALT = 77
Fields = tuple[bytes, bytes, bytes, bytes]  # subject, reply, headers, payload


def chunk_of(messages: Sequence[Fields], first: int = 1, columns: Sequence[str] = COLUMNS) -> bytes:
    """Messages with these numbers, each 1.5 us after the one before."""
    batch = RecordBatch(SALT, 1)
    for number, fields in enumerate(messages, first):
        batch.append_message(number, 1_500 * number, *fields)
    collector = Collector(SALT, 1 << 20, 1 << 30)
    collector.start_range(first, first + len(messages) - 1, None, left_out(columns))
    store = bytearray(batch.view())
    collector.collect(store, 0, len(store))
    return collector.chunk()


def payloads(*texts: bytes) -> list[Fields]:
    return [(b"orders.eu", b"", b"", text) for text in texts]


def section(chunk: bytes, at: int) -> tuple[int, int]:
    """The offset and the size of a section, as the chunk's head has them."""
    offset, size = struct.unpack_from("<II", chunk, 16 + 8 * at)
    return int(offset), int(size)


def spoilt(chunk: bytes, at: int, word: int) -> bytes:
    """The chunk, with another 32-bit word at this place."""
    made = bytearray(chunk)
    struct.pack_into("<I", made, at, word & 0xFFFFFFFF)
    return bytes(made)
