"""Rows of a buffer: checked however they are cut, published in turns, skipped."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.dataplane.kinds import Classifier
from broker.dataplane.plane import Plane
from broker.dataplane.staged_rows import Staged
from parser.machine import Parser
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

BAD = -1
ALL = 1 << 40


class Journal:
    """A store that takes so many bytes, and notes whole batches of records."""

    salt = epoch = 1
    checked = True
    last = newest_time = 0

    def __init__(self, room: int) -> None:
        self.room = room
        self.batches: list[bytes] = []

    def reserve(self, need: int) -> None:
        if need > self.room:
            raise OSError(28, "full")

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        self.batches.append(bytes(view))
        self.room -= len(view)


def staged(room: int = 1 << 30) -> tuple[Staged, Plane, Journal]:
    plane = Plane(Sublist(Classifier([b"open.>"])), Sequencer(), 1 << 20)
    plane.attach(cast(Any, None))
    journal = Journal(room)
    plane.sequencer.keep(journal, False, lambda error: None)
    return Staged(plane), plane, journal


HEAD = b"NATS/1.0\r\n\r\n"
rows = st.lists(
    st.one_of(
        st.builds(
            lambda subject, payload: b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload),
            st.sampled_from([b"a", b"a.b", b"orders.eu.1"]),
            st.binary(max_size=40),
        ),
        st.builds(
            lambda payload: b"hpub a r %d %d\r\n%b%b\r\n" % (12, 12 + len(payload), HEAD, payload),
            st.binary(max_size=40),
        ),
    ),
    max_size=12,
)


@given(rows, st.data())
def test_given_any_cuts_when_checked_then_as_many_rows_are_found_as_without(
    operations: list[bytes], data: Any
) -> None:
    text, (checker, _, _) = b"".join(operations), staged()
    parser, kept, found, at = Parser(), b"", 0, 0
    while at < len(text):
        end = data.draw(st.integers(at + 1, len(text)))
        store = bytearray(kept + text[at:end])
        count = checker.check(parser, store, 0, len(store))
        assert count >= 0
        kept, found, at = bytes(store[parser.at :]), found + count, end
    assert (found, kept, parser.state) == (len(operations), b"", 0)


@given(rows, st.integers(0, 12), st.integers(1, 5))
def test_given_rows_when_some_are_passed_over_then_the_others_are_published(
    operations: list[bytes], passed: int, most: int
) -> None:
    store = bytearray(b"".join(operations))
    publisher, plane, _ = staged()
    parser = Parser()
    assert publisher.pass_over(parser, store, 0, len(store), passed) == min(passed, len(operations))
    at = publisher.at
    assert at == len(b"".join(operations[:passed]))
    count = publisher.publish(parser, store, at, len(store), 9, passed + 1, most)
    assert count == min(most, max(len(operations) - passed, 0))
    assert plane.sequencer.number == count


def test_given_a_full_journal_when_published_then_it_stops_before_the_row_that_has_no_room() -> (
    None
):
    row = b"PUB orders 4\r\nabcd\r\n"
    store = bytearray(row * 10)
    publisher, plane, journal = staged(room=72 * 3)
    parser = Parser()
    assert publisher.publish(parser, store, 0, len(store), 9, 1, ALL) == 3
    assert (publisher.full, publisher.ended, publisher.at) == (True, False, 3 * len(row))
    assert publisher.publish(parser, store, publisher.at, len(store), 9, 4, ALL) == 0
    plane.release(None)
    journal.room = 1 << 20
    plane.sequencer.resume()
    assert publisher.publish(parser, store, publisher.at, len(store), 9, 4, ALL) == 7
    assert (publisher.full, publisher.ended, publisher.at) == (False, True, len(store))
    assert plane.sequencer.number == 10


@pytest.mark.parametrize("cut", [1, 3, 4, 9])
def test_given_a_full_journal_when_a_row_that_was_cut_has_no_room_then_it_is_published_later(
    cut: int,
) -> None:
    row = b"PUB orders 4\r\nabcd\r\n"
    publisher, plane, journal = staged(room=72 * 2)
    parser, store = Parser(), bytearray(row * 2 + row[:cut])
    assert publisher.publish(parser, store, 0, len(store), 9, 1, ALL) == 2
    assert publisher.ended
    store = store[publisher.at :] + row[cut:] + row
    for _ in range(2):
        assert publisher.publish(parser, store, 0, len(store), 9, 3, ALL) == 0
        assert (publisher.full, publisher.at) == (True, 0)
    plane.release(None)
    journal.room = 1 << 20
    plane.sequencer.resume()
    assert publisher.publish(parser, store, 0, len(store), 9, 3, ALL) == 2
    assert (publisher.full, publisher.ended, publisher.at) == (False, True, len(store))
    assert plane.sequencer.number == 4


def test_given_very_many_rows_when_published_then_a_turn_ends_before_they_do() -> None:
    row = b"PUB a 1\r\nx\r\n"
    store = bytearray(row * 50_000)
    publisher, _, _ = staged()
    count = publisher.publish(Parser(), store, 0, len(store), 9, 1, ALL)
    assert 1000 < count < 50_000
    assert (publisher.full, publisher.ended, publisher.at) == (False, False, count * len(row))


def test_given_rows_when_published_then_their_records_name_origin_and_place() -> None:
    from sequencer.journal.layout import RECORD
    from sequencer.journal.record import Walk

    text = b"PUB a 1\r\nx\r\nHPUB b re.ply 12 13\r\nNATS/1.0\r\n\r\ny\r\n"
    publisher, plane, journal = staged()
    publisher.publish(Parser(), bytearray(text), 0, len(text), (1 << 64) - 1, 41, ALL)
    plane.release(None)
    (data,) = journal.batches
    walk = Walk(1)
    walk.attach(data, 0, len(data))
    found = []
    while walk.next() == RECORD:
        parts = (walk.subject, walk.reply, walk.body, walk.payload)
        ends = (*parts[1:], walk.payload + walk.payload_size)
        words = [data[at:end] for at, end in zip(parts, ends, strict=True)]
        found.append((walk.origin, walk.origin_sequence, *words))
    most = (1 << 64) - 1
    assert found == [
        (most, 41, b"a", b"", b"", b"x"),
        (most, 42, b"b", b"re.ply", b"NATS/1.0\r\n\r\n", b"y"),
    ]


@pytest.mark.parametrize("text", [b"PING\r\n", b"PUB a 1\r\nxxx", b"SUB a 1\r\n"])
def test_given_input_that_is_no_row_when_published_then_it_is_bad(text: bytes) -> None:
    publisher, _, _ = staged()
    store = bytearray(text)
    assert publisher.publish(Parser(), store, 0, len(store), 9, 1, ALL) == BAD
    assert publisher.pass_over(Parser(), store, 0, len(store), 1) == BAD
    assert publisher.check(Parser(), store, 0, len(store)) == BAD
    assert publisher.row == 1


def test_given_a_bad_row_when_checked_then_its_place_and_its_subject_are_named() -> None:
    checker, _, _ = staged()
    store = bytearray(b"PUB a 1\r\nx\r\n" * 3 + b"PUB open.%b 1\r\nx\r\n" % (b"x" * 200))
    assert checker.check(Parser(), store, 0, len(store)) == BAD
    assert checker.row == 4
    assert checker.problem == f'"open.{"x" * 75}..." is excluded from sequencing'


def test_given_a_row_only_to_be_traced_when_checked_then_it_is_refused() -> None:
    checker, _, _ = staged()
    parser = Parser()
    parser.headers = True
    headers = b"NATS/1.0\r\nNats-Trace-Dest: t\r\nNats-Trace-Only: true\r\n\r\n"
    row = b"HPUB a %d %d\r\n%bx\r\n" % (len(headers), len(headers) + 1, headers)
    store = bytearray(b"PUB a 1\r\nx\r\n" + row)
    assert checker.check(parser, store, 0, len(store)) == BAD
    assert checker.row == 2
    assert checker.problem.startswith("has Nats-Trace-Only")
