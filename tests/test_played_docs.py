"""Pages that are followed from top to bottom: each command and program prints what they say."""

import fnmatch
import importlib.util
import re
from pathlib import Path

import pytest

from benchmarks.scenarios import ALL
from tests.support.pages import played
from tests.support.places import ROOT
from tests.support.processes import STAND_IN

pytestmark = pytest.mark.skipif(STAND_IN, reason="nats-server gives no numbers")
PAGES = ["event-sourcing", "exactly-once", "from-jetstream-and-kafka", "order-book", "sizing"]


@pytest.mark.parametrize("page", PAGES)
def test_given_a_page_when_all_that_it_tells_is_done_then_it_prints_what_the_page_says(
    tmp_path: Path, page: str
) -> None:
    played(f"docs/{page}.md", tmp_path)


def test_given_the_figures_of_sizing_when_measured_again_then_each_has_a_benchmark() -> None:
    page = (ROOT / "docs" / "sizing.md").read_text()
    scenarios = [scenario.name for scenario in ALL]
    named = re.findall(r"`--only '?([^`']+)'?`", page)
    assert len(named) > 10
    assert [one for one in named if not fnmatch.filter(scenarios, one)] == []
    programs = set(re.findall(r"`python -m (benchmarks\.\w+)`", page))
    assert programs
    assert [one for one in programs if importlib.util.find_spec(one) is None] == []


def test_given_the_figures_of_sizing_then_they_are_those_of_the_page_about_performance() -> None:
    sizing = (ROOT / "docs" / "sizing.md").read_text()
    performance = (ROOT / "docs" / "performance.md").read_text()
    for scenario, row in (
        ("kept-1:0-128", "| 1 publisher, no subscriber, 128 B |"),
        ("kept-1:1-128", "| 1 publisher, 1 subscriber, 128 B |"),
        ("kept-1:10-128", "| 1 publisher, 10 subscribers, 128 B |"),
        ("kept-1:1-1024", "| 1 publisher, 1 subscriber, 1 KiB |"),
    ):
        (ours,) = re.findall(rf"\| ([\d.]+) us \| `--only {scenario}` \|", sizing)
        measured = performance.split(row)[1].split("|")[1].split()[0]
        assert float(ours) == pytest.approx(float(measured), rel=0.06), scenario
