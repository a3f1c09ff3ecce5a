"""The base class of codecs: how messages are laid out in datagrams.

A codec of your own is a class in plain Python, named in the settings as `package.module:Class`:

    class Lines(Codec):
        def encode(self, message):                  # one message's part of a datagram
            return b"%d %b\n" % (message.number, message.payload)

        def decode(self, datagram):                 # a whole datagram
            messages = [FeedMessage(int(n), p) for n, p in split(datagram)]
            return Packet(DATA, messages)

If its datagrams begin with a head, it also has `super().__init__(head_size=8)` and `head`. With
`heartbeat` and `end`, receivers notice that the last messages are missing, and that the stream
has ended.

The built-in codecs write straight into the buffer that is sent. They override `measure`, `put`
and `seal`, which make no Python objects when compiled. A datagram is built in this order:

    measure, put      for each message that fits        seal      once, when it is complete
"""

from collections.abc import Sequence

import cython

from sequencer.feed.errors import CodecError
from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.record import RecordBatch, Walk

if not cython.compiled:
    from sequencer.journal.layout import RECORD

DATA, HEARTBEAT, END = range(3)


class Packet:
    """The content of one datagram.

    It accounts for every number from `previous` + 1 to `after` - 1: numbers without a message were
    left out by the feed's filter. If the codec cannot know (`previous` is -1), each message
    accounts only for its own number. In a heartbeat, `after` is the next number to come.
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
        self.session = session  # identifies the stream, if the codec carries it

    def __repr__(self) -> str:
        kind = ("DATA", "HEARTBEAT", "END")[self.kind]
        rest = f"{self.previous}, {self.after}, {self.session!r}"
        return f"Packet({kind}, {self.messages!r}, {rest})"


class Codec:
    """The base class of codecs: one per feed, in the thread that sends; or one per receiver."""

    def __init__(self, head_size: int = 0, skip_size: int = 0, contiguous: bool = False) -> None:
        if head_size < 0 or skip_size < 0:
            raise ValueError(f"head_size {head_size} and skip_size {skip_size} must be 0 or more")
        self.head_size = head_size  # bytes before the first message of a datagram
        self.skip_size = skip_size  # zero bytes sent for a number that the filter left out; 0: none
        self.contiguous = contiguous  # a datagram has only its first number; the others follow it
        self.journal = ""
        self.epoch = 0
        self._encoded = b""

    def open(self, journal: str, epoch: int) -> None:
        """Set which stream this is: the journal's id, 16 hex digits, and its epoch."""
        self.journal = journal
        self.epoch = epoch

    # For a codec in plain Python

    def encode(self, message: FeedMessage) -> bytes:
        """Return the message's part of a datagram."""
        raise NotImplementedError(f"{type(self).__name__} has no encode(message)")

    def head(self, previous: int, first: int, last: int, count: int) -> bytes:
        """Return the `head_size` bytes before `count` messages, `first` to `last`.

        `previous` is the last number that earlier datagrams of the feed accounted for.
        """
        return b""

    def decode(self, datagram: bytes) -> Packet:
        """Return the content of the datagram. Raises `CodecError`."""
        raise NotImplementedError(f"{type(self).__name__} has no decode(datagram)")

    def heartbeat(self, previous: int, after: int) -> bytes:
        """Return the datagram that announces the next number; b"" if the codec has none."""
        return b""

    def end(self, previous: int, after: int) -> bytes:
        """Return the datagram that announces the end of the stream; b"" if the codec has none."""
        return b""

    # Called by the feed; the built-in codecs override these

    def measure(self, walk: Walk, data: bytes | bytearray) -> int:
        """Return how many bytes the current record will take; `data` is the buffer of `walk`."""
        encoded = self.encode(message_at(walk, data))
        if not isinstance(encoded, bytes):  # or `put` would fail, after the feed made room for it
            raise TypeError(f"encode(message) returned {type(encoded).__name__}, not bytes")
        self._encoded = encoded
        return len(encoded)

    def put(self, out: bytearray, at: int, walk: Walk, data: bytes | bytearray) -> int:
        """Write the record measured last at `out[at:]`; return where it ends."""
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
        if len(head) != self.head_size:  # from a user's codec
            raise CodecError(0, f"the head has {len(head)} bytes; head_size is {self.head_size}")
        copy(out, start, head, 0, self.head_size)
        return 0

    def datagram(self, messages: Sequence[FeedMessage], previous: int) -> bytes:
        """Return one datagram with these messages, however long: for replies, and for tests."""
        batch = RecordBatch(0, self.epoch, False)
        for message in messages:
            batch.append_message(
                message.number, message.time, message.subject, b"", message.headers, message.payload
            )
        return self._datagram(bytes(batch.view()), previous, batch.first, batch.last)

    def _datagram(self, records: bytes, previous: int, first: int, last: int) -> bytes:
        walk = Walk(0, False)
        walk.attach(records, 0, len(records))
        size, count = self.head_size, 0
        while walk.skim() == RECORD:
            size += self.measure(walk, records)
        out = bytearray(size)
        walk.attach(records, 0, len(records))
        at = self.head_size
        while walk.skim() == RECORD:
            self.measure(walk, records)
            at = self.put(out, at, walk, records)
            count += 1
        self.seal(out, 0, at, previous, first, last, count)
        return bytes(out)


