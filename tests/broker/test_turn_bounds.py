"""However much one client requests, one turn of the loop does at most 20 ms of it.

One table of all long work: each kind has a scene with far too much of it, whose turns report what
they have counted. Work is counted, not timed: an offer is a fourteenth of a microsecond, and so are
64 bytes consumed from the journal, or 1700 bytes copied.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.clients.subscription_reaper import REMOVAL
from broker.dataplane.staged_rows import Staged
from broker.replay.bulk import Bulk, read_request
from broker.replay.lookup import Lookup
from parser.machine import Parser
from sequencer.journal.ring import Ring
from testkit.peer import Peer
from testkit.stage import HEADS, QUIET, Stage
from tests.broker.replay.test_replays import fill

BOUND_US = 20_000
OFFERS_US = 14
COPIED_US = 1700
BYTES_US = 64
REFUSED_US = 9  # each, and a microsecond for so many bytes of what is told
QUOTED_US = 5
MANY = 20_000

Turns = Iterator[float]  # what each turn has taken, in microseconds


def with_past(count: int = 6000, **options: Any) -> Stage:
    """A stage with messages of so many subjects."""
    stage = Stage(journal=Ring(1 << 26), **options)
    publish(stage, b"some.%d", count)
    return stage


def publish(stage: Stage, subject: bytes, count: int) -> None:
    numbered = b"%" in subject
    ops = (
        b"PUB %b 3\r\nabc\r\n" % (subject % number if numbered else subject)
        for number in range(count)
    )
    stage.join(QUIET).send(b"".join(ops))


def subscribe(stage: Stage, words: bytes, count: int) -> Peer:
    peer = stage.join(QUIET)
    peer.send(b"".join(b"SUB %b %d\r\n" % (words, sid) for sid in range(count)))
    return peer


def served(stage: Stage) -> Turns:
    """The turns of what is served from the journal."""
    replays = stage.replays
    assert replays is not None
    while not stage.loop.quiet:
        replays.scheduler.most_work = 0
        stage.loop.turn()
        while stage.loop.threads:
            stage.loop.work()
        yield replays.scheduler.most_work / BYTES_US


def read_events(stage: Stage, peer: Peer, text: bytes) -> Turns:
    """The turns of one read event."""
    plane, at = stage.plane, 0
    while at < len(text):
        at += plane.receive(peer.connection, bytearray(text[at:]), len(text) - at)
        yield (plane.work + stage.sublist.work) / OFFERS_US
        assert plane.interrupted or at == len(text)


def surveys() -> Turns:
    stage = with_past()
    for _ in range(4):
        stage.join(QUIET).send(b"SUB $SEQ.LAST.> 1\r\n")
    yield from served(stage)


def replays_of_one() -> Turns:
    stage = with_past()
    subscribe(stage, b"$SEQ.FROM.1.some.7", 50)
    yield from served(stage)


def waits_for_a_number() -> Turns:
    stage = with_past(1)
    subscribe(stage, b"$SEQ.RANGE.2.2.a", 5000)
    stage.loop.run()
    fill(stage, 1)
    yield from served(stage)


def askers(stage: Stage) -> Iterator[tuple[int, Peer]]:
    """Four clients, each with a subscription to its own inbox."""
    for at in range(4):
        peer = stage.join(HEADS)
        peer.send(b"SUB in.%d 1\r\n" % at)
        yield at, peer


def reads() -> Turns:
    stage = with_past()
    assert stage.replays is not None
    for at, peer in askers(stage):
        filters = [f"some.{number}.none" for number in range(60)]
        wish = read_request(json.dumps({"from": 1, "subject": filters}).encode(), stage.number)
        stage.replays.serve_requests(Bulk(stage.replays, peer.connection, b"in.%d" % at, wish))
    yield from served(stage)


def lookups() -> Turns:
    stage = with_past()
    assert stage.replays is not None
    for at, peer in askers(stage):
        lookup = Lookup(stage.replays, peer.connection)
        for number in range(100):
            lookup.want(1 + number * 7919 % 6000, b"$SEQ.GET", b"in.%d" % at)
        stage.replays.serve_requests(lookup)
    yield from served(stage)


def lagging(words: bytes, count: int, subject: bytes) -> Turns:
    """One that lags, catches up with messages of which each is much work."""
    stage = Stage(journal=Ring(1 << 26), catchup_pending=1 << 16)
    peer = subscribe(stage, words, count)
    peer.send(b"SUB much all\r\n")
    peer.stall()
    publish(stage, b"much", 5000)
    assert peer.connection.detached
    publish(stage, subject, 60)
    stage.loop.run()
    peer.resume()
    yield from served(stage)
    assert not peer.connection.detached


def catches_up_a_group() -> Turns:
    yield from lagging(b"a q", 5000, b"a")


def catches_up_many() -> Turns:
    yield from lagging(b"a", 5000, b"a")


def catches_up_patterns() -> Turns:
    stage = Stage(journal=Ring(1 << 26), catchup_pending=1 << 16)
    peer = stage.join(QUIET)
    words = (
        b".".join(b"*" if number >> bit & 1 else b"a" for bit in range(9)) for number in range(512)
    )
    peer.send(b"".join(b"SUB %b.* p%d\r\n" % (word, at) for at, word in enumerate(words)))
    peer.send(b"SUB much all\r\n")
    peer.stall()
    publish(stage, b"much", 5000)
    assert peer.connection.detached
    publish(stage, b".".join([b"a"] * 9) + b".%d", 60)
    stage.loop.run()
    peer.resume()
    yield from served(stage)


def dropped(stage: Stage, left: Callable[[], int]) -> Turns:
    while before := left():
        done = stage.sublist.work
        stage.loop.turn()
        yield (REMOVAL * (before - left()) + stage.sublist.work - done) / OFFERS_US


def closing(words: bytes) -> Turns:
    stage = Stage()
    stage.control.reaper.later = stage.loop.call_soon
    peer = stage.join(QUIET)
    peer.send(b"".join(b"SUB %b %d\r\n" % (words.replace(b"N", b"%d" % n), n) for n in range(MANY)))
    peer.leave()
    yield from dropped(stage, lambda: len(peer.connection.subs))


def second_connect() -> Turns:
    stage = Stage()
    stage.control.reaper.later = stage.loop.call_soon
    peer = subscribe(stage, b"a.*", MANY)
    done: list[bool] = []
    stage.control.reaper.clear(peer.connection, lambda: done.append(True))
    yield from dropped(stage, lambda: len(peer.connection.subs))
    assert done


def subscribing() -> Turns:
    stage = Stage()
    text = b"".join(b"SUB a.%d.* %d\r\nUNSUB %d\r\n" % (n, n, n) for n in range(MANY))
    yield from read_events(stage, stage.join(QUIET), text)


def publishing() -> Turns:
    stage = Stage()
    for _ in range(100):
        subscribe(stage, b"a", 50)
    yield from read_events(stage, stage.join(QUIET), b"PUB a 0\r\n\r\n" * 80)


def refusing(line: bytes) -> Turns:
    stage = Stage(max_matches=3)
    peer = subscribe(stage, b"a", 3)
    for _ in read_events(stage, peer, line * (2_000_000 // (100 + len(line)))):
        heard = peer.take()
        yield REFUSED_US * heard.count(b"-ERR ") + len(heard) / QUOTED_US


def publishing_to_the_dead() -> Turns:
    stage = Stage()
    peers = [subscribe(stage, b"a", 1) for _ in range(200)]
    for peer in peers:
        peer.socket_room = 0
        peer.stall()
    held = 0
    for _ in read_events(stage, stage.join(QUIET), b"PUB a 1000\r\n%b\r\n" % bytes(1000) * 500):
        before, held = held, sum(peer.connection.held() for peer in peers)
        yield (held - before) / COPIED_US


def commit() -> Turns:
    stage = Stage()
    staged = Staged(stage.plane)
    text = bytearray(b"PUB a 3\r\nabc\r\n" * MANY)
    parser, at, row = Parser(1 << 20, 1 << 20), 0, 1
    while at < len(text):
        row += staged.publish(parser, text, at, len(text), 7, row, 1 << 40)
        at = staged.at
        yield (stage.plane.work + stage.sublist.work) / OFFERS_US


LONG: dict[str, Callable[[], Turns]] = {
    "surveys of $SEQ.LAST": surveys,
    "replays of one connection": replays_of_one,
    "replays whose number comes": waits_for_a_number,
    "$SEQ.READ with many filters": reads,
    "$SEQ.GET": lookups,
    "catching up with a large group": catches_up_a_group,
    "catching up with many alike": catches_up_many,
    "catching up behind many patterns": catches_up_patterns,
    "closing, literal": lambda: closing(b"a.N"),
    "closing, wildcards": lambda: closing(b"a.*.N"),
    "closing, all alike": lambda: closing(b"a"),
    "a second CONNECT": second_connect,
    "SUB and UNSUB": subscribing,
    "PUB to many": publishing,
    "PUB to many that do not read": publishing_to_the_dead,
    "SUB over max_matches": lambda: refusing(b"SUB a 9\r\n"),
    "PUB that is refused": lambda: refusing(b"PUB $SEQ.x 0\r\n\r\n"),
    "a long subject that is refused": lambda: refusing(b"SUB $SEQ.%b 9\r\n" % (b"\1" * 3000)),
    "a staged commit": commit,
}


@pytest.mark.parametrize("kind", LONG)
def test_given_much_of_one_kind_then_each_turn_does_what_20_ms_bear_and_all_is_done(
    kind: str,
) -> None:
    turns = list(LONG[kind]())
    assert len(turns) > 1, "it is not long"
    assert max(turns) <= BOUND_US
    assert sum(turns) > BOUND_US / 4, "it is counted"
