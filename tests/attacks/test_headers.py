"""Gigantic headers, and headers whose sizes lie."""

from pathlib import Path

from tests.attacks.beside import beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.support.depth import depth
from tests.support.raw import HEADERS, QUIET, RawClient

TIMES = depth(40, 400)
LARGEST = 1 << 20
HEAD, TAIL = b"NATS/1.0\r\n", b"\r\n\r\n"
LIES = (
    b"HPUB mallory.x 12 5\r\nNATS/1.0\r\n\r\n\r\n",
    b"HPUB mallory.x 99999999999999999999 99999999999999999999\r\n",
    b"HPUB mallory.x -5 5\r\nhello\r\n",
    b"HPUB mallory.x 4294967301 5\r\nhello\r\n",
    b"HPUB mallory.x 12 18446744073709551614\r\n",
    b"HPUB mallory.x 12 1048577\r\n",
    b"HPUB mallory.x 12\r\n",
    b"HPUB mallory.x reply more 12 12\r\n",
    b"HPUB mallory.x 12 14\r\nNATS/1.0\r\n\r\nhello\r\n",
)
TAKEN = (
    b"",
    b"no version at all",
    b"NATS/9.9\r\nNats-Msg-Id: \r\n",
    b"NATS/1.0\r\nNats-Msg-Id:" + b" " * 5000,
    b"NATS/1.0\r\nNats-Msg-Id: endless",
    b"NATS/1.0\r\nNats-Trace-Dest: mallory.trace\r\nNats-Trace-Only: t\xff\r\n\r\n",
    b"\r\nNats-Msg-Id:\r\nNats-Msg-Id:\r\n",
    b"\x00" * 100,
)


def huge() -> list[bytes]:
    """Headers as large as a message may be."""
    room = LARGEST - len(HEAD + TAIL)
    return [
        HEAD + b"Nats-Msg-Id: " + b"i" * (room - 13) + TAIL,
        HEAD + (b"\r\nNats-Msg-Id" * room)[:room] + TAIL,
        HEAD + (b"Nats-Trace-Dest" * room)[:room] + TAIL,
        HEAD + (b"a:b\r\n" * room)[:room] + TAIL,
        HEAD + b":" * room + TAIL,
    ]


def hpub(headers: bytes, payload: bytes = b"") -> bytes:
    size = len(headers)
    total = size + len(payload)
    return b"HPUB mallory.x %d %d\r\n%b%b\r\n" % (size, total, headers, payload)


def test_given_headers_of_a_megabyte_when_published_then_they_arrive_as_they_are(
    tmp_path: Path,
) -> None:
    with (
        beside(tmp_path) as broker,
        RawClient(broker.port, HEADERS, b"SUB mallory.> 1\r\n") as able,
        RawClient(broker.port, QUIET, b"SUB mallory.> 1\r\n") as plain,
    ):
        able.ask(b""), plain.ask(b"")
        for headers in huge():
            for _ in range(TIMES // 10):
                with RawClient(broker.port, HEADERS) as mallory:
                    mallory.ask(hpub(headers, b""))
            got = able.ask(b"")
            assert {one.header for one in got} == {headers}
            assert {one.payload for one in plain.ask(b"")} == {b""}


def test_given_sizes_that_lie_when_published_then_only_their_connections_are_closed(
    tmp_path: Path,
) -> None:
    with beside(tmp_path) as broker:
        for _ in range(TIMES):
            with crowd(broker.port, len(LIES)) as clients:
                for one, lie in zip(clients, LIES, strict=True):
                    one.send(HEADERS + lie + b"PING\r\n")
                until(clients, lambda one: one.closed)
                assert not any(b"PONG" in one.heard for one in clients)


def test_given_headers_that_are_none_when_published_then_they_arrive_unchanged(
    tmp_path: Path,
) -> None:
    with (
        beside(tmp_path) as broker,
        RawClient(broker.port, HEADERS, b"SUB mallory.> 1\r\n") as reader,
        crowd(broker.port, 4) as clients,
    ):
        reader.ask(b"")
        got = [one.header for one in reader.ask(b"".join(hpub(one, b"x") for one in TAKEN))]
        assert got == list(TAKEN)
        send_all(clients, HEADERS + b"".join(map(hpub, TAKEN)) * 2000 + b"PING\r\n")
        until(clients, is_answered)
