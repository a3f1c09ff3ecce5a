"""`PUB $SEQ.LAST.<subject>`, and `SUB $SEQ.LAST.<subject>` with subject indexes: exact, whatever is
damaged or missing."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.clients.request_handler import RequestHandler
from broker.settings.settings import Settings
from broker.storage import keeper
from sequencer.journal import subject_table
from sequencer.journal.header import SUBJECTS
from sequencer.journal.ring import Ring
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from sequencer.journal.subject_index import RECORD_HEAD, SubjectIndex, read_subjects
from sublist.subject import covers
from testkit.stage import HEADS, Stage
from tests.broker.replay.test_latest import heard_numbers
from tests.broker.replay.test_replays import active, asking, fill
from tests.broker.replay.test_stepper import damage
from tests.support.stores import in_memory, open_store
from tests.support.subject_indexes import build

NUMBER = re.compile(
    rb"HMSG r\.(\d+) 1 \d+ \d+\r\nNATS/1.0(?: 404|.*?Nats-Sequence: (\d+)\r\n)", re.S
)
FILTERS = [b">", b"s.*", b"s.7", b"s.70", b"t.>", b"*.1", b"nothing", b"s.nothing", b"s"]


def staged(store: Store | Ring) -> Stage:
    """A stage that answers requests."""
    stage = Stage(journal=store)
    core: Any = SimpleNamespace(plane=stage.plane, replays=stage.replays, journal=store)
    core.settings, core.keeper, core.await_number, core.cluster_facts = Settings(), None, None, None

    def no_staging() -> Any:
        raise AssertionError("nothing is staged here")

    stage.control.request_handler = RequestHandler(core, no_staging)
    return stage


def lasts(stage: Stage, subjects: int, count: int, seed: int = 3) -> dict[bytes, int]:
    """Publish to random subjects; the last number of each."""
    random = Random(seed)
    found = {}
    for _ in range(count):
        subject = random.choice([b"s.%d", b"t.u.%d"]) % random.randrange(subjects)
        fill(stage, 1, random.choice([10, 900, 4000]), subject)
        found[subject] = stage.number
    return found


def ask(stage: Stage, *subjects: bytes) -> list[int]:
    """The numbers of the last messages of these subjects; 0 for none."""
    peer = stage.join(HEADS)
    asked = [b"PUB $SEQ.LAST.%b r.%d 0\r\n\r\n" % (one, at) for at, one in enumerate(subjects)]
    peer.send(b"SUB r.* 1\r\n" + b"".join(asked))
    stage.loop.run()
    assert active(stage) == 0
    found = {int(at): int(number or 0) for at, number in NUMBER.findall(peer.take())}
    assert len(found) == len(subjects)
    return [found[at] for at in range(len(subjects))]


def check(stage: Stage, last: dict[bytes, int]) -> None:
    """Every subject's question, and every subscription, has exactly what is there."""
    subjects = [*last, b"nothing", b"s", b"s.nothing", b"t.u"]
    assert ask(stage, *subjects) == [last.get(subject, 0) for subject in subjects]
    for filter in FILTERS:
        peer = asking(stage, b"$SEQ.LAST." + filter)
        stage.loop.run()
        wanted = sorted(number for subject, number in last.items() if covers(filter, subject))
        assert heard_numbers(peer.take()) == wanted, filter
        peer.send(b"UNSUB 1\r\n")
    assert active(stage) == 0


@pytest.fixture
def store() -> Iterator[Store]:
    with in_memory() as path:
        yield open_store(Path(path) / "store", segment_bytes=20_000)


@pytest.mark.parametrize("subjects", [1, 7, 90])
@pytest.mark.parametrize("built", ["all", "some", "none"])
def test_given_any_indexes_when_asked_then_the_last_of_each_subject_is_the_answer(
    store: Store, subjects: int, built: str
) -> None:
    stage = staged(store)
    last = lasts(stage, subjects, 200)
    if built == "some":
        build(store)
    last |= lasts(stage, subjects, 200, seed=4)
    if built == "all":
        build(store)
    check(stage, last)
    last |= lasts(stage, subjects, 3, seed=5)
    check(stage, last)
    store.close()


