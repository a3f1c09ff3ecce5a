"""Grafana's dashboard: made of the tables of metrics, and each query of it brings data."""

import json
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
from tests.support.prometheus import WAIT_S, result_of, scraping, tools_of_debian
from tests.support.raw import QUIET, RawClient
from tests.support.serving import feed_text
from tests.support.web import monitored

FOLDER = ROOT / "deploy" / "grafana"
WORDS = {"$job": "seriatim", "$instance": ".+", "$__rate_interval": "1m", "$__range": "1h"}
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


def has_data(port: int, query: str) -> bool:
    return any(one["value"][1] != "NaN" for one in result_of(port, query))


@pytest.mark.skipif(STAND_IN, reason="metrics are our own")
def test_given_a_broker_at_work_when_the_dashboard_asks_then_every_query_has_data(
    broker: ServerProcess, tmp_path: Path
) -> None:
    left, sid = queries(), 1
    assert len(left) > 100
    deadline = time.monotonic() + WAIT_S
    with (
        scraping(tools_of_debian(), tmp_path, broker) as port,
        RawClient(broker.port, SLOW, receive_buffer=4096),
        RawClient(broker.port, QUIET) as client,
    ):
        while left and time.monotonic() < deadline:
            work(client, sid := sid + 1)
            left = {query for query in left if not has_data(port, query)}
    assert left == set()
