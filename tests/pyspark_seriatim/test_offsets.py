"""Where reading begins and ends, what counts as lost, and how a range is divided."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_seriatim import offsets
from pyspark_seriatim.client import JournalInfo
from pyspark_seriatim.errors import DataLost
from pyspark_seriatim.options import Options

OURS, OTHER = "00c0ffee00c0ffee", "0badcafe0badcafe"


def info(first: int = 1, last: int = 100, trims: bool = False) -> JournalInfo:
    return JournalInfo(OURS, 1, first, last, last - first + 1, 0, 0, 0, "disk", 1 << 20, trims)


def options(where: str = "batch", **given: object) -> Options:
    texts = {name: str(value) for name, value in given.items()}
    return Options.parse({"servers": "a", **texts}, where)


def at(sequence: int, journal: str = OURS) -> dict[str, Any]:
    return {"journal": journal, "sequence": sequence}


def no_seek(time_ns: int) -> int:
    raise AssertionError("no time was given")


@pytest.mark.parametrize(
    ("given_", "there", "start"),
    [
        ({}, info(), {"startingOffsets": "latest"}),
        ({"startingOffsets": "earliest"}, info(), at(1)),
        ({"startingOffsets": "earliest"}, info(trims=True), {"startingOffsets": "earliest"}),
        ({"startingOffsets": "earliest"}, info(first=7), {"startingOffsets": "earliest"}),
        ({"startingOffsets": "7"}, info(), at(7)),
        ({"startingOffsets": json.dumps(at(7, OTHER))}, info(), at(7, OTHER)),
        ({"startingTimestamp": 5, "startingOffsets": 7}, info(), {"startingTimestamp": 5}),
    ],
)
def test_given_options_when_a_stream_begins_then_only_what_stays_the_same_is_a_number(
    given_: dict[str, Any], there: JournalInfo, start: dict[str, Any]
) -> None:
    made = offsets.initial(options("stream", **given_), there)
    assert json.dumps(made) == json.dumps(start)
    assert offsets.is_symbolic(made) == ("sequence" not in start)


def test_given_a_word_when_resolved_then_it_is_a_number() -> None:
    there = info(first=7)
    assert offsets.resolve({"startingOffsets": "latest"}, there, no_seek) == 101
    assert offsets.resolve({"startingOffsets": "earliest"}, there, no_seek) == 7
    assert offsets.resolve({"startingTimestamp": 3}, there, lambda ns: ns // 1000) == 3000


@pytest.mark.parametrize(
    ("start", "there", "first", "why"),
    [
        (at(7), info(), 7, ""),
        (at(101), info(), 101, ""),
        (at(7), info(first=7), 7, ""),
        (at(6), info(first=7), 7, "at 6, but the first number still kept is 7: 6 to 6 are lost"),
        (at(102), info(), 101, "at 102, but the last number given is 100: the journal was cut"),
        (at(7, OTHER), info(first=3), 3, f"at 7 of journal {OTHER}, but the broker has {OURS}"),
    ],
)
def test_given_an_offset_when_it_is_gone_on_from_then_what_is_lost_fails_or_is_logged(
    caplog: pytest.LogCaptureFixture,
    start: dict[str, Any],
    there: JournalInfo,
    first: int,
    why: str,
) -> None:
    if why:
        with pytest.raises(DataLost, match=why) as lost:
            offsets.first_of(options(), start, there)
        assert "failOnDataLoss=false continues with what is there" in str(lost.value)
    with caplog.at_level(logging.WARNING):
        assert offsets.first_of(options(failOnDataLoss="false"), start, there) == first
    assert [why in message for message in caplog.messages] == [True] * bool(why)


@pytest.mark.parametrize(
    ("start", "end", "there", "found"),
    [
        (at(1), at(101), info(), (1, 101)),
        (at(7), at(7), info(), (7, 7)),
        ({"startingOffsets": "latest"}, at(101), info(), (101, 101)),
        ({"startingOffsets": "latest"}, at(51), info(), (51, 51)),
        ({"startingTimestamp": 9}, at(51), info(), (51, 51)),
        ({"startingOffsets": "earliest"}, at(7), info(first=7), (7, 7)),
        ({"startingOffsets": "earliest"}, at(7), info(first=30), (7, 7)),
        (at(50), at(60), info(last=59), (50, 60)),
    ],
)
def test_given_a_micro_batch_when_planned_or_replayed_then_it_is_the_same_range(
    start: dict[str, Any], end: dict[str, Any], there: JournalInfo, found: tuple[int, int]
) -> None:
    assert offsets.stream_range(options("stream"), start, end, there) == found


@pytest.mark.parametrize(
    ("start", "end", "there", "found", "why"),
    [
        (at(1), at(50), info(first=20), (20, 50), "1 to 19 are lost"),
        (at(1), at(50), info(first=70), (50, 50), "1 to 69 are lost"),
        (at(1), at(50), info(last=30), (1, 31), "ends before 50, but the last number given is 30"),
        (at(1, OTHER), at(50, OTHER), info(), (1, 1), f"ends at 50 of journal {OTHER}"),
        # It was 1 when the batch was planned, for nothing had been deleted; now something is.
        ({"startingOffsets": "earliest"}, at(50), info(first=20), (20, 50), "1 to 19 are lost"),
    ],
)
def test_given_a_micro_batch_of_which_something_is_gone_when_planned_then_it_is_lost(
    start: dict[str, Any], end: dict[str, Any], there: JournalInfo, found: tuple[int, int], why: str
) -> None:
    with pytest.raises(DataLost, match=why):
        offsets.stream_range(options("stream"), start, end, there)
    lenient = options("stream", failOnDataLoss="false")
    assert offsets.stream_range(lenient, start, end, there) == found


def test_given_a_batch_over_a_change_of_journals_when_planned_then_it_begins_with_the_new_one() -> (
    None
):
    lenient = options("stream", failOnDataLoss="false")
    assert offsets.stream_range(lenient, at(900, OTHER), at(50), info(first=3)) == (3, 50)


@pytest.mark.parametrize(
    ("given_", "there", "found"),
    [
        ({}, info(), (1, 101)),
        ({}, info(first=7), (7, 101)),
        ({}, info(first=1, last=0), (1, 1)),
        ({"startingOffsets": "latest"}, info(), (101, 101)),
        ({"startingOffsets": 5, "endingOffsets": 9}, info(), (5, 9)),
        ({"startingOffsets": 5, "endingOffsets": 5}, info(), (5, 5)),
        ({"startingOffsets": 101}, info(), (101, 101)),
        ({"startingOffsets": "latest", "endingOffsets": 9}, info(), (101, 101)),
        ({"endingOffsets": 5}, info(first=9), (9, 9)),
        ({"startingTimestamp": 5}, info(), (5, 101)),
        ({"startingTimestamp": 5, "endingTimestamp": 9}, info(), (5, 9)),
        ({"startingTimestamp": 5, "startingOffsets": 7, "endingOffsets": 9}, info(), (5, 9)),
    ],
)
def test_given_a_batch_query_when_planned_then_it_is_this_range(
    given_: dict[str, Any], there: JournalInfo, found: tuple[int, int]
) -> None:
    seek = lambda time_ns: time_ns // 1_000_000  # noqa: E731
    assert offsets.batch_range(options(**given_), there, seek) == found


@pytest.mark.parametrize(
    ("given_", "there", "found", "why"),
    [
        ({"startingOffsets": 5}, info(first=7), (7, 101), "startingOffsets is at 5, but the first"),
        ({"startingOffsets": 102}, info(), (101, 101), "startingOffsets is at 102, but the last"),
        ({"endingOffsets": 102}, info(), (1, 101), "endingOffsets is 102, but the last number giv"),
        ({"endingOffsets": json.dumps(at(7, OTHER))}, info(), (1, 101), "endingOffsets is of jour"),
        (
            {"startingOffsets": json.dumps(at(7, OTHER))},
            info(),
            (1, 101),
            "startingOffsets is at 7",
        ),
    ],
)
def test_given_a_batch_query_for_what_is_not_there_when_planned_then_it_is_lost(
    given_: dict[str, Any], there: JournalInfo, found: tuple[int, int], why: str
) -> None:
    with pytest.raises(DataLost, match=why):
        offsets.batch_range(options(**given_), there, no_seek)
    lenient = options(failOnDataLoss="false", **given_)
    assert offsets.batch_range(lenient, there, no_seek) == found


def test_given_a_limit_when_a_micro_batch_ends_then_it_has_no_more_numbers() -> None:
    assert offsets.end_of(5, 101, None) == 101
    assert offsets.end_of(5, 101, 10) == 15
    assert offsets.end_of(5, 7, 10) == 7


@pytest.mark.parametrize(
    ("given_", "rows", "parts"),
    [
        ({}, 10_000_000, 1),
        ({"minPartitions": 4}, 10_000_000, 4),
        ({"minPartitions": 4}, 120_000, 2),
        ({"minPartitions": 4}, 100, 1),
        ({"maxRecordsPerPartition": 30}, 100, 4),
        ({"minPartitions": 2, "maxRecordsPerPartition": 1_000_000}, 500_000, 2),
    ],
)
def test_given_a_range_when_planned_then_so_many_tasks_read_it(
    given_: dict[str, Any], rows: int, parts: int
) -> None:
    assert len(offsets.plan(options(**given_), 7, 7 + rows)) == parts


@given(
    first=st.integers(1, 1 << 40),
    rows=st.integers(0, 1_000_000),
    least=st.integers(1, 50),
    most=st.integers(1_000, 2_000_000),
)
def test_given_any_range_when_planned_then_its_parts_are_whole_and_of_one_size(
    first: int, rows: int, least: int, most: int
) -> None:
    made = options(minPartitions=least, maxRecordsPerPartition=most)
    parts = offsets.plan(made, first, first + rows)
    ends = [first, *(high for _, high in parts)]
    assert [low for low, _ in parts] == ends[:-1], "each begins where the one before ends"
    assert ends[-1] == first + rows
    sizes = {high - low for low, high in parts}
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert max(sizes, default=0) <= most
    assert 0 not in sizes
