"""Subscriptions of all connections together: counted by what they take, and given back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.limits.subscription_total import SubscriptionTotal, weight_of
from sublist.subscription import Subscription
from tests.support.processes import STAND_IN
from tests.support.serving import Broker, Client, serving

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

EXCEEDED = b"'maximum subscriptions exceeded'"


def sub_to(subject: bytes, sid: bytes = b"1", queue: bytes | None = None) -> Subscription:
    return Subscription(subject, sid, queue, None)


def test_given_what_takes_more_memory_then_it_counts_for_more() -> None:
    assert weight_of(sub_to(b"orders.eu.1")) == 1
    assert weight_of(sub_to(b"orders", b"9" * 600)) == 3
    assert weight_of(sub_to(b"orders", queue=b"q" * 600)) == 3
    assert weight_of(sub_to(b"orders.*.eu.1")) == 3
    assert weight_of(sub_to(b"a." * 2000 + b">")) > 1000


@given(st.lists(st.sampled_from([b"a", b"a.*", b"a" * 999, b"*." * 99 + b">"])), st.integers(0, 99))
def test_given_any_subscriptions_then_what_is_used_is_what_they_count(
    subjects: list[bytes], most: int
) -> None:
    total = SubscriptionTotal()
    taken = [sub for sub in map(sub_to, subjects) if total.acquire(sub, most)]
    assert total.used == sum(map(weight_of, taken))
    assert most == 0 or total.used <= most
    assert total.refused == len(subjects) - len(taken)
    for sub in taken:
        total.release(sub)
    assert total.used == 0


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Broker]:
    with serving(tmp_path, flags={"limits.max_subscriptions_total": "4"}) as broker:
        yield broker


def refused(client: Client, *lines: bytes) -> list[bytes]:
    said = client.ask(b"".join(line + b"\r\n" for line in lines))
    return [one.text for one in said if one.verb == "-ERR"]


def test_given_all_taken_then_any_client_is_refused_and_stays_connected(four: Broker) -> None:
    one, other = four.client(), four.client()
    assert refused(one, b"SUB a 1", b"SUB b 2", b"SUB c q 3") == []
    assert refused(other, b"SUB a 1", b"SUB b 2") == [EXCEEDED]
    assert refused(other, b"SUB b.* 2", b"SUB $SEQ.FROM.1.> 3") == [EXCEEDED] * 2
    (heard,) = [sub for sub in other.ask(b"PUB a 1\r\nx\r\n") if sub.verb == "MSG"]
    assert heard.sid == b"1"
    assert refused(one, b"UNSUB 1") == []
    assert refused(other, b"SUB b 2") == []
    assert four.server.control.total.refused == 3


@pytest.mark.parametrize("subject", [b"a", b"a.*", b"$SEQ.FROM.999.a", b"$SEQ.LAST.a"])
@pytest.mark.parametrize("ending", ["UNSUB", "CONNECT", "closed", "its last message"])
def test_given_any_subscription_then_its_end_gives_back_what_it_took(
    four: Broker, subject: bytes, ending: str
) -> None:
    client, total = four.client(), four.server.control.total
    for _ in range(3):
        client.ask(b"SUB %b 1\r\nSUB %b 1\r\n" % (subject, subject))
        assert total.used == (2 if b"*" in subject else 1)
        if ending == "UNSUB":
            client.ask(b"UNSUB 1\r\n")
        elif ending == "CONNECT":
            client.ask(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
        elif ending == "closed":
            client.close()
            four.until(lambda: total.used == 0)
            client = four.client()
        elif subject == b"$SEQ.FROM.999.a":
            return  # its first message does not come
        else:
            client.ask(b"UNSUB 1 1\r\nPUB a 1\r\nx\r\nPUB a.b 1\r\nx\r\n")
            four.until(lambda: total.used == 0)
        assert total.used == 0
    assert total.refused == 0


def test_given_a_refused_pattern_then_it_is_not_counted(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        broker.server.plane.sublist.max_match_nodes = 100
        client = broker.client()
        assert (
            b"could lead through over 100 nodes"
            in refused(client, b"SUB %b 1" % b".".join([b"*"] * 200))[0]
        )
        assert broker.server.control.total.used == 0
        client.ask(b"SUB $SEQ.FROM.1.%b 2\r\n" % b".".join([b"*"] * 200))
        broker.until(lambda: broker.server.control.total.used == 0)  # refused when it would be live
