"""How much traffic forged re-requests can direct at a victim by default: the settings bound it."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.feeds.rerequests import FETCHES
from broker.settings.feed_settings import FeedSettings
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.moldudp64 import MoldUDP64Codec, request, session_name
from sequencer.feed.rerequest import Rerequests
from sequencer.journal.store import Store
from tests.support.feeding import asking
from tests.support.multicast import WAIT_S, new_group
from tests.support.serving import feed_text, serving
from tests.support.stores import in_memory, open_store, put

SESSION = session_name("00c0ffee00c0ffee", 1)
DEFAULT = FeedSettings(group="239.0.0.1", port=1, codec="moldudp64", rerequest_port=-1)
MIB = 1 << 20
LONG = 60_000


@pytest.fixture
def store() -> Iterator[Store]:
    with in_memory() as path:
        opened = open_store(Path(path) / "store")
        put(opened, size=LONG)
        put(opened, 20, size=1000)
        yield opened
        opened.close()


def server(store: Store) -> Rerequests:
    """As a feed has it by default."""
    return Rerequests(
        store,
        SESSION,
        datagram_bytes=DEFAULT.fill_bytes,
        datagram_max=DEFAULT.datagram_max,
        rate=DEFAULT.rerequest_rate,
        total_rate=DEFAULT.rerequest_total_rate,
    )


def answered(asked: Rerequests, peer: str, first: int, now: float) -> int:
    """The bytes of the answer to one request; 0 where there is none."""
    search = asked.begin_search(request(SESSION, first, 0xFFFF), peer, now, asked.journal.last)
    if search is None:
        return 0
    answer = search.run()
    assert answer is not None
    asked.sent(search, answer, now)
    return len(answer)


@pytest.mark.parametrize("first", [1, 2], ids=["long", "short"])
@pytest.mark.parametrize("often", [100, 5000])
def test_given_the_defaults_when_an_address_is_forged_then_it_gets_no_more_than_is_documented(
    store: Store, first: int, often: int
) -> None:
    asked, seconds = server(store), 10
    times = [at / often for at in range(seconds * often)]
    got = sum(answered(asked, "victim", first, now) for now in times)
    rate = MIB  # as docs/multicast.md has it
    assert got <= rate * (seconds + 1 / 4) + DEFAULT.datagram_max
    honest = rate * seconds / 2 if first == 1 or often == 5000 else 100 * seconds * 1000
    assert got >= honest, "an honest receiver gets most of it"


def test_given_the_defaults_when_many_addresses_are_forged_then_all_have_a_limit(
    store: Store,
) -> None:
    asked, seconds = server(store), 4
    got = sum(
        answered(asked, f"victim {which}", 1, now / 10)
        for now in range(seconds * 10)
        for which in range(100)
    )
    assert got <= 16 * MIB * (seconds + 1 / 4) + DEFAULT.datagram_max


def test_given_a_request_for_much_then_an_answer_is_a_datagram_or_one_message_alone(
    store: Store,
) -> None:
    asked, codec = server(store), MoldUDP64Codec()
    for first, count in ((1, 1), (2, 1), (21, 1)):
        search = asked.begin_search(
            request(SESSION, first, 0xFFFF), "peer", float(first), store.last
        )
        assert search is not None
        answer = search.run()
        assert answer is not None
        assert len(codec.decode(answer).messages) == count
        assert len(answer) <= (DEFAULT.datagram_max if first == 1 else DEFAULT.fill_bytes)


def test_given_a_broker_by_default_when_requests_are_forged_then_the_victim_gets_no_flood(
    tmp_path: Path,
) -> None:
    text = feed_text(new_group(), codec="moldudp64", rerequest_port=-1)
    with serving(tmp_path, text) as broker:
        broker.client().publish(b"orders", bytes(LONG))
        kept: Any = broker.server.journal
        wanted = request(session_name(kept.id, kept.epoch), 1, 1)
        with closing(asking(broker)) as victim:
            victim.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * MIB)
            victim.setblocking(False)
            begin, got = time.monotonic(), 0
            while time.monotonic() - begin < (0.5 if got > LONG else WAIT_S):
                for _ in range(20):
                    victim.send(wanted)
                broker.client().ask(b"")
                got += heard(victim)
            got += heard(victim)
            seconds = time.monotonic() - begin
    longest = (1 + FETCHES) * DEFAULT.datagram_max
    assert LONG < got <= MIB * (seconds + 1 / 4) + longest


def heard(victim: socket.socket) -> int:
    """The bytes that have come to it."""
    size = 0
    try:
        while True:
            size += len(victim.recv(1 << 16))
    except BlockingIOError:
        return size


def test_given_messages_when_they_are_asked_for_by_default_then_a_receiver_gets_them_all(
    store: Store,
) -> None:
    asked, codec, now, following = server(store), MoldUDP64Codec(), 0.0, 1
    found: list[FeedMessage] = []
    while following <= store.last:
        search = asked.begin_search(request(SESSION, following, 256), "honest", now, store.last)
        now += 0.001
        if search is not None:
            answer = search.run()
            assert answer is not None
            asked.sent(search, answer, now)
            found += codec.decode(answer).messages
            following = found[-1].number + 1
    assert [len(one.payload) for one in found] == [LONG, *[1000] * 20]
    assert now < 1.0
