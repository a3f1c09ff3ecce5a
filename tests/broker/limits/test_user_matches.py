"""How many subscriptions of one user one message may match, whatever its connections are."""

from pathlib import Path
from random import Random

import pytest

from broker.dataplane.user import User
from broker.limits.matches import UserMatches
from sequencer.journal.ring import Ring
from testkit.peer import Peer
from testkit.stage import QUIET, Stage
from tests.broker.limits.test_matches import PATTERNS, SUBJECTS, matched, subs
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import RawClient
from tests.support.serving import serving

ALICE, BOB = User("alice", b"a", None), User("bob", b"b", None)


def staged(most: int) -> Stage:
    stage = Stage(journal=Ring(1 << 20), catchup_pending=1 << 16)
    stage.control.user_matches.limit(most)
    stage.control.reaper.later = stage.loop.call_soon
    return stage


def joined(stage: Stage, user: User | None = None, ip: str = "192.0.2.1") -> Peer:
    peer = stage.join()
    peer.user, peer.ip = user, ip
    peer.send(QUIET)
    return peer


def refusals(said: bytes) -> int:
    return said.count(b"(max_matches_per_user)")


def test_given_several_connections_then_one_sub_of_each_is_free_and_the_rest_has_a_limit() -> None:
    stage = staged(3)
    one, two, other = joined(stage, ALICE), joined(stage, ALICE, "192.0.2.2"), joined(stage, BOB)
    assert refusals(one.ask(subs(b"a", 9))) == 5, "one, and three on top"
    assert refusals(two.ask(subs(b"a", 2))) == 1
    assert refusals(other.ask(subs(b"a", 4))) == 0
    assert stage.control.user_matches.refused == 6
    assert one.ask(b"UNSUB 1\r\n") == two.ask(b"SUB a 7\r\n") == b""
    one.leave()
    stage.loop.run()
    assert two.ask(b"SUB a 8\r\nSUB a 9\r\n") == b""
    assert refusals(two.ask(b"SUB a 10\r\n")) == 1
    assert two.ask(b"PUB a 0\r\n\r\n").count(b"MSG") == 4


def test_given_no_users_then_those_of_an_address_count_together() -> None:
    stage = staged(3)
    peers = [joined(stage, None, ip) for ip in ("192.0.2.1", "2001:db8::1", "2001:db8::2")]
    assert [refusals(peer.ask(subs(b"a", 9))) for peer in peers] == [5, 5, 8], "one 2^64 is one"


def test_given_very_many_clients_with_one_each_then_none_is_refused() -> None:
    stage = staged(3)
    for _ in range(200):
        assert joined(stage, ALICE).ask(b"SUB a 1\r\n") == b""


def test_given_another_user_while_it_has_subscriptions_then_they_stay_with_the_first() -> None:
    stage = staged(3)
    matches = stage.control.user_matches
    peer = joined(stage, ALICE)
    assert refusals(peer.ask(subs(b"a", 5))) == 1
    peer.user = BOB
    assert refusals(peer.ask(b"SUB a 9\r\n")) == 1
    peer.ask(b"".join(b"UNSUB %d\r\n" % sid for sid in range(4)))
    assert matches.owners == 0
    assert refusals(peer.ask(subs(b"a", 5))) == 1
    assert refusals(joined(stage, ALICE).ask(subs(b"a", 4))) == 0
    assert matches.owners == 2


def test_given_another_limit_then_it_counts_from_then_on_and_what_there_is_stays() -> None:
    stage = staged(0)
    peer = joined(stage)
    assert peer.ask(subs(b"a", 20)) == b""
    stage.control.user_matches.limit(15)
    assert refusals(peer.ask(b"SUB a 20\r\nSUB b 21\r\n")) == 1
    stage.control.user_matches.limit(0)
    assert peer.ask(subs(b"a", 20, 30)) == b""
    assert peer.ask(b"PUB a 0\r\n\r\n").count(b"MSG") == 40


def test_given_a_connection_that_is_refused_too_then_its_user_is_not_charged() -> None:
    stage = Stage(max_matches=2)
    stage.control.user_matches.limit(5)
    peer = joined(stage, ALICE)
    assert peer.ask(subs(b"a", 50)).count(b"of this connection (max_matches)") == 48
    for _ in range(4):
        assert joined(stage, ALICE).ask(subs(b"a", 2)) == b""
    assert refusals(joined(stage, ALICE).ask(subs(b"a", 2))) == 1, "eleven, of six connections"


def check(matches: UserMatches, peers: list[Peer], most: int) -> None:
    """No message matches too many of a user, and what is counted is what is there."""
    for user in (ALICE, BOB, None):
        own = [peer for peer in peers if peer.user is user]
        for subject in SUBJECTS:
            assert sum(matched(peer, subject) for peer in own) <= most + len(own)
    live = sum(sub.replay is None for peer in peers for sub in list(peer.connection.subs.values()))
    assert sum(holder.live for holder in matches._owners.values()) == live


def test_given_all_ways_in_which_subs_come_and_go_then_no_user_has_too_many() -> None:
    most, refused, lagged = 6, 0, 0
    for seed in range(20):
        random, stage, sid = Random(seed), staged(most), 0
        other = joined(stage, None, "192.0.2.99")
        peers = [joined(stage, user) for user in (ALICE, ALICE, BOB, None)]
        for _ in range(300):
            at = random.randrange(len(peers))
            peer, kind = peers[at], random.randrange(20)
            if kind < 10:
                sid += 1
                queue = random.choice((b"", b"", b"q "))
                past = b"$SEQ.FROM.1." if not queue and random.random() < 0.2 else b""
                peer.send(b"SUB %b%b %b%d\r\n" % (past, random.choice(PATTERNS), queue, sid))
            elif kind < 14 and peer.connection.subs:
                peer.send(b"UNSUB %b\r\n" % random.choice(list(peer.connection.subs)).split()[0])
            elif kind == 14:
                peer.stall()
            elif kind < 17:
                peer.resume()
            elif kind == 17:
                other.send(b"PUB b.b.b 9000\r\n%b\r\n" % bytes(9000) * 10)
            elif kind == 18 and random.random() < 0.3:
                peer.leave()
                stage.loop.run()
            if peer.slow or peer.finished or peer.gone:
                stage.loop.run()
                peers[at] = joined(stage, peer.user)
            if random.random() < 0.3:
                stage.loop.run()
            lagged += peer.connection.detached
            refused += refusals(peer.take())
            check(stage.control.user_matches, peers, most)
        for peer in peers:
            peer.leave()
        stage.loop.run()
        assert stage.control.user_matches.owners == 0
    assert min(refused, lagged) > 100, "or it would prove nothing"


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_a_real_broker_then_many_connections_of_an_address_are_bounded(
    tmp_path: Path,
) -> None:
    with (
        SeriatimServer(limits={"max_matches_per_user": 100}) as broker,
        RawClient(broker.port, QUIET) as one,
        RawClient(broker.port, QUIET) as two,
    ):
        assert len(one.ask(subs(b"a", 200))) == 99
        told = two.ask(subs(b"a", 9))
        assert [one.verb for one in told] == ["-ERR"] * 8
        assert broker.await_line("max_matches_per_user")
        assert len(one.ask(b"PUB a 0\r\n\r\n")) == 101
    with serving(tmp_path, flags={"limits.max_matches_per_user": "5"}) as running:
        assert len(running.client().ask(subs(b"a", 10))) == 4
