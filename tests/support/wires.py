"""A wire of the broker's, and a client's TLS at the other end of a socket."""

import os
import socket
import ssl
from contextlib import suppress
from typing import Self

from broker.wires.wire import ClientWire

ROOM = 1 << 16


class WireEnds:
    """The broker's end has a wire, which reads from its socket; the client's is `far`."""

    def __init__(self, wire: ClientWire) -> None:
        self.wire = wire
        self.near, self.far = socket.socketpair()
        for end in (self.near, self.far):
            end.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.near.close()
        self.far.close()

    def open_step(self) -> bool:
        """One step of the handshake, as a session does it."""
        try:
            came = os.read(self.near.fileno(), ROOM)
        except BlockingIOError:
            came = b""
        self.wire.feed(memoryview(came))
        is_open = self.wire.open()
        self.near.sendall(self.wire.to_send())
        return is_open

    def open(self) -> None:
        """All of a handshake for which the client need not answer."""
        while not self.open_step():
            pass

    def receive(self, room: int = ROOM) -> bytes | None:
        """What one call of `receive` brings; None for nothing now."""
        buffer = bytearray(room)
        try:
            while (got := self.wire.receive(self.near.fileno(), memoryview(buffer))) < 0:
                pass  # a part of a record, or of a frame
        except BlockingIOError:
            return None
        return bytes(buffer[:got])

    def receive_all(self, room: int = ROOM) -> bytes:
        """Everything that is there, read with so much room at a time."""
        found = b""
        while (got := self.receive(room)) is not None:
            found += got
            if not got:
                break
        return found

    def send(self, data: bytes) -> None:
        for piece in self.wire.wrap(memoryview(data)):
            self.near.sendall(piece)


class TlsClient:
    """A client's TLS over the far end."""

    def __init__(self, ends: WireEnds, context: ssl.SSLContext) -> None:
        self._ends = ends
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def open(self) -> None:
        """Shake hands with the wire."""
        is_open = mine = False
        for _ in range(10):
            with suppress(ssl.SSLWantReadError):
                if not mine:
                    self.tls.do_handshake()
                    mine = True
            self.flush()
            is_open = is_open or self._ends.open_step()
            self.fill()
            if is_open and mine:
                return
        raise AssertionError("no end of the handshake")

    def flush(self) -> None:
        self._ends.far.sendall(self._outgoing.read())

    def fill(self) -> None:
        with suppress(BlockingIOError):
            while came := self._ends.far.recv(ROOM):
                self._incoming.write(came)

    def wrapped(self, data: bytes) -> bytes:
        """The records for this data."""
        if data:
            self.tls.write(data)
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        self._ends.far.sendall(self.wrapped(data))

    def read(self) -> bytes:
        """What has come."""
        self.fill()
        found = b""
        with suppress(ssl.SSLWantReadError):
            while got := self.tls.read(ROOM):
                found += got
        return found
