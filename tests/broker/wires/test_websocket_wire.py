"""WebSocket in memory: frames of any kind are one stream, and what breaks the rules is told."""

import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from broker.settings.websocket_settings import WebSocketSettings
from broker.wires.plain_wire import PlainWire
from broker.wires.websocket_wire import FRAME_OUT, FRAMES_IN, Unfinished, WebSocketWire
from broker.wires.wire import FrameFault, WireFault
from tests.support.wires import ROOM, WireEnds

SCRATCH = memoryview(bytearray(1 << 18))
SEED = 11
UPGRADE = (
    b"GET /any/path HTTP/1.1\r\nHost: broker:8080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%b\r\n"
)


def wire(unfinished: Unfinished | None = None, **given: Any) -> WebSocketWire:
    settings = WebSocketSettings(**given)
    return WebSocketWire(PlainWire(), settings, SCRATCH, unfinished or Unfinished(1 << 30))


class WebClient:
    """A client's WebSocket over the far end."""

    def __init__(self, ends: WireEnds) -> None:
        self._ends = ends
        self.protocol = ClientProtocol(parse_uri("ws://broker:8080/"), max_size=None)
        self.protocol.send_request(self.protocol.connect())
        self.flush()
        ends.open()
        self.events()
        assert self.protocol.handshake_exc is None

    def flush(self) -> None:
        for piece in self.protocol.data_to_send():
            self._ends.far.sendall(piece)

    def frame(self, opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
        return Frame(opcode, data, fin).serialize(mask=True)

    def send(self, data: bytes) -> None:
        self._ends.far.sendall(data)

    def events(self) -> list[Any]:
        """What has come."""
        try:
            while came := self._ends.far.recv(ROOM):
                self.protocol.receive_data(came)
        except BlockingIOError:
            pass
        return self.protocol.events_received()

    def answer(self) -> Frame:
        """The one frame that the wire has to say by itself."""
        self.send_own()
        (frame,) = self.events()
        assert isinstance(frame, Frame)
        return frame

    def send_own(self) -> None:
        self._ends.near.sendall(self._ends.wire.to_send())


@pytest.fixture
def ends() -> Iterator[WireEnds]:
    with WireEnds(wire()) as made:
        yield made


@pytest.fixture
def web(ends: WireEnds) -> WebClient:
    made = WebClient(ends)
    assert ends.receive() is None, "nothing came behind the handshake"
    return made


def test_given_frames_of_any_kind_and_size_then_they_are_one_stream(
    ends: WireEnds, web: WebClient
) -> None:
    chosen = random.Random(SEED)
    for _ in range(60):
        parts = [chosen.randbytes(chosen.choice((0, 1, 125, 126, 9000))) for _ in range(4)]
        kind = chosen.choice((Opcode.TEXT, Opcode.BINARY))
        sent = b"".join(
            web.frame(Opcode.CONT if at else kind, part, at == 3) for at, part in enumerate(parts)
        )
        got, room = b"", chosen.choice((1, 50, 4096, 1 << 18))
        while sent:
            size = chosen.choice((1, 3, 500, len(sent)))
            web.send(sent[:size])
            sent = sent[size:]
            got += ends.receive_all(room)
        assert got == b"".join(parts)
        assert not ends.wire.more


def test_given_output_then_it_leaves_in_binary_frames_of_bounded_size(
    ends: WireEnds, web: WebClient
) -> None:
    data = random.Random(SEED).randbytes(2 * FRAME_OUT + 5)
    ends.near.setblocking(True)
    got = b""
    for at in range(0, len(data), FRAME_OUT):
        ends.send(data[at : at + FRAME_OUT])
        for event in web.events():
            assert event.opcode is Opcode.BINARY
            assert event.fin
            got += event.data
    assert got == data
    assert [len(piece) for piece in ends.wire.wrap(memoryview(data))] == [
        FRAME_OUT + 10,
        FRAME_OUT + 10,
        7,
    ]


def test_given_pings_then_the_newest_is_answered(ends: WireEnds, web: WebClient) -> None:
    web.send(b"".join(web.frame(Opcode.PING, b"%d" % at) for at in range(1000)))
    assert ends.receive() is None
    frame = web.answer()
    assert (frame.opcode, frame.data) == (Opcode.PONG, b"999")
    assert ends.wire.to_send() == b""


def test_given_many_short_frames_then_one_read_brings_a_bounded_number_of_them(
    ends: WireEnds, web: WebClient
) -> None:
    frames = web.frame(Opcode.BINARY, b"x") * 5000
    ends.near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    web.send(frames)
    brought = []
    while (got := ends.receive(1 << 18)) is not None:
        brought.append(len(got))
    assert sum(brought) == 5000
    assert max(brought) <= 2 * FRAMES_IN
    web.send(web.frame(Opcode.BINARY, b"y" * 60_000))
    assert ends.receive_all() == b"y" * 60_000


def test_given_long_frames_then_the_reads_grow(ends: WireEnds, web: WebClient) -> None:
    ends.far.setblocking(True)
    brought = []
    for _ in range(40):
        web.send(web.frame(Opcode.BINARY, b"y" * 50_000))
        while (got := ends.receive(1 << 18)) is not None:
            brought.append(len(got))
    assert sum(brought) == 2_000_000
    assert len(brought) < 60


def test_given_a_frame_that_never_ended_when_closed_then_nothing_of_it_is_held(
    ends: WireEnds, web: WebClient
) -> None:
    web.send(web.frame(Opcode.BINARY, b"y" * 60_000)[:50_000])
    ends.receive_all()
    buffer = ends.wire._protocol.reader.buffer  # type: ignore[attr-defined]
    assert len(buffer) > 49_000
    ends.wire.closed()
    assert not buffer


def test_given_pings_that_nobody_answers_then_they_take_no_memory(
    ends: WireEnds, web: WebClient
) -> None:
    for at in range(100):
        web.send(web.frame(Opcode.PING, b"%d" % at * 20) * 10)
        assert ends.receive() is None
    assert len(ends.wire.to_send()) < 200


def test_given_a_close_then_what_came_before_is_received_and_it_is_answered(
    ends: WireEnds, web: WebClient
) -> None:
    web.send(web.frame(Opcode.BINARY, b"last words"))
    web.protocol.send_close(1000, "bye")
    web.flush()
    assert ends.receive() == b"last words"
    assert ends.wire.more
    assert ends.receive() == b""
    assert ends.wire.to_send() == b"", "its answers come first"
    ends.send(b"the answer")
    ends.near.sendall(ends.wire.farewell("Client Closed"))
    answer, close = web.events()
    assert answer.data == b"the answer"
    assert (close.opcode, close.data) == (Opcode.CLOSE, struct.pack("!H", 1000) + b"bye")
    assert ends.wire.farewell("Client Closed") == b"", "it was said"


def test_given_a_ping_and_a_close_then_the_ping_is_answered(ends: WireEnds, web: WebClient) -> None:
    web.send(web.frame(Opcode.PING, b"still there?"))
    web.protocol.send_close()
    web.flush()
    assert ends.receive() == b""
    ends.near.sendall(ends.wire.farewell("Client Closed"))
    pong, close = web.events()
    assert (pong.opcode, pong.data) == (Opcode.PONG, b"still there?")
    assert (close.opcode, close.data) == (Opcode.CLOSE, b"")


def test_given_the_broker_closes_then_it_says_so(ends: WireEnds, web: WebClient) -> None:
    ends.near.sendall(ends.wire.farewell("Server Shutdown"))
    (frame,) = web.events()
    assert frame.opcode is Opcode.CLOSE
    assert frame.data == struct.pack("!H", 1001) + b"Server Shutdown"
    with pytest.raises(WireFault, match="closed"):
        ends.wire.wrap(memoryview(b"more"))


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        (Frame(Opcode.BINARY, b"PING\r\n").serialize(mask=False), 1002, "incorrect masking"),
        (b"\x83\x80\0\0\0\0", 1002, "invalid opcode"),
        (b"\xc2\x80\0\0\0\0", 1002, "reserved bits must be 0"),
        (Frame(Opcode.CONT, b"x").serialize(mask=True), 1002, "unexpected continuation frame"),
        (Frame(Opcode.BINARY, b"x" * 2001).serialize(mask=True), 1009, "frame with 2001 bytes"),
        (b"\x82\xff" + struct.pack("!Q", 1 << 62), 1009, "frame with 4611686018427387904 bytes"),
        (b"\x89\xfe" + struct.pack("!H", 126) + b"\0" * 130, 1002, "control frame too long"),
    ],
    ids=["unmasked", "opcode", "reserved", "continuation", "long", "huge", "control"],  # masks vary
)
def test_given_a_frame_that_breaks_the_rules_then_it_is_refused_with_this_code(
    sent: bytes, code: int, said: str
) -> None:
    with WireEnds(wire(max_frame=2000)) as ends:
        web = WebClient(ends)
        ends.receive()
        web.send(web.frame(Opcode.BINARY, b"PING\r\n") + sent)
        assert ends.receive() == b"PING\r\n"
        assert ends.wire.more
        with pytest.raises(FrameFault, match="WebSocket error") as caught:
            ends.receive()
        assert said in str(caught.value)
        ends.send(b"PONG\r\n")
        ends.near.sendall(ends.wire.farewell(caught.value.reason))
        answer, frame = web.events()
        assert answer.data == b"PONG\r\n"
        assert frame.opcode is Opcode.CLOSE
        assert struct.unpack_from("!H", frame.data) == (code,)
        assert said.encode() in frame.data


