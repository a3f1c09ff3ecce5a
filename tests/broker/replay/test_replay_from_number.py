"""The past, requested over a socket: replay, its ends, its losses, and what is refused."""

import json
import re
from collections.abc import Iterator

import pytest

from seriatim.client.chunk_columns import Columns
from testkit.model_frame import split_frame
from tests.support.processes import SeriatimServer, ServerProcess
from tests.support.raw import HEADERS, QUIET, Operation, RawClient

SUBJECTS = (b"a.x", b"a.y", b"b.x")
KEPT = 12  # messages that the broker below has kept, on these subjects in turn


@pytest.fixture(scope="module")
def kept() -> Iterator[ServerProcess]:
    """A broker that was started again behind some messages."""
    with SeriatimServer("netstring") as broker:
        with RawClient(broker.port, HEADERS) as client:
            for number in range(1, KEPT + 1):
                subject = SUBJECTS[number % 3]
                assert client.ask(b"PUB %b 2\r\n%02d\r\n" % (subject, number)) == []
        broker.restart()
        yield broker


def numbers(client: RawClient, count: int, sid: bytes = b"1") -> list[int]:
    """The numbers of the next messages, whose payload says the same number."""
    found = []
    for _ in range(count):
        message = client.operation()
        assert (message.verb, message.sid) == ("MSG", sid), message
        number, payload = split_frame(message.payload)
        assert int(payload) == number
        assert message.subject == SUBJECTS[number % 3]
        found.append(number)
    return found


def until_end(client: RawClient) -> list[Operation]:
    """What comes before the end of a range."""
    found: list[Operation] = []
    while not (last := client.operation()).subject.startswith(b"$SEQ.END."):
        found.append(last)
    assert (last.payload, last.reply) == (b"", b"")
    return found


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        (b"$SEQ.FROM.1.>", list(range(1, 13))),
        (b"$SEQ.FROM.5.>", list(range(5, 13))),
        (b"$SEQ.FROM.5.a.*", [6, 7, 9, 10, 12]),
        (b"$SEQ.FROM.12.a.x", [12]),
        (b"$SEQ.FROM.1.c", []),
        (b"$SEQ.SINCE.0.b.x", [2, 5, 8, 11]),
        (b"$SEQ.LAST.>", [10, 11, 12]),
        (b"$SEQ.LAST.a.*", [10, 12]),
        (b"$SEQ.LAST.b.x", [11]),
        (b"$SEQ.LAST.c", []),
    ],
)
def test_given_the_past_when_asked_for_then_it_comes_once_and_then_what_is_live(
    subject: bytes, wanted: list[int]
) -> None:
    with SeriatimServer("netstring") as broker, RawClient(broker.port, QUIET) as client:
        for number in range(1, KEPT + 1):
            client.send(b"PUB %b 2\r\n%02d\r\n" % (SUBJECTS[number % 3], number))
        client.send(b"SUB %b 1\r\n" % subject)
        assert numbers(client, len(wanted)) == wanted
        for number in range(KEPT + 1, KEPT + 4):
            client.send(b"PUB %b 2\r\n%02d\r\n" % (SUBJECTS[number % 3], number))
        filter = subject.split(b".", 2 if b".LAST." in subject else 3)[-1]
        live = {b">": [13, 14, 15], b"a.*": [13, 15], b"a.x": [15], b"b.x": [14], b"c": []}
        assert numbers(client, len(live[filter])) == live[filter]
        assert client.ask(b"") == []


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (b"RANGE.1.12.>", list(range(1, 13))),
        (b"RANGE.4.6.>", [4, 5, 6]),
        (b"RANGE.4.4.>", [4]),
        (b"RANGE.4.8.a.>", [4, 6, 7]),
        (b"RANGE.4.8.c", []),
    ],
)
def test_given_a_range_when_asked_for_then_it_ends_and_the_subscription_with_it(
    kept: ServerProcess, request_: bytes, wanted: list[int]
) -> None:
    with RawClient(kept.port, QUIET) as client:
        client.send(b"SUB $SEQ.%b 7\r\n" % request_)
        found = until_end(client)
        assert [split_frame(one.payload)[0] for one in found] == wanted
        assert {one.sid for one in found} <= {b"7"}
        client.send(b"SUB $SEQ.RANGE.2.2.> 7\r\n")
        assert [split_frame(one.payload)[0] for one in until_end(client)] == [2], "sid 7 is free"


