"""WebSocket between a client's socket, or its TLS, and the protocol.

    handshake    one HTTP request, and its answer
    input        the payloads of frames, text or binary, are one stream of bytes
    output       binary frames of at most `FRAME_OUT` bytes

A frame costs 2 to 3 us, however short. So one read of a client that sends many short ones brings
at most about `FRAMES_IN` of them, which takes a millisecond; other clients are served in between.

The library `websockets` parses the frames, without I/O and without compression. An incomplete frame
waits in memory: `Unfinished` bounds these bytes of all clients together.

The close frame is always sent last: operations that came before the client's close, or before its
fault, are answered first. So `farewell` sends the library's close frame.
"""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side

from broker.settings.websocket_settings import WebSocketSettings
from broker.wires.disconnect_log import (
    CLIENT_CLOSED,
    SERVER_SHUTDOWN,
    SLOW_WRITE,
    WEBSOCKET_FAILURE,
)
from broker.wires.distinguished_name import Name
from broker.wires.websocket_handshake import HEADER_MAX, answer
from broker.wires.wire import (
    PROTOCOL_VIOLATION,
    ClientWire,
    FrameFault,
    HandshakeFault,
    WireFault,
)
from parser import errors

FRAME_OUT: Final = 1 << 16  # bytes
FRAMES_IN: Final = 512
ROOM_MIN: Final = 2048  # bytes of one read; the shortest frames have 6
SMALL: Final = 1 << 16  # a client is closed for too many unfinished bytes only above this
# Of frames that are not whole, of all clients: 32 of the largest, or thousands of usual size.
UNFINISHED_MAX: Final = 1 << 28
DATA: Final = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)
# nats-server's codes for why a connection ends; all other reasons are an internal error.
CODES: Final = {
    CLIENT_CLOSED: CloseCode.NORMAL_CLOSURE,
    SERVER_SHUTDOWN: CloseCode.GOING_AWAY,
    errors.StaleConnection.reason: CloseCode.GOING_AWAY,
    PROTOCOL_VIOLATION: CloseCode.PROTOCOL_ERROR,
    errors.BadProtocol.reason: CloseCode.PROTOCOL_ERROR,
    errors.AuthorizationViolation.reason: CloseCode.POLICY_VIOLATION,
    errors.AuthenticationTimeout.reason: CloseCode.POLICY_VIOLATION,
    errors.ConnectionsExceeded.reason: CloseCode.POLICY_VIOLATION,
    errors.ControlLineTooLong.reason: CloseCode.POLICY_VIOLATION,
    errors.NoSuchAccount.reason: CloseCode.POLICY_VIOLATION,
    errors.SlowConsumer.reason: CloseCode.POLICY_VIOLATION,
    SLOW_WRITE: CloseCode.POLICY_VIOLATION,
    errors.PayloadTooLarge.reason: CloseCode.MESSAGE_TOO_BIG,
}
SILENT: Final = logging.Logger("websocket", logging.CRITICAL + 1)  # else it logs clients' input


