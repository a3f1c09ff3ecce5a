"""The format of a recording: one record after the other, each a netstring that holds netstrings.

    57:18:seriatim recording,1:1,16:00c0ffee00c0ffee,8:orders.>,,              the head, once
    66:5:88485,19:1700000000000000000,10:orders.new,0:,0:,11:hello world,,     a message
    23:4:lost,5:88486,5:88490,,                                                numbers not there

docs/recording.md has the fields. A record that is cut short can only be the last one: it is left
out, and `end` is where it begins. No I/O; one writer, the caller.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from sequencer.netstring import LENGTH_MAX, Decoder, NetstringError, encode

MAGIC: Final = b"seriatim recording"
VERSION: Final = b"1"
LOST: Final = b"lost"
BEGINNING: Final = b"%d:%b," % (len(MAGIC), MAGIC)
RECORD_MAX: Final = LENGTH_MAX + (1 << 16)  # the largest message, its subjects and its numbers
SIZE_DIGITS_MAX: Final = 9
MESSAGE_FIELDS: Final = 6
NUMBER_MAX: Final = (1 << 63) - 1


class BadRecording(Exception):
    """The error for what is no recording, or is damaged; the text says where."""


@dataclass(frozen=True, slots=True)
class RecordingHead:
    """The owner of the messages, a journal, and the subjects: `>` is everything.

    `journal` is the id of the broker's journal. A feed that does not name it has the name of its
    stream there. With another one, the same numbers are other messages.
    """

    journal: str
    subjects: tuple[str, ...]


class RecordedMessage(NamedTuple):
    """A message; `headers` is the publisher's whole block, or empty."""

    number: int
    time_ns: int
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class RecordedLoss(NamedTuple):
    """Numbers that did not exist any more when they were to be recorded."""

    first: int
    last: int


Item = RecordingHead | RecordedMessage | RecordedLoss


def encode_head(head: RecordingHead) -> bytes:
    """Return the first record of a recording."""
    texts = (head.journal, *head.subjects)
    fields = (MAGIC, VERSION, *(text.encode("utf-8", "surrogateescape") for text in texts))
    return encode(b"".join(map(encode, fields)))


def encode_message(message: RecordedMessage) -> bytes:
    """Return the record of a message."""
    number, time, subject, reply, headers, payload = message
    digits, moment = b"%d" % number, b"%d" % time
    content = b"%d:%b,%d:%b,%d:%b,%d:%b,%d:%b,%d:%b," % (
        *(len(digits), digits, len(moment), moment, len(subject), subject),
        *(len(reply), reply, len(headers), headers, len(payload), payload),
    )
    return b"%d:%b," % (len(content), content)


def encode_loss(loss: RecordedLoss) -> bytes:
    """Return the record of lost numbers."""
    fields = (LOST, b"%d" % loss.first, b"%d" % loss.last)
    return encode(b"".join(map(encode, fields)))


def decode_record(content: bytes) -> Item:
    """Return what a record holds. Raises `BadRecording`."""
    fields = _fields_of(content)
    if len(fields) == MESSAGE_FIELDS and fields[0] != MAGIC:
        number, time, subject, reply, headers, payload = fields
        return RecordedMessage(
            _number(number), _number(time), subject, reply, headers, bytes(payload)
        )
    if fields[0] == LOST and len(fields) == len(RecordedLoss._fields) + 1:
        return RecordedLoss(_number(fields[1]), _number(fields[2]))
    if fields[0] != MAGIC or len(fields) < 3:
        raise BadRecording("a record of an unknown kind")
    if fields[1] != VERSION:
        version = fields[1].decode("utf-8", "replace")
        raise BadRecording(f"a recording of version {version!r:.20}; this Seriatim reads version 1")
    journal, *subjects = (field.decode("utf-8", "surrogateescape") for field in fields[2:])
    return RecordingHead(journal, tuple(subjects))


def _fields_of(content: bytes) -> list[bytes]:
    """Return the netstrings in a record. Raises `BadRecording`."""
    found: list[bytes] = []
    at, size = 0, len(content)
    while at < size:
        colon = content.find(b":", at, at + SIZE_DIGITS_MAX + 1)
        digits = content[at:colon]
        if colon < 0 or not digits.isdigit():
            raise BadRecording("a record without fields")
        end = colon + 1 + int(digits)
        if content[end : end + 1] != b",":
            raise BadRecording("a record whose fields do not fit it")
        found.append(content[colon + 1 : end])
        at = end + 1
    if not found:
        raise BadRecording("an empty record")
    return found


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > len(str(NUMBER_MAX)) or int(digits) > NUMBER_MAX:
        raise BadRecording(f"{digits!r:.30} is not a number")
    return int(digits)


class RecordingReader:
    """Reads a recording in chunks of any size.

    `feed` returns the records that a chunk completes, as they are; `decode_record` reads one. After
    the last chunk, `finish` says whether something is left. Memory: one record, and a chunk.
    """

    def __init__(self) -> None:
        self.head: RecordingHead | None = None  # None: nothing has been read yet
        self.end = 0  # in bytes: behind the last whole record
        self._decoder = Decoder(RECORD_MAX)
        self._taken = 0
        self._error: NetstringError | None = None
        self._beginning = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take in a chunk; yield the contents of its records but the first one, which is `head`.

        Raises `BadRecording`.
        """
        if len(self._beginning) < len(BEGINNING) + SIZE_DIGITS_MAX:
            self._beginning += chunk[: len(BEGINNING) + SIZE_DIGITS_MAX]
            if not _may_begin(self._beginning):
                raise BadRecording("not a recording")
        before, self._taken = self._taken, self._taken + len(chunk)
        if self._error is not None:
            self._check_zeros(chunk)
            return
        records = self._decoder.feed(chunk)
        while True:
            try:
                content = next(records, None)
            except NetstringError as error:
                self._error = error
                self._check_zeros(chunk[max(error.offset - before, 0) :])
                return
            if content is None:
                return
            if self.head is None:
                self._begin(content)
            else:
                yield content
            self.end += len(content) + len(str(len(content))) + len(":,")

    def finish(self) -> int:
        """Return how many bytes at the end are no whole record: it was cut short."""
        return self._taken - self.end

    def _begin(self, content: bytes) -> None:
        head = decode_record(content)
        if not isinstance(head, RecordingHead):
            raise BadRecording("not a recording")
        self.head = head

    def _check_zeros(self, rest: bytes) -> None:
        """Raise `BadRecording` unless these bytes are zeros, as a crash of the machine leaves."""
        if rest.strip(b"\0"):
            raise BadRecording(f"damaged in the record that begins at byte {self.end}")


def _may_begin(beginning: bytes) -> bool:
    """True if a recording can begin so, also one that is cut short."""
    digits, colon, rest = beginning.partition(b":")
    if not colon:
        return len(digits) <= SIZE_DIGITS_MAX and (digits.isdigit() or not digits)
    return digits.isdigit() and (rest.startswith(BEGINNING) or BEGINNING.startswith(rest))
