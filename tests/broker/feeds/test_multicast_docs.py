"""What docs/multicast.md tells people to write: it is accepted, and does what the page says."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from broker.settings.resolve import resolve
from sequencer.feed.codecs import codec_named
from sequencer.feed.feed_codec import DATA, HEARTBEAT
from tests.support.multicast import Ear, new_group
from tests.support.places import ROOT
from tests.support.serving import feed_text, serving

PAGE = (ROOT / "docs" / "multicast.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_given_the_pages_settings_then_they_are_two_feeds(tmp_path: Path) -> None:
    (text,) = blocks("toml")
    file = tmp_path / "broker.toml"
    file.write_text(text)
    market, other = resolve({}, {}, str(file)).settings.feeds
    assert len(tomllib.loads(text)["feeds"]) == 2
    assert (market.label, market.codec, market.rerequest_port) == ("market", "moldudp64", 1235)
    assert (other.label, other.packing_bytes, other.subject) == ("market-b", 1472, "market.>")


def test_given_the_pages_command_then_it_is_a_feed() -> None:
    (line,) = re.findall(r"^    seriatim serve (--feed .*)$", PAGE, re.MULTILINE)
    flag, text = shlex.split(line)
    assert flag == "--feed"
    (feed,) = resolve({"feeds": [text]}, {}).settings.feeds
    assert (feed.address, feed.interface) == ("239.0.0.1:1234", "eth0")


def test_given_the_pages_own_codec_then_a_broker_feeds_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (module,) = (block for block in blocks("python") if "class Lines(Codec)" in block)
    (tmp_path / "lines_of_the_page.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    name, group = "lines_of_the_page:Lines", new_group()
    text = feed_text(group, codec=name, packing="true", heartbeat="20ms")
    with Ear(group) as ear, serving(tmp_path / "store", text) as broker:
        client = broker.client()
        client.publish(b"orders", b"one", b"two")
        begun = broker.outlets[0].heartbeats
        broker.until(lambda: broker.outlets[0].heartbeats > begun)
        heard = ear.rest()
    assert b"  2\n1 one\n2 two\n" in heard
    reader = codec_named(name)
    packets = [reader.decode(datagram) for datagram in heard]
    data = [packet for packet in packets if packet.kind == DATA]
    assert [(one.number, one.payload) for one in data[0].messages] == [(1, b"one"), (2, b"two")]
    assert (packets[-1].kind, packets[-1].after) == (HEARTBEAT, 3)
