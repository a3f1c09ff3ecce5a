"""Numbering: one number for each message, whoever asked, and the old one for a known id."""

import random
from collections.abc import Callable

import pytest

from sequencer.journal.layout import HEADER_SIZE
from sequencer.journal.record import RecordBatch, Walk
from sequencer.msgids import Window
from sequencer.replica.errors import BadRecords
from sequencer.replica.forward_table import ForwardTable
from sequencer.replica.member_messages import AlreadyNumbered
from sequencer.replica.numbering import Numbering, is_text
from sequencer.sequencer import Sequencer
from tests.sequencer.replica.forwarding import (
    EPOCH,
    OTHER_RUN,
    RUN,
    SALT,
    MemoryJournal,
    Published,
    message_of,
    origin_of,
    read,
    record_of,
    walk_of,
)
from tests.support.depth import depth

SECOND = 1_000_000_000


def ignored(error: OSError) -> None:
    """The trouble of a journal; the tests look at what it has done."""


def made(window: Window | None = None) -> Numbering:
    return Numbering(ForwardTable(RUN, SALT), Sequencer(), window)


def coordinating(log: MemoryJournal, window: Window | None = None) -> Numbering:
    numbering = made(window)
    numbering.start(log, EPOCH, ignored)
    return numbering


def own(sequence: int, message_id: bytes = b"", client: int = 1) -> Published:
    return Published(origin_of(client), sequence, b"own", message_id)


def other(sequence: int, message_id: bytes = b"", client: int = 1) -> Published:
    return Published(origin_of(client, OTHER_RUN), sequence, b"other", message_id)


def logged(log: MemoryJournal) -> list[tuple[int, Published]]:
    return read(b"".join(log.records))


def test_given_a_follower_when_it_takes_then_the_table_has_a_copy_to_forward() -> None:
    numbering = made()
    assert [numbering.submit(message_of(own(n)), 5) for n in (1, 2)] == [1, 2]
    assert read(numbering.table.unsent(1 << 20)) == [(0, own(1)), (0, own(2))]
    assert numbering.table.number_of(1) == 0


def test_given_a_coordinator_when_it_takes_then_its_log_has_the_only_copy() -> None:
    log = MemoryJournal()
    numbering = coordinating(log)
    assert [numbering.submit(message_of(own(n)), 7 * SECOND) for n in (1, 2)] == [1, 2]
    assert numbering.sequencer.release()
    assert logged(log) == [(1, own(1)), (2, own(2))]
    assert numbering.table.held_bytes == 0
    assert [numbering.table.number_of(place) for place in (1, 2)] == [1, 2]
    walk = walk_of(log.records[0])
    assert (walk.time, walk.epoch) == (7 * SECOND, EPOCH)


def test_given_forwarded_records_when_taken_then_they_get_numbers_among_the_own_ones() -> None:
    log = MemoryJournal()
    numbering = coordinating(log)
    numbering.submit(message_of(own(1)), 1)
    data = record_of(other(1)) + record_of(other(2))
    assert numbering.take_forwarded(memoryview(data), 2, OTHER_RUN) == ([], len(data))
    assert numbering.sequencer.assign_number(message_of(Published(1 << 63 | 4, 1))) == 4
    assert numbering.submit(message_of(own(2)), 3) == 2
    numbering.sequencer.release()
    numbers = [(1, own(1)), (2, other(1)), (3, other(2)), (4, Published(1 << 63 | 4, 1))]
    assert logged(log) == [*numbers, (5, own(2))]


def test_given_a_known_id_then_the_answer_is_the_old_number_for_all() -> None:
    log = MemoryJournal()
    numbering = coordinating(log, Window(120 * SECOND, 100))
    numbering.submit(message_of(own(1, b"a")), SECOND)
    data = record_of(other(1, b"a")) + record_of(other(2, b"b")) + record_of(other(3, b"b"))
    answers, taken = numbering.take_forwarded(data, SECOND, OTHER_RUN)
    other_origin = origin_of(1, OTHER_RUN)
    assert answers == [AlreadyNumbered(other_origin, 1, 1), AlreadyNumbered(other_origin, 3, 2)]
    assert taken == len(data)
    place = numbering.submit(message_of(own(2, b"b")), SECOND)
    assert numbering.table.number_of(place) == 2
    numbering.sequencer.release()
    assert logged(log) == [(1, own(1, b"a")), (2, other(2, b"b"))]
    assert numbering.submit(message_of(own(3, b"b")), 200 * SECOND) == 3
    assert numbering.table.number_of(3) == 3, "the window is over"


