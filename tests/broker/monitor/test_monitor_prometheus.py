"""A real Prometheus (Debian's) scrapes a running broker, and accepts our rules."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.multicast import new_group
from tests.support.places import ROOT
from tests.support.processes import ServerProcess
from tests.support.prometheus import DEPLOY, ask, await_query, run, scraping, tools_of_debian
from tests.support.raw import QUIET, RawClient
from tests.support.serving import feed_text
from tests.support.web import get, http_port, monitored


@pytest.fixture(scope="module")
def tools() -> dict[str, str]:
    """Where `prometheus` and `promtool` are."""
    return tools_of_debian()


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    feed = feed_text(new_group(), codec="moldudp64", rerequest_port=-1)
    with monitored("netstring", "--feed", feed) as process:
        yield process


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
    assert "9 rules found" in said
    assert "36 rules found" in said


@pytest.mark.parametrize("of", ["cluster", "latency", "stream"])
def test_given_figures_when_promtool_judges_the_alerts_then_the_right_ones_fire(
    tools: dict[str, str], of: str
) -> None:
    cases = ROOT / "tests" / "broker" / "monitor" / f"{of}_alerts.yml"
    assert "SUCCESS" in run(tools["promtool"], "test", "rules", str(cases))


@pytest.fixture(scope="module")
def prometheus(
    tools: dict[str, str], broker: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """Prometheus with our configuration; its port."""
    with scraping(tools, tmp_path_factory.mktemp("prometheus"), broker) as port:
        yield port


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


def test_given_the_alerts_when_loaded_then_prometheus_watches_them(prometheus: int) -> None:
    await_query(prometheus, 'up{job="seriatim"}', "1")
    groups = ask(prometheus, "/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, "unknown: not asked yet"
    assert [rule["name"] for rule in rules if rule["type"] == "alerting"] == [
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
        "SeriatimSyncsAreSlow",
        "SeriatimWritesAreSlow",
        "SeriatimLoopStalls",
        "SeriatimLoopIsBusy",
        "SeriatimClientFallsBehind",
    ]
