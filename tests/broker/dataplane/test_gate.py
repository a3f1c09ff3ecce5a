"""What leaves the process and when: not before the journal has it, nor before it is safe."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer.journal.store import Store
from testkit.model_frame import netstring_frame
from testkit.peer import Peer
from testkit.stage import QUIET, Stage
from tests.support.stores import WINDOW, in_memory

LONG = b"two" * 30_000  # longer than a part of the window
VERBOSE = b'CONNECT {"pedantic":false}\r\n'


class Disk(Store):
    """A store whose writing, of what the window cannot hold, fails when it is told to."""

    fails = False

    def write(self, view: memoryview, *fields: Any) -> None:
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")
        super().write(view, *fields)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with in_memory() as path:
        store = Disk.open(str(Path(path) / "store"), 1, window_bytes=WINDOW)
        assert isinstance(store, Disk)
        yield store
        store.close()


def pub(payload: bytes, subject: bytes = b"a") -> bytes:
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def msg(number: int, payload: bytes, subject: bytes = b"a") -> bytes:
    frame = netstring_frame(number, payload)
    return b"MSG %b 1 %d\r\n%b\r\n" % (subject, len(frame), frame)


def listening(stage: Stage, connect: bytes = QUIET) -> Peer:
    peer = stage.join(connect)
    peer.ask(b"SUB a 1\r\n")
    return peer


def test_given_a_message_when_it_leaves_then_the_journal_has_it(disk: Disk) -> None:
    stage = Stage(journal=disk)
    subscriber, publisher = listening(stage), stage.join(QUIET)
    had: list[int] = []
    flush = subscriber.flush

    def watched() -> None:
        had.append(disk.last)
        flush()

    subscriber.flush = watched  # type: ignore[method-assign]
    for number in range(1, 4):
        publisher.send(pub(b"x"))
        assert had == list(range(1, number + 1))
        assert subscriber.take() == msg(number, b"x")


def one_turn(stage: Stage, *reads: tuple[Peer, bytes]) -> None:
    """Serve what several clients have sent, with one release, as the gatherer does."""
    plane = stage.plane
    plane.begin_turn()
    for peer, text in reads:
        plane.gate.reads(peer.connection)
        plane.serve(peer.connection, bytearray(text), len(text))
    plane.gate.release_turn()


def test_given_several_clients_in_a_turn_then_those_that_were_read_get_their_output_last(
    disk: Disk,
) -> None:
    stage = Stage(journal=disk)
    peers = [listening(stage, VERBOSE) for _ in range(4)]
    order: list[tuple[int, int]] = []
    for nth, peer in enumerate(peers):
        peer.take()

        def watched(nth: int = nth, peer: Peer = peer) -> None:
            order.append((nth, disk.last))
            Peer.flush(peer)

        peer.flush = watched  # type: ignore[method-assign]
    one_turn(stage, (peers[2], pub(b"x")), (peers[0], pub(b"y") + b"PING\r\n"))
    assert sorted(order[:2]) == [(1, 2), (3, 2)], "others first, and the journal before all"
    assert order[2:] == [(2, 2), (0, 2)], "in the order in which they were read"
    assert peers[2].take() == b"+OK\r\n" + msg(1, b"x") + msg(2, b"y")
    assert peers[0].take() == msg(1, b"x") + b"+OK\r\n" + msg(2, b"y") + b"PONG\r\n"
    order.clear()
    one_turn(stage, (peers[3], pub(b"z")))
    assert [nth for nth, _ in order][-1] == 3, "whoever was read before comes first again"


def test_given_sync_always_when_several_publish_in_a_turn_then_one_sync_is_for_all(
    disk: Disk,
) -> None:
    stage = Stage(journal=disk, sync="always")
    subscriber, bystander = listening(stage), stage.join(QUIET)
    publishers = [stage.join(VERBOSE) for _ in range(3)]
    for one in publishers:
        one.take()
    one_turn(stage, *[(one, pub(b"x")) for one in publishers], (bystander, b"PING\r\n"))
    assert bystander.take() == b"PONG\r\n", "who shows no number waits for nothing"
    assert [one.take() for one in (subscriber, *publishers)] == [b""] * 4
    stage.loop.turn()
    assert len(stage.loop.threads) == 1
    stage.loop.run()
    assert subscriber.take() == b"".join(msg(number, b"x") for number in (1, 2, 3))
    assert [one.take() for one in publishers] == [b"+OK\r\n"] * 3


def test_given_sync_always_when_a_message_is_not_synced_then_nobody_sees_its_number(
    disk: Disk,
) -> None:
    stage = Stage(journal=disk, sync="always")
    subscriber, publisher = listening(stage), stage.join(VERBOSE)
    bystander = stage.join(QUIET)
    assert publisher.ask(pub(b"one") + pub(b"two")) == b""
    assert subscriber.take() == b""
    assert bystander.ask(b"PING\r\n") == b"PONG\r\n", "who shows no number waits for nothing"
    stage.loop.turn()
    assert len(stage.loop.threads) == 1, "one sync for both"
    stage.loop.work()
    assert publisher.ask(pub(b"three")) == b""
    stage.loop.turn()
    assert subscriber.take() == msg(1, b"one") + msg(2, b"two"), "the third came after the sync"
    assert publisher.take() == b"+OK\r\n+OK\r\n"
    stage.loop.run()
    assert subscriber.take() == msg(3, b"three")
    assert publisher.take() == b"+OK\r\n"
    assert publisher.ask(b"PING\r\n") == b"PONG\r\n"


def test_given_an_outbox_with_older_output_when_a_fence_is_raised_then_that_passes(
    disk: Disk,
) -> None:
    stage = Stage(journal=disk, sync="always")
    subscriber, publisher = listening(stage), stage.join(QUIET)
    publisher.send(pub(b"one"))
    stage.loop.run()
    assert subscriber.take() == msg(1, b"one")
    subscriber.stall()
    subscriber.send(b"PING\r\n" * 3)
    publisher.send(pub(b"two"))
    assert subscriber.resume() == b"PONG\r\n" * 3
    assert subscriber.resume() == b""
    stage.loop.run()
    assert subscriber.take() == msg(2, b"two")
    assert not subscriber.connection.fenced


def test_given_a_write_that_fails_when_the_store_takes_more_then_what_waited_is_let_out_once(
    disk: Disk,
) -> None:
    stage = Stage(journal=disk, sync="interval")
    assert stage.keeper is not None
    stage.keeper.start()
    stage.loop.run()
    subscriber, publisher = listening(stage), stage.join(VERBOSE)
    assert publisher.ask(pub(b"one")) == b"+OK\r\n"
    disk.fails = True
    assert publisher.ask(pub(LONG)) == b""
    stage.loop.later(0.2)  # it is synced meanwhile, and that says nothing of the second
    assert stage.keeper.synced == 1
    assert subscriber.take() == msg(1, b"one")
    refused = publisher.ask(pub(b"three"))
    assert refused.startswith(b'-ERR \'Permissions Violation for Publish to "a": ') or not refused
    disk.fails = False
    stage.loop.later(1.0)
    assert subscriber.take() == msg(2, LONG)
    told = refused + publisher.take()
    assert told.startswith(b"+OK\r\n-ERR 'Permissions Violation for Publish to ")
    assert publisher.ask(pub(b"three")) == b"+OK\r\n"
    assert subscriber.take() == msg(3, b"three")


def test_given_a_full_store_when_asked_for_the_last_number_then_only_a_safe_one_is_shown(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync under way may fail, too: an answer with a newer number might wait for ever."""
    stage = Stage(journal=disk, sync="always")
    publisher, asker = stage.join(QUIET), stage.join(QUIET)
    asker.send(b"SUB r 1\r\n")
    publisher.send(pub(b"one"))
    stage.loop.run()
    publisher.send(pub(b"two"))

    def full(need: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "reserve", full)
        assert b"the journal is full" in publisher.ask(pub(LONG))
        assert asker.ask(b"PUB $SEQ.PUB.any r 0\r\n\r\n") == b"MSG r 1 4\r\n1:1,\r\n"
    stage.loop.later(1.0)
    assert asker.ask(b"PUB $SEQ.PUB.any r 0\r\n\r\n") == b"MSG r 1 4\r\n1:2,\r\n"


