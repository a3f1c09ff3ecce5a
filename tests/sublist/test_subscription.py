"""A new subscription's attributes."""

import pytest

from sublist.subscription import Subscription


@pytest.mark.parametrize("queue", [None, b"q"])
def test_given_a_new_subscription_then_it_is_what_was_said_and_nothing_was_delivered(
    queue: bytes | None,
) -> None:
    owner = object()
    sub = Subscription(b"a.*", b"sid 1", queue, owner)
    assert (sub.subject, sub.sid, sub.queue, sub.owner) == (b"a.*", b"sid 1", queue, owner)
    assert (sub.delivered, sub.limit) == (0, 0)


def test_given_counts_of_more_than_32_bits_then_they_are_kept() -> None:
    sub = Subscription(b"a", b"1", None, None)
    sub.delivered = sub.limit = 1 << 40
    assert sub.delivered == sub.limit == 1 << 40
