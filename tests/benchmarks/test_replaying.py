"""Replaying and reading: anything that was not kept, but arrives, is an error."""

import struct
from collections.abc import Callable

import pytest

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import Course, Journal, Keeper, Stream
from benchmarks.reading import check
from benchmarks.replaying import Intake
from benchmarks.wire import PING, message, payload_of

Message = Callable[[int], bytes]  # the bytes of one with this number
PAYLOAD = payload_of(20)
MANY = 5000


class Wire(Connection):
    """A connection without a socket: gives what it was made with, in pieces."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sent = b""

    def send(self, data: bytes | memoryview) -> None:
        self.sent += data

    def receive(self, size: int = 65536) -> bytes:
        if not self.data:
            raise BenchmarkError("the server closed the connection")
        taken, self.data = self.data[: min(size, 1000)], self.data[min(size, 1000) :]
        return taken

    def discard(self, scratch: bytearray, size: int) -> int:
        return len(self.receive(min(size, len(scratch))))


def ours(number: int) -> bytes:
    return message("netstring", b"bench.x", b"1", number, PAYLOAD)


def jetstreams(number: int) -> bytes:
    words = (number, number, 10**18, MANY - number, len(PAYLOAD), PAYLOAD)
    return b"MSG bench.x 1 $JS.ACK.BENCH.C.1.%d.%d.%d.%d %d\r\n%b\r\n" % words


KEEPERS = [(Journal("netstring"), ours), (Stream(), jetstreams)]
both = pytest.mark.parametrize(("keeper", "one"), KEEPERS, ids=["journal", "jetstream"])


def replay(keeper: Keeper, messages: list[bytes]) -> Course:
    """Read these messages as a replay of 1..MANY."""
    course = keeper.course(PAYLOAD, MANY)
    wire = Wire(b"".join(messages))
    intake = Intake(wire, course)
    intake.run()
    assert wire.sent == course.opening
    intake.verify(keeper, PAYLOAD, MANY)
    return course


@both
def test_given_all_messages_when_replayed_then_their_length_is_the_courses(
    keeper: Keeper, one: Message
) -> None:
    messages = [one(number) for number in range(1, MANY + 1)]
    assert replay(keeper, messages).length == len(b"".join(messages))


@both
@pytest.mark.parametrize("place", [0, 2500, MANY - 1])
def test_given_a_ping_of_the_servers_own_when_replayed_then_it_is_no_error(
    keeper: Keeper, one: Message, place: int
) -> None:
    messages = [one(number) for number in range(1, MANY + 1)]
    replay(keeper, [*messages[:place], PING, *messages[place:]])


@both
@pytest.mark.parametrize("lost", [0, 2500, MANY - 2])
def test_given_a_message_that_is_missing_when_replayed_then_it_is_an_error(
    keeper: Keeper, one: Message, lost: int
) -> None:
    messages = [one(number) for number in range(1, MANY + 1)]
    with pytest.raises(BenchmarkError, match=r"came|numbers"):
        replay(keeper, messages[:lost] + messages[lost + 1 :])


@both
@pytest.mark.parametrize("place", [100, MANY - 100])
def test_given_two_messages_in_the_wrong_order_when_replayed_then_it_is_an_error(
    keeper: Keeper, one: Message, place: int
) -> None:
    messages = [one(number) for number in range(1, MANY + 1)]
    messages[place : place + 2] = messages[place + 1], messages[place]
    with pytest.raises(BenchmarkError, match="numbers"):
        replay(keeper, messages)


def chunk(numbers: list[int], payloads: bytes) -> bytes:
    """Make a chunk that holds only what `check` reads."""
    column = struct.pack(f"<{len(numbers)}q", *numbers)
    places = [0] * 20
    places[0:2] = 96, len(column)
    places[18:20] = 96 + len(column), len(payloads)
    head = struct.pack("<4s3I20I", b"SQC1", len(numbers), 0, 10, *places)
    return head + column + payloads


def test_given_a_right_chunk_when_checked_then_it_passes() -> None:
    check(chunk([5, 6, 7], PAYLOAD * 3), 5, PAYLOAD)


@pytest.mark.parametrize(
    "wrong",
    [
        chunk([5, 6, 8], PAYLOAD * 3),
        chunk([5, 6], PAYLOAD),
        chunk([4, 5], PAYLOAD * 2),
        b"SQC2" + chunk([5], PAYLOAD)[4:],
    ],
    ids=["a gap", "a payload short", "another first", "another magic"],
)
def test_given_a_wrong_chunk_when_checked_then_it_is_an_error(wrong: bytes) -> None:
    with pytest.raises(BenchmarkError, match="a chunk"):
        check(wrong, 5, PAYLOAD)
