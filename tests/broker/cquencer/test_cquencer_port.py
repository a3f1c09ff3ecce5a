"""cquencer's own port as cquencer has it: one recv is one message, and its number is the answer."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer.netstring import encode_frame
from testkit.model_frame import split_frame
from tests.support.cquencer_clients import Talker, calling, cquencer_of
from tests.support.multicast import Ear, new_group
from tests.support.places import VECTORS
from tests.support.raw import Operation
from tests.support.serving import Broker, Client, feed_text

CASES = VECTORS / "cq_session.json"
# What cquencer made wrong of a NUL: one at the end is sendr's, all others are the message's.
RIGHT = {
    "sendr 1 char": b"a",
    "embedded NUL": b"abc\0def",
    "leading NUL 2 bytes": b"\0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with calling(tmp_path) as made:
        yield made


def subscriber(broker: Broker, subject: bytes = b">") -> Client:
    client = broker.client()
    client.ask(b"SUB %b 1\r\n" % subject)
    return client


def frames(client: Client) -> list[tuple[int, bytes]]:
    """The numbers and payloads that a subscriber has got by now."""
    return [split_frame(one.payload) for one in client.ask(b"")]


def hear(client: Client, count: int, data: bytes) -> list[Operation]:
    """What the broker says to this, of which some comes late."""
    heard = client.ask(data)
    while len(heard) < count:
        heard += client.ask(b"")
    return heard


def test_given_a_session_recorded_with_cquencer_then_ours_says_the_same(tmp_path: Path) -> None:
    session = json.loads(CASES.read_text())["session"]
    group = new_group()
    with calling(tmp_path, feed_text(group)) as broker, Ear(group) as ear:
        with Talker(broker) as one, Talker(broker) as other:
            for case in session:
                if case["case"] == "other conn query":
                    one.ask(b"number 10, which the recording leaves out")
                    ear.next()
                talker = other if case["case"].startswith("other conn") else one
                answer = talker.ask(bytes.fromhex(case["send_hex"]))
                wanted = [bytes.fromhex(frame) for frame in case["udp_hex"]]
                if case["case"] in RIGHT:
                    wanted = [encode_frame(int(answer), RIGHT[case["case"]])]
                assert b"%d:%b," % (len(answer), answer) == bytes.fromhex(case["tcp_reply_hex"])
                assert ear.take(len(wanted)) == wanted, case["case"]
        assert ear.rest() == []


@pytest.mark.parametrize("byte", [b"\0", b"\n", b"Z", b"\xff"])
def test_given_one_byte_then_it_asks_for_the_last_number_and_is_no_message(
    broker: Broker, byte: bytes
) -> None:
    ear = subscriber(broker)
    with Talker(broker) as one, Talker(broker) as other:
        assert one.ask(byte) == b"0"
        assert other.ask(b"hello") == b"1"
        assert one.ask(byte) == b"1"
        assert (cquencer_of(broker).port.messages, cquencer_of(broker).port.queries) == (1, 2)
    assert frames(ear) == [(1, b"hello")]


def test_given_nuls_then_one_at_the_end_is_no_part_of_the_message_and_all_others_are(
    broker: Broker,
) -> None:
    ear = subscriber(broker)
    sent = [b"a\0", b"ab\0\0", b"\0a", b"\0\0", b"a\0b\0", b"ab"]
    with Talker(broker) as talker:
        assert [talker.ask(message) for message in sent] == [b"%d" % n for n in range(1, 7)]
    got = [payload for _, payload in frames(ear)]
    assert got == [b"a", b"ab\0", b"\0a", b"\0", b"a\0b", b"ab"]


@pytest.mark.parametrize("size", [1464, 1465, 1499, 1500, 1501, 9000, 60_000])
def test_given_a_message_that_is_too_long_for_cquencer_then_it_is_whole(
    broker: Broker, size: int
) -> None:
    ear = subscriber(broker)
    message = random.Random(size).randbytes(size - 1) + b"x"
    with Talker(broker) as talker:
        assert talker.ask(message) == b"1"
    assert frames(ear) == [(1, message)]


def test_given_a_message_above_the_limit_then_it_is_refused_and_the_next_one_is_not(
    tmp_path: Path,
) -> None:
    with calling(tmp_path, limits__max_payload="100") as broker, Talker(broker) as talker:
        assert talker.ask(b"x" * 101) == b"-ERR 'Maximum Payload Violation'"
        assert talker.ask(b"x" * 100) == b"1"
        assert talker.ask(b"x" * 100 + b"\0") == b"2", "the NUL is not the message's"
        assert cquencer_of(broker).port.errors == 1


def test_given_eight_clients_that_wait_for_their_numbers_then_each_is_given_once_and_rises(
    broker: Broker,
) -> None:
    ear = subscriber(broker)
    talkers = [Talker(broker) for _ in range(8)]
    sent: dict[int, bytes] = {}
    got: list[list[int]] = [[] for _ in talkers]
    for turn in range(40):
        for at, talker in enumerate(talkers):
            assert talker.push(b"%d-%d" % (at, turn)) > 0
        for at, talker in enumerate(talkers):
            number = int(talker.hear()[0])
            sent[number] = b"%d-%d" % (at, turn)
            got[at].append(number)
    for talker in talkers:
        talker.close()
    assert sorted(sent) == list(range(1, 8 * 40 + 1))
    assert all(numbers == sorted(numbers) for numbers in got)
    assert frames(ear) == sorted(sent.items())


def test_given_nats_publishers_beside_the_port_then_all_see_one_order(tmp_path: Path) -> None:
    group = new_group()
    with calling(tmp_path, feed_text(group), journal=True) as broker, Ear(group) as far:
        ears = [subscriber(broker), subscriber(broker)]
        publishers = [broker.client(), broker.client()]
        with Talker(broker) as one, Talker(broker) as other:
            numbers = []
            for turn in range(30):
                one.push(b"one %d" % turn)
                publishers[turn % 2].send(b"PUB a 3\r\nabc\r\nPUB b 2\r\nde\r\n")
                other.push(b"other %d" % turn)
                numbers += [int(talker.hear()[0]) for talker in (one, other)]
            for publisher in publishers:
                publisher.ask(b"")
        heard = frames(ears[0])
        assert frames(ears[1]) == heard
        assert [number for number, _ in heard] == list(range(1, 121))
        assert far.take(120) == [encode_frame(number, payload) for number, payload in heard]
        assert {number for number, payload in heard if b"o" in payload} == set(numbers)
        replay = hear(broker.client(), 121, b"SUB $SEQ.RANGE.1.120.> 9\r\n")
        assert [split_frame(one.payload) for one in replay[:-1]] == heard


def test_given_a_subject_of_its_own_then_subscribers_and_the_journal_have_it(
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {"sequencer__subject": "orders.new"}
    with calling(tmp_path, journal=True, **flags) as broker, Talker(broker) as talker:
        ear = subscriber(broker, b"orders.*")
        talker.ask(b"hello")
        assert frames(ear) == [(1, b"hello")]
        late = hear(broker.client(), 1, b"SUB $SEQ.FROM.1.orders.new 2\r\n")
    assert [(one.subject, split_frame(one.payload)) for one in late] == [
        (b"orders.new", (1, b"hello"))
    ]


def test_given_every_frame_then_a_subscriber_gets_the_message_in_it(broker: Broker) -> None:
    hears = []
    for frame in (b"netstring", b"header", b"none", b"stamp"):
        connect = b'CONNECT {"verbose":false,"headers":true,"frame":"%b"}\r\nSUB cq 1\r\n' % frame
        hears.append(broker.client(connect))
    with Talker(broker) as talker:
        talker.ask(b"hello")
        talker.ask(b"hello")
    heard = [client.ask(b"") for client in hears]
    assert [one.payload for one in heard[0]] == [encode_frame(n, b"hello") for n in (1, 2)]
    assert [one.header for one in heard[1]] == [
        b"NATS/1.0\r\nNats-Sequence: %d\r\n\r\n" % number for number in (1, 2)
    ]
    assert [(one.sizes, one.payload) for one in heard[2]] == [(b"5", b"hello")] * 2
    for number, one in enumerate(heard[3], 1):
        head = b"NATS/1.0\r\nNats-Sequence: %d\r\nNats-Time-Stamp: 20" % number
        assert (one.header[: len(head)], one.payload) == (head, b"hello")


def test_given_a_subscription_that_ends_within_a_turn_then_it_gets_no_more(broker: Broker) -> None:
    ear = broker.client()
    ear.ask(b"SUB cq 1\r\nUNSUB 1 2\r\n")
    talkers = [Talker(broker) for _ in range(4)]
    for talker in talkers:
        talker.socket.send(b"hello")  # all in one turn
    for talker in talkers:
        talker.hear()
        talker.close()
    assert [number for number, _ in frames(ear)] == [1, 2]


def test_given_a_queue_group_then_one_member_gets_each_message(broker: Broker) -> None:
    members = [broker.client() for _ in range(3)]
    for member in members:
        member.ask(b"SUB cq workers 1\r\n")
    with Talker(broker) as talker:
        for _ in range(30):
            talker.ask(b"job")
    got = [frames(member) for member in members]
    assert sorted(number for one in got for number, _ in one) == list(range(1, 31))


def test_given_a_client_that_says_no_more_then_it_is_answered_and_closed(broker: Broker) -> None:
    with Talker(broker) as talker:
        talker.socket.send(b"last words")
        talker.end()
        assert talker.rest() == [b"1"]
    assert cquencer_of(broker).clients == {}


def test_given_a_client_that_goes_without_waiting_then_its_message_counts_all_the_same(
    broker: Broker,
) -> None:
    ear = subscriber(broker)
    with Talker(broker) as hasty, Talker(broker) as calm:
        hasty.socket.send(b"and away")
        hasty.reset()
        broker.until(lambda: broker.server.last_number == 1)
        assert calm.ask(b"still here") == b"2"
        broker.until(lambda: len(cquencer_of(broker).clients) == 1)
    assert frames(ear) == [(1, b"and away"), (2, b"still here")]


def test_given_a_lagging_subscriber_then_the_port_waits_for_it_instead_of_cutting_it_off(
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {
        "journal__ring_bytes": "0",
        "limits__max_pending": "2MiB",
        "limits__hold_ms": "60000",
    }
    message = b"x" * 60_000
    with calling(tmp_path, **flags) as broker, Talker(broker) as talker:
        cquencer = cquencer_of(broker)
        ear = subscriber(broker)
        answered = 0
        while not cquencer.held_by:
            talker.ask(message)
            answered += 1
        talker.push(message)
        assert talker.is_silent(), "it is held, so it is not read"
        heard = hear(ear, answered, b"")
        assert [split_frame(one.payload)[0] for one in heard[:answered]] == list(
            range(1, answered + 1)
        )
        assert talker.hear() == [b"%d" % (answered + 1)]
        assert broker.server.roster.slow_consumers == 0
