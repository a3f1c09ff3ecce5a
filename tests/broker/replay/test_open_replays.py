"""Open replays: limited for each connection and in all, and released at once when they end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.replay.replays import LATEST_MAX, OpenReplays
from tests.support.processes import STAND_IN
from tests.support.serving import Broker, Client, serving

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

FUTURE = b"$SEQ.FROM.999999.>"  # stays open
LIMITS = {
    "limits.max_replays": "3",
    "limits.max_replays_total": "5",
}


@pytest.fixture(params=["disk", "memory"])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    store = {} if request.param == "disk" else {"journal.enabled": False}
    with serving(tmp_path, flags={**LIMITS, **store, "journal.ring_bytes": "1MiB"}) as running:
        yield running


def opened(broker: Broker) -> OpenReplays:
    assert broker.server.replays is not None
    return broker.server.replays.opened


def errors_of(client: Client, subject: bytes, *sids: int) -> list[bytes]:
    said = client.ask(b"".join(b"SUB %b %d\r\n" % (subject, sid) for sid in sids))
    return [one.text for one in said if one.verb == "-ERR"]


def test_given_too_many_of_one_connection_then_it_is_refused_and_others_are_not(
    broker: Broker,
) -> None:
    one, other = broker.client(), broker.client()
    (why,) = errors_of(one, FUTURE, 1, 2, 3, 4)
    assert why.startswith(b"'Permissions Violation for Subscription to")
    assert b"this connection has 3 replays open (limits.max_replays)" in why
    assert errors_of(other, FUTURE, 1, 2) == []
    (why,) = errors_of(other, FUTURE, 3)
    assert b"5 replays are open (limits.max_replays_total)" in why
    assert errors_of(other, b"live", 4) == [], "live subscriptions are no replays"
    assert errors_of(other, FUTURE, 1) == [], "a sid that is known already is ignored"
    assert (opened(broker).open, opened(broker).refused) == (5, 2)


def test_given_any_end_then_there_is_room_at_once(broker: Broker) -> None:
    one, other = broker.client(), broker.client()
    for _ in range(5):
        assert errors_of(one, FUTURE, 1, 2, 3) == []
        one.ask(b"UNSUB 1\r\nUNSUB 2\r\nUNSUB 3\r\n")
    for _ in range(5):
        assert errors_of(one, FUTURE, 1, 2, 3) == []
        one.close()
        broker.until(lambda: opened(broker).open == 0)
        one = broker.client()
    broker.client().publish(b"a", b"x", b"y")
    for sid in range(20):  # each is live, or over, when it has had the past
        assert errors_of(other, b"$SEQ.FROM.1.a", sid) == []
        broker.until(lambda: opened(broker).open == 0)
        assert errors_of(other, b"$SEQ.RANGE.1.1.a", 100 + sid) == []
        broker.until(lambda: opened(broker).open == 0)
    assert opened(broker).refused == 0


def test_given_last_values_then_they_have_a_limit_of_their_own(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        client = broker.client()
        client.publish(b"a", b"x")
        (why,) = errors_of(client, b"$SEQ.LAST.>", *range(LATEST_MAX + 1))
        assert b"this connection has 4 $SEQ.LAST open, the maximum; wait until" in why
        broker.until(lambda: opened(broker).open == 0)
        assert errors_of(client, b"$SEQ.LAST.a", 9) == []


def test_given_a_client_that_catches_up_then_that_is_no_replay(tmp_path: Path) -> None:
    flags = {"limits.max_replays_total": "1", "limits.catchup_pending": "4KiB"}
    with serving(tmp_path, flags=flags) as broker:
        replays = broker.server.replays
        assert replays is not None
        slow = broker.client()
        slow.ask(b"SUB a 1\r\n")
        publisher = broker.client()
        for _ in range(400):
            publisher.publish(b"a", bytes(65536))
            if replays.catch_ups:
                break
        assert replays.catch_ups
        assert opened(broker).open == 0
        assert errors_of(publisher, FUTURE, 1) == []
