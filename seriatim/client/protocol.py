"""The NATS client protocol without I/O: bytes in, events out; commands in, bytes out.

    protocol = NatsProtocol()
    protocol.receive_data(data)                   what was read from the socket
    while (event := protocol.next_event()):       InfoReceived, Message, PongReceived,
        ...                                       OkReceived, PingReceived, ErrorReceived
    protocol.connect({...}); protocol.subscribe("orders.>"); protocol.publish("orders.new", b"x")
    sock.sendall(protocol.data_to_send())         what is to be written to it

A connection begins with `greeting`, which yields a `Need` whenever its caller must read, write or
start TLS:

    for need in protocol.greeting(address, tls, credentials, {"name": "mine"}):
        ...                                       TLS: start it; INFO: read until InfoReceived;
                                                  PONG: write, and read until PongReceived

A PING is answered automatically: the PONG is in the next `data_to_send`. To avoid a copy, read into
`get_buffer()` and report the number of bytes with `buffer_updated(size)`. With `allocate`, the
payload of a message is read directly into the caller's memory.

A violation of the protocol raises `NotABroker`; the connection must then be closed. A line, and the
headers of a message, have at most `LINE_MAX` bytes, a payload at most `PAYLOAD_MAX`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from seriatim.client.credentials import Credentials, connect_fields
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    MessageTooLarge,
    NotABroker,
    NotAuthorized,
    describe,
)
from seriatim.client.scan import Scanner
from seriatim.client.server_address import ServerAddress
from seriatim.client.stream_message import Message, is_stamped
from seriatim.client.tls import TlsSettings, wants_tls
from seriatim.settings.amounts import read_digits

BUFFER_SIZE: Final = 1 << 16
LINE_MAX: Final = 1 << 20  # an INFO that names thousands of servers
PAYLOAD_MAX: Final = (1 << 30) + (1 << 20)
PAYLOAD_DEFAULT: Final = 1 << 20  # the limit of a broker that announces none
SIZE_DIGITS_MAX: Final = 10
FIELDS_MAX: Final = 256  # of all INFOs; a broker has some thirty
SHOWN_MAX: Final = 40  # characters of the offending bytes in an error
UNSENDABLE: Final = re.compile(r"[\s\0]")
BAD_HEADER: Final = re.compile(r"[\r\n\0]")
CRLF: Final = b"\r\n"
NO_RESPONDERS: Final = 503
NUMBER_MAX: Final = 10**19 - 1  # of a message; the broker itself stops earlier

Allocate = Callable[[int], memoryview]
Headers = Mapping[str, str] | bytes  # bytes: a block, from `NATS/1.0` to the empty line


@dataclass(frozen=True, slots=True)
class InfoReceived:
    """The broker's INFO; `NatsProtocol.info` merges all of them so far."""

    info: dict[str, Any]


class PingReceived:
    """The broker sent a PING; the PONG is in `data_to_send`."""


class PongReceived:
    """The broker has processed everything sent before the oldest unanswered PING."""


class OkReceived:
    """The broker accepted an operation; sent only to clients with `verbose`."""


@dataclass(frozen=True, slots=True)
class ErrorReceived:
    """An -ERR; it ends the connection unless it refuses a subject."""

    words: str

    @property
    def is_fatal(self) -> bool:
        """True if the broker closes the connection after it."""
        lower = self.words.lower()
        return not lower.startswith("permissions violation") and lower != "invalid subject"

    def error(self) -> BrokerError:
        """Return the error with which a connection ends that this one is fatal to."""
        lower = self.words.lower()
        if "authorization" in lower or "authentication" in lower:
            return NotAuthorized(f"the broker refuses the login: {self.words}")
        return ConnectionLost(self.words or "the broker reports an error, and does not say which")


Event = InfoReceived | Message | PingReceived | PongReceived | OkReceived | ErrorReceived
PING, PONG, OK = PingReceived(), PongReceived(), OkReceived()
NOTHING: Final = memoryview(b"")


