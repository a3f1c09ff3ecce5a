"""A message as the client hands it over: what was published, its number and its time.

On the wire of a Seriatim broker, number and time are the first two lines of the headers, which
only the broker can write (docs/protocol.md, frame `stamp`):

    NATS/1.0
    Nats-Sequence: 7
    Nats-Time-Stamp: 2026-01-31T12:00:00.123456789Z
    Desk: 5

They are parsed when somebody asks for them. A reader of two million messages a second that looks
at the payload alone pays for nothing else.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from seriatim.client.errors import NotABroker
from seriatim.client.peer_json import read_json

STATUS_LINE = b"NATS/1.0\r\n"
EMPTY_BLOCK = b"NATS/1.0\r\n\r\n"
NUMBER_FIELD = b"\nNats-Sequence: "
NUMBER_LINE = b"NATS/1.0\r" + NUMBER_FIELD
TIME_LINE = b"\r\nNats-Time-Stamp: "
TIME_SIZE = len("2026-01-31T12:00:00.123456789Z")
SECOND = 1_000_000_000  # in ns
SECONDS_MAX = (1 << 63) // SECOND - 1  # of a time in ns, in 64 bits
DIGITS_MAX = 18  # of a number: more than a broker gives in a thousand years
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_second = (b"", 0)  # the text of a second, and which it is: messages come thousands in a second


class Message:
    """One message, of any subscription, read or answer; it does not change.

    `subject`, and `reply`, the subject for an answer (empty: none), are text. `payload` is the
    bytes that were published (a view of them where many are read in one piece), `block` the raw
    headers.
    """

    __slots__ = (
        "_headers",
        "_number",
        "_skipped",
        "_time",
        "block",
        "payload",
        "reply",
        "sid",
        "subject",
    )

    def __init__(
        self,
        subject: str,
        reply: str,
        block: bytes,
        payload: bytes | memoryview,
        sid: int = 0,
        number: int = 0,
        time_ns: int = 0,
    ) -> None:
        self.subject = subject
        self.reply = reply
        self.block = block
        self.payload: Any = payload  # bytes, but for those who read in pieces
        self.sid = sid  # of the subscription that it came to
        self._number = number  # -1: in the block, not read yet
        self._time = time_ns  # -1: in the block, not read yet
        self._skipped = 0  # where the publisher's own headers begin in it; 0: not known yet
        self._headers: dict[str, str] | None = None

    @property
    def number(self) -> int:
        """The number of the message in the one order of all; 0 if it has none."""
        if self._number < 0:
            self._read_number()
        return self._number

    @property
    def time_ns(self) -> int:
        """When it was published, by the broker's clock: ns since 1970; 0 if that is not known."""
        if self._time < 0:
            self._read_stamp()
        return self._time

    @property
    def time(self) -> datetime:
        """When it was published, by the broker's clock, in UTC, to the microsecond."""
        return EPOCH + timedelta(microseconds=self.time_ns // 1000)

    @property
    def headers(self) -> dict[str, str]:
        """The publisher's headers; if a name occurs several times, the last one."""
        if self._headers is None:
            self._headers = read_headers(self.block[self._skip() :])
        return self._headers

    @property
    def own_block(self) -> bytes:
        """The publisher's headers as they are, from `NATS/1.0` to the empty line; or nothing."""
        block = self.block
        if block:
            block = block[: block.find(b"\n") + 1] + block[self._skip() :]
        return b"" if block == EMPTY_BLOCK else block

    @property
    def status(self) -> int:
        """The code of an answer that is a status, such as 503; 0 for every other message."""
        return read_status(self.block)[0]

    @property
    def description(self) -> str:
        """The text of such a status."""
        return read_status(self.block)[1]

    def json(self) -> Any:
        """Return the payload, read as JSON. Raises `ValueError`."""
        return read_json(self.payload)

    def __repr__(self) -> str:
        number = f" {self.number}" if self.number else ""
        return f"<Message{number} on {self.subject!r}, {len(self.payload)} bytes>"

    def __reduce__(self) -> tuple[Any, ...]:
        of = (self.subject, self.reply, self.own_block, bytes(self.payload))
        return Message, (*of, self.sid, self.number, self.time_ns)

    def _skip(self) -> int:
        """Return where the publisher's own headers begin in the block."""
        if not self._skipped:
            self._read_stamp()
        return self._skipped

    def _read_number(self) -> int:
        """Read the first of the broker's own lines; return where it ends."""
        block = self.block
        start = block.find(b"\n") + len(NUMBER_FIELD)
        end = block.find(b"\r", start)
        digits = block[start:end]
        number = int(digits) if digits.isdigit() and len(digits) <= DIGITS_MAX else 0
        if not number:
            raise NotABroker("this is not a Seriatim broker: it gives a message no valid number")
        self._number = number
        return end

    def _read_stamp(self) -> int:
        """Read the broker's own lines, which come first; others have only a first line."""
        block = self.block
        if self._time >= 0:
            self._skipped = block.find(b"\n") + 1
            return 0
        end = self._read_number()
        self._time = 0
        start = end + len(TIME_LINE)
        if block[end:start] == TIME_LINE:
            end = start + TIME_SIZE
            self._time = read_time(block[start:end])
        self._skipped = end + 2
        return 0


def is_stamped(block: bytes) -> bool:
    """True if the broker's own lines are in the headers: behind the first line, whatever it says.

    In a message without a number a Seriatim leaves out lines that look like these.
    """
    at = block.find(b"\n")
    return at > 0 and block.startswith(NUMBER_FIELD, at)


def read_time(text: bytes) -> int:
    """Read `2026-01-31T12:00:00.123456789Z` as ns since 1970; 0 if it is no such time."""
    global _second
    known, seconds = _second
    try:
        if text[:19] != known:
            moment = datetime.fromisoformat(text[:19].decode() + "+00:00")
            seconds = int(moment.timestamp())
            if not 0 <= seconds < SECONDS_MAX:
                return 0
            _second = (text[:19], seconds)
        fraction = text[20:29]
        return seconds * SECOND + (int(fraction) if fraction.isdigit() else 0)
    except ValueError:
        return 0


def read_status(block: bytes) -> tuple[int, str]:
    """Return the status and its text, of a block such as `NATS/1.0 503 No Responders`; or 0."""
    if not block or block.startswith(STATUS_LINE):
        return 0, ""
    words = block.partition(b"\r\n")[0].decode("utf-8", "replace").split(" ", 2)
    code = words[1] if len(words) > 1 else ""
    status = int(code) if code.isascii() and code.isdigit() and len(code) == 3 else 0
    return status, words[2].strip() if len(words) > 2 else ""


def read_headers(lines: bytes) -> dict[str, str]:
    """Return the headers in these lines."""
    if not lines:
        return {}
    pairs = (line.partition(":") for line in lines.decode("utf-8", "replace").split("\r\n") if line)
    return {name.strip(): value.strip() for name, _, value in pairs}
