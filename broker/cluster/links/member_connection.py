"""One TCP connection between two members: TLS, a handshake with the secret, then frames."""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, cast

from broker.cluster.links.cluster_secret import HandshakeFailed, SecretHandshake
from broker.cluster.links.member_tls import NoTls, TlsFailed, TlsSide
from sequencer.replica.errors import BadFrame
from sequencer.replica.member_messages import Message
from sequencer.replica.member_wire import FrameReader, encode_message

log = logging.getLogger("seriatim")

HANDSHAKE_SECONDS = 5.0  # of TLS and the secret; more would let strangers keep connections
# A dialler without TLS sends nothing first. If TLS is optional, it is waited for this long.
PLAIN_SECONDS = 0.2
CLOSE_SECONDS = 5.0  # to send the rest: a dead machine would never take it
UNSENT_MAX = 64 << 20  # the core's windows are smaller: a connection that holds more is dead
READ_BYTES = 1 << 16  # at once, unless the rest of a frame is longer

SegmentView = bytes | bytearray | memoryview

_buffer = memoryview(bytearray(READ_BYTES))  # shared by all connections: no data stays in it


class ConnectionOwner(Protocol):
    """The receiver of a connection's events: `MemberLinks`, or `DirectLinks`."""

    def opened(self, connection: "MemberConnection") -> None: ...
    def joined(self, connection: "MemberConnection") -> None: ...
    def received(self, connection: "MemberConnection", messages: Sequence[Message]) -> None: ...
    def gone(self, connection: "MemberConnection") -> None: ...
    def stranger(self, connection: "MemberConnection", why: str) -> None: ...


