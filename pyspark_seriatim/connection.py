"""One blocking connection to a broker, made for large answers: what arrives is received in place.

    Connection.open(options)                     the first address that lets us in
    request(subject, payload, headers)           one question, one answer
    ask(requests, window)                        many, some on their way at a time
    stream(subject, payload)                     one question, answers until Seriatim-Last
    publish(data), flush()                       raw operations, and what the broker says of them

An answer's payload is a buffer of its own, aligned for Arrow, that nothing else uses: arrays on it
copy nothing. Not for two threads at a time. What breaks the connection raises `Unreachable`, and
it is closed then; a refusal raises `BrokerError`, or is an answer with a status.
"""

import json
import re
import secrets
import socket
import ssl
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyspark_seriatim import credentials
from pyspark_seriatim.errors import BrokerError, OptionError, Unreachable
from pyspark_seriatim.options import Options
from pyspark_seriatim.values import Server

Data = bytes | bytearray | memoryview
Request = tuple[str, Data, Mapping[str, str] | None]

BUFFER_SIZE: Final = 1 << 16
LAST_WORDS: Final = re.compile(rb"(?:\A|\n)-ERR '?([^\r\n]*?)'?\r\n\Z")
LINE_MAX: Final = 1 << 20  # an INFO that names thousands of servers
PAYLOAD_MAX: Final = (1 << 30) + (1 << 20)
JOIN_MAX: Final = 1 << 14  # pieces below are sent in one
SEND_MAX: Final = 1 << 20  # of a piece at a time: so much is to go in requestTimeoutMs
SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker answered; `status` is 0 where it gave none."""

    status: int
    description: str
    headers: dict[str, str]
    payload: memoryview

    def check(self, subject: str) -> "Answer":
        """The same answer. Raises `BrokerError` for a status of refusal."""
        if self.status == 503 and not self.description:
            raise BrokerError(f"{subject}: nobody answers; this broker is not Seriatim", 503)
        if self.status >= 300:
            raise BrokerError(f"{subject}: {self.status} {self.description}".rstrip(), self.status)
        return self


class Connection:
    """One connection; open until `close`, or until something raised `Unreachable`."""

    def __init__(self, sock: socket.socket, server: Server, timeout_s: float) -> None:
        self.info: dict[str, Any] = {}
        self.server = server
        self._socket = sock
        self._timeout_s = timeout_s
        self._until = 0.0
        self._buffer = bytearray(BUFFER_SIZE)
        self._at = self._end = 0
        self._inbox = f"_INBOX.{secrets.token_hex(8)}."
        self._asked = 0
        self._refusals: list[str] = []  # -ERR heard, and not yet told
        self.journal: str | None = None  # whoever asks for it first notes it here
        self.is_open = True

    @classmethod
    def open(cls, options: Options) -> "Connection":
        """Connect to the first server that lets us in.

        Raises `Unreachable` where none does, and `BrokerError` where we are not let in.
        """
        problems = []
        for server in options.servers:
            try:
                return _connect(server, options)
            except Unreachable as error:
                problems.append(str(error))
        raise Unreachable("; ".join(problems))

    @property
    def max_payload(self) -> int:
        """The largest payload that the broker takes, headers included."""
        return int(self.info.get("max_payload", 1 << 20))

    def request(
        self,
        subject: str,
        payload: Data = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Ask, and await the one answer, whatever its status is; `timeout` in seconds."""
        reply = self._send_request(subject, payload, headers)
        self._expect(timeout)
        return self._answer_to(reply)

    def ask(self, requests: Iterable[Request], window: int = 4) -> Iterator[Answer]:
        """The answers to many requests, in their order; at most `window` are on their way.

        Requests are taken as there is room for them. A connection whose answers were not all
        taken is to be closed.
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
        """The answers to one request, until the one that says it is the last.

        Raises `BrokerError` for a refusal. Left before its end, the connection is closed.
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

    def publish(self, data: Data) -> None:
        """Send operations as they are. What the broker has against them, `flush` says."""
        self._send(data)

    def flush(self, timeout: float | None = None) -> None:
        """Return when the broker has handled all that was sent. Raises `BrokerError`."""
        self._send(b"PING\r\n")
        self._expect(timeout)
        while self._operation()[0] != "PONG":
            pass
        if self._refusals:
            said, self._refusals = self._refusals, []
            raise BrokerError(f"{self.server}: {said[0]}")

    def is_fresh(self) -> bool:
        """Whether it can be used again: the broker has not closed, and nothing is left over."""
        if self._refusals or self._at != self._end:
            return False
        try:
            while self.is_open:
                self._socket.settimeout(0)
                size = self._socket.recv_into(self._buffer)
                if self._buffer[:size] != b"PING\r\n" * max(size // 6, 1):
                    return False
                self._send(b"PONG\r\n" * (size // 6))
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except (OSError, BrokerError):
            pass
        return False

    def close(self) -> None:
        """Close it, whatever its state."""
        self.is_open = False
        self._socket.close()

    # Sending

    def _send_request(self, subject: str, payload: Data, headers: Mapping[str, str] | None) -> str:
        self._asked += 1
        reply = f"{self._inbox}{self._asked}"
        size = memoryview(payload).nbytes
        if headers is None:
            self._send(f"PUB {subject} {reply} {size}\r\n".encode(), payload, b"\r\n")
            return reply
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode()
        line = f"HPUB {subject} {reply} {len(block)} {len(block) + size}\r\n".encode()
        self._send(line + block, payload, b"\r\n")
        return reply

    def _send(self, *pieces: Data) -> None:
        if not self.is_open:
            raise Unreachable(f"{self.server}: the connection is closed")
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
            raise (Unreachable(f"{self.server}: {said}") if said else self._broken(error)) from None

    def _last_words(self) -> str:
        """The -ERR of a broker that has hung up on what is being sent; it came before the end."""
        heard = bytes(self._buffer[self._at : self._end])
        try:
            self._socket.settimeout(0)
            while len(heard) < LINE_MAX and (data := self._socket.recv(BUFFER_SIZE)):
                heard += data
        except OSError:
            pass
        self.close()
        found = LAST_WORDS.search(heard)
        return found[1].decode("utf-8", "replace") if found else ""

    # Receiving

    def _expect(self, timeout: float | None = None) -> None:
        """What is awaited now is to come in this time."""
        self._until = time.monotonic() + (self._timeout_s if timeout is None else timeout)

    def _answer_to(self, reply: str) -> Answer:
        """The next answer on a reply subject; those on others are of requests given up."""
        while True:
            verb, subject, answer = self._operation()
            if verb == "MSG" and subject == reply and answer is not None:
                return answer
            if verb == "-ERR":
                said, self._refusals = self._refusals, []
                raise BrokerError(f"{self.server}: {said[0]}")

    def _operation(self) -> tuple[str, str, Answer | None]:
        """The next operation: its verb, and for a message its subject and content."""
        line = self._line()
        verb, _, rest = line.partition(b" ")
        verb = verb.upper()
        if verb in (b"MSG", b"HMSG"):
            return "MSG", *self._message(verb, rest)
        if verb == b"PING":
            self._send(b"PONG\r\n")
        elif verb == b"-ERR":
            self._refused(rest.decode("utf-8", "replace").strip().strip("'"))
        elif verb == b"INFO":
            self.info |= _read_info(rest, self.server)
        elif verb not in (b"PONG", b"+OK"):
            self.close()
            raise Unreachable(f"{self.server}: this is not a NATS broker: it says {line[:40]!r}")
        return verb.decode(), "", None

    def _refused(self, words: str) -> None:
        """Note an -ERR; all but a refused subject end the connection."""
        self._refusals.append(words)
        lower = words.lower()
        if lower.startswith("permissions violation") or lower == "invalid subject":
            return
        self.close()
        if "authorization" in lower or "authentication" in lower:
            raise BrokerError(f"{self.server}: the broker does not let us in: {words}")
        raise Unreachable(f"{self.server}: {words}")

    def _message(self, verb: bytes, rest: bytes) -> tuple[str, Answer]:
        words = rest.split()
        try:
            if verb == b"HMSG":
                head, size = int(words[-2]), int(words[-1])
            else:
                head, size = 0, int(words[-1])
            subject = words[0].decode()
        except (ValueError, IndexError):
            size, head, subject = -1, 0, ""
        if not 0 <= head <= size <= PAYLOAD_MAX or head > LINE_MAX:
            self.close()
            raise Unreachable(f"{self.server}: this is not a NATS broker: it says {rest[:40]!r}")
        status, description = 0, ""
        headers: dict[str, str] = {}
        if head:
            status, description, headers = _read_headers(bytes(self._exactly(head)))
        payload = self._exactly(size - head)
        self._line()
        return subject, Answer(status, description, headers, payload)

    def _line(self) -> bytes:
        """The next line, without its end."""
        scanned = self._at
        while (found := self._buffer.find(b"\n", scanned, self._end)) < 0:
            scanned = self._end - self._at
            self._fill()
            scanned += self._at
        line = bytes(self._buffer[self._at : found]).rstrip(b"\r")
        self._at = found + 1
        return line

    def _fill(self) -> None:
        """Receive into what is free of the buffer, which grows for a long line."""
        if self._at:
            kept = self._end - self._at
            self._buffer[:kept] = self._buffer[self._at : self._end]
            self._at, self._end = 0, kept
        if self._end == len(self._buffer):
            if self._end >= LINE_MAX:
                self.close()
                raise Unreachable(f"{self.server}: this is not a NATS broker: its line has no end")
            self._buffer += bytes(self._end)
        self._end += self._receive(memoryview(self._buffer)[self._end :])

    def _exactly(self, size: int) -> memoryview:
        """The next `size` bytes, in memory of their own."""
        data = memoryview(pa.allocate_buffer(size)).cast("B") if size else memoryview(b"")
        have = min(size, self._end - self._at)
        if have:
            data[:have] = self._buffer[self._at : self._at + have]
            self._at += have
        while have < size:
            have += self._receive(data[have:])
            self._until = max(self._until, time.monotonic() + self._timeout_s)  # it moves
        return data

    def _receive(self, into: memoryview) -> int:
        left = self._until - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            size = self._socket.recv_into(into)
        except TimeoutError:
            self.close()
            raise Unreachable(f"{self.server}: nothing was heard in time") from None
        except OSError as error:
            raise self._broken(error) from None
        if size == 0:
            self.close()
            raise Unreachable(f"{self.server}: the broker closed the connection")
        return size

    def _broken(self, error: OSError) -> Unreachable:
        self.close()
        return Unreachable(f"{self.server}: {_words(error)}")

    # The beginning

    def greet(self, options: Options) -> None:
        """Read INFO, turn to TLS where it is asked for, say who we are, and await the answer."""
        if options.tls_handshake_first:
            self._start_tls(options)
        self._expect()
        while not self.info:
            self._operation()
        if not options.tls_handshake_first and self._wants_tls(options):
            self._start_tls(options)
        said = json.dumps(credentials.connect_words(options, self.server, self.info))
        self._send(f"CONNECT {said}\r\nSUB {self._inbox}* 1\r\n".encode())
        self.flush()
        self._timeout_s = options.request_timeout_ms / SECOND_MS

    def _wants_tls(self, options: Options) -> bool:
        wanted = self.server.tls or bool(options.tls_ca_file or options.tls_cert_file)
        if self.info.get("tls_required"):
            return True
        if wanted and not self.info.get("tls_available"):
            self.close()
            raise BrokerError(f"{self.server}: TLS is asked for, and the broker speaks none")
        return wanted

    def _start_tls(self, options: Options) -> None:
        context = tls_context(options)
        self._at = self._end = 0  # what came before in plain text is nobody's word
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket = context.wrap_socket(self._socket, server_hostname=self.server.host)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise BrokerError(
                f"{self.server}: the broker's certificate is not trusted"
                f" ({error.verify_message}); set tlsCaFile to the CA that signed it"
            ) from None
        except OSError as error:
            raise self._broken(error) from None


def _connect(server: Server, options: Options) -> Connection:
    """Connect to one server. Raises `Unreachable`, `BrokerError`, `OptionError`."""
    timeout_s = options.connect_timeout_ms / SECOND_MS
    try:
        sock = socket.create_connection((server.host, server.port), timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{server}: {_words(error)}") from None
    made = Connection(sock, server, timeout_s)
    try:
        made.greet(options)
    except BaseException:
        made.close()
        raise
    return made


def tls_context(options: Options) -> ssl.SSLContext:
    """What is trusted, and who we are. Raises `OptionError` for files that cannot be used."""
    name, file = "tlsCaFile", options.tls_ca_file
    try:
        context = ssl.create_default_context(cafile=file or None)
        if options.tls_cert_file:
            name, file = "tlsCertFile", options.tls_cert_file
            context.load_cert_chain(file, options.tls_key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"{name}: {file} cannot be used: {error}") from None
    return context


def _read_info(text: bytes, server: Server) -> dict[str, Any]:
    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict):
        raise Unreachable(f"{server}: this is not a NATS broker: it says INFO {text[:40]!r}")
    return info


def _read_headers(block: bytes) -> tuple[int, str, dict[str, str]]:
    """Status, description and headers of an answer."""
    first, *lines = block.decode("utf-8", "replace").split("\r\n")
    words = first.split(" ", 2)
    code = words[1] if len(words) > 1 else ""
    status = int(code) if code.isascii() and code.isdigit() and len(code) == 3 else 0
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip(): value.strip() for name, _, value in pairs}
    return status, words[2].strip() if len(words) > 2 else "", headers


def _words(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: no broker listens there"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
