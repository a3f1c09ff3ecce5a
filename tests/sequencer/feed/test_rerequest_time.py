"""Re-requests: how much time of the broker they may take."""

from typing import Any

import pytest

from sequencer.feed.moldudp64 import request, session_name
from sequencer.feed.rerequest import Rerequests
from sequencer.journal.ring import Ring
from tests.support.stores import put

SESSION = session_name("00c0ffee00c0ffee", 7)
LIMITS: dict[str, Any] = {
    "datagram_bytes": 1472,
    "datagram_max": 65507,
    "rate": 1 << 30,
    "total_rate": 1 << 30,
}


def server() -> Rerequests:
    """One whose store has one message, and whose peers get a tenth of the time each."""
    store = Ring(1 << 20)
    put(store, 1)
    return Rerequests(store, SESSION, share=0.1, **LIMITS)


def test_given_a_peer_that_has_had_its_share_of_time_then_others_are_answered_and_it_is_later() -> (
    None
):
    asked = server()
    datagram = request(SESSION, 1, 1)
    for _ in range(3):  # 25 ms at once: the third time it has had 30
        search = asked.begin_search(datagram, "greedy", 0.0, 1)
        assert asked.tired(0.0) == 0
        asked.spent("greedy", 0.015, 0.0, search is not None)
    assert (search, asked.limited) == (None, 1)
    assert asked.begin_search(datagram, "other", 0.0, 1) is not None
    assert asked.begin_search(datagram, "greedy", 0.19, 1) is None
    assert asked.begin_search(datagram, "greedy", 0.21, 1) is not None


def test_given_requests_that_are_worth_nothing_then_their_time_is_bounded_and_so_is_the_debt() -> (
    None
):
    asked = server()
    for _ in range(1000):
        asked.spent("greedy", 0.001, 0.0, answered=False)
    assert asked.tired(0.0) == pytest.approx(9.75), "a tenth of the time is for what is in vain"
    assert asked.begin_search(request(SESSION, 1, 1), "greedy", 0.2, 1) is None
    assert asked.begin_search(request(SESSION, 1, 1), "greedy", 0.3, 1) is not None


def test_given_all_peers_together_then_they_have_three_shares() -> None:
    asked = server()
    now = 0.0
    for peer in range(1000):
        asked.spent(peer, 0.001, now, answered=True)
        now += asked.tired(now)
    assert 3.0 <= now <= 3.34
