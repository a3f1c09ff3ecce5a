"""The benchmark's programs in C: built once, told to go, and strict about what they count."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import process
from benchmarks.errors import BenchmarkError
from benchmarks.programs import Program, built
from benchmarks.servers import GROUP
from benchmarks.wire import body, payload_of

FIRST = 10**9  # the floor's first number
HERE = socket.inet_aton("127.0.0.1")


def speaker(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, HERE)
    made.connect((GROUP, port))
    return made


def ear(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((GROUP, port))
    made.settimeout(30)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + HERE)
    return made


def heard(*datagrams: bytes) -> dict[str, float]:
    """What the listener says when these have come."""
    port = process.free_port(socket.SOCK_DGRAM)
    with Program("listener", GROUP, port) as listener, speaker(port) as out:
        for datagram in datagrams:
            out.send(datagram)
        return listener.run()


def frames(*numbers: int) -> list[bytes]:
    return [body("netstring", number, b"hello, world") for number in numbers]


def test_given_a_program_when_built_again_then_it_is_the_one_that_is_there(tmp_path: Path) -> None:
    first = built("floor", tmp_path)
    made_at = first.stat().st_mtime_ns
    assert built("floor", tmp_path) == first
    assert first.stat().st_mtime_ns == made_at
    assert list(tmp_path.iterdir()) == [first]


def test_given_no_compiler_when_a_program_is_wanted_then_the_remedy_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchmarkError, match="install gcc"):
        built("floor", tmp_path / "empty")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("listener", "nowhere", 9), "nowhere: not an IPv4 address"),
        (("listener", GROUP, "x9"), "x9: not a number from 1 to 65535"),
        (("floor", GROUP, 9, 10, 3000, 64, 1, 0), "more than one message may have"),
        (("clients", 9, 1, 10, 16, 2, "recv"), "recv, with a window of 1"),
        (("paced", 9, 4, 1, 10, 100, 11, 17), "11: not a number from 1 to 10"),
        (("paced", 9, 4, 1, 10, 100, 1, 16), "16: not a number from 17"),
        (("requests", 9, 0, 10, 16), "0: not a number from 1"),
        (("broker_floor", 9, 1), "1: not a number from 512"),
        (("broker_floor", 9, 512, "/nowhere/journal"), "cannot make /nowhere/journal"),
    ],
)
def test_given_words_that_cannot_be_when_started_then_its_own_words_are_shown(
    words: Sequence[str], said: str
) -> None:
    with pytest.raises(BenchmarkError, match=said):
        Program(*words).__enter__()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("clients", (1, 10, 16, 1, "recv")),
        ("paced", (4, 1, 10, 100, 1, 17)),
        ("requests", (1, 10, 16)),
    ],
)
def test_given_no_listener_when_clients_are_started_then_their_own_words_are_shown(
    name: str, words: Sequence[str]
) -> None:
    with socket.socket() as unused:  # bound, so that nobody else listens there
        unused.bind(("127.0.0.1", 0))
        words = (name, unused.getsockname()[1], *words)
        with pytest.raises(BenchmarkError, match="cannot connect: Connection refused"):
            Program(*words).__enter__()


@pytest.mark.parametrize(("segments", "packed"), [(1, 1), (1, 3), (7, 1), (5, 2)])
@pytest.mark.parametrize("size", [0, 128])
def test_given_the_floor_when_it_has_sent_then_its_datagrams_are_frames(
    segments: int, packed: int, size: int
) -> None:
    port = process.free_port(socket.SOCK_DGRAM)
    words = (GROUP, port, 100, size, segments, packed, 0)
    with Program("floor", *words) as floor, ear(port) as listener:
        assert floor.run()["seconds"] > 0
        data = [listener.recv(65536) for _ in range(-(-100 // packed))]
    payload = payload_of(size)
    assert b"".join(data) == b"".join(body("netstring", FIRST + n, payload) for n in range(100))
    assert {one.count(b":10:") for one in data[:-1]} == {packed}


def test_given_the_floor_with_a_rate_when_it_sends_then_it_is_not_faster() -> None:
    port = process.free_port(socket.SOCK_DGRAM)
    with Program("floor", GROUP, port, 200, 16, 1, 1, 2000) as floor:
        assert floor.run()["seconds"] >= 0.1


def test_given_frames_with_holes_when_heard_then_what_is_missing_is_counted() -> None:
    counts = heard(*frames(3, 4, 7), b"".join(frames(8, 9, 11)))
    del counts["cpu"]
    assert counts == {"datagrams": 4, "messages": 6, "missing": 3, "first": 3, "last": 11}


@pytest.mark.parametrize(
    "wrong",
    [b"x", b"8:1:1,0:,", b"9:1:1,0:,,", b"9:1:1,3:abc,", b"8:2:1,0:,,", b"4:1:1,,", b"99:1:1,"],
    ids=["a letter", "cut", "too long", "no end", "digits", "no payload", "too short"],
)
def test_given_input_that_is_no_frame_when_heard_then_it_is_an_error(wrong: bytes) -> None:
    with pytest.raises(BenchmarkError, match="is not frames"):
        heard(*frames(1), wrong)


def test_given_an_empty_datagram_when_heard_then_it_holds_no_message() -> None:
    counts = heard(b"", *frames(1))
    assert (counts["datagrams"], counts["messages"]) == (2, 1)


def test_given_a_number_again_when_heard_then_it_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="the number 2 came after 2"):
        heard(*frames(1, 2, 2))
