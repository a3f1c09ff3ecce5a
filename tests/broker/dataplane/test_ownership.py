"""The connection of a subscription, while it has one."""

import pytest

from broker.dataplane.ownership import connection_of
from sublist.subscription import Subscription
from testkit.stage import Stage


def test_given_a_subscription_of_a_client_then_its_connection_is_known() -> None:
    peer = Stage().join()
    peer.send(b"SUB a.b 1\r\n")
    (sub,) = peer.connection.subs.values()
    assert connection_of(sub) is peer.connection


def test_given_a_subscription_that_has_ended_then_it_has_no_connection() -> None:
    peer = Stage().join()
    peer.send(b"SUB a.b 1\r\n")
    (sub,) = peer.connection.subs.values()
    peer.send(b"UNSUB 1\r\n")
    with pytest.raises(AssertionError, match="it has not ended"):
        connection_of(sub)
    with pytest.raises(AssertionError, match="it has not ended"):
        connection_of(Subscription(b"a.b", b"1", None, None))
