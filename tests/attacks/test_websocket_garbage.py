"""A WebSocket listener: what is no request, frames that lie, and frames that never end."""

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attacks.beside import Attacked, beside
from tests.attacks.crowd import Dialled, crowd, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth

COUNT = depth(150, 2000)
FLOOD = depth(100_000, 3_000_000)  # frames, or three times as many
FLOODING = 30
WEB = ("--websocket_port", "-1", "--websocket_handshake_timeout", "1s")
LOG_LINES = 60
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: broker\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MASK = bytes(4)  # so a payload stays as it is
BINARY, PING = b"\x82", b"\x89"
NO_REQUESTS = (
    b"CONNECT {}\r\nPING\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    b"GET /" + b"x" * 40_000,
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 4000,
    UPGRADE.replace(b"websocket", b"h2c"),
    UPGRADE.replace(b": 13", b": \x1b[2J"),
    UPGRADE[:-3],
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"\x00" * 5000,
    b"",
)
LIES = (
    b"\x82\x05hello",  # without a mask
    b"\x82\xff" + struct.pack("!Q", (1 << 63) - 1) + MASK,
    b"\x82\xff" + struct.pack("!Q", 1 << 63) + MASK,
    b"\xc2\x85" + MASK + b"hello",  # a reserved bit
    b"\x83\x85" + MASK + b"hello",  # an opcode that there is not
    b"\x80\x85" + MASK + b"hello",  # the rest of nothing
    b"\x02\x85" + MASK + b"hello\x82\x85" + MASK + b"hello",  # a message amid another
    b"\x89\xfe\x00\x7e" + MASK + bytes(126),  # a PING that is too long
    b"\x09\x80" + MASK,  # and one in pieces
    b"\x88\x81" + MASK + b"x",
    b"\x82\x8b" + MASK + b"NO SUCH\r\n\r\n",
)


def frame(payload: bytes, head: bytes = BINARY) -> bytes:
    size = len(payload)
    if size < 126:
        return head + bytes([0x80 | size]) + MASK + payload
    return head + b"\xff" + struct.pack("!Q", size) + MASK + payload


@contextmanager
def web(port: int, count: int, upgraded: bool = True) -> Iterator[list[Dialled]]:
    """So many connections, whose handshakes are over."""
    made = [Dialled(port) for _ in range(count)]
    try:
        if upgraded:
            send_all(made, UPGRADE)
            until(made, lambda one: b"INFO {" in one.heard)
        yield made
    finally:
        for one in made:
            one.socket.close()


def port_of(broker: Attacked) -> int:
    lines = "\n".join(broker.process.log)
    found = re.search(r"Listening for websocket clients on \S*:(\d+)", lines)
    assert found is not None, lines
    return int(found[1])


def test_given_garbage_where_a_request_is_awaited_when_sent_then_each_is_closed(
    tmp_path: Path,
) -> None:
    with (
        beside(tmp_path, "", *WEB) as broker,
        web(port_of(broker), COUNT, upgraded=False) as clients,
    ):
        for at, one in enumerate(clients):
            send_all([one], NO_REQUESTS[at % len(NO_REQUESTS)])
        until(clients, lambda one: one.closed)
        assert not any(b" 101 " in one.heard for one in clients)
        assert len(broker.process.log) < LOG_LINES


def test_given_frames_that_lie_when_sent_then_only_their_connections_are_closed(
    tmp_path: Path,
) -> None:
    with beside(tmp_path, "", *WEB) as broker, web(port_of(broker), COUNT) as clients:
        for at, one in enumerate(clients):
            one.send(frame(b"CONNECT {}\r\n") + LIES[at % len(LIES)])
        until(clients, lambda one: one.closed)
        broker.until(lambda varz: varz["connections"] == 2)
        assert len(broker.process.log) < LOG_LINES


@pytest.mark.parametrize(
    "flood",
    [
        frame(b"x" * 100, PING),
        frame(b"", b"\x00"),
        frame(b"P", b"\x00") + frame(b"", PING) + frame(b"ING\r\n", b"\x00"),
    ],
    ids=["pings", "empty fragments", "fragments with pings"],
)
def test_given_frames_in_a_flood_when_nobody_reads_the_answers_then_memory_is_bounded(
    tmp_path: Path, flood: bytes
) -> None:
    """A newer PONG replaces an older one that was not sent."""
    begin = frame(b"CONNECT {}\r\n") + frame(b"", b"\x02")
    with (
        beside(tmp_path, "", *WEB, limits={"max_pending": MIB}, peak=64 * MIB) as broker,
        web(port_of(broker), FLOODING) as clients,
    ):
        send_all(clients, begin + flood * (FLOOD // FLOODING), reading=False)
        done = b"PING_AT_THE_END\r\nSUB a..b 1\r\n"
        send_all(clients, frame(done, b"\x80"))
        until(clients, lambda one: one.closed or b"Invalid Subject" in one.heard)


def test_given_frames_that_never_end_when_hundreds_send_them_then_memory_is_bounded(
    tmp_path: Path,
) -> None:
    """Of all together so much is kept; those above are closed, and come again in vain."""
    unfinished = b"\x82\xff" + struct.pack("!Q", 7 * MIB) + MASK + bytes(6 * MIB)
    with beside(tmp_path, "", *WEB, peak=400 * MIB) as broker:
        with web(port_of(broker), depth(60, 120)) as clients:
            send_all(clients, unfinished)
            assert broker.varz()["connections"] > 2
        broker.until(lambda varz: varz["connections"] == 2)
        with crowd(broker.port, 10):
            assert broker.varz()["connections"] == 12
