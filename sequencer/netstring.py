r"""Netstrings, and frames of two netstrings: encode, decode, and decode a stream in chunks.

    netstring   <length>:<content>,          5:hello,
    frame       <length>:<number><payload>,  8:1:1,1:a,,      both children are netstrings

Bytes in; payloads, or numbers with payloads, out; no I/O. This is plain Python for readers of the
stream: subscribers, tools, tests. The broker's hot path writes its frames in `frame.py`.

Rule 1  Everything has exactly one spelling: a length or a number is ASCII digits without a
        sign, a blank or a leading zero. So frames can be compared and hashed as bytes.
Rule 2  A length over the limit is refused at its first digit too many, before any content is
        buffered: a decoder holds at most one unfinished item of `max_length` bytes.
Rule 3  If a chunk has good items before a fault, they are delivered first; then the error is
        raised. Every later call raises it again: after a fault the stream cannot be framed.

Errors: NetstringError (a ValueError, with `offset`, `expected`, `got`)
          BadLength     a length must start with a digit  TooLong        length over the limit
          LeadingZero   (a BadLength) 05:...              MissingColon   5x...  or  5 :...
          MissingComma  content without its comma         Truncated      the input ends too early
          TrailingBytes more than one item given          BadNumber      not a decimal 0..2^64-1
"""

import operator
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = [
    "LENGTH_MAX",
    "NUMBER_MAX",
    "BadLength",
    "BadNumber",
    "BytesLike",
    "Decoder",
    "FrameDecoder",
    "LeadingZero",
    "MissingColon",
    "MissingComma",
    "NetstringError",
    "TooLong",
    "TrailingBytes",
    "Truncated",
    "decode",
    "decode_frame",
    "decode_number",
    "encode",
    "encode_frame",
    "encode_number",
    "frame_view",
]

BytesLike = bytes | bytearray | memoryview

# The format's limit is an unsigned 64-bit integer, as in cquencer. Seriatim's own range is
# narrower: messages get 1 to 2^63-1, and 0 means that there is no message yet.
NUMBER_MAX = 2**64 - 1

# The largest `max_payload` that a broker can have: the default accepts all it may send.
LENGTH_MAX = 64 * 1024 * 1024

# For bytes already in memory the only limit is the largest index.
_INDEX_MAX = 2**63 - 1

_COMMA, _COLON, _ZERO, _NINE = b",:09"

Item = TypeVar("Item")


class NetstringError(ValueError):
    """Invalid bytes: where they are, what was expected there, and what was found."""

    def __init__(self, offset: int, expected: str, got: str) -> None:
        super().__init__(offset, expected, got)
        self.offset = offset
        self.expected = expected
        self.got = got

    def __str__(self) -> str:
        return f"at byte {self.offset}: expected {self.expected}, got {self.got}"


class BadLength(NetstringError):
    """A length does not start with a digit."""


class LeadingZero(BadLength):
    """A length of several digits starts with 0."""


class TooLong(NetstringError):
    """A length is over the limit; none of the content was buffered."""


class MissingColon(NetstringError):
    """A length is followed by something that is neither a digit nor a colon."""


class MissingComma(NetstringError):
    """The byte after the content is not a comma."""


class Truncated(NetstringError):
    """The input ends inside an item."""


class TrailingBytes(NetstringError):
    """More bytes follow the item."""


class BadNumber(NetstringError):
    """A sequence number is not ASCII decimal without leading zeros, or is above `NUMBER_MAX`."""


def encode(payload: BytesLike) -> bytes:
    """Return `payload` as a netstring: b"hello" gives b"5:hello,"."""
    return b"".join((b"%d:" % _size(payload), payload, b","))


def encode_number(number: int) -> bytes:
    """Return `number` as a netstring of its digits: 88485 gives b"5:88485,".

    Raises `ValueError` for a number outside 0 to `NUMBER_MAX`, `TypeError` if it is not an integer.
    """
    number = operator.index(number)  # "%d" alone would cut 1.5 to 1
    if not 0 <= number <= NUMBER_MAX:
        raise ValueError(f"sequence number {number} is outside 0 to {NUMBER_MAX}")
    digits = b"%d" % number
    return b"%d:%b," % (len(digits), digits)


def encode_frame(number: int, payload: BytesLike) -> bytes:
    """Return the frame of `payload` under `number`.

    88485 and b"hello world" give b"23:5:88485,11:hello world,,". Raises as `encode_number`.
    """
    size = _size(payload)
    head = b"%b%d:" % (encode_number(number), size)
    return b"".join((b"%d:" % (len(head) + size + 1), head, payload, b",,"))


def decode(netstring: BytesLike) -> bytes:
    """Return the content of exactly one netstring. Raises `NetstringError`."""
    return bytes(_only(_bytes_view(netstring)))