def test_given_a_message_of_many_frames_then_only_each_frame_is_bounded() -> None:
    with WireEnds(wire(max_frame=2000)) as ends:
        web = WebClient(ends)
        got = b""
        for at in range(20):
            web.send(web.frame(Opcode.CONT if at else Opcode.BINARY, b"x" * 2000, False))
            got += ends.receive_all()
        assert got == b"x" * 40_000


def test_given_too_many_unfinished_frames_then_those_that_have_most_are_closed() -> None:
    unfinished = Unfinished(300_000)
    made = [wire(unfinished) for _ in range(4)]
    with WireEnds(made[0]) as one, WireEnds(made[1]) as other, WireEnds(made[2]) as small:
        for ends, size in ((one, 150_000), (small, 100), (other, 140_000)):
            web = WebClient(ends)
            sent = web.frame(Opcode.BINARY, b"x" * 200_000)
            ends.far.setblocking(True)
            for at in range(0, size, 50_000):
                web.send(sent[at : min(at + 50_000, size)])
                ends.receive_all()
        assert unfinished.bytes > 280_000
        web.send(sent[140_000:190_000])
        with pytest.raises(FrameFault, match="too many unfinished frames"):
            other.receive_all()
        assert unfinished.bytes < 160_000
        for each in made:
            each.closed()
        assert unfinished.bytes == 0


