"""Pages to rates and rows: between rounds, after a restart, and of what is no broker's page."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.cli.top.broker_watch import PAGES, BrokerWatch, RateMeter
from seriatim.cli.top.page_reader import Answers
from seriatim.cli.top.row_tables import VIEWS
from seriatim.cli.top.top_screen import TopScreen

NAMES = sorted(set(PAGES.values()))
FIELDS = st.sampled_from(
    """server_id start now uptime cpu mem connections journal cluster feeds name cid ip port rtt
    account_details stream_detail consumer_detail config state delivered num_pending routes
    subscriptions_list subscriptions_list_detail subject total oldest syncs""".split()  # noqa: SIM905
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=5,
)
ENTRY = st.dictionaries(FIELDS, JSON, max_size=6)
PAGE = st.dictionaries(FIELDS, JSON | ENTRY | st.lists(ENTRY, max_size=2), max_size=8)


def answers(at: float, **pages: Any) -> Answers:
    return Answers(at, 1e9 + at, {"varz": {"server_id": "A", "start": "1"}, **pages})


def connz(cid: int, msgs: int) -> dict[str, Any]:
    return {"connections": [{"cid": cid, "in_msgs": msgs}], "total": 1}


def test_given_two_rounds_then_a_rate_is_the_change_by_the_time_between() -> None:
    watch = BrokerWatch()
    watch.learn(answers(10.0, connz=connz(7, 100)))
    assert watch.rows["connections"][0]["in_msgs_rate"] is None
    watch.learn(answers(12.0, connz=connz(7, 150)))
    assert watch.rows["connections"][0]["in_msgs_rate"] == 25.0
    assert watch.seconds == 2.0


def test_given_a_page_that_was_left_out_then_its_rate_is_since_its_own_last_round() -> None:
    watch = BrokerWatch()
    watch.learn(answers(10.0, connz=connz(7, 100)))
    watch.learn(answers(11.0))
    watch.learn(answers(14.0, connz=connz(7, 180)))
    assert watch.rows["connections"][0]["in_msgs_rate"] == 20.0


def test_given_a_new_connection_then_its_rate_is_not_known() -> None:
    watch = BrokerWatch()
    watch.learn(answers(10.0, connz=connz(7, 100)))
    watch.learn(answers(11.0, connz=connz(8, 900)))
    assert watch.rows["connections"][0]["in_msgs_rate"] is None


@pytest.mark.parametrize(
    "life", [{"server_id": "B", "start": "1"}, {"server_id": "A", "start": "2"}]
)
def test_given_a_restart_then_rates_begin_again_and_are_never_negative(
    life: dict[str, str],
) -> None:
    watch = BrokerWatch()
    watch.learn(answers(10.0, varz={"server_id": "A", "start": "1", "in_msgs": 900}))
    watch.learn(answers(11.0, varz={**life, "in_msgs": 5}))
    assert (watch.restarts, watch.rates["in_msgs_rate"], watch.seconds) == (1, None, None)
    watch.learn(answers(12.0, varz={**life, "in_msgs": 15}))
    assert watch.rates["in_msgs_rate"] == 10.0


def test_given_rounds_without_time_between_then_there_is_no_rate() -> None:
    meter = RateMeter()
    assert meter.rates("a", 5.0, {1: (1.0,)}) == {}
    assert meter.rates("a", 5.0, {1: (2.0,)}) == {}
    assert meter.rates("a", 4.0, {1: (3.0,)}) == {}


@given(rounds=st.lists(PAGE, min_size=1, max_size=3))
def test_given_any_pages_then_each_view_is_drawn(rounds: list[dict[str, Any]]) -> None:
    screen = TopScreen(BrokerWatch(), "http://here")
    for at, page in enumerate(rounds):
        screen.watch.learn(answers(float(at), **dict.fromkeys(NAMES, page)))
    for key in "12345678":
        screen.press(key)
        for then in ("enter", "escape"):
            lines = screen.lines(80, 24)
            assert len(lines) == 24
            assert max(line.cell_len for line in lines) <= 80
            assert all(line.plain.isprintable() for line in lines)
            screen.press(then)
        for _ in screen.view.columns:
            screen.press("s")
            screen.shown_rows()


def consumer(state: str, **more: Any) -> dict[str, Any]:
    config = {"ack_policy": "explicit", "max_ack_pending": 10, **more.pop("config", {})}
    found = {"name": "c", "config": config, "num_pending": 5, "num_waiting": 1, **more}
    return found | ({"state": state} if state else {})


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (consumer("held", num_ack_pending=10), "10 of 10 unacknowledged"),
        (consumer("", num_ack_pending=10), "10 of 10 unacknowledged"),
        (consumer("held"), "held by flow control, a rate or replay times"),
        (consumer("idle", num_waiting=0), "no pull request waits"),
        (consumer("", num_waiting=0), "no pull request waits"),
        (consumer("idle", num_pending=0, num_waiting=0), "all was sent"),
        (consumer("", num_pending=0), "all was sent"),
        (consumer("asleep", config={"deliver_subject": "to.me"}), "nobody listens to to.me"),
        (consumer("", config={"deliver_subject": "to.me"}), "nobody listens to to.me"),
        (consumer("", config={"deliver_subject": "t"}, push_bound=True), "it is sending"),
        (consumer("reading"), "it is sending"),
        (consumer("parked"), "the client does not read what it gets"),
        (consumer("counting"), "it counts what is pending"),
        (
            consumer("paused", config={"pause_until": "2026-11-27T10:00:00.5Z"}),
            "it is paused until",
        ),
        (consumer("", paused=True), "it is paused"),
    ],
)
def test_given_a_consumer_then_it_says_why_nothing_is_sent(one: dict[str, Any], why: str) -> None:
    page = {"account_details": [{"stream_detail": [{"name": "S", "consumer_detail": [one]}]}]}
    watch = BrokerWatch()
    watch.learn(answers(1.0, jsz=page))
    assert watch.rows["consumers"][0]["why"].startswith(why)


def test_given_the_views_then_each_page_is_one_that_rows_are_made_of() -> None:
    for at, view in enumerate(VIEWS, 1):
        screen = TopScreen(BrokerWatch(), "")
        screen.press(str(at))
        assert PAGES[view.kind] in screen.wanted()
