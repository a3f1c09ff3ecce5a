"""One TCP connection between two members: a handshake with the secret, then frames."""

import asyncio
import logging
import socket
from contextlib import suppress
from typing import Any, Protocol, cast

from broker.cluster.cluster_secret import HandshakeFailed, SecretHandshake
from sequencer.replica.errors import BadFrame
from sequencer.replica.member_wire import FrameReader, encode_message

log = logging.getLogger("seriatim")

HANDSHAKE_SECONDS = 5.0  # more would let strangers keep connections
UNSENT_MAX = 64 << 20  # the core's windows are smaller: a connection that holds more is dead


class ConnectionOwner(Protocol):
    """What a connection reports to: broker/cluster/driver.py."""

    def joined(self, connection: "MemberConnection") -> None:
        """Both sides have shown that they know the secret."""

    def received(self, connection: "MemberConnection", messages: list[Any]) -> None:
        """Messages came, in their order."""

    def gone(self, connection: "MemberConnection") -> None:
        """It is closed; nothing more comes."""


class MemberConnection(asyncio.Protocol):
    """Lives from `connection_made` to `connection_lost`."""

    def __init__(
        self, owner: ConnectionOwner, number: int, member: str, handshake: SecretHandshake
    ) -> None:
        self.number = number  # how the core calls it
        self.member = member  # that was dialled; empty for one that was accepted
        self.name = ""
        self.closed = False
        self._owner = owner
        self._handshake: SecretHandshake | None = handshake
        self._reader = FrameReader()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.name = f"{peer[0]}:{peer[1]}"
        connected = transport.get_extra_info("socket")
        with suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HANDSHAKE_SECONDS, self._late)
        assert self._handshake is not None, "it has just begun"
        self._transport.write(self._handshake.take_output())

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        if self._handshake is not None:
            data = self._shake(self._handshake, data)
            if self._handshake is not None or self.closed:
                return
        try:
            messages = list(self._reader.feed(data))
        except BadFrame as error:
            log.error("Cluster: %s sent what is not a frame: %s", self.name, error)
            self.close()
            return
        if messages:
            self._owner.received(self, messages)

    def connection_lost(self, error: Exception | None) -> None:
        self._cancel()
        self.closed = True
        self._owner.gone(self)

    def send(self, message: Any) -> None:
        """Send a message; nothing happens if the connection is closed."""
        if self.closed:
            return
        self._transport.writelines(encode_message(message))
        if self._transport.get_write_buffer_size() > UNSENT_MAX:
            log.error("Cluster: %s does not read what it is sent", self.name)
            self._transport.abort()

    def close(self) -> None:
        """Close it after what was sent."""
        self.closed = True
        self._cancel()
        self._transport.close()

    def _shake(self, handshake: SecretHandshake, data: bytes) -> bytes:
        """Go on with the handshake; return the bytes after it."""
        try:
            handshake.receive(data)
        except HandshakeFailed as error:
            log.error("Cluster: no connection with %s: %s", self.name, error)
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
        log.error("Cluster: %s did not finish its handshake in time", self.name)
        self._transport.abort()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
