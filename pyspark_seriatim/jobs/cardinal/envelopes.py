"""Splits payloads of Cardinal messages into keys and values, a column at a time.

    33:...,5:hello,   ->   key b"...", value b"hello"        like cardinal.transport.envelope.unpack

A dozen operations on whole columns find where the netstrings of all rows begin and end; a Python
loop only slices the bytes.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cardinal.transport.envelope import LENGTH_DIGITS_MAX

COLON: Final = 0x3A
COMMA: Final = 0x2C
ZERO: Final = 0x30

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def split(payloads: pa.Array) -> tuple[list[bytes], list[bytes], list[int]]:
    """Keys, values, and the rows whose payload is not an envelope (these are empty)."""
    if len(payloads) == 0:
        return [], [], []
    wide = payloads.type == pa.large_binary()
    _, places, content = payloads.buffers()
    stored = np.frombuffer(places, np.int64 if wide else np.int32)
    edges: Places = stored[payloads.offset : payloads.offset + len(payloads) + 1].astype(np.int64)
    begin, end = int(edges[0]), int(edges[-1])  # possibly a small part of a large column
    data = b"" if content is None else content.slice(begin, end - begin).to_pybytes()
    edges -= begin
    octets = np.frombuffer(data or b"\0", np.uint8)  # never empty, so that indexing always works
    key, key_end, fine = _netstrings(octets, edges[:-1], edges[1:])
    value, value_end, also = _netstrings(octets, key_end + 1, edges[1:])
    fine &= also & (value_end + 1 == edges[1:])
    if payloads.null_count:
        fine &= np.asarray(payloads.is_valid())
    for place in (key, key_end, value, value_end):
        place[~fine] = 0
    return (
        [data[at:to] for at, to in zip(key.tolist(), key_end.tolist(), strict=True)],
        [data[at:to] for at, to in zip(value.tolist(), value_end.tolist(), strict=True)],
        np.flatnonzero(~fine).tolist(),
    )


def _netstrings(
    octets: npt.NDArray[np.uint8], at: Places, end: Places
) -> tuple[Places, Places, Flags]:
    """Find where the contents of the netstrings at `at` begin and end, and if they are valid."""
    highest = len(octets) - 1
    length, colon = np.zeros_like(at), np.full_like(at, -1)
    open_ = np.ones(len(at), np.bool_)
    for digit in range(LENGTH_DIGITS_MAX + 1):
        place = at + digit
        octet = octets[np.minimum(place, highest)]
        number = octet - np.uint8(ZERO)  # bytes below the digits wrap around to values above 9
        ended = open_ & (octet == COLON) & (place < end)
        colon[ended] = place[ended]
        open_ &= (number < 10) & (place < end)
        if not open_.any():
            break
        length = np.where(open_, length * 10 + number, length)
    first = octets[np.minimum(at, highest)]
    content_end = colon + 1 + length
    fine = (colon > at) & ((first != ZERO) | (colon == at + 1)) & (content_end < end)
    fine &= octets[np.clip(content_end, 0, highest)] == COMMA
    return colon + 1, content_end, fine