def decode_number(netstring: BytesLike) -> int:
    """Return the number in a netstring of digits, the answer to a `$SEQ.PUB` request.

    b"5:88485," gives 88485. Raises `NetstringError`.
    """
    view = _bytes_view(netstring)
    content = _only(view)
    return _number(bytes(content), len(view) - 1 - len(content))


def decode_frame(frame: BytesLike) -> tuple[int, bytes]:
    """Return the number and the payload of exactly one frame. Raises `NetstringError`."""
    number, payload = frame_view(frame)
    return number, bytes(payload)


def frame_view(frame: BytesLike) -> tuple[int, memoryview]:
    """Like `decode_frame`, but the payload is a view of `frame`: nothing is copied.

    The view keeps `frame` alive, and a bytearray cannot be resized while it exists.
    """
    view = _bytes_view(frame)
    content = _only(view)
    return _children(content, len(view) - 1 - len(content), _INDEX_MAX)


class Decoder:
    """Decodes a stream of netstrings in chunks of any size. One writer: the stream's reader.

    `for payload in decoder.feed(chunk)` yields every payload that `chunk` completes, and raises
    `NetstringError` after the last good one. Call `finish` when the stream ends.
    """

    __slots__ = ("_stream",)

    def __init__(self, max_length: int = LENGTH_MAX) -> None:
        self._stream = _Stream(_limit(max_length))

    @property
    def pending(self) -> int:
        """The count of bytes held of an unfinished netstring: at most `max_length` and a length."""
        return self._stream.pending

    def feed(self, chunk: BytesLike) -> Iterator[bytes]:
        """Take in `chunk` now, even if the returned iterator is not used; yield its payloads."""
        payloads = [content for _, content in self._stream.scan(chunk)]
        return _deliver(payloads, self._stream.error)

    def finish(self) -> None:
        """Raise `Truncated` if the stream ended inside a netstring, or the earlier error again."""
        self._stream.finish()


class FrameDecoder:
    """Decodes a stream of frames in chunks of any size. One writer: the stream's reader.

    Like `Decoder`, but yields (number, payload) pairs, and `max_length` limits the payload. It
    does not compare numbers: a stream of one subject has gaps, and only its reader knows that.
    """

    __slots__ = ("_max_length", "_stream")

    def __init__(self, max_length: int = LENGTH_MAX) -> None:
        self._max_length = _limit(max_length)
        payload = len(str(max_length)) + len(":,") + max_length
        self._stream = _Stream(len(encode_number(NUMBER_MAX)) + payload)

    @property
    def pending(self) -> int:
        """The count of bytes held of an unfinished frame: at most a payload and its numbers."""
        return self._stream.pending

    def feed(self, chunk: BytesLike) -> Iterator[tuple[int, bytes]]:
        """Take in `chunk` now, even if the returned iterator is not used; yield its frames."""
        frames = []
        for offset, content in self._stream.scan(chunk):
            try:
                number, payload = _children(memoryview(content), offset, self._max_length)
            except NetstringError as error:
                self._stream.fail(error)
                break
            frames.append((number, bytes(payload)))
        return _deliver(frames, self._stream.error)

    def finish(self) -> None:
        """Raise `Truncated` if the stream ended inside a frame, or the earlier error again."""
        self._stream.finish()


