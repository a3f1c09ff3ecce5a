"""`seriatim.table`: what the files of a store have, as columns, beside a broker and without one."""

from pathlib import Path

import pytest

import seriatim
from seriatim.client.errors import InvalidArgument
from tests.sequencer.stores import JOURNAL, WrittenStore, payload_of, subject_of, time_of
from tests.support.processes import SeriatimServer, url


def test_given_a_store_when_read_then_the_table_has_its_messages(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (1, 20))
    table = seriatim.table(tmp_path)
    numbers = list(range(1, 21))
    assert table.column("number").tolist() == numbers
    assert table.column("time").tolist() == [time_of(number) for number in numbers]
    assert list(table.column("subject")) == [subject_of(number).decode() for number in numbers]
    assert list(table.column("payload")) == [payload_of(number) for number in numbers]
    assert (table.column("headers")[4], table.column("reply")[6]) == ({"A": "5"}, "answers")
    assert (table.next, table.journal) == (21, JOURNAL)
    assert table.to_pandas()["number"].tolist() == numbers


@pytest.mark.parametrize(
    ("first", "last", "subject", "numbers", "lost", "following"),
    [
        (None, None, ">", [5, 6, 7, 8, 12, 13, 14, 15], [(9, 11)], 16),
        (1, 12, ">", [5, 6, 7, 8, 12], [(1, 4), (9, 11)], 13),
        (6, 7, ">", [6, 7], [], 8),
        (10, 10, ">", [], [(10, 10)], 11),
        (16, None, ">", [], [], 16),
        (7, 6, ">", [], [], 7),
        (5, 8, "orders.*", [5, 6, 7, 8], [], 9),
        (5, 8, "*.1", [7], [], 9),
        (5, 8, "orders.1.>", [], [], 9),
        (5, 99, "orders.0", [6, 12, 15], [(9, 11)], 16),
    ],
)
def test_given_a_range_and_a_subject_when_read_then_the_table_has_these_alone(
    tmp_path: Path,
    first: int | None,
    last: int | None,
    subject: str,
    numbers: list[int],
    lost: list[tuple[int, int]],
    following: int,
) -> None:
    WrittenStore(tmp_path, (5, 8), (12, 15))
    table = seriatim.table(tmp_path, first, last, subject=subject, columns=["number"])
    assert table.column("number").tolist() == numbers
    assert [(one.first, one.last) for one in table.lost] == lost
    assert table.next == following


def test_given_a_running_broker_when_read_then_its_newest_messages_are_there() -> None:
    with SeriatimServer() as broker, seriatim.connect(url(broker)) as stream:
        for number in range(1, 101):
            stream.publish("orders.eu", b"%d" % number)
        here, there = seriatim.table(broker.store), stream.table()
        assert here.to_arrow().equals(there.to_arrow())
        assert (here.next, here.journal) == (there.next, there.journal)


@pytest.mark.parametrize(
    ("subject", "why"), [("a..b", "not a subject"), ("", "not valid"), (">.a", "not a subject")]
)
def test_given_a_subject_that_is_none_when_read_then_the_error_says_so(
    tmp_path: Path, subject: str, why: str
) -> None:
    WrittenStore(tmp_path, (1, 3))
    with pytest.raises(InvalidArgument, match=why):
        seriatim.table(tmp_path, subject=subject)


def test_given_no_store_when_read_then_the_error_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no journal here; give the directory"):
        seriatim.table(tmp_path)
    with pytest.raises(InvalidArgument, match="no such directory; give the directory"):
        seriatim.table(tmp_path / "nowhere")
