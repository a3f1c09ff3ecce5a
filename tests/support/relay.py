"""A network that breaks: connections are relayed to a server, up to a limit of bytes.

with Relay(port) as relay:
    relay.cut(up=5000)     the next connections end when 5000 bytes have gone up
    relay.cut(down=100)    or when 100 have come down; what is beyond is never delivered
    relay.unhear()         bytes upwards still arrive, but none come down any more
    relay.heal()           from the next connection on, nothing breaks
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

CHUNK_BYTES = 1 << 16
NEVER = 1 << 62
CONNECT_S = 30.0
JOIN_S = 30.0
Action = Callable[[], object]


def nothing() -> None:
    """What is done where nothing is to be done."""


class Relay:
    """Listens on a free port of this machine; `connections` counts who has come."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._up = self._down = NEVER
        self._word = b""
        self._before: Action = nothing
        self._after: Action = nothing
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def cut(self, up: int = NEVER, down: int = NEVER) -> None:
        self._up, self._down = up, down

    def heal(self) -> None:
        self.cut()

    def sever(self) -> None:
        self.cut(up=0, down=0)
        for one in self._sockets:
            _end(one)

    def unhear(self) -> None:
        """For `when(word, before=...)`: to hang up behind a request may be behind its answer."""
        self.cut(up=0, down=0)
        for near in self._sockets[::2]:
            _end(near)

    def when(self, word: bytes, before: Action = nothing, after: Action = nothing) -> None:
        self._word, self._before, self._after = word, before, after

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end(self._listener)
        self._threads[0].join(JOIN_S)
        self.sever()
        for thread in self._threads:
            thread.join(JOIN_S)
        for one in (self._listener, *self._sockets):
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                try:
                    far = socket.create_connection(("127.0.0.1", self._target), CONNECT_S)
                except OSError:  # nobody listens there at the moment
                    near.close()
                    continue
                far.settimeout(None)  # silence breaks nothing
                self._sockets += [near, far]
                for one in ((near, far, self._up, True), (far, near, self._down, False)):
                    thread = threading.Thread(target=self._carry, args=one, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _carry(self, source: socket.socket, sink: socket.socket, most: int, up: bool) -> None:
        with contextlib.suppress(OSError):
            while most and (data := source.recv(min(CHUNK_BYTES, most))):
                before: Action = nothing
                after: Action = nothing
                if up and self._word and self._word in data:
                    before, after, self._word = self._before, self._after, b""
                before()
                sink.sendall(data)
                after()
                most -= len(data)
        _end(source)
        _end(sink)


def _end(one: socket.socket) -> None:
    """End it for both sides. It is closed later: a thread may be about to read from its number."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
