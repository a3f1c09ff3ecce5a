"""One blocking connection to a broker, made for large answers: payloads are received in place.

    BulkConnection.connect(servers)              the first server that accepts us
    request(subject, payload, headers)           one request, one answer
    ask(requests, window)                        many, with several in flight
    stream(subject, payload)                     one request, answers until Seriatim-Last
    publish(subject, payload, headers)           a message
    send(data), flush(), heed()                  raw operations, and the broker's errors
    receive_into(buffer)                         raw input, for a caller that parses it itself

The payload of an answer has a buffer of its own, from `allocate`, so arrays on it copy nothing. A
client must not be used by two threads at once. A broken connection raises `ConnectionLost` and is
closed; a refusal raises `BrokerError`, or is an answer with a status.
"""

import secrets
import socket
import ssl
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from seriatim.client.credentials import NOBODY, Credentials
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    NotABroker,
    describe,
)
from seriatim.client.protocol import (
    LINE_MAX,
    NO_RESPONDERS,
    Allocate,
    ErrorReceived,
    Event,
    NatsProtocol,
    Need,
    PingReceived,
    PongReceived,
    publish_head,
    size_of,
)
from seriatim.client.server_address import ServerAddress, read_addresses
from seriatim.client.stream_message import Message
from seriatim.client.tls import DEFAULT_TLS, TlsSettings, tls_failure

if TYPE_CHECKING:
    from seriatim.client.web_stream import WebStream

Data = bytes | bytearray | memoryview
Request = tuple[str, Data, Mapping[str, str] | None]

DEFAULT_SERVER: Final = "127.0.0.1:4222"
CONNECT_SECONDS: Final = 5.0
REQUEST_SECONDS: Final = 10.0
JOIN_MAX: Final = 1 << 14  # smaller pieces are joined into one
SEND_MAX: Final = 1 << 20  # bytes per call: the timeout holds for each


def allocate_bytes(size: int) -> memoryview:
    """Allocate ordinary memory for a payload."""
    return memoryview(bytearray(size))


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """The options of a connection; times in seconds. `fields` are added to CONNECT.

    `origin` is the page's origin that a browser sends to a WebSocket listener; empty: none.
    `inbox_prefix` begins the subjects on which answers come.
    """

    name: str = "seriatim"
    credentials: Credentials = NOBODY
    tls: TlsSettings = DEFAULT_TLS
    connect_timeout: float = CONNECT_SECONDS
    timeout: float = REQUEST_SECONDS
    allocate: Allocate = allocate_bytes
    fields: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    inbox_prefix: str = "_INBOX"


