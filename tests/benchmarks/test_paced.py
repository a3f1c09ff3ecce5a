"""Messages at a steady rate, and requests, on real servers: each is counted, and each wait kept."""

import dataclasses

import pytest

from benchmarks import paced
from benchmarks.errors import BenchmarkError
from benchmarks.paced import run_paced, run_requests
from benchmarks.runner import greatest_common_rate, run_scenario
from benchmarks.scenarios import Paced, Requests
from benchmarks.servers import KNOWN
from tests.benchmarks.test_flood import stub

SMALL = Paced(
    name="x", about="", messages=2000, size=32, publishers=20, rate=10_000, together=5,
    subscribers=2,
)  # fmt: skip
FRAMES = ["seriatim", "seriatim-header", "nats-server"]


@pytest.fixture(autouse=True)
def on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may be as late as this machine makes it."""
    monkeypatch.setattr(paced, "LATE_SECONDS", 60)


@pytest.mark.parametrize("server", FRAMES)
def test_given_a_rate_when_many_publish_a_little_then_each_message_and_each_wait_counts(
    server: str,
) -> None:
    sample = run_paced(SMALL, KNOWN[server])
    assert (sample.messages, sample.deliveries) == (2000, 4000)
    assert sample.server_cpu_seconds > 0
    assert sample.generator_cpu_seconds > 0
    assert sample.in_per_second < 20_000
    waits = (sample.p50_us, sample.p90_us, sample.p99_us, sample.p999_us, sample.max_us)
    assert 0 < waits[0] <= waits[1] <= waits[2] <= waits[3] <= waits[4]


def test_given_no_rate_when_published_then_the_server_sets_it_and_no_wait_is_reported() -> None:
    sample = run_paced(dataclasses.replace(SMALL, rate=0), KNOWN["nats-server"])
    assert sample.in_per_second > 100
    assert sample.p50_us == sample.max_us == 0


@pytest.mark.parametrize(
    ("fault", "said"), [("again", "other messages"), ("close", "closed a subscriber")]
)
def test_given_a_broker_that_errs_when_run_then_the_run_is_an_error(fault: str, said: str) -> None:
    with pytest.raises(BenchmarkError, match=said):
        run_paced(dataclasses.replace(SMALL, together=1), stub(fault))


def test_given_a_rate_that_cannot_be_when_run_then_the_run_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paced, "LATE_SECONDS", 0)
    fast = dataclasses.replace(SMALL, rate=10_000_000)
    with pytest.raises(BenchmarkError, match="messages took"):
        run_paced(fast, KNOWN["nats-server"])


def test_given_a_percentage_when_run_then_all_servers_have_the_rate_that_the_slowest_allows() -> (
    None
):
    shape = dataclasses.replace(SMALL, messages=500, rate=0, together=1, subscribers=1)
    scenario = dataclasses.replace(shape, percent=5)
    servers = [KNOWN["seriatim"], KNOWN["nats-server"]]
    results = run_scenario(scenario, servers, 1, lambda _: None)
    rates = {result.scenario.rate for result in results if isinstance(result.scenario, Paced)}
    known = dataclasses.replace(shape, name="greatest")
    assert rates == {int(greatest_common_rate(known, tuple(servers)) * 0.05)}
    assert [len(result.samples) for result in results] == [1, 1]


@pytest.mark.parametrize("server", [*FRAMES, "seriatim-requests"])
@pytest.mark.parametrize("size", [0, 300])
def test_given_clients_that_ask_when_run_then_each_answer_is_waited_for(
    server: str, size: int
) -> None:
    requests = Requests(name="x", about="", requests=1000, size=size, clients=7)
    sample = run_requests(requests, KNOWN[server])
    assert (sample.messages, sample.deliveries) == (1000, 1000)
    assert 0 < sample.p50_us <= sample.max_us
    assert sample.server_cpu_seconds > 0
