"""How often a missing message is requested before it is lost."""

import pytest

from sequencer.feed.feed_codec import DATA, Packet
from seriatim.receiver.events import MessagesLost
from seriatim.receiver.order import TRY, Order
from tests.support.receiving import message_of


def test_given_no_server_in_reach_then_tries_do_not_count_and_start_over_when_there_is_one() -> (
    None
):
    order = Order(1, fills=True, patience=0, answer=0.1, tries=2, chance=lambda: 0.5)
    order.offer(Packet(DATA, [message_of(3)], 2, 4), 0.0)
    now = 0.0
    for _ in range(50):
        (wanted,) = order.due_requests(now, 4, 0)
        assert (wanted.first, wanted.last) == (1, 2)
        assert 0.1 <= order.due - now <= 2 + 1e-9
        now = order.due
    order.retry(now)
    for pause in (0.1, 0.2):
        assert len(order.due_requests(now, 4)) == 1
        assert order.due == pytest.approx(now + pause)
        now = order.due
    assert order.due_requests(now, 4) == []
    assert order.drain() == [MessagesLost(1, 2), message_of(3)]


def test_given_questions_that_count_less_then_a_hole_is_asked_for_so_much_oftener() -> None:
    order = Order(1, fills=True, patience=0, answer=0.1, tries=2, chance=lambda: 0.5)
    order.offer(Packet(DATA, [message_of(3)], 2, 4), 0.0)
    moments = []
    for weight in [TRY, *[1] * TRY, 1]:
        moments.append(order.due)
        asked = order.due_requests(order.due, 4, weight)
        assert len(asked) == (len(moments) <= 1 + TRY)
    assert moments[:4] == pytest.approx([0, 0.1, 0.3, 0.7])
    assert moments[-1] - moments[-2] == pytest.approx(2), "never longer apart"
    assert order.drain() == [MessagesLost(1, 2), message_of(3)]


def test_given_up_then_what_is_due_is_lost_and_the_rest_has_its_time() -> None:
    order = Order(1, fills=True, patience=1.0)
    order.offer(Packet(DATA, [message_of(3)], 2, 4), 0.0)
    order.offer(Packet(DATA, [message_of(5)], 4, 6), 0.5)
    order.give_up(1.0)
    assert order.drain() == [MessagesLost(1, 2), message_of(3)]
    assert order.due == 1.5
    order.give_up(1.5)
    assert order.drain() == [MessagesLost(4, 4), message_of(5)]
    assert order.due == float("inf")
