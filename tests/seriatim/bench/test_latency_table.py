"""Latencies are counted where they belong, however short or long they are."""

import pytest

from seriatim.bench.latency_table import LatencyTable

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("ns", "microseconds"),
    [
        (0, 0),
        (-5, 0),
        (999, 0),
        (1000, 1),
        (SECOND - 1, 999_999),
        (SECOND, 1_000_000),
        (SECOND + 999_999, 1_000_000),
        (1001 * SECOND // 1000, 1_001_000),
        (60 * SECOND, 60_000_000),
    ],
)
def test_given_a_latency_when_added_then_it_is_counted_in_its_unit(
    ns: int, microseconds: int
) -> None:
    table = LatencyTable()
    table.add(ns)
    assert table.pairs() == [(microseconds, 1)]


def test_given_latencies_beyond_the_table_then_they_count_as_its_longest() -> None:
    table = LatencyTable()
    for hours in (1, 1000):
        table.add(hours * 3600 * SECOND)
    ((microseconds, count),) = table.pairs()
    assert count == 2
    assert 1000 * SECOND < microseconds * 1000 < 3600 * SECOND


def test_given_many_latencies_then_pairs_rise_and_have_them_all() -> None:
    table = LatencyTable()
    for ns in (5000, 2 * SECOND, 5999, 7000):
        table.add(ns)
    assert table.pairs() == [(5, 2), (7, 1), (2_000_000, 1)]
    assert LatencyTable().pairs() == []
