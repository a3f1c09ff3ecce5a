"""Segments' records from an input: written correctly, then damaged as the input says.

    what subject payload [gap] [headers] [where where byte]  what subject payload ...

`what`: 0-1 the number (the next one twice, a later one, the one before), 2 from the reader's own
connection, 3 with a reply, 4 with headers, 5 damaged, 6 later, 7 a payload 64 times as long. If the
first of the two bytes for the position of the damage is below 0xC0, the checksum is corrected
afterwards, so that code behind the checksum is reached.
"""

import struct
from typing import NamedTuple

from fuzz.model_journal import HEAD, Record, checksum, encode, padded_length
from fuzz.supply import Supply

SALT = 0x5EA1A71D
OWN_ORIGIN = 7 << 32 | 1
BUFFER_MAX = 1 << 16  # bytes of one input's records
SUBJECTS = (b"a", b"b", b"a.b", b"a.b.c", b"b.a", b"c", b"a.bb", b"x" * 200, b"a..b", b"a.*", b"")
HEADERS = (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n", b"none", b"\r\n", b"x" * 700)
KEEP_CRC_FROM = 0xC0


class Damage(NamedTuple):
    """The replacement of one byte of the record at `at`."""

    at: int
    offset: int
    byte: int
    sealed: bool  # the record's checksum is corrected


def read_records(supply: Supply, first: int, checked: bool) -> bytes:
    """The bytes of all records in an input, as in a segment."""
    buffer, damages = bytearray(), []
    number, time = first, 1
    while supply and len(buffer) < BUFFER_MAX:
        what = supply.take()
        subject = SUBJECTS[supply.take() % len(SUBJECTS)]
        size = supply.take() * (64 if what & 128 else 1)
        if what & 3 == 2:
            number += supply.take()
        elif what & 3 == 3:
            number = max(number - 2, 1)
        time += what >> 6 & 1
        headers = HEADERS[supply.take() % len(HEADERS)] if what & 16 else b""
        origin = OWN_ORIGIN if what & 4 else 9
        reply = b"r.%d" % number if what & 8 else b""
        payload = bytes(at * 7 + number & 255 for at in range(size))
        record = Record(number, time, origin, number, 1, 0, subject, reply, headers, payload)
        if what & 32:
            where, low, byte = supply.take(), supply.take(), supply.take()
            offset = 4 + low % 52 if where & 63 < 48 else low
            damages.append(Damage(len(buffer), offset, byte, where < KEEP_CRC_FROM))
        buffer += encode(record, SALT, checked)
        number += 1
    for damage in reversed(damages):
        _damage(buffer, damage, checked)
    return bytes(buffer)


def _damage(buffer: bytearray, damage: Damage, checked: bool) -> None:
    """Apply the damage. Called from last to first: a length may now exceed its record."""
    at = damage.at
    if at + damage.offset < len(buffer):
        buffer[at + damage.offset] = damage.byte
    after = at + padded_length(buffer, at)
    if damage.sealed and checked and at + HEAD.size <= after <= len(buffer):
        struct.pack_into("<I", buffer, at, checksum(SALT, bytes(buffer[at:after])))