class Unfinished:
    """The count of bytes in incomplete frames, of all clients."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0


class WebSocketWire:
    """One client's WebSocket. `inner` reads into `scratch`, which keeps nothing between reads."""

    __slots__ = (
        "_counted",
        "_ended",
        "_fault",
        "_goodbye",
        "_head",
        "_inner",
        "_is_closed",
        "_is_inner_open",
        "_left",
        "_own",
        "_protocol",
        "_proxy_header",
        "_room",
        "_scratch",
        "_settings",
        "_unfinished",
        "forwarded",
        "greets_in_clear",
        "more",
        "timeout",
    )

    def __init__(
        self,
        inner: ClientWire,
        settings: WebSocketSettings,
        scratch: memoryview,
        unfinished: Unfinished,
        proxy_header: str = "",
    ) -> None:
        self._proxy_header = proxy_header
        self.forwarded: Sequence[str] = ()
        self._inner = inner
        self._is_inner_open = False
        self._settings = settings
        self._scratch = scratch
        self._unfinished = unfinished
        self._counted = 0  # this client's bytes in `unfinished`
        self._head = b""  # the part of the HTTP request that has arrived
        # The limit is for each frame: a message of many frames is not kept as one.
        limits = (None, settings.max_frame)
        self._protocol = Protocol(Side.SERVER, max_size=limits, logger=SILENT)
        self._left: deque[memoryview] = deque()  # decoded, and not taken yet
        self._room = ROOM_MIN  # of the next read
        self._own = b""  # this layer's own output; a newer PONG replaces an older one
        self._goodbye = b""  # the frame that answers the client's close, or its fault
        self._is_closed = False  # the goodbye was sent
        self._fault: FrameFault | None = None  # in the input after `_left`
        self._ended = False
        self.more = False
        self.greets_in_clear = False
        self.timeout = inner.timeout + settings.handshake_timeout

    @property
    def tls(self) -> tuple[str, str]:
        return self._inner.tls

    def certificates(self) -> list[bytes]:
        return self._inner.certificates()

    @property
    def certificate_names(self) -> tuple[Name, ...]:
        return self._inner.certificate_names

    def feed(self, data: memoryview) -> None:
        self._inner.feed(data)

    def open(self) -> bool:
        if not self._is_inner_open:
            if not self._inner.open():
                return False
            self._is_inner_open = True
        while True:
            self._inner.more = True  # so that it does not read the socket
            got = self._inner.receive(-1, self._scratch[:HEADER_MAX])
            if got == 0:
                raise HandshakeFault("closed before the WebSocket handshake", CLIENT_CLOSED)
            if got < 0:
                return False
            self._head += self._scratch[:got]
            if self._answer():
                self.more = True  # the client need not have waited
                return True

    def _answer(self) -> bool:
        """Answer the HTTP request, if it is complete; return True if it was accepted."""
        said = answer(self._head, self._settings, has_tls=bool(self.tls[0]))
        if said is None:
            return False
        self._own = said.data
        if said.why:
            raise HandshakeFault(f"WebSocket handshake error: {said.why}", WEBSOCKET_FAILURE)
        self.forwarded = said.headers.get_all(self._proxy_header) if self._proxy_header else ()
        frames, self._head = self._head[said.size :], b""
        if frames:
            self._own = b""
            self._decode(frames)
            self._own = said.data + self._own
        return True

    def opens_late(self) -> bool:
        return False

    def receive(self, fd: int, target: memoryview) -> int:
        if not self._left and not self._ended and self._fault is None:
            got = self._inner.receive(fd, self._scratch[: min(len(target), self._room)])
            self.more = self._inner.more
            if got <= 0:
                return got
            frames = self._decode(bytes(self._scratch[:got]))
            self._room = max(got * FRAMES_IN // max(frames, FRAMES_IN), ROOM_MIN)
            if frames <= FRAMES_IN // 2:
                self._room = min(2 * self._room, len(self._scratch))
        if not self._left and self._fault is not None:
            raise self._fault
        taken = 0
        while self._left and taken < len(target):
            piece = self._left[0]
            part = piece[: len(target) - taken]
            target[taken : taken + len(part)] = part
            taken += len(part)
            if len(part) == len(piece):
                self._left.popleft()
            else:
                self._left[0] = piece[len(part) :]
        is_end = self._ended or self._fault is not None
        self.more = bool(self._left) or self._inner.more or (is_end and taken > 0)
        if not taken and not self._ended:
            return -1
        return taken

    def _decode(self, data: bytes) -> int:
        """Take the frames that are complete now; return how many."""
        protocol = self._protocol
        protocol.receive_data(data)
        events = protocol.events_received()
        self._take(events)
        self._count(len(protocol.reader.buffer))
        if protocol.parser_exc is not None:
            self._fail(str(protocol.parser_exc))
        unfinished = self._unfinished
        if unfinished.bytes > unfinished.limit and self._counted > SMALL:
            protocol.fail(CloseCode.TRY_AGAIN_LATER, "too many unfinished frames")
            self._fail("all clients together have too many unfinished frames")
        written = [one for one in protocol.data_to_send() if one]
        if written and protocol.close_sent is not None:
            self._goodbye = written.pop()
        if written:
            self._own = written[-1]
        return len(events)

    def _fail(self, why: str) -> None:
        """End the input with a fault."""
        self._count(0)
        self._fault = FrameFault(f"WebSocket error: {why}")

    def _take(self, events: Sequence[object]) -> None:
        for event in events:
            assert isinstance(event, Frame), "there is one request"
            if event.opcode in DATA and event.data:
                self._left.append(memoryview(event.data))
            elif event.opcode is Opcode.CLOSE:
                self._ended = True

    def _count(self, size: int) -> None:
        """Set the number of this client's unfinished bytes."""
        self._unfinished.bytes += size - self._counted
        self._counted = size

    def wrap(self, view: memoryview) -> list[bytes]:
        if self._is_closed:
            raise WireFault("WebSocket is closed")
        wrapped = []
        for at in range(0, len(view), FRAME_OUT):
            frame = Frame(Opcode.BINARY, bytes(view[at : at + FRAME_OUT])).serialize(mask=False)
            wrapped += self._inner.wrap(memoryview(frame))
        return wrapped

    def to_send(self) -> bytes:
        own, self._own = self._own, b""
        said = self._inner.to_send()
        return said + b"".join(self._inner.wrap(memoryview(own))) if own else said

    def farewell(self, reason: str) -> bytes:
        if not self._is_closed:
            self._is_closed = True
            self._own += self._goodbye or _goodbye(reason)
        return self.to_send() + self._inner.farewell(reason)

    def closed(self) -> None:
        self._count(0)
        self._left.clear()
        self._protocol.reader.buffer.clear()  # a reference cycle may keep it for long
        self._inner.closed()


def _goodbye(reason: str) -> bytes:
    """Return the frame that closes the WebSocket for this reason."""
    close = Close(CODES.get(reason, CloseCode.INTERNAL_ERROR), reason)
    return Frame(Opcode.CLOSE, close.serialize()).serialize(mask=False)
