"""The same warning again and again: a bounded number of lines, and how many were left out."""

import logging

from broker.runtime.log_bounds import BOUNDED, LINES_MAX, PLACES_MAX, REPEATED, SPAN, RepeatedLines
from broker.runtime.log_formats import message_of


def record_of(
    text: str, at: float = 0.0, level: int = logging.WARNING, line: int = 1
) -> logging.LogRecord:
    record = logging.LogRecord("seriatim", level, "file", line, text, (), None)
    record.created = at
    return record


def logged(bounds: RepeatedLines, *records: logging.LogRecord) -> list[str]:
    return [message_of(one) for one in records if bounds.filter(one)]


def test_given_more_than_a_minute_may_have_then_the_last_line_says_that_more_are_left_out() -> None:
    bounds = RepeatedLines()
    found = logged(bounds, *(record_of("full") for _ in range(LINES_MAX + 40)))
    assert found[:-1] == ["full"] * (LINES_MAX - 1)
    assert found[-1] == "full (more such lines are left out for a minute)"
    later = logged(bounds, record_of("full", SPAN), record_of("full", SPAN))
    assert later == ["full (40 more such lines were left out)", "full"]


def test_given_other_lines_then_they_are_counted_by_themselves() -> None:
    bounds = RepeatedLines()
    for _ in range(2 * LINES_MAX):
        bounds.filter(record_of("full"))
    assert logged(bounds, record_of("damaged")) == ["damaged"]
    assert logged(bounds, record_of("full", line=2)) == ["full"]


def test_given_information_or_what_is_bounded_elsewhere_then_all_is_logged() -> None:
    bounds = RepeatedLines()
    many = [record_of("hello", level=logging.INFO) for _ in range(2 * LINES_MAX)]
    known = [record_of("closed") for _ in range(2 * LINES_MAX)]
    for one in known:
        vars(one).update(BOUNDED)
    assert len(logged(bounds, *many, *known)) == 4 * LINES_MAX


def test_given_information_that_clients_cause_then_it_is_bounded_too() -> None:
    bounds = RepeatedLines()
    caused = [record_of("created", level=logging.INFO) for _ in range(2 * LINES_MAX)]
    for one in caused:
        vars(one).update(REPEATED)
    assert len(logged(bounds, *caused)) == LINES_MAX


def test_given_ever_other_places_then_memory_is_bounded_and_each_is_logged() -> None:
    bounds = RepeatedLines()
    records = [record_of("x", line=line) for line in range(3 * PLACES_MAX)]
    assert len(logged(bounds, *records)) == 3 * PLACES_MAX
    assert len(bounds._repeated) <= PLACES_MAX
