"""Records into an outbox: for which subscription, in which frame, and where it stops."""

from collections import deque

import pytest

from broker.dataplane.outcomes import BAD, ENDED, FULL, GAP, MORE
from broker.dataplane.replay_writer import ReplayWriter
from sequencer.journal.record import RecordBatch
from sublist.subscription import Subscription
from testkit.messages import Message, message
from testkit.peer import Peer
from testkit.stage import HEADS, QUIET, Stage

SALT = 99
HEADERS = b"NATS/1.0\r\nKey: value\r\n\r\n"


def records(*sent: tuple[int, Message], origin: int = 0) -> bytearray:
    batch = RecordBatch(SALT, 1)
    for number, one in sent:
        fields = (one.subject, one.reply, one.headers, one.payload)
        batch.append_message(number, 1000 * number, *fields, origin=origin)
    return bytearray(batch.view())


def some(first: int, last: int, size: int = 3) -> bytearray:
    return records(*((number, Message(b"a", b"x" * size)) for number in range(first, last + 1)))


class Scene:
    """A player, a connection, and a subscription to everything that is still in the past."""

    def __init__(
        self, connect: bytes = QUIET, frame: str = "netstring", max_pending: int = 1 << 26
    ) -> None:
        self.stage = Stage()
        self.peer: Peer = self.stage.join(connect, frame=frame, max_pending=max_pending)
        self.replay_writer = ReplayWriter(self.stage.plane.gate, self.stage.sublist, SALT)
        self.sub = Subscription(b">", b"7", None, self.peer.connection)
        self.peer.connection.subs[b"7"] = self.sub

    def play(
        self, buffer: bytearray, number: int = 1, until: int = 0, since: int = 0, start: int = 0
    ) -> int:
        connection, replay_writer = self.peer.connection, self.replay_writer
        stop = len(buffer)
        at = replay_writer.play(connection, self.sub, number, until, since, buffer, start, stop)
        self.stage.plane.release(None)
        return at


@pytest.mark.parametrize("frame", ["netstring", "header", "stamp", "none"])
@pytest.mark.parametrize("connect", [QUIET, HEADS])
@pytest.mark.parametrize("headers", [b"", HEADERS])
@pytest.mark.parametrize("reply", [b"", b"answer.to"])
def test_given_a_record_then_it_is_played_as_a_live_message_is(
    frame: str, connect: bytes, headers: bytes, reply: bytes
) -> None:
    scene = Scene(connect, frame)
    sent = [(n, Message(b"s.%d" % n, b"payload %d" % n, headers, reply)) for n in (9, 10, 11)]
    assert scene.play(records(*sent), 9) == len(records(*sent))
    assert scene.replay_writer.outcome == MORE
    takes_headers = connect is HEADS
    heard = [
        message(one, b"7", number, frame, takes_headers, time=1000 * number) for number, one in sent
    ]
    assert scene.peer.take() == b"".join(heard)
    assert (scene.sub.last_seen, scene.sub.delivered, scene.replay_writer.number) == (11, 3, 12)


def test_given_a_number_when_records_before_it_are_met_then_they_are_passed_over() -> None:
    scene = Scene()
    scene.play(some(1, 10), 8)
    assert (scene.sub.delivered, scene.replay_writer.number) == (3, 11)


def test_given_a_number_that_is_missing_then_the_player_stops_there_and_says_what_it_found() -> (
    None
):
    scene = Scene()
    buffer = some(1, 3) + some(6, 8)
    at = scene.play(buffer)
    assert (scene.replay_writer.outcome, scene.replay_writer.number, scene.replay_writer.found) == (
        GAP,
        4,
        6,
    )
    assert at == len(some(1, 3))
    assert scene.play(buffer, 6, start=at) == len(buffer)
    assert scene.sub.delivered == 6


def test_given_a_last_number_then_the_player_stops_after_it() -> None:
    scene = Scene()
    assert scene.play(some(1, 9), 2, until=4) == len(some(1, 4))
    assert (scene.replay_writer.outcome, scene.replay_writer.number, scene.sub.delivered) == (
        ENDED,
        5,
        3,
    )


def test_given_a_time_then_what_is_older_is_passed_over() -> None:
    scene = Scene()
    scene.play(some(1, 9), 0, since=7000)
    assert (scene.sub.delivered, scene.replay_writer.number) == (3, 10)


def test_given_a_record_that_is_cut_or_changed_then_it_is_not_played() -> None:
    scene = Scene()
    buffer = some(1, 3)
    assert scene.play(buffer[:-8]) == len(some(1, 2))
    assert (scene.replay_writer.outcome, scene.replay_writer.number) == (MORE, 3)
    buffer[-12] ^= 1
    scene = Scene()
    assert scene.play(buffer) == len(some(1, 2))
    assert (scene.replay_writer.outcome, scene.replay_writer.number) == (BAD, 3)


