"""A member's subscribers in groups: when PONG comes, who stays, and how many there may be."""

from typing import Any

from broker.cluster.group_members import (
    ABLE,
    GROUP_BYTES_MAX,
    GROUPS_MAX,
    LAGGING,
    LEAVING_MAX,
    OWN_BYTES,
    OWN_GROUPS,
    GroupMembers,
)
from broker.cluster.group_shares import GroupShares
from broker.dataplane.guard import Guard, SubjectRights
from broker.dataplane.user import User
from sequencer.replica.member_messages import Note
from sequencer.replica.notes.queue_weights import QueueWeights
from testkit.peer import Peer
from testkit.stage import QUIET, Stage


class GroupStage(Stage):
    """A broker's protocol with the groups of a cluster; the test is its coordinator."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = QueueWeights()
        self.groups = GroupMembers("me", GroupShares("me", self.weights), {})
        self.control.groups = self.groups
        self.notes = 0
        self.now = 100.0
        self.go_on()

    def write(self, after: int = 0) -> None:
        """A note with what is announced, in the log."""
        known = {key for key in self.weights.newest if key[1] != "theirs"}
        said = {
            (pattern.decode(), group.decode()): weight
            for (pattern, group), weight in self.groups.takers.items()
        }
        changed = [
            [*key, {"me": said[key]} if key in said else {}] for key in sorted(known | said.keys())
        ]
        self.notes += 1
        fields = {"after": after, "groups": changed}
        self.weights.add(Note(self.notes, 1, "GROUPS", fields))

    def go_on(self, delivered: int = 0, note_watermark: int = 99, seconds: float = 0.1) -> None:
        self.now += seconds
        if self.groups.advance(self.now, delivered, note_watermark):
            self.plane.release(None)

    def member(self) -> Peer:
        return self.join(QUIET)


def test_given_a_new_group_then_its_pong_waits_until_its_weights_are_in_force() -> None:
    stage = GroupStage()
    peer = stage.member()
    peer.send(b"SUB jobs workers 1\r\nPING\r\n")
    stage.go_on()
    assert peer.take() == b"", "nobody knows of it"
    stage.write(after=7)
    stage.go_on(delivered=9, note_watermark=0)
    assert peer.take() == b"", "the note is not committed"
    stage.go_on(delivered=6)
    assert peer.take() == b"", "number 7 goes to others"
    stage.go_on(delivered=7)
    assert peer.take() == b"PONG\r\n"
    stage.member().send(b"SUB jobs workers 1\r\nPING\r\n")
    assert stage.groups.takers == {(b"jobs", b"workers"): 2 * ABLE}


def test_given_a_group_that_is_known_then_pong_comes_at_once() -> None:
    stage = GroupStage()
    stage.member().send(b"SUB jobs workers 1\r\n")
    stage.write()
    stage.go_on()
    peer = stage.member()
    peer.send(b"SUB jobs workers 1\r\nPING\r\n")
    assert peer.take() == b"PONG\r\n"


def test_given_the_last_taker_unsubscribes_then_it_takes_until_nobody_counts_on_it() -> None:
    stage = GroupStage()
    peer = stage.member()
    peer.send(b"SUB jobs workers 1\r\n")
    stage.write()
    stage.go_on()
    peer.send(b"UNSUB 1\r\nPING\r\n")
    stage.member().send(b"PUB jobs 1\r\nx\r\n")
    assert peer.take() == b"MSG jobs 1 11\r\n8:1:1,1:x,,\r\n"
    assert stage.groups.takers == {}
    stage.write()
    stage.go_on()
    assert peer.take() == b"PONG\r\n"
    stage.member().send(b"PUB jobs 1\r\nx\r\n")
    assert peer.take() == b""


def test_given_one_of_two_unsubscribes_then_it_ends_at_once() -> None:
    stage = GroupStage()
    peer, other = stage.member(), stage.member()
    peer.send(b"SUB jobs workers 1\r\n")
    other.send(b"SUB jobs workers 1\r\n")
    stage.write()
    stage.go_on()
    peer.send(b"UNSUB 1\r\nPING\r\n")
    assert peer.take() == b"PONG\r\n"
    assert len(peer.connection.subs) == 0


def test_given_a_group_left_before_anyone_knew_then_pong_waits_whether_it_comes_into_force() -> (
    None
):
    stage = GroupStage()
    peer = stage.member()
    peer.send(b"SUB jobs workers 1\r\nUNSUB 1\r\nPING\r\n")
    stage.go_on()
    assert peer.take() == b""
    stage.go_on(seconds=2.0)
    stage.go_on()
    assert peer.take() == b"PONG\r\n"


def test_given_all_that_lag_then_they_count_as_good_as_nothing() -> None:
    stage = GroupStage()
    peer, other = stage.member(), stage.member()
    for one in (peer, other):
        one.send(b"SUB jobs workers 1\r\n")
    lagging = [peer.connection]
    stage.groups.lagging = lambda: lagging
    stage.go_on(seconds=2.0)
    assert stage.groups.takers == {(b"jobs", b"workers"): ABLE}
    lagging.append(other.connection)
    stage.go_on(seconds=2.0)
    assert stage.groups.takers == {(b"jobs", b"workers"): LAGGING}
    lagging.clear()
    stage.go_on(seconds=2.0)
    assert stage.groups.takers == {(b"jobs", b"workers"): 2 * ABLE}


def test_given_as_many_groups_as_are_allowed_then_one_more_is_refused() -> None:
    stage = GroupStage()
    peers = [stage.member() for _ in range(GROUPS_MAX // OWN_GROUPS + 1)]
    for at in range(GROUPS_MAX):
        peers[at // OWN_GROUPS].send(b"SUB jobs.%d workers %d\r\n" % (at, at))
    peer = peers[-1]
    peer.send(b"SUB jobs.more workers x\r\n")
    words = b'-ERR \'Permissions Violation for Subscription to "jobs.more"'
    assert peer.take().startswith(words)
    peer.send(b"SUB jobs.1 workers y\r\n")
    peers[0].send(b"UNSUB 2\r\n")
    assert len(stage.groups.takers) == GROUPS_MAX - 1
    stage.go_on(seconds=2.0)
    peer.send(b"SUB jobs.more workers z\r\n")
    assert len(stage.groups.takers) == GROUPS_MAX


def test_given_one_user_with_many_groups_then_others_can_still_make_some() -> None:
    stage = GroupStage()
    greedy = [stage.member() for _ in range(3)]
    user = User("greedy", b"", None)
    for peer in greedy:
        peer.user = user
    for at in range(OWN_GROUPS):
        greedy[at % 2].send(b"SUB jobs.%d workers %d\r\n" % (at, at))
    assert [peer.take() for peer in greedy] == [b""] * 3
    greedy[2].send(b"SUB jobs.more workers x\r\n")
    assert b"this user has made 1024 queue groups, as many as one may" in greedy[2].take()
    greedy[2].send(b"SUB jobs.1 workers y\r\n")
    assert greedy[2].take() == b"", "it may join what is there"
    other = stage.member()
    other.send(b"SUB jobs.more workers x\r\n")
    assert other.take() == b""
    greedy[0].send(b"UNSUB 0\r\nSUB jobs.other workers z\r\n")
    assert b"as many as one may" in greedy[0].take(), "the others do not know that yet"
    stage.go_on(seconds=2.0)
    greedy[0].send(b"SUB jobs.other workers z\r\n")
    assert greedy[0].take() == b""
    for peer in [*greedy, other]:
        for sid in list(peer.connection.subs):
            peer.send(b"UNSUB %b\r\n" % sid)
    stage.go_on(seconds=2.0)
    assert not stage.groups._makers
    assert not stage.groups._made


def test_given_one_connection_with_long_names_then_others_can_still_make_groups() -> None:
    stage = GroupStage()
    peer = stage.member()
    size = 4000
    for at in range(GROUP_BYTES_MAX // size):
        peer.send(b"SUB jobs.%d %b %d\r\n" % (at, b"x" * size, at))
    said = peer.take()
    assert b"the names of this connection's queue groups take %d bytes" % OWN_BYTES in said
    assert stage.groups._bytes <= OWN_BYTES
    other = stage.member()
    other.send(b"SUB jobs.more workers x\r\n")
    assert other.take() == b""


def test_given_a_pattern_of_which_a_part_is_denied_then_no_group_may_span_it() -> None:
    stage = GroupStage()
    peer = stage.member()
    peer.connection.guard = Guard(
        SubjectRights(None, []), SubjectRights(None, [b"jobs.secret"]), 0, 0
    )
    peer.send(b"SUB jobs.> workers 1\r\nSUB jobs.open workers 2\r\nSUB jobs.> 3\r\n")
    assert peer.take().count(b"a part of it is denied") == 1
    assert list(peer.connection.subs) == [b"2", b"3"]
    rights = SubjectRights(None, [b"jobs.*.secret"])
    other = stage.member()
    other.send(b"SUB jobs.> workers 1\r\nSUB jobs.> 2\r\n")
    other.connection.guard = Guard(SubjectRights(None, []), rights, 0, 0)
    stage.control.recheck(other.connection)
    assert list(other.connection.subs) == [b"2"]
    assert b"a part of it is denied" in other.take()


def test_given_weights_of_an_earlier_process_then_clients_wait_until_they_are_gone() -> None:
    stage = GroupStage()
    old = {"after": 0, "groups": [["jobs", "workers", {"me": 5}]]}
    stage.weights.add(Note(1, 1, "GROUPS", old))
    assert not stage.groups.is_forgotten(10.0)
    assert stage.groups.is_forgotten(20.0), "it does not wait for ever"
    stage.write()
    assert stage.groups.is_forgotten(10.0)


def test_given_new_groups_that_come_and_go_quickly_then_those_that_are_remembered_are_few() -> None:
    stage = GroupStage()
    peers = [stage.member() for _ in range(GROUPS_MAX // OWN_GROUPS + 1)]
    for at in range(GROUPS_MAX):
        peers[at // OWN_GROUPS].send(b"SUB jobs.%d workers 1\r\nUNSUB 1\r\n" % at)
    peer = peers[-1]
    peer.send(b"SUB jobs.more workers 1\r\n")
    assert b"try again soon" in peer.take()
    stage.go_on(seconds=2.0)
    peer.send(b"SUB jobs.more workers 1\r\nPING\r\n")
    stage.write()
    stage.go_on()
    assert peer.take() == b"PONG\r\n"


def test_given_one_group_that_is_joined_and_left_quickly_then_few_subscriptions_stay() -> None:
    stage = GroupStage()
    peer = stage.member()
    peer.send(b"SUB jobs workers 1\r\n")
    stage.write()
    stage.go_on()
    for _ in range(LEAVING_MAX + 100):
        peer.send(b"UNSUB 1\r\nSUB jobs workers 1\r\n")
    assert len(peer.connection.subs) == LEAVING_MAX + 1
    stage.go_on()
    assert len(peer.connection.subs) == 1


class Counted(dict[tuple[str, str], dict[str, int]]):
    """Weights that count how often they are looked at."""

    looks = 0

    def get(self, *arguments: Any) -> Any:
        self.looks += 1
        return super().get(*arguments)


def test_given_many_clients_that_wait_then_a_turn_in_which_nothing_came_costs_nothing() -> None:
    stage = GroupStage()
    peers = [stage.member() for _ in range(50)]
    for peer in peers:
        for at in range(20):
            peer.send(b"SUB jobs.%d workers %d\r\n" % (at, at))
        peer.send(b"PING\r\n")
    looked = stage.weights.in_force = Counted(stage.weights.in_force)
    stage.go_on()
    assert 0 < looked.looks <= 40, "each group is looked at, not each client's"
    before = looked.looks
    for _ in range(1000):
        stage.go_on(seconds=0.0)
    assert looked.looks == before
    stage.write()
    stage.go_on(seconds=0.0)
    assert [peer.take() for peer in peers] == [b"PONG\r\n"] * 50, "news is looked at at once"
