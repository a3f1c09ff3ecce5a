"""The plane of a member: nothing is shown before it is committed, and answers come in order."""

from broker.cluster.cluster_plane import ClusterPlane
from broker.cluster.group_members import GroupMembers
from broker.cluster.group_shares import GroupShares
from sequencer.journal.record import RecordBatch, Walk
from sequencer.replica.forward_table import ForwardTable
from sequencer.replica.member_messages import UNKNOWN, Note
from sequencer.replica.notes.queue_weights import QueueWeights
from sequencer.replica.numbering import Numbering
from sequencer.sequencer import Sequencer
from testkit.peer import Peer
from testkit.stage import QUIET, Stage

RUN, SALT, EPOCH = 7, 99, 3
DEAF = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
LOUD = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
RECORD = 1
LINE_MAX = 64


class MemberStage(Stage):
    """A member that follows; the test is its coordinator."""

    def __init__(self, bytes_max: int = 1 << 20) -> None:
        super().__init__()
        self.table = ForwardTable(RUN, SALT)
        self.flushes = 0
        self.shares = shares = GroupShares("me", QueueWeights())
        self.plane = self.member = ClusterPlane(self.sublist, 1 << 20)
        self.member.join(
            *(Numbering(self.table, Sequencer(), None), RUN, bytes_max, self._flush, shares),
            published=lambda: self.member.sequencer.number,
            await_begin=lambda connection: None,
        )
        self.member.attach(self.control)
        self.groups = self.control.groups = GroupMembers("me", shares, {})
        self.control.plane = self.control.subscriptions.plane = self.plane
        self.given = 0

    def _flush(self) -> None:
        self.flushes += 1

    def client(self, cid: int, greeting: bytes = QUIET) -> Peer:
        """A client whose origin says which process it belongs to."""
        peer = self.join(greeting)
        peer.connection.origin = RUN << 32 | cid
        return peer

    def order(self) -> bytes:
        """Give numbers to what was forwarded; the records, as the coordinator sends them."""
        batch = RecordBatch(SALT, EPOCH)
        walk = Walk(0, False)
        data = self.table.unsent(1 << 20)
        walk.attach(data, 0, len(data))
        first = self.given + 1
        while walk.next() == RECORD:
            self.given += 1
            payload = data[walk.payload : walk.payload + walk.payload_size]
            subject = data[walk.subject : walk.subject + walk.subject_size]
            who = (walk.origin, walk.origin_sequence)
            batch.append_message(self.given, 1000, subject, b"", b"", payload, *who)
        with batch.view() as view:
            records = bytes(view)
        self.table.inspect(records, first, EPOCH)
        return records

    def commit(self, records: bytes, until: int) -> None:
        """Everything up to `until` is committed."""
        self.member.deliver(records, until)
        self.member.settle()
        self.member.release(None)


def test_given_a_publish_when_not_committed_then_nobody_sees_it() -> None:
    stage = MemberStage()
    ear = stage.client(1, QUIET + b"SUB a 1\r\n")
    publisher = stage.client(2)
    publisher.send(b"PUB a 1\r\nx\r\n")
    records = stage.order()
    assert ear.take() == b""
    stage.commit(records, 1)
    assert ear.take() == b"MSG a 1 11\r\n8:1:1,1:x,,\r\n"


def test_given_part_of_what_came_is_committed_then_only_that_is_shown() -> None:
    stage = MemberStage()
    ear = stage.client(1, QUIET + b"SUB a 1\r\n")
    stage.client(2).send(b"PUB a 1\r\nx\r\nPUB a 1\r\ny\r\n")
    stage.commit(stage.order(), 1)
    assert ear.take() == b"MSG a 1 11\r\n8:1:1,1:x,,\r\n"


def test_given_a_verbose_client_that_hears_itself_then_ok_message_and_pong_come_in_order() -> None:
    stage = MemberStage()
    peer = stage.client(1, LOUD)
    peer.ask(b"SUB a 1\r\n")
    peer.send(b"PUB a 1\r\nx\r\nPING\r\n")
    assert peer.take() == b"", "neither is committed"
    stage.commit(stage.order(), 1)
    assert peer.take() == b"+OK\r\nMSG a 1 11\r\n8:1:1,1:x,,\r\nPONG\r\n"


