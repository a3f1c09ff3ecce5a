"""What a broker sends to multicast groups: real datagrams on loopback, from real publishers."""

import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker.clients.session import Session
from sequencer.feed.feed_codec import DATA, HEARTBEAT
from sequencer.feed.moldudp64 import request, session_name
from sequencer.journal.store import Store
from testkit.model_frame import netstring_frame
from tests.support.feeding import asking, decoded, numbers, turns
from tests.support.multicast import WAIT_S, Ear, new_group
from tests.support.places import VECTORS
from tests.support.raw import HEADERS
from tests.support.serving import feed_text, serving

NEVER = {"heartbeat": 0}


def test_given_cquencers_session_when_published_then_the_datagrams_are_byte_equal(
    tmp_path: Path,
) -> None:
    session = json.loads((VECTORS / "cq_session.json").read_text())["session"]
    group, equal = new_group(), 0
    with Ear(group) as ear, serving(tmp_path, feed_text(group)) as broker:
        client = broker.client()
        for case in session:
            if not case["udp_hex"]:  # a query; here any message may have one byte
                continue
            payload = bytes.fromhex(case["send_hex"])
            number = int(bytes.fromhex(case["tcp_reply_hex"]).partition(b":")[2].rstrip(b","))
            while broker.server.last_number < number - 1:  # of cases that were not recorded
                client.publish(b"orders", b"")
                ear.next()
            client.publish(b"orders", payload)
            datagram = ear.next()
            assert datagram == netstring_frame(number, payload)
            if b"\0" not in payload:  # there the original is wrong
                assert [datagram.hex()] == case["udp_hex"]
                equal += 1
        assert ear.rest() == []
    assert equal == 7


def test_given_a_message_then_the_journal_has_it_before_the_feed_and_the_feed_before_subscribers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, seen = new_group(), []
    commit, flush = Store.commit, Session.flush

    def watched_commit(store: Store, *fields: Any) -> None:
        seen.append(("journal", ear.rest()))
        commit(store, *fields)
        seen.append(("written", ear.rest()))

    def watched_flush(session: Session) -> None:
        if (
            session.cid == 1
            and session.connection.shows_number is False
            and broker.server.last_number
        ):
            seen.append(("subscriber", ear.rest()))
        flush(session)

    monkeypatch.setattr(Store, "commit", watched_commit)
    with Ear(group) as ear, serving(tmp_path, feed_text(group)) as broker:
        subscriber, publisher = broker.client(), broker.client()
        subscriber.ask(b"SUB orders 1\r\n")
        broker.server.sessions[1].connection.fd = -1  # so its session sends, which can be watched
        monkeypatch.setattr(Session, "flush", watched_flush)
        publisher.publish(b"orders", b"one")
        monkeypatch.setattr(Session, "flush", flush)
        assert seen[:3] == [  # a PING may follow
            ("journal", []),
            ("written", []),
            ("subscriber", [netstring_frame(1, b"one")]),
        ]
        (heard,) = subscriber.ask(b"")
        assert heard.payload == netstring_frame(1, b"one")


def test_given_sync_always_when_the_disk_has_not_synced_then_nothing_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, asked, go_on = new_group(), threading.Event(), threading.Event()
    sync = Store.sync

    def slow_sync(store: Store) -> int:
        asked.set()
        assert go_on.wait(WAIT_S)
        return sync(store)

    with (
        Ear(group) as ear,
        serving(
            tmp_path,
            feed_text(group, codec="binary", heartbeat="10ms"),
            flags={"journal.sync": "always"},
        ) as broker,
    ):
        client = broker.client()
        monkeypatch.setattr(Store, "sync", slow_sync)
        client.publish(b"orders", b"one", b"two")
        broker.until(asked.is_set)
        broker.run(turns(20))
        waiting = decoded("binary", ear.rest())
        assert all(packet.kind == HEARTBEAT and packet.after == 1 for packet in waiting)
        assert broker.outlets[0].feed.sent.count == 2, "they wait"
        go_on.set()
        broker.until(lambda: broker.outlets[0].feed.sent.count == 0)
        data = [packet for packet in decoded("binary", ear.rest()) if packet.kind == DATA]
        assert numbers(data) == [1, 2]


def test_given_several_feeds_then_each_has_its_codec_its_filter_and_its_packing(
    tmp_path: Path,
) -> None:
    groups = [new_group() for _ in range(4)]
    texts = [
        feed_text(groups[0], **NEVER),
        feed_text(groups[1], codec="netstring-subject", subject="orders.*", **NEVER),
        feed_text(groups[2], codec="binary", subject="news.>", packing="true", **NEVER),
        feed_text(groups[3], codec="moldudp64", subject="news.>", packing="true", **NEVER),
    ]
    with ExitStack() as stack, serving(tmp_path, *texts) as broker:
        ears = [stack.enter_context(Ear(group)) for group in groups]
        client = broker.client()
        wire = b"".join(
            b"PUB %b 2\r\nm%d\r\n" % (subject, number)
            for number, subject in enumerate([b"orders.a", b"news.b", b"news.c", b"orders.d"], 1)
        )
        client.ask(wire)
        heard = [ear.rest() for ear in ears]
        journal, epoch = broker.server.journal.id, broker.server.journal.epoch
        counters = [
            (o.feed.messages, o.feed.skipped, o.feed.sent.datagrams) for o in broker.outlets
        ]
    assert heard[0] == [netstring_frame(number, b"m%d" % number) for number in range(1, 5)]
    named = decoded("netstring-subject", heard[1])
    assert [(m.number, m.subject) for p in named for m in p.messages] == [
        (1, b"orders.a"),
        (4, b"orders.d"),
    ]
    (packet,) = decoded("binary", heard[2])
    assert [(m.number, m.subject, m.payload) for m in packet.messages] == [
        (2, b"news.b", b"m2"),
        (3, b"news.c", b"m3"),
    ]
    assert (packet.previous, packet.session) == (0, b"%b-%d" % (journal.encode(), epoch))
    (packet,) = decoded("moldudp64", heard[3], filtered=True)
    assert (packet.previous, packet.after, numbers([packet])) == (0, 5, [2, 3])
    assert packet.session == session_name(journal, epoch)
    assert counters == [(4, 0, 4), (2, 2, 2), (2, 2, 1), (2, 2, 1)]


