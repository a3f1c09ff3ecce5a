"""Whose turn it is: cursors that are ready, parked, or waiting for a number."""

from broker.replay.cursor import BUFFER
from sequencer.journal.store import Store
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
    assert 0 < peer.connection.held() < (1 << 18) + 2000
    heard = peer.take()
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
