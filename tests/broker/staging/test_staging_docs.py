"""docs/staging.md: its example does what the page says; its statuses and settings are all there."""

import asyncio
import json
import re
from zlib import crc32

import pytest

from broker.settings.catalog import SETTINGS
from parser.errors import AGAIN
from sequencer.replica import member_messages as m
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer

PAGE = (ROOT / "docs" / "staging.md").read_text()


def test_given_the_example_when_run_then_it_prints_what_the_page_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (printed,) = re.findall(r"^prints\n\n```\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, "docs/staging.md", "exec"), names)
    with SeriatimServer("netstring") as broker:
        asyncio.run(names["main"](f"nats://127.0.0.1:{broker.port}"))  # type: ignore[operator]
    assert capsys.readouterr().out == printed


def test_given_the_example_of_a_commit_then_it_is_of_the_rows_that_the_example_stages() -> None:
    wish, _ = re.findall(r'```json\n(\{"application".*?)```', PAGE, re.DOTALL)
    rows = b"PUB orders.eu 5\r\nfirst\r\nPUB orders.us 6\r\nsecond\r\n"
    stage = {"stage": "all", "bytes": len(rows), "crc32": crc32(rows)}
    assert json.loads(wish)["stages"] == [stage]


def test_given_the_statuses_then_the_page_has_all_that_the_broker_answers() -> None:
    sources = [*(ROOT / "broker" / "staging").glob("*.py")]
    said = {
        status
        for path in sources
        for status in re.findall(
            r"Refusal\(\s*(\d{3})", path.read_text().replace("AGAIN", str(AGAIN))
        )
    }
    engine = (ROOT / "sequencer" / "replica" / "batches" / "batch_commits.py").read_text()
    words = re.findall(r"StageRefused\(m\.([A-Z]+)", engine)
    shown = {"BUSY": "409"}  # StagingService says so
    # A member of this version sends no BAD request.
    said |= {shown.get(word, str(getattr(m, word))) for word in words if word != "BAD"}
    listed = set(re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE))
    assert said == listed


def test_given_the_settings_then_the_page_has_all_of_them_with_their_defaults() -> None:
    listed = re.findall(r"^\| `(staging\.\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE)
    ours = {
        path: setting.default for path, setting in SETTINGS.items() if path.startswith("staging.")
    }
    assert {path for path, _ in listed} == set(ours)
    words = {"4 GiB": 4 << 30, "4096": 4096, "10 minutes": 600.0, "10 000": 10_000}
    words |= {"6 hours": 21_600.0, "50": 50, "25": 25, "365 days": 365 * 86_400.0, "1": 1}
    assert {path: words[text.strip()] for path, text in listed} == ours
