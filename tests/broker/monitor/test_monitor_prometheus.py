"""A real Prometheus (Debian's) scrapes a running broker, and accepts our rules."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.multicast import new_group
from tests.support.places import ROOT
from tests.support.processes import ServerProcess
from tests.support.raw import QUIET, RawClient
from tests.support.serving import feed_text
from tests.support.web import get, http_port, monitored

TOOLS = ROOT / "build" / "prometheus"
DEPLOY = ROOT / "deploy" / "prometheus"
WAIT_S = 60.0


def from_debian() -> str:
    """Unpack Debian's package beside the build; why it cannot be, or nothing.

    Unpacked, not installed: no service of the machine is started or changed.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "prometheus is not installed, and this is no Debian to fetch it from"
    TOOLS.mkdir(parents=True, exist_ok=True)
    for command in (["apt-get", "download", "prometheus"], ["apt-get", "update", "--quiet"]):
        done = subprocess.run(command, cwd=TOOLS, capture_output=True, text=True, check=False)
        if done.returncode == 0 and command[1] == "download":
            break
        if done.returncode == 0:
            subprocess.run(["apt-get", "download", "prometheus"], cwd=TOOLS, check=False)
    packages = sorted(TOOLS.glob("prometheus_*.deb"))
    if not packages:
        return f"prometheus is not installed, and cannot be fetched: {done.stderr.strip()[-200:]}"
    subprocess.run(["dpkg-deb", "-x", str(packages[-1]), str(TOOLS)], check=True)
    return ""


@pytest.fixture(scope="module")
def tools() -> dict[str, str]:
    """Where `prometheus` and `promtool` are."""
    found = {name: shutil.which(name) for name in ("prometheus", "promtool")}
    if not all(found.values()):
        unpacked = TOOLS / "usr" / "bin"
        reason = "" if (unpacked / "promtool").exists() else from_debian()
        if reason:
            pytest.skip(reason)
        found = {name: str(unpacked / name) for name in found}
    return {name: str(path) for name, path in found.items()}


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    feed = feed_text(new_group(), codec="moldudp64", rerequest_port=-1)
    with monitored("netstring", "--feed", feed) as process:
        yield process


def run(*command: str, stdin: bytes = b"") -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=WAIT_S)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def test_given_our_metrics_when_promtool_reads_them_then_it_has_nothing_to_say(
    tools: dict[str, str], broker: ServerProcess
) -> None:
    text = get(http_port(broker), "/metrics").body
    assert run(tools["promtool"], "check", "metrics", stdin=text) == ""


def test_given_our_configuration_when_promtool_reads_it_then_it_is_right(
    tools: dict[str, str],
) -> None:
    said = run(tools["promtool"], "check", "config", str(DEPLOY / "prometheus.yml"))
    assert "SUCCESS" in said
    assert "31 rules found" in said


@pytest.mark.parametrize("of", ["cluster", "stream"])
def test_given_figures_when_promtool_judges_the_alerts_then_the_right_ones_fire(
    tools: dict[str, str], of: str
) -> None:
    cases = ROOT / "tests" / "broker" / "monitor" / f"{of}_alerts.yml"
    assert "SUCCESS" in run(tools["promtool"], "test", "rules", str(cases))


def ask(port: int, path: str) -> Any:
    """What Prometheus' API says; nothing while it does not answer yet."""
    try:
        page = get(port, path)
    except OSError:
        return None
    return json.loads(page.body) if page.status == 200 else None


def await_query(port: int, query: str, wanted: str) -> list[Any]:
    """Ask Prometheus until the query has the value. It scrapes every second."""
    deadline = time.monotonic() + WAIT_S
    pause = 0.05
    while time.monotonic() < deadline:
        answer = ask(port, f"/api/v1/query?query={quote(query)}")
        result = answer["data"]["result"] if answer else []
        if result and result[0]["value"][1] == wanted:
            return list(result)
        time.sleep(pause)  # another program's state: there is no event to await
        pause = min(2 * pause, 0.5)
    raise AssertionError(f"{query} did not become {wanted}: {answer}")


