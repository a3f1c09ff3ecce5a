"""How messages stand in datagrams: what every codec is, and what a user's own overrides.

A codec of your own is a class in plain Python, named in the settings as `package.module:Class`:

    class Lines(Codec):
        def encode(self, message):                  # one message's part of a datagram
            return b"%d %b\n" % (message.number, message.payload)

        def decode(self, datagram):                 # all of a datagram
            messages = [FeedMessage(int(n), p) for n, p in split(datagram)]
            return Packet(DATA, messages)

and, if its datagrams begin with a head: `super().__init__(head_size=8)` and `head`. With
`heartbeat` and `end` receivers learn of a loss at the tail, and that nothing more comes.

The built-in ones write straight into the buffer that is sent: they override `measure`, `put`
and `seal`, which when compiled make no Python object. A datagram is built in this order:

    measure, put      for each message that fits in        seal      once, when it is complete
"""

from collections.abc import Sequence
from typing import Any

import cython

from sequencer.feed.errors import CodecError
from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.record import RecordBatch, Walk

if not cython.compiled:
    from sequencer.journal.layout import RECORD

DATA, HEARTBEAT, END = range(3)


class Packet:
    """What one datagram says.

    It says all there is of the numbers from `previous` + 1 to `after` - 1: what is not among the
    messages was left out by the feed's filter. Where the codec cannot know (`previous` -1), each
    message speaks for its own number alone. A heartbeat's `after` is the next number to come.
    """

    def __init__(
        self,
        kind: int,
        messages: list[FeedMessage],
        previous: int = -1,
        after: int = 0,
        session: bytes = b"",
    ) -> None:
        self.kind = kind
        self.messages = messages
        self.previous = previous
        self.after = after
        self.session = session  # which stream this is, where the codec carries it

    def __repr__(self) -> str:
        kind = ("DATA", "HEARTBEAT", "END")[self.kind]
        rest = f"{self.previous}, {self.after}, {self.session!r}"
        return f"Packet({kind}, {self.messages!r}, {rest})"


class Codec:
    """One per feed, for the thread that sends; or one per receiver."""

    def __init__(self, head_size: int = 0, skip_size: int = 0, contiguous: bool = False) -> None:
        if head_size < 0 or skip_size < 0:
            raise ValueError(f"a head of {head_size} bytes, and {skip_size} for what is left out")
        self.head_size = head_size  # bytes before the first message of a datagram
        self.skip_size = skip_size  # zeros that a number takes which the filter left out; 0: none
        self.contiguous = contiguous  # a datagram says its first number alone, and counts on
        self.journal = ""
        self.epoch = 0
        self._encoded = b""

    def open(self, journal: str, epoch: int) -> None:
        """Say which stream this is: the journal's id, 16 hex digits, and its epoch."""
        self.journal = journal
        self.epoch = epoch

    # For a codec in plain Python

    def encode(self, message: FeedMessage) -> bytes:
        """Return the message's part of a datagram."""
        raise NotImplementedError(f"{type(self).__name__} has no encode(message)")

    def head(self, previous: int, first: int, last: int, count: int) -> bytes:
        """Return the `head_size` bytes before `count` messages, `first` to `last`.

        `previous` is the last number that the feed spoke of before this datagram.
        """
        return b""

    def decode(self, datagram: bytes) -> Packet:
        """Return what the datagram says. Raises `CodecError`."""
        raise NotImplementedError(f"{type(self).__name__} has no decode(datagram)")

    def heartbeat(self, previous: int, after: int) -> bytes:
        """Return the datagram that says which number comes next; none if it cannot be said."""
        return b""

    def end(self, previous: int, after: int) -> bytes:
        """Return the datagram that says that nothing more comes; none if it cannot be said."""
        return b""

    # For the feed; the built-in codecs override these

    def measure(self, walk: Walk, data: bytes | bytearray) -> int:
        """The bytes that the record at hand will take; `data` is what is walked."""
        encoded = self.encode(message_at(walk, data))
        if not isinstance(encoded, bytes):  # or `put` would fail, when the feed counts on it
            raise TypeError(f"encode(message) has returned {type(encoded).__name__}, not bytes")
        self._encoded = encoded
        return len(encoded)

    def put(self, out: bytearray, at: int, walk: Walk, data: bytes | bytearray) -> int:
        """Write the record measured last at `out[at:]`; where it ends."""
        return copy(out, at, self._encoded, 0, len(self._encoded))

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
        """Fill in the head of the datagram at `out[start:end]`, now that it is complete."""
        head = self.head(previous, first, last, count)
        if len(head) != self.head_size:  # of a user's codec
            raise CodecError(0, f"a head of {len(head)} bytes, where head_size is {self.head_size}")
        copy(out, start, head, 0, self.head_size)
        return 0

    def datagram(self, messages: Sequence[FeedMessage], previous: int) -> bytes:
        """Return these messages in one datagram, however long: for answers, and for tests."""
        batch = RecordBatch(0, self.epoch, False)
        for message in messages:
            batch.append_message(
                message.number, message.time, message.subject, b"", message.headers, message.payload
            )
        return self._datagram(bytes(batch.view()), previous, batch.first, batch.last)

    def _datagram(self, records: bytes, previous: int, first: int, last: int) -> bytes:
        walk = Walk(0, False)
        walk.begin(records, 0, len(records))
        size, count = self.head_size, 0
        while walk.skim() == RECORD:
            size += self.measure(walk, records)
        out = bytearray(size)
        walk.begin(records, 0, len(records))
        at = self.head_size
        while walk.skim() == RECORD:
            self.measure(walk, records)
            at = self.put(out, at, walk, records)
            count += 1
        self.seal(out, 0, at, previous, first, last, count)
        return bytes(out)


