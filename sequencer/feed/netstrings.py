r"""Frames as they are, one behind the other in a datagram: cquencer's way, and with the subject.

    netstring           L:<n>:<number>,<m>:<payload>,,                   23:5:88485,11:hello world,,
    netstring-subject   L:<n>:<number>,<m>:<payload>,<s>:<subject>,,

The first is byte-equal to cquencer's, and can say nothing but messages. The second has two
subjects of its own, which no message can have: `$SEQ.NEXT` is a heartbeat, its number the next
one to come; `$SEQ.END` says that nothing more comes.

Format: https://cr.yp.to/proto/netstrings.txt. A number or a length has one spelling.
"""

import cython

from sequencer.feed.errors import CodecError
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT, Codec, Packet
from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.record import Walk

if not cython.compiled:
    from sequencer.digits import inner_size, width_of, write_decimal
    from sequencer.feed.feed_codec import copy

    DIGITS_MAX = 19  # of a number up to 2^63-1

NEXT = b"$SEQ.NEXT"
LAST = b"$SEQ.END"


class NetstringCodec(Codec):
    """`netstring`: the frame, and nothing else."""

    def measure(self, walk: Walk, data: bytes | bytearray) -> int:
        inner = inner_size(walk.number, walk.payload_size)
        return width_of(inner) + inner + 2

    def put(self, out: bytearray, at: int, walk: Walk, data: bytes | bytearray) -> int:
        at = write_decimal(out, at, inner_size(walk.number, walk.payload_size))
        out[at] = ord(":")
        at = write_decimal(out, at + 1, width_of(walk.number))
        out[at] = ord(":")
        at = write_decimal(out, at + 1, walk.number)
        out[at] = ord(",")
        at = netstring(out, at + 1, data, walk.payload, walk.payload_size)
        out[at] = ord(",")
        return at + 1

    def decode(self, datagram: bytes) -> Packet:
        return _decode(datagram, False)


class NetstringSubjectCodec(Codec):
    """`netstring-subject`: a third child says the subject."""

    def measure(self, walk: Walk, data: bytes | bytearray) -> int:
        inner = inner_size(walk.number, walk.payload_size)
        inner += width_of(walk.subject_size) + walk.subject_size + 2
        return width_of(inner) + inner + 2

    def put(self, out: bytearray, at: int, walk: Walk, data: bytes | bytearray) -> int:
        inner = inner_size(walk.number, walk.payload_size)
        inner += width_of(walk.subject_size) + walk.subject_size + 2
        at = write_decimal(out, at, inner)
        out[at] = ord(":")
        at = write_decimal(out, at + 1, width_of(walk.number))
        out[at] = ord(":")
        at = write_decimal(out, at + 1, walk.number)
        out[at] = ord(",")
        at = netstring(out, at + 1, data, walk.payload, walk.payload_size)
        at = netstring(out, at, data, walk.subject, walk.subject_size)
        out[at] = ord(",")
        return at + 1

    def decode(self, datagram: bytes) -> Packet:
        return _decode(datagram, True)

    def heartbeat(self, previous: int, after: int) -> bytes:
        return self.datagram([FeedMessage(after, b"", NEXT)], previous)

    def end(self, previous: int, after: int) -> bytes:
        return self.datagram([FeedMessage(after, b"", LAST)], previous)


def netstring(out: bytearray, at: int, data: bytes | bytearray, start: int, size: int) -> int:
    """Write a netstring; where it ends."""
    at = write_decimal(out, at, size)
    out[at] = ord(":")
    at = copy(out, at + 1, data, start, size)
    out[at] = ord(",")
    return at + 1


def _decode(datagram: bytes, subjects: bool) -> Packet:
    """Read frames to the end of the datagram."""
    reading = _Reading(datagram)
    messages: list[FeedMessage] = []
    while reading.at < reading.size:
        message = reading.frame(subjects)
        if subjects and message.subject[:5] == b"$SEQ.":
            number = message.number
            kind = {NEXT: HEARTBEAT, LAST: END}.get(message.subject)
            if kind is None or messages or reading.at < reading.size or message.payload:
                raise CodecError(0, f"no datagram says {message.subject!r} like this")
            return Packet(kind, [], -1, number)
        messages.append(message)
    if not messages:
        raise CodecError(0, "an empty datagram")
    return Packet(DATA, messages, -1, reading.number + 1)


class _Reading:
    """Where a decoder stands in a datagram."""

    def __init__(self, datagram: bytes) -> None:
        self.datagram = datagram
        self.data = self.datagram
        self.size = len(datagram)
        self.at = 0
        self.number = 0  # of the last frame

    def frame(self, subjects: bool) -> FeedMessage:
        """The frame here."""
        end = self._length() + self.at
        if end >= self.size:
            raise CodecError(self.at, f"the frame ends {end + 1 - self.size} bytes later: cut off?")
        number = self._number(end)
        payload = self._content(end)
        subject = self._content(end) if subjects else b""
        if self.at != end:
            raise CodecError(self.at, "the frame continues after its last child")
        self._expect(ord(","))
        self.number = number
        return FeedMessage(number, payload, subject)

    def _number(self, end: int) -> int:
        size = self._length()
        stop = self.at + size
        if not 0 < size <= DIGITS_MAX or stop >= end:
            raise CodecError(self.at, f"a number has 1 to {DIGITS_MAX} digits")
        number = self._digits(stop)
        if self.at != stop:
            raise CodecError(self.at, "no digit where a number is")
        self._expect(ord(","))
        if number == 0 or number > 0x7FFFFFFFFFFFFFFF:
            raise CodecError(self.at, "a number is 1 to 2^63-1")
        return number

    def _content(self, end: int) -> bytes:
        size = self._length()
        start = self.at
        if start + size >= end:
            raise CodecError(start, "a child is longer than its frame")
        self.at = start + size
        self._expect(ord(","))
        return self.datagram[start : start + size]

    def _length(self) -> int:
        """A netstring's length, which no datagram exceeds, and its colon."""
        start = self.at
        length = self._digits(min(self.size, start + 6))
        if self.at == start:
            raise CodecError(start, "no digit where a length is")
        self._expect(ord(":"))
        return length

    def _digits(self, stop: int) -> int:
        """The decimal number that ends before `stop`, in its one spelling."""
        value, start = 0, self.at
        while self.at < stop and 48 <= self.data[self.at] <= 57:
            value = 10 * value + self.data[self.at] - 48
            self.at += 1
        if self.at > start + 1 and self.data[start] == 48:
            raise CodecError(start, "a number begins with 0")
        return value

    def _expect(self, byte: int) -> int:
        if self.at >= self.size or self.data[self.at] != byte:
            raise CodecError(self.at, f"no {chr(byte)!r} where it must be")
        self.at += 1
        return 0