def test_given_a_reader_that_stalls_when_its_outbox_is_full_then_it_is_detached_and_not_cut(
    disk: Disk,
) -> None:
    stage = Stage(journal=disk, catchup_pending=10_000)
    subscriber, publisher = listening(stage), stage.join(QUIET)
    subscriber.stall()
    for at in range(100):
        publisher.send(pub(b"%03d" % at * 300))
    assert subscriber.connection.detached
    assert subscriber.connection.held() < 2 * 10_000
    assert not subscriber.slow
    heard = subscriber.resume()
    stage.loop.run()
    heard += subscriber.take()
    assert heard == b"".join(msg(at + 1, b"%03d" % at * 300) for at in range(100))
    assert not subscriber.connection.detached
    publisher.send(pub(b"live"))
    assert subscriber.take() == msg(101, b"live")


def test_given_no_journal_when_an_outbox_is_full_then_its_reader_is_cut_off() -> None:
    stage = Stage()
    subscriber, publisher = stage.join(QUIET, max_pending=10_000), stage.join(QUIET)
    subscriber.send(b"SUB a 1\r\n")
    subscriber.stall()
    publisher.send(pub(b"x" * 6000))
    assert not subscriber.slow
    publisher.send(pub(b"x" * 6000))
    assert subscriber.slow
    assert subscriber.take() == b"-ERR 'Slow Consumer'\r\n"


