"""What people look at: the dashboard, made of the tables of metrics; rules, alerts, the console."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jetstream import Dialogue, Step
from tests.support.multicast import new_group
from tests.support.places import ROOT
from tests.support.processes import STAND_IN, ServerProcess
from tests.support.prometheus import DEPLOY, WAIT_S, result_of, scraping, tools_of_debian
from tests.support.raw import QUIET, RawClient
from tests.support.serving import feed_text
from tests.support.web import get, monitored

FOLDER = ROOT / "deploy" / "grafana"
WORDS = {"$job": "seriatim", "$instance": ".+", "$__rate_interval": "1m", "$__range": "1h"}
METRIC = re.compile(r"\b((?:seriatim|process)_[a-z_]+|\w+:seriatim_\w+:\w+)")
EMPTY = re.compile(r"<th>([^<]*)</th><td><a href=\"[^\"]*\">(-|\+?NaN|NaN)</a>")
SLOW = b'CONNECT {"verbose":false,"name":"archive"}\r\nSUB a 1\r\n'


def make(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(folder / "make_dashboard.py"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the dashboard and of what makes it."""
    return Path(shutil.copytree(FOLDER, tmp_path / "grafana"))


def test_given_the_dashboard_in_the_repository_then_it_is_what_its_tables_make() -> None:
    done = make(FOLDER, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_given_a_dashboard_that_was_edited_then_the_check_fails_and_says_what_to_do(
    copied: Path,
) -> None:
    file = copied / "seriatim.json"
    file.write_text(file.read_text().replace('"title": "Payload"', '"title": "Bytes"'))
    done = make(copied, "--check")
    assert done.returncode == 1
    assert done.stdout == "seriatim.json is not current: run deploy/grafana/make_dashboard.py\n"
    assert make(copied).returncode == 0
    assert file.read_text() == (FOLDER / "seriatim.json").read_text()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("@message_ids", "@mesage_ids", "there is no metric 'mesage_ids'; see panels.toml"),
        ('    "ids: @message_ids",\n', "", "no panel shows message_ids; add them to panels.toml"),
    ],
    ids=["unknown", "left out"],
)
def test_given_a_table_that_does_not_fit_the_metrics_then_an_error_says_where(
    copied: Path, before: str, after: str, said: str
) -> None:
    table = copied / "panels.toml"
    assert before in table.read_text()
    table.write_text(table.read_text().replace(before, after))
    done = make(copied)
    assert (done.returncode, done.stderr) == (1, f"make_dashboard: {said}\n")


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    """A broker with every feature that one alone can have, a stream and a consumer."""
    feed = feed_text(new_group(), codec="moldudp64", rerequest_port=-1)
    more = ("--jetstream", "--feed", feed, "--sequencer_port", "-1")
    with monitored("netstring", *more) as process:
        dialogue = Dialogue(process.port)
        dialogue.ask(Step("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}))
        config = {"stream_name": "S", "config": {"durable_name": "C"}}
        dialogue.ask(Step("$JS.API.CONSUMER.DURABLE.CREATE.S.C", config))
        dialogue.close()
        yield process


def work(client: RawClient, sid: int) -> None:
    """Publish some messages, and replay one."""
    client.ask(b"PUB a 65536\r\n%b\r\n" % (b"x" * 65536) * 8)
    client.send(b"SUB $SEQ.RANGE.1.1.> %d\r\n" % sid)
    while not client.operation().subject.startswith(b"$SEQ.END."):
        pass


def queries() -> set[str]:
    """Those of all panels but a cluster's."""
    found = set()
    for panel in json.loads((FOLDER / "seriatim.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for word, value in WORDS.items():
                query = query.replace(word, value)
            found.add(query)
    return {query for query in found if "seriatim_cluster_" not in query}


def of_rules() -> set[str]:
    """What recording rules make, and every metric that rules and alerts ask for."""
    text = "".join((DEPLOY / name).read_text() for name in ("rules.yml", "alerts.yml"))
    asked = re.findall(r"^ *(?:expr|- record): (.*)$", text, re.MULTILINE)
    found = {name for line in asked for name in METRIC.findall(line)}
    return {name for name in found if not name.startswith("seriatim_cluster_")}


def without_data(port: int) -> list[str]:
    """The lines of the console that show nothing for the broker."""
    page = get(port, "/consoles/seriatim.html")
    assert page.status == 200, page.body
    text = page.body.decode()
    assert "<h1>Seriatim</h1>" in text
    found = [line for line, _ in EMPTY.findall(text)]
    return found if "<td>archive</td>" in text else [*found, "Slow clients"]


def has_data(port: int, query: str) -> bool:
    return any(one["value"][1] != "NaN" for one in result_of(port, query))


@pytest.mark.skipif(STAND_IN, reason="metrics are our own")
def test_given_a_broker_at_work_when_dashboard_rules_and_console_ask_then_all_have_data(
    broker: ServerProcess, tmp_path: Path
) -> None:
    left, lines, sid = queries() | of_rules(), ["not asked"], 1
    assert len(left) > 150
    deadline = time.monotonic() + WAIT_S
    with (
        scraping(tools_of_debian(), tmp_path, broker) as port,
        RawClient(broker.port, SLOW, receive_buffer=4096),
        RawClient(broker.port, QUIET) as client,
    ):
        while (left or lines) and time.monotonic() < deadline:
            work(client, sid := sid + 1)
            left = {query for query in left if not has_data(port, query)}
            lines = without_data(port)
    assert (left, lines) == (set(), [])


def test_given_the_console_then_its_figures_are_those_of_a_broker_and_of_the_rules() -> None:
    text = (DEPLOY / "consoles" / "seriatim.html").read_text()
    recorded = set(re.findall(r"record: (\S+)", (DEPLOY / "rules.yml").read_text()))
    used = {name for name in METRIC.findall(text) if ":" in name}
    assert used
    assert used <= recorded
