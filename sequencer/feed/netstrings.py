r"""The codecs `netstring` and `netstring-subject`: plain frames, one after another in a datagram.

    netstring           L:<n>:<number>,<m>:<payload>,,                   23:5:88485,11:hello world,,
    netstring-subject   L:<n>:<number>,<m>:<payload>,<s>:<subject>,,

The first has the same bytes as cquencer's and can carry messages only. The second reserves two
subjects, which no message can have: `$SEQ.NEXT` is a heartbeat, with the next number to come;
`$SEQ.END` announces the end of the stream.

Format: https://cr.yp.to/proto/netstrings.txt. Numbers and lengths have no leading zeros.
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
    """`netstring`: the frame and nothing else."""

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
    """`netstring-subject`: a third netstring in the frame holds the subject."""

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
    """Write a netstring; return where it ends."""
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
                raise CodecError(0, f"{message.subject!r} is not valid here")
            return Packet(kind, [], -1, number)
        messages.append(message)
    if not messages:
        raise CodecError(0, "an empty datagram")
    return Packet(DATA, messages, -1, reading.number + 1)


class _Reading:
    """The position of a decoder in a datagram."""

    def __init__(self, datagram: bytes) -> None:
        self.datagram = datagram
        self.data = self.datagram
        self.size = len(datagram)
        self.at = 0
        self.number = 0  # of the last frame

    def frame(self, subjects: bool) -> FeedMessage:
        """Read the frame at the current position."""
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
            raise CodecError(self.at, "a number must be decimal")
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
        """Read a netstring's length and its colon; in a datagram, 6 digits are enough."""
        start = self.at
        length = self._digits(min(self.size, start + 6))
        if self.at == start:
            raise CodecError(start, "a length must be a decimal number")
        self._expect(ord(":"))
        return length

    def _digits(self, stop: int) -> int:
        """Read the decimal number that ends before `stop`; leading zeros are not allowed."""
        value, start = 0, self.at
        while self.at < stop and 48 <= self.data[self.at] <= 57:
            value = 10 * value + self.data[self.at] - 48
            self.at += 1
        if self.at > start + 1 and self.data[start] == 48:
            raise CodecError(start, "a number begins with 0")
        return value

    def _expect(self, byte: int) -> int:
        if self.at >= self.size or self.data[self.at] != byte:
            raise CodecError(self.at, f"expected {chr(byte)!r}")
        self.at += 1
        return 0
