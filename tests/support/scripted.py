"""A peer that sends what a test wants it to: for what no real broker would send.

with Scripted(talk) as port:     talk(peer) runs in a thread, once for each connection
    peer.expect(b"PING")         read lines until one begins with it; returns that line
    peer.say(b"PONG\r\n")
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

TIMEOUT_S = 30.0
INFO = b'INFO {"server_id":"x","headers":true,"max_payload":1048576}\r\n'


class Peer:
    """One connection, as the scripted side has it."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.file = sock.makefile("rb")

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def expect(self, beginning: bytes) -> bytes:
        """The next line that begins so."""
        while line := self.file.readline():
            if line.startswith(beginning):
                return line
        raise ConnectionError(f"it ended before {beginning!r}")

    def greet(self) -> None:
        """What a broker does at the beginning of a connection."""
        self.say(INFO)
        self.expect(b"PING")
        self.say(b"PONG\r\n")

    def asked(self, subject: bytes) -> bytes:
        """The next question to a subject; where its answer is to go."""
        return self.expect(b"PUB " + subject).split()[2]

    def answer_all(self, answer: bytes) -> None:
        """Be a broker that answers each request with this."""
        self.greet()
        while line := self.file.readline():
            words = line.split()
            if words[0] == b"PING":
                self.say(b"PONG\r\n")
            elif words[0] in (b"PUB", b"HPUB"):
                self.file.read(int(words[-1]) + 2)
                self.say(b"MSG %b 1 %d\r\n%b\r\n" % (words[2], len(answer), answer))


class Scripted:
    """Listens, and hands every connection to `talk`."""

    def __init__(self, talk: Callable[[Peer], object]) -> None:
        self._talk = talk
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(TIMEOUT_S)
            with sock, contextlib.suppress(OSError):  # the other side may leave at any time
                self._talk(Peer(sock))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(TIMEOUT_S)