def test_given_a_range_into_the_future_when_the_last_number_is_given_then_it_ends() -> None:
    with SeriatimServer("netstring") as broker, RawClient(broker.port, QUIET) as client:
        client.send(b"SUB $SEQ.RANGE.1.3.> 1\r\n")
        assert client.ask(b"") == []
        client.send(b"PUB a 1\r\n1\r\n" * 2)
        assert [client.operation().subject for _ in range(2)] == [b"a", b"a"]
        assert client.ask(b"") == []
        client.send(b"PUB a 1\r\n1\r\n" * 2)
        assert [client.operation().subject for _ in range(2)] == [b"a", b"$SEQ.END.3"]
        assert client.ask(b"") == []


def test_given_a_time_when_asked_for_then_what_was_published_before_it_does_not_come(
    kept: ServerProcess,
) -> None:
    with RawClient(kept.port, HEADERS) as client:
        (answer,) = columns(client, b'{"from": 1}')
        times = list(answer.times)
        for at in (0, 5, 11):
            ms = times[at] // 1_000_000 + 1
            wanted = [number for number, time in enumerate(times, 1) if time >= ms * 1_000_000]
            client.send(b"SUB $SEQ.SINCE.%d.> %d\r\n" % (ms, at))
            assert numbers(client, len(wanted), b"%d" % at) == wanted
            assert client.ask(b"UNSUB %d\r\n" % at) == []


@pytest.mark.parametrize("frame", ["netstring", "header", "stamp", "none"])
def test_given_a_message_with_headers_and_a_reply_when_replayed_then_it_is_as_it_was_live(
    kept: ServerProcess, frame: str
) -> None:
    head = b"NATS/1.0\r\nA: b\r\n\r\n"
    connect = b'CONNECT {"verbose":false,"headers":%b,"frame":"%b"}\r\n'
    with SeriatimServer("netstring") as broker:
        for headers in (b"true", b"false"):
            with RawClient(broker.port, connect % (headers, frame.encode())) as client:
                assert client.ask(b"SUB a 1\r\n") == []
                with RawClient(broker.port, HEADERS) as other:
                    other.send(
                        b"HPUB a answers %d %d\r\n%bhi\r\n" % (len(head), len(head) + 2, head)
                    )
                    other.send(b"PUB a answers 2\r\nho\r\n")
                    assert other.ask(b"") == []
                live = client.ask(b"")
                client.send(b"UNSUB 1\r\nSUB $SEQ.RANGE.1.2.a 1\r\n")
                past = until_end(client)
        assert len(live) == 2
        assert [_without_numbers(one, frame) for one in past] == [
            _without_numbers(one, frame) for one in live
        ]


def _without_numbers(message: Operation, frame: str) -> tuple[object, ...]:
    """What is the same of two messages that differ in their numbers."""
    payload = message.payload
    if frame == "netstring":
        payload = split_frame(payload)[1]
    header = re.sub(rb"Nats-(Sequence: \d+|Time-Stamp: \S+)", b"", message.header)
    return message.verb, message.subject, message.reply, header, payload


def test_given_a_client_that_does_not_hear_itself_when_it_asks_for_the_past_then_neither() -> None:
    quiet = b'CONNECT {"verbose":false,"echo":false}\r\n'
    with (
        SeriatimServer("none") as broker,
        RawClient(broker.port, quiet) as client,
        RawClient(broker.port, QUIET) as other,
    ):
        assert client.ask(b"PUB a 3\r\nown\r\n") == []
        assert other.ask(b"PUB a 5\r\nother\r\n") == []
        client.send(b"SUB $SEQ.RANGE.1.2.> 1\r\n")
        assert [one.payload for one in until_end(client)] == [b"other"]


