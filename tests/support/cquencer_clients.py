"""cquencer's clients for tests: of a broker in the test's process, byte for byte.

    with calling(path, framing="netstring") as broker, caller(broker) as one:
        one.ask(b"5:hello,")      b"1", the content of the answer's netstring

The loop runs while something is awaited; `send` lets the broker read what was sent.
"""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from broker.cquencer.cquencer_service import Cquencer
from sequencer.netstring import Decoder
from tests.support.processes import ServerProcess
from tests.support.serving import WAIT_S, Broker, serving

LOOP_LATENCY = 4  # of the loop, in which it sees what a socket on loopback has brought


def cquencer_of(broker: Broker) -> Cquencer:
    """The port's own part of the broker."""
    assert broker.server.cquencer is not None
    return broker.server.cquencer


@contextmanager
def calling(
    path: Path, *feeds: str, framing: str = "recv", journal: bool = False, **flags: Any
) -> Iterator[Broker]:
    """A broker with cquencer's port; `flags` by path, with `__` for the point."""
    given = {name.replace("__", "."): value for name, value in flags.items()}
    given = {"journal.enabled": journal, **given}
    given |= {"sequencer.port": "-1", "sequencer.framing": framing}
    with serving(path, *feeds, flags=given) as broker:
        yield broker


class Talker:
    """One client. Its socket does not block; whatever it does, the broker's loop goes on."""

    def __init__(self, broker: Broker, receive_buffer: int = 0) -> None:
        self.broker = broker
        self.loop = broker.server.loop
        self.socket = socket.socket()
        self.socket.setblocking(False)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        address = cquencer_of(broker).addresses[0]
        broker.run(self.loop.sock_connect(self.socket, address))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.decoder = Decoder()
        self.heard: list[bytes] = []

    def send(self, *pieces: bytes) -> None:
        """Send each of these by itself, and let the broker read it before the next."""
        for piece in pieces:
            self.broker.run(self.loop.sock_sendall(self.socket, piece))
            self.broker.run(turns())

    def push(self, data: bytes) -> int:
        """Send as much as the socket takes at once, and let the broker read; how much it took."""
        sent = 0
        with suppress(BlockingIOError, ConnectionError):  # full, or the broker has closed
            sent = self.socket.send(data)
        self.broker.run(turns())
        return sent

    def hear(self, count: int = 1) -> list[bytes]:
        """The next answers."""
        while len(self.heard) < count:
            data = self.broker.run(self.loop.sock_recv(self.socket, 1 << 16))
            assert data, f"closed when {count} answers were awaited: {self.heard!r}"
            self.heard += self.decoder.feed(data)
        answers, self.heard = self.heard[:count], self.heard[count:]
        return answers

    def ask(self, *pieces: bytes) -> bytes:
        """The answer to what these pieces are together."""
        self.send(*pieces)
        return self.hear()[0]

    def rest(self) -> list[bytes]:
        """All answers until the broker closes (or resets: it had not read all of ours)."""
        with suppress(ConnectionResetError):
            while data := self.broker.run(self.loop.sock_recv(self.socket, 1 << 16)):
                self.heard += self.decoder.feed(data)
        answers, self.heard = self.heard, []
        return answers

    def is_silent(self) -> bool:
        """Whether there is nothing to be heard, in a few turns of the loop."""
        self.broker.run(turns())
        try:
            return not self.heard and not self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self.heard

    def end(self) -> None:
        """Say that nothing comes any more."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close so that the broker gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.socket.close()
        self.broker.run(turns())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()


async def turns(count: int = LOOP_LATENCY) -> None:
    """Turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def netstring(payload: bytes) -> bytes:
    """A payload as a netstring."""
    return b"%d:%b," % (len(payload), payload)


# Of a broker in a process of its own


def port_of(process: ServerProcess) -> int:
    """Where a process says that it listens for cquencer's clients."""
    (line,) = (said for said in process.log if "Listening for cquencer's clients on " in said)
    return int(line.rpartition(":")[2])


def answer(connection: socket.socket, data: bytes) -> bytes:
    """Send, and take the one netstring that comes back, as it comes."""
    connection.settimeout(WAIT_S)
    connection.sendall(data)
    heard = b""
    while not (heard.endswith(b",") and list(Decoder().feed(heard))):
        more = connection.recv(1 << 16)
        assert more, f"closed after {heard!r}"
        heard += more
    return heard