class MemberConnection(asyncio.BufferedProtocol):
    """A connection with another member, from `connection_made` to `connection_lost`.

    Records are copied as seldom as possible: the rest of a frame is received where the reader keeps
    it, and messages go to the socket as they are. Only the rest of a piece that the socket did not
    take is copied, into the transport; later pieces wait until the transport has sent it.

    TLS lies between the socket and all of this, in memory: the same transport, the same limits.
    """

    def __init__(
        self,
        owner: ConnectionOwner,
        number: int,
        member: str,
        handshake: SecretHandshake,
        tls: TlsSide | None = None,
    ) -> None:
        self.host = ""
        self.number = number  # its number in the core
        self.member = member  # the dialled member; empty if it was accepted
        self.peer = member  # the other side: as it was dialled, or as its HELLO says
        self.tls = tls
        self.is_plain = False  # the other side does not speak TLS
        self.name = ""
        self.closed = False
        self.is_direct = False  # for messages without a number, not for the core
        self._owner = owner
        self._handshake: SecretHandshake | None = handshake
        self._reader = FrameReader()
        self._timer: asyncio.TimerHandle | None = None
        self._plain_timer: asyncio.TimerHandle | None = None
        self._has_come = False  # any bytes at all
        self._fd = -1
        self._in_place = False  # what is received now is the rest of a frame
        self._unsent: deque[list[SegmentView]] = deque()  # messages
        self._unsent_bytes = 0
        self._writable = True

    @property
    def is_joined(self) -> bool:
        """True if both sides have shown that they know the secret, or the connection is closed."""
        return self._handshake is None or self.closed

    @property
    def unsent(self) -> int:
        """The bytes that the socket has not taken yet."""
        return self._unsent_bytes + (0 if self._fd < 0 else self._transport.get_write_buffer_size())

    def pause(self, paused: bool) -> None:
        """Read nothing from now on, or read on."""
        if not (self.closed or self._transport.is_closing()):
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

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
        if self.tls is None:
            self._transport.write(self._handshake.take_output())
        elif self.member:
            self._unseal(self.tls, 0)
        elif self.tls.may_be_plain:
            self._plain_timer = loop.call_later(PLAIN_SECONDS, self._do_without_tls)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room() if self.tls is None else _buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._has_come = True
        if self.tls is None:
            self._take(nbytes)
        else:
            self._unseal(self.tls, nbytes)

    def _room(self) -> memoryview:
        """Return the buffer for the next read. Call `_take` when it is filled."""
        room = self._reader.room()
        self._in_place = room is not None
        return _buffer if room is None else room

    def _unseal(self, tls: TlsSide, nbytes: int) -> None:
        """Decrypt and take `nbytes` bytes of TLS, and send TLS's own answer."""
        if self.closed:
            return
        try:
            tls.receive(_buffer[:nbytes])
            if not tls.done and tls.shake() and self._handshake is not None:
                self._say(self._handshake.take_output())
            while tls.done and not self.closed and (count := tls.read(self._room())):
                self._take(count)
        except TlsFailed as error:
            self._tls_failed(error)
        self._transport.write(tls.take_output())

    def _tls_failed(self, error: TlsFailed) -> None:
        """Report the failure, send TLS's alert about it to the other side, and close."""
        assert self.tls is not None, "TLS has failed"
        self.is_plain = isinstance(error, NoTls)
        self._transport.write(self.tls.take_output())
        if self.is_joined:
            if str(error):
                log.error("Cluster: the connection with %s ends: %s", self.name, error)
        elif not (self.is_plain and self.tls.may_be_plain):
            self._owner.stranger(self, str(error) or "it ended TLS")
        self.close()

    def _do_without_tls(self) -> None:
        """Greet a silent dialler without TLS: it waits for the greeting, so it speaks no TLS."""
        if not self._has_come and self._handshake is not None and not self.closed:
            self.tls = None
            self._transport.write(self._handshake.take_output())

    def _take(self, nbytes: int) -> None:
        """Take `nbytes` bytes that were put into `_room()`."""
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

    def send(self, message: Message) -> None:
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
            log.error(
                "Cluster: closing %s: its send buffer is full and it is not reading", self.name
            )
            self._transport.abort()

    def _send_more(self) -> None:
        """Send waiting messages, as far as the socket takes them."""
        while self._unsent and self._writable and not self._transport.is_closing():
            pieces = self._unsent.popleft()
            self._unsent_bytes -= sum(map(len, pieces))
            self._write(pieces)

    def _write(self, pieces: list[SegmentView]) -> None:
        """Write as much of a message as the socket takes; the transport keeps the rest."""
        if self.tls is not None:
            try:
                pieces = [self.tls.seal(pieces)]
            except TlsFailed as error:
                log.error("Cluster: the connection with %s ends: %s", self.name, error)
                self._transport.abort()
                return
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
        """Close the connection after the messages that wait."""
        self.closed = True
        if self._fd < 0:  # the connection is lost
            return
        self._cancel()
        for pieces in self._unsent:
            self._say(b"".join(pieces))
        self._unsent.clear()
        if self.tls is not None:
            self._transport.write(self.tls.farewell())
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CLOSE_SECONDS, self._transport.abort)
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.closed = True
        self._transport.abort()

    def _shake(self, handshake: SecretHandshake, data: bytes) -> bytes:
        """Continue the handshake; return the bytes after it."""
        try:
            handshake.receive(data)
        except HandshakeFailed as error:
            self._owner.stranger(self, str(error))
            self._say(handshake.take_output())
            self.close()
            return b""
        self._say(handshake.take_output())
        if handshake.done:
            self._handshake = None
            self._cancel()
            self._owner.joined(self)
        return handshake.rest

    def _say(self, data: bytes) -> None:
        """Send bytes of the handshake, or the last ones, through the transport."""
        if self.tls is not None and data:
            with suppress(TlsFailed):  # reading reports why
                data = self.tls.seal([data])
        self._transport.write(data)

    def _late(self) -> None:
        self._timer = None
        why = "it did not finish its handshake in time"
        if not self._has_come:
            why = "it says nothing: TLS ([tls], cluster.tls) may be on at one side alone"
        self._owner.stranger(self, why)
        self.abort()

    def _cancel(self) -> None:
        for timer in (self._timer, self._plain_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._plain_timer = None