def test_given_a_client_without_publishes_then_its_pong_waits_for_nobody() -> None:
    stage = MemberStage()
    stage.client(1).send(b"PUB a 1\r\nx\r\n")
    other = stage.client(2)
    other.send(b"PING\r\n")
    assert other.take() == b"PONG\r\n"


def test_given_a_request_for_the_number_then_it_is_answered_when_committed() -> None:
    stage = MemberStage()
    peer = stage.client(1, QUIET + b"SUB inbox 9\r\n")
    peer.send(b"PUB $SEQ.PUB.a inbox 1\r\nx\r\n")
    records = stage.order()
    assert peer.take() == b""
    stage.commit(records, 1)
    assert peer.take() == b"MSG inbox 9 4\r\n1:1,\r\n"


def test_given_a_client_that_wants_no_echo_then_it_does_not_hear_itself() -> None:
    stage = MemberStage()
    peer = stage.client(1, DEAF + b"SUB a 1\r\n")
    other = stage.client(2, QUIET + b"SUB a 1\r\n")
    peer.send(b"PUB a 1\r\nx\r\n")
    other.send(b"PUB a 1\r\ny\r\n")
    stage.commit(stage.order(), 2)
    assert peer.take() == b"MSG a 1 11\r\n8:1:2,1:y,,\r\n"
    assert other.take() == b"MSG a 1 11\r\n8:1:1,1:x,,\r\nMSG a 1 11\r\n8:1:2,1:y,,\r\n"


def test_given_a_cluster_that_takes_nothing_then_the_publisher_learns_why() -> None:
    stage = MemberStage()
    stage.member.unavailable = b"no coordinator for 3 s"
    peer = stage.client(1)
    peer.send(b"PUB a 1\r\nx\r\n")
    why = b"-ERR 'Permissions Violation for Publish to \"a\": no coordinator for 3 s'\r\n"
    assert peer.take() == why
    assert stage.table.placed == 0


def test_given_more_unanswered_than_allowed_then_the_publisher_waits_until_there_is_room() -> None:
    stage = MemberStage(bytes_max=100)
    peer = stage.client(1)
    peer.send(b"PUB a 1\r\nx\r\n")
    assert stage.member.held == []
    peer.send(b"PUB a 1\r\nx\r\n")
    assert stage.member.held == [peer.connection]
    stage.commit(stage.order(), 2)
    assert stage.member.held == []
    assert stage.table.held_bytes == 0


def test_given_clients_that_publish_once_and_leave_then_what_waits_has_a_bound() -> None:
    stage = MemberStage(bytes_max=10_000)
    for cid in range(100):
        peer = stage.client(cid)
        peer.send(b"PUB a 1000\r\n%b\r\n" % bytes(1000))
        peer.close()
    assert 40_000 < stage.table.held_bytes < 42_000
    late = stage.client(100)
    late.send(b"PUB a 1\r\nx\r\n")
    assert b"too much waits to be committed" in late.take()
    while stage.table.held_bytes:
        stage.commit(stage.order(), stage.given)
    stage.member.unavailable = b""  # as the driver does each turn
    late.send(b"PUB a 1\r\nx\r\nPING\r\n")
    stage.commit(stage.order(), stage.given)
    assert late.take() == b"PONG\r\n"


def test_given_pings_that_nobody_can_answer_then_the_rest_of_the_clients_input_waits() -> None:
    stage = MemberStage()
    peer = stage.client(1)
    peer.send(b"PUB a 1\r\nx\r\n")
    peer.read(b"PING\r\n" * 1000)
    assert peer.waits == 1
    stage.commit(stage.order(), 1)
    assert peer.take() == b"PONG\r\n" * LINE_MAX
    assert peer.waits == 0
    peer.go_on()
    assert peer.take() == b"PONG\r\n" * (1000 - LINE_MAX)