def test_given_a_link_that_is_closed_behind_a_fence_then_it_is_let_out_and_forgotten(
    disk: Disk,
) -> None:
    stage = Stage(journal=disk, sync="always")
    stopping, gone, publisher = listening(stage), listening(stage), stage.join(QUIET)
    publisher.send(pub(b"one"))
    # As the broker does when it stops: it still gets what was taken.
    stopping.connection.closed = True
    gone.leave()
    stage.loop.run()
    assert stopping.take() == msg(1, b"one")
    assert gone.take() == b""
    assert stage.plane.gate.fenced == []


def test_given_large_messages_then_eight_may_be_on_their_way_before_the_journal_serves_a_reader(
    disk: Disk,
) -> None:
    stage = Stage(journal=disk, catchup_pending=10_000)
    subscriber, publisher = listening(stage), stage.join(QUIET)
    subscriber.stall()
    for _ in range(7):
        publisher.send(pub(b"x" * 9_000))
    assert not subscriber.connection.detached
    for _ in range(13):
        publisher.send(pub(b"x" * 9_000))
    assert subscriber.connection.detached
    assert subscriber.connection.held() < 2 * 8 * 9_000
    heard = subscriber.resume()
    stage.loop.run()
    assert heard + subscriber.take() == b"".join(msg(at, b"x" * 9_000) for at in range(1, 21))


def test_given_turns_then_each_message_of_a_client_counts_as_written_once(disk: Disk) -> None:
    stage = Stage(journal=disk)
    writing = stage.plane.gate.writing
    peers = [stage.join(QUIET) for _ in range(2)]
    stage.plane.sequencer.tick(1, 1)
    one_turn(stage, (peers[0], pub(b"x") * 3), (peers[1], pub(LONG)))
    assert writing.total == 4
    stage.plane.gate.release_turn()
    assert writing.total == 4
    peers[0].send(pub(b"y") * 5)  # not in a turn that began with a tick
    stage.plane.sequencer.tick(2, 2)
    one_turn(stage, (peers[0], pub(b"z")))
    assert writing.total == 5
