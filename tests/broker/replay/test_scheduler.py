"""Whose turn it is: cursors that are ready, parked, or waiting for a number."""

from itertools import count

from broker.replay.cursor import BUFFER
from broker.replay.scheduler import BYTES, BYTES_MIN, LONG_S, TURN_S
from sequencer.journal.store import Store
from testkit.peer import Peer
from testkit.stage import Stage
from tests.broker.replay.test_replays import active, asking, fill, told


def test_given_messages_that_come_at_every_turn_then_none_is_missed_between_replay_and_live(
    store: Store,
) -> None:
    stage = Stage(journal=store)
    fill(stage, 4000)
    peer = asking(stage, b"$SEQ.FROM.1.>")
    turns = 0
    while active(stage):
        stage.loop.turn()
        fill(stage, 1)
        turns += 1
    fill(stage, 1)
    assert turns > 3
    assert peer.take() == told(1, 4001 + turns)


def test_given_an_outbox_that_holds_much_while_its_socket_takes_more_then_the_replay_goes_on(
    store: Store,
) -> None:
    """A store that was lent for a long message is longer than an outbox of a replay may be."""
    stage = Stage(journal=store)
    asking(stage, b"a")
    fill(stage, 1, size=300_000)
    assert any(len(spare) > BUFFER for spare in stage.plane.gate.spare.buffers)
    fill(stage, 1500)
    peer = asking(stage, b"$SEQ.FROM.2.a")
    stage.loop.run()
    assert peer.take() == told(2, 1501)


def test_given_a_reader_that_stalls_then_its_cursor_is_parked_until_it_reads(store: Store) -> None:
    stage = Stage(journal=store)
    fill(stage, 2000)
    peer = asking(stage, b"$SEQ.FROM.1.a")
    peer.socket_room = 10_000
    stage.loop.run()
    assert stage.loop.quiet
    assert peer.connection.held() < (1 << 18) + 2000
    heard = peer.take()
    assert len(heard) < len(told(1, 2000))
    while len(heard) < len(told(1, 2000)):
        heard += peer.resume(10_000)
        stage.loop.run()
        heard += peer.take()
    assert heard == told(1, 2000)


def test_given_many_that_wait_for_numbers_then_those_that_have_gone_have_ended(
    store: Store,
) -> None:
    stage = Stage(journal=store)
    keeps = asking(stage, b"$SEQ.FROM.5.a")
    for at in range(1000):
        peer = asking(stage, b"$SEQ.RANGE.%d.999999999.a" % (1000 + at))
        stage.loop.run()
        if at % 2:
            peer.leave()
        else:
            peer.send(b"UNSUB 1\r\n")
    assert active(stage) == 1
    fill(stage, 6)
    stage.loop.run()
    assert keeps.take() == told(5, 6)


def received(peer: Peer) -> int:
    return peer.connection.out_msgs


def test_given_a_reader_that_catches_up_and_replays_then_it_goes_first_and_they_go_on(
    store: Store,
) -> None:
    stage = Stage(journal=store, catchup_pending=10_000)
    behind = asking(stage, b"a")
    behind.stall()
    fill(stage, 3000)
    assert behind.connection.detached
    replays = [asking(stage, b"$SEQ.FROM.1.a") for _ in range(20)]
    assert stage.replays is not None
    stage.replays.scheduler.clock = lambda: 0.0  # bytes end this turn, on any machine
    heard = behind.resume()
    before = received(behind)
    stage.loop.turn()
    served = [peer for peer in replays if received(peer)]
    assert served, "at least a step of each turn is theirs"
    assert received(behind) - before >= sum(map(received, served))
    stage.loop.run()
    assert heard + behind.take() == told(1, 3000)
    assert all(peer.take() == told(1, 3000) for peer in replays)


def test_given_steps_that_take_long_then_a_turn_has_few_and_a_long_one_makes_the_next_small(
    store: Store,
) -> None:
    stage = Stage(journal=store)
    fill(stage, 3000)
    assert stage.replays is not None
    scheduler = stage.replays.scheduler
    peers = [asking(stage, b"$SEQ.FROM.1.a") for _ in range(20)]
    ticks = count(1)
    scheduler.clock = lambda: next(ticks) * TURN_S * 0.6  # at each look
    stage.loop.turn()
    assert len([peer for peer in peers if received(peer)]) == 2
    assert scheduler.budget == BYTES
    scheduler.clock = lambda: next(ticks) * LONG_S * 1.1
    shown = [received(peer) for peer in peers]
    for _ in range(12):
        stage.loop.turn()
    assert scheduler.budget == BYTES_MIN
    more = [received(peer) - before for peer, before in zip(peers, shown, strict=True)]
    assert sorted(more)[0] < BYTES_MIN // 900, "a step has no more than the budget"
    scheduler.clock = lambda: 0.0
    while scheduler.budget < BYTES:
        stage.loop.turn()
    stage.loop.run()
    assert all(peer.take() == told(1, 3000) for peer in peers)
