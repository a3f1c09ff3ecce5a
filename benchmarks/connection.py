"""A blocking client connection on which no wait exceeds `wait_seconds`.

The kernel measures the time (SO_RCVTIMEO, SO_SNDTIMEO): Python's own socket timeouts would cost a
poll() before every send and receive, in a generator that must not be the bottleneck.
"""

import socket
import struct
from typing import Self

from benchmarks.errors import BenchmarkError
from benchmarks.wire import CONNECT, PING, PONG

WAIT_SECONDS = 15  # more than the 10 s after which nats-server disconnects a slow subscriber


class Connection:
    """One client of the server under test; INFO has been read and CONNECT sent.

    An empty `connect` is for a server that does not speak NATS: nothing is read or sent.
    """

    def __init__(
        self, port: int, connect: bytes = CONNECT, wait_seconds: int = WAIT_SECONDS
    ) -> None:
        self.wait_seconds = wait_seconds
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), wait_seconds)
        except OSError as error:
            raise BenchmarkError(f"cannot connect: {error}") from None
        self.socket.settimeout(None)
        limit = struct.pack("ll", wait_seconds, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if connect:
            self.read_until(b"\r\n")
            self.send(connect)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close at once, by a reset: 10 000 connections must not leave their ports in TIME_WAIT."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data: bytes | memoryview) -> None:
        """Send all of `data`."""
        try:
            self.socket.sendall(data)
        except BlockingIOError:
            raise BenchmarkError(f"the server took nothing for {self.wait_seconds} s") from None
        except OSError as error:
            raise BenchmarkError(f"sending failed: {error}") from None

    def receive(self, size: int = 65536) -> bytes:
        """Return what has arrived, at least one byte."""
        try:
            data = self.socket.recv(size)
        except BlockingIOError:
            raise BenchmarkError(f"nothing arrived for {self.wait_seconds} s") from None
        except OSError as error:
            raise BenchmarkError(f"receiving failed: {error}") from None
        if not data:
            raise BenchmarkError("the server closed the connection")
        return data

    def discard(self, scratch: bytearray, size: int) -> int:
        """Read up to `size` bytes from the connection without copying them; return how many.

        With MSG_TRUNC the kernel counts and drops them, and with MSG_WAITALL it returns only when
        all have arrived, so that receiving costs next to nothing.
        """
        try:
            count = self.socket.recv_into(
                scratch, min(size, len(scratch)), socket.MSG_TRUNC | socket.MSG_WAITALL
            )
        except BlockingIOError:
            raise BenchmarkError(f"nothing arrived for {self.wait_seconds} s") from None
        except OSError as error:
            raise BenchmarkError(f"receiving failed: {error}") from None
        if not count:
            raise BenchmarkError("the server closed the connection")
        return count

    def read_until(self, end: bytes) -> bytes:
        """Receive until `end` has arrived; an -ERR is an error."""
        data = b""
        while end not in data:
            data += self.receive()
            if b"-ERR" in data:
                raise BenchmarkError(f"the server said {data[-200:]!r}")
        return data

    def settle(self, operations: bytes | memoryview = b"") -> None:
        """Send `operations` and wait until the server has processed them all."""
        if operations:
            self.send(operations)
        self.send(PING)
        self.read_until(PONG)
