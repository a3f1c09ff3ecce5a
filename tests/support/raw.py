"""A bare NATS client: a blocking socket with timeouts, and the bytes it receives.

Two levels: `RawClient` sends bytes and reads lines, operations or the rest until the server closes;
`operations` splits such bytes into the server's operations, strictly: anything that a NATS server
may not send is an error here.

A server sends a PING some two seconds after CONNECT. A test that takes longer, on a slow machine,
would find it anywhere in its input. So these PINGs are skipped, unless a test is about them
(`pings=True`).
"""

import contextlib
import json
import re
import socket
import ssl
import struct
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

TIMEOUT_S = 30.0  # a bound for what hangs: no machine is so busy
QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
HEADERS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'


class WireError(AssertionError):
    """The server said what no NATS server says, or ended in the middle of it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing the server said. `verb` is MSG, HMSG, +OK, -ERR, PING, PONG or INFO."""

    verb: str
    text: bytes = b""  # of -ERR and INFO
    subject: bytes = b""
    sid: bytes = b""
    reply: bytes = b""
    sizes: bytes = b""  # as written: "12" or "10 12"
    header: bytes = b""
    payload: bytes = b""


PING = b"PING\r\n"
BARE = {b"+OK": "+OK", b"PING": "PING", b"PONG": "PONG"}
SIZE = re.compile(rb"[0-9]{1,9}\Z")


def _message(words: list[bytes], data: bytes, start: int) -> tuple[Operation, int] | None:
    sizes = 2 if words[0] == b"HMSG" else 1
    if not 3 + sizes <= len(words) <= 4 + sizes:
        raise WireError(f"wrong count of words: {words!r}")
    if not all(SIZE.match(size) for size in words[-sizes:]):
        raise WireError(f"wrong size: {words!r}")
    total = int(words[-1])
    head = int(words[-2]) if sizes == 2 else 0
    end = start + total
    if len(data) < end + 2:
        return None
    if data[end : end + 2] != b"\r\n":
        raise WireError(f"payload of {words!r} ends with {data[end : end + 2]!r}")
    reply = words[3] if len(words) == 4 + sizes else b""
    operation = Operation(
        words[0].decode(),
        b"",
        words[1],
        words[2],
        reply,
        b" ".join(words[-sizes:]),
        data[start : start + head],
        data[start + head : end],
    )
    return operation, end + 2