def test_given_a_maximum_when_replayed_then_past_and_present_count(kept: ServerProcess) -> None:
    with SeriatimServer("none") as broker, RawClient(broker.port, QUIET) as client:
        client.send(b"PUB a 1\r\n1\r\n" * 3)
        client.send(b"SUB $SEQ.FROM.2.a 1\r\nUNSUB 1 3\r\n")
        assert len(client.ask(b"")) <= 2
        client.send(b"PUB a 1\r\n1\r\n" * 3)
        assert client.ask(b"SUB $SEQ.RANGE.1.1.> 2\r\n") is not None
        client.send(b"SUB $SEQ.RANGE.6.6.> 3\r\n")
        until_end(client)
    with RawClient(kept.port, QUIET) as client:
        client.send(b"SUB $SEQ.FROM.1.> 1\r\nUNSUB 1 2\r\n")
        assert numbers(client, 2) == [1, 2]
        client.send(b"SUB $SEQ.RANGE.1.1.> 2\r\n")
        assert numbers(client, 1, b"2") == [1]


REFUSED = b"'Permissions Violation for Subscription to \"%b\": %b'"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            b"$SEQ.FROM.0.> 1",
            REFUSED % (b"$SEQ.FROM.0.>", b"0 is not a valid message number; the fi"),
        ),
        (b"$SEQ.FROM.5 1", REFUSED % (b"$SEQ.FROM.5", b"write $SEQ.FROM.<number>.<subject>, suc")),
        (b"$SEQ.RANGE.5.1.> 1", REFUSED % (b"$SEQ.RANGE.5.1.>", b"5 is above 1; write the smalle")),
        (b"$SEQ.FROM.1.$SEQ.> 1", REFUSED % (b"$SEQ.FROM.1.$SEQ.>", b"subjects below $SEQ. are")),
        (b"$SEQ.FROM.1.> q 1", REFUSED % (b"$SEQ.FROM.1.>", b"a replay cannot be shared in a qu")),
        (b"$SEQ.INFO 1", b"'Permissions Violation for Subscription to \"$SEQ.INFO\"'"),
        (b"$SEQ.> 1", b"'Permissions Violation for Subscription to \"$SEQ.>\"'"),
    ],
)
def test_given_a_request_that_cannot_be_when_made_then_it_is_refused_and_the_client_stays(
    kept: ServerProcess, line: bytes, error: bytes
) -> None:
    with RawClient(kept.port, QUIET) as client:
        (said,) = client.ask(b"SUB %b\r\n" % line)
        assert said.verb == "-ERR"
        assert said.text.startswith(error.removesuffix(b"'"))
        client.send(b"SUB $SEQ.RANGE.3.3.> 1\r\n")
        assert numbers(client, 1) == [3]


def test_given_a_verbose_client_when_it_asks_for_the_past_then_it_hears_ok_first(
    kept: ServerProcess,
) -> None:
    with RawClient(kept.port, b"CONNECT {}\r\nSUB $SEQ.RANGE.3.3.> 1\r\n") as client:
        said = [client.operation() for _ in range(4)]
        assert [one.verb for one in said] == ["+OK", "+OK", "MSG", "MSG"]


