"""A WebSocket as a stream of bytes: as much of a socket as `BulkConnection` needs.

    stream = WebStream(sock, server, timeout_s)     asks for `server.web_path`
    stream.settimeout(seconds), sendall, recv_into, close: as those of a socket

The server's binary and text frames are one stream; we send binary frames of at most `FRAME` bytes.
PINGs of the WebSocket are answered whenever something is received. An incomplete frame waits in
memory, up to `PAYLOAD_MAX` bytes.
"""

import logging
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidMessage, InvalidStatus, WebSocketException
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.typing import Origin
from websockets.uri import parse_uri

from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    NotABroker,
    NotAuthorized,
)
from seriatim.client.protocol import PAYLOAD_MAX
from seriatim.client.server_address import ServerAddress

FRAME: Final = 1 << 16  # bytes
PIECE: Final = 1 << 16
BEGIN_MAX: Final = 256  # bytes of an answer that are kept until it is understood
SHOWN_MAX: Final = 120  # characters of a server's reason for refusing us
DATA: Final = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)
TLS_ALERT: Final = b"\x15\x03"
REFUSED: Final = (401, 403)
SILENT: Final = logging.Logger("websocket", logging.CRITICAL + 1)  # it would log credentials


class WebStream:
    """One WebSocket in a connected socket, which may be one of TLS."""

    def __init__(
        self, below: socket.socket, server: ServerAddress, timeout_s: float, origin: str = ""
    ) -> None:
        """Do the handshake. The socket stays open if it fails.

        Raises `NotABroker` if there is no WebSocket, `NotAuthorized` if we or our `origin` are
        refused, `ConnectionLost` if it closes, and `OSError`.
        """
        scheme = "wss" if server.tls else "ws"
        try:
            uri = parse_uri(f"{scheme}://{server}{server.web_path}")
        except (WebSocketException, ValueError):
            raise InvalidArgument("this is not the address of a WebSocket") from None
        self._below = below
        self._protocol = ClientProtocol(
            uri, origin=Origin(origin) if origin else None, max_size=PAYLOAD_MAX, logger=SILENT
        )
        self._got = bytearray()  # received, and not taken yet
        self._ended = False
        try:
            self._shake_hands(time.monotonic() + timeout_s)
        except ConnectionError:  # it may be reset rather than closed
            raise _closed(server.tls) from None

    def _shake_hands(self, until: float) -> None:
        protocol, begin = self._protocol, b""
        protocol.send_request(protocol.connect())
        self._flush()
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._below.settimeout(left)
            data = self._receive()
            begin = (begin + data)[:BEGIN_MAX]
            if protocol.handshake_exc is not None:
                raise _refusal(protocol.handshake_exc, begin, protocol.uri.secure)
            if events := protocol.events_received():
                self._take(events[1:])  # the first one is the answer
                self._reply()
                return

    def settimeout(self, seconds: float) -> None:
        """Set how long a call may wait for the socket; 0: not at all."""
        self._below.settimeout(seconds)

    def sendall(self, data: memoryview) -> None:
        """Send all the data. Raises `OSError`."""
        for at in range(0, len(data), FRAME):
            if self._protocol.state is not OPEN:
                raise ConnectionError("the WebSocket is closed")
            self._protocol.send_binary(bytes(data[at : at + FRAME]))
            self._flush()

    def recv_into(self, target: memoryview) -> int:
        """Receive into `target`; return how many bytes, 0 at the end. Raises `OSError`."""
        while not (self._got or self._ended or self._fault()):
            self._receive()
            self._take(self._protocol.events_received())
            self._reply()
        if not self._got and (fault := self._fault()):
            raise ConnectionError(f"the WebSocket is broken: {fault}")
        size = min(len(target), len(self._got))
        target[:size] = self._got[:size]
        del self._got[:size]
        return size

    def close(self) -> None:
        """Close the WebSocket, in any state, and its socket. Waits for nothing."""
        with suppress(OSError):
            if self._protocol.state is OPEN:
                self._below.settimeout(0)
                self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
                self._flush()
        self._below.close()

    def _fault(self) -> str:
        """Return the rule that the server broke, perhaps right after its answer; empty: none."""
        error = self._protocol.parser_exc
        return "" if error is None or isinstance(error, EOFError) else str(error)

    def _receive(self) -> bytes:
        """Pass the socket's bytes to the protocol; return them."""
        data = self._below.recv(PIECE)
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
            self._ended = True
        return data

    def _take(self, events: Sequence[object]) -> None:
        for event in events:
            assert isinstance(event, Frame), "there is one answer"
            if event.opcode in DATA:
                self._got += event.data
            elif event.opcode is Opcode.CLOSE:
                self._ended = True

    def _reply(self) -> None:
        """Answer pings and a close. If the peer has gone, its earlier data still counts."""
        with suppress(ConnectionError):
            self._flush()

    def _flush(self) -> None:
        """Send what the protocol has written; an empty piece would end the stream."""
        for piece in self._protocol.data_to_send():
            if piece:
                self._below.sendall(piece)


def _refusal(error: Exception, begin: bytes, is_secure: bool) -> BrokerError:
    """Explain a failed handshake; `begin` is the beginning of the server's answer."""
    if isinstance(error, InvalidStatus):
        return _refused(error.response)
    if not begin:
        return _closed(is_secure)
    if begin.startswith(b"INFO "):
        return NotABroker("NATS clients connect there, not WebSockets: give nats:// or tls://")
    if begin.startswith(TLS_ALERT):
        return NotABroker("it speaks TLS there: give wss://")
    if not begin.startswith(b"HTTP/"):
        return NotABroker("it does not speak HTTP, so it is not a WebSocket listener")
    if isinstance(error, InvalidMessage):  # HTTP/1.0, or wrong
        status = begin.decode(errors="replace").splitlines()[0].partition(" ")[2]
        return _not_a_listener(status[:SHOWN_MAX])
    return _not_a_listener(str(error))


def _closed(is_secure: bool) -> ConnectionLost:
    hint = "" if is_secure else "; if it speaks TLS there, give wss://"
    return ConnectionLost(f"it closed the connection in the WebSocket handshake{hint}")


def _not_a_listener(why: str) -> NotABroker:
    return NotABroker(f"it speaks HTTP, but is not a WebSocket listener: {why}")


def _refused(answer: Response) -> BrokerError:
    """Explain a status other than 101."""
    status = f"{answer.status_code} {answer.reason_phrase}".rstrip()
    lines = bytes(answer.body or b"").decode(errors="replace").strip().splitlines()
    is_text = lines and not lines[0].startswith(("<", "{"))  # as a page, or JSON, would
    why = f"{status}: {lines[0][:SHOWN_MAX]}" if is_text else status
    if answer.status_code not in REFUSED:
        return _not_a_listener(why)
    return NotAuthorized(f"the WebSocket is refused: {why}", answer.status_code)
