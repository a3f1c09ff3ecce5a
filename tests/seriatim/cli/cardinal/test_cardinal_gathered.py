"""Crowds of lines of one kind: the first in full, the rest counted, once a second."""

from collections.abc import Callable

import pytest

from seriatim.cli.cardinal.cardinal_consume import Gathered

Said = Callable[[], list[str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def lines() -> list[str]:
        return [one.removeprefix("seriatim: ") for one in capsys.readouterr().err.splitlines()]

    return lines


def test_given_a_crowd_of_one_kind_when_reported_then_the_rest_is_counted(said: Said) -> None:
    gathered = Gathered()
    for at in range(2000):
        gathered.tell("old", f"block {at} is old", 5.0 + at / 10_000)
        gathered.look(5.0 + at / 10_000)
    assert said() == ["block 0 is old"]
    gathered.look(6.0)
    assert said() == ["1999 more like this, the last one: block 1999 is old"]
    gathered.tell("old", "block 7 is old", 6.5)
    assert said() == []
    gathered.end()
    gathered.end()
    assert said() == ["block 7 is old"]


def test_given_lines_of_several_kinds_when_reported_then_each_is_by_itself(said: Said) -> None:
    gathered = Gathered()
    for at in range(3):
        gathered.tell("old", f"old {at}", 1.0)
        gathered.tell(("far", 1), f"far {at}", 1.0)
        gathered.tell(None, f"always {at}", 1.0)
    assert said() == ["old 0", "far 0", "always 0", "always 1", "always 2"]
    gathered.look(2.0)
    assert said() == [
        "2 more like this, the last one: old 2",
        "2 more like this, the last one: far 2",
    ]


def test_given_a_line_a_second_when_reported_then_each_is_whole(said: Said) -> None:
    gathered = Gathered()
    for at in range(4):
        gathered.tell("old", f"old {at}", float(at))
        gathered.look(at + 0.5)
    assert said() == [f"old {at}" for at in range(4)]