def next_operation(data: bytes, at: int = 0) -> tuple[Operation, int] | None:
    """The operation that begins at `at` and where the next begins; None if it is not whole."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return None
    line, start = data[at:line_end], line_end + 2
    words = line.split(b" ")
    if words[0] in (b"MSG", b"HMSG"):
        return _message(words, data, start)
    if line in BARE:
        return Operation(BARE[line]), start
    if words[0] in (b"-ERR", b"INFO"):
        return Operation(words[0].decode(), line[len(words[0]) + 1 :]), start
    raise WireError(f"not a server's word: {line[:200]!r}")


def operations(data: bytes) -> list[Operation]:
    """All operations in `data`, which must end with a whole one."""
    found, at = [], 0
    while at < len(data):
        step = next_operation(data, at)
        if step is None:
            raise WireError(f"ends in the middle of an operation: {data[at : at + 200]!r}")
        operation, at = step
        found.append(operation)
    return found


def without_pings(data: bytes) -> bytes:
    """What a server said, which may end anywhere, but for its PINGs."""
    if PING not in data:
        return data
    kept, at = bytearray(), 0
    while at < len(data):
        try:
            step = next_operation(data, at)
        except WireError:  # whoever reads this will say so
            step = None
        end = step[1] if step else len(data)
        if data[at:end] != PING:
            kept += data[at:end]
        at = end
    return bytes(kept)


class RawClient:
    """One connection. INFO has been read when the constructor returns."""

    def __init__(
        self,
        port: int,
        *sends: bytes,
        receive_buffer: int | None = None,
        timeout: float = TIMEOUT_S,
        host: str = "127.0.0.1",
        pings: bool = False,
        tls: ssl.SSLContext | None = None,
        source: str = "",
    ) -> None:
        """`tls`: shake hands before INFO. `source`: the address to come from."""
        self.pings = pings  # whether the server's own are to be heard
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer is not None:  # before connect, or the window is already agreed
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        if source:
            self.socket.bind((source, 0))
        self._inbox, self._at = b"", 0  # what came, and how much of it has been taken
        try:
            self.socket.connect((host, port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            self.info: dict[str, Any] = self._first_info()
            for data in sends:
                self.send(data)
        except BaseException:
            self.close()
            raise

    def _first_info(self) -> dict[str, Any]:
        line = self.line()
        if not (line.startswith(b"INFO {") and line.endswith(b"\r\n")):
            raise WireError(f"first line is no INFO: {line!r}")
        info: dict[str, Any] = json.loads(line[5:])
        return info

    def widen(self) -> None:
        """Read at full speed from here: the window of a small `receive_buffer` takes its time."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 1 << 20)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_split(self, data: bytes, cuts: list[int]) -> None:
        """Send `data` in pieces cut at `cuts`; a server that has closed already is no error."""
        edges = [0, *cuts, len(data)]
        try:
            for start, end in pairwise(edges):
                if end > start:
                    self.socket.sendall(data[start:end])
        except (BrokenPipeError, ConnectionResetError):
            pass  # what it said before it closed is still to be read

    def _fill(self) -> bool:
        data = self.socket.recv(1 << 18)
        self._inbox, self._at = self._inbox[self._at :] + data, 0
        return bool(data)

    def _take(self, end: int) -> bytes:
        """What lies before `end` in the inbox."""
        taken = self._inbox[self._at : end]
        self._at = end
        return taken

    def _heard(self, said: bytes) -> bytes:
        """What is to be heard of operations."""
        return said if self.pings else without_pings(said)

    def _rest(self) -> bytes:
        return self._take(len(self._inbox))

    def line(self) -> bytes:
        """One line with its end."""
        while True:
            while (end := self._inbox.find(b"\n", self._at)) < 0:
                if not self._fill():
                    raise WireError(f"closed in the middle of a line: {self._rest()!r}")
            if line := self._heard(self._take(end + 1)):
                return line

    def until_closed(self) -> bytes:
        """Everything until the server closes (or resets: it had not read all of ours)."""
        found = [self._rest()]
        with contextlib.suppress(ConnectionResetError):
            while data := self.socket.recv(1 << 18):
                found.append(data)
        return self._heard(b"".join(found))

    def so_far(self) -> bytes:
        """What has come and was not taken yet; nothing is waited for, or taken."""
        patience = self.socket.gettimeout()
        self.socket.settimeout(0)
        try:
            while self._fill():
                pass
        except BlockingIOError:
            pass
        finally:
            self.socket.settimeout(patience)
        return self._heard(self._inbox[self._at :])

    def operation(self) -> Operation:
        """The next thing the server says."""
        while True:
            while (step := next_operation(self._inbox, self._at)) is None:
                if not self._fill():
                    raise WireError(f"closed in the middle of: {self._rest()[:200]!r}")
            operation, self._at = step
            if operation.verb != "PING" or self.pings:
                return operation

    def until_pong(self, pongs: int = 1) -> list[Operation]:
        """What the server says before its n-th PONG from here; never its own PINGs."""
        found: list[Operation] = []
        while pongs:
            operation = self.operation()
            if operation.verb == "PONG":
                pongs -= 1
            elif operation.verb != "PING":
                found.append(operation)
        return found

    def ask(self, data: bytes) -> list[Operation]:
        """Send, and read what the server says to it; the connection must stay open."""
        self.send(data + b"PING\r\n")
        return self.until_pong()

    def answer(self, data: bytes, pongs: int, cuts: list[int] | None = None) -> tuple[bytes, bool]:
        """Send; all that comes up to the n-th PONG or the close, and whether it closed."""
        self.send_split(data, cuts or [])
        at, left = self._at, pongs
        while left:
            step = next_operation(self._inbox, at)
            if step is not None:
                operation, at = step
                left -= operation.verb == "PONG"
                continue
            at -= self._at  # `_fill` drops what lies before
            try:
                if not self._fill():
                    return self._heard(self._rest()), True
            except ConnectionResetError:
                return self._heard(self._rest()), True
        return self._heard(self._take(at)), False

    def half_close(self) -> None:
        """Say that nothing more comes; a server that has closed already is no error."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def leave(self) -> None:
        """Close, and return when the server knows: whoever comes next is not counted beside us."""
        self.half_close()
        self.until_closed()
        self.close()

    def reset(self) -> None:
        """Close so that the peer gets a reset, not a polite end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
