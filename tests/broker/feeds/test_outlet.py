"""One feed: what it reports about itself, and failures of its codec or its socket."""

from pathlib import Path

import pytest

from sequencer.feed.feed import Feed
from sequencer.feed.feed_codec import DATA
from sequencer.feed.netstrings import NetstringCodec
from tests.support.feeding import decoded, numbers
from tests.support.multicast import Ear, new_group
from tests.support.serving import feed_text, serving

NEVER = {"heartbeat": 0}

OWN = """
from sequencer.feed.feed_codec import DATA, Codec, Packet
from sequencer.feed.feed_message import FeedMessage

class Lines(Codec):
    def __init__(self):
        super().__init__(head_size=2)

    def head(self, previous, first, last, count):
        return b"%d:" % previous

    def encode(self, message):
        return b"%d %b\\n" % (message.number, message.payload.decode().upper().encode())

    def heartbeat(self, previous, after):
        raise RuntimeError("out of beats")
"""


def test_given_a_message_too_long_for_a_datagram_then_it_is_not_cut_and_the_feed_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group, long = new_group(), b"x" * 70_000
    text = feed_text(group, codec="binary", name="A")
    with Ear(group) as ear, serving(tmp_path, text) as broker:
        subscriber, publisher = broker.client(), broker.client()
        subscriber.ask(b"SUB > 1\r\n")
        publisher.publish(b"orders", b"one", long, b"three", b"y" * 65_000)
        packets = [one for one in decoded("binary", ear.rest()) if one.kind == DATA]
        assert numbers(packets) == [1, 3, 4]
        assert packets[1].previous == 2, "so that a receiver sees that one is missing"
        assert len(subscriber.ask(b"")) == 4
        broker.until(lambda: "Feed A: 1 messages were too long for a datagram" in caplog.text)
        assert broker.outlets[0].feed.too_long == 1


def test_given_a_codec_of_ones_own_then_it_is_used_and_its_failures_stop_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "feeds_own_lines.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    group, other = new_group(), new_group()
    own = feed_text(
        group, name="own", codec="feeds_own_lines:Lines", packing="true", heartbeat="9ms"
    )
    with (
        Ear(group) as ear,
        Ear(other) as plain,
        serving(tmp_path / "store", own, feed_text(other)) as broker,
    ):
        client = broker.client()
        client.publish(b"orders", b"one", b"two")
        assert ear.next() == b"0:1 ONE\n2 TWO\n"
        client.publish(b"orders", b"three", b"\xff", b"five")
        assert ear.rest() == [b"2:3 THREE\n", b"4:5 FIVE\n"]
        assert len(plain.rest()) == 5
        assert broker.outlets[0].feed.broken == 1
        broker.until(lambda: "out of beats" in caplog.text)
        store = broker.server.journal
        client.publish(b"orders", b"six")
        assert (store.last, ear.next()) == (6, b"5:6 SIX\n"), "nothing was written twice"
    (told, *_) = [one for one in caplog.messages if one.startswith("Feed own: its codec")]
    assert "failed" in told


def test_given_a_feed_that_fails_outright_then_the_journal_has_each_message_once(
    tmp_path: Path,
) -> None:
    def no_memory(subject: bytes) -> bool:
        raise MemoryError

    group = new_group()
    with serving(tmp_path, feed_text(group)) as broker:
        sequencer, store = broker.server.plane.sequencer, broker.server.journal
        outlet = broker.outlets[0]
        failing = Feed(NetstringCodec(), outlet.socket, datagram_max=1472, matches=no_memory)
        sequencer.feeds.append(failing)
        client = broker.client()
        client.send(b"PUB orders 3\r\none\r\n")
        broker.until(lambda: store.last == 1)
        sequencer.feeds.remove(failing)
        broker.client().publish(b"orders", b"two")
        assert (store.last, sequencer.number, outlet.feed.messages) == (2, 2, 2)


def test_given_a_codec_that_cannot_be_opened_then_the_broker_does_not_start_and_says_why(
    tmp_path: Path,
) -> None:
    text = feed_text(new_group(), codec="tests.support.codecs:Closed")
    said = r"cannot feed 239.*: codec 'tests.support.codecs:Closed': cannot be opened: ValueError:"
    with pytest.raises(OSError, match=said), serving(tmp_path, text):
        pass


def test_given_a_heartbeat_that_the_codec_has_not_then_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = (
        feed_text(new_group(), name="a", heartbeat="3s"),
        feed_text(new_group(), name="b"),
        feed_text(new_group(), name="c", heartbeat="0"),
    )
    with serving(tmp_path, *texts):
        said = [one for one in caplog.messages if "cannot send heartbeats" in one]
    assert said == ["Feed a: its codec cannot send heartbeats"]


def test_given_a_broker_with_feeds_then_its_log_says_what_goes_where(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    group = new_group()
    text = feed_text(group, name="market", codec="moldudp64", rerequest_port=-1)
    with serving(tmp_path, text) as broker:
        answers = broker.outlets[0].rerequests
        assert answers is not None
        port = answers.address[1]
    assert f"Feed market to {group[0]}:{group[1]} by 127.0.0.1, codec moldudp64" in caplog.messages
    assert f"Feed market: answering re-requests on 127.0.0.1:{port}" in caplog.messages