def packet_of(codec: Codec, datagram: bytes) -> Packet:
    """What a codec says that a datagram says; whatever it raises, or TypeError.

    A user's codec may return anything, and what is compiled would take None for a packet.
    """
    said = codec.decode(datagram)
    if not isinstance(said, Packet):
        raise TypeError(f"decode(datagram) has returned {type(said).__name__}, not a Packet")
    packet: Packet = said
    messages = packet.messages
    if not isinstance(messages, list) or not isinstance(packet.session, bytes):
        raise TypeError("decode(datagram) has returned a Packet without messages, or session")
    if not 0 <= packet.kind <= 2:
        raise TypeError(f"decode(datagram) has returned a Packet of kind {packet.kind!r}")
    if not cython.compiled:
        _check_numbers(packet.previous, packet.after)
    for at in range(len(messages)):
        if not isinstance(messages[at], FeedMessage):
            kind = type(messages[at]).__name__
            raise TypeError(f"decode(datagram) has returned {kind} among the messages")
        message: FeedMessage = messages[at]
        if not cython.compiled:
            _check_numbers(message.number, message.time)
        if not (
            isinstance(message.payload, bytes)
            and isinstance(message.subject, bytes)
            and isinstance(message.headers, bytes)
        ):
            raise TypeError("decode(datagram) has returned a FeedMessage of what is not bytes")
    return packet


def _check_numbers(*numbers: Any) -> None:
    """What the compiler's types see to."""
    for number in numbers:
        if not isinstance(number, int):
            raise TypeError(f"decode(datagram) has returned {type(number).__name__} for a number")
        if not -1 <= number < 1 << 64:
            raise OverflowError(f"decode(datagram) has returned {number}")


def message_at(walk: Walk, data: bytes | bytearray) -> FeedMessage:
    """The record at hand as an object."""
    return FeedMessage(
        walk.number,
        bytes(data[walk.payload : walk.payload + walk.payload_size]),
        bytes(data[walk.subject : walk.subject + walk.subject_size]),
        bytes(data[walk.body : walk.body + walk.header_size]),
        walk.time,
    )


def copy(out: bytearray, at: int, source: bytes | bytearray, start: int, size: int) -> int:
    """Copy `source[start : start + size]` to `out[at:]`; where it ends."""
    if cython.compiled:
        memcpy(out + at, source + start, size)
    else:
        out[at : at + size] = source[start : start + size]
    return at + size
