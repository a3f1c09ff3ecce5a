"""The codec `binary`: carries every field of a message, and says which numbers are gaps.

     0 magic "SERI"       4 version u8 (1)     5 kind u8 (0 data, 1 heartbeat, 2 end)
     6 count u16          8 journal u64       16 previous u64       24 after u64      32 epoch u32
    36 count records:
     0 length u32         of the record, this head too
     4 number u64        12 time u64 (ns)     20 headers' size u32  24 subject's size u16
    26 subject, headers, payload

Big-endian. A datagram accounts for every number between `previous` and `after`: numbers that are
not in it were left out by the feed's filter. In a data datagram, `after` is the last number plus
one. In a heartbeat, and at the end, it is the next number to come.
"""

import cython

from sequencer.feed.errors import CodecError
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT, Codec, Packet
from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.record import Walk

if not cython.compiled:
    from sequencer.feed.feed_codec import copy
    from sequencer.feed.network import read_number, write_number

    MAGIC = 0x53455249
    VERSION = 1
    HEAD_SIZE = 36
    RECORD_SIZE = 26  # of a record's head
    NUMBER_MAX = (1 << 63) - 1


class BinaryCodec(Codec):
    """Carries number, time, subject, headers, payload, the stream's id, and what was left out."""

    def __init__(self) -> None:
        super().__init__(head_size=HEAD_SIZE)
        self.stream = 0

    def open(self, journal: str, epoch: int) -> None:
        super().open(journal, epoch)
        self.stream = int(journal, 16)

    def measure(self, walk: Walk, data: bytes | bytearray) -> int:
        return RECORD_SIZE + walk.subject_size + walk.header_size + walk.payload_size

    def put(self, out: bytearray, at: int, walk: Walk, data: bytes | bytearray) -> int:
        size = RECORD_SIZE + walk.subject_size + walk.header_size + walk.payload_size
        at = write_number(out, at, 4, size)
        at = write_number(out, at, 8, walk.number)
        at = write_number(out, at, 8, walk.time)
        at = write_number(out, at, 4, walk.header_size)
        at = write_number(out, at, 2, walk.subject_size)
        at = copy(out, at, data, walk.subject, walk.subject_size)
        return copy(out, at, data, walk.body, walk.header_size + walk.payload_size)

    def seal(
        self,
        out: bytearray,
        start: int,
        end: int,
        previous: int,
        first: int,
        last: int,
        count: int,
    ) -> int:
        return self._head(out, start, 0, count, previous, last + 1)  # DATA

    def heartbeat(self, previous: int, after: int) -> bytes:
        return self._alone(HEARTBEAT, previous, after)

    def end(self, previous: int, after: int) -> bytes:
        return self._alone(END, previous, after)

    def decode(self, datagram: bytes) -> Packet:
        return _decode(datagram)

    def _alone(self, kind: int, previous: int, after: int) -> bytes:
        """A head without records."""
        out = bytearray(HEAD_SIZE)
        self._head(out, 0, kind, 0, previous, after)
        return bytes(out)

    def _head(
        self, out: bytearray, at: int, kind: int, count: int, previous: int, after: int
    ) -> int:
        at = write_number(out, at, 4, MAGIC)
        at = write_number(out, at, 1, VERSION)
        at = write_number(out, at, 1, kind)
        at = write_number(out, at, 2, count)
        at = write_number(out, at, 8, self.stream)
        at = write_number(out, at, 8, previous)
        at = write_number(out, at, 8, after)
        write_number(out, at, 4, self.epoch)
        return 0


def _decode(datagram: bytes) -> Packet:
    """Read the head, and as many records as it says."""
    data = datagram
    size = len(datagram)
    if size < HEAD_SIZE:
        raise CodecError(size, f"the head has {HEAD_SIZE} bytes: cut off?")
    if read_number(data, 0, 4) != MAGIC:
        raise CodecError(0, "the datagram does not begin with 'SERI'")
    if data[4] != VERSION:
        raise CodecError(4, f"version {data[4]}; this program reads version 1")
    kind = data[5]
    count = read_number(data, 6, 2)
    if kind > END:
        raise CodecError(5, f"kind {kind} is not data (0), heartbeat (1) or end (2)")
    if (count == 0) != (kind != DATA):
        raise CodecError(6, "data must have messages, and other kinds must not")
    previous = read_number(data, 16, 8)
    after = read_number(data, 24, 8)
    if previous >= after or after - 1 > NUMBER_MAX:
        raise CodecError(16, f"{after} is not a valid next number after {previous}")
    session = b"%016x-%d" % (read_number(data, 8, 8), read_number(data, 32, 4))
    messages: list[FeedMessage] = []
    at, last = HEAD_SIZE, previous
    for _ in range(count):
        end = _record(datagram, at, last, messages)
        last = read_number(data, at + 4, 8)
        at = end
    if at != size:
        raise CodecError(at, f"{size - at} bytes after the last record")
    if kind == DATA and last + 1 != after:
        raise CodecError(24, f"{after} does not follow the last number, {last}")
    return Packet(kind, messages, previous, after, session)


def _record(datagram: bytes, at: int, last: int, messages: list[FeedMessage]) -> int:
    """Read the record at `at`, whose number must be larger than `last`; return where it ends."""
    data = datagram
    left = len(datagram) - at
    if left < RECORD_SIZE:
        raise CodecError(at, f"a record's head has {RECORD_SIZE} bytes: cut off?")
    length = read_number(data, at, 4)
    if length > left:
        raise CodecError(at, f"the record ends {length - left} bytes later: cut off?")
    header_size = read_number(data, at + 20, 4)
    subject_size = read_number(data, at + 24, 2)
    if length < RECORD_SIZE + header_size + subject_size:
        raise CodecError(at, "the record is shorter than its parts")
    number = read_number(data, at + 4, 8)
    if not last < number <= NUMBER_MAX:
        raise CodecError(at + 4, f"number {number} after number {last}")
    subject = at + RECORD_SIZE
    headers = subject + subject_size
    payload = headers + header_size
    end = at + length
    messages.append(
        FeedMessage(
            number,
            datagram[payload:end],
            datagram[subject:headers],
            datagram[headers:payload],
            read_number(data, at + 12, 8),
        )
    )
    return end