def test_given_frames_right_after_the_request_then_they_are_received(ends: WireEnds) -> None:
    ends.far.sendall(UPGRADE % b"" + Frame(Opcode.BINARY, b"CONNECT {}\r\n").serialize(mask=True))
    assert ends.open_step()
    assert ends.far.recv(1000).startswith(b"HTTP/1.1 101 ")
    assert ends.receive() == b"CONNECT {}\r\n"


def test_given_a_bad_frame_right_after_the_request_then_it_is_accepted_first(
    ends: WireEnds,
) -> None:
    ends.far.sendall(UPGRADE % b"" + Frame(Opcode.PING, b"p").serialize(mask=True) + b"\x83\x80")
    assert ends.open_step()
    said = ends.far.recv(1000)
    assert said.startswith(b"HTTP/1.1 101 ")
    assert said.endswith(Frame(Opcode.PONG, b"p").serialize(mask=False))
    with pytest.raises(FrameFault, match="invalid opcode"):
        ends.receive()


def test_given_a_request_that_comes_in_crumbs_then_it_is_accepted(ends: WireEnds) -> None:
    request = UPGRADE % b""
    for at in range(len(request)):
        ends.far.sendall(request[at : at + 1])
        assert ends.open_step() == (at + 1 == len(request))


def test_given_another_origin_than_those_allowed_then_the_page_is_refused() -> None:
    with WireEnds(wire(allowed_origins=("https://app.example",))) as ends:
        ends.far.sendall(UPGRADE % b"Origin: https://evil.example\r\n")
        with pytest.raises(WireFault, match="origin not allowed"):
            ends.open_step()
        assert ends.wire.to_send().startswith(b"HTTP/1.1 403 ")