def test_given_pings_after_a_new_queue_group_then_they_are_bounded_too() -> None:
    stage = MemberStage()
    peer, other = stage.client(1), stage.client(2)
    peer.read(b"SUB jobs workers 1\r\n" + b"PING\r\n" * 1000)
    assert peer.waits == 1
    other.send(b"PING\r\n")
    assert other.take() == b"PONG\r\n", "others do not wait"
    peer.close()
    stage.groups.advance(9.0, 0, 0)
    assert peer.waits == 1, "it is gone, and is not called any more"


def test_given_refusals_after_a_publish_then_they_come_after_its_ok() -> None:
    stage = MemberStage()
    peer = stage.client(1, LOUD)
    peer.take()
    peer.send(b"PUB a 1\r\nx\r\nPUB $SEQ.bad 1\r\nx\r\nSUB a..b 1\r\nPUB a 1\r\nx\r\n")
    assert peer.take() == b""
    stage.commit(stage.order(), 2)
    bad = b"-ERR 'Permissions Violation for Publish to \"$SEQ.bad\"'\r\n-ERR 'Invalid Subject'\r\n"
    assert peer.take() == b"+OK\r\n" + bad + b"+OK\r\n"


def test_given_a_pong_that_waits_for_a_queue_group_then_nothing_overtakes_it() -> None:
    stage = MemberStage()
    peer = stage.client(1, LOUD)
    peer.ask(b"SUB jobs workers 1\r\n")
    peer.send(b"PING\r\nPUB a 1\r\nx\r\nSUB a..b 2\r\nPING\r\nPUB b 1\r\nx\r\n")
    stage.commit(stage.order(), 2)
    assert peer.take() == b"", "others do not know of the group yet"
    stage.groups.left(peer.connection.subs[b"1"])
    stage.groups.advance(9.0, 0, 0)
    stage.member.release(None)
    assert peer.take() == b"PONG\r\n+OK\r\n-ERR 'Invalid Subject'\r\nPONG\r\n+OK\r\n"


def test_given_a_stall_then_a_silent_publisher_learns_at_once_why_it_is_refused() -> None:
    """One that waits for an answer gets that first: it may count them."""
    stage = MemberStage()
    silent, verbose = stage.client(1), stage.client(2, LOUD)
    verbose.take()
    for peer in (silent, verbose):
        peer.send(b"PUB a 1\r\nx\r\n")
    stage.member.unavailable = b"no coordinator for 3 s"
    for peer in (silent, verbose):
        peer.send(b"PUB b 1\r\nx\r\nSUB c 1\r\n")
    why = b"-ERR 'Permissions Violation for Publish to \"b\": no coordinator for 3 s'\r\n"
    assert silent.take() == why
    assert verbose.take() == b""
    stage.commit(stage.order(), 2)
    assert verbose.take() == b"+OK\r\n" + why + b"+OK\r\n"


def test_given_operations_that_wait_then_the_rest_of_the_clients_input_waits() -> None:
    stage = MemberStage()
    peer = stage.client(1, LOUD)
    peer.take()
    peer.send(b"PUB a 1\r\nx\r\n")
    peer.read(b"".join(b"SUB b %d\r\n" % sid for sid in range(1000)))
    assert peer.waits == 1
    stage.commit(stage.order(), 1)
    assert peer.take() == b"+OK\r\n" * (1 + LINE_MAX)
    assert peer.waits == 0
    peer.go_on()
    assert peer.take() == b"+OK\r\n" * (1000 - LINE_MAX)


def test_given_a_large_request_that_waits_then_no_second_one_is_copied() -> None:
    stage = MemberStage()
    peer, said = stage.client(1), [1]
    peer.send(b"PUB a 1\r\nx\r\n")
    stage.member.in_order(peer.connection, lambda: said.append(2), 5000)
    assert peer.waits == 1
    assert said == [1]
    stage.commit(stage.order(), 1)
    assert peer.waits == 0
    assert said == [1, 2]


