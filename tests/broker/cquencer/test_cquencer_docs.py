"""docs/from-cquencer.md shows what the port really answers, and settings that exist."""

import re
import tomllib
from pathlib import Path

from broker.settings.resolve import resolve
from tests.support.cquencer_clients import Talker, calling, netstring
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "from-cquencer.md").read_text()


def test_given_the_conversation_on_the_page_then_the_port_answers_so(tmp_path: Path) -> None:
    lines = re.findall(r"^    ([><]) (.*)$", PAGE, re.MULTILINE)
    assert [way for way, _ in lines] == [">", "<"] * 3
    with calling(tmp_path, framing="netstring") as broker, Talker(broker) as talker:
        for (_, said), (_, answered) in zip(lines[::2], lines[1::2], strict=True):
            talker.send(said.replace("...", "x" * 2_000_000).encode())
            wanted = answered.encode()
            heard = b""
            while len(heard) < len(wanted):
                heard += netstring(talker.hear()[0])
            assert heard == wanted
        assert talker.rest() == []


def test_given_the_settings_on_the_page_then_they_are_right(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "broker.toml"
    file.write_text(block)
    settings = resolve({"store_dir": str(tmp_path)}, {}, str(file)).settings
    written = tomllib.loads(block)
    assert settings.sequencer.port == written["sequencer"]["port"]
    (feed,) = settings.feeds
    assert (feed.group, feed.port, feed.interface) == ("239.0.0.1", 1234, "eth0")


def test_given_names_of_settings_on_the_page_then_there_are_such() -> None:
    from broker.settings.catalog import SETTINGS

    named = set(re.findall(r"`((?:sequencer|limits|journal)\.[a-z_]+)", PAGE))
    assert named
    assert named <= set(SETTINGS)