DEFAULTS: Final = ConnectOptions()


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer; `status` is 0 if it has none."""

    status: int
    description: str
    headers: dict[str, str]
    payload: memoryview

    def check(self, subject: str) -> "Answer":
        """Return the answer itself. Raises `BrokerError` if its status is a refusal."""
        if self.status == NO_RESPONDERS and not self.description:
            raise BrokerError(
                f"{subject}: no responders; this broker is not Seriatim", NO_RESPONDERS
            )
        if self.status >= 300:
            raise BrokerError(f"{subject}: {self.status} {self.description}".rstrip(), self.status)
        return self


class BulkConnection:
    """One connection; open until `close`, or until a call raised `ConnectionLost`."""

    def __init__(self, sock: socket.socket, server: ServerAddress, options: ConnectOptions) -> None:
        self.server = server
        self._socket: socket.socket | WebStream = sock
        self._tls: ssl.SSLSocket | None = None
        self._protocol = NatsProtocol(options.allocate)
        self._timeout_s = options.connect_timeout
        self._until = 0.0
        self._inbox = f"{options.inbox_prefix}.{secrets.token_hex(8)}."
        self._asked = 0
        self._refusals: list[str] = []  # -ERRs received but not reported yet
        self.is_open = True

    @classmethod
    def connect(
        cls,
        servers: str | Sequence[ServerAddress] = DEFAULT_SERVER,
        options: ConnectOptions = DEFAULTS,
    ) -> Self:
        """Connect to the first server that accepts us: `host:port,nats://host:port`.

        Raises `ConnectionLost` if none can be reached, `BrokerError` if the broker refuses
        the login, and `InvalidArgument` for unusable credentials.
        """
        problems = []
        for server in read_addresses(servers) if isinstance(servers, str) else servers:
            try:
                return cls._connect_one(server, options)
            except ConnectionLost as error:
                problems.append(error)
        if len(problems) == 1:
            raise problems[0]
        raise ConnectionLost("; ".join(map(str, problems)))

    @classmethod
    def _connect_one(cls, server: ServerAddress, options: ConnectOptions) -> Self:
        try:
            sock = socket.create_connection((server.host, server.port), options.connect_timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except (OSError, UnicodeError) as error:
            raise ConnectionLost(describe(error)).at(server) from None
        made = cls(sock, server, options)
        try:
            made._greet(options)
        except BaseException:
            made.close()
            raise
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def info(self) -> dict[str, Any]:
        """The broker's INFO."""
        return self._protocol.info

    @property
    def max_payload(self) -> int:
        """The largest payload that the broker accepts, headers included."""
        return self._protocol.max_payload

    @property
    def tls_version(self) -> str:
        """The version of TLS, such as `TLSv1.3`; empty without TLS."""
        return (self._tls and self._tls.version()) or ""

    @property
    def certificate(self) -> bytes:
        """The broker's certificate (DER); empty without TLS."""
        return (self._tls and self._tls.getpeercert(binary_form=True)) or b""

    def request(
        self,
        subject: str,
        payload: Data = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send a request and wait for its one answer, whatever its status; `timeout` in seconds."""
        reply = self._send_request(subject, payload, headers)
        self._expect(timeout)
        return self._answer_to(reply)

    def ask(self, requests: Iterable[Request], window: int = 4) -> Iterator[Answer]:
        """Yield the answers to many requests, in their order; at most `window` are in flight.

        Requests are taken from the iterable as there is room. If not all answers are consumed, the
        connection must be closed.
        """
        waiting: deque[str] = deque()
        for subject, payload, headers in requests:
            if len(waiting) >= window:
                self._expect()
                yield self._answer_to(waiting.popleft())
            waiting.append(self._send_request(subject, payload, headers))
        while waiting:
            self._expect()
            yield self._answer_to(waiting.popleft())

    def stream(self, subject: str, payload: Data = b"") -> Generator[Answer, None, None]:
        """Yield the answers to one request, until the one marked as the last.

        Raises `BrokerError` for a refusal. Leaving the generator early closes the connection.
        """
        reply = self._send_request(subject, payload, None)
        ended = False
        try:
            while not ended:
                self._expect()
                answer = self._answer_to(reply).check(subject)
                ended = "Seriatim-Last" in answer.headers
                yield answer
        except BrokerError:
            ended = True
            raise
        finally:
            if not ended:
                self.close()

    def publish(
        self,
        subject: str,
        payload: Data = b"",
        headers: Mapping[str, str] | None = None,
        reply: str = "",
    ) -> None:
        """Publish a message. If the broker refuses it, `flush` raises."""
        size = size_of(payload)
        head = publish_head(subject, size, reply, headers, self.max_payload)
        self._send(head, payload, b"\r\n")

    def send(self, data: Data) -> None:
        """Send raw operations. If the broker refuses one, `flush` raises."""
        self._send(data)

    def heed(self) -> None:
        """Answer the PINGs that have come, without waiting. Raises `BrokerError` for a refusal."""
        try:
            self._socket.settimeout(0)
            size = self._socket.recv_into(self._protocol.get_buffer())
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise self._broken(error) from None
        self._received(size)
        while (event := self._next_event()) is not None:
            self._note(event)
        self._raise_refusal()

    def receive_into(self, buffer: memoryview, timeout: float) -> int:
        """Read bytes that only the caller parses; return 0 if none came within `timeout` seconds.

        From its first call on, nothing else may be called that awaits an answer.
        """
        if rest := self._protocol.take_rest(len(buffer)):
            buffer[: len(rest)] = rest
            return len(rest)
        try:
            self._socket.settimeout(timeout)
            size = self._socket.recv_into(buffer)
        except TimeoutError:
            return 0
        except OSError as error:
            raise self._broken(error) from None
        if size == 0:
            raise self._at_end()
        return size

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the broker has processed everything sent so far. Raises `BrokerError`."""
        self._protocol.ping()
        self._await_pong(timeout)

    def _await_pong(self, timeout: float | None = None) -> None:
        """Send what is queued, and wait for the PONG. Raises `BrokerError`."""
        self._send(self._protocol.data_to_send())
        self._expect(timeout)
        while not isinstance(self._event(), PongReceived):
            pass
        self._raise_refusal()

    def is_fresh(self) -> bool:
        """True if it can be used again: the broker has not closed, and nothing unread is left."""
        if self._refusals or not self._protocol.is_between:
            return False
        try:
            while self.is_open:
                self._socket.settimeout(0)
                size = self._socket.recv_into(self._protocol.get_buffer())
                if not size:
                    return False
                self._protocol.buffer_updated(size)
                while event := self._protocol.next_event():
                    if not isinstance(event, PingReceived):
                        return False
                if not self._protocol.is_between:
                    return False
                self._send(self._protocol.data_to_send())
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except (OSError, BrokerError):
            pass
        return False

    def close(self) -> None:
        """Close the connection, in any state."""
        self.is_open = False
        self._socket.close()

    # Sending

    def _send_request(self, subject: str, payload: Data, headers: Mapping[str, str] | None) -> str:
        self._asked += 1
        reply = f"{self._inbox}{self._asked}"
        size = size_of(payload)
        # Not checked against max_payload: for a message too large, the broker's own error comes
        # back.
        self._send(publish_head(subject, size, reply, headers), payload, b"\r\n")
        return reply

    def _send(self, *pieces: Data) -> None:
        if not self.is_open:
            raise ConnectionLost("the connection is closed").at(self.server)
        try:
            self._socket.settimeout(self._timeout_s)
            if sum(memoryview(piece).nbytes for piece in pieces) <= JOIN_MAX:
                pieces = (b"".join(pieces),)
            for piece in pieces:
                view = memoryview(piece).cast("B")
                for at in range(0, len(view), SEND_MAX):
                    self._socket.sendall(view[at : at + SEND_MAX])
        except OSError as error:
            said = self._last_words()
            raise ConnectionLost(said or describe(error)).at(self.server) from None

    def _last_words(self) -> str:
        """Return the -ERR of a broker that closed while we were sending; it came before the end."""
        words, heard = "", 0
        try:
            self._socket.settimeout(0)
            while heard < LINE_MAX:
                while event := self._protocol.next_event():
                    if isinstance(event, ErrorReceived):
                        words = event.words
                size = self._socket.recv_into(self._protocol.get_buffer())
                if not size:
                    break
                self._protocol.buffer_updated(size)
                heard += size
        except (OSError, BrokerError):
            pass
        self.close()
        return words

    # Receiving

    def _expect(self, timeout: float | None = None) -> None:
        """Set the time within which the next answer must come."""
        self._until = time.monotonic() + (self._timeout_s if timeout is None else timeout)

    def _answer_to(self, reply: str) -> Answer:
        """Return the next answer on a reply subject; others belong to abandoned requests."""
        while True:
            event = self._event()
            if isinstance(event, Message) and event.subject == reply:
                return Answer(event.status, event.description, event.headers, event.payload)
            if isinstance(event, ErrorReceived):
                self._raise_refusal()

    def _raise_refusal(self) -> None:
        """Raise the broker's pending refusal, if any."""
        if self._refusals:
            said, self._refusals = self._refusals, []
            raise BrokerError(said[0]).at(self.server)

    def _event(self) -> Event:
        """Return the next event; answer a PING, record an -ERR, and raise it if it is fatal."""
        while (event := self._next_event()) is None:
            self._receive()
        self._note(event)
        return event

    def _next_event(self) -> Event | None:
        """Return the next event of what was received, if any is there."""
        try:
            return self._protocol.next_event()
        except NotABroker as error:
            self.close()
            raise error.at(self.server) from None

    def _note(self, event: Event) -> None:
        if isinstance(event, PingReceived):
            self._send(self._protocol.data_to_send())
        elif isinstance(event, ErrorReceived):
            self._refusals.append(event.words)
            if event.is_fatal:
                self.close()
                raise event.error().at(self.server)

    def _receive(self) -> None:
        left = self._until - time.monotonic()
        moves = self._protocol.fills_payload
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            size = self._socket.recv_into(self._protocol.get_buffer())
        except TimeoutError:
            self.close()
            raise ConnectionLost("nothing was received in time").at(self.server) from None
        except OSError as error:
            raise self._broken(error) from None
        self._received(size)
        if moves:
            self._until = max(self._until, time.monotonic() + self._timeout_s)

    def _received(self, size: int) -> None:
        """Hand the protocol what was read into its buffer; 0 bytes are the end."""
        if size == 0:
            raise self._at_end()
        self._protocol.buffer_updated(size)

    def _at_end(self) -> BrokerError:
        self.close()
        return self._protocol.closed().at(self.server)

    def _broken(self, error: OSError) -> ConnectionLost:
        self.close()
        return self._protocol.closed(error).at(self.server)

    # The handshake

    def _greet(self, options: ConnectOptions) -> None:
        """Open a WebSocket if the address asks for it, and do what the handshake needs."""
        web = bool(self.server.web_path)
        if web and self.server.tls:
            self._start_tls(options.tls)
        if web:
            self._start_web(options.origin)
        self._expect()
        for need in self._protocol.greeting(
            *(self.server, options.tls, options.credentials),
            {"name": options.name, **options.fields},
            inbox=f"{self._inbox}*",
            has_tls=web,
        ):
            match need:
                case Need.TLS:
                    self._start_tls(options.tls)
                case Need.INFO:
                    while not self.info:
                        self._event()
                case Need.PONG:
                    self._await_pong()
        self._timeout_s = options.timeout

    def _start_tls(self, tls: TlsSettings) -> None:
        context = tls.context()
        try:
            self._socket.settimeout(self._timeout_s)
            assert isinstance(self._socket, socket.socket), "a WebSocket is within TLS"
            self._tls = context.wrap_socket(self._socket, server_hostname=self.server.host)
            self._socket = self._tls
        except OSError as error:
            self.close()
            raise tls_failure(tls, error).at(self.server) from None

    def _start_web(self, origin: str) -> None:
        from seriatim.client.web_stream import WebStream  # only with a WebSocket

        assert isinstance(self._socket, socket.socket), "it starts once"
        try:
            self._socket = WebStream(self._socket, self.server, self._timeout_s, origin)
        except BrokerError as error:
            raise error.at(self.server) from None
        except OSError as error:
            raise self._broken(error) from None