def test_given_a_client_that_leaves_then_nothing_of_its_line_is_left() -> None:
    stage = MemberStage()
    peer = stage.client(1, LOUD + b"SUB jobs workers 1\r\nPING\r\n")
    peer.send(b"PUB a 1\r\nx\r\nPING\r\nSUB b 2\r\n")
    peer.leave()
    stage.commit(stage.order(), 1)
    assert not stage.member.is_waiting
    assert not stage.member.actions
    assert not stage.member.paused


def test_given_a_published_number_when_a_client_subscribes_then_it_gets_what_comes_after() -> None:
    stage = MemberStage()
    early = stage.client(1, QUIET + b"SUB a 1\r\n")
    publisher = stage.client(2)
    publisher.send(b"PUB a 3\r\nold\r\n" * 2)
    stage.member.published = lambda: 1
    late = stage.client(3, QUIET + b"SUB a 1\r\n")
    late.send(b"PING\r\n")
    assert late.take() == b"PONG\r\n"
    stage.commit(stage.order(), 2)
    assert early.take().count(b"old") == 2
    assert late.take().count(b"old") == 1
    assert stage.member.late_until == 0


def test_given_no_coordinator_when_a_client_subscribes_then_its_pong_says_where_it_begins() -> None:
    stage = MemberStage()
    stage.member.await_begin = stage.groups.await_begin
    publisher = stage.client(2)
    publisher.send(b"PUB a 3\r\nold\r\n")
    stage.member.published = lambda: UNKNOWN
    late, gone, closed = (stage.client(cid) for cid in (3, 4, 5))
    late.send(b"SUB a 1\r\nPING\r\n")
    gone.send(b"SUB a 1\r\nUNSUB 1\r\nPING\r\n")
    closed.send(b"SUB a 1\r\nPING\r\n")
    closed.close()
    stage.commit(stage.order(), 1)
    assert late.take() == b""
    assert gone.take() == b""
    stage.member.begin_waiting(2)
    assert stage.groups.begun()
    assert not stage.groups.begun()
    stage.member.release(None)
    assert (late.take(), gone.take()) == (b"PONG\r\n", b"PONG\r\n")
    publisher.send(b"PUB a 3\r\nold\r\n" + b"PUB a 3\r\nnew\r\n")
    stage.commit(stage.order(), 3)
    assert late.take().count(b"MSG") == 1


def test_given_a_cut_when_others_get_its_numbers_then_nobody_is_late_for_them() -> None:
    stage = MemberStage()
    publisher = stage.client(2)
    publisher.send(b"PUB a 3\r\nnew\r\n" * 3)
    stage.member.published = lambda: 3
    late = stage.client(3, QUIET + b"SUB a 1\r\n")
    stage.member.cut(1)
    stage.commit(stage.order(), 3)
    assert late.take().count(b"new") == 2


def test_given_a_group_with_late_members_then_an_earlier_one_is_chosen() -> None:
    stage = MemberStage()
    weights = stage.shares.weights
    fields = {"after": 0, "groups": [["a", "workers", {"me": 1}]]}
    weights.add(Note(1, 1, "GROUPS", fields))
    stage.shares.settle(0, 1)
    early = stage.client(1, QUIET + b"SUB a workers 1\r\n")
    publisher = stage.client(2)
    publisher.send(b"PUB a 3\r\nold\r\n" * 19)
    stage.member.published = lambda: 19
    late = stage.client(3, QUIET + b"SUB a workers 1\r\n")
    stage.commit(stage.order(), 19)
    assert early.take().count(b"old") == 19
    assert late.take() == b""
    early.close()
    publisher.send(b"PUB a 3\r\nnew\r\n")
    stage.commit(stage.order(), 20)
    assert late.take().count(b"new") == 1


def test_given_late_subscriptions_that_come_and_go_then_they_are_forgotten() -> None:
    stage = MemberStage()
    stage.member.published = lambda: 9
    peer = stage.client(1)
    for _ in range(5):
        peer.send(b"SUB a 1\r\nUNSUB 1\r\n" * 1000)
    assert len(stage.member.late) <= 1024