def test_given_a_reader_that_stalls_then_the_player_stops_and_cuts_nobody_off() -> None:
    scene = Scene(max_pending=100_000)
    scene.peer.stall()
    buffer = some(1, 50, 9000)
    at = scene.play(buffer)
    assert scene.replay_writer.outcome == FULL
    assert 0 < scene.peer.connection.held() < 200_000  # what it may hold, and one buffer
    assert not scene.peer.connection.closed
    told = scene.replay_writer.number - 1
    assert at == len(some(1, told, 9000))
    assert scene.play(buffer, told + 1, start=at) == at
    heard = scene.peer.resume()
    while scene.replay_writer.outcome == FULL:
        at = scene.play(buffer, scene.replay_writer.number, start=at)
        heard += scene.peer.take()
    sent = Message(b"a", b"x" * 9000)
    assert heard == b"".join(message(sent, b"7", n, "netstring", False) for n in range(1, 51))


def test_given_a_reader_that_stalls_then_its_outbox_stays_small_whatever_it_may_hold() -> None:
    scene = Scene()
    scene.peer.stall()
    scene.play(some(1, 2000, 900))
    assert scene.replay_writer.outcome == FULL
    assert (1 << 18) < scene.peer.connection.held() < (1 << 18) + 2000


def test_given_its_own_messages_when_it_wants_no_echo_then_it_does_not_get_them() -> None:
    scene = Scene()
    scene.peer.connection.echo = False
    own = records((1, Message(b"a", b"mine")), origin=scene.peer.connection.origin)
    other = records((2, Message(b"a", b"yours")), origin=scene.peer.connection.origin + 1)
    scene.play(own + other)
    assert (scene.sub.delivered, scene.sub.last_seen, scene.replay_writer.number) == (1, 2, 3)


def test_given_a_filter_then_only_what_it_selects_is_published() -> None:
    scene = Scene()
    scene.sub = Subscription(b"a.*", b"7", None, scene.peer.connection)
    subjects = [b"a", b"a.b", b"a.b.c", b"a.c", b"b.b", b"a.", b"a..b"]
    scene.play(records(*((n, Message(s, b"")) for n, s in enumerate(subjects, 1))))
    assert scene.sub.delivered == 2


def test_given_every_subject_then_those_of_an_older_journal_with_an_empty_token_come_too() -> None:
    scene = Scene()
    scene.sub = Subscription(b">", b"7", None, scene.peer.connection)
    scene.sub.replay = object()
    subjects = [b"a", b"a..b", b".", b".a", b"a."]
    scene.play(records(*((n, Message(s, b"")) for n, s in enumerate(subjects, 1))))
    assert scene.sub.delivered == 5, "or the numbers would be missing without a word"


def test_given_a_limit_when_it_is_reached_then_the_subscription_ends_in_the_middle() -> None:
    scene = Scene()
    scene.sub.replay = object()
    scene.sub.limit = 4
    at = scene.play(some(1, 9))
    assert (scene.replay_writer.outcome, scene.sub.owner) == (FULL, None)
    assert at == len(some(1, 4))
    assert b"7" not in scene.peer.connection.subs


@pytest.mark.parametrize("count", [2, 8, 9, 40])
def test_given_many_wishes_of_one_link_then_each_gets_what_it_has_not_seen_and_no_more(
    count: int,
) -> None:
    """Told to all at once, in more than one turn: nobody gets a record twice."""
    stage = Stage()
    peer = stage.join(QUIET, max_pending=90_000)
    wishes = b"".join(b"SUB a %d\r\n" % sid for sid in range(count))
    peer.send(wishes + b"SUB b 100\r\nSUB a q 101\r\n")
    subs = peer.connection.subs
    subs[b"1"].last_seen = 2
    replay_writer = ReplayWriter(stage.plane.gate, stage.sublist, SALT)
    buffer = some(1, 9, 5000)
    at, number, heard, turns = 0, 1, b"", 0
    while number < 10:
        peer.stall()
        at = replay_writer.play(peer.connection, None, number, 0, 0, buffer, at, len(buffer))
        number = replay_writer.number
        stage.plane.release(None)
        assert peer.connection.held() < 180_000  # what it may hold, and one buffer
        heard += peer.resume()
        turns += 1
    assert turns > 1 or count < 9
    assert not peer.connection.closed
    for sid in range(count):
        first = 3 if sid == 1 else 1
        told = [b"MSG a %d " % sid in heard, heard.count(b"MSG a %d " % sid)]
        assert told == [True, 10 - first]
    assert b"MSG b" not in heard
    assert b" 101 " not in heard, "a group's messages go to whom they are owed"


def test_given_numbers_that_are_owed_then_a_member_of_a_group_gets_just_those() -> None:
    stage = Stage()
    peer = stage.join(QUIET)
    peer.send(b"SUB a q 1\r\n")
    sub = peer.connection.subs[b"1"]
    sub.deferred_numbers = deque([2, 3, 7])
    replay_writer = ReplayWriter(stage.plane.gate, stage.sublist, SALT)
    buffer = some(1, 9)
    replay_writer.play(peer.connection, None, 3, 0, 0, buffer, 0, len(buffer))
    stage.plane.release(None)
    sent = Message(b"a", b"xxx")
    assert peer.take() == b"".join(message(sent, b"1", n, "netstring", False) for n in (3, 7))
    assert sub.deferred_numbers == deque()
