"""Codecs by name: the built-in ones, a user's own, and invalid names."""

import sys
from pathlib import Path

import pytest

from sequencer.feed.codecs import CODECS, codec_named
from sequencer.feed.errors import CodecNotFound
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_message import FeedMessage

MODULE = """
from sequencer.feed.feed_codec import Codec, Packet, DATA
from sequencer.feed.feed_message import FeedMessage


class Bare(Codec):
    def encode(self, message):
        return message.payload

    def decode(self, datagram):
        return Packet(DATA, [FeedMessage(1, datagram)])


class Needy(Codec):
    def __init__(self, needs):
        super().__init__()


class Other(Codec):
    def __new__(cls):
        return 5


NUMBER = 5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with codecs of a user's own."""
    (tmp_path / "own_codecs.py").write_text(MODULE)
    (tmp_path / "broken_codecs.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_codecs", raising=False)
    return "own_codecs"


@pytest.mark.parametrize("name", CODECS)
def test_given_a_name_of_ours_then_its_codec_reads_what_it_writes(name: str) -> None:
    codec = codec_named(name)
    codec.open("00c0ffee00c0ffee", 1)
    datagram = codec.datagram([FeedMessage(7, b"x", b"a")], 6)
    assert [(one.number, one.payload) for one in codec.decode(datagram).messages] == [(7, b"x")]
    assert codec_named(name) is not codec, "one for each feed"


def test_given_a_feed_with_a_filter_then_its_receivers_codec_knows_holes() -> None:
    datagram = codec_named("moldudp64").datagram([FeedMessage(1, b""), FeedMessage(2, b"x")], 0)
    assert len(codec_named("moldudp64").decode(datagram).messages) == 2
    assert len(codec_named("moldudp64", filtered=True).decode(datagram).messages) == 1
    for name in CODECS:
        assert isinstance(codec_named(name, filtered=True), Codec)


def test_given_a_codec_of_ones_own_then_it_is_made(module: str) -> None:
    codec = codec_named(f"{module}:Bare")
    assert type(codec).__name__ == "Bare"
    assert codec.datagram([FeedMessage(1, b"payload")], 0) == b"payload"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "'' is not a codec; give netstring, netstring-subject, binary, moldudp64, or package"),
        ("Netstring", "'Netstring' is not a codec; give"),
        ("own_codecs:", "is not a codec; give"),
        (":Bare", "is not a codec; give"),
        ("own_codecs.Bare", "is not a codec; give"),
        ("not_there_at_all:Bare", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("broken_codecs:Bare", "codec 'broken_codecs:Bare': ZeroDivisionError"),
        ("own_codecs:Missing", "AttributeError: module 'own_codecs' has no attribute 'Missing'"),
        ("own_codecs:NUMBER", "not a subclass of sequencer.feed.feed_codec.Codec"),
        ("own_codecs:FeedMessage", "not a subclass of sequencer.feed.feed_codec.Codec"),
        ("own_codecs:Other", "it makes int, not a Codec"),
        ("own_codecs:Needy", "cannot be made: TypeError: .*'needs'"),
    ],
)
def test_given_an_invalid_name_then_the_error_says_what_is_wrong(
    module: str, name: str, words: str
) -> None:
    with pytest.raises(CodecNotFound, match=words):
        codec_named(name)
