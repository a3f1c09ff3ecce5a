"""What no feed of cquencer's port can carry: refused before it has a number."""

from pathlib import Path

import pytest

from sequencer.feed.codecs import codec_named
from tests.support.cquencer_clients import Talker, calling, netstring
from tests.support.multicast import Ear, new_group
from tests.support.places import ROOT
from tests.support.serving import feed_text

ROOM = 65507  # the longest datagram of IPv4
# What a codec takes of it besides the payload, for a number of one digit and the subject cq.
OVERHEAD = {
    "netstring": len(b"65505:1:1,65490:,,"),
    "netstring-subject": len(b"65505:1:1,65490:,2:cq,,"),
    "binary": 36 + 26 + len(b"cq"),
    "moldudp64": 20 + 2,
}


def refusal(size: int, most: int) -> bytes:
    words = b"-ERR 'Maximum Payload Violation: %d bytes, and a datagram of the feed takes %d'"
    return words % (size, most)


@pytest.mark.parametrize("framing", ["recv", "netstring"])
@pytest.mark.parametrize("codec", OVERHEAD)
def test_given_a_message_that_no_datagram_takes_then_it_is_refused_without_a_number(
    tmp_path: Path, codec: str, framing: str
) -> None:
    group, most = new_group(), ROOM - OVERHEAD[codec]
    reader = codec_named(codec)
    with (
        calling(tmp_path, feed_text(group, codec=codec, heartbeat=0), framing=framing) as broker,
        Ear(group) as ear,
        Talker(broker) as talker,
    ):

        def ask(payload: bytes) -> bytes:
            return talker.ask(netstring(payload) if framing == "netstring" else payload)

        assert ask(b"x" * (most + 1)) == refusal(most + 1, most)
        assert ask(b"x" * most) == b"1"
        assert len(ear.next()) == ROOM
        assert ask(b"short") == b"2"
        (message,) = reader.decode(ear.next()).messages
        assert (message.number, message.payload) == (2, b"short")
        assert ear.rest() == []


def test_given_a_megabyte_as_a_netstring_then_it_is_refused_and_what_follows_is_taken(
    tmp_path: Path,
) -> None:
    group = new_group()
    with (
        calling(tmp_path, feed_text(group), framing="netstring") as broker,
        Ear(group) as ear,
        Talker(broker) as talker,
    ):
        size = 1 << 20
        assert talker.ask(netstring(b"x" * size)) == refusal(size, ROOM - OVERHEAD["netstring"])
        assert talker.ask(netstring(b"x" * (size + 1))) == b"-ERR 'Maximum Payload Violation'"
        assert talker.ask(netstring(b"hello")) == b"1"
        assert ear.next() == b"12:1:1,5:hello,,"


def test_given_a_number_with_one_digit_more_then_the_longest_message_is_one_byte_shorter(
    tmp_path: Path,
) -> None:
    group, most = new_group(), ROOM - OVERHEAD["netstring"]
    with (
        calling(tmp_path, feed_text(group)) as broker,
        Ear(group) as ear,
        Talker(broker) as talker,
    ):
        for number in range(1, 9):
            assert talker.ask(b"ab") == b"%d" % number
        assert talker.ask(b"x" * most) == b"9"
        assert talker.ask(b"x" * most) == refusal(most, most - 1)
        assert talker.ask(b"x" * (most - 1)) == b"10"
        assert [len(one) for one in ear.take(10)[8:]] == [ROOM, ROOM]


def test_given_several_feeds_then_the_one_that_takes_most_counts(tmp_path: Path) -> None:
    first, second, other = new_group(), new_group(), new_group()
    feeds = [
        feed_text(first, codec="binary"),
        feed_text(second, codec="moldudp64"),
        feed_text(other, subject="orders.>", codec="moldudp64"),
    ]
    most = ROOM - OVERHEAD["moldudp64"]
    with calling(tmp_path, *feeds) as broker, Ear(second) as ear, Talker(broker) as talker:
        assert talker.ask(b"x" * (most + 1)) == refusal(most + 1, most)
        assert talker.ask(b"x" * most) == b"1"
        assert len(ear.next()) == ROOM
        assert broker.server.feeds is not None
        assert [one.feed.too_long for one in broker.server.feeds.outlets] == [1, 0, 0]


@pytest.mark.parametrize("feed", [None, {"subject": "orders.>"}, {"codec": "{wide}"}])
def test_given_no_feed_of_the_port_or_one_of_unknown_bounds_then_nothing_is_too_long_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feed: dict[str, str] | None
) -> None:
    (tmp_path / "wide_codec.py").write_text(
        "from sequencer.feed.feed_codec import Codec\n"
        "class Wide(Codec):\n"
        "    def encode(self, message):\n"
        "        return b'%d' % len(message.payload)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    feeds = []
    if feed is not None:
        options = {key: value.format(wide="wide_codec:Wide") for key, value in feed.items()}
        feeds.append(feed_text(new_group(), **options))
    with calling(tmp_path, *feeds, framing="netstring") as broker, Talker(broker) as talker:
        assert talker.ask(netstring(b"x" * 300_000)) == b"1"


def test_given_the_answer_on_the_page_then_the_port_says_so() -> None:
    page = ROOT / "docs" / "from-cquencer.md"
    most = ROOM - OVERHEAD["netstring"]
    assert f"\n{netstring(refusal(65500, most)).decode()}\n" in page.read_text()
