"""docs/multicast.md: its bytes are what the codecs write, and its codec works as printed."""

import re
from pathlib import Path

import pytest

from sequencer.feed.binary import BinaryCodec
from sequencer.feed.codecs import CODECS, codec_named
from sequencer.feed.errors import CodecError
from sequencer.feed.feed import Feed
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT, Codec
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.moldudp64 import MoldUDP64Codec, request
from sequencer.feed.netstrings import NetstringCodec, NetstringSubjectCodec
from tests.sequencer.feed.test_codec import batch_of
from tests.support.datagrams import read_or_refused
from tests.support.multicast import Ear, mouth, new_group
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "multicast.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SESSION = b"SESSION001"


def block(containing: str) -> str:
    """The page's one block of code that holds these words."""
    (found,) = [str(text) for _, text in BLOCKS if containing in text]
    return found


def lines(containing: str) -> list[bytes]:
    """Each line of a block, without what stands behind four blanks."""
    return [line.split("    ")[0].encode() for line in block(containing).splitlines()]


def hexadecimal(containing: str) -> list[bytes]:
    """Each line of a block as bytes: hexadecimal digits in pairs, up to words behind blanks."""
    found = []
    for line in block(containing).splitlines():
        digits = re.match(r"[0-9a-f ]+", line.split("    ")[0])
        assert digits is not None
        found.append(bytes.fromhex(digits[0]))
    return found


def test_given_the_table_of_codecs_then_it_has_every_one() -> None:
    table = PAGE.split("## The codecs at a glance")[1].split("\n\n")[1]
    assert tuple(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == CODECS


def test_given_frames_as_printed_then_they_are_what_is_sent() -> None:
    hello = FeedMessage(88_485, b"hello world", b"orders.x")
    assert lines("23:5:88485,11")[0] == NetstringCodec().datagram([hello], 0)
    codec = NetstringSubjectCodec()
    expected = [codec.datagram([hello], 0), codec.heartbeat(0, 88_486), codec.end(0, 88_486)]
    assert lines("$SEQ.NEXT,,") == expected


def test_given_a_binary_datagram_as_printed_then_it_is_what_is_sent() -> None:
    codec = BinaryCodec()
    codec.open("00c0ffee00c0ffee", 3)
    printed = b"".join(hexadecimal("53455249 01"))
    packet = codec.decode(printed)
    (message,) = packet.messages
    assert (message.number, message.payload, message.subject) == (
        88_485,
        b"hello world",
        b"orders.x",
    )
    assert message.time == 1_700_000_000_000_000_000
    assert codec.datagram([message], packet.previous) == printed


def test_given_mold_s_datagrams_as_printed_then_they_are_what_is_sent() -> None:
    codec = MoldUDP64Codec()
    codec.session = SESSION
    hello = FeedMessage(88_485, b"hello world")
    assert hexadecimal("88485: hello world") == [
        codec.datagram([hello], 88_484),
        codec.heartbeat(88_485, 88_486),
        codec.end(88_485, 88_486),
    ]
    assert hexadecimal("10 messages from") == [request(SESSION, 5, 10)]


@pytest.mark.parametrize("codec", [BinaryCodec, MoldUDP64Codec])
def test_given_the_offsets_of_a_head_then_they_follow_each_other(codec: type[Codec]) -> None:
    name = {BinaryCodec: "binary", MoldUDP64Codec: "moldudp64"}[codec]
    section = PAGE.split(f"### `{name}`")[1].split("\n### ")[0].split("\n## ")[0]
    head = section.split("|---:|---:|---|\n")[1].split("\n\n")[0]
    at = 0
    for row in head.splitlines():
        offset, size = (cell.strip() for cell in row.split("|")[1:3])
        assert int(offset) == at
        at += int(size or 0)
    assert at == codec().head_size


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Codec:
    """The page's codec, from a module of its own."""
    (tmp_path / "printed_codec.py").write_text(block("class Lines(Codec)"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return codec_named("printed_codec:Lines")


def test_given_the_codec_as_printed_then_a_feed_speaks_it_and_it_reads_itself(own: Codec) -> None:
    group = new_group()
    sent = [
        FeedMessage(7, b"one", b"a"),
        FeedMessage(8, b"two\nlines", b"b"),
        FeedMessage(9, b"", b"c"),
    ]
    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(own, speaker, datagram_max=65_507, packing=1472, previous=6)
        batch = batch_of(*sent)
        feed.add_records(bytearray(batch.view()), batch.end)
        feed.flush(9)
        assert feed.heartbeat(10)
        assert not feed.finish(10), "it has no end"
        data, beat = ear.take(2)
    assert data == b"  3\n7 one\n8 two lines\n9 \n"
    packet = own.decode(data)
    assert packet.messages == [
        FeedMessage(7, b"one"),
        FeedMessage(8, b"two lines"),
        FeedMessage(9, b""),
    ]
    assert (packet.kind, packet.previous, packet.after) == (DATA, -1, 10)
    packet = own.decode(beat)
    assert (packet.kind, packet.after) == (HEARTBEAT, 10)
    for wrong in (
        b"",
        b"  0\n",
        b"  1\n",
        b"  2\n7 one\n",
        b"  1\nx one\n",
        b"  1\n7\n",
        data[:-3],
    ):
        with pytest.raises(CodecError):
            own.decode(wrong)
    for at in range(len(data)):
        for byte in (0, 10, 32, 48, 255):
            read_or_refused(own.decode, data[:at] + bytes([byte]) + data[at + 1 :])


def test_given_every_kind_then_the_page_s_numbers_for_them_are_ours() -> None:
    assert (DATA, HEARTBEAT, END) == (0, 1, 2)
    assert "kind: 0 data, 1 heartbeat, 2 end" in PAGE