def test_given_an_old_number_that_is_cut_then_the_message_is_forwarded_as_it_was() -> None:
    log = MemoryJournal()
    numbering = coordinating(log, Window(120 * SECOND, 100))
    data = record_of(other(1, b"a"))
    numbering.take_forwarded(data, SECOND, OTHER_RUN)
    numbering.submit(message_of(own(1, b"a")), SECOND)
    numbering.submit(message_of(own(2)), SECOND)
    numbering.sequencer.release()
    numbering.stop()
    numbering.void_above(0, b"".join(log.records))
    numbering.table.rewind()
    assert read(numbering.table.unsent(1 << 20)) == [(0, own(1, b"a")), (0, own(2))]
    assert numbering.window is not None
    assert numbering.window.find(b" a", SECOND) == 0


def test_given_no_room_then_a_message_waits_and_the_rest_of_a_forward_is_left() -> None:
    size = len(record_of(own(1)))
    log = MemoryJournal(room=2 * size)
    numbering = coordinating(log)
    assert numbering.submit(message_of(own(1)), 1) == 1
    data = b"".join(record_of(other(n)) for n in (1, 2, 3))
    one = len(record_of(other(1)))
    assert numbering.take_forwarded(data, 1, OTHER_RUN) == ([], one)
    assert numbering.sequencer.assign_number(message_of(own(3))) == 0
    assert numbering.submit(message_of(own(2)), 1) == 2
    assert (numbering.table.number_of(2), numbering.has_unnumbered) == (0, True)


def test_given_a_reign_that_begins_then_all_that_waits_is_numbered_in_order() -> None:
    numbering = made(Window(120 * SECOND, 100))
    for n in range(1, 6):
        numbering.submit(message_of(own(n, b"same" if n > 3 else b"")), SECOND)
    numbering.table.known(2, 1)
    log = MemoryJournal([record_of(own(2), 1, 1, 1)])
    numbering.start(log, EPOCH, ignored)
    assert numbering.reclaim(SECOND) == 4
    numbering.sequencer.release()
    assert [numbering.table.number_of(place) for place in range(1, 6)] == [2, 1, 3, 4, 4]
    assert [number for number, _ in logged(log)] == [1, 2, 3, 4]


def test_given_no_room_for_what_waits_then_it_comes_before_new_messages() -> None:
    numbering = made()
    for n in (1, 2, 3):
        numbering.submit(message_of(own(n)), 1)
    log = MemoryJournal(room=len(record_of(own(1))))
    numbering.start(log, EPOCH, ignored)
    assert (numbering.reclaim(), numbering.has_unnumbered) == (1, True)
    assert numbering.submit(message_of(own(4)), 1) == 4
    assert numbering.table.number_of(4) == 0
    numbering.sequencer.release()
    log.room = 1 << 20
    numbering.sequencer.resume()
    assert numbering.submit(message_of(own(5)), 1) == 5
    assert not numbering.has_unnumbered
    numbering.sequencer.release()
    assert logged(log) == [(n, own(n)) for n in (1, 2, 3, 4, 5)]


def test_given_no_room_when_the_reign_ends_then_what_waits_is_forwarded() -> None:
    log = MemoryJournal(room=len(record_of(own(1))))
    numbering = coordinating(log)
    for n in (1, 2, 3):
        assert numbering.submit(message_of(own(n)), 1) == n
    numbering.sequencer.release()
    numbering.stop()
    numbering.table.rewind()
    assert read(numbering.table.unsent(1 << 20)) == [(0, own(2)), (0, own(3))]
    assert logged(log) == [(1, own(1))]