def packet_of(codec: Codec, datagram: bytes) -> Packet:
    """Decode a datagram and check what the codec returned. Raises what it raised, or TypeError.

    A user's codec may return anything, and compiled code would take None for a Packet.
    """
    said = codec.decode(datagram)
    if not isinstance(said, Packet):
        raise TypeError(f"decode(datagram) returned {type(said).__name__}, not a Packet")
    packet: Packet = said
    messages = packet.messages
    if not isinstance(messages, list) or not isinstance(packet.session, bytes):
        raise TypeError("decode(datagram) returned a Packet without messages or session")
    if not 0 <= packet.kind <= 2:
        raise TypeError(f"decode(datagram) returned a Packet of kind {packet.kind!r}")
    if not cython.compiled:
        _check_numbers(packet.previous, packet.after)
    for at in range(len(messages)):
        if not isinstance(messages[at], FeedMessage):
            kind = type(messages[at]).__name__
            raise TypeError(f"decode(datagram) returned {kind} among the messages")
        message: FeedMessage = messages[at]
        if not cython.compiled:
            _check_numbers(message.number, message.time)
        if not (
            isinstance(message.payload, bytes)
            and isinstance(message.subject, bytes)
            and isinstance(message.headers, bytes)
        ):
            raise TypeError("decode(datagram) returned a FeedMessage whose fields are not bytes")
    return packet


def _check_numbers(*numbers: object) -> None:
    """Check what C types check in the compiled build."""
    for number in numbers:
        if not isinstance(number, int):
            raise TypeError(f"decode(datagram) returned {type(number).__name__} for a number")
        if not -1 <= number < 1 << 64:
            raise OverflowError(f"decode(datagram) returned {number}")


def message_at(walk: Walk, data: bytes | bytearray) -> FeedMessage:
    """Return the current record as an object."""
    return FeedMessage(
        walk.number,
        bytes(data[walk.payload : walk.payload + walk.payload_size]),
        bytes(data[walk.subject : walk.subject + walk.subject_size]),
        bytes(data[walk.body : walk.body + walk.header_size]),
        walk.time,
    )


def copy(out: bytearray, at: int, source: bytes | bytearray, start: int, size: int) -> int:
    """Copy `source[start : start + size]` to `out[at:]`; return where it ends."""
    if cython.compiled:
        memcpy(out + at, source + start, size)
    else:
        out[at : at + size] = source[start : start + size]
    return at + size