class Need(Enum):
    """A step of the handshake that is its caller's."""

    TLS = "start TLS"
    INFO = "read until INFO"
    PONG = "write, and read until PONG"


class _Arriving:
    """A message whose payload has not fully arrived."""

    __slots__ = ("block", "filled", "reply", "sid", "size", "subject", "view")

    def __init__(
        self, subject: str, sid: int, reply: str, block: bytes, size: int, view: memoryview
    ) -> None:
        self.subject, self.sid, self.reply, self.block = subject, sid, reply, block
        self.size, self.view = size, view
        self.filled = 0


class NatsProtocol:
    """One connection's state; `allocate(size)` gives the memory that a payload is read into.

    `numbered_only`: `take_messages` stops at each message without a number.
    """

    def __init__(self, allocate: Allocate | None = None, numbered_only: bool = False) -> None:
        self.info: dict[str, Any] = {}
        self.max_payload = PAYLOAD_DEFAULT  # the broker's, headers included
        self._allocate = allocate
        self._scanner = Scanner(numbered_only)
        self._buffer = bytearray(BUFFER_SIZE << 2 if numbered_only else BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        self._at = self._end = 0  # received but not parsed yet
        self._scanned = 0  # there is no end of a line before this position
        self._arriving: _Arriving | None = None
        self._out: list[bytes] = []
        self.send: Callable[[bytes], None] = self._out.append  # queues whole operations
        self._sid = 0

    @property
    def is_between(self) -> bool:
        """True if everything received has been parsed, with no operation incomplete."""
        return self._arriving is None and self._at == self._end

    @property
    def fills_payload(self) -> bool:
        """True while the payload of a message is being received."""
        return self._arriving is not None

    # The beginning and the end

    def greeting(
        self,
        address: ServerAddress,
        tls: TlsSettings,
        credentials: Credentials,
        fields: Mapping[str, Any],
        inbox: str = "",
        has_tls: bool = False,
    ) -> Iterator[Need]:
        """Yield what the handshake needs next; when it ends, the broker has accepted us.

        `fields` are added to CONNECT, and `inbox` is subscribed to. With `has_tls`, the connection
        is within TLS already. Raises `BrokerError` if the broker has no TLS that is wanted, and
        `InvalidArgument` for credentials that cannot be used.
        """
        if tls.first and not has_tls:
            self._discard()
            yield Need.TLS
        yield Need.INFO
        if not (has_tls or tls.first) and wants_tls(tls, address, self.info):
            self._discard()
            yield Need.TLS
        self.connect({**fields, **connect_fields(credentials, address, self.info)})
        if inbox:
            self.subscribe(inbox)
        self.ping()
        yield Need.PONG

    def _discard(self) -> None:
        """Drop unparsed input: TLS begins, and these bytes are not authenticated."""
        self._at = self._end = self._scanned = 0

    def closed(self, error: Exception | None = None) -> ConnectionLost:
        """Return the error for a connection that broke, or that the broker has closed."""
        if self.info and isinstance(error, ConnectionError):
            error = None  # a reset, when the broker had something of ours still to read
        if error is not None:
            return ConnectionLost(describe(error))
        return (ConnectionLost if self.info else NotABroker)("the broker closed the connection")

    # Input

    def take_rest(self, most: int) -> bytes:
        """Return at most so many bytes of what was received and not parsed; they are gone here."""
        assert self._arriving is None, "between two operations"
        stop = min(self._end, self._at + most)
        rest = bytes(self._view[self._at : stop])
        self._at = self._scanned = stop
        return rest

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Accept bytes that were read from the socket."""
        left = memoryview(data)
        while left:
            into = self.get_buffer()
            size = min(len(into), len(left))
            into[:size] = left[:size]
            self.buffer_updated(size)
            left = left[size:]

    def get_buffer(self) -> memoryview:
        """Return the buffer to read the next bytes into; never empty."""
        arriving = self._arriving
        if arriving is not None and arriving.filled < arriving.size:
            return arriving.view[arriving.filled :]
        if self._at:
            kept = self._end - self._at
            self._buffer[:kept] = self._buffer[self._at : self._end]
            self._scanned -= self._at
            self._at, self._end = 0, kept
        if self._end == len(self._buffer):
            self._buffer = self._buffer + bytes(self._end)
            self._view = memoryview(self._buffer)
        return self._view[self._end :]

    def buffer_updated(self, size: int) -> None:
        """Accept `size` bytes that were read into the buffer of `get_buffer`."""
        arriving = self._arriving
        if arriving is not None and arriving.filled < arriving.size:
            arriving.filled += size
        else:
            self._end += size

    def take_messages(self, found: list[Message]) -> None:
        """Append the whole messages that are next; `next_event` goes on where they end."""
        if self._arriving is None and self._at < self._end:
            self._at = self._scanner.scan(self._buffer, self._at, self._end, found)

    def next_event(self) -> Event | None:
        """Return the next event; None if more bytes are needed. Raises `NotABroker`."""
        if self._arriving is not None:
            return self._arrived(self._arriving)
        start = self._at
        found = self._buffer.find(b"\n", max(start, self._scanned), self._end)
        if found < 0:
            self._scanned = self._end
            if self._end - start >= LINE_MAX:
                raise NotABroker("this is not a NATS broker: its line has no end")
            return None
        line = bytes(self._view[start:found])
        if line.startswith((b"MSG ", b"HMSG ")):
            return self._message(line, found + 1)
        self._at = found + 1
        return self._operation(line.rstrip(b"\r"))

    def _operation(self, line: bytes) -> Event:
        """Return the event of a line that does not begin a message."""
        verb, _, rest = line.partition(b" ")
        verb = verb.upper()
        if verb == b"PING":
            self._out.append(b"PONG\r\n")
            return PING
        if verb == b"PONG":
            return PONG
        if verb == b"INFO":
            info = _read_info(rest)
            self.info |= info
            self.max_payload = max_payload_of(self.info)
            if len(self.info) > FIELDS_MAX:
                raise NotABroker(f"this is not a NATS broker: its INFO has {len(self.info)} fields")
            return InfoReceived(info)
        if verb == b"-ERR":
            return ErrorReceived(rest.decode("utf-8", "replace").strip().strip("'"))
        if verb == b"+OK":
            return OK
        raise NotABroker(f"this is not a NATS broker: it says {line[:SHOWN_MAX]!r}")

    def _message(self, line: bytes, at: int) -> Message | None:
        """Return a message, or None until all of its headers and payload have arrived."""
        words = line.split()
        try:
            if line[0] == 72:  # HMSG
                head, size = _size(words[-2]), _size(words[-1])
                count = len(words) - 2
            else:
                head, size, count = 0, _size(words[-1]), len(words) - 1
            sid = _size(words[2])
            subject = words[1].decode("utf-8", "surrogateescape")
            if not 3 <= count <= 4 or not head <= size <= PAYLOAD_MAX or head > LINE_MAX:
                raise ValueError
            reply = words[3].decode("utf-8", "surrogateescape") if count == 4 else ""
        except (ValueError, IndexError):
            raise NotABroker(f"this is not a NATS broker: it says {line[:SHOWN_MAX]!r}") from None
        start = at + head  # of the payload
        if start > self._end:
            return None  # the line is parsed again when the headers are complete
        block = bytes(self._view[at:start]) if head else b""
        stop = at + size
        if self._allocate is None and stop + 2 <= self._end:
            if self._buffer[stop : stop + 2] != CRLF:
                raise NotABroker("this is not a NATS broker: a message does not end where it says")
            self._at = stop + 2
            return self._made(subject, reply, block, bytes(self._view[start:stop]), sid)
        return self._begin(
            _arriving(subject, sid, reply, block, size - head, self._allocate), start
        )

    def _begin(self, arriving: _Arriving, start: int) -> Message | None:
        """Move the part of a payload that is here into its own memory; the rest is read there."""
        have = min(arriving.size, self._end - start)
        if have:
            arriving.view[:have] = self._view[start : start + have]
        arriving.filled = have
        self._at = start + have
        self._scanned = self._at
        self._arriving = arriving
        return self._arrived(arriving)

    def _arrived(self, arriving: _Arriving) -> Message | None:
        """Return the message, if its payload and the final CRLF are there."""
        if arriving.filled < arriving.size or self._end - self._at < len(CRLF):
            return None
        if self._buffer[self._at : self._at + len(CRLF)] != CRLF:
            raise NotABroker("this is not a NATS broker: a message does not end where it says")
        self._at += len(CRLF)
        self._scanned = self._at
        self._arriving = None
        payload = arriving.view if self._allocate is not None else bytes(arriving.view)
        return self._made(arriving.subject, arriving.reply, arriving.block, payload, arriving.sid)

    def _made(
        self, subject: str, reply: str, block: bytes, payload: bytes | memoryview, sid: int
    ) -> Message:
        number = -1 if self._scanner.trusted and is_stamped(block) else 0
        return Message(subject, reply, block, payload, sid, number, number)

    # Output

    def data_to_send(self) -> bytes:
        """Return the bytes to write to the socket; the next call returns those that follow."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def connect(self, fields: Mapping[str, Any]) -> None:
        """Queue CONNECT; `fields` override the client's defaults."""
        said = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "echo": True,
            "protocol": 1,
            "lang": "python",
            "version": "1",
            **fields,
        }
        self._scanner.trusted = said.get("frame") == "stamp" and "seriatim" in self.info
        self._out.append(f"CONNECT {json.dumps(said)}\r\n".encode())

    def subscribe(self, subject: str, queue: str = "", sid: int = 0) -> int:
        """Queue SUB; return the id that its messages carry. Raises `InvalidArgument`."""
        check_sendable(subject)
        group = f" {queue}" if queue else ""
        if queue:
            check_sendable(queue, "the name of a queue group")
        if not sid:
            self._sid += 1
            sid = self._sid
        self._out.append(f"SUB {subject}{group} {sid}\r\n".encode("utf-8", "surrogateescape"))
        return sid

    def unsubscribe(self, sid: int, after: int = 0) -> None:
        """Queue UNSUB, effective at once or after this many messages in total."""
        self._out.append(b"UNSUB %d %d\r\n" % (sid, after) if after else b"UNSUB %d\r\n" % sid)

    def publish(
        self,
        subject: str,
        payload: bytes | bytearray | memoryview = b"",
        reply: str = "",
        headers: Headers | None = None,
    ) -> int:
        """Queue PUB or HPUB; return its bytes. Raises `InvalidArgument`, `MessageTooLarge`."""
        size = size_of(payload)
        head = publish_head(subject, size, reply, headers, self.max_payload)
        self._out += (head, bytes(payload), CRLF)
        return len(head) + size + len(CRLF)

    def pong(self) -> None:
        """Queue a PONG, which answers nothing but says that we are here."""
        self._out.append(b"PONG\r\n")

    def ping(self) -> None:
        """Queue a PING; `PongReceived` follows when everything sent before was processed."""
        self._out.append(b"PING\r\n")