def test_given_what_was_deleted_when_asked_for_then_the_loss_is_reported_first() -> None:
    arguments = ["--segment_bytes", "64KiB", "--retain_bytes", "256KiB"]
    with (
        SeriatimServer("none", arguments=arguments) as broker,
        RawClient(broker.port, HEADERS) as client,
    ):
        for _ in range(100):
            client.send(b"PUB a 10000\r\n" + b"x" * 10_000 + b"\r\n")
        assert client.ask(b"") == []
        assert broker.await_line("Journal: deleted")
        while json.loads(ask(client, b"$SEQ.INFO")[0].payload)["bytes"] > 256 << 10:
            pass  # some may have been deleted before all was published; the rest goes as well
        client.send(b"SUB $SEQ.FROM.1.a 1\r\n")
        event = client.operation()
        first, last = (int(word) for word in event.subject.split(b".")[2:])
        assert event.subject.startswith(b"$SEQ.LOST.")
        assert first == 1
        assert 60 < last < 100
        got = [client.operation() for _ in range(100 - last)]
        assert {one.subject for one in got} == {b"a"}
        assert client.ask(b"") == []
        client.send(b"SUB $SEQ.RANGE.2.3.> 2\r\n")
        assert [one.subject for one in until_end(client)] == [b"$SEQ.LOST.2.3"]
        (answer,) = ask(client, b"$SEQ.GET.1")
        assert answer.header == b"NATS/1.0 404 Message 1 is not retained\r\n\r\n"
        info = json.loads(ask(client, b"$SEQ.INFO")[0].payload)
        assert info["first"] == last + 1


def ask(client: RawClient, subject: bytes, payload: bytes = b"") -> list[Operation]:
    """The first answer to a request."""
    size = b"%d" % len(payload)
    client.send(b"SUB answers 99\r\nPUB %b answers %b\r\n%b\r\n" % (subject, size, payload))
    return [client.operation()]


def columns(client: RawClient, payload: bytes) -> list[Columns]:
    """All answers to `$SEQ.READ`."""
    client.send(b"SUB answers 99\r\n")
    client.send(b"PUB $SEQ.READ answers %d\r\n%b\r\n" % (len(payload), payload))
    chunks = []
    while True:
        answer = client.operation()
        assert b"Seriatim-Next: " in answer.header, answer.header
        chunks.append(Columns(answer.payload))
        if b"Seriatim-Last: 1\r\n" in answer.header:
            return chunks


@pytest.mark.parametrize("count", [200, 70_000])
def test_given_many_messages_when_read_in_chunks_then_every_one_is_there(count: int) -> None:
    with SeriatimServer("none") as broker, RawClient(broker.port, HEADERS) as client:
        for start in range(0, count, 1000):
            client.send(b"".join(b"PUB a 8\r\n%08d\r\n" % at for at in range(start, start + 1000)))
        assert client.ask(b"") == []
        total = -(-count // 1000) * 1000
        chunks = columns(client, b'{"from": 1, "chunk_bytes": 65536, "max_bytes": 100000000}')
        found = [number for chunk in chunks for number in chunk.numbers]
        assert found == list(range(1, total + 1))
        payloads = b"".join(bytes(row.payload) for chunk in chunks for row in chunk)
        assert payloads == b"".join(b"%08d" % at for at in range(total))


@pytest.mark.parametrize("ring", ["16MiB", "0"])
def test_given_no_journal_when_the_past_is_asked_for_then_only_a_ring_has_it(ring: str) -> None:
    arguments = ["--no-journal", "--ring_bytes", ring]
    with (
        SeriatimServer("none", arguments=arguments) as broker,
        RawClient(broker.port, HEADERS) as client,
    ):
        client.send(b"PUB a 1\r\n1\r\n" * 3)
        if ring == "0":
            (said,) = client.ask(b"SUB $SEQ.FROM.1.> 1\r\n")
            assert said.text.endswith(b"this broker keeps no messages'")
            (answer,) = ask(client, b"$SEQ.READ", b'{"from":1}')
            assert answer.header.startswith(b"NATS/1.0 404 ")
        else:
            client.send(b"SUB $SEQ.RANGE.2.3.> 1\r\n")
            assert len(until_end(client)) == 2
            (answer,) = ask(client, b"$SEQ.GET.3")
            assert answer.payload == b"1"
            (chunk,) = columns(client, b'{"from": 2}')
            assert list(chunk.numbers) == [2, 3]
        info = json.loads(ask(client, b"$SEQ.INFO")[0].payload)
        assert (info["store"], info["last"]) == ("none" if ring == "0" else "memory", 3)
