"""Bare clients through TLS, WebSocket or both, and the broker's flags for each of these ways."""

import socket
import ssl
from dataclasses import dataclass
from typing import Any

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from tests.support.authority import Authority
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.raw import RawClient

PIECE = 1 << 18
FRAME = 1 << 20  # bytes: a client sends one message in one frame, not all that it ever sends


class WebStream:
    """A WebSocket as a stream of bytes: as much of a socket as `RawClient` needs."""

    def __init__(self, below: socket.socket) -> None:
        self._below = below
        self.protocol = ClientProtocol(parse_uri("ws://localhost/"), max_size=None)
        self._got = bytearray()
        self.ended = False
        self.protocol.send_request(self.protocol.connect())
        self._flush()
        while not (events := self._read()):
            assert not self.ended, "closed in the handshake"
        assert self.protocol.handshake_exc is None, self.protocol.handshake_exc
        self._take(events[1:])

    def _flush(self) -> None:
        for piece in self.protocol.data_to_send():
            if piece:
                self._below.sendall(piece)

    def _read(self) -> list[Any]:
        came = self._below.recv(PIECE)
        if came:
            self.protocol.receive_data(came)
        else:
            self.ended = True
        return self.protocol.events_received()

    def _take(self, events: list[Any]) -> None:
        for event in events:
            assert isinstance(event, Frame)
            if event.opcode is Opcode.BINARY:
                self._got += event.data
            elif event.opcode is Opcode.CLOSE:
                self.ended = True

    def sendall(self, data: bytes) -> None:
        for at in range(0, len(data), FRAME):
            self.protocol.send_binary(data[at : at + FRAME])
            self._flush()

    def send_raw(self, data: bytes) -> None:
        """Send this, frames or not."""
        self._below.sendall(data)

    def close_politely(self, code: int, reason: str) -> None:
        """Begin to close it; what comes is still read."""
        self.protocol.send_close(code, reason)
        self._flush()

    def recv(self, size: int) -> bytes:
        while not (self._got or self.ended):
            self._take(self._read())
        taken = bytes(self._got[:size])
        del self._got[:size]
        return taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)  # timeouts, options, close


class WiredClient(RawClient):
    """Through the layers of a `Way`."""

    def __init__(self, port: int, *sends: bytes, way: "Way", **options: Any) -> None:
        self._way = way
        super().__init__(port, *sends, **options)

    def _first_info(self) -> dict[str, Any]:
        way = self._way
        if way.context is not None and not way.is_first:
            assert super()._first_info()["tls_required"] is True
        if way.context is not None:
            self.socket = way.context.wrap_socket(self.socket, server_hostname="localhost")
        if way.is_web:
            self.socket = WebStream(self.socket)  # type: ignore[assignment]
        if way.is_first or way.is_web:
            return super()._first_info()
        return {}


@dataclass(frozen=True)
class Way:
    """How a client comes in."""

    name: str
    flags: tuple[str, ...]
    context: ssl.SSLContext | None
    is_first: bool = False  # the handshake comes before INFO
    is_web: bool = False

    def broker(self, *arguments: str, frame: str = "none", **limits: Any) -> SeriatimServer:
        """A broker for such clients; not started yet."""
        return SeriatimServer(frame, limits, [*self.flags, *arguments])

    def port(self, broker: ServerProcess) -> int:
        return web_port(broker) if self.is_web else broker.port

    def client(self, broker: ServerProcess, *sends: bytes, **options: Any) -> WiredClient:
        return WiredClient(self.port(broker), *sends, way=self, **options)


def web_port(broker: ServerProcess) -> int:
    """Where it listens for WebSocket clients."""
    (line,) = (said for said in broker.log if "Listening for websocket clients on" in said)
    return int(line.rpartition(":")[2])


WAYS = ("tls", "tls first", "ws", "wss")


def way(name: str, authority: Authority, own: str = "") -> Way:
    """One of `WAYS`. The client shows its `own` certificate, if it has one."""
    web = ("--websocket_port", "-1")
    secured = tuple(authority.flags())
    context = authority.context(own)
    return {
        "tls": Way(name, secured, context),
        "tls first": Way(name, (*secured, "--tls_first"), context, is_first=True),
        "ws": Way(name, web, None, is_web=True),
        "wss": Way(name, (*secured, *web), context, is_first=True, is_web=True),
    }[name]