def test_given_a_journal_in_memory_when_asked_then_the_last_of_each_subject_is_the_answer() -> None:
    stage = staged(Ring(1 << 26))
    assert ask(stage, b"s.1") == [0]
    last = lasts(stage, 30, 500)
    check(stage, last)


def test_given_indexes_when_asked_then_no_segment_is_read_but_for_the_message(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(store)
    fill(stage, 1, subject=b"old")
    lasts(stage, 20, 400)
    build(store)
    assert ask(stage, b"new") == [0], "the table of the newest is up to date now"
    read = 0
    read_of_segment = Segment.read

    def counting(piece: Segment, offset: int, into: memoryview, wait: bool) -> int:
        nonlocal read
        got = read_of_segment(piece, offset, into, wait)
        read += got if offset != piece.start or got < 16 else 0  # not the message itself
        return got

    monkeypatch.setattr(Segment, "read", counting)
    assert ask(stage, b"old") == [1]
    assert read == 0, "not even to see if the indexes are of these segments: they are kept"


def test_given_a_message_published_with_the_question_when_asked_then_it_is_the_answer(
    store: Store,
) -> None:
    stage = staged(store)
    fill(stage, 3, subject=b"a")
    peer = stage.join(HEADS)
    peer.send(b"SUB r 1\r\nPUB a 2\r\nhi\r\nPUB $SEQ.LAST.a r 0\r\n\r\n")
    stage.loop.run()
    heard = peer.take()
    assert b"Nats-Subject: a\r\nNats-Sequence: 4\r\nNats-Time-Stamp: " in heard
    assert heard.endswith(b"9:1:4,2:hi,,\r\n")


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (b"s.*", b"400 The last message of one subject can be requested; subscribe to $SEQ.LAST."),
        (b">", b"400 The last message of one subject can be requested; subscribe to $SEQ.LAST."),
        (b"a..b", b'400 "a..b" is not a subject that can be subscribed to'),
        (b"$SEQ.x", b"400 Subjects below $SEQ. are not kept, so they cannot be replayed"),
        (b"s.8", b'404 No message to "s.8" is retained'),
    ],
)
def test_given_a_question_that_has_no_answer_when_asked_then_a_status_says_why(
    store: Store, subject: bytes, why: bytes
) -> None:
    stage = staged(store)
    fill(stage, 3, subject=b"s.1")
    peer = stage.join(HEADS)
    peer.send(b"SUB r 1\r\nPUB $SEQ.LAST.%b r 0\r\n\r\n" % subject)
    stage.loop.run()
    assert b"NATS/1.0 " + why in peer.take()


def test_given_a_quiet_broker_when_the_keeper_looks_once_then_all_segments_have_indexes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(store)
    assert stage.keeper is not None
    stage.keeper.start()
    stage.loop.run()
    monkeypatch.setattr(keeper, "BUSY_BYTES", -1)  # all that was published is much
    last = lasts(stage, 10, 150)
    sealed = store.segments()[:-1]
    assert len(sealed) > 2
    stage.loop.later(1.0)
    stage.loop.run()
    assert not [one for one in sealed if read_subjects(one, store.id)], "publishers come first"
    monkeypatch.setattr(keeper, "BUSY_BYTES", 0)
    stage.loop.later(0.5)
    stage.loop.run()
    assert all(read_subjects(one, store.id) for one in sealed), "without a pause"
    assert all(os.path.exists(one.index_file) for one in sealed)
    check(stage, last)


