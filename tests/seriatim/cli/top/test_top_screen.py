"""The state of the screen: what stays selected, what is asked for, and what its last line says."""

from typing import Any

import pytest

from seriatim.cli.top.broker_watch import BrokerWatch
from seriatim.cli.top.page_reader import Answers
from seriatim.cli.top.top_screen import TopScreen


def learn(screen: TopScreen, at: float, *sent: int, total: int = 0) -> None:
    """A round in which connection 1, 2 ... has sent so many messages."""
    connections: list[dict[str, Any]] = [
        {"cid": cid, "name": f"client-{cid}", "out_msgs": msgs} for cid, msgs in enumerate(sent, 1)
    ]
    pages = {"varz": {}, "connz": {"connections": connections, "total": total or len(sent)}}
    screen.watch.learn(Answers(at, 1e9 + at, pages))


@pytest.fixture
def screen() -> TopScreen:
    """Three connections, of which the third sends most and the first least."""
    made = TopScreen(BrokerWatch(), "http://here")
    learn(made, 1.0, 0, 0, 0)
    learn(made, 2.0, 10, 20, 30)
    return made


def names(screen: TopScreen, width: int = 80) -> list[str]:
    """The rows in order; the selected one has a star."""
    found = [line for line in screen.lines(width, 24) if "client-" in line.plain]
    starred = ["*" * any("reverse" in str(span.style) for span in one.spans) for one in found]
    return [one.plain.split()[0] + star for one, star in zip(found, starred, strict=True)]


def test_given_an_order_that_changes_then_the_selected_row_stays_selected(
    screen: TopScreen,
) -> None:
    assert names(screen) == ["3*", "2", "1"]
    screen.press("down")
    assert names(screen) == ["3", "2*", "1"]
    learn(screen, 3.0, 900, 20, 40)
    assert names(screen) == ["1", "3", "2*"]
    screen.press("home")
    learn(screen, 4.0, 900, 800, 50)
    assert names(screen) == ["2*", "3", "1"], "at the top, the top stays in view"


def test_given_a_selected_row_that_goes_then_the_one_in_its_place_is_selected(
    screen: TopScreen,
) -> None:
    screen.press("end")
    assert names(screen) == ["3", "2", "1*"]
    screen.press("up")
    names(screen)
    learn(screen, 3.0, 20)
    assert names(screen) == ["1*"]
    learn(screen, 4.0)
    assert names(screen) == []
    for key in ("down", "enter", "pgup", "end"):  # there is nothing to select
        assert screen.press(key)


def test_given_more_rows_than_lines_then_the_selected_one_is_in_view(screen: TopScreen) -> None:
    learn(screen, 3.0, *range(100, 0, -1))
    screen.lines(80, 24)
    for key, shown in (("end", "100*"), ("home", "1*"), ("pgdn", "18*"), ("pgdn", "35*")):
        screen.press(key)
        found = names(screen)
        assert len(found) == 17
        assert [one for one in found if one.endswith("*")] == [shown]


def test_given_a_filter_then_more_rows_are_asked_for_and_counted(screen: TopScreen) -> None:
    learn(screen, 3.0, 1, 2, 3, total=5000)
    assert "limit=1024" in screen.wanted()["connz"]
    assert screen.lines(80, 24)[-1].plain.startswith("3 of 5,000  ")
    for key in ("/", "T", "-", "2", "enter"):
        screen.press(key)
    assert "limit=10000" in screen.wanted()["connz"]
    assert names(screen) == ["2*"]
    assert screen.lines(80, 24)[-1].plain.startswith("filter T-2  1 of 5,000  ")


def test_given_a_column_to_sort_by_then_the_broker_is_asked_for_that_order(
    screen: TopScreen,
) -> None:
    assert "sort=msgs_to" in screen.wanted()["connz"]
    screen.press("s")
    assert screen.is_hurried
    assert "sort=pending" in screen.wanted()["connz"]


def test_given_the_arrows_then_other_columns_are_shifted_in(screen: TopScreen) -> None:
    assert "language" not in screen.lines(80, 24)[5].plain
    for _ in range(99):
        screen.press("right")
    titles = screen.lines(80, 24)[5].plain.split()
    assert titles[0] == "cid"
    assert titles[-1] == "account"
    for _ in range(99):
        screen.press("left")
    assert screen.lines(80, 24)[5].plain.split()[:2] == ["cid", "name"]


def test_given_no_answer_then_the_last_line_says_since_when_and_all_else_is_dim(
    screen: TopScreen,
) -> None:
    screen.trouble = "connection refused\x1b[2J"
    lines = screen.lines(80, 24, silent=75.0)
    assert "(1m15s): connection refused\\x1b[2J" in lines[-1].plain
    assert lines[-1].plain.startswith("no answer since ")
    assert all(any(span.style == "dim" for span in line.spans) for line in lines[:-1] if line.plain)


def test_given_plus_and_minus_then_the_interval_stays_within_its_bounds(screen: TopScreen) -> None:
    found = []
    for key in "+" * 9 + "-" * 9:
        screen.press(key)
        found.append(screen.interval)
    assert found[8] == 60.0
    assert found[-1] == 0.5