@pytest.fixture(scope="module")
def prometheus(
    tools: dict[str, str], broker: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """Prometheus with our configuration; its port."""
    with scraping(tools, tmp_path_factory.mktemp("prometheus"), broker) as port:
        yield port


@contextmanager
def scraping(
    tools: dict[str, str], folder: Path, broker: ServerProcess, more: str = ""
) -> Iterator[int]:
    """Prometheus with our configuration and `more` of it, made to scrape every second; its port."""
    config = (DEPLOY / "prometheus.yml").read_text()
    assert "127.0.0.1:8222" in config
    config = config.replace("127.0.0.1:8222", f"127.0.0.1:{http_port(broker)}")
    assert config.count("  - job_name: seriatim\n") == 1
    config = config.replace("  - job_name: seriatim\n", f"  - job_name: seriatim\n{more}")
    (folder / "prometheus.yml").write_text(config.replace("15s", "1s"))
    shutil.copy(DEPLOY / "alerts.yml", folder)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                tools["prometheus"],
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield port_said_in(folder / "log", process)
    finally:
        process.terminate()
        process.wait(WAIT_S)


def test_given_a_user_for_monitoring_when_prometheus_has_its_password_then_it_scrapes(
    tools: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("sesame\n")
    more = f"    basic_auth: {{username: ops, password_file: {tmp_path}/secret}}\n"
    arguments = ("--http_user", "ops", "--http_pass", f"file:{tmp_path}/secret")
    with monitored("none", *arguments) as broker:
        assert get(http_port(broker), "/metrics").status == 401
        with scraping(tools, tmp_path, broker, more) as port:
            await_query(port, 'up{job="seriatim"}', "1")


def port_said_in(log: Path, process: "subprocess.Popen[bytes]") -> int:
    """Wait until Prometheus says where it listens."""
    while not (found := re.search(r'"Listening on" address=127\.0\.0\.1:(\d+)', log.read_text())):
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)  # no event to await: a file tells nobody that it has grown
    return int(found[1])


def test_given_a_broker_when_prometheus_scrapes_it_then_it_sees_its_traffic(
    broker: ServerProcess, prometheus: int
) -> None:
    with RawClient(broker.port, QUIET) as client:
        client.ask(b"SUB a 1\r\n" + b"PUB a 3\r\nabc\r\n" * 10)
        await_query(prometheus, 'seriatim_messages_total{direction="in"}', "10")
        await_query(prometheus, 'seriatim_bytes_total{direction="out"}', "30")
        await_query(prometheus, "seriatim_sequence", "10")
        await_query(prometheus, "seriatim_connections", "1")
        await_query(prometheus, 'up{job="seriatim"}', "1")
        (info,) = await_query(prometheus, "seriatim_build_info", "1")
    assert info["metric"]["frame"] == "netstring"
    assert info["metric"]["job"] == "seriatim"
    await_query(prometheus, "seriatim_connections", "0")


def test_given_the_dashboard_when_its_queries_are_asked_then_prometheus_understands_them(
    broker: ServerProcess, prometheus: int
) -> None:
    await_query(prometheus, 'up{job="seriatim"}', "1")
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "seriatim.json").read_text())
    words = {"$job": "seriatim", "$instance": ".+", "$__rate_interval": "1m", "$__range": "1h"}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            query = target["expr"]
            for word, value in words.items():
                query = query.replace(word, value)
            answer = ask(prometheus, f"/api/v1/query?query={quote(query)}")
            assert answer is not None, query
            assert answer["status"] == "success", query


def test_given_the_alerts_when_loaded_then_prometheus_watches_them(prometheus: int) -> None:
    await_query(prometheus, 'up{job="seriatim"}', "1")
    groups = ask(prometheus, "/api/v1/rules")["data"]["groups"]
    assert [rule["name"] for group in groups for rule in group["rules"]] == [
        "SeriatimDown",
        "SeriatimRestarted",
        "SeriatimJournalFull",
        "SeriatimJournalDamaged",
        "SeriatimJournalErrors",
        "SeriatimCatchUpDoesNotEnd",
        "SeriatimCatchUpGivenUp",
        "SeriatimFeedErrors",
        "SeriatimFeedUnfit",
        "SeriatimRerequestsRefused",
        "SeriatimClusterNoCoordinator",
        "SeriatimClusterTooFewInSync",
        "SeriatimClusterUnhealthy",
        "SeriatimClusterStalled",
        "SeriatimClusterMemberLags",
        "SeriatimClusterClockIsWrong",
        "SeriatimJournalIsAhead",
        "SeriatimClusterMemberNotInSync",
        "SeriatimClusterEngineDown",
        "SeriatimSlowConsumers",
        "SeriatimLoginsRefused",
        "SeriatimSubscriberLags",
        "SeriatimNearlyFull",
        "SeriatimFewDescriptors",
        "SeriatimConsumerLostMessages",
        "SeriatimConsumerDoesNotAck",
        "SeriatimConsumerStands",
        "SeriatimConsumerLags",
        "SeriatimConsumerRedelivers",
        "SeriatimStreamApiErrors",
        "SeriatimStreamsNotReady",
    ]
