"""How many subscriptions of one connection one message may match: never more than the limit."""

from collections import Counter
from itertools import product
from random import Random

import pytest

from broker.limits.matches import COUNTERS, START, Counts, shape_of
from broker.version import is_compiled
from sequencer.journal.ring import Ring
from sublist.subject import covers
from testkit.peer import Peer
from testkit.stage import QUIET, Stage
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import RawClient

PATTERNS = tuple(
    b".".join(tokens)
    for size in (1, 2, 3)
    for tokens in product((b"a", b"b", b"*", b">"), repeat=size)
    if b">" not in tokens[:-1]
)
SUBJECTS = tuple(
    b".".join(tokens) for size in (1, 2, 3) for tokens in product((b"a", b"b"), repeat=size)
)
REFUSED = b'-ERR \'Permissions Violation for Subscription to "%b": one message could match over %d'


def refused(pattern: bytes, most: int) -> bytes:
    """The beginning of what a client is told."""
    return REFUSED % (pattern, most)


def subs(pattern: bytes, count: int, first: int = 0, queue: bytes = b"") -> bytes:
    return b"".join(
        b"SUB %b %b %d\r\n" % (pattern.replace(b"N", b"%d" % sid), queue, sid)
        for sid in range(first, first + count)
    )


def matched(peer: Peer, subject: bytes) -> int:
    """How many live subscriptions a message would match, found by looking at each."""
    return sum(
        sub.replay is None and covers(sub.subject, subject) for sub in peer.connection.subs.values()
    )


def test_given_patterns_of_one_shape_then_those_with_a_common_subject_are_equal() -> None:
    for one, other in product(PATTERNS, repeat=2):
        common = any(covers(one, subject) and covers(other, subject) for subject in SUBJECTS)
        if common and shape_of(one) == shape_of(other):
            assert one == other
    assert shape_of(b"a.b") == shape_of(b"a") == shape_of(b"a*.>b") == b""


def test_given_any_patterns_then_the_bound_is_what_the_most_frequent_of_each_shape_have() -> None:
    random = Random(7)
    counts, table = Counts([]), Counter[bytes]()
    for _ in range(4000):
        pattern = random.choice(PATTERNS)
        if random.random() < 0.5:
            counts.add(pattern)
            table[pattern] += 1
        elif table[pattern]:
            counts.remove(pattern)
            table[pattern] -= 1
        frequent: dict[bytes, int] = {}
        for each, count in table.items():
            frequent[shape_of(each)] = max(frequent.get(shape_of(each), 0), count)
        places = {hash(each) % COUNTERS for each in PATTERNS}
        if len(places) == len(PATTERNS):  # else some share a counter
            assert counts.bound == sum(frequent.values())
        assert counts.bound >= sum(frequent.values())
    for pattern in table.elements():
        counts.remove(pattern)
    assert counts.bound == 0
    assert counts.shapes == {}


class Program:
    """Random operations of one connection that may have few matches, and what must hold of it."""

    MOST = 6

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage(journal=Ring(1 << 20), max_matches=self.MOST, catchup_pending=1 << 16)
        self.control = self.stage.control
        self.control.reaper.later = self.stage.loop.call_soon
        self.peer = self.stage.join(QUIET)
        self.other = self.stage.join(QUIET)
        self.refused = self.lagged = self.sid = 0

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self._step()
            if self.peer.slow or self.peer.finished:
                self.peer = self.stage.join(QUIET)
            if self.random.random() < 0.3:
                self.stage.loop.run()
            self.check()
        self.peer.leave()
        self.stage.loop.run()
        assert self.control.matches.counts == {}

    def _step(self) -> None:
        random, peer = self.random, self.peer
        kind = random.randrange(20)
        pattern = random.choice(PATTERNS)
        if kind < 9:
            self.sid += 1
            queue = random.choice((b"", b"", b"q "))
            past = b"$SEQ.FROM.1." if not queue and random.random() < 0.2 else b""
            peer.send(b"SUB %b%b %b%d\r\n" % (past, pattern, queue, self.sid))
        elif kind < 14 and peer.connection.subs:
            sid = random.choice(list(peer.connection.subs)).split()[0]
            peer.send(b"UNSUB %b %b\r\n" % (sid, random.choice((b"", b"", b"3"))))
        elif kind == 14:
            peer.stall()
        elif kind < 17:
            peer.resume()
        elif kind == 17 and random.random() < 0.2:
            peer.send(QUIET)
        elif kind == 18 and not peer.connection.writable:
            self.other.send(b"PUB b.b.b 9000\r\n%b\r\n" % bytes(9000) * 10)
        else:
            self.other.send(b"PUB %b 1\r\nx\r\n" % random.choice(SUBJECTS))
        self.lagged += peer.connection.detached
        self.refused += peer.take().count(b"max_matches")

    def check(self) -> None:
        """No message matches too many, and what is counted is what is there."""
        for subject in SUBJECTS:
            assert matched(self.peer, subject) <= self.MOST
        for connection, counts in self.control.matches.counts.items():
            there = Counts(connection.subs.values())
            assert there.bound == counts.bound
            assert {key: shape.counters for key, shape in there.shapes.items()} == {
                key: shape.counters for key, shape in counts.shapes.items()
            }


def test_given_all_ways_in_which_subs_come_and_go_then_no_message_matches_too_many() -> None:
    refusals = lagged = 0
    for seed in range(30):
        program = Program(seed)
        program.play(300)
        refusals += program.refused
        lagged += program.lagged
    assert min(refusals, lagged) > 100, "or it would prove nothing"


