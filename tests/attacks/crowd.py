"""Many connections at once, for an attacker in the test's process: none waits for another."""

import contextlib
import select
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

ADDRESSES = 200  # of 127.0.0.0/8, from which clients come
# A peer that reads nothing makes the sender's kernel try again less and less often: on a busy
# machine where nobody has read for half a minute, what is left may come a minute later.
PATIENCE_S = 150.0
HEARD_MAX = 4 << 20  # bytes that are kept of what one was told


class Dialled:
    """One connection, and what was heard on it."""

    def __init__(self, port: int, source: str = "", receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            self.socket.bind((source, 0))
        self.socket.setblocking(False)
        self.socket.connect_ex(("127.0.0.1", port))
        self.heard = bytearray()  # at most `HEARD_MAX`, the newest
        self.closed = False  # by the broker

    def fileno(self) -> int:
        return self.socket.fileno()

    def read(self) -> bool:
        """Take what has come; whether anything has, or the end."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self.heard += data
        if len(self.heard) > HEARD_MAX:
            del self.heard[: -HEARD_MAX // 2]
        self.closed = self.closed or not data
        return True

    def send(self, data: bytes) -> int:
        """Send what the socket takes; how much that is."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self.closed = True
            return len(data)

    def reset(self) -> None:
        """Close so that the broker gets a reset."""
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def address(at: int) -> str:
    """One of the addresses of this machine."""
    return f"127.0.{at // ADDRESSES % ADDRESSES + 1}.{at % ADDRESSES + 1}"


@contextmanager
def crowd(
    port: int, count: int, from_many: bool = False, source: str = "", receive_buffer: int = 0
) -> Iterator[list[Dialled]]:
    """So many connections that have been greeted; closed at the end."""
    made: list[Dialled] = []
    try:
        for begin in range(0, count, 100):
            some = range(begin, min(begin + 100, count))
            new = [
                Dialled(port, address(at) if from_many else source, receive_buffer) for at in some
            ]
            made += new
            until(new, lambda one: b"INFO {" in one.heard or one.closed)
            until(new, lambda one: one.heard.endswith(b"\r\n") or one.closed)
        yield made
    finally:
        for one in made:
            one.socket.close()


def is_answered(one: Dialled) -> bool:
    """Whether its PONG was the last that came, but for a PING of the broker's own."""
    return one.heard.endswith((b"PONG\r\n", b"PONG\r\nPING\r\n"))


def until(crowd: Iterable[Dialled], done: Callable[[Dialled], bool]) -> None:
    """Read until this is so of each."""
    waiting = {one.fileno(): one for one in crowd if not done(one)}
    poll = select.poll()
    for number in waiting:
        poll.register(number, select.POLLIN)
    while waiting:
        ready = poll.poll(PATIENCE_S * 1000)
        if not ready:
            one = next(iter(waiting.values()))
            raise AssertionError(
                f"{len(waiting)} heard nothing more after {bytes(one.heard[-200:])!r}"
            )
        for number, _ in ready:
            one = waiting[number]
            one.read()
            if one.closed or done(one):
                poll.unregister(number)
                del waiting[number]


def send_all(crowd: Iterable[Dialled], data: bytes, reading: bool = True) -> None:
    """Each sends all of it, as fast as it is taken, and reads meanwhile, or does not."""
    rest = {one.fileno(): (one, memoryview(data)) for one in crowd}
    poll = select.poll()
    for number in rest:
        poll.register(number, select.POLLOUT | (select.POLLIN if reading else 0))
    while rest:
        ready = poll.poll(PATIENCE_S * 1000)
        assert ready, f"{len(rest)} could send nothing more"
        for number, event in ready:
            one, left = rest[number]
            if event & select.POLLIN and reading:
                one.read()
            if event & (select.POLLOUT | select.POLLERR | select.POLLHUP):
                left = left[one.send(bytes(left[: 1 << 16])) :]
            rest[number] = one, left
            if one.closed or not left:
                poll.unregister(number)
                del rest[number]