class _Stream:
    """Finds the netstrings in a stream; holds the unfinished one and the first error.

    Between chunks it is inside a length (`_missing` is 0, `_head` holds the digits so far) or
    inside a content (`_missing` counts the bytes to come, with the comma).
    """

    __slots__ = ("_body", "_head", "_limit", "_missing", "_offset", "error")

    def __init__(self, limit: int) -> None:
        self.error: NetstringError | None = None
        self._limit = limit
        self._head = b""
        self._body = bytearray()
        self._missing = 0
        self._offset = 0  # of the next byte, from the start of the stream

    @property
    def pending(self) -> int:
        return len(self._head) + len(self._body)

    def scan(self, chunk: BytesLike) -> list[tuple[int, bytes]]:
        """Return offset and content of each netstring that `chunk` completes; set `error`."""
        found: list[tuple[int, bytes]] = []
        if self.error is None:
            data = chunk if type(chunk) is bytes else bytes(_bytes_view(chunk))
            try:
                self._walk(data, found)
            except NetstringError as error:
                self.fail(error)
            self._offset += len(data)
        return found

    def fail(self, error: NetstringError) -> None:
        """Keep the error and drop what can never be completed."""
        self.error = error
        self._head = b""
        self._body = bytearray()

    def finish(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self._missing:
            raise _ends_early(self._offset, self._missing)
        if self._head:
            raise Truncated(self._offset, "a digit or ':'", "the end")

    def _walk(self, data: bytes, found: list[tuple[int, bytes]]) -> None:
        at = 0
        while at < len(data):
            if not self._missing:
                held = len(self._head)
                head = self._head + data[at : at + _head_size(self._limit) - held]
                length, size = _length(head, self._limit, self._offset + at - held)
                if not size:
                    self._head = head
                    return
                self._head = b""
                self._missing = length + 1
                at += size - held
            comma = at + self._missing - 1
            if comma >= len(data):
                self._body += data[at:]
                self._missing -= len(data) - at
                return
            if data[comma] != _COMMA:
                raise MissingComma(self._offset + comma, "','", _seen(data[comma]))
            content = data[at:comma]
            if self._body:
                self._body += content
                content = bytes(self._body)
                self._body = bytearray()
            found.append((self._offset + comma - len(content), content))
            self._missing = 0
            at = comma + 1


def _deliver(items: Iterable[Item], error: NetstringError | None) -> Iterator[Item]:
    yield from items
    if error is not None:
        raise error.with_traceback(None)


def _only(view: memoryview) -> memoryview:
    """Return the content of `view`, which must be exactly one netstring."""
    start, stop = _span(view, 0, 0, _INDEX_MAX)
    if stop + 1 != len(view):
        raise TrailingBytes(stop + 1, "the end", f"{len(view) - stop - 1} bytes more")
    return view[start:stop]


def _children(content: memoryview, base: int, limit: int) -> tuple[int, memoryview]:
    """Return number and payload of a frame's content, which starts at `base` in the input."""
    start, stop = _span(content, 0, base, _INDEX_MAX)
    number = _number(bytes(content[start:stop]), base + start)
    start, stop = _span(content, stop + 1, base, limit)
    if stop + 1 != len(content):
        rest = len(content) - stop - 1
        raise TrailingBytes(base + stop + 1, "the end of the frame", f"{rest} bytes more")
    return number, content[start:stop]


def _span(view: memoryview, at: int, base: int, limit: int) -> tuple[int, int]:
    """Return where the content of the netstring at `at` starts, and where its comma is."""
    head = bytes(view[at : at + _head_size(limit)])
    length, size = _length(head, limit, base + at)
    if not size:
        expected = "a digit or ':'" if head else "a netstring"
        raise Truncated(base + len(view), expected, "the end")
    start = at + size
    stop = start + length
    if stop >= len(view):
        raise _ends_early(base + len(view), stop + 1 - len(view))
    if view[stop] != _COMMA:
        raise MissingComma(base + stop, "','", _seen(view[stop]))
    return start, stop


def _length(head: bytes, limit: int, offset: int) -> tuple[int, int]:
    """Return the length that `head` starts with, and how many bytes it takes with its colon.

    The second is 0 if `head` ends before the colon. The error does not depend on how the bytes
    were cut: it is raised at the first byte that no valid length could have.
    """
    length = 0
    for at, byte in enumerate(head):
        if _ZERO <= byte <= _NINE:
            if at == 1 and length == 0:
                raise LeadingZero(offset, "a length without leading zeros", repr(head[:2]))
            length = length * 10 + byte - _ZERO
            if length > limit:
                raise TooLong(offset, f"a length of at most {limit}", f"{length} or more")
        elif byte == _COLON and at:
            return length, at + 1
        elif at:
            raise MissingColon(offset + at, "a digit or ':'", _seen(byte))
        else:
            raise BadLength(offset, "a digit", _seen(byte))
    return 0, 0


def _number(digits: bytes, offset: int) -> int:
    # int() alone would also accept "+5", " 5" and "5_0"; the length is checked before the value.
    canonical = digits.isdigit() and (digits[0] != _ZERO or len(digits) == 1)
    if not canonical or len(digits) > len(str(NUMBER_MAX)) or int(digits) > NUMBER_MAX:
        seen = repr(digits[:24]) + ("..." if len(digits) > 24 else "")
        raise BadNumber(offset, f"a decimal number from 0 to {NUMBER_MAX}", seen)
    return int(digits)


def _ends_early(offset: int, missing: int) -> Truncated:
    return Truncated(offset, f"{missing} bytes more, the last of them ','", "the end")


def _limit(max_length: int) -> int:
    if max_length < 0:
        raise ValueError(f"max_length is {max_length}; give 0 or more")
    return max_length


def _head_size(limit: int) -> int:
    return len(str(limit)) + 1


def _seen(byte: int) -> str:
    return repr(bytes((byte,)))


def _size(payload: BytesLike) -> int:
    return payload.nbytes if isinstance(payload, memoryview) else len(payload)


def _bytes_view(data: BytesLike) -> memoryview:
    # Through a view: bytes(5) would be five zeros, and a view of words would count words.
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
