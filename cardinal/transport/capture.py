"""The file transport: messages of all topics with their numbers, stored to be read again.

A capture is a sequence of netstrings: the first identifies the format and the stream; each other
holds four, the number, the topic, the key and the value of a message.

    35:cardinal capture 1 1141c2c3a6b8558d,
    59:2:17,5:block,33:...,6:header,,

It is for tests, for inspection, and to supply messages that a broker no longer has. A file that was
being written when the machine stopped is intact up to its last whole record; `CaptureReader.offset`
says where that ends.
"""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from cardinal.follower import Row
from cardinal.messages import NUMBER_MAX
from cardinal.token import NAME
from cardinal.transport.envelope import LENGTH_DIGITS_MAX, TOPIC, netstring
from cardinal.transport.errors import BadCapture, BadEnvelope, BadTopic

NO_LENGTH = "a record has no length; is this a capture?"
MAGIC = b"cardinal capture 1 "
CHUNK_BYTES = 1 << 20
DIGITS_MAX = 19  # of a number; Python reads no more than some thousand
RECORD_BYTES_MAX = 256 << 20  # four times the largest message of a broker


class CaptureWriter:
    """The writer of a capture, to a file open for writing."""

    def __init__(self, file: BinaryIO, stream: str) -> None:
        """`stream` is the origin of the numbers. Raises `BadCapture`, `OSError`."""
        if not NAME.fullmatch(stream):
            raise BadCapture(0, f"{stream!r} is not a valid name of a stream")
        self._file = file
        head = MAGIC + stream.encode()
        file.write(b"%d:%b," % (len(head), head))

    def write(self, rows: Iterable[Row]) -> None:
        """Append rows. Raises `BadTopic`, `OSError`."""
        self._file.write(b"".join(map(_record, rows)))


def _record(row: Row) -> bytes:
    topic, key, value, number = row
    if not TOPIC.fullmatch(topic):
        raise BadTopic(f"topic {topic!r}: words of letters, digits, - and _, with dots between")
    name = topic.encode()
    digits = b"%d" % number
    record = b"%d:%b,%d:%b,%d:%b,%d:%b," % (
        *(len(digits), digits),
        *(len(name), name),
        *(len(key), key),
        *(len(value), value),
    )
    return b"%d:%b," % (len(record), record)


def _is_number(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= DIGITS_MAX and int(digits) <= NUMBER_MAX


class CaptureReader:
    """The reader of a capture; `stream` is the origin of its numbers."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `BadCapture` if the file is not a capture, and `OSError`."""
        self._file = file
        self._data = b""
        self._at = 0  # in `_data`
        self._before = 0  # bytes of the file before `_data`
        head = self._next()
        if head is None or not head.startswith(MAGIC):
            raise BadCapture(0, "this is not a capture of Cardinal Streams")
        try:
            self.stream = head[len(MAGIC) :].decode("ascii")
        except UnicodeDecodeError:
            raise BadCapture(0, "the name of the stream is not ASCII") from None
        if not NAME.fullmatch(self.stream):
            raise BadCapture(0, f"{self.stream!r} is not a valid name of a stream")

    @property
    def offset(self) -> int:
        """The offset in the file after the last whole record that was read."""
        return self._before + self._at

    def __iter__(self) -> Iterator[Row]:
        """The rows, in their order. Raises `BadCapture`, after all intact rows."""
        while True:
            offset = self.offset
            record = self._next()
            if record is None:
                return
            try:
                digits, at = netstring(record, 0)
                topic, at = netstring(record, at)
                key, at = netstring(record, at)
                value, at = netstring(record, at)
            except BadEnvelope as error:
                raise BadCapture(offset, f"a damaged record: {error}") from None
            if at != len(record) or not _is_number(digits):
                raise BadCapture(offset, "a damaged record: not a number and a message")
            name = topic.decode(errors="replace")
            if not TOPIC.fullmatch(name):
                raise BadCapture(offset, f"a damaged record: {name!r:.60} is not a topic")
            yield name, key, value, int(digits)

    def _next(self) -> bytes | None:
        """The next netstring of the file; None at the end of the file."""
        while True:
            lacking = self._lacking()
            if not lacking:
                content, self._at = netstring(self._data, self._at)
                return content
            self._data = self._data[self._at :]
            self._before, self._at = self._before + self._at, 0
            more = self._file.read(max(lacking, CHUNK_BYTES))
            if not more:
                if self._data:
                    raise BadCapture(self.offset, "the file ends inside a record")
                return None
            self._data += more

    def _lacking(self) -> int:
        """The least number of missing bytes of the next netstring. Raises `BadCapture`."""
        start = self._data[self._at : self._at + LENGTH_DIGITS_MAX + 1]
        digits, colon, _ = start.partition(b":")
        if (digits and not digits.isdigit()) or (digits[:1] == b"0" and len(digits) > 1):
            raise BadCapture(self.offset, NO_LENGTH)
        if not colon:
            if len(digits) > LENGTH_DIGITS_MAX:
                raise BadCapture(self.offset, NO_LENGTH)
            return 1
        if not digits or int(digits) > RECORD_BYTES_MAX:
            raise BadCapture(self.offset, NO_LENGTH)
        end = self._at + len(digits) + 1 + int(digits)
        if self._data[end : end + 1] not in (b",", b""):
            raise BadCapture(self.offset, "a record does not end with a comma")
        return max(0, end + 1 - len(self._data))
