"""WebSocket between a client's socket, or its TLS, and the protocol.

    handshake    one HTTP request, and its answer
    input        the payloads of frames, text or binary, are one stream of bytes
    output       binary frames of at most `FRAME_OUT` bytes

A frame costs 2 to 3 us, however short. So one read of a client that sends many short ones brings
at most about `FRAMES_IN` of them, which takes a millisecond: others are served in between.

The library `websockets` does handshake and frames, without I/O and without compression. A frame
that is not whole waits in memory: `Unfinished` bounds those of all clients together.
"""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from broker.clients.origins import refusal
from broker.clients.wire import ClientWire, WireFault
from broker.settings.websocket_settings import WebSocketSettings

FRAME_OUT: Final = 1 << 16  # bytes
FRAMES_IN: Final = 512
ROOM_MIN: Final = 2048  # bytes of one read; the shortest frames have 6
SMALL: Final = 1 << 16  # a client with less than this unfinished is never closed for others
DATA: Final = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)
SILENT: Final = logging.Logger("websocket", logging.CRITICAL + 1)  # it would log what clients send


class Unfinished:
    """Bytes of frames that are not whole yet, of all clients."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0


class WebSocketWire:
    """One client's WebSocket. `scratch` is what `inner` reads into; it keeps nothing."""

    __slots__ = (
        "_counted",
        "_ended",
        "_head",
        "_inner",
        "_is_inner_open",
        "_left",
        "_own",
        "_protocol",
        "_room",
        "_scratch",
        "_settings",
        "_unfinished",
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
    ) -> None:
        self._inner = inner
        self._is_inner_open = False
        self._settings = settings
        self._scratch = scratch
        self._unfinished = unfinished
        self._counted = 0  # bytes that `unfinished` has of this client
        self._head = b""  # the HTTP request, as far as it has come
        # The limit is for each frame: a message of many frames is not kept as one.
        self._protocol = ServerProtocol(max_size=(None, settings.max_frame), logger=SILENT)
        self._left: deque[memoryview] = deque()  # decoded, and not taken yet
        self._room = ROOM_MIN  # of the next read
        self._own = b""  # what this layer has to say; a newer PONG replaces an older one
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
    def certificate_names(self) -> tuple[str, ...]:
        return self._inner.certificate_names

    def feed(self, data: memoryview) -> None:
        self._inner.feed(data)

    def open(self) -> bool:
        if not self._is_inner_open:
            if not self._inner.open():
                return False
            self._is_inner_open = True
        while True:
            self._inner.more = True  # the socket is not for it to read
            got = self._inner.receive(-1, self._scratch[: self._settings.max_header])
            if got == 0:
                raise WireFault("closed before the WebSocket handshake")
            if got < 0:
                return False
            self._head += self._scratch[:got]
            if self._answer():
                self.more = True  # the client need not have waited
                return True

    def _answer(self) -> bool:
        """Answer the HTTP request, if it is whole; return whether it was accepted."""
        protocol, head, most = self._protocol, self._head, self._settings.max_header
        if not head.startswith(b"GET "[: len(head)]):
            raise WireFault("WebSocket handshake error: what it sent is not a request for one")
        end = head.find(b"\r\n\r\n", 0, most)
        if end < 0 and len(head) < most:
            return False
        if end < 0:
            self._say(protocol.reject(431, "The request is too long.\n"))
            raise WireFault(f"WebSocket handshake error: the request is longer than {most} bytes")
        protocol.receive_data(head[: end + 4])
        events = protocol.events_received()
        if not events:
            self._own = b"".join(protocol.data_to_send())
            raise WireFault(f"WebSocket handshake error: {_why(protocol)}")
        assert isinstance(events[0], Request), "the first event is one"
        why = refusal(events[0], self._settings, has_tls=bool(self.tls[0]))
        response = protocol.reject(403, f"{why}\n") if why else protocol.accept(events[0])
        self._say(response)
        if response.status_code != 101:
            raise WireFault(f"WebSocket handshake error: {why or _why(protocol)}")
        self._head = b""
        if len(head) > end + 4:
            said = self._own
            self._own = b""
            self._decode(head[end + 4 :])
            self._own = said + self._own
        return True

    def _say(self, response: Response) -> None:
        self._protocol.send_response(response)
        self._own = b"".join(self._protocol.data_to_send())

    def receive(self, fd: int, target: memoryview) -> int:
        if not self._left and not self._ended:
            got = self._inner.receive(fd, self._scratch[: min(len(target), self._room)])
            self.more = self._inner.more
            if got <= 0:
                return got
            frames = self._decode(bytes(self._scratch[:got]))
            self._room = max(got * FRAMES_IN // max(frames, FRAMES_IN), ROOM_MIN)
            if frames <= FRAMES_IN // 2:
                self._room = min(2 * self._room, len(self._scratch))
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
        self.more = bool(self._left) or self._inner.more or (self._ended and taken > 0)
        if not taken and not self._ended:
            return -1
        return taken

    def _decode(self, data: bytes) -> int:
        """Take the frames that are whole now; return how many."""
        protocol = self._protocol
        protocol.receive_data(data)
        events = protocol.events_received()
        self._take(events)
        written = [one for one in protocol.data_to_send() if one]
        if written:
            self._own = written[-1]
        self._count(len(protocol.reader.buffer))
        if protocol.parser_exc is not None:
            self._count(0)
            raise WireFault(f"WebSocket error: {protocol.parser_exc}")
        unfinished = self._unfinished
        if unfinished.bytes > unfinished.limit and self._counted > SMALL:
            protocol.fail(CloseCode.TRY_AGAIN_LATER, "too many unfinished frames")
            self._own = b"".join(protocol.data_to_send())
            self._count(0)
            raise WireFault("WebSocket error: all clients together have too many unfinished frames")
        return len(events)

    def _take(self, events: Sequence[object]) -> None:
        for event in events:
            assert isinstance(event, Frame), "there is one request"
            if event.opcode in DATA and event.data:
                self._left.append(memoryview(event.data))
            elif event.opcode is Opcode.CLOSE:
                self._ended = True

    def _count(self, size: int) -> None:
        """So many bytes of this client are unfinished."""
        self._unfinished.bytes += size - self._counted
        self._counted = size

    def wrap(self, view: memoryview) -> list[bytes]:
        protocol, inner = self._protocol, self._inner
        wrapped = []
        for at in range(0, len(view), FRAME_OUT):
            try:
                protocol.send_binary(bytes(view[at : at + FRAME_OUT]))
            except InvalidState:
                raise WireFault("WebSocket is closed") from None
            for written in protocol.data_to_send():
                wrapped += inner.wrap(memoryview(written))
        return wrapped

    def to_send(self) -> bytes:
        own, self._own = self._own, b""
        said = self._inner.to_send()
        return said + b"".join(self._inner.wrap(memoryview(own))) if own else said

    def farewell(self) -> bytes:
        protocol = self._protocol
        if protocol.state is OPEN:
            protocol.send_close(CloseCode.GOING_AWAY)
            self._own = b"".join(protocol.data_to_send())
        return self.to_send() + self._inner.farewell()

    def closed(self) -> None:
        self._count(0)
        self._left.clear()
        self._protocol.reader.buffer.clear()  # it is in a cycle, which may stay for long
        self._inner.closed()


def _why(protocol: ServerProtocol) -> str:
    """Why the handshake failed, without what the client wrote."""
    error = protocol.handshake_exc
    return type(error).__name__ if error is not None else "refused"