def publish_head(
    subject: str,
    size: int,
    reply: str = "",
    headers: Headers | None = None,
    max_payload: int = PAYLOAD_MAX,
) -> bytes:
    """Return the bytes before a payload of `size` bytes, headers included; a CRLF must follow it.

    Raises `InvalidArgument`, `MessageTooLarge`.
    """
    check_sendable(subject)
    if reply:
        check_sendable(reply)
        reply += " "
    if not headers:
        if size > max_payload:
            raise too_large(size, max_payload)
        return f"PUB {subject} {reply}{size}\r\n".encode("utf-8", "surrogateescape")
    block = with_fields(headers, {}) if isinstance(headers, bytes) else block_of(headers)
    if len(block) + size > max_payload:
        raise too_large(len(block) + size, max_payload)
    line = f"HPUB {subject} {reply}{len(block)} {len(block) + size}\r\n"
    return line.encode("utf-8", "surrogateescape") + block


def block_of(headers: Mapping[str, str]) -> bytes:
    """Return headers as a block, from `NATS/1.0` to the empty line. Raises `InvalidArgument`."""
    for name, value in headers.items():
        if not name.strip() or ":" in name or BAD_HEADER.search(name) or BAD_HEADER.search(value):
            raise InvalidArgument(f"{name!r:.60}: {value!r:.60} is not a valid header")
    lines = "".join(f"{name.strip()}: {value.strip()}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode("utf-8", "surrogateescape")


def with_fields(block: bytes, added: Mapping[str, str]) -> bytes:
    """Return a block with these headers in place of those of the same names.

    Raises `InvalidArgument`.
    """
    if not block.startswith(b"NATS/1.0") or block.find(b"\r\n\r\n") != len(block) - 4:
        raise InvalidArgument(f"{block!r:.60} is not a block of headers: NATS/1.0 to an empty line")
    if not added:
        return block
    lines = block[:-4].split(b"\r\n")
    names = {name.lower().encode() for name in added}
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in names]
    return b"\r\n".join(kept) + block_of(added)[len("NATS/1.0") :]