def test_given_publishers_without_a_pause_when_somebody_asks_then_indexes_are_built_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(store)
    assert stage.keeper is not None
    monkeypatch.setattr(keeper, "FLOOD_BYTES", -1)
    stage.keeper.start()
    last = lasts(stage, 10, 150)
    sealed = store.segments()[:-1]
    check(stage, last)
    for _ in sealed:
        stage.loop.later(1.0)
        stage.loop.run()
    assert all(read_subjects(one, store.id) for one in sealed)
    check(stage, last)


def test_given_deleted_messages_when_asked_then_they_are_no_answer(store: Store) -> None:
    stage = staged(store)
    fill(stage, 30, subject=b"old")
    stage.sequencer.ask_again()
    store.roll(1)
    fill(stage, 3, subject=b"new")
    build(store)
    assert ask(stage, b"old", b"new") == [30, 33]
    store.retain_count = 1
    store.retain(1)
    assert ask(stage, b"old", b"new") == [0, 33]
    check(stage, {b"new": 33})


def test_given_many_subjects_when_no_table_has_them_then_the_answers_are_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject_table, "SUBJECTS_MAX", 5)
    stage = staged(store)
    last = lasts(stage, 20, 150)
    check(stage, last)
    build(store)
    check(stage, last)


@pytest.mark.parametrize("where", ["block", "table", "missing"])
def test_given_a_damaged_index_when_asked_then_the_segment_is_read_instead(
    store: Store, where: str
) -> None:
    stage = staged(store)
    last = lasts(stage, 300, 400)
    build(store)
    for segment in store.segments()[:-1:2]:
        path = Path(segment.path + SUBJECTS)
        data = bytearray(path.read_bytes())
        data[{"block": 100, "table": -3, "missing": 0}[where]] ^= 1
        path.write_bytes(data)
        if where == "missing":
            path.unlink()
    check(stage, last)