def test_given_as_many_matches_as_are_allowed_then_one_more_is_refused_until_one_has_gone() -> None:
    peer = Stage(max_matches=3).join(QUIET)
    assert peer.ask(subs(b"a", 3)) == b""
    assert peer.ask(b"SUB a 9\r\n").startswith(refused(b"a", 3))
    assert peer.ask(b"SUB a q 9\r\n").startswith(refused(b"a", 3)), "members of a group count"
    assert peer.ask(b"SUB a.* 9\r\n").startswith(refused(b"a.*", 3)), "one of each shape"
    assert peer.ask(b"SUB b 9\r\nUNSUB 1\r\nSUB a 1\r\n") == b""
    assert peer.ask(b"UNSUB 1\r\nSUB a.* 1\r\n") == b""
    assert b"unsubscribe some, or use another connection" in peer.ask(b"SUB a 10\r\n")
    assert peer.ask(b"PUB a 0\r\n\r\n").count(b"MSG") == 2
    assert not peer.finished


def test_given_a_replay_then_it_counts_when_it_is_live_and_is_refused_then() -> None:
    stage = Stage(journal=Ring(1 << 20), max_matches=3)
    stage.join(QUIET).send(b"PUB a 1\r\nx\r\n")
    peer = stage.join(QUIET)
    peer.send(b"SUB $SEQ.FROM.1.a past\r\n", subs(b"a", 3))
    stage.loop.run()
    heard = peer.take()
    assert heard.startswith(b"MSG a past ")
    assert heard.count(b"max_matches") == 1
    assert set(peer.connection.subs) == {b"0", b"1", b"2"}


def test_given_many_alike_then_one_message_offers_no_more_than_may_match() -> None:
    def offers(most: int) -> int:
        stage = Stage(max_matches=most)
        peer = stage.join(QUIET)
        peer.send(subs(b"a", 20_000))
        stage.join(QUIET).send(b"PUB a 0\r\n\r\n")
        return int(peer.connection.out_msgs)

    assert offers(0) == 20_000, "all offers of one message are made in one turn"
    assert offers(500) == 500


def test_given_fewer_than_the_start_then_they_are_not_counted_and_soon_no_more_when_so_few() -> (
    None
):
    stage = Stage(max_matches=1 << 20)
    control = stage.control
    peer = stage.join(QUIET)
    peer.send(subs(b"a.N", START))
    assert control.matches.counts == {}
    peer.send(subs(b"a.N", 1, START))
    assert list(control.matches.counts) == [peer.connection]
    for sid in range(START // 2 + 1):
        peer.send(b"UNSUB %d\r\nSUB a %d\r\nUNSUB %d\r\n" % (sid, sid, sid))
    assert list(control.matches.counts) == [peer.connection], "not counted again each time"
    peer.send(b"UNSUB %d\r\n" % START)
    assert control.matches.counts == {}


def test_given_no_limit_then_nothing_is_counted() -> None:
    stage = Stage()
    peer = stage.join(QUIET)
    assert peer.ask(subs(b"a", 2 * START)) == b""
    assert stage.control.matches.counts == {}


def test_given_a_million_subjects_and_many_patterns_then_the_bound_is_low_and_memory_is_too() -> (
    None
):
    counts = Counts([])
    for number in range(1_000_000 if is_compiled() else 200_000):
        counts.add(b"orders.%d" % number)
    for number in range(100_000):
        counts.add((b"a.%d.*", b"%d.>", b"*.%d.x.*", b"%d.*.>")[number % 4] % number)
    assert counts.bound < 200
    assert max(len(shape.counters) for shape in counts.shapes.values()) <= COUNTERS


def test_given_a_refusal_then_the_log_has_it_once(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(max_matches=3)
    peer = stage.join(QUIET)
    assert peer.ask(subs(b'a"\x1b', 50)).count(b"-ERR") == 47
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line == (
        r'peer - refused a subscription to "a\"\x1b": one message may match 3 of a connection'
        + "'s"
        " (limits.max_matches)"
    )


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_a_real_broker_then_one_connections_matches_are_bounded_and_all_go_on() -> None:
    most, many = 16384, 40_000
    with (
        SeriatimServer() as broker,
        RawClient(broker.port, QUIET) as greedy,
        RawClient(broker.port, QUIET) as other,
    ):
        told = greedy.ask(subs(b"a", many))
        assert len(told) == many - most
        assert {one.verb for one in told} == {"-ERR"}
        assert broker.await_line("max_matches")
        assert len(greedy.ask(b"PUB a 0\r\n\r\n")) == most
        assert other.ask(subs(b"a", 2)) == [], "it is each connection's own"
        assert len(other.ask(b"PUB a 0\r\n\r\n" * 20)) == 2 * 20
        assert len(greedy.ask(b"")) == 20 * most
        assert greedy.ask(b"UNSUB 7\r\nSUB a 7\r\n") == []


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_a_real_broker_then_very_many_different_subscriptions_are_taken() -> None:
    with SeriatimServer() as broker, RawClient(broker.port, QUIET) as client:
        for at, pattern in enumerate((b"orders.N", b"a.N.*", b"N.>", b"*.N.x.*")):
            assert client.ask(subs(pattern, 25_000, 25_000 * at)) == []
        assert len(client.ask(b"PUB orders.7 0\r\n\r\n")) == 1