@pytest.mark.parametrize("broken", [False, True])
def test_given_a_reign_that_ends_then_what_is_not_written_is_forwarded(broken: bool) -> None:
    log = MemoryJournal()
    numbering = coordinating(log)
    numbering.submit(message_of(own(1)), 1)
    numbering.sequencer.release()
    log.broken = broken
    for n in (2, 3):
        numbering.submit(message_of(own(n)), 1)
    if broken:
        assert not numbering.sequencer.release()
    numbering.stop()
    assert not numbering.is_coordinator
    assert numbering.submit(message_of(own(4)), 1) == 4
    numbering.table.rewind()
    assert read(numbering.table.unsent(1 << 20)) == [(0, own(n)) for n in (2, 3, 4)]
    assert logged(log) == [(1, own(1))]
    log.broken = False
    numbering.start(log, EPOCH + 1, ignored)
    assert numbering.reclaim() == 3
    assert numbering.sequencer.release()
    assert logged(log) == [(n, own(n)) for n in (1, 2, 3, 4)]


def _with(change: Callable[[bytearray], None]) -> bytes:
    record = bytearray(record_of(other(2)))
    change(record)
    return bytes(record)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (record_of(own(1)), "a record of run 5 is forwarded by the member of run 6"),
        (record_of(Published(1 << 63, 1)), "of run 2147483648 is forwarded"),
        (record_of(other(2), number=3), "is not a new message"),
        (record_of(other(2), time=3), "is not a new message"),
        (record_of(other(2), epoch=3), "is not a new message"),
        (_with(lambda r: r.__setitem__(4, 1)), "byte 72 is damaged"),
        (_with(lambda r: r.__setitem__(4, 255)), "byte 72 is damaged"),
        (_with(lambda r: r.__setitem__(7, 255)), "byte 72 is damaged"),
        (_with(lambda r: r.__setitem__(52, 255)), "byte 72 is damaged"),
        (_with(lambda r: r.__delitem__(-1)), "byte 72 is damaged"),
        (_with(lambda r: r.__delitem__(slice(9, None))), "byte 72 is damaged"),
        (_with(lambda r: r.__setitem__(slice(46, 48), b"\0\0")), "is not a new message"),
        (_with(lambda r: r.__setitem__(slice(46, 48), b"\xff\xff")), "byte 72 is damaged"),
        (_with(lambda r: r.__setitem__(56, 32)), "byte 72 has a blank in its subject"),
        (_with(lambda r: r.__setitem__(63, 9)), "byte 72 has a blank in its subject"),
        (_with(lambda r: r.__setitem__(64, 10)), "byte 72 has a blank in its subject"),
        (_with(lambda r: r.__setitem__(65, 10)), "byte 72 has a blank in its subject"),
    ],
    ids=range(17),
)
def test_given_a_malformed_forward_then_it_is_refused_and_what_came_before_is_numbered(
    bad: bytes, text: str
) -> None:
    log = MemoryJournal()
    numbering = coordinating(log)
    good = record_of(other(1))
    assert len(good) == 72 > HEADER_SIZE
    with pytest.raises(BadRecords, match=text):
        numbering.take_forwarded(good + bad, 1, OTHER_RUN)
    numbering.sequencer.release()
    assert logged(log) == [(1, other(1))]


@pytest.mark.parametrize("byte", [0, 1, 13, 31, 33, 127, 128, 255])
@pytest.mark.parametrize("size", range(1, 18))
def test_given_any_subject_and_reply_then_only_blanks_and_line_ends_are_refused(
    size: int, byte: int
) -> None:
    for at in range(size):
        text = bytearray(b"s" * size)
        text[at] = byte
        assert is_text(_named(bytes(text)))
        for blank in b" \t\n":
            text[at] = blank
            assert not is_text(_named(bytes(text)))


def _named(text: bytes) -> Walk:
    batch = RecordBatch(0, 0, checked=False)
    batch.append_message(0, 0, text[:1], text[1:], b"", b" \n", 1, 1, 0)
    return walk_of(bytes(batch.view()))


