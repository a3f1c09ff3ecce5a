"""Replaying and reading: anything that was not kept, but arrives, is an error."""

import struct
from collections.abc import Callable

import pytest

from benchmarks.connection import Connection
from benchmarks.consuming import PULL, STATUS_BEGINS, Acking, Client, Flowing
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


def status(lines: bytes, reply: bytes = b"") -> bytes:
    header = b"NATS/1.0 100 %b\r\n\r\n" % lines
    return b"%b%b%d %d\r\n%b\r\n" % (STATUS_BEGINS, reply, len(header), len(header), header)


REQUEST = status(b"FlowControl Request", b"$JS.FC.BENCH.C.abc ")
STALL = status(b"Idle Heartbeat\r\nNats-Last-Stream: 7\r\nNats-Consumer-Stalled: $JS.FC.BENCH.C.x")
HEARTBEAT = status(b"Idle Heartbeat\r\nNats-Last-Consumer: 9\r\nNats-Last-Stream: 9")


def consume(answering: Acking | Flowing, messages: list[bytes]) -> bytes:
    """Read these messages as a consumer's client, and return what it sends after its request."""
    stream = Stream()
    course = stream.course(PAYLOAD, MANY)
    wire = Wire(b"".join(messages))
    client = Client(wire, course, answering)
    client.run()
    client.verify(stream, PAYLOAD, MANY)
    return wire.sent.removeprefix(course.opening)


@pytest.mark.parametrize("place", [0, 1, 2500, MANY - 1])
def test_given_statuses_among_messages_when_consumed_then_they_are_answered_and_not_counted(
    place: int,
) -> None:
    messages = [jetstreams(number) for number in range(1, MANY + 1)]
    statuses = [REQUEST, HEARTBEAT, STALL, REQUEST]
    sent = consume(Flowing(), [*messages[:place], *statuses, *messages[place:]])
    subjects = [b"$JS.FC.BENCH.C.abc", b"$JS.FC.BENCH.C.x", b"$JS.FC.BENCH.C.abc"]
    assert sent == b"".join(b"PUB %b 0\r\n\r\n" % one for one in subjects)


@pytest.mark.parametrize("cut", range(len(REQUEST) + 1))
def test_given_a_status_in_two_pieces_when_taken_then_only_the_messages_are_left(cut: int) -> None:
    flowing = Flowing()
    first = flowing.take(jetstreams(1) + REQUEST[:cut])
    second = flowing.take(REQUEST[cut:] + jetstreams(2))
    assert first[0] + second[0] == jetstreams(1) + jetstreams(2)
    assert first[1] + second[1] == b"PUB $JS.FC.BENCH.C.abc 0\r\n\r\n"
    assert flowing.statuses == 1


def test_given_messages_when_consumed_with_acks_then_each_is_acked_once_and_more_is_asked_for() -> (
    None
):
    sent = consume(Acking(), [jetstreams(number) for number in range(1, MANY + 1)])
    assert sent.count(PULL) == MANY // 500
    acks = [
        b"PUB $JS.ACK.BENCH.C.1.%d.%d.%d.%d 4\r\n+ACK\r\n" % (number, number, 10**18, MANY - number)
        for number in range(1, MANY + 1)
    ]
    assert sent.replace(PULL, b"") == b"".join(acks)


@pytest.mark.parametrize("answering", [Acking, Flowing])
@pytest.mark.parametrize("wrong", [0, 2500, MANY - 2])
def test_given_a_message_twice_and_another_missing_when_consumed_then_it_is_an_error(
    answering: type[Acking] | type[Flowing], wrong: int
) -> None:
    messages = [jetstreams(number) for number in range(1, MANY + 1)]
    del messages[wrong]
    with pytest.raises(BenchmarkError, match=r"came|numbers|closed"):
        consume(answering(), messages)


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
