"""One TCP connection between two members: a handshake with the secret, then frames."""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

from broker.cluster.cluster_secret import HandshakeFailed, SecretHandshake
from sequencer.replica.errors import BadFrame
from sequencer.replica.member_wire import FrameReader, encode_message

log = logging.getLogger("seriatim")

HANDSHAKE_SECONDS = 5.0  # more would let strangers keep connections
CLOSE_SECONDS = 5.0  # for what is still to be sent: a machine that is dead takes nothing for long
UNSENT_MAX = 64 << 20  # the core's windows are smaller: a connection that holds more is dead
READ_BYTES = 1 << 16  # at once, unless the rest of a frame is longer

Piece = bytes | bytearray | memoryview

_buffer = memoryview(bytearray(READ_BYTES))  # of whoever reads: nothing stays in it


class ConnectionOwner(Protocol):
    """What a connection reports to: broker/cluster/driver.py."""

    def opened(self, connection: "MemberConnection") -> None:
        """There is a connection."""

    def joined(self, connection: "MemberConnection") -> None:
        """Both sides have shown that they know the secret."""

    def received(self, connection: "MemberConnection", messages: Sequence[Any]) -> None:
        """Messages came, in their order."""

    def gone(self, connection: "MemberConnection") -> None:
        """It is closed; nothing more comes."""

    def stranger(self, connection: "MemberConnection", why: str) -> None:
        """It is closed, because the other side is not a member of this cluster."""


class MemberConnection(asyncio.BufferedProtocol):
    """Lives from `connection_made` to `connection_lost`.

    Records are copied as seldom as possible: the rest of a frame is received where the reader keeps
    it, and what is sent goes to the socket as it is. Only the rest of a piece that the socket did
    not take is copied, into the transport; later pieces wait until it has sent that.
    """

    def __init__(
        self, owner: ConnectionOwner, number: int, member: str, handshake: SecretHandshake
    ) -> None:
        self.host = ""
        self.number = number  # how the core calls it
        self.member = member  # that was dialled; empty for one that was accepted
        self.name = ""
        self.closed = False
        self._owner = owner
        self._handshake: SecretHandshake | None = handshake
        self._reader = FrameReader()
        self._timer: asyncio.TimerHandle | None = None
        self._fd = -1
        self._in_place = False  # what is received now is the rest of a frame
        self._unsent: deque[list[Piece]] = deque()  # messages
        self._unsent_bytes = 0
        self._writable = True

    @property
    def is_joined(self) -> bool:
        """Whether both sides have shown that they know the secret, or it is closed."""
        return self._handshake is None or self.closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.host, self.name = peer[0], f"{peer[0]}:{peer[1]}"
        connected = transport.get_extra_info("socket")
        with suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._fd = connected.fileno()
        self._transport.set_write_buffer_limits(high=0)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HANDSHAKE_SECONDS, self._late)
        assert self._handshake is not None, "it has just begun"
        self._owner.opened(self)
        if self.closed:
            return
        self._transport.write(self._handshake.take_output())

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self._reader.room()
        self._in_place = room is not None
        return _buffer if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            return
        data: bytes | memoryview = _buffer[:nbytes]
        if self._handshake is not None:
            data = self._shake(self._handshake, bytes(data))
            if self._handshake is not None or self.closed:
                return
        try:
            reader = self._reader
            messages = reader.filled(nbytes) if self._in_place else list(reader.feed(data))
        except BadFrame as error:
            log.error("Cluster: %s sent what is not a frame: %s", self.name, error)
            self.close()
            return
        if messages:
            self._owner.received(self, messages)

    def connection_lost(self, error: Exception | None) -> None:
        self._cancel()
        self.closed = True
        self._fd = -1
        self._unsent.clear()
        self._owner.gone(self)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._send_more()

    def send(self, message: Any) -> None:
        """Send a message; nothing happens if the connection is closed."""
        if self.closed:
            return
        pieces = encode_message(message)
        if self._writable and not self._transport.is_closing():
            self._write(pieces)
            return
        self._unsent.append(pieces)
        self._unsent_bytes += sum(map(len, pieces))
        if self._unsent_bytes > UNSENT_MAX:
            log.error("Cluster: %s does not read what it is sent", self.name)
            self._transport.abort()

    def _send_more(self) -> None:
        """Go on with the messages that wait, as far as the socket takes them."""
        while self._unsent and self._writable and not self._transport.is_closing():
            pieces = self._unsent.popleft()
            self._unsent_bytes -= sum(map(len, pieces))
            self._write(pieces)

    def _write(self, pieces: list[Piece]) -> None:
        """Write what the socket takes of a message; the transport keeps the rest."""
        size = sum(map(len, pieces))
        try:
            sent = os.writev(self._fd, pieces)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            log.debug("Cluster: nothing can be sent to %s: %s", self.name, error)
            self._transport.abort()
            return
        if sent == size:
            return
        for piece in pieces:
            if sent < len(piece):
                self._transport.write(bytes(memoryview(piece)[sent:]))  # calls pause_writing
            sent = max(sent - len(piece), 0)

    def close(self) -> None:
        """Close it after what was sent."""
        self.closed = True
        self._cancel()
        for pieces in self._unsent:
            self._transport.writelines(pieces)
        self._unsent.clear()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CLOSE_SECONDS, self._transport.abort)
        self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        self.closed = True
        self._transport.abort()

    def _shake(self, handshake: SecretHandshake, data: bytes) -> bytes:
        """Go on with the handshake; return the bytes after it."""
        try:
            handshake.receive(data)
        except HandshakeFailed as error:
            self._owner.stranger(self, str(error))
            self._transport.write(handshake.take_output())
            self.close()
            return b""
        self._transport.write(handshake.take_output())
        if handshake.done:
            self._handshake = None
            self._cancel()
            self._owner.joined(self)
        return handshake.rest

    def _late(self) -> None:
        self._timer = None
        self._owner.stranger(self, "it did not finish its handshake in time")
        self.abort()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