def test_given_an_index_that_cannot_be_read_when_asked_then_the_segment_is_read_instead(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(store)
    last = lasts(stage, 30, 300)
    build(store)

    def bad(index: SubjectIndex, offset: int, into: memoryview, wait: bool) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(SubjectIndex, "read", bad)
    check(stage, last)


def test_given_an_index_that_is_not_in_memory_when_asked_then_a_thread_reads_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(store)
    last = lasts(stage, 30, 300)
    build(store)
    read_of_index = SubjectIndex.read

    def cold(index: SubjectIndex, offset: int, into: memoryview, wait: bool) -> int:
        if not wait:
            raise BlockingIOError
        return read_of_index(index, offset, into, wait)

    monkeypatch.setattr(SubjectIndex, "read", cold)
    check(stage, last)


@pytest.mark.parametrize("number", [1, 30, 77, 199, 200])
@pytest.mark.parametrize("built", [True, False])
def test_given_a_damaged_record_when_asked_then_the_others_are_as_they_were(
    store: Store, number: int, built: bool
) -> None:
    stage = staged(store)
    for at in range(200):
        fill(stage, 1, subject=b"s.%d" % (at % 50))
    damage(store, number)
    if built:
        build(store)
    subjects = [b"s.%d" % at for at in range(50)]
    found = ask(stage, *subjects)
    wanted = [151 + at for at in range(50)]
    lost = (number - 1) % 50 if number > 150 else -1
    assert [one for at, one in enumerate(found) if at != lost] == [
        one for at, one in enumerate(wanted) if at != lost
    ]


def test_given_questions_while_messages_come_when_asked_then_no_answer_is_older_than_the_question(
    store: Store,
) -> None:
    stage = staged(store)
    last = lasts(stage, 10, 300)
    peer = stage.join(HEADS)
    peer.send(b"SUB r.* 1\r\n")
    heard = b""
    for at in range(60):
        subject = b"s.%d" % (at % 10)
        before = last[subject]
        peer.send(b"PUB $SEQ.LAST.%b r.1 0\r\n\r\n" % subject)
        stage.loop.turn()
        fill(stage, 1, 900, subject)
        last[subject] = stage.number
        stage.loop.run()
        heard = peer.take()
        (found,) = [int(number) for _, number in NUMBER.findall(heard)]
        assert found in (before, last[subject])
    assert active(stage) == 0


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the first number of each segment that is read, and how far."""
    read: list[int] = []
    read_of_segment = Segment.read

    def noting(piece: Segment, offset: int, into: memoryview, wait: bool) -> int:
        got = read_of_segment(piece, offset, into, wait)
        if got > RECORD_HEAD.size:
            read.append(piece.first)
        return got

    monkeypatch.setattr(Segment, "read", noting)
    return read


def test_given_segments_without_a_subject_when_replayed_then_they_are_not_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(store)
    fill(stage, 60, subject=b"a.b")
    stage.sequencer.ask_again()
    store.roll(1)
    fill(stage, 3, subject=b"rare.x")
    stage.sequencer.ask_again()
    store.roll(1)
    rare = store.segments()[-2]
    fill(stage, 60, subject=b"a.c")
    stage.sequencer.ask_again()
    store.roll(1)
    fill(stage, 1, subject=b"a.d")
    store.sync()
    build(store)
    newest = store.segments()[-1]
    read = reads_of(monkeypatch)
    for filter, wanted in (
        (b"rare.x", [61, 62, 63]),
        (b"rare.>", [61, 62, 63]),
        (b"*.x", [61, 62, 63]),
        (b"none.>", []),
        (b"none", []),
    ):
        read.clear()
        peer = asking(stage, b"$SEQ.RANGE.5.124.%b" % filter)
        stage.loop.run()
        heard = peer.take()
        assert heard_numbers(heard.split(b"MSG $SEQ")[0]) == wanted, filter
        assert b"MSG $SEQ.END.124 1 0" in heard
        assert b"$SEQ.LOST" not in heard
        assert {*read} <= ({rare.first, newest.first} if wanted else {newest.first})
    read.clear()
    peer = asking(stage, b"$SEQ.FROM.1.rare.*")
    stage.loop.run()
    fill(stage, 1, subject=b"rare.x")
    assert heard_numbers(peer.take()) == [61, 62, 63, 125], "it is live"
    reader = stage.join(HEADS)
    ask_for = b'{"from": 1, "subject": ["none", "rare.x"], "format": "times"}'
    reader.send(b"SUB r 1\r\nPUB $SEQ.READ r %d\r\n%b\r\n" % (len(ask_for), ask_for))
    stage.loop.run()
    answer = reader.take()
    assert b"Seriatim-Rows: 4\r\n" in answer
    assert b"Seriatim-Next: 126\r\n" in answer
    assert {*read} <= {rare.first, newest.first}
    store.close()


def test_given_a_damaged_segment_without_a_subject_when_replayed_then_its_loss_is_reported(
    store: Store,
) -> None:
    stage = staged(store)
    fill(stage, 5, subject=b"a")
    stage.sequencer.ask_again()
    store.roll(1)
    fill(stage, 1, subject=b"b")
    store.sync()
    damage(store, 3)
    build(store)
    peer = asking(stage, b"$SEQ.RANGE.1.5.none")
    stage.loop.run()
    heard = peer.take()
    assert b"MSG $SEQ.LOST.3.3 1 0" in heard
    assert b"MSG $SEQ.END.5 1 0" in heard


def test_given_more_subjects_than_a_table_takes_when_all_are_asked_for_then_all_come(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(store)
    last = lasts(stage, 90, 300)
    monkeypatch.setattr(subject_table, "SUBJECTS_MAX", 20)
    for filter in FILTERS:
        peer = asking(stage, b"$SEQ.LAST." + filter)
        stage.loop.run()
        wanted = sorted(number for subject, number in last.items() if covers(filter, subject))
        assert heard_numbers(peer.take()) == wanted, filter
        peer.send(b"UNSUB 1\r\n")
    store.close()
