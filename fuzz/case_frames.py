"""A WebSocket after its handshake: the stream of bytes in it, or a fault, as RFC 6455 says.

    cut cut room step step ...

The cuts: how much comes with one read, in turn. The room: how much the reader takes at a time. A
step is a frame, whose head may lie, or raw bytes. The model reads all of it at once.
"""

from dataclasses import dataclass
from itertools import cycle

from broker.settings.websocket_settings import WebSocketSettings
from broker.wires.plain_wire import PlainWire
from broker.wires.websocket_wire import Unfinished, WebSocketWire
from broker.wires.wire import WireFault
from fuzz.supply import Supply

MAX_LEN = 600
FRAME_MAX = 1024
UNFINISHED_MAX = 2048
SCRATCH = memoryview(bytearray(1 << 12))
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
OPCODES = (BINARY, CONT, TEXT, BINARY, PING, PONG, CLOSE, 3)
LENGTHS = (0, 1, 125, 126, 127, 1023, 1024, 1025, 65_535, 65_536, 1 << 31, (1 << 63) - 1, 1 << 63)
CLOSE_CODES = {*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)}
RAW, AS_IT_IS = 0xF0, 0x40
MASK = b"mask"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Below(PlainWire):
    """The wire below: the socket's bytes, one piece for each read."""

    def __init__(self, first: bytes) -> None:
        super().__init__()
        self._come = memoryview(first)

    def come(self, data: bytes) -> None:
        self._come = memoryview(data)

    def feed(self, data: memoryview) -> None:
        raise AssertionError("it is read")

    def receive(self, fd: int, target: memoryview) -> int:
        size = min(len(self._come), len(target))
        target[:size] = self._come[:size]
        self._come = self._come[size:]
        self.more = len(self._come) > 0
        return size or -1


@dataclass
class Read:
    """The result of the model's reading."""

    stream: bytes = b""
    fault: bool = False
    may_wait: bool = False  # the fault may be reported only when the frame is whole
    over: bool = False  # a close frame came; nothing after it counts
    pings: int = 0


def masked(data: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[at & 3] for at, byte in enumerate(data))


def is_close(payload: bytes) -> bool:
    """True if this payload may be in a close frame."""
    if len(payload) < 2:
        return not payload
    try:
        payload[2:].decode()
    except ValueError:
        return False
    return int.from_bytes(payload[:2], "big") in CLOSE_CODES


def head_of(data: bytes) -> tuple[int, int, int, int] | None:
    """Read a frame's two bytes, its length, and the mask's place; None if it is not whole."""
    if len(data) < 2:
        return None
    length, at = data[1] & 0x7F, 2
    if length >= 126:
        at = 4 if length == 126 else 10
        if len(data) < at:
            return None
        length = int.from_bytes(data[2:at], "big")
    return data[0], data[1], length, at


def is_wrong(first: int, second: int, length: int, amid: bool) -> bool:
    """True if a frame with this head breaks a rule; `amid`: inside a message of several frames."""
    opcode = first & 0x0F
    if first & 0x70 or not second & 0x80 or opcode not in (CONT, TEXT, BINARY, CLOSE, PING, PONG):
        return True
    if opcode >= CLOSE:
        return length > 125 or not first & 0x80
    return length > FRAME_MAX or (opcode == CONT) != amid


def read(data: bytes) -> Read:
    """Read all frames, by RFC 6455."""
    found, amid = Read(), False
    while not found.over and (head := head_of(data)) is not None:
        first, second, length, at = head
        if is_wrong(first, second, length, amid):
            found.fault = True
            found.may_wait = length <= FRAME_MAX and len(data) < at + 4 + length
            return found
        if len(data) < at + 4 + length:
            return found
        payload = masked(data[at + 4 : at + 4 + length], data[at : at + 4])
        data = data[at + 4 + length :]
        opcode = first & 0x0F
        if opcode == CLOSE:
            found.fault = amid or not is_close(payload)
            found.over = True
        elif opcode == PING:
            found.pings += 1
        elif opcode != PONG:
            found.stream += payload
            amid = not first & 0x80
    if not found.over and len(data) >= 2 and is_wrong(data[0], data[1], 0, amid):
        found.fault = found.may_wait = True  # the length is not whole, but the rest is wrong
    return found


def frame_of(taken: Supply) -> bytes:
    """A frame, or something like one."""
    kind = taken.take()
    if kind >= RAW:
        return bytes(taken.take() for _ in range(kind & 0x0F))
    size = taken.take()
    payload = bytes(taken.take() for _ in range(size & 0x1F)) * (1 + (size >> 5) * 7)
    first = OPCODES[kind & 7] | (0 if kind & 8 else 0x80) | (0x40 if kind & 0x30 == 0x30 else 0)
    length = len(payload)
    if kind & 0xC0 == 0xC0:
        length = LENGTHS[taken.take() % len(LENGTHS)]
    mask = b"" if kind & 0xC0 == 0x80 and size & 1 else MASK
    bit = 0x80 if mask else 0
    if length < 126:
        head = bytes((first, bit | length))
    elif length < 1 << 16:
        head = bytes((first, bit | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((first, bit | 127)) + length.to_bytes(8, "big")
    return head + mask + (masked(payload, mask) if mask else payload)


def opened(unfinished: Unfinished) -> tuple[Below, WebSocketWire]:
    below = Below(UPGRADE)
    settings = WebSocketSettings(max_frame=FRAME_MAX)
    wire = WebSocketWire(below, settings, SCRATCH, unfinished)
    assert wire.open()
    assert wire.to_send().startswith(b"HTTP/1.1 101 ")
    return below, wire


def take(wire: WebSocketWire, target: memoryview) -> tuple[bytes, bool]:
    """Return all bytes for the protocol that are there, and True if the input has ended."""
    got = bytearray()
    while True:
        size = wire.receive(-1, target)
        if size == 0:
            return bytes(got), True
        got += target[: max(size, 0)]
        if not wire.more:
            return bytes(got), False


def check(data: bytes) -> None:
    """Run one input."""
    taken = Supply(data)
    cuts = cycle([taken.take() or FRAME_MAX, taken.take() or FRAME_MAX])
    target = memoryview(bytearray(taken.take() * 4 + 1))
    sent = bytearray()
    while taken:
        sent += frame_of(taken)
    expected = read(bytes(sent))
    unfinished = Unfinished(UNFINISHED_MAX)
    below, wire = opened(unfinished)
    got, fault, ended, at = b"", False, False, 0
    try:
        while at < len(sent) and not ended:
            size = next(cuts)
            below.come(bytes(sent[at : at + size]))
            at += size
            some, ended = take(wire, target)
            got += some
            assert unfinished.bytes <= FRAME_MAX + 14 + len(SCRATCH)
    except WireFault:
        fault = True
    assert fault == expected.fault or (expected.may_wait and not fault), (fault, expected)
    if fault:
        assert expected.stream.startswith(got)
    else:
        assert got == expected.stream
        assert ended <= expected.over
    said = read(bytes(wire.to_send()))  # the broker's frames have no mask, which is a fault here
    assert not said.stream
    wire.closed()
    assert unfinished.bytes == 0
