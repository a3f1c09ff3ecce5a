"""Closing connections with very many subscriptions: in slices, without blocking others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.clients.dropping import AT_ONCE, REMOVAL, SLICE, TURN, Dropping
from testkit.stage import HEADS, QUIET, Stage
from tests.support.serving import serving

MANY = 20_000


def staged() -> Stage:
    """A stage whose loop is `stage.loop`."""
    stage = Stage()
    stage.control.dropping.later = stage.loop.call_soon
    return stage


def watched(dropping: Dropping) -> list[int]:
    """How many subscriptions each slice takes out from now on."""
    take_out: Callable[..., int] = dropping._take_out
    taken: list[int] = []
    dropping._take_out = lambda *a: taken.append(take_out(*a)) or taken[-1]  # type: ignore[method-assign, func-returns-value]
    return taken


def subs(pattern: bytes, count: int = MANY) -> bytes:
    return b"".join(b"SUB %b %d\r\n" % (pattern.replace(b"N", b"%d" % n), n) for n in range(count))


@pytest.mark.parametrize("pattern", [b"a.N", b"a.*.N", b"a"])
def test_given_many_subscriptions_then_one_turn_takes_out_a_few_and_the_last_all(
    pattern: bytes,
) -> None:
    stage = staged()
    peer = stage.join(QUIET)
    peer.send(subs(pattern))
    peer.leave()
    assert stage.sublist.statistics()["subscriptions"] == MANY
    turns, left = 0, MANY
    while left:
        before = stage.sublist.work
        stage.loop.turn()
        taken = left - stage.sublist.statistics()["subscriptions"]
        left -= taken
        turns += 1
        assert 0 < taken <= TURN // REMOVAL + SLICE
        assert (
            REMOVAL * taken + stage.sublist.work - before <= TURN + SLICE * (REMOVAL + 24) + 16384
        )
    assert turns >= MANY * REMOVAL // (2 * TURN)
    assert stage.sublist.statistics()["removes"] == MANY
    assert stage.control.dropping.waiting == 0


def test_given_several_that_go_then_each_has_its_share_of_a_turn() -> None:
    stage = staged()
    peers = [stage.join(QUIET) for _ in range(3)]
    for peer in peers:
        peer.send(subs(b"a.N"))
        peer.leave()
    stage.loop.turn()
    left = [len(peer.connection.subs) for peer in peers]
    assert max(left) < MANY
    assert max(left) - min(left) <= SLICE


def test_given_few_subscriptions_then_they_are_taken_out_at_once() -> None:
    stage = staged()
    peer = stage.join(QUIET)
    peer.send(subs(b"a.N", AT_ONCE))
    peer.leave()
    assert stage.sublist.statistics()["subscriptions"] == 0


def test_given_one_that_is_being_dropped_then_its_queue_group_goes_on_without_it() -> None:
    stage = staged()
    gone, there, publisher = stage.join(QUIET), stage.join(QUIET), stage.join(HEADS)
    gone.send(b"SUB work q 9999999\r\n" + subs(b"a.N"))
    there.send(b"SUB work q 1\r\n")
    gone.leave()
    publisher.send(b"PUB work 1\r\nx\r\n" * 100)
    assert there.take().count(b"MSG work 1 ") == 100
    assert gone.take() == b""


def test_given_only_one_that_is_being_dropped_then_nobody_has_responded() -> None:
    stage = staged()
    gone = stage.join(QUIET)
    asker = stage.join(
        b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
    )
    gone.send(subs(b"a"))
    gone.leave()
    assert b"NATS/1.0 503" in asker.ask(b"SUB inbox 1\r\nPUB a inbox 1\r\nx\r\n")


def test_given_what_was_said_before_the_end_then_it_goes_out_and_nothing_comes_after_it() -> None:
    stage = staged()
    peer, publisher = stage.join(QUIET), stage.join(QUIET)
    peer.send(subs(b"a.N"))
    peer.stall()
    publisher.send(b"PUB a.7 3\r\none\r\n")
    stage.control.drop(peer.connection)
    publisher.send(b"PUB a.8 3\r\ntwo\r\n" * 1000)
    heard = peer.resume()
    assert b"one" in heard
    assert b"two" not in heard
    publisher.send(b"PUB a.8 3\r\ntwo\r\n" * 1000)
    assert peer.take() == b""


def test_given_a_real_broker_when_such_a_client_is_reset_then_it_forgets_all_in_turns(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        client, other = broker.client(), broker.client()
        taken = watched(broker.server.control.dropping)
        client.ask(subs(b"a.N"))
        client.close()
        broker.until(lambda: broker.server.plane.sublist.statistics()["subscriptions"] == 0)
        assert max(taken) <= SLICE
        assert other.ask(b"PUB a.7 1\r\nx\r\n") == []


def test_given_a_broker_that_stops_then_it_does_not_wait_for_it(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        broker.client().ask(subs(b"a.N"))
        broker.server.control.dropping.later = lambda turn: None  # it never comes to that
        broker.stop()
        assert broker.server.control.dropping.waiting == 1


def test_given_many_subscriptions_when_connect_comes_again_then_they_go_in_turns_before_the_rest(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        client, other = broker.client(), broker.client()
        taken = watched(broker.server.control.dropping)
        client.ask(subs(b"a.N"))
        again = b'CONNECT {"verbose":true,"pedantic":false}\r\nSUB b 7\r\n'
        heard = client.ask(again + b"PUB a.7 1\r\nx\r\nPUB b 1\r\nx\r\n")
        assert [one.verb for one in heard] == ["+OK"] * 4 + ["MSG"]
        assert max(taken) <= SLICE
        assert broker.server.plane.sublist.statistics()["subscriptions"] == 1
        other.publish(b"b", b"y")
        assert [one.sid for one in client.ask(b"") if one.verb == "MSG"] == [b"7"]


def test_given_such_a_client_that_goes_in_the_middle_then_all_is_taken_out(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        client = broker.client()
        client.ask(subs(b"a.N"))
        client.send(QUIET)
        client.close()
        broker.until(lambda: not broker.server.sessions)
        broker.until(lambda: broker.server.plane.sublist.statistics()["subscriptions"] == 0)
        assert broker.server.control.dropping.waiting == 0
