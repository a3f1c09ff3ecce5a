"""The page about clusters: a reader who copies its commands gets members, not refusals."""

import shlex

from tests.support.broker_start import settings_of
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "cluster.md"


def test_given_the_commands_that_start_members_then_their_settings_are_taken() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("seriatim serve")]
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line.removesuffix("&"))
        made = settings_of(words[2:], {})
        assert made is not None, f"refused: {line}"
        assert made.settings.cluster.name == "orders"
