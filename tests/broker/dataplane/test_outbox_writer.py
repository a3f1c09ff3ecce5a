"""Outboxes: slow consumers, bounds on memory, and when output is released."""

import tracemalloc
from itertools import product

import pytest

from sequencer.journal.ring import Ring
from testkit.messages import Message
from testkit.peer import SLOW, Peer
from testkit.stage import HEADS, QUIET, Stage
from tests.support.raw import operations

KIB, MIB = 1 << 10, 1 << 20
SEGMENT = 256 * KIB  # a store is not grown beyond this, unless for one message
BODY = b"x" * 1000
TOKENS = [b".".join(path) for path in product((b"a", b"*"), repeat=5)]
ONE = b"PUB a 1000\r\n" + BODY + b"\r\n"


def listener(stage: Stage, max_pending: int = 64 * MIB) -> Peer:
    return stage.join(QUIET + b"SUB a 1\r\n", frame="none", max_pending=max_pending)


def flood(stage: Stage, messages: int, one: bytes = ONE) -> None:
    stage.join(QUIET).send(*[one * 50] * (messages // 50))


@pytest.mark.parametrize("max_pending", [4 * KIB, 64 * KIB, MIB])
def test_given_a_stalled_subscriber_when_it_is_over_max_pending_then_it_is_cut_off(
    max_pending: int,
) -> None:
    stage = Stage()
    stalled, reader = listener(stage, max_pending), listener(stage)
    stalled.stall()
    flood(stage, 3000)
    assert stalled.slow
    assert stalled.take() == SLOW, "what waited is dropped, and whole messages only went before"
    assert stalled.connection.held() == 0
    assert stalled.connection.closed
    assert stalled.connection.subs == {}
    assert len(operations(reader.take())) == 3000
    assert stage.number == 3000, "its end burns no number"


@pytest.mark.parametrize("max_pending", [64 * KIB, MIB])
def test_given_a_stalled_subscriber_below_max_pending_then_it_gets_everything_later(
    max_pending: int,
) -> None:
    stage = Stage()
    stalled = listener(stage, max_pending)
    stalled.stall()
    count = max_pending // 1100
    flood(stage, count // 50 * 50)
    assert not stalled.slow
    heard = operations(stalled.resume())
    assert [one.payload for one in heard] == [BODY] * (count // 50 * 50)
    assert stalled.connection.held() == 0


def test_given_a_subscriber_then_what_it_holds_is_at_most_max_pending_and_one_buffer() -> None:
    stage = Stage()
    stalled = listener(stage, MIB)
    stalled.stall()
    publisher = stage.join(QUIET)
    most = 0
    while not stalled.slow:
        publisher.send(ONE)
        most = max(most, stalled.connection.held())
    assert MIB - 2 * KIB <= most <= MIB + 2 * SEGMENT


def test_given_a_message_larger_than_max_pending_then_only_an_empty_outbox_takes_it() -> None:
    stage = Stage()
    reading, stalled = listener(stage, 64 * KIB), listener(stage, 64 * KIB)
    publisher = stage.join(QUIET)
    stalled.stall()
    publisher.send(b"PUB a 1\r\nx\r\n")
    publisher.send(b"PUB a 500000\r\n" + b"x" * 500_000 + b"\r\n")
    assert len(operations(reading.take())) == 2
    assert not reading.slow
    assert stalled.slow


def test_given_a_connection_that_hears_itself_and_stalls_then_its_outbox_is_bounded_too() -> None:
    stage = Stage()
    peer = listener(stage, 256 * KIB)
    peer.stall()
    for _ in range(1000):
        peer.send(ONE)
    assert peer.slow
    assert peer.connection.held() == 0
    assert stage.number < 1000, "what it said after the cut does not count"


def test_given_answers_to_a_stalled_client_then_they_are_bounded_as_messages_are() -> None:
    stage = Stage()
    peer = stage.join(b"", max_pending=64 * KIB)
    peer.stall()
    for _ in range(200):
        peer.send(b"PING\r\n" * 1000)
    assert peer.slow
    assert peer.take() == SLOW


def test_given_one_read_event_with_a_lot_to_deliver_then_it_is_let_out_on_the_way() -> None:
    stage = Stage(receive_buffer=4 * MIB)
    ears = [listener(stage, MIB) for _ in range(3)]
    stage.flushed.clear()
    stage.join(QUIET).send(ONE * 3000)
    for ear in ears:
        assert not ear.slow, "a healthy reader may get more than max_pending in one read event"
        assert len(operations(ear.take())) == 3000
        assert stage.flushed.count(ear) > 10


@pytest.mark.parametrize("size", [1, 4000, 4096, 5000, SEGMENT - 20, SEGMENT, SEGMENT + 1, MIB])
def test_given_payloads_around_the_sizes_of_stores_then_they_come_whole(size: int) -> None:
    stage = Stage()
    ears = [listener(stage), listener(stage)]
    ears[0].stall()
    wire = b"PUB a %d\r\n%b\r\n" % (size, b"y" * size) + b"PUB a 1\r\nz\r\n"
    stage.join(QUIET).send(wire * 3)
    for heard in (ears[0].resume(), ears[1].take()):
        assert [len(one.payload) for one in operations(heard)] == [size, 1] * 3


def test_given_large_and_small_messages_in_turn_when_stalled_then_order_is_kept() -> None:
    stage = Stage()
    ear = listener(stage)
    ear.stall()
    sizes = [1, 300_000, 2, 3, 140_000, 140_000, 5, SEGMENT, 7] * 3
    publisher = stage.join(QUIET)
    for size in sizes:
        publisher.send(b"PUB a %d\r\n%b\r\n" % (size, b"y" * size))
    assert [len(one.payload) for one in operations(ear.resume())] == sizes


def test_given_a_cut_while_a_message_is_handed_out_then_all_others_still_get_it() -> None:
    stage = Stage()
    peers = [listener(stage, 8 * KIB if turn % 2 else 64 * MIB) for turn in range(10)]
    for peer in peers[1::2]:
        peer.stall()
    flood(stage, 50)
    for turn, peer in enumerate(peers):
        assert peer.slow is bool(turn % 2)
        if not peer.slow:
            assert len(operations(peer.take())) == 50


def test_given_a_subscriber_over_hold_pending_then_the_plane_says_who_is_crowded() -> None:
    stage = Stage(hold_pending=64 * KIB)
    stalled, reader = listener(stage), listener(stage)
    stalled.stall()
    publisher = stage.join(QUIET)
    publisher.send(ONE * 50)
    assert stage.plane.gate.crowded == []
    publisher.send(ONE * 50)
    assert stage.plane.gate.crowded == [stalled.connection]
    stalled.connection.lagging = True
    publisher.send(ONE)
    assert stage.plane.gate.crowded == [], "one that lags has held its publishers long enough"
    assert not reader.slow


@pytest.mark.parametrize("size", [512, 520, 3000, 70_000])
def test_given_a_reader_that_the_journal_will_serve_then_it_holds_no_publisher(size: int) -> None:
    stage = Stage(journal=Ring(1 << 24), hold_pending=MIB, catchup_pending=MIB)
    stalled, publisher = listener(stage), stage.join(QUIET)
    stalled.stall()
    while not stalled.connection.detached:
        publisher.send(b"PUB a %d\r\n%b\r\n" % (size, bytes(size)))
        assert stage.plane.gate.crowded == []


def traced(work: object) -> int:
    """The memory that what is returned has made stay."""
    assert callable(work)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = work()
        after, _ = tracemalloc.get_traced_memory()
        assert kept is not None
        return after - before
    finally:
        tracemalloc.stop()


def test_given_many_connections_that_have_heard_enough_then_their_stores_are_given_back() -> None:
    stage = Stage()
    ears = [listener(stage) for _ in range(600)]
    wire = b"PUB a 60000\r\n" + b"x" * 60_000 + b"\r\n"
    publisher = stage.join(QUIET)
    spare = stage.plane.gate.spare

    def work() -> list[Peer]:
        publisher.send(wire)
        for ear in ears:
            assert len(ear.take()) > 60_000
            ear.heard = bytearray()
        assert 16 * KIB * KIB < spare.bytes <= 32 * KIB * KIB, "for the next turn, and not all"
        spare.drop()
        return ears

    assert traced(work) < 128 * KIB


def test_given_more_work_than_one_turn_may_be_then_the_rest_is_served_in_the_next() -> None:
    stage = Stage()
    crowd = stage.join(b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n')
    crowd.send(b"".join(b"SUB a %d\r\n" % sid for sid in range(3000)))
    ear = stage.join(QUIET + b"SUB a 1\r\nSUB b 2\r\n", frame="none")
    wire = b"".join(b"PUB a 3\r\n%03d\r\n" % number for number in range(200))
    crowd.send(wire + b"PUB b 5\r\nhal", b"ve\r\n")
    assert 2 <= crowd.interruptions <= 6
    heard = [one.payload for one in operations(ear.take())]
    assert heard == [b"%03d" % number for number in range(200)] + [b"halve"]


def test_given_subjects_that_are_hard_to_find_then_finding_them_is_work_too() -> None:
    stage = Stage()
    deep = stage.join(QUIET)
    # Each token doubles the ways through the trie.
    deep.send(b"".join(b"SUB %b.%b 1%b\r\n" % (a, b, a + b) for a in TOKENS for b in TOKENS))
    hard = b".".join([b"a"] * 9) + b"."
    publisher = stage.join(QUIET)
    publisher.send(b"".join(b"PUB %b%d.z 0\r\n\r\n" % (hard, number) for number in range(600)))
    assert publisher.interruptions >= 1
    assert stage.number == 600


@pytest.mark.parametrize(
    ("line", "few"),
    [(b"PING\r\n", 1500), (b"SUB a 1\r\n", 1500), (b"PUB $SEQ.x 0\r\n\r\n", 6)],  # refused
)
def test_given_many_control_operations_then_they_take_more_than_one_turn(
    line: bytes, few: int
) -> None:
    stage = Stage()
    peer = stage.join(QUIET)
    heard = peer.ask(line * few + b"PING\r\n")
    assert peer.interruptions == 0
    heard = peer.ask(line * 3 * few + b"PING\r\n")
    assert 1 <= peer.interruptions <= 9
    assert heard.endswith(b"PONG\r\n")


def test_given_little_work_then_a_read_event_is_served_in_one_turn() -> None:
    stage = Stage()
    peer = listener(stage)
    peer.send(ONE * 60)
    assert peer.interruptions == 0


def test_given_spare_stores_then_another_link_may_use_them_and_nothing_shows_through() -> None:
    stage = Stage()
    first, second = listener(stage), stage.join(HEADS + b"SUB b 2\r\n")
    publisher = stage.join(HEADS)
    for turn in range(20):
        publisher.send(b"PUB a 3000\r\n" + b"%04d" % turn * 750 + b"\r\n")
        publisher.send(Message(b"b", b"%d" % turn, b"NATS/1.0\r\n\r\n").wire)
    assert [one.payload for one in operations(first.take())] == [
        b"%04d" % n * 750 for n in range(20)
    ]
    assert len(operations(second.take())) == 20


def test_given_a_peer_that_leaves_with_a_full_outbox_then_nothing_is_kept_of_it() -> None:
    stage = Stage()

    def work() -> Stage:
        for _ in range(30):
            stalled = listener(stage)
            stalled.stall()
            flood(stage, 200)
            stalled.leave()
        return stage

    assert traced(work) < MIB