def size_of(payload: bytes | bytearray | memoryview) -> int:
    """Return the bytes of a payload. Raises `InvalidArgument` for text and other things."""
    try:
        return memoryview(payload).nbytes
    except TypeError:
        kind = type(payload).__name__
        remedy = "; encode it: text.encode()" if isinstance(payload, str) else ""
        raise InvalidArgument(f"a payload is bytes, and this is {kind}{remedy}") from None


def too_large(size: int, most: int) -> MessageTooLarge:
    """Return the error for a message of `size` bytes, headers included."""
    return MessageTooLarge(
        f"the message has {size} bytes with its headers; the broker accepts at most {most}"
    )


def max_payload_of(info: dict[str, Any]) -> int:
    """Return the largest payload that a broker accepts, by its INFO."""
    given = info.get("max_payload")
    return given if type(given) is int and given > 0 else PAYLOAD_DEFAULT


def check_sendable(word: str, what: str = "a subject") -> None:
    """Raise `InvalidArgument` for a word that would end its line, or count as two."""
    if not word or UNSENDABLE.search(word):
        raise InvalidArgument(f"{word!r:.60} is not valid as {what}")


def read_number(digits: str) -> int:
    """Read a message's number from a header. Raises `ValueError`."""
    number = read_digits(digits, NUMBER_MAX)
    if number is None:
        raise ValueError(f"{digits[:40]!r} is not a number")
    return number


def _arriving(
    subject: str, sid: int, reply: str, block: bytes, size: int, allocate: Allocate | None
) -> _Arriving:
    view = NOTHING
    if size:
        view = memoryview(bytearray(size)) if allocate is None else allocate(size)
    return _Arriving(subject, sid, reply, block, size, view)


def _size(digits: bytes) -> int:
    """Read a size or an id from a line. Raises `ValueError`."""
    if not digits.isdigit() or len(digits) > SIZE_DIGITS_MAX:
        raise ValueError
    return int(digits)


def _read_info(text: bytes) -> dict[str, Any]:
    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict):
        raise NotABroker(f"this is not a NATS broker: it says INFO {text[:SHOWN_MAX]!r}")
    return info