def test_given_ids_that_are_committed_twice_or_cut_then_the_window_has_each_once() -> None:
    numbering = made(Window(120 * SECOND, 100))
    window = numbering.window
    assert window is not None
    records = [walk_of(record_of(own(n, b"%d" % n), n, SECOND, 1)) for n in (1, 2, 3)]
    for walk in (*records, *records):
        numbering.committed(walk, SECOND)
    assert len(window) == 3
    numbering.void_above(2, b"")
    assert [window.find(b" %d" % n, SECOND) for n in (1, 2, 3)] == [1, 2, 0]
    numbering.committed(walk_of(record_of(own(4), 4, SECOND, 1)), SECOND)
    assert len(window) == 2


def test_given_a_member_that_catches_up_then_what_is_too_old_elsewhere_does_not_count_here() -> (
    None
):
    numbering = made(Window(120 * SECOND, 100))
    window = numbering.window
    assert window is not None
    for n in range(1, 4):  # their times are of another clock, and say nothing
        walk = walk_of(record_of(own(n, b"%d" % n), n, n * 1000 * SECOND, 1))
        numbering.committed(walk, 7 * SECOND)
    assert [window.find(b" %d" % n, 8 * SECOND) for n in (1, 2, 3)] == [1, 2, 3]
    numbering.forget_ids(3)
    assert [window.find(b" %d" % n, 8 * SECOND) for n in (1, 2, 3)] == [0, 0, 3]
    assert numbering.ids_counting(8 * SECOND) == 3
    numbering.forget_ids(5)
    numbering.committed(walk_of(record_of(own(4, b"4"), 4, SECOND, 1)), 8 * SECOND)
    assert len(window) == 0


def test_given_a_follower_whose_clock_was_ahead_when_it_coordinates_then_that_is_forgotten() -> (
    None
):
    numbering, log = made(Window(120 * SECOND, 100)), MemoryJournal()
    numbering.submit(message_of(own(1, b"a")), 90_000 * SECOND, 5 * SECOND)
    numbering.start(log, EPOCH, ignored)
    numbering.reclaim(3600 * SECOND, 6 * SECOND)
    numbering.submit(message_of(own(2)), 3601 * SECOND, 7 * SECOND)
    numbering.sequencer.release()
    times = [walk_of(record).time for record in log.records]
    assert times == [3600 * SECOND, 3601 * SECOND]


@pytest.mark.parametrize("seed", range(depth(20, 400)))
def test_given_any_messages_then_the_numbers_are_those_of_a_naive_coordinator(seed: int) -> None:
    rng = random.Random(seed)
    log = MemoryJournal()
    numbering = coordinating(log, Window(5, 1000))
    ids: dict[tuple[bytes, bytes], tuple[int, int]] = {}
    wanted: list[tuple[int, Published]] = []
    counts = [0, 0]

    def judge(one: Published, now: int) -> tuple[int, bool]:
        key = one.message_id, one.subject if one.scoped else b""
        number, time = ids.get(key, (0, 0))
        if number and one.message_id and now - time < 5:
            return number, True
        wanted.append((len(wanted) + 1, one))
        ids[key] = len(wanted), now
        return len(wanted), False

    now = 1
    for _ in range(60):
        now += rng.choice((0, 0, 1, 3))
        ones = []
        is_own = rng.random() < 0.5
        for _ in range(rng.randrange(4)):
            counts[is_own] += 1
            message_id = rng.choice((b"", b"a", b"b", b"c"))
            one = (own if is_own else other)(counts[is_own], message_id)
            scoped = bool(message_id) and rng.random() < 0.5
            ones.append(one._replace(subject=rng.choice((b"a", b"b")), scoped=scoped))
        if is_own:
            for one in ones:
                place = numbering.submit(message_of(one), now)
                assert numbering.table.number_of(place) == judge(one, now)[0]
        else:
            judged = [(one, *judge(one, now)) for one in ones]
            data = b"".join(map(record_of, ones))
            answers = [AlreadyNumbered(one[0], one[1], n) for one, n, known in judged if known]
            assert numbering.take_forwarded(data, now, OTHER_RUN) == (answers, len(data))
    numbering.sequencer.release()
    assert logged(log) == wanted
    assert numbering.table.settle(len(wanted)) == counts[1]