def test_given_packing_then_datagrams_are_filled_as_far_as_they_may_be(tmp_path: Path) -> None:
    group = new_group()
    text = feed_text(group, packing="true", datagram_bytes=300)
    with Ear(group) as ear, serving(tmp_path, text) as broker:
        broker.client().publish(b"orders", *[b"x" * 80] * 7, b"y" * 1000, b"z")
        heard = ear.rest()
    assert b"".join(heard) == b"".join(
        netstring_frame(number, payload)
        for number, payload in enumerate([*[b"x" * 80] * 7, b"y" * 1000, b"z"], 1)
    )
    assert [len(datagram) > 300 for datagram in heard] == [False, False, False, True, False]
    assert len(heard[0]) == 3 * len(netstring_frame(1, b"x" * 80))


def test_given_a_restart_then_the_numbers_go_on_in_another_epoch(tmp_path: Path) -> None:
    group = new_group()
    found = []
    with Ear(group) as ear:
        for _ in range(2):
            with serving(tmp_path, feed_text(group, codec="binary")) as broker:
                broker.client().publish(b"orders", b"one", b"two")
            found += decoded("binary", ear.rest())
    data = [packet for packet in found if packet.kind == DATA]
    assert numbers(data) == [1, 2, 3, 4]
    assert [packet.previous for packet in data] == [0, 1, 2, 3]
    journal = data[0].session.partition(b"-")[0]
    assert [packet.session for packet in data] == [journal + b"-1"] * 2 + [journal + b"-2"] * 2


def test_given_headers_then_a_codec_carries_them_where_it_can(tmp_path: Path) -> None:
    head = b"NATS/1.0\r\nColour: red\r\n\r\n"
    plain, whole = new_group(), new_group()
    texts = [feed_text(plain), feed_text(whole, codec="binary")]
    with Ear(plain) as bare, Ear(whole) as ear, serving(tmp_path, *texts) as broker:
        broker.client(HEADERS).ask(
            b"HPUB a.b %d %d\r\n%bhello\r\n" % (len(head), len(head) + 5, head)
        )
        assert bare.rest() == [netstring_frame(1, b"hello")]
        (message,) = [one for packet in decoded("binary", ear.rest()) for one in packet.messages]
    assert (message.subject, message.headers, message.payload) == (b"a.b", head, b"hello")
    assert message.time > 1_700_000_000 * 10**9


def test_given_a_message_twice_then_its_duplicate_is_not_sent(tmp_path: Path) -> None:
    head = b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n"
    wire = b"HPUB a %d %d\r\n%bhello\r\n" % (len(head), len(head) + 5, head)
    group = new_group()
    with Ear(group) as ear, serving(tmp_path, feed_text(group)) as broker:
        broker.client(HEADERS).ask(wire * 2 + b"PUB a 1\r\nx\r\n")
        assert ear.rest() == [netstring_frame(1, b"hello"), netstring_frame(2, b"x")]


def test_given_what_has_no_number_then_it_is_not_sent_and_what_asks_for_its_number_is(
    tmp_path: Path,
) -> None:
    group = new_group()
    flags = {"sequencer.exclude": "private.>"}
    with Ear(group) as ear, serving(tmp_path, feed_text(group), flags=flags) as broker:
        client = broker.client()
        said = client.ask(
            b"SUB back 1\r\nSUB private.> 2\r\nPUB private.a 1\r\nx\r\n"
            b"PUB $SEQ.PUB.orders back 3\r\none\r\n"
        )
        assert [one.payload for one in said] == [b"x", b"1:1,"]
        assert ear.rest() == [netstring_frame(1, b"one")]


def test_given_no_journal_then_the_ring_feeds(tmp_path: Path) -> None:
    group = new_group()
    text = feed_text(group, codec="moldudp64", rerequest_port=-1)
    with Ear(group) as ear, serving(tmp_path, text, flags={"journal.enabled": False}) as broker:
        broker.client().publish(b"orders", b"one", b"two")
        packets = decoded("moldudp64", ear.rest())
        assert numbers(packets) == [1, 2]
        with asking(broker) as asker:
            asker.setblocking(False)
            asker.send(request(packets[0].session, 2, 1))
            answer = broker.run(broker.server.loop.sock_recv(asker, 1 << 16))
            (again,) = decoded("moldudp64", [answer])
        assert [(m.number, m.payload) for m in again.messages] == [(2, b"two")]


def test_given_a_feed_that_cannot_be_then_the_broker_does_not_start_and_says_why(
    tmp_path: Path,
) -> None:
    good, bad = feed_text(new_group()), feed_text(new_group(), interface="nowhere0")
    with (
        pytest.raises(OSError, match=r"cannot feed 239.* by nowhere0: there is no such interface"),
        serving(tmp_path, good, bad),
    ):
        pass
    assert list(tmp_path.iterdir()) == [], "the store was not touched"


def test_given_no_feeds_then_nothing_is_looked_after(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        assert broker.server.feeds is None
        assert broker.server.plane.sequencer.feeds == []
